"""When a span began and ended, as far as the transcript tells; a time that is not known is said, not invented."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cc_trace.turns import Generation, Turn


def turn_start(turn: Turn) -> int | None:
    """Return when a turn started: with its prompt, or where clocks disagree with the first of its requests."""
    times = [turn.start.head.time_ns, *(request_start(step) for step in turn.generations)]
    return min((time for time in times if time is not None), default=None)


def request_start(step: Generation) -> int | None:
    """Return when a response's request could start; where clocks disagree, its first line is the safe answer."""
    if step.first_ns is None or step.ready_ns is None:
        return step.first_ns
    return step.ready_ns if step.ready_ns < step.first_ns else step.first_ns  # noqa: FURB136  (min takes twice as long)


def known_times(
    start_ns: int | None, end_ns: int | None, near_ns: int | None
) -> tuple[int | None, int | None, str | None]:
    """Return a span's times, and what is not known about them."""
    if start_ns is not None and end_ns is not None:
        return (start_ns, end_ns, None) if start_ns <= end_ns else (end_ns, end_ns, "start unknown")
    if start_ns is not None:
        return start_ns, start_ns, "end unknown"
    if end_ns is not None:
        return end_ns, end_ns, "start unknown"
    return near_ns, near_ns, "unknown" if near_ns is None else "inherited"
