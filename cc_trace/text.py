"""Short texts that are formatted the same way everywhere: times, counts, dollars, and long texts cut short."""

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
    """Format a time in UTC with milliseconds, cut as Langfuse cuts them; None for an unknown time."""
    if time_ns is None:
        return None
    moment = _EPOCH + timedelta(milliseconds=time_ns // 1_000_000)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def local_moment(time_ns: int | None) -> datetime | None:
    """Return a time in the user's time zone; None for an unknown one."""
    if time_ns is None:
        return None
    try:
        return (_EPOCH + timedelta(microseconds=time_ns // 1000)).astimezone()
    except (OverflowError, ValueError, OSError):  # no clock goes so far
        return None


def local_time(time_ns: int | None, form: str = "%Y-%m-%d %H:%M") -> str:
    """Return a time as the user's clock shows it; empty for an unknown one."""
    moment = local_moment(time_ns)
    return "" if moment is None else moment.strftime(form)


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun, such as `1 turn` and `2 turns`."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def dollars(usd: float) -> str:
    """Return an amount with two decimals, or four if it is less than one dollar."""
    return f"${usd:,.4f}" if 0 < usd < 1 else f"${usd:,.2f}"


def shortened(text: str, max_chars: int) -> str:
    """Cut a text to `max_chars` characters; one that was longer ends with an ellipsis."""
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"
