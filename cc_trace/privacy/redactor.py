"""Replaces secrets with `[masked: NAME]` and leaves everything else unchanged."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final, TypeAlias

from cc_trace.errors import ConfigError
from cc_trace.privacy.assignments import HEADERS, compiled, is_password_key, kind_of, may_be_secret
from cc_trace.privacy.copies import Copies
from cc_trace.privacy.patterns import PATTERNS, Pattern
from cc_trace.privacy.scan import Budget, Match, hint_spans, secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cc_trace.privacy.assignments import Notation
    from cc_trace.transcript import JsonValue

__all__ = ["PATTERNS", "Pattern", "Redactor"]

_EXPRESSION_RANK: Final = len(PATTERNS)
_NAMES: Final = (*(pattern.name for pattern in PATTERNS), "own pattern")
_MARKER: Final = r"\[masked: [a-z0-9 ]{1,40}\]"
# No token is shorter, and an assignment has a character that identifiers do not have.
_SHORT: Final = 16
_SHORTEST_TEXT: Final = 7
# How many short texts without a secret are cached: keys, and texts as long as names and paths.
_MAX_CLEAN: Final = 4096
_LONGEST_CLEAN: Final = 64
# Longer texts are searched separately: with hints in them they would be searched twice.
_LONGEST_JOINED: Final = 2048
# Of thousands of real texts none needs more than two.
_MAX_PASSES: Final = 5

_Key: TypeAlias = str | int
_Container: TypeAlias = "dict[str, JsonValue] | list[JsonValue]"
# With its name and its position: the number of its parent container, and its key there.
_Placed: TypeAlias = "tuple[_Container, str, int, _Key]"
_PlacedText: TypeAlias = tuple[str, str, int, _Key]  # the name is empty if it is irrelevant
_CONTAINERS: Final = (dict, list)
_VALUES: Final = ("value", "Value")  # keys whose name is in a sibling field


class Redactor:
    """Masks secrets, and counts by name how many it has masked.

    Of the user's `expressions` the group `secret` is masked if there is one, else the whole match. A masked
    secret that cannot be mistaken for a word is from then on masked everywhere. Secrets are not kept longer than this
    object.
    """

    def __init__(self, expressions: Sequence[str] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self._expressions = tuple(_compile(number, expression) for number, expression in enumerate(expressions, 1))
        self._clean: set[str] = set()
        self._plain: set[str] = set()  # keys without a secret that say nothing about their values
        self._copies = Copies()
        self.secret_count = 0  # of secrets whose further copies are masked
        self.max_chars = 0  # no text of the last value has more

    def text(self, text: str) -> str:
        """Return the text without secrets; the same object if it has none. Existing markers are kept."""
        # Masking a secret can reveal the start of another one, so this repeats until nothing is found. A text crafted
        # to reveal one after the other would take quadratic time: it is masked as a whole.
        passes, budget = 0, Budget(text)
        while spans := self._spans(text, budget):
            passes += 1
            if passes > _MAX_PASSES:
                spans = [(0, len(text), spans[0][2])]
            parts: list[str] = []
            at = 0
            for start, end, rank in spans:
                parts += (text[at:start], _marker(_NAMES[rank]))
                at = end
                self._learn(text[start:end], rank)
            self.counts.update(_NAMES[rank] for _, _, rank in spans)
            text = "".join([*parts, text[at:]])
        return text

    def without_torn_secret(self, text: str) -> str:
        """Return a masked text that was cut, without the beginning of a known secret at its end."""
        if not self.secret_count or (torn := self._copies.torn(text.removesuffix("…"))) is None:
            return text
        start, end, rank = torn
        self.counts[_NAMES[rank]] += 1
        return text[:start] + _marker(_NAMES[rank]) + text[end:]

    def learn(self, value: JsonValue) -> None:
        """Remember the secrets of a value that itself does not leave. They are not counted."""
        counts = Counter(self.counts)
        self.value(value)
        self.counts = counts

    def value(self, value: JsonValue) -> JsonValue:
        """Return the value without secrets in its texts and keys; the same object, or parts of it, if there are none.

        A text under a secret's key is a secret, unless it is clearly something else. Any depth is walked. A secret
        found anywhere in the value is masked everywhere in it.
        """
        previous_count, counts = self.secret_count, {**self.counts}
        masked = self._without_secrets(value)
        for _ in range(_MAX_PASSES):
            if self.secret_count == previous_count:
                break
            # Texts before a secret that was found on the way may have copies of it.
            previous_count, self.counts = self.secret_count, Counter(counts)
            masked = self._without_secrets(value)
        return masked

    def _without_secrets(self, value: JsonValue) -> JsonValue:
        containers: list[_Placed] = [([value], "", 0, 0)]
        texts, in_keys = self._suspects(containers)
        self.max_chars = max([_LONGEST_JOINED, *(len(text) for text, _, _, _ in texts)])
        # The new values of texts and containers, by position.
        changes: dict[int, dict[_Key, JsonValue]] = {number: {} for number in in_keys}
        searched: set[tuple[str, str]] = set()  # and found clean: a tool's output occurs in more than one place
        for text, name, number, key in texts:
            if (name, text) not in searched:
                if (masked := self._mask_named(name, text)) is not text:
                    changes.setdefault(number, {})[key] = masked
                    self.max_chars = max(self.max_chars, len(masked))
                else:
                    searched.add((name, text))
        if not changes:
            return value
        for number in range(len(containers) - 1, 0, -1):
            if number in changes:
                container, _, parent, key = containers[number]
                changes.setdefault(parent, {})[key] = self._rebuild(container, changes[number])
        return changes[0][0]

    def _suspects(self, containers: list[_Placed]) -> tuple[list[_PlacedText], list[int]]:
        """Walk the containers, adding nested ones to the list; return what may have a secret.

        That is texts with their positions, and the numbers of containers with such keys.
        """
        in_keys: list[int] = []
        clean, plain = self._clean, self._plain
        short: list[_PlacedText] = []
        others: list[_PlacedText] = []
        for number, (container, container_name, _, _) in enumerate(containers):
            if isinstance(container, dict):
                is_plain = plain.issuperset(container)
                if not is_plain and not all(map(self._is_clean, container)):
                    in_keys.append(number)
                items: Iterable[tuple[_Key, JsonValue]] = container.items()
            else:
                is_plain, items = _is_irrelevant(container_name), enumerate(container)
            for key, item in items:
                if isinstance(item, str):
                    name = "" if is_plain else _secret_name(key, container_name, container)
                    if name or len(item) > _LONGEST_JOINED:
                        others.append((item, name, number, key))
                    elif item not in clean:
                        short.append((item, name, number, key))
                elif isinstance(item, _CONTAINERS):
                    # A list's items have the list's name.
                    containers.append((item, key if isinstance(key, str) else container_name, number, key))
        return [*others, *self._search_as_one(short)], in_keys

    def _search_as_one(self, texts: list[_PlacedText]) -> list[_PlacedText]:
        """Return the texts that may have a secret. They are searched as one: most of a short text's cost is overhead.

        A line break precedes each text, and patterns that apply only at the start of a text take it for one.
        """
        if self._expressions or not texts:
            return texts
        plain_texts = [text for text, _, _, _ in texts]
        joined = "\n".join(["", *plain_texts])
        spans = hint_spans(joined)
        if self.secret_count:
            spans += [(start, end) for start, end, _ in self._copies.spans(joined)]
        ends = [*accumulate([len(text) + 1 for text in plain_texts])] if spans else []
        # A match across texts may hide one that begins after the boundary.
        suspects = {bisect_right(ends, at) for start, end in spans for at in (start, end - 1)}
        clean = (text for at, text in enumerate(plain_texts) if len(text) <= _LONGEST_CLEAN and at not in suspects)
        self._clean.update(islice(clean, max(0, _MAX_CLEAN - len(self._clean))))
        return [texts[at] for at in sorted(suspects)]

    def _spans(self, text: str, budget: Budget | None = None) -> list[Match]:
        is_short = len(text) < _SHORTEST_TEXT or (len(text) < _SHORT and text.isidentifier())
        matches = [] if is_short else secrets(text, budget)
        if self.secret_count:
            matches += self._copies.spans(text)
        for expression in self._expressions:
            group = "secret" if "secret" in expression.groupindex else 0
            matches += [(*match.span(group), _EXPRESSION_RANK) for match in expression.finditer(text) if match[group]]
        return _merge(matches, text) if matches else []

    def _mask_named(self, name: str, text: str) -> str:
        """Return a text without secrets, or masked as a whole if its name is a secret's and it may be one."""
        kind = kind_of(name)
        if kind is None:
            return self.text(text)
        if kind in HEADERS and (masked := self.text(HEADERS[kind] + text)).startswith(HEADERS[kind]):
            masked = masked.removeprefix(HEADERS[kind])
            return text if masked == text else masked
        masked = self.text(text)
        notation: Notation = "password" if kind == "password" and is_password_key(name) else "quoted"
        # A text too long to be a secret itself may have contained one.
        is_secret = any(may_be_secret(kind, candidate, notation) for candidate in (text, masked))
        if not is_secret or compiled(_MARKER).fullmatch(masked):
            return masked
        self.counts[kind] += 1
        self._learn(text, _NAMES.index(kind))
        return _marker(kind)

    def _learn(self, secret: str, rank: int) -> None:
        if self._copies.add(secret, rank):
            self.secret_count = len(self._copies)
            self._clean.clear()
            self._plain.clear()

    def _rebuild(self, container: _Container, changes: dict[_Key, JsonValue]) -> _Container:
        """Return the container with the changes applied and its keys masked."""
        if isinstance(container, list):
            return [changes.get(at, item) for at, item in enumerate(container)]
        rebuilt: dict[str, JsonValue] = {}
        for key, item in container.items():
            masked = key if self._is_clean(key) else self.text(key)
            while masked in rebuilt:  # two keys may get the same marker: keep both entries
                masked += "*"
            rebuilt[masked] = changes.get(key, item)
        return rebuilt

    def _is_clean(self, key: str) -> bool:
        """Return whether a key has no secret. Results are cached: the same few keys recur."""
        if key not in self._clean:
            if self._spans(key):
                return False
            if len(self._clean) < _MAX_CLEAN:
                self._clean.add(key)
        if len(self._plain) < _MAX_CLEAN and _is_irrelevant(key):
            self._plain.add(key)
        return True


def _compile(number: int, expression: str) -> re.Pattern[str]:
    """Compile an expression. Errors do not quote it: it may be the secret itself."""
    try:
        compiled_expression = re.compile(expression)
    except re.error as error:
        message = f"mask: expression {number} is not a regular expression: {error}"
        raise ConfigError(message) from None
    if compiled_expression.search(""):
        message = f"mask: expression {number} matches empty text, so it would mask nothing"
        raise ConfigError(message)
    return compiled_expression


def _is_irrelevant(name: str) -> bool:
    """Return whether the name says nothing about the text, so that only the text itself counts."""
    return name not in _VALUES and kind_of(name) is None


def _secret_name(key: _Key, container_name: str, container: _Container) -> str:
    """Return a text's name if it is a secret's, else an empty one: its key, its list's key, or a sibling field's value.

    The sibling field is for variables and headers written as objects with `name` and `value`.
    """
    name = key if isinstance(key, str) else container_name
    if name in _VALUES and isinstance(container, dict):
        names = (container.get(field) for field in ("name", "Name", "key", "Key"))
        name = next((sibling for sibling in names if isinstance(sibling, str)), "value")
    return name if kind_of(name) is not None else ""


def _marker(name: str) -> str:
    return f"[masked: {name}]"


def _merge(matches: Iterable[Match], text: str) -> list[Match]:
    """Merge overlapping matches under the name with the higher rank; existing markers are kept."""
    markers = ((*marker.span(), len(_NAMES)) for marker in compiled(_MARKER).finditer(text))
    merged: list[Match] = []
    for start, end, rank in sorted([*matches, *markers]):
        if merged and start < merged[-1][1]:
            previous = merged[-1]
            merged[-1] = (previous[0], max(end, previous[1]), min(rank, previous[2]))
        else:
            merged.append((start, end, rank))
    return [span for span in merged if not compiled(_MARKER).fullmatch(text, span[0], span[1])]
