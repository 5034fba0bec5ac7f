"""How a turn's time was spent: every millisecond of it counted once.

When two things overlap, the first kind in `KINDS` gets the time: measured times go before derived ones, and a response
goes before a tool that started while it was still being written. Time that nothing accounts for is `unknown`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from cc_trace.turns import Generation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cc_trace.turns import Call, Event, Turn

Kind: TypeAlias = Literal["hooks", "permission", "retries", "model", "tools", "idle"]
KINDS: Final[tuple[Kind, ...]] = ("hooks", "permission", "retries", "model", "tools", "idle")
_SHOWN: Final[tuple[Kind, ...]] = ("model", "tools", "permission", "hooks", "retries", "idle")
_RANK: Final = {kind: number for number, kind in enumerate(KINDS)}
_MS: Final = 1_000_000
# Claude Code waits ten minutes for a response. If one seems to have taken longer than this, the computer slept, or the
# timestamps were rewritten, as some versions did when a session was resumed.
_LONGEST_RESPONSE_NS: Final = 3_600_000 * _MS
_ASKS_A_HUMAN: Final = "AskUserQuestion"  # the tool that waits for a human's answer
_SHOWS_A_PLAN: Final = "ExitPlanMode"  # waits too; since 2.1.3xx this is recorded as its permission


class Interval(NamedTuple):
    """A kind of activity with its start and end, in milliseconds."""

    kind: Kind
    start_ms: int
    end_ms: int


def time_spent(start_ms: int, end_ms: int, intervals: Iterable[Interval]) -> dict[str, int]:
    """Return the milliseconds of each kind between two times. They add up to the time between them."""
    edges: list[tuple[int, int, int]] = []  # time, index of the kind that begins (+1) or ends (-1), +1 or -1
    for kind, began_ms, ended_ms in intervals:
        first, last = max(began_ms, start_ms), min(ended_ms, end_ms)
        if first < last:
            edges += ((first, _RANK[kind], 1), (last, _RANK[kind], -1))
    edges.sort()
    spent, running, at_ms = [0] * len(KINDS), [0] * len(KINDS), start_ms
    going_on = 0  # a bit for each kind: the lowest set bit gets the time
    for edge_ms, number, step in edges:
        if going_on:
            spent[(going_on & -going_on).bit_length() - 1] += edge_ms - at_ms
        running[number] += step
        going_on = going_on | 1 << number if running[number] else going_on & ~(1 << number)
        at_ms = edge_ms
    unknown = max(0, end_ms - start_ms) - sum(spent)
    return {**{kind: spent[_RANK[kind]] for kind in _SHOWN}, "unknown": unknown}


def turn_time(
    turn: Turn, start_ns: int, end_ns: int, responses: Sequence[tuple[int | None, int | None]]
) -> dict[str, int] | None:
    """Return how a turn's time was spent; None if a response took impossibly long.

    `responses`: when each was requested, and when it was complete.
    """
    if any(sent is not None and done is not None and done - sent > _LONGEST_RESPONSE_NS for sent, done in responses):
        return None
    intervals = [*_intervals("model", responses), *_event_intervals(turn), *_idle_intervals(turn)]
    undecided: list[Call] = []
    for call in turn.calls.values():
        if call.start_ns is None or call.end_ns is None:
            continue
        permission = call.result.permission if call.result is not None else None
        if permission is None and call.use.name not in (_ASKS_A_HUMAN, _SHOWS_A_PLAN):  # as before 2.1.3xx
            intervals.append(Interval("tools", call.start_ns // _MS, call.end_ns // _MS))
        elif of_call := list(_call_intervals(call)):
            intervals += of_call
        else:
            undecided.append(call)
    return time_spent(start_ns // _MS, end_ns // _MS, [*intervals, *_split_by_pause(turn, undecided, intervals)])


def _intervals(kind: Kind, times: Iterable[tuple[int | None, int | None]]) -> Iterator[Interval]:
    for start_ns, end_ns in times:
        if start_ns is not None and end_ns is not None:
            yield Interval(kind, start_ns // _MS, end_ns // _MS)


def _call_intervals(call: Call) -> Iterator[Interval]:
    """Yield the intervals of a call; none if a human was asked and the wait is unknown."""
    permission = call.result.permission if call.result is not None else None
    whole = (call.start_ns, call.end_ns)
    if call.use.name == _ASKS_A_HUMAN or (call.use.name == _SHOWS_A_PLAN and permission is None):
        yield from _intervals("idle", [whole])
    elif permission is not None and permission.source == "hook" and permission.decision == "reject":
        yield from _intervals("hooks", [whole])
    elif permission is None or not permission.asked:
        yield from _intervals("tools", [whole])
    elif (waited_ms := call.waited_ms) is not None and call.start_ns is not None:
        ready_ns = call.start_ns + waited_ms * _MS
        yield from _intervals("permission", [(call.start_ns, ready_ns)])
        yield from _intervals("tools", [(ready_ns, call.end_ns)])


def _split_by_pause(turn: Turn, calls: list[Call], others: list[Interval]) -> Iterator[Interval]:
    """Split calls into waiting and running. Only their total wait is known: what the turn's duration leaves out."""
    if turn.paused_ms is None:
        return
    other_ms = sum(each.end_ms - each.start_ms for each in others if each.kind in ("permission", "idle"))
    left_ms = max(0, turn.paused_ms - other_ms)
    for call in calls:
        for _, start_ms, end_ms in _intervals("tools", [(call.start_ns, call.end_ns)]):
            waited_ms = min(left_ms, max(0, end_ms - start_ms))
            left_ms -= waited_ms
            yield Interval("permission", start_ms, start_ms + waited_ms)
            yield Interval("tools", start_ms + waited_ms, end_ms)


def _event_intervals(turn: Turn) -> Iterator[Interval]:
    for step in turn.steps:
        if isinstance(step, Generation):
            continue
        if step.kind == "hook":
            yield from _intervals("hooks", [(step.start_ns, step.end_ns)])
        elif step.kind == "api_error":
            yield from _intervals("model", [(step.start_ns, step.end_ns)])
        elif step.kind == "api_retry" and step.end_ns is not None:
            yield from _intervals("retries", [(step.start_ns, step.end_ns + _wait_ms(step) * _MS)])


def _wait_ms(step: Event) -> int:
    """Return how long Claude Code waits before it retries."""
    wait_ms = step.metadata.get("wait_ms", step.metadata.get("retryInMs"))
    return int(wait_ms) if isinstance(wait_ms, int | float) and 0 <= wait_ms < 1 << 40 else 0


def _idle_intervals(turn: Turn) -> Iterator[Interval]:
    """Yield the time between a final response and the next input within the turn."""
    rested_ns: int | None = None
    for step in turn.steps:
        if isinstance(step, Generation):
            rested_ns = None if step.calls else step.last_ns
        elif step.kind in ("prompt", "notification") and rested_ns is not None:
            yield from _intervals("idle", [(rested_ns, step.start_ns)])
            rested_ns = None
