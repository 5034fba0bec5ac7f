"""What a hook asks for: that its session is synced. Its payload, and what only its own process knows.

A worker that handles another hook's request has another environment: all that the request needs of its own stands here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from cc_trace.delivery.cursor import is_environment
from cc_trace.delivery.payload import Payload, parse_payload
from cc_trace.spans import TraceLink

if TYPE_CHECKING:
    from cc_trace.settings import HookEnvironment


@dataclass(frozen=True, slots=True)
class HookContext:
    """What only the worker knows that the hook itself started. None: it is not known."""

    claude_pid: int | None = None
    link: TraceLink | None = None
    project: str | None = None
    environment: HookEnvironment | None = None  # of the hook, without secrets


NO_CONTEXT: Final = HookContext()


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """A request to sync one session."""

    payload: Payload
    hook_ns: int  # when the hook ran
    context: HookContext = NO_CONTEXT

    @property
    def session_id(self) -> str:
        """Return the session's id."""
        return self.payload.session_id


def request_to_json(request: SyncRequest) -> bytes:
    """Return the form of the file: what was read from the payload, so that nobody has to read that again."""
    payload, context = request.payload, request.context
    raw = {
        "event": payload.event,
        # A path need not be UTF-8, and must come back as it was: each of its bytes is one character.
        "transcript": os.fsencode(payload.transcript).decode("latin-1"),
        "last_message": payload.last_message,
        "busy": payload.busy,
        "hook_ns": request.hook_ns,
        "claude_pid": context.claude_pid,
        "link": None if context.link is None else [*context.link],
        "project": None if context.project is None else context.project.encode("utf-8", "backslashreplace").decode(),
        "environment": context.environment,
    }
    return orjson.dumps(raw)


def request_from_json(data: bytes, session_id: str) -> SyncRequest | None:
    """Return the request that was written for a session; None for anything else."""
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    match raw:
        case {"event": str(event), "transcript": str(path), "hook_ns": int(hook_ns), **more}:
            message, busy = more.get("last_message"), more.get("busy")
            payload = Payload(
                event=event,
                transcript=Path(os.fsdecode(path.encode("latin-1", "replace"))),
                last_message=message if isinstance(message, str) else None,
                busy=busy if isinstance(busy, bool) else None,
            )
            request = SyncRequest(payload, hook_ns, _context(more, more.get("link")))
            return request if request.session_id == session_id else None
        case _:
            return None


def earlier_request(data: bytes, hook_ns: int, config_dir: Path) -> SyncRequest | str:
    """Return a request that an earlier version wrote, or why it is none.

    It has the payload as text, or is the bare payload of a hook that ran at `hook_ns`.
    """
    context = NO_CONTEXT
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        raw = None
    match raw:
        case {"cc_trace_request": {"payload": str(text), "told_ns": int(ran_ns), **more}}:
            data, hook_ns, context = text.encode(), ran_ns, _context(more, more.get("anchor"))
    payload = parse_payload(data, config_dir)
    return payload if isinstance(payload, str) else SyncRequest(payload, hook_ns, context)


def _context(raw: dict[Any, Any], link: object) -> HookContext:
    pid, project, environment = raw.get("claude_pid"), raw.get("project"), raw.get("environment")
    return HookContext(
        claude_pid=pid if isinstance(pid, int) else None,
        link=_link(link),
        project=project if isinstance(project, str) else None,
        environment=environment if is_environment(environment) else None,
    )


def _link(raw: object) -> TraceLink | None:
    if not isinstance(raw, list) or len(raw) != len(TraceLink._fields):
        return None
    return TraceLink(*(each if isinstance(each, str) else None for each in raw))
