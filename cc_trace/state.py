"""What has been delivered of each session: one small file per session, and the lock that guards it.

Rules:
- A file is written beside its old version, synced, and renamed over it. Who dies in between leaves the old one.
- Modes are 0600 in folders of 0700 whatever the umask; a symlink is never followed for writing.
- A file that is damaged or of a newer version is kept aside and the session begun again: the ledger knows what has
  been delivered, so nothing is sent twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from cc_trace.errors import StateError
from cc_trace.private_files import private_folder, write_private
from cc_trace.spans import Anchor
from cc_trace.transcript import Position, is_session_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VERSION: Final = 1
FINGERPRINT_BYTES: Final = 1024
_DAMAGE: Final = (orjson.JSONDecodeError, TypeError, ValueError, KeyError, AttributeError)
MAX_NOTES: Final = 100  # of refused spans, for the report


@dataclass(slots=True)
class Progress:
    """How far one destination has got. `offset` and `line` are where its oldest undelivered turn begins."""

    offset: int = 0
    line: int = 0
    turns: int = 0  # completely delivered before that
    accepted: list[str] = field(default_factory=list)  # spans from there on that the destination has
    rejected: list[str] = field(default_factory=list)  # spans from there on that it will never take
    intent: list[str] = field(default_factory=list)  # spans being sent; found at the start: nobody saw the answer
    intent_at: float | None = None
    delivered: int = 0  # spans in all
    behind: int = 0  # spans that were final and not taken at the last sync
    unfinished: int = 0  # spans that were not final yet
    notes: list[dict[str, Any]] = field(default_factory=list)  # what was refused for good, and why
    error: str | None = None
    error_at: float | None = None
    not_before: float | None = None  # the backend asked to be left alone until then
    refusing_since: float | None = None  # it has refused everything since then
    time: float | None = None
    launched: dict[str, str] = field(default_factory=dict)
    launches: dict[str, str] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)

    @property
    def position(self) -> Position:
        """Return where reading goes on."""
        return Position(self.offset, self.line)

    @property
    def begun(self) -> int:
        """Return how many turns something was sent of."""
        return self.turns + bool(self.accepted or self.rejected or self.intent)


@dataclass(slots=True)
class SessionState:
    """All that is remembered of a session."""

    session_id: str
    transcript: str
    size: int = 0  # of the transcript when it was last read
    mtime_ns: int = 0
    fingerprint: str = ""
    fingerprint_bytes: int = 0
    claude_pid: int | None = None
    cwd: str | None = None  # where it was started: its project
    anchors: dict[str, list[str | None]] = field(default_factory=dict)  # turn -> what it and later ones are tied to
    destinations: dict[str, Progress] = field(default_factory=dict)

    def progress(self, destination: str) -> Progress:
        """Return the progress of one destination, from the beginning if it is new."""
        return self.destinations.setdefault(destination, Progress())

    def untouched(self) -> int:
        """Return the number of the first turn of which nothing has been sent anywhere."""
        return 1 + max((progress.begun for progress in self.destinations.values()), default=0)


def state_folder(environment: Mapping[str, str], claude: Path) -> Path:
    """Return our own folder, by default inside Claude Code's."""
    return Path(environment.get("CC_TRACE_HOME") or claude / "state" / "cc-trace")


class States:
    """The state folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sessions = folder / "sessions"
        self._locks = folder / "locks"
        self._pending = folder / "pending"
        self._off = folder / "off"
        self.spool = folder / "spool"

    def prepare(self) -> None:
        """Make the folders, closed to others."""
        for folder in (self.folder, self._sessions, self._locks, self._pending, self._off, self.spool):
            private_folder(folder)
        installed = self.folder / "installed"
        if not installed.exists():
            write_private(installed, b"")

    @property
    def installed_ns(self) -> int:
        """Return since when sessions are ours to deliver; what was before is history."""
        return (self.folder / "installed").stat().st_mtime_ns

    def leave_out(self, session_id: str) -> None:
        """Note that a session was written to while tracing was off: it stays out when tracing is on again."""
        self.path(session_id)
        write_private(self._off / session_id, b"")

    def left_out(self, session_id: str) -> bool:
        """Tell whether a session was written to while tracing was off. The hook itself notes it, too."""
        return (self._off / session_id).exists()

    def want(self, session_id: str, payload: bytes, told_ns: int) -> None:
        """Leave word that a session is to be synced, told at that time; a later word replaces an earlier one."""
        self.path(session_id)
        path = self._pending / f"{session_id}.json"
        write_private(path, payload)
        with contextlib.suppress(FileNotFoundError):  # taken already; it then counts as told just now
            os.utime(path, ns=(told_ns, told_ns))

    def wanted(self, session_id: str) -> bool:
        """Tell whether word was left since it was last taken."""
        return (self._pending / f"{session_id}.json").exists()

    def take_word(self, session_id: str) -> tuple[bytes, int] | None:
        """Return and remove the word that was left and when it was told, before the work it asks for begins."""
        path = self._pending / f"{session_id}.json"
        own = self._pending / f".{session_id}.{os.getpid()}"
        try:
            path.rename(own)  # word that is left from now on is not this one
            data, told_ns = own.read_bytes(), own.stat().st_mtime_ns
            own.unlink()
        except FileNotFoundError:
            return None
        return data, told_ns

    def pending(self) -> list[str]:
        """Return the sessions that word was left for."""
        return sorted(path.stem for path in self._pending.glob("*.json") if is_session_id(path.stem))

    def path(self, session_id: str) -> Path:
        """Return a session's state file; an id that could lead elsewhere is refused."""
        if not is_session_id(session_id):
            message = f"{session_id[:80]!r} is no session id"
            raise StateError(message)
        return self._sessions / f"{session_id}.json"

    def sessions(self) -> list[str]:
        """Return the ids of all sessions there is a state of."""
        return sorted(path.stem for path in self._sessions.glob("*.json") if is_session_id(path.stem))

    def peek(self, session_id: str) -> SessionState | None:
        """Return a session's state for a look, without its lock: one that is damaged is as good as none."""
        try:
            return _from_json(self.path(session_id).read_bytes())
        except (OSError, *_DAMAGE):
            return None

    def load(self, session_id: str) -> tuple[SessionState | None, str | None]:
        """Return a session's state, None where there is none, and what was wrong with one that was put aside."""
        path = self.path(session_id)
        try:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        except FileNotFoundError:
            return None, None
        except OSError as error:
            return None, self._put_aside(path, f"unreadable: {error.strerror}")
        with os.fdopen(descriptor, "rb") as file:
            data = file.read()
        try:
            return _from_json(data), None
        except _DAMAGE as error:
            return None, self._put_aside(path, f"{type(error).__name__}: {error}")

    @staticmethod
    def _put_aside(path: Path, why: str) -> str:
        for number in range(1, 1000):
            aside = path.with_name(f"{path.name}.aside-{number}")
            if not os.path.lexists(aside):
                path.rename(aside)
                return f"state kept aside as {aside.name} ({why})"
        path.unlink()
        return f"state removed ({why})"

    def save(self, state: SessionState) -> None:
        """Write a session's state. If we die before the rename, the old one stands."""
        write_private(self.path(state.session_id), to_json(state))

    @contextlib.contextmanager
    def locked(self, session_id: str, timeout_seconds: float = 0) -> Iterator[bool]:
        """Hold a session's lock; False where another process has it. A lock is never broken."""
        import filelock  # noqa: PLC0415  (60 ms, which `show` and `--help` need not pay)

        self.path(session_id)
        lock = filelock.FileLock(self._locks / f"{session_id}.lock", mode=0o600)
        try:
            lock.acquire(timeout=timeout_seconds, poll_interval=0.05)
        except filelock.Timeout:
            yield False
            return
        try:
            with contextlib.suppress(OSError):
                os.utime(lock.lock_file)  # since when it is held, for `doctor`
            yield True
        finally:
            lock.release()

    def is_locked(self, session_id: str) -> bool:
        """Tell whether a process is at work on a session."""
        with self.locked(session_id) as held:
            return not held


def to_json(state: SessionState) -> bytes:
    """Return the form of the file."""
    # A path need not be UTF-8; it is only shown.
    shown = state.transcript.encode("utf-8", "backslashreplace").decode()
    raw = {"version": VERSION, **asdict(state), "transcript": shown}
    return orjson.dumps(raw, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _from_json(data: bytes) -> SessionState:
    raw = orjson.loads(data)
    if raw.pop("version") != VERSION:
        message = "another version's"
        raise ValueError(message)
    destinations = {name: Progress(**progress) for name, progress in raw.pop("destinations").items()}
    state = SessionState(**raw, destinations=destinations)
    numbers = [
        state.size,
        *(number for each in destinations.values() for number in (each.offset, each.line, each.turns)),
    ]
    if not all(type(number) is int and number >= 0 for number in numbers):
        message = "a number is out of range"
        raise ValueError(message)
    for first, anchor in state.anchors.items():
        int(first)
        Anchor(*anchor)
    return state


def fingerprint(path: Path, length: int) -> str:
    """Return a digest of a file's first bytes: a transcript that begins otherwise is another one."""
    with path.open("rb") as file:
        return hashlib.sha256(file.read(length)).hexdigest()
