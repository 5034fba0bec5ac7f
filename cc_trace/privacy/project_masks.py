"""Masks what a project's own patterns match. Others may have written the patterns, so everything is bounded.

Rule: if a pattern takes too long, the text is withheld. It never passes unmasked, and never delays a delivery beyond
the limit for the text's length.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from cc_trace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regex import Pattern

    from cc_trace.transcript import JsonValue

MAX_PATTERNS: Final = 20
MAX_CHARS: Final = 200  # of one pattern
WITHHELD: Final = "[withheld: a mask of the project took too long]"
_MASKED: Final = "[masked: project pattern]"
_SECONDS: Final = 0.1  # for any text; long ones get more
_CHARS_PER_SECOND: Final = 200_000
_MAX_OVERRUNS: Final = 3  # after that all texts are withheld: the next ones would take just as long
# Nested repetitions are unrolled when a pattern is compiled, which without a limit could use up all memory.
_MAX_REPETITIONS: Final = 10_000
_BRACES: Final = re.compile(r"\{([^{}]*)\}?")
_COUNT: Final = re.compile(r"\d{0,5}(?:,\d{0,5})?")


def check_masks(patterns: Sequence[str]) -> None:
    """Raise ConfigError for masks beyond the limits. Messages do not quote patterns, which may be the secret itself."""
    if len(patterns) > MAX_PATTERNS:
        message = f"the project has {len(patterns)} masks; at most {MAX_PATTERNS} are allowed"
        raise ConfigError(message)
    for number, pattern in enumerate(patterns, 1):
        if len(pattern) > MAX_CHARS:
            message = f"mask {number} of the project has {len(pattern)} characters; at most {MAX_CHARS} are allowed"
            raise ConfigError(message)
        _compile(number, pattern)


def _compile(number: int, pattern: str) -> Pattern[str]:
    import regex  # noqa: PLC0415  (30 ms, and few projects have masks)

    braces = _BRACES.findall(pattern)
    counts = [
        max((int(count) for count in numbers.split(",") if count), default=1)
        for numbers in braces
        if _is_count(numbers)
    ]
    if len(counts) < len(braces) or math.prod(max(count, 1) for count in counts) > _MAX_REPETITIONS:
        message = f"mask {number} of the project repeats too much: the numbers in its braces multiply to too many"
        raise ConfigError(message)
    try:
        compiled = regex.compile(pattern)
        empty = compiled.search("", timeout=_SECONDS) is not None
    except TimeoutError:
        empty = False
    except regex.error as error:
        message = f"mask {number} of the project is not a regular expression: {error}"
        raise ConfigError(message) from None
    if empty:
        message = f"mask {number} of the project matches empty text, so it would mask nothing"
        raise ConfigError(message)
    return compiled


def _is_count(text: str) -> bool:
    return _COUNT.fullmatch(text) is not None


class ProjectMasks:
    """Masks what a project's patterns match: the group `secret` if a pattern has one, else the whole match."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [_compile(number, pattern) for number, pattern in enumerate(patterns, 1)]
        self._overruns = 0

    def text(self, text: str) -> str:
        """Return a text with the matches masked, or a marker instead of the text if that takes too long."""
        for pattern in self._patterns if text else ():
            if self._overruns >= _MAX_OVERRUNS:
                return WITHHELD
            try:
                text = _mask(pattern, text, _SECONDS + len(text) / _CHARS_PER_SECOND)
            except (TimeoutError, MemoryError):
                self._overruns += 1
                return WITHHELD
        return text

    def keys(self, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Return an object with its keys masked."""
        masked: dict[str, JsonValue] = {}
        for key, item in value.items():
            masked_key = self.text(key)
            while masked_key in masked:  # two keys may get the same marker: keep both entries
                masked_key += "*"
            masked[masked_key] = item
        return masked


def _mask(pattern: Pattern[str], text: str, seconds: float) -> str:
    group: str | int = "secret" if "secret" in pattern.groupindex else 0
    parts: list[str] = []
    at = 0
    for match in pattern.finditer(text, timeout=seconds):
        start, end = match.span(group)
        if at <= start < end:
            parts += (text[at:start], _MASKED)
            at = end
    return "".join([*parts, text[at:]])
