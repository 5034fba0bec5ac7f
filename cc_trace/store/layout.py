"""A turn's spans as rows of a waterfall: order, depth, waits, lanes, the most expensive path. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from cc_trace.store.notices import notice
from cc_trace.store.terminal import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cc_trace.spans import Span
    from cc_trace.transcript import JsonValue

Wait: TypeAlias = tuple[str, int, int]  # what for, from, to
_MS: Final = 1_000_000
_LABEL_CHARS: Final = 160
_MAX_WAIT_MS: Final = 1 << 40
# The fields of a tool's input that identify a call.
_TELLING: Final = ("command", "file_path", "notebook_path", "pattern", "path", "url", "query", "description", "prompt")


# What the result of a refused call begins with, where its line does not say that it was refused.
_REFUSED_BY_USER: Final = ("The user doesn't want to ",)
_NOT_ALLOWED: Final = (
    *("This command requires approval", "Claude requested permissions to ", "Permission to use "),
    *("Permission for this tool use was denied", "This Bash command contains multiple operations. The following part"),
)
_BLOCKED: Final = " was blocked. For security, Claude Code may only "
QUESTION: Final = "AskUserQuestion"  # the tool that waits for a human's answer
PLAN: Final = "ExitPlanMode"  # waits too; since 2.1.3xx this is recorded as its permission
_INSTANT: Final = ("Edit", "MultiEdit", "Write", "NotebookEdit", PLAN)  # no time but that of the dialog


@dataclass(slots=True)
class Row:
    """One span at its place. `last`: the place of its last descendant; `total_usd`: includes its descendants."""

    span: Span
    place: int
    depth: int
    label: str
    last: int = 0
    total_usd: float | None = None
    hot: bool = False
    lane: tuple[int, int] | None = None  # start and end of the agent's run that it belongs to
    waits: list[Wait] = field(default_factory=list)


def rows(spans: Sequence[Span]) -> list[Row]:
    """Return a turn's spans in tree order, parents before children."""
    known = {span.span_id for span in spans}
    below: dict[str | None, list[Span]] = {}
    for span in spans:
        below.setdefault(span.parent_id if span.parent_id in known else None, []).append(span)
    made: list[Row] = []
    stack: list[tuple[Span, int, tuple[int, int] | None]] = [(span, 0, None) for span in reversed(below.get(None, []))]
    while stack:
        span, depth, lane = stack.pop()
        made.append(Row(span, len(made), depth, label(span), len(made), lane=lane, waits=waits(span)))
        if span.kind == "subagent" and span.start_ns is not None and span.end_ns is not None:
            lane = (span.start_ns, span.end_ns)
        stack += [(each, depth + 1, lane) for each in reversed(below.get(span.span_id, []))]
    _share_pause(made)
    _sum_up(made)
    return made


def _share_pause(made: list[Row]) -> None:
    """Give each call that asked a human, and does not say for how long, the least that it must have waited.

    How long such calls of a turn waited together is what it spent on permissions beyond the other calls.
    """
    times = made[0].span.metadata.get("time_ms") if made else None
    paused = _milliseconds(times.get("permission")) * _MS if isinstance(times, dict) else 0
    own = [row for row in made if row.span.kind == "tool" and row.span.agent_id is None]
    paused -= sum(end - begin for row in own for kind, begin, end in row.waits if kind == "permission")
    asked = [(row, _length(row.span)) for row in own if not row.waits and _asked(row.span)]
    together = sum(length for _, length in asked)
    for row, length in asked:
        waited = min(length, paused - (together - length))
        if waited > 0 and row.span.start_ns is not None:
            row.waits.append(("permission", row.span.start_ns, row.span.start_ns + waited))


def _asked(span: Span) -> bool:
    """Return whether a human was asked before a call ran."""
    match span.metadata.get("permission"):
        case {"decision": "accept", "source": str(source), **others}:
            # One that is always allowed has the source of the answer that made it so.
            return source.startswith("user_") and (source == "user_temporary" or others.get("reason") is None)
        case _:
            return False


def _length(span: Span) -> int:
    return max(0, span.end_ns - span.start_ns) if span.start_ns is not None and span.end_ns is not None else 0


def refused_by(span: Span) -> Literal["user", "settings"] | None:
    """Return who refused a call; None if it ran, or was no call. Who is not named is the user's settings."""
    if span.kind != "tool" or span.status != "error":
        return None
    permission, denial, told = span.metadata.get("permission"), span.metadata.get("denial"), span.error or ""
    known = permission if isinstance(permission, dict) else {}
    by_user = str(known.get("source") or denial or "").startswith("user")
    if told.startswith(_REFUSED_BY_USER) or (by_user and known.get("decision") != "accept"):
        return "user"
    if (
        known.get("decision") == "reject"
        or isinstance(denial, str)
        or told.startswith(_NOT_ALLOWED)
        or _BLOCKED in told
    ):
        return "settings"
    return None


def _sum_up(made: list[Row]) -> None:
    by_id = {row.span.span_id: row for row in made}
    for row in reversed(made):
        own = row.span.response.cost_usd if row.span.response is not None else None
        if own is not None:
            row.total_usd = own + (row.total_usd or 0.0)
        above = by_id.get(row.span.parent_id or "")
        if above is not None and above is not row:
            above.last = max(above.last, row.last)
            if row.total_usd is not None:
                above.total_usd = (above.total_usd or 0.0) + row.total_usd
    _mark_most_expensive(made)


def _mark_most_expensive(made: list[Row]) -> None:
    """Mark the most expensive path: from the root always to the most expensive child."""
    if not made or not made[0].total_usd:
        return
    current: Row | None = made[0]
    while current is not None:
        current.hot = True
        children = [row for row in made[current.place + 1 : current.last + 1] if row.depth == current.depth + 1]
        own = current.span.response.cost_usd if current.span.response is not None else None
        dearest = max(children, key=lambda row: row.total_usd or 0.0, default=None)
        current = dearest if dearest is not None and (dearest.total_usd or 0.0) > (own or 0.0) else None


def waits(span: Span) -> list[Wait]:
    """Return when a span was waiting: for permission, an answer, a retry or a hook, as far as it says so itself."""
    start, metadata = span.start_ns, span.metadata
    if start is None:
        return []
    permission = metadata.get("permission")
    if isinstance(permission, dict) and (waited := _milliseconds(permission.get("wait_ms"))):
        return [("permission", start, start + waited * _MS)]
    if span.name in _INSTANT and span.end_ns is not None and refused_by(span) == "user":
        return [("permission", start, span.end_ns)] if span.end_ns > start else []
    if span.name == "api_retry":
        waited = _milliseconds(metadata.get("wait_ms", metadata.get("retryInMs")))
        again_ns = (start if span.end_ns is None else span.end_ns) + waited * _MS
        return [("retry", start, again_ns)] if again_ns > start else []
    asks = span.tool is not None and (span.tool.name == QUESTION or (span.tool.name == PLAN and permission is None))
    if asks and span.end_ns is not None:
        return [("answer", start, span.end_ns)] if span.end_ns > start else []
    if span.kind == "event" and span.name == "hook" and span.end_ns is not None and span.end_ns > start:
        return [("hook", start, span.end_ns)]
    return []


def _milliseconds(value: JsonValue) -> int:
    return int(value) if isinstance(value, int | float) and 0 < value < _MAX_WAIT_MS else 0


def label(span: Span) -> str:
    """Return a row's label, shown beside its name."""
    match span.kind:
        case "turn":
            text = _message(span.input)
        case "tool":
            text = _tool_label(span.input)
        case "generation":
            text = _answer(span.output)
        case "subagent":
            named = span.metadata.get("description") or span.metadata.get("name")
            text = named if isinstance(named, str) else ""
        case _:
            text = _message(span.metadata.get("command") or span.output or span.error or span.input)
    return " ".join(plain(text[: _LABEL_CHARS * 4]).split())[:_LABEL_CHARS]


def _message(value: object) -> str:
    text = value if isinstance(value, str) else ""
    return found.text if (found := notice(text)) is not None else text


def _tool_label(given: JsonValue) -> str:
    if isinstance(given, dict):
        for name in _TELLING:
            if isinstance(value := given.get(name), str) and value:
                return value
        match given.get("questions"):
            case [{"question": str(asked)}, *_]:
                return asked
        return json.dumps(given, ensure_ascii=False)[: _LABEL_CHARS * 2] if given else ""
    return given if isinstance(given, str) else ""


def _answer(output: JsonValue) -> str:
    match output:
        case {"content": str(text)} if text.strip():
            return text
        case {"tool_calls": list(calls)} if calls:
            names = [str(call.get("name")) for call in calls if isinstance(call, dict)]
            return "→ " + ", ".join(names)
        case {"thinking": [str(text), *_]}:
            return text
        case _:
            return ""
