"""What a hook asks for: its payload, and what only its own process knows. Kept until a worker has taken it.

A worker that handles another hook's request has another environment: all that the request needs of its own stands here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from cc_trace.delivery.cursor import is_environment
from cc_trace.spans import TraceLink

if TYPE_CHECKING:
    from cc_trace.settings import HookEnvironment

_KEY = "cc_trace_request"  # a hook's bare payload, as earlier versions kept it, has no such key


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """A request to sync one session. None: whoever left it did not know."""

    payload: bytes
    hook_ns: int  # when the hook ran
    claude_pid: int | None = None
    link: TraceLink | None = None
    project: str | None = None
    environment: HookEnvironment | None = None  # of the hook, without secrets


def request_to_json(request: SyncRequest) -> bytes:
    """Return the form of the file. Its names are those of earlier versions, which may still read it."""
    raw = {
        "payload": request.payload.decode("utf-8", "backslashreplace"),
        "told_ns": request.hook_ns,
        "claude_pid": request.claude_pid,
        "anchor": None if request.link is None else [*request.link],
        "project": None if request.project is None else request.project.encode("utf-8", "backslashreplace").decode(),
        "environment": request.environment,
    }
    return orjson.dumps({_KEY: raw})


def request_from_json(data: bytes, hook_ns: int) -> SyncRequest:
    """Return a request; `hook_ns` is that of a file that is a bare payload."""
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        return SyncRequest(data, hook_ns)
    match raw:
        case {"cc_trace_request": {"payload": str(payload), "told_ns": int(told), **more}}:
            pid, link, project = more.get("claude_pid"), more.get("anchor"), more.get("project")
            environment = more.get("environment")
            return SyncRequest(
                payload=payload.encode(),
                hook_ns=told,
                claude_pid=pid if isinstance(pid, int) else None,
                link=_link(link),
                project=project if isinstance(project, str) else None,
                environment=environment if is_environment(environment) else None,
            )
        case _:
            return SyncRequest(data, hook_ns)


def _link(raw: object) -> TraceLink | None:
    if not isinstance(raw, list) or len(raw) != len(TraceLink._fields):
        return None
    return TraceLink(*(each if isinstance(each, str) else None for each in raw))
