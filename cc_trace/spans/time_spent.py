"""How a turn's time was spent: every millisecond of it counted once.

When two things overlap, the first kind in `KINDS` gets the time: measured times go before derived ones, and a response
goes before a tool that started while it was still being written. Time that nothing accounts for is `unknown`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from cc_trace.turns import Generation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cc_trace.turns import Call, Event, Turn

Kind: TypeAlias = Literal["hooks", "permission", "retries", "model", "tools", "idle"]
Interval: TypeAlias = tuple[int, int]  # start and end, in milliseconds
KINDS: Final[tuple[Kind, ...]] = ("hooks", "permission", "retries", "model", "tools", "idle")
_SHOWN: Final[tuple[Kind, ...]] = ("model", "tools", "permission", "hooks", "retries", "idle")
_MS: Final = 1_000_000
# Claude Code waits ten minutes for a response. If one seems to have taken longer than this, the computer slept, or the
# timestamps were rewritten, as some versions did when a session was resumed.
_LONGEST_RESPONSE_NS: Final = 3_600_000 * _MS
_ASKS_A_HUMAN: Final = "AskUserQuestion"  # the tool that waits for a human's answer
_SHOWS_A_PLAN: Final = "ExitPlanMode"  # waits too; since 2.1.3xx this is recorded as its permission


def turn_time(
    turn: Turn, start_ns: int, end_ns: int, responses: Sequence[tuple[int | None, int | None]]
) -> dict[str, int] | None:
    """Return how a turn's time was spent; None if a response took impossibly long.

    `responses`: when each was requested, and when it was complete.
    """
    intervals: dict[Kind, list[Interval]] = defaultdict(list)
    for sent_ns, done_ns in responses:
        if sent_ns is not None and done_ns is not None:
            if done_ns - sent_ns > _LONGEST_RESPONSE_NS:
                return None
            intervals["model"].append((sent_ns // _MS, done_ns // _MS))
    if len(responses) < len(turn.steps):  # the other steps are events
        for kind, began_ns, ended_ns in _times_of_events(turn):
            if began_ns is not None and ended_ns is not None:
                intervals[kind].append((began_ns // _MS, ended_ns // _MS))
    undivided: list[Interval] = []  # calls that waited for a human; how long is not recorded
    for call in turn.calls.values():
        if call.start_ns is None or call.end_ns is None:
            continue
        start_ms, end_ms = call.start_ns // _MS, call.end_ns // _MS
        if (only := _only_kind(call)) is not None:
            intervals[only].append((start_ms, end_ms))
        elif (waited_ms := call.waited_ms) is not None:
            intervals["permission"].append((start_ms, start_ms + waited_ms))
            intervals["tools"].append((start_ms + waited_ms, end_ms))
        else:
            undivided.append((start_ms, end_ms))
    if undivided and turn.paused_ms is not None:
        _divide(undivided, turn.paused_ms, intervals)
    return time_spent(start_ns // _MS, end_ns // _MS, intervals)


def time_spent(start_ms: int, end_ms: int, intervals: Mapping[Kind, Sequence[Interval]]) -> dict[str, int]:
    """Return the milliseconds of each kind between two times. They add up to the time between them."""
    spent: dict[str, int] = dict.fromkeys(_SHOWN, 0)
    so_far: list[Interval] = []  # of this kind and of those before it
    covered_ms = 0
    for kind in KINDS:
        if kind in intervals:
            so_far += intervals[kind]
            before_ms, covered_ms = covered_ms, _covered_ms(so_far, start_ms, end_ms)
            spent[kind] = covered_ms - before_ms
    return {**spent, "unknown": max(0, end_ms - start_ms) - covered_ms}


def _covered_ms(intervals: list[Interval], start_ms: int, end_ms: int) -> int:
    """Return how much of the time between two times some interval covers. Sorts the intervals."""
    intervals.sort()
    covered_ms, reached_ms = 0, start_ms
    for first_ms, last_ms in intervals:
        begin_ms = first_ms if first_ms > reached_ms else reached_ms  # noqa: FURB136  (max takes twice as long)
        if last_ms > begin_ms < end_ms:
            reached_ms = last_ms if last_ms < end_ms else end_ms  # noqa: FURB136
            covered_ms += reached_ms - begin_ms
    return covered_ms


def _only_kind(call: Call) -> Kind | None:
    """Return what a call's whole time was spent on; None: partly on waiting for a human's permission."""
    permission = call.result.permission if call.result is not None else None
    if call.use.name == _ASKS_A_HUMAN or (call.use.name == _SHOWS_A_PLAN and permission is None):
        return "idle"
    if permission is None:
        return "tools"
    if permission.source == "hook" and permission.decision == "reject":
        return "hooks"
    return None if permission.asked else "tools"


def _divide(calls: list[Interval], paused_ms: int, intervals: dict[Kind, list[Interval]]) -> None:
    """Divide calls into waiting and running. Only their total wait is known: what the turn's duration leaves out."""
    left_ms = paused_ms - sum(last - first for kind in ("permission", "idle") for first, last in intervals[kind])
    for start_ms, end_ms in calls:
        waited_ms = max(0, min(left_ms, end_ms - start_ms))
        left_ms -= waited_ms
        intervals["permission"].append((start_ms, start_ms + waited_ms))
        intervals["tools"].append((start_ms + waited_ms, end_ms))


def _times_of_events(turn: Turn) -> Iterator[tuple[Kind, int | None, int | None]]:
    """Yield the times of events, and of the rests between a final response and the next input."""
    rested_ns: int | None = None
    for step in turn.steps:
        if isinstance(step, Generation):
            rested_ns = None if step.calls else step.last_ns
        elif step.kind == "hook":
            yield "hooks", step.start_ns, step.end_ns
        elif step.kind == "api_error":
            yield "model", step.start_ns, step.end_ns
        elif step.kind == "api_retry" and step.end_ns is not None:
            yield "retries", step.start_ns, step.end_ns + _wait_ms(step) * _MS
        elif step.kind in ("prompt", "notification"):
            yield "idle", rested_ns, step.start_ns
            rested_ns = None


def _wait_ms(step: Event) -> int:
    """Return how long Claude Code waits before it retries."""
    wait_ms = step.metadata.get("wait_ms", step.metadata.get("retryInMs"))
    return int(wait_ms) if isinstance(wait_ms, int | float) and 0 <= wait_ms < 1 << 40 else 0
