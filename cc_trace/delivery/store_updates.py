"""Keeping the store up to date with the transcripts of this machine.

Rules:
- A session is read when its files differ from what they were when it was last read; the newest first, since users
  look at recent sessions. While many are read, those that are written to come in between: a running session is followed
  from the start, however long the history is.
- It is read again too when the privacy settings of its project change.
- What is off, excluded, suppressed, or a fork of what is suppressed, does not enter, and leaves if it had entered. Nor
  does a session for which `store` is false, unless the store is one of its destinations.
- A session whose transcript was deleted stays until it is suppressed, or `store_days` are over. The output of a run is
  read only for a session that has nothing else: it may be a part of it.
- A session that fails does not affect others.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace.delivery.forks import suppressed_by
from cc_trace.delivery.history import past_sessions
from cc_trace.delivery.liveness import has_ended
from cc_trace.errors import CcTraceError, StateError
from cc_trace.files import write_private
from cc_trace.privacy import Privacy
from cc_trace.settings import read_scope, why_off
from cc_trace.transcript import OpenTranscript, scan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from cc_trace.delivery.app import App
    from cc_trace.delivery.history import TranscriptFile
    from cc_trace.settings import HookEnvironment
    from cc_trace.store import Store

ERROR_NOTE: Final = "store-error"  # in the state folder: why a worker could not write the store
MAX_SESSIONS: Final = 20  # that a worker reads
# Only to save history before transcripts are deleted: readers update the store themselves.
_EVERY_SECONDS: Final = 600.0
_MARGIN_SECONDS: Final = 120.0  # between the last line of a transcript and its delivery
_BUSY_SECONDS: Final = 0.1  # that a worker waits for another process
_REST_SECONDS: Final = 300.0  # then a session is idle
_AT_WORK_SECONDS: Final = 3_600.0  # a session that was written to since then may go on
_LOOK_SECONDS: Final = 1.0  # between two checks for new lines while a history is read
_DAY_SECONDS: Final = 86_400.0


class StoreUpdates:
    """Brings the store up to date, again and again. `failed`: the sessions that could not be read, and why."""

    def __init__(self, app: App, store: Store) -> None:
        self._app = app
        self._store = store
        self._stamps = store.stamps()
        self._settings: dict[Path, str] = {}  # by folder, or by output of a run
        self._has_deleted_texts = False  # of sessions whose settings changed or that were removed
        self.failed: dict[str, str] = {}

    def run(
        self,
        paths: Sequence[str] = (),
        *,
        should_stop: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
        on_change: Callable[[str], None] = lambda _: None,
    ) -> bool:
        """Read what has changed, of all sessions or of those at `paths`; return False if `should_stop` ended it.

        `progress` gets the number of sessions read and their total, `on_change` the id of each that was written.
        Raises OSError, sqlite3.Error and CcTraceError if nothing can be read at all.
        """
        suppressed, unplaced = self._app.states.all_suppressed(), self._store.unplaced()
        for session_id in suppressed.keys() & {*self._stamps, *unplaced}:
            self._remove(session_id, on_change)
        since = self._since()
        files = past_sessions(paths, self._app.config_dir, since, self._app.states.streams)
        stamped = [(file, self._stamp(file)) for file in reversed(files) if file.path.stem not in suppressed]
        pending = [(file, stamp) for file, stamp in stamped if stamp != self._stamps.get(file.path.stem)]
        checked_at = time.time()
        for done, (file, stamp) in enumerate(pending):
            progress(done, len(pending))
            if should_stop():
                return False
            if not paths and not 0 <= (now := time.time()) - checked_at < _LOOK_SECONDS:
                self._read_written(checked_at, int(since * 1e9), suppressed.keys(), on_change)
                checked_at = now
            if stamp != self._stamps.get(file.path.stem):  # it may have been read meanwhile
                self._read(file, stamp, int(since * 1e9), on_change)
        progress(len(pending), len(pending))
        with_transcript = {file.path.stem for file in files if not self._is_stream(file.path)}
        for session_id in self._store.unplaced() if not paths else ():
            if session_id not in with_transcript:
                self._store.lay_out(session_id)
                self._stamps[session_id] = None
                on_change(session_id)
        for session_id in self._store.mark_ended(self._has_ended, time.time()):
            on_change(session_id)
        if self._has_deleted_texts:
            self._erase_deleted_texts()
        return True

    def _erase_deleted_texts(self) -> None:
        try:
            self._store.erase_deleted()
            self._has_deleted_texts = False
        except sqlite3.Error as error:  # another process reads the store, or the disk is full
            self._app.log.write(f"store: deleted texts may remain in the file until it is written to: {error}")

    def _has_ended(self, transcript: Path) -> bool:
        with contextlib.suppress(StateError):  # a file that is not named after a session
            return has_ended(transcript, self._app.states.peek(transcript.stem), self._app.config_dir)
        return False

    def _read_written(
        self, checked_at: float, since_ns: int, suppressed: AbstractSet[str], on_change: Callable[[str], None]
    ) -> None:
        """Read the sessions that were written to since `checked_at`, in unix seconds; file systems may round times."""
        for file in past_sessions((), self._app.config_dir, checked_at - _LOOK_SECONDS, self._app.states.streams):
            if file.path.stem not in suppressed and (stamp := self._stamp(file)) != self._stamps.get(file.path.stem):
                self._read(file, stamp, since_ns, on_change)

    def _since(self) -> float:
        """Return the time from which sessions are kept."""
        days = self._app.local_config().store_days
        return time.time() - days * _DAY_SECONDS if days else 0.0

    def _settings_of(self, path: Path) -> str:
        """Return a digest of the settings for a session, computed once per folder.

        Sessions in one folder belong to one project, so the first of them determines the digest for all. The folder of
        transcripts made from the output of runs has sessions of all projects.
        """
        key = path if self._is_stream(path) else path.parent
        if key not in self._settings:
            digest = "wrong"  # reported when the session is read
            with contextlib.suppress(CcTraceError):
                origin = self._app.project_and_environment(path)
                privacy = self._app.local_config(*origin).privacy if self._belongs_in_store(*origin) else None
                digest = hashlib.sha256(repr(privacy).encode("utf-8", "replace")).hexdigest()[:8]
            self._settings[key] = digest
        return self._settings[key]

    def _stamp(self, file: TranscriptFile) -> str:
        """Return a text that changes when a session does.

        It covers the size and time of its file and its agents' files, whether it is at rest, and its settings.
        """
        stamp = f"{self._settings_of(file.path)}:{file.size}:{file.changed}"
        age = time.time() - file.changed
        if age > _AT_WORK_SECONDS:
            return stamp
        agent_files = scan(file.path)
        latest = max([file.changed, *(agent_file.written_ns / 1e9 for agent_file in agent_files)])
        return f"{stamp}:{len(agent_files)}:{latest}:{time.time() - latest > _REST_SECONDS}"

    def _read(self, file: TranscriptFile, stamp: str, since_ns: int, on_change: Callable[[str], None]) -> None:
        session_id = file.path.stem
        try:
            if self._is_stream(file.path) and self._has_other_source(file.path):
                self._stamps[session_id] = stamp
                return
            origin = self._app.project_and_environment(file.path)
            if not (self._belongs_in_store(*origin) and self._unsuppressed(file.path)):
                self._remove(session_id, on_change)
                self._stamps[session_id] = stamp
                return
            privacy = Privacy(self._app.local_config(*origin).privacy)
            written_at = max([file.changed, *(agent_file.written_ns / 1e9 for agent_file in scan(file.path))])
            if self._store.update(file.path, stamp, privacy, written=written_at, now=time.time(), since_ns=since_ns):
                on_change(session_id)
            previous = self._stamps.get(session_id)
            self._has_deleted_texts |= previous is not None and _settings_in(previous) != _settings_in(stamp)
            self._stamps[session_id] = stamp
            self.failed.pop(session_id, None)
        except Exception as error:  # noqa: BLE001  (a bug that one session shows must not hold up the others)
            if self.failed.get(session_id) != str(error):  # logged once, retried every time
                self.failed[session_id] = str(error)
                self._app.log.write(f"store: {file.path}: {error}")

    def _is_stream(self, path: Path) -> bool:
        return path.parent == self._app.states.streams

    def _has_other_source(self, stream: Path) -> bool:
        """Return whether the store has a session from a source other than a run's output, which may be incomplete."""
        query = (
            "SELECT (SELECT path FROM sessions WHERE session_id = ?1),"
            " EXISTS (SELECT 1 FROM spans WHERE session_id = ?1)"
        )
        ((path, has_spans),) = self._store.read(query, [stream.stem])
        return bool(has_spans) and path != str(stream)

    def _belongs_in_store(self, project: str | None, environment: HookEnvironment | None) -> bool:
        """Return whether the settings of a project let its sessions into the store."""
        scope = read_scope(self._app.settings(project, environment), self._app.sources.home)
        return why_off(scope, project) is None and self._app.local_config(project, environment).store

    def _unsuppressed(self, path: Path) -> bool:
        with OpenTranscript(path) as transcript:
            return suppressed_by(transcript, self._app.states, new=True) is None

    def _remove(self, session_id: str, on_change: Callable[[str], None]) -> None:
        self._stamps.pop(session_id, None)
        if self._store.remove(session_id):
            self._has_deleted_texts = True
            on_change(session_id)


def _settings_in(stamp: str) -> str:
    return stamp.partition(":")[0]


def update_store(app: App, should_stop: Callable[[], bool]) -> None:
    """Update the store from a worker: read the newest sessions of those delivered since this was last done.

    A store that cannot be written is noted for `doctor`, and holds up nothing. What is left, even if we die, is
    read when the store is next queried.
    """
    folder, note = app.states.folder, app.states.folder / ERROR_NOTE
    try:
        stamp, now = folder / "stored", app.runtime.clock()
        since = stamp.stat().st_mtime if stamp.exists() else (app.states.installed_ns or 0) / 1e9
        if stamp.exists() and 0 <= now - since < _EVERY_SECONDS:
            return
        since_ns = (since - _MARGIN_SECONDS) * 1e9
        rows = sorted(
            (row for row in app.states.index.rows().values() if row.mtime_ns >= since_ns), key=lambda row: -row.mtime_ns
        )
        stamp.touch(mode=0o600)
        os.utime(stamp, (now, now))
        states = [app.states.peek(row.session_id) for row in rows[:MAX_SESSIONS]]
        paths = [state.transcript for state in states if state is not None and Path(state.transcript).is_file()]
        if not paths:
            return
        from cc_trace.store import Store, store_path  # noqa: PLC0415  (most workers do not come here)

        with contextlib.closing(Store(store_path(folder), _BUSY_SECONDS)) as store:
            updates = StoreUpdates(app, store)
            updates.run(paths, should_stop=should_stop)
        if updates.failed:
            write_private(note, next(iter(updates.failed.values())).encode("utf-8", "replace"))
        else:
            note.unlink(missing_ok=True)
    except (OSError, sqlite3.Error, CcTraceError) as error:
        app.log.write(f"store: {error}")
        with contextlib.suppress(OSError):
            write_private(note, str(error).encode("utf-8", "replace"))
