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
from typing import TYPE_CHECKING, Final

from cc_trace.errors import StateError
from cc_trace.private_files import private_folder, write_private
from cc_trace.progress import DAMAGE, from_json, to_json
from cc_trace.transcript import is_session_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.progress import SessionState

FINGERPRINT_BYTES: Final = 1024


class States:
    """The state folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sessions = folder / "sessions"
        self._locks = folder / "locks"
        self._pending = folder / "pending"
        self._off = folder / "off"
        self._off_since = folder / "off-since"
        self.spool = folder / "spool"

    def prepare(self) -> None:
        """Make the folders, closed to others."""
        private_folder(self.folder)
        for folder in (self._sessions, self._locks, self._pending, self._off, self._off_since, self.spool):
            private_folder(folder)

    def stamp_installed(self) -> None:
        """Note that sessions are ours to deliver from now on, if that is not noted yet."""
        if not (self.folder / "installed").exists():
            write_private(self.folder / "installed", b"")

    @property
    def installed_ns(self) -> int | None:
        """Return since when sessions are ours to deliver; what was before is history. None: not installed."""
        try:
            return (self.folder / "installed").stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def leave_out(self, session_id: str) -> None:
        """Note that a session was written to while tracing was off: it stays out when tracing is on again."""
        self.path(session_id)
        _note(self._off / session_id)

    def take_in(self, session_id: str) -> None:
        """Forget that a session was written to while tracing was off: its user asks for it."""
        (self._off / session_id).unlink(missing_ok=True)

    def all_left_out(self) -> dict[str, int]:
        """Return the sessions that were written to while tracing was off, and when that was noted first."""
        notes = sorted(path for path in self._off.glob("*") if is_session_id(path.name))
        return {path.name: path.stat().st_mtime_ns for path in notes}

    def left_out(self, session_id: str) -> bool:
        """Tell whether a session was written to while tracing was off. The hook itself notes it, too."""
        return (self._off / session_id).exists()

    def off_since_ns(self, project: str | None) -> int:
        """Return when a project was first seen to be off, which is now if it never was."""
        return _note(self._off_since / _digest(project))

    def seen_on(self, project: str | None) -> None:
        """Note that a project is not off."""
        (self._off_since / _digest(project)).unlink(missing_ok=True)

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
            return from_json(self.path(session_id).read_bytes(), session_id)
        except (OSError, *DAMAGE):
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
            return from_json(data, session_id), None
        except DAMAGE as error:
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


def _note(path: Path) -> int:
    """Make an empty file where there is none, and return when it was made."""
    if not path.exists():
        write_private(path, b"")
    return path.stat().st_mtime_ns


def _digest(project: str | None) -> str:
    return hashlib.sha256((project or "").encode("utf-8", "surrogatepass")).hexdigest()[:32]


def fingerprint(path: Path, length: int) -> str:
    """Return a digest of a file's first bytes: a transcript that begins otherwise is another one."""
    with path.open("rb") as file:
        return hashlib.sha256(file.read(length)).hexdigest()
