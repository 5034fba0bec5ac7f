"""Finds secrets in a text.

Rule: no expression searches the text. One scan finds the hints, and patterns are tried only there. So the time is
linear in the text, and text without hints costs only the scan.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from cc_trace.privacy.assignments import assigned_secret, compiled, may_be_secret, may_name_key
from cc_trace.privacy.logins import COMMANDS, LOGINS, key_tail, may_be_in_command, password_span
from cc_trace.privacy.patterns import BARE, LONGEST, PATTERNS

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from ahocorasick_rs import BytesAhoCorasick, Implementation

    from cc_trace.privacy.patterns import Pattern

# The unit of work is about a microsecond: trying an expression, judging a match by its group, reading a character of it
# in the slowest check. This is the budget per character of a text, computed as if the text were this much longer. In
# 57 million characters of transcripts, code and documentation no text needed half of it.
_ATTEMPT: Final = 1.5
_JUDGEMENT: Final = 9.0
_JUDGEMENTS: Final[Mapping[str | None, float]] = MappingProxyType({None: 1.0, "secret": 1.0, "quoted": 5.0})
_COMMAND: Final = 20.0
_CHARACTER: Final = 0.25
_WORK_PER_CHARACTER: Final = 0.5
_LONGER: Final = 1000

_STARTS: Final = tuple(pattern.at_start for pattern in PATTERNS if pattern.at_start)
_RANKS_AT_START: Final = tuple(rank for rank, pattern in enumerate(PATTERNS) if pattern.at_start)
_QUICKLY_BUILT_BYTES: Final = 2_000_000

# Start, end, and the index of its pattern in `PATTERNS`.
Match: TypeAlias = tuple[int, int, int]


class Budget:
    """The work that remains for a text, over all searches of it."""

    __slots__ = ("remaining",)

    def __init__(self, text: str) -> None:
        self.remaining = _WORK_PER_CHARACTER * (len(text) + _LONGER)


def secrets(text: str, budget: Budget | None = None) -> list[Match]:
    """Return the secrets in a text, in no particular order. They may overlap.

    If a text has so many hints that they use up its budget, all of it counts as one secret.
    """
    hints = _hints()
    tries = [(hints.ranks[hint], start) for hint, start, _ in hints.find(text)]
    if text.startswith(_STARTS):
        tries.insert(0, (_RANKS_AT_START, 0))
    if not tries:  # true of nearly all texts
        return []
    matches: list[Match] = []
    end_by_rank: dict[int, int] = {}
    budget = budget or Budget(text)
    for ranks, start in tries:
        for rank in ranks:
            # A pattern is not tried again within its own match: a run of hints would take quadratic time.
            if start < end_by_rank.get(rank, 0):
                continue
            pattern = PATTERNS[rank]
            is_candidate = pattern.name != "key" or may_name_key(text, start)
            match = compiled(pattern.expression).match(text, start) if is_candidate else None
            budget.remaining -= _work(match)
            if budget.remaining < 0:
                return [(0, len(text), rank)]
            if match and (secret := _secret_span(pattern, match)):
                end_by_rank[rank] = secret[1]
                matches.append((*secret, rank))
    return matches


def hint_spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of hints. A text without hints, and without any of `at_start`, has no secret."""
    return [(start, end) for _, start, end in _hints().find(text)]


def _work(match: re.Match[str] | None) -> float:
    if match is None:
        return _ATTEMPT
    if match.lastgroup in COMMANDS:
        judgement = _COMMAND if may_be_in_command(match) else _ATTEMPT
    else:
        judgement = _JUDGEMENTS.get(match.lastgroup, _JUDGEMENT)
    return _ATTEMPT + judgement + _CHARACTER * (match.end() - match.start())


def _secret_span(pattern: Pattern, match: re.Match[str]) -> tuple[int, int] | None:
    text, start = match.string, match.start()
    secret = _span_in_match(pattern.name, match)
    if secret and pattern.front:
        characters, min_length, max_length = pattern.front
        before = text[max(0, start - max_length) : start]
        length = len(before) - len(before.rstrip(characters))
        return (start - length, secret[1]) if length >= min_length else None
    if secret and secret[1] - secret[0] == LONGEST and (rest := compiled(f"{BARE}+").match(text, secret[1])):
        return secret[0], rest.end()
    return secret


def _span_in_match(name: str, candidate: re.Match[str]) -> tuple[int, int] | None:
    match candidate.lastgroup:
        case None | "secret":
            return candidate.span(candidate.lastgroup or 0)
        case "value":
            return candidate.span("value") if may_be_secret(name, candidate["value"], "data") else None
        case "tail":
            return key_tail(candidate)
        case group if is_login := LOGINS.get(group):
            return password_span(candidate) if is_login(candidate) else None
        case _:
            return assigned_secret(name, candidate)


class _Hints:
    """Finds the hints of all patterns with an automaton, and knows which patterns to try at each.

    Building the automaton that searches fastest takes as long as searching 2 MB with the other one. A worker searches
    less, a backfill more: so it is built after that much.
    """

    def __init__(self) -> None:
        from ahocorasick_rs import Implementation  # noqa: PLC0415 -- not to slow a start down

        ranks: dict[str, list[int]] = {}
        for rank, pattern in enumerate(PATTERNS):
            for hint in pattern.hints:
                ranks.setdefault(hint, []).append(rank)
        self.ranks: Final = tuple(map(tuple, ranks.values()))  # of the patterns to try, for each hint
        self._hints = [hint.encode("ascii") for hint in ranks]
        self._automaton = self._build(Implementation.ContiguousNFA)
        self._remaining_bytes = _QUICKLY_BUILT_BYTES

    def find(self, text: str) -> list[tuple[int, int, int]]:
        """Return each hint in a text, by number, with its start and its end. Hints may overlap."""
        data = text.encode("ascii", "replace")  # a byte per character, so that positions are equal; hints are ASCII
        if self._remaining_bytes > 0:
            self._remaining_bytes -= len(data)
            if self._remaining_bytes <= 0:
                from ahocorasick_rs import Implementation  # noqa: PLC0415 -- not to slow a start down

                self._automaton = self._build(Implementation.DFA)
        return self._automaton.find_matches_as_indexes(data, overlapping=True)

    def _build(self, implementation: Implementation) -> BytesAhoCorasick:
        from ahocorasick_rs import BytesAhoCorasick  # noqa: PLC0415 -- not to slow a start down

        return BytesAhoCorasick(self._hints, implementation=implementation)


@cache
def _hints() -> _Hints:
    return _Hints()
