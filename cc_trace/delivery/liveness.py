"""Which process runs a session, and whether it is working: `<config>/sessions/<pid>.json`, and the process itself.

Claude Code keeps that file while it runs; a process that crashes leaves it behind. The file names the process, its
start time, the session, and since 2.1.3 the status: `busy` from the prompt until the last Stop hook has ended,
`waiting` for the user within a turn, `idle` between turns. 2.1.197 writes no status, 2.0 no file.

The files are untrusted: only small regular files with the expected types count, others are treated as missing.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import orjson

from cc_trace.delivery.cursor import SessionState
from cc_trace.delivery.process import Process
from cc_trace.files import read_regular
from cc_trace.transcript import scan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.delivery.payload import Payload
    from cc_trace.spans import Ending

_QUIET_SECONDS: Final = 2.0


def ending_from_hook(payload: Payload, process_state: Liveness) -> Ending:
    """Return whether a session may still grow, given its hook's payload and the liveness of its process.

    A Stop alone does not end a turn: another Stop hook may make the model go on, and Claude Code is busy until the
    last hook has ended. For versions without a status, Stop counts as the end unless the transcript says otherwise.
    """
    if payload.event == "SessionEnd":
        return "over"
    if payload.has_background_tasks or process_state == "working":
        return "growing"
    if payload.has_background_tasks is None:
        return "stopped"
    return "over" if process_state in ("idle", "gone") else "nothing_running"


def ending_from_process(
    transcript: Path, state: SessionState, now: float, rest_seconds: float, config_dir: Path
) -> Ending:
    """Return whether a session may still grow, without a hook: by its process, or if unknown, by how long it is quiet.

    A live process is never considered done because it is quiet: it may be waiting for the user or a tool, and
    while a foreground agent works, only the agent's file grows. If the process has ended but the session has grown
    since, another process may have resumed it.
    """
    status = transcript.stat()
    write_times = [status.st_mtime, *(file.written_ns / 1e9 for file in scan(transcript))]
    quiet_seconds = now - max(write_times)
    process = state.process
    if process is not None and status.st_size != state.size and process.is_alive is False:
        process = None
    match liveness(config_dir, transcript.stem, process):
        case "gone":
            return "over"
        case "working":
            return "growing"
        case "idle" if quiet_seconds >= _QUIET_SECONDS:  # the last lines of a turn are written a moment later
            return "stopped"
        case "unknown" if quiet_seconds >= rest_seconds:
            return "over"
    return "quiet" if quiet_seconds >= _QUIET_SECONDS else "growing"


def has_ended(transcript: Path, state: SessionState | None, config_dir: Path) -> bool:
    """Return whether the process of a session is known to have ended. `state` None: nothing was delivered of it."""
    state = state or SessionState(transcript.stem, str(transcript))
    with contextlib.suppress(OSError):  # the transcript is gone
        return ending_from_process(transcript, state, time.time(), math.inf, config_dir) == "over"
    return False


# The process of a session is between turns ("idle"), within one ("working"), or alive without a status ("alive"); it
# has ended or moved on to another session ("gone"); or nothing is known about it ("unknown").
Liveness: TypeAlias = Literal["idle", "working", "alive", "gone", "unknown"]

_MAX_BYTES: Final = 65_536
_MAX_FILES: Final = 1_000
_RECORD: Final = re.compile(r"[1-9][0-9]{0,9}\.json")


class _Record(NamedTuple):
    """One `<config>/sessions/<pid>.json`."""

    process: Process
    session_id: str
    status: str | None
    domain: str | None  # the machine and process namespace of its process id
    since_ns: int | None  # when the status last changed


def liveness(config_dir: Path, session_id: str, process: Process | None = None) -> Liveness:
    """Return the liveness of a session's process. `process`: the one whose hook ran last for this session."""
    is_gone = False
    for record in _records(config_dir):
        if record.session_id != session_id:
            # It moved on to another session: after /clear, or to carry out a plan with a new context.
            is_gone |= (
                process is not None and record.process.pid == process.pid and record.process.start == process.start
            )
        elif not _is_here(record.domain) or (alive := record.process.is_alive) is None:
            return "unknown"
        elif alive:
            match record.status:
                case "busy" | "waiting":
                    return "working"
                case "idle":
                    return "idle"
                case _:
                    return "alive"
        else:
            is_gone = True
    if is_gone:
        return "gone"
    alive = process.is_alive if process is not None else None
    return "unknown" if alive is None else "alive" if alive else "gone"


def changed_since(config_dir: Path, session_id: str, time_ns: int) -> bool:
    """Return whether the status of a session's process has changed since then, so that it is busy with a later turn."""
    records = (record for record in _records(config_dir) if record.session_id == session_id)
    return any(record.since_ns is not None and record.since_ns > time_ns for record in records)


def _records(config_dir: Path) -> Iterator[_Record]:
    try:
        names = [name for name in os.listdir(config_dir / "sessions") if _RECORD.fullmatch(name)]  # noqa: PTH208
    except OSError:
        return
    for name in names[:_MAX_FILES]:
        if (record := _read(config_dir / "sessions" / name)) is not None:
            yield record


def _read(path: Path) -> _Record | None:
    try:
        raw = orjson.loads(read_regular(path, _MAX_BYTES, follow=False, any_owner=True))
    except (OSError, orjson.JSONDecodeError):  # removed meanwhile, or being written
        return None
    match raw:
        case {"pid": int(pid), "sessionId": str(session_id), **others} if str(pid) == path.stem:
            start, status, domain = (others.get(key) for key in ("procStart", "status", "pidDomain"))
            since_ms = others.get("statusUpdatedAt")
            process = Process(pid, start if isinstance(start, str) and start.isdecimal() else None)
            since_ns = since_ms * 1_000_000 if isinstance(since_ms, int) else None
            return _Record(
                process=process, session_id=session_id, status=_text(status), domain=_text(domain), since_ns=since_ns
            )
        case _:
            return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _is_here(domain: str | None) -> bool:
    """Return whether process ids of a domain mean something here: the folder can be shared with a container."""
    namespace = domain.rpartition(":pid:")[2] if domain is not None else ""
    if not namespace:
        return True  # earlier versions do not write it
    try:
        return os.readlink("/proc/self/ns/pid") == f"pid:{namespace}"  # noqa: PTH115
    except OSError:
        return True
