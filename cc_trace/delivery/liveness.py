"""Which Claude Code runs a session, and whether it is at work: `<config>/sessions/<pid>.json`, and the process itself.

Claude Code keeps that file while it runs; one that crashed leaves it behind. It names the process, when that began, the
session, and since 2.1.3 whether a turn goes on: `busy` from the prompt to the end of the last Stop hook, `waiting` for
the user in the middle of a turn, `idle` between turns. 2.1.197 writes no status, 2.0 no file.

The files are anybody's text: small regular files of sane types count, all others are as good as missing.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import orjson

from cc_trace.files import read_regular
from cc_trace.transcript import scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cc_trace.delivery.cursor import SessionState
    from cc_trace.delivery.payload import Payload
    from cc_trace.spans import Ending

_QUIET_SECONDS: Final = 2.0


def from_hook(payload: Payload, alive: Liveness) -> Ending:
    """Tell what a hook says of a session whose file is at rest, and whose process is `alive` in that way.

    A Stop alone does not end a turn: another Stop hook may make the model go on, and Claude Code is at work until the
    last of them has ended. A version that does not say so is believed, unless the transcript tells otherwise.
    """
    if payload.event == "SessionEnd":
        return "over"
    if payload.busy or alive == "working":
        return "growing"
    if payload.busy is None:
        return "stopped"
    return "over" if alive in ("idle", "gone") else "settled"


def from_files(transcript: Path, state: SessionState, now: float, rest_seconds: float, config_dir: Path) -> Ending:
    """Tell how a session stands that nobody told us about: by its process, and where nothing is known of that by rest.

    A process that lives is never taken to be done because it is quiet: it may wait for the user, or for a tool. While
    a foreground agent works only its own file is written to. A process that has ended tells only of the time since
    its hook ran: a session that has grown since may have been resumed by another.
    """
    status = transcript.stat()
    written = [status.st_mtime, *(file.written_ns / 1e9 for file in scan(transcript))]
    rest = now - max(written)
    known = None if state.claude_pid is None else Process(state.claude_pid, state.claude_start)
    if known is not None and status.st_size != state.size and known.is_alive is False:
        known = None
    match liveness(config_dir, transcript.stem, known):
        case "gone":
            return "over"
        case "working":
            return "growing"
        case "idle" if rest >= _QUIET_SECONDS:  # the end of a turn is written a moment later
            return "stopped"
        case "unknown" if rest >= rest_seconds:
            return "over"
    return "quiet" if rest >= _QUIET_SECONDS else "growing"


# Of a session: its process is between turns; in the middle of one; is there, and does not say; has ended or gone on
# to another session; or nothing is known of it.
Liveness: TypeAlias = Literal["idle", "working", "alive", "gone", "unknown"]

_MAX_BYTES: Final = 65_536
_MAX_FILES: Final = 1_000
_RECORD: Final = re.compile(r"[1-9][0-9]{0,9}\.json")
_ENDED: Final = ("Z", "X")  # nobody has asked yet how it ended


@dataclass(frozen=True, slots=True)
class Process:
    """A process, known by its id and, as ids are used again, when it began; None where that is not known."""

    pid: int
    start: str | None = None

    @classmethod
    def running(cls, pid: int) -> Process:
        """Return the process that has an id now; where none has, one that whoever gets the id later is not."""
        seen = _stat(pid)
        return cls(pid, seen[1] if seen is not None else "" if cls(pid).is_alive is False else None)

    @property
    def is_alive(self) -> bool | None:
        """Tell whether it is still there; None where that cannot be asked."""
        if sys.platform.startswith("linux") and (seen := _stat(self.pid)) is not None:
            state, start = seen
            return state not in _ENDED and self.start in (None, start)
        if self.start == "":
            return False
        if sys.platform == "win32":  # there os.kill asks nothing: it would interrupt the process, or end it
            return None
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except OSError:  # it is there, and not ours
            return True
        return True


@dataclass(frozen=True, slots=True)
class _Record:
    """What such a file says."""

    process: Process
    session_id: str
    status: str | None
    domain: str | None  # the machine and the process namespace that its ids belong to
    since_ns: int | None  # when the status last changed


def liveness(config_dir: Path, session_id: str, known: Process | None = None) -> Liveness:
    """Tell how a session's process is. `known`: the process whose hook spoke of the session last."""
    gone = False
    for record in _records(config_dir):
        if record.session_id != session_id:
            # It went on with another session: /clear, or a plan carried out with a new context.
            gone |= known is not None and record.process.pid == known.pid and record.process.start == known.start
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
            gone = True
    if gone:
        return "gone"
    alive = known.is_alive if known is not None else None
    return "unknown" if alive is None else "alive" if alive else "gone"


def changed_since(config_dir: Path, session_id: str, time_ns: int) -> bool:
    """Tell whether a session's process has changed its status since then: it is busy with a turn that began later."""
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
    except (OSError, orjson.JSONDecodeError):  # gone meanwhile, or being written
        return None
    match raw:
        case {"pid": int(pid), "sessionId": str(session_id), **others} if str(pid) == path.stem:
            start, status, domain = (others.get(key) for key in ("procStart", "status", "pidDomain"))
            since_ms = others.get("statusUpdatedAt")
            process = Process(pid, start if isinstance(start, str) and start.isdecimal() else None)
            since_ns = since_ms * 1_000_000 if isinstance(since_ms, int) else None
            return _Record(process, session_id, _text(status), _text(domain), since_ns)
        case _:
            return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _is_here(domain: str | None) -> bool:
    """Tell whether ids of a domain can be looked up here; a folder can be shared with a container."""
    namespace = domain.rpartition(":pid:")[2] if domain is not None else ""
    if not namespace:
        return True  # versions before did not say
    try:
        return os.readlink("/proc/self/ns/pid") == f"pid:{namespace}"  # noqa: PTH115
    except OSError:
        return True


def _stat(pid: int) -> tuple[str, str] | None:
    """Return the state of a process and when it began, in ticks since the machine did (proc(5)); None: not known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return fields[0], fields[19]
    except (OSError, IndexError):
        return None
