"""Finds further copies of masked secrets: a secret identified in one place may appear bare, or encoded, in another.

Rule: only a secret that cannot be mistaken for a word is searched for, so that `password: postgres` does not mask a
database's name all over a session. Secrets are never written anywhere: they are kept only as long as the object lives.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, quote_plus

from cc_trace.privacy.assignments import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ahocorasick_rs import BytesAhoCorasick

    from cc_trace.privacy.scan import Match

# With letters and digits, and either long or with a digit before a letter, which names do not have.
_DISTINCTIVE: Final = r"(?=[!-~]*[0-9])(?=[!-~]*[A-Za-z])(?:[!-~]{12,512}|(?=[!-~]*[0-9][A-Za-z])[!-~]{8,11})\Z"
# Joined words and numbers, such as versions and identifiers; a time, a call, a path.
_COMPOSED: Final = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[A-Za-z]+(?:[-_.:/][A-Za-z]+)*[-_.:]?v?[0-9]{0,4}(?:\.[0-9]+)*\Z"
    r"|.*[(){}<>\[\]$]|[~.]?/"
)
# A long text, not a constant's name, with more consecutive consonants or shorter camel-case parts than words have, or
# with many digits.
_CONSTANT: Final = r"[A-Z]+(?:_[A-Z]+)+\Z"
_ODD_LETTERS: Final = r"(?i:[bcdfghjklmnpqrstvwxz]{5})|(?:[A-Z][a-z]{0,2}(?=[A-Z])){3}"
_UNLIKE_WORDS: Final = rf"(?!{_CONSTANT})(?=.*(?:{_ODD_LETTERS}))[\w.~+=-]{{16,512}}\Z|[0-9]{{15,64}}\Z"
# Separates the parts of what is masked as one: a name and its password, cookies, the lines of a key.
_BETWEEN: Final = r"[\s:;,=&|@'\"]+"
_MAX_PARTS: Final = 64
_LONGEST: Final = 4096  # longer matches were masked as a whole because of what they contain
_SHORTEST_TORN: Final = 4  # of a secret that was cut, in characters
# More than a session has; later ones are ignored. The limit of characters covers all forms that are searched for,
# because the automaton is rebuilt with each new secret.
_MAX_SECRETS: Final = 500
_MAX_CHARACTERS: Final = 50_000


class Copies:
    """Remembers the secrets seen so far, and finds copies of them."""

    def __init__(self) -> None:
        self._rank_by_secret: dict[str, int] = {}
        self._rank_by_form: dict[bytes, int] = {}
        self._characters = 0
        self._finder: BytesAhoCorasick | None = None

    def __len__(self) -> int:
        """Return the number of secrets."""
        return len(self._rank_by_secret)

    def add(self, secret: str, rank: int) -> bool:
        """Remember a secret and its parts with the rank of its pattern; return whether any of them was new."""
        previous_count = len(self._rank_by_secret)
        if len(secret) > _LONGEST:
            return False
        for part in (secret, *compiled(_BETWEEN).split(secret, _MAX_PARTS)[:_MAX_PARTS]):
            if part not in self._rank_by_secret and len(self._rank_by_secret) < _MAX_SECRETS and _is_distinctive(part):
                self._learn(part, rank)
        return len(self._rank_by_secret) > previous_count

    def spans(self, text: str) -> list[Match]:
        """Return the spans of copies: of overlapping ones the first, of those with the same start the longest."""
        from ahocorasick_rs import BytesAhoCorasick, MatchKind  # noqa: PLC0415 -- not to slow a start down

        if self._finder is None:
            self._finder = BytesAhoCorasick(list(self._rank_by_form), matchkind=MatchKind.LeftmostLongest)
        ranks = tuple(self._rank_by_form.values())
        # As in `scan`: a byte for each character.
        matches = self._finder.find_matches_as_indexes(text.encode("ascii", "replace"))
        return [(start, end, ranks[form]) for form, start, end in matches]

    def torn(self, text: str) -> Match | None:
        """Return the span of the beginning of a secret at the end of a text, or None."""
        end = text[-_LONGEST:].encode("ascii", "replace")
        for form, rank in self._rank_by_form.items():
            for length in range(min(len(form), len(end)), _SHORTEST_TORN - 1, -1):
                if end.endswith(form[:length]):
                    return len(text) - length, len(text), rank
        return None

    def _learn(self, secret: str, rank: int) -> None:
        forms = [form.encode("ascii") for form in dict.fromkeys(_forms(secret))]
        self._characters += sum(map(len, forms))
        if self._characters > _MAX_CHARACTERS:
            return
        self._rank_by_secret[secret] = rank
        for form in forms:
            self._rank_by_form.setdefault(form, rank)
        self._finder = None


def _is_distinctive(secret: str) -> bool:
    if compiled(_UNLIKE_WORDS).match(secret):
        return True
    return compiled(_DISTINCTIVE).match(secret) is not None and not compiled(_COMPOSED).match(secret)


def _forms(secret: str) -> Iterator[str]:
    """Yield the ways a secret may be written: plain, in JSON, in JSON within JSON, in a URL, and in base64."""
    yield secret
    escaped = json.dumps(secret)[1:-1]
    yield escaped
    yield json.dumps(escaped)[1:-1]
    yield quote(secret, safe="")
    yield quote(secret)
    yield quote_plus(secret)
    for offset in range(3):
        # Preceding bytes shift its bits. The characters at its ends that mix in other bytes' bits are left out.
        encoded = b64encode(b"\0" * offset + secret.encode("ascii")).decode("ascii")
        end = (offset + len(secret)) * 8 // 6
        form = encoded[(0, 2, 3)[offset] : end]
        yield form
        yield form.translate({ord("+"): "-", ord("/"): "_"})
