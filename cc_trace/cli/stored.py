"""The store, brought up to date, for the commands that query it."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import time
from typing import TYPE_CHECKING

from cc_trace.delivery import ERROR_NOTE, App, StoreUpdates
from cc_trace.errors import StateError
from cc_trace.store import Store, store_path
from cc_trace.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PROGRESS_AFTER_SECONDS = 0.5


@contextlib.contextmanager
def up_to_date(environment: Mapping[str, str]) -> Iterator[Store]:
    """Read what is new in the transcripts, and yield the store; show the progress on stderr if it is a terminal."""
    app = App.open(environment)
    path = store_path(app.states.folder)
    with contextlib.closing(Store(path)) as store:
        progress = _Progress()
        try:
            updates = StoreUpdates(app, store)
            updates.run(progress=progress)
            progress.end()
            if updates.failed:
                count = plural(len(updates.failed), "session")
                reason = next(iter(updates.failed.values()))
                print(
                    f"cc-trace: {count} could not be read: {reason}; see {app.states.folder}/cc-trace.log",
                    file=sys.stderr,
                )
            else:
                (app.states.folder / ERROR_NOTE).unlink(missing_ok=True)
            yield store
        except sqlite3.Error as error:
            message = f"cannot use the local store {path}: {error}; run `cc-trace doctor`"
            raise StateError(message) from error


class _Progress:
    """A line on stderr that is written over, if it is a terminal and it takes a while."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        if sys.stderr is None or not sys.stderr.isatty() or time.monotonic() - self._began < _PROGRESS_AFTER_SECONDS:
            return
        self._shown = True
        bare = getattr(sys.stderr, "bare", sys.stderr)
        bare.write(f"\rreading {done:,} of {plural(total, 'session')}")
        bare.flush()

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            bare = getattr(sys.stderr, "bare", sys.stderr)
            bare.write("\r\x1b[K")
            bare.flush()
