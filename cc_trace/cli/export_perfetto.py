"""A session as a trace in Chrome's JSON format, which Perfetto opens: one track per agent. Pure.

On a track, slices must lie within each other. What runs beside something else, such as parallel tools, goes to a
further track of the same agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cc_trace.values import json_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cc_trace.spans import Span

_MAIN: Final = "main thread"
_NS_PER_US: Final = 1000
_PROCESS: Final = 1


def to_perfetto(session: Mapping[str, Any], spans: Sequence[Span]) -> dict[str, Any]:
    """Return the trace. Spans without times are left out."""
    agents: dict[str | None, str] = {None: _MAIN}
    for span in spans:
        if span.agent_id is not None:
            agents.setdefault(span.agent_id, f"{span.agent_name or 'agent'} {span.agent_id}")
    tracks: dict[tuple[str | None, int], list[int]] = {}
    placed: list[tuple[Span, int, int, tuple[str | None, int]]] = []
    timed = [(span, span.start_ns, span.end_ns) for span in spans]
    slices = [(span, start, max(start, end)) for span, start, end in timed if start is not None and end is not None]
    for span, start, end in sorted(slices, key=lambda slice_: (slice_[1], -slice_[2])):
        lane = 0
        while not _fits(tracks.setdefault((span.agent_id, lane), []), start, end):
            lane += 1
        placed.append((span, start, end, (span.agent_id, lane)))
    order = list(agents)
    ids = {key: number for number, key in enumerate(sorted(tracks, key=lambda key: (order.index(key[0]), key[1])), 1)}
    title = session.get("title") or session.get("session_id")
    events: list[dict[str, Any]] = [_metadata("process_name", 0, f"Claude Code: {title}")]
    for (agent_id, lane), number in ids.items():
        name = agents[agent_id] + (f" ({lane + 1})" if lane else "")
        events += [_metadata("thread_name", number, name), _sorted(number)]
    events += [_slice(span, start, end, ids[key]) for span, start, end, key in placed]
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"session_id": session.get("session_id")}}


def _fits(ends: list[int], start: int, end: int) -> bool:
    """Put a slice on a track if it lies beside or within what is there."""
    while ends and ends[-1] <= start:
        ends.pop()
    if ends and end > ends[-1]:
        return False
    ends.append(end)
    return True


def _metadata(kind: str, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": _PROCESS, "tid": track, "args": {"name": name}}


def _sorted(track: int) -> dict[str, Any]:
    return {"ph": "M", "name": "thread_sort_index", "pid": _PROCESS, "tid": track, "args": {"sort_index": track}}


def _slice(span: Span, start: int, end: int, track: int) -> dict[str, Any]:
    response = span.response
    args: dict[str, Any] = {"turn": span.turn, "status": span.status, "span_id": span.span_id}
    for name, value in (("error", span.error), ("input", span.input), ("output", span.output)):
        if value is not None:
            args[name] = value if isinstance(value, str) else json_text(value)
    if response is not None:
        args |= {"model": response.model, "cost_usd": response.cost_usd}
        args |= {} if response.usage is None else {f"tokens_{name}": n for name, n in response.usage._asdict().items()}
    return {
        "ph": "X",
        "name": span.name,
        "cat": span.kind if span.status != "error" else f"{span.kind},error",
        "ts": start / _NS_PER_US,
        "dur": (end - start) / _NS_PER_US,
        "pid": _PROCESS,
        "tid": track,
        "args": args,
    }
