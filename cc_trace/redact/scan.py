"""Where in a text secrets stand.

The rule here: no expression searches the text. One scan finds where a hint stands, and a pattern is tried there and
nowhere else; so the time is linear in the text, and text without hints costs the scan alone.
"""

from __future__ import annotations

import re
from codecs import utf_16_be_decode
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

from cc_trace.redact.logins import LOGINS, key_tail, password_span
from cc_trace.redact.names import assigned_secret, compiled, may_be_secret
from cc_trace.redact.patterns import BARE, LONGEST, PATTERNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Start, end, and the place of its pattern in `PATTERNS`.
Span: TypeAlias = tuple[int, int, int]

# What to try where a unit stands: how far before it hints begin, which hints, and the places of their patterns. A plain
# tuple, because it is looked at a thousand times for one secret.
_Try: TypeAlias = tuple[int, tuple[str, ...], tuple[int, ...]]

# The commonest pairs and characters: a hint is better looked for elsewhere.
_COMMON_PAIRS: Final = (
    "er en re es in nt on te se st at ti de to ss an le io or me ro si ta ge al he co as ng ed it ch th is nd il id ec"
    " ar ra ut ns om ex pe oo ol li ri ag us la tr ve ha ea et ne ac pa ou rs yp ce ct ty fi sh"
)
_COMMON: Final = "etaoinsrlcdpmuhgf-/."


def secrets(text: str) -> list[Span]:
    """Give where secrets stand, in no order; they may overlap."""
    units, tries = _scan()
    found: list[Span] = []
    done: dict[int, int] = {}
    for hit in units.finditer(_pairs(text)):
        at = 2 * hit.start()
        for before, hints, ranks in tries[hit[0]]:
            start = at - before
            if text.startswith(hints, start):
                for rank in ranks:
                    # What a pattern has found it is not asked for again: else a run of hints took time in its square.
                    if start >= done.get(rank, 0) and (secret := _tried(rank, text, start)):
                        done[rank] = secret[1]
                        found.append((*secret, rank))
    return found


def _tried(rank: int, text: str, start: int) -> tuple[int, int] | None:
    pattern = PATTERNS[rank]
    found = compiled(pattern.expression).match(text, start)
    secret = _secret(pattern.name, found) if found else None
    if secret and secret[1] - secret[0] == LONGEST and (rest := compiled(f"{BARE}+").match(text, secret[1])):
        return secret[0], rest.end()
    return secret


def _secret(name: str, found: re.Match[str]) -> tuple[int, int] | None:
    match found.lastgroup:
        case None | "secret":
            return found.span(found.lastgroup or 0)
        case "value":
            return found.span("value") if may_be_secret(name, found["value"], "data") else None
        case "tail":
            return key_tail(found)
        case group if is_login := LOGINS.get(group):
            return password_span(found) if is_login(found) else None
        case _:
            return assigned_secret(name, found)


def _pairs(text: str) -> str:
    """Put every two characters into one, so that the scan looks for pairs: these are rarer, and half as many."""
    # Not `decode("utf-16-be")`: looking up that name takes as long as all the rest does with a short text.
    return utf_16_be_decode((text if len(text) % 2 == 0 else text + " ").encode("ascii", "replace"))[0]


def _unit(pair: str) -> str:
    """Give the character that a pair becomes, or the range of those that one known character can begin."""
    first = ord(pair[0]) << 8
    return chr(first | ord(pair[1])) if len(pair) > 1 else f"{chr(first)}-{chr(first | 255)}"


def _rarest(hint: str) -> int:
    """Give where in a hint the pair stands that is, with the pair one further, the rarest."""

    def rarity(at: int) -> tuple[int, int]:
        rare_pairs = sum(hint[place : place + 2] not in _COMMON_PAIRS for place in (at, at + 1))
        return rare_pairs, sum(character not in _COMMON for character in hint[at : at + 3])

    return max(range(max(1, len(hint) - 3)), key=rarity)


@cache
def _scan() -> tuple[re.Pattern[str], Mapping[str, Sequence[_Try]]]:
    """Give the expression that finds units of hints in `_pairs`, and what to try where one stands.

    A hint may begin at an even or at an odd place: it is looked for by its rarest pair, and by the pair one further.
    A unit counts if one follows that follows in a hint, as far as the hint goes: by both characters, by one, by none.
    """
    places: dict[tuple[str, int], dict[str, set[int]]] = {}
    units: dict[tuple[int, int], set[str]] = {}
    follow: dict[tuple[int, int], set[str]] = {}
    for rank, pattern in enumerate(PATTERNS):
        for hint in pattern.hints:
            for odd in (0, 1):
                at = _rarest(hint) + odd
                unit, more = _unit(hint[at : at + 2]), hint[at + 2 : at + 4]
                places.setdefault((unit, at), {}).setdefault(hint, set()).add(rank)
                kind = len(more), odd * len(more) // 2
                units.setdefault(kind, set()).add(unit)
                follow.setdefault(kind, set()).update([_unit(more)] if more else [])
    tries: dict[str, list[_Try]] = {}
    for (unit, at), hints in places.items():
        tries.setdefault(unit, []).append((at, tuple(hints), tuple(sorted(set().union(*hints.values())))))
    counts = (
        f"(?<=[{''.join(units[kind])}])" + (f"(?=[{''.join(then)}])" if then else "") for kind, then in follow.items()
    )
    return re.compile(f"[{''.join(tries)}](?:{'|'.join(counts)})"), tries
