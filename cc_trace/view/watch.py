"""Keeps the store up to date while the pages are open: reads what is new at the start, then whatever changes.

It polls: listing the folders takes milliseconds for thousands of files, and works on every file system.
"""

from __future__ import annotations

import sqlite3
import threading
from typing import TYPE_CHECKING, Final

from cc_trace.delivery import StoreUpdates
from cc_trace.errors import CcTraceError

if TYPE_CHECKING:
    from cc_trace.delivery import App
    from cc_trace.store import Store

_POLL_SECONDS: Final = 0.5


class Watch:
    """Updates the store in its own thread. `changes` counts the updates, per session and in total."""

    def __init__(self, app: App, index: Store) -> None:
        self._app = app
        self._index = index
        self._updates = StoreUpdates(app, index)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cc-trace-watch", daemon=True)
        self.changes = 0
        self.changed: dict[str, int] = {}
        self.done = self.total = 0
        self.complete = threading.Event()  # the first round is over

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and wait for it."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._updates.run(should_stop=self._stop.is_set, progress=self._progress, on_change=self._note)
            except (OSError, sqlite3.Error, CcTraceError) as error:
                self._app.log.write(f"view: {error}")
            self.complete.set()
            self._stop.wait(_POLL_SECONDS)

    def _progress(self, done: int, total: int) -> None:
        if not self.complete.is_set():
            self.done, self.total = done, total

    def _note(self, session_id: str) -> None:
        self.changes += 1
        self.changed[session_id] = self.changes
