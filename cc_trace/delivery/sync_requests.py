"""A hook's request to sync its session: the payload, and what only the hook's own process knows.

Any worker may handle a request, and its environment may differ from the hook's. So the request carries all it needs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from cc_trace.delivery.cursor import is_environment
from cc_trace.delivery.payload import Payload, parse_payload
from cc_trace.delivery.process import Process
from cc_trace.spans import TraceLink

if TYPE_CHECKING:
    from cc_trace.settings import HookEnvironment


class HookContext(NamedTuple):
    """What only the worker started by the hook itself knows. None: unknown."""

    process: Process | None = None  # Claude Code's
    link: TraceLink | None = None  # for the turns since the last sync
    project: str | None = None  # the folder Claude Code was started in; more reliable than the transcript's
    environment: HookEnvironment | None = None  # the hook's, without secrets; stored with the session


NO_CONTEXT: Final = HookContext()


class SyncRequest(NamedTuple):
    """A request to sync one session."""

    payload: Payload
    hook_ns: int  # when the hook ran, in unix nanoseconds
    context: HookContext = NO_CONTEXT

    @property
    def session_id(self) -> str:
        """Return the session's id."""
        return self.payload.session_id


def request_to_json(request: SyncRequest) -> bytes:
    """Serialize a request. The payload is stored parsed, so that it is parsed only once."""
    payload, context = request.payload, request.context
    raw = {
        "event": payload.event,
        # A path need not be UTF-8 and must survive the round trip: latin-1 maps each byte to one character.
        "transcript": os.fsencode(payload.transcript).decode("latin-1"),
        "last_message": payload.last_message,
        "busy": payload.has_background_tasks,
        "hook_ns": request.hook_ns,
        "claude_pid": None if context.process is None else context.process.pid,
        "claude_start": None if context.process is None else context.process.start,
        "link": None if context.link is None else [*context.link],
        "project": None if context.project is None else context.project.encode("utf-8", "backslashreplace").decode(),
        "environment": context.environment,
    }
    return orjson.dumps(raw)


def request_from_json(data: bytes, session_id: str) -> SyncRequest | None:
    """Parse a request for this session; None if the data is anything else."""
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    match raw:
        case {"event": str(event), "transcript": str(path), "hook_ns": int(hook_ns), **rest}:
            message, busy = rest.get("last_message"), rest.get("busy")
            payload = Payload(
                event=event,
                transcript=Path(os.fsdecode(path.encode("latin-1", "replace"))),
                last_message=message if isinstance(message, str) else None,
                has_background_tasks=busy if isinstance(busy, bool) else None,
            )
            request = SyncRequest(payload, hook_ns, _context(rest, rest.get("link")))
            return request if request.session_id == session_id else None
        case _:
            return None


def earlier_request(data: bytes, hook_ns: int, config_dir: Path) -> SyncRequest | str:
    """Parse a request that an earlier version wrote; return why it cannot be used if it is none.

    Such a file holds the payload as text, or is the bare payload of a hook that ran at `hook_ns`.
    """
    context = NO_CONTEXT
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        raw = None
    match raw:
        case {"cc_trace_request": {"payload": str(text), "told_ns": int(ran_ns), **rest}}:
            data, hook_ns, context = text.encode(), ran_ns, _context(rest, rest.get("anchor"))
    payload = parse_payload(data, config_dir)
    return payload if isinstance(payload, str) else SyncRequest(payload, hook_ns, context)


def _context(raw: dict[Any, Any], link: object) -> HookContext:
    project, environment = raw.get("project"), raw.get("environment")
    return HookContext(
        process=Process.parse(raw.get("claude_pid"), raw.get("claude_start")),
        link=_link(link),
        project=project if isinstance(project, str) else None,
        environment=environment if is_environment(environment) else None,
    )


def _link(raw: object) -> TraceLink | None:
    if not isinstance(raw, list) or len(raw) != len(TraceLink._fields):
        return None
    return TraceLink(*(value if isinstance(value, str) else None for value in raw))
