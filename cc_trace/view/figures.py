"""Formats numbers for people: money, tokens, durations, times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from cc_trace.text import dollars, local_moment, local_time

UNKNOWN: Final = "\N{EN DASH}"
_MS: Final = 1_000_000
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_DAY_SECONDS: Final = 86_400


def money(usd: float | None) -> str:
    """Return dollars; a dash if the price is unknown."""
    return UNKNOWN if usd is None else dollars(usd)


def tokens(count: int | None) -> str:
    """Return a count of tokens, exactly."""
    return UNKNOWN if count is None else f"{count:,}"


def short(count: float | None) -> str:
    """Return a count in about three characters: 1.2k, 34k, 5.6M."""
    if count is None:
        return UNKNOWN
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if round(count / size, 3) >= 1:  # 999,500 is 1.0M, not 1000k
            value = count / size
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"  # noqa: PLR2004
    return f"{count:.0f}"


def duration(milliseconds: float | None) -> str:
    """Return a length of time: 12 ms, 3.4 s, 5 m 6 s, 7 h 8 m. The pages' scripts have the same (`time`)."""
    if milliseconds is None:
        return UNKNOWN
    if round(milliseconds) < 1_000:  # noqa: PLR2004
        return f"{milliseconds:.0f} ms"
    if round(milliseconds, -2) < _MINUTE_MS:
        return f"{milliseconds / 1000:.1f} s"
    if round(milliseconds, -3) < _HOUR_MS:
        minutes, seconds = divmod(round(milliseconds / 1000), 60)
        return f"{minutes} m {seconds} s" if seconds else f"{minutes} m"
    hours, minutes = divmod(round(milliseconds / _MINUTE_MS), 60)
    return f"{hours} h {minutes} m" if minutes else f"{hours} h"


def between(start_ns: int | None, end_ns: int | None) -> float | None:
    """Return the milliseconds between two times, or None if one is unknown."""
    return None if start_ns is None or end_ns is None else max(0, end_ns - start_ns) / _MS


def clock(time_ns: int | None) -> str:
    """Return a local time of day, to the second."""
    return local_time(time_ns, "%H:%M:%S") or UNKNOWN


def since_midnight(time_ns: int) -> float | None:
    """Return the milliseconds of a local day until a time."""
    moment = local_moment(time_ns)
    if moment is None:
        return None
    return (moment - moment.replace(hour=0, minute=0, second=0, microsecond=0)) / timedelta(milliseconds=1)


def day(time_ns: int | None) -> str:
    """Return a local date."""
    return local_time(time_ns, "%Y-%m-%d") or UNKNOWN


def zone(time_ns: int | None) -> str:
    """Return the name of the local time zone at a time, such as CET, else its distance from UTC; empty if unknown."""
    name = local_time(time_ns, "%Z")
    return f"UTC{name}" if name[:1] in ("+", "-") else name


def day_and_time(time_ns: int | None) -> str:
    """Return a local date and time with the name of its time zone."""
    return f"{local_time(time_ns)} {zone(time_ns)}".strip() or UNKNOWN


def when(time_ns: int | None, now_ns: int) -> str:
    """Return a time relative to now: today or yesterday with the time, else date and time."""
    moment, now = local_moment(time_ns), local_moment(now_ns)
    if moment is None or now is None:
        return UNKNOWN
    days = (now.date() - moment.date()).days
    named = {0: "today", 1: "yesterday"}.get(days)
    return f"{named} {moment:%H:%M}" if named else f"{moment:%Y-%m-%d %H:%M}"


def periods(now_ns: int) -> list[tuple[str, str]]:
    """Return some lengths of time up to now by name, each with the day on which it begins; empty: all time."""
    now = local_moment(now_ns) or datetime.fromtimestamp(0, UTC)
    lengths = (("today", 0), ("7 days", 6), ("30 days", 29))
    return [*((name, f"{now.date() - timedelta(days=days):%Y-%m-%d}") for name, days in lengths), ("all", "")]


def exactly(time_ns: int | None) -> str:
    """Return a local date and time to the millisecond, with its distance from UTC; empty if unknown."""
    moment = local_moment(time_ns)
    return "" if moment is None else moment.isoformat(" ", "milliseconds")


def rfc3339(time_ns: int | None) -> str:
    """Return a time in UTC, for machines."""
    moment = local_moment(time_ns)
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def percent(part: float, whole: float) -> str:
    """Return a share as a percentage; only nothing is 0 %, and only everything is 100 %."""
    if not whole:
        return UNKNOWN
    if 0 < part < whole / 200:
        return "< 1 %"
    return "> 99 %" if whole - whole / 200 <= part < whole else f"{100 * part / whole:.0f} %"
