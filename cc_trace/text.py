"""Small texts written the same way everywhere: times, counts, and what is too long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, overload

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@overload
def rfc3339(time_ns: int) -> str: ...
@overload
def rfc3339(time_ns: None) -> None: ...
@overload
def rfc3339(time_ns: int | None) -> str | None: ...
def rfc3339(time_ns: int | None) -> str | None:
    """Return a time in UTC, cut to milliseconds as Langfuse cuts them; None for an unknown one."""
    if time_ns is None:
        return None
    moment = _EPOCH + timedelta(milliseconds=time_ns // 1_000_000)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun, such as `1 turn` and `2 turns`."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def shortened(text: str, max_chars: int) -> str:
    """Return a text of at most so many characters, with an ellipsis where it was longer."""
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"
