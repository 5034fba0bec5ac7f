"""The state folder: what has been delivered of each session, one small file each, and the session's lock.

Rules:
- A file is written beside its old version, synced, and renamed over it. If the process dies in between, the old one
  stays.
- Modes are 0600 in folders of 0700 whatever the umask; a symlink is never followed for writing.
- A file that is damaged, or written by a newer version, is put aside and the session starts over: the ledger knows what
  was delivered, so nothing is sent twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING, Final

import orjson

from cc_trace.delivery.backoff import Backoff
from cc_trace.delivery.cursor import (
    ACCEPTED_MARK,
    DAMAGE,
    NOT_ACCEPTED_MARK,
    agents_from_json,
    agents_to_json,
    from_json,
    to_json,
)
from cc_trace.delivery.index import SessionIndex
from cc_trace.delivery.spool import Spool
from cc_trace.errors import StateError
from cc_trace.files import locked_file, private_folder, read_regular, write_private
from cc_trace.paths import is_session_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cc_trace.delivery.cursor import SessionState
    from cc_trace.transcript import Delivered

MAX_BYTES: Final = 64 << 20  # of a state file: the longest sessions have a few megabytes
_MARK_WITHIN: Final = 100  # the accepted mark begins within this many bytes


class StateFolder:
    """Reads, writes and locks what is stored of each session; opens the spool, the backoff files and the index."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sessions = folder / "sessions"
        self._locks = folder / "locks"
        self._off = folder / "off"
        self._disabled_since = folder / "off-since"
        self._agents = folder / "agents"
        self.spool = Spool(folder / "spool", folder / "pending")
        self._workers = folder / "workers"
        self.backoff = Backoff(folder / "backoff")
        self.index = SessionIndex(folder / "index.db", self._all)

    def prepare(self) -> None:
        """Create the folders, private to their owner."""
        private_folder(self.folder)
        for folder in self.folders:
            private_folder(folder)

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return the folders that contain only our files; the state folder itself may contain others."""
        folders = (self._sessions, self._locks, self._off, self._disabled_since, self._agents, self._workers)
        return (*folders, self.spool.folder, self.folder / "backoff")

    @property
    def streams(self) -> Path:
        """Return the folder of transcripts that were made from the output of runs."""
        return self.folder / "streams"

    def stamp_installed(self) -> None:
        """Record that cc-trace is installed from now on, unless that is recorded already."""
        if not (self.folder / "installed").exists():
            write_private(self.folder / "installed", b"")
        (self.folder / "stopped").unlink(missing_ok=True)  # the hook's note that it found no Python

    @property
    def installed_ns(self) -> int | None:
        """Return when cc-trace was installed; earlier sessions are left to backfill. None: not installed."""
        try:
            return (self.folder / "installed").stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def suppress(self, session_id: str) -> None:
        """Record that a session was written to while tracing was off: it stays untraced when tracing is on again."""
        self.path(session_id)
        _note(self._off / session_id)

    def unsuppress(self, session_id: str) -> None:
        """Forget that a session was written to while tracing was off, because its user has asked for it."""
        (self._off / session_id).unlink(missing_ok=True)

    def all_suppressed(self) -> dict[str, int]:
        """Return the sessions that were written to while tracing was off, and when that was first recorded."""
        notes = sorted(path for path in self._off.glob("*") if is_session_id(path.name))
        return {path.name: path.stat().st_mtime_ns for path in notes}

    def is_suppressed(self, session_id: str) -> bool:
        """Return whether a session was written to while tracing was off. The hook itself records that too."""
        return (self._off / session_id).exists()

    def disabled_since_ns(self, project: str | None) -> int:
        """Return when tracing was first found to be off for a project; record now if it never was."""
        return _note(self._disabled_since / _digest(project))

    def mark_enabled(self, project: str | None) -> None:
        """Record that tracing is on for a project."""
        (self._disabled_since / _digest(project)).unlink(missing_ok=True)

    def path(self, session_id: str) -> Path:
        """Return the path of a session's state file. Raises StateError for an id that would lead elsewhere."""
        if not is_session_id(session_id):
            message = f"{session_id[:80]!r} is not a session id"
            raise StateError(message)
        return self._sessions / f"{session_id}.json"

    def sessions(self) -> list[str]:
        """Return the ids of all sessions that have a state."""
        return sorted(path.stem for path in self._sessions.glob("*.json") if is_session_id(path.stem))

    def peek(self, session_id: str) -> SessionState | None:
        """Read a session's state without its lock; None if there is none, or it is damaged."""
        try:
            return from_json(read_regular(self.path(session_id), MAX_BYTES, follow=False), session_id)
        except (OSError, *DAMAGE):
            return None

    def load(self, session_id: str) -> tuple[SessionState | None, str | None]:
        """Return a session's state or None, and what was wrong with a state that had to be put aside."""
        path = self.path(session_id)
        try:
            data = read_regular(path, MAX_BYTES, follow=False)
        except FileNotFoundError:
            return None, None
        except OSError as error:
            return None, self._put_aside(path, f"unreadable: {error.strerror}")
        try:
            return from_json(data, session_id), None
        except DAMAGE as error:
            return None, self._put_aside(path, f"{type(error).__name__}: {error}")

    @staticmethod
    def _put_aside(path: Path, reason: str) -> str:
        for number in range(1, 1000):
            aside = path.with_name(f"{path.name}.aside-{number}")
            if not os.path.lexists(aside):
                path.rename(aside)
                return f"state kept aside as {aside.name} ({reason})"
        path.unlink()
        return f"state removed ({reason})"

    def save(self, state: SessionState) -> None:
        """Write a session's state. If we die before the rename, the old one stays."""
        path = self.path(state.session_id)
        self.index.invalidate(state.session_id)
        write_private(path, to_json(state))
        self.index.put(state)

    def remove(self, session_id: str) -> None:
        """Remove a session's state, agents' file, row in the index and lock file. Requires the session's lock.

        If the process dies in between, the rest can be removed the same way. A row without a state does no harm: if the
        transcript has something new, it is read from its beginning.
        """
        path = self.path(session_id)
        (self._agents / f"{session_id}.json").unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        self.index.remove(session_id)
        with contextlib.suppress(PermissionError):  # Windows does not remove open files
            (self._locks / f"{session_id}.lock").unlink(missing_ok=True)

    def _all(self) -> Iterator[SessionState]:
        for session_id in self.sessions():
            if (state := self.peek(session_id)) is not None:
                yield state

    def mark_accepted(self, session_id: str) -> None:
        """Record in place that the intent of the saved state was accepted. That works on a full disk."""
        descriptor = os.open(self.path(session_id), os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            at = os.read(descriptor, _MARK_WITHIN).find(NOT_ACCEPTED_MARK)
            if at >= 0:
                os.lseek(descriptor, at, os.SEEK_SET)
                os.write(descriptor, ACCEPTED_MARK)
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def not_in_ledger(self, session_id: str, destination: str) -> frozenset[str]:
        """Return the spans that a session has delivered and that the ledger could not record."""
        state = self.peek(session_id)
        cursor = state.destinations.get(destination) if state is not None else None
        return frozenset(cursor.not_in_ledger if cursor is not None else ())

    def agents(self, session_id: str) -> dict[str, dict[str, Delivered]]:
        """Return what each destination has of a session's agents' files; if that is lost, all are read again."""
        self.path(session_id)
        try:
            return agents_from_json(read_regular(self._agents / f"{session_id}.json", MAX_BYTES))
        except (OSError, *DAMAGE):
            return {}

    def save_agents(self, session_id: str, agents: Mapping[str, Mapping[str, Delivered]]) -> None:
        """Write what each destination has of the agents' files; after the state, so that it never says too much."""
        self.path(session_id)
        write_private(self._agents / f"{session_id}.json", agents_to_json(agents))

    def owners(self, folder: Path) -> dict[str, str]:
        """Return the known owners of the agents' files that a project's sessions share: file name -> session."""
        try:
            raw = orjson.loads(read_regular(self._owners(folder), MAX_BYTES))
        except (OSError, *DAMAGE):
            return {}
        valid = isinstance(raw, dict) and all(isinstance(owner, str) for owner in raw.values())
        return raw if valid else {}

    def save_owners(self, folder: Path, owners: Mapping[str, str]) -> None:
        """Write the owners: they never change, and finding them out means opening every file."""
        if self._agents.is_dir():
            write_private(self._owners(folder), orjson.dumps(owners))

    def _owners(self, folder: Path) -> Path:
        return self._agents / f"owners-{_digest(str(folder))}.json"

    @contextlib.contextmanager
    def locked(self, session_id: str, timeout_seconds: float = 0) -> Iterator[bool]:
        """Hold a session's lock; yield False if another process holds it. A lock is never broken."""
        self.path(session_id)
        path = self._locks / f"{session_id}.lock"
        with locked_file(path, timeout_seconds) as acquired:
            if acquired:
                with contextlib.suppress(OSError):
                    os.utime(path)  # `doctor` shows since when it is held
            yield acquired

    @contextlib.contextmanager
    def worker_slot(self, count: int) -> Iterator[bool]:
        """Hold one of a number of worker slots; yield False if all are taken."""
        for number in range(count):
            with locked_file(self._workers / f"{number}.lock") as acquired:
                if acquired:
                    yield True
                    return
        yield False

    def is_locked(self, session_id: str) -> bool:
        """Return whether a process is syncing a session."""
        with self.locked(session_id) as acquired:
            return not acquired

    def abandoned(self) -> list[str]:
        """Return the sessions with a request whose worker died."""
        return [session_id for session_id in self.spool.taken() if not self.is_locked(session_id)]


def _note(path: Path) -> int:
    """Create an empty file unless it exists; return when it was created."""
    if not path.exists():
        write_private(path, b"")
    return path.stat().st_mtime_ns


def _digest(project: str | None) -> str:
    return hashlib.sha256((project or "").encode("utf-8", "surrogatepass")).hexdigest()[:32]
