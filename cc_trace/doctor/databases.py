"""Whether the databases on this machine, the local store and the ledger, are intact."""

from __future__ import annotations

import contextlib
import os
import shlex
import sqlite3
import time
from typing import TYPE_CHECKING, Final

from cc_trace.doctor.check import failed
from cc_trace.files import check_beside_database
from cc_trace.store import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.doctor.check import Check

_MAX_SECONDS: Final = 10.0  # for reading a large database
_BUSY_SECONDS: Final = 10.0
_STEPS: Final = 10_000  # of SQLite's machine, between two looks at the clock
_NOT_FINISHED: Final = (sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_BUSY)  # it is large, or in use


def check_store(path: Path) -> Check | None:
    """Return what is wrong with the store; None if nothing is, or there is none."""
    version, problem = _inspect(path, "ro")
    if version > VERSION:
        finding = f"{path} has schema version {version}, but this cc-trace writes version {VERSION}"
        return failed("local store", finding, f"update cc-trace, or move it away: {_move_away(path)}")
    if problem is not None:
        recover = f"sqlite3 {shlex.quote(f'{path}.damaged')} .recover | sqlite3 {shlex.quote(str(path))}"
        fix = f"{_move_away(path)}; `{recover}` recovers what can still be read"
        return failed("local store", f"{path} {problem}", fix)
    return None


def check_ledger(path: Path) -> Check | None:
    """Return what is wrong with the ledger: if it cannot be used, nothing is delivered. None if nothing is wrong."""
    # Opened to be read only, it would leave the files behind that SQLite makes beside it.
    _, problem = _inspect(path, "rw")
    if problem is not None:
        fix = f"{_move_away(path)}; the next delivery creates a new one, and each session's state knows what was sent"
        return failed("ledger", f"{path} {problem}", fix)
    return None


def remove_span(path: Path, span_id: str) -> None:
    """Remove a span from the store."""
    with _open(path, "rw") as database:
        database.execute("DELETE FROM spans WHERE span_id = ?", (span_id,))


def _inspect(path: Path, mode: str) -> tuple[int, str | None]:
    """Return the version of a database's schema, and what is wrong with it. Of a large one only a part is read."""
    if not os.path.lexists(path):
        return 0, None
    if path.is_symlink():
        return 0, "is a symlink, which is not followed"
    if not path.is_file():  # such as a pipe, for whose other end SQLite would wait
        return 0, "is not a file"
    if not os.access(path, os.R_OK | os.W_OK):
        return 0, "cannot be read and written"
    version, result = 0, "ok"
    end = time.monotonic() + _MAX_SECONDS
    try:
        with _open(path, mode) as database:
            version = int(database.execute("PRAGMA user_version").fetchone()[0])
            database.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
            result = str(database.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) not in _NOT_FINISHED:
            result = str(error)
    except OSError as error:
        result = str(error.strerror)
    return version, None if result == "ok" else f"is damaged: {' '.join(result.split())}"


@contextlib.contextmanager
def _open(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    check_beside_database(path)
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    with contextlib.closing(sqlite3.connect(uri, timeout=_BUSY_SECONDS, uri=True, isolation_level=None)) as database:
        yield database


def _move_away(path: Path) -> str:
    return f"mv {shlex.quote(str(path))} {shlex.quote(f'{path}.damaged')}"
