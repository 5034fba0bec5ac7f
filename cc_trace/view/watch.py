"""Keeps the index up to date while the pages are open: reads what is new at the start, then whatever changes.

A look at the folders takes milliseconds for thousands of files, and it works on every file system, so it is a poll.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Final

from cc_trace.delivery import past_sessions, suppressed_by
from cc_trace.errors import CcTraceError
from cc_trace.privacy import Privacy
from cc_trace.transcript import OpenTranscript, first_cwd, scan

if TYPE_CHECKING:
    from pathlib import Path

    from cc_trace.delivery import App, TranscriptFile
    from cc_trace.store import Store

_POLL_SECONDS: Final = 0.5
_REST_SECONDS: Final = 300.0  # then a session is idle
_AT_WORK_SECONDS: Final = 3_600.0  # a session that was written to since then may go on


class Watch:
    """A thread of its own. `changes` counts what was written, per session and in all."""

    def __init__(self, app: App, index: Store) -> None:
        self._app = app
        self._index = index
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cc-trace-watch", daemon=True)
        self._stamps: dict[str, str] = {}
        self._failed: dict[str, str] = {}  # the session's stamp when it could not be read
        self.changes = 0
        self.changed: dict[str, int] = {}
        self.done = self.total = 0
        self.complete = threading.Event()  # the first round is over

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for it."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        self._stamps = self._index.stamps()
        while not self._stop.is_set():
            try:
                self._round()
            except (OSError, sqlite3.Error, CcTraceError) as error:
                self._app.log.write(f"view: {error}")
            self.complete.set()
            self._stop.wait(_POLL_SECONDS)

    def _round(self) -> None:
        """Read what has changed, the latest first: that is what the user came for."""
        suppressed = self._app.states.all_suppressed()
        found = past_sessions((), self._app.config_dir, since=0)
        found = [past for past in found if past.path.stem not in suppressed]
        latest = list(reversed(found))
        pending = [(past, stamp) for past in latest if (stamp := self._stamp(past)) != self._stamps.get(past.path.stem)]
        if not self.complete.is_set():
            self.done, self.total = 0, len(pending)
        for past, stamp in pending:
            if self._stop.is_set():
                return
            self._read(past, stamp)
            self.done += 1
        self._forget({past.path.stem for past in found})

    def _stamp(self, past: TranscriptFile) -> str:
        """Return what changes when a session does: its size and time, its agents', and whether it is at rest."""
        stamp = f"{past.size}:{past.changed}"
        age = time.time() - past.changed
        if age > _AT_WORK_SECONDS:
            return stamp
        files = scan(past.path)
        latest = max([past.changed, *(file.written_ns / 1e9 for file in files)])
        return f"{stamp}:{len(files)}:{latest}:{time.time() - latest > _REST_SECONDS}"

    def _read(self, past: TranscriptFile, stamp: str) -> None:
        session_id = past.path.stem
        try:
            state = self._app.states.peek(session_id)
            started = (first_cwd(past.path), None) if state is None else (state.cwd, state.environment)
            if self._app.off(*started) is not None or self._is_suppressed(past.path):
                self._index.remove(session_id)
                self._stamps[session_id] = stamp
                return
            privacy = Privacy(self._app.config(*started).privacy)
            rest = time.time() - max([past.changed, *(file.written_ns / 1e9 for file in scan(past.path))])
            if self._index.update(past.path, stamp, privacy, rest):
                self.changes += 1
                self.changed[session_id] = self.changes
            self._stamps[session_id] = stamp
            self._failed.pop(session_id, None)
        except (OSError, sqlite3.Error, CcTraceError, RecursionError) as error:
            if self._failed.get(session_id) != stamp:  # said once, tried again
                self._failed[session_id] = stamp
                self._app.log.write(f"view: {past.path}: {error}")

    def _is_suppressed(self, path: Path) -> bool:
        """Tell whether a session, or one whose turns it copied, was written to while tracing was off."""
        with OpenTranscript(path) as transcript:
            return suppressed_by(transcript, self._app.states, new=True) is not None

    def _forget(self, there: set[str]) -> None:
        """Leave out the sessions whose transcripts were deleted, with all that was read of them."""
        for session_id in [known for known in self._stamps if known not in there]:
            with contextlib.suppress(sqlite3.Error):
                self._index.remove(session_id)
            del self._stamps[session_id]
            self.changes += 1
            self.changed[session_id] = self.changes
