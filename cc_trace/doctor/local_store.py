"""Whether the databases on this machine are whole, the local store and the ledger; and taking a test span out again."""

from __future__ import annotations

import contextlib
import os
import shlex
import sqlite3
import time
from typing import TYPE_CHECKING, Final

from cc_trace.doctor.check import failed, ok
from cc_trace.files import check_beside_database, open_regular
from cc_trace.store import VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from cc_trace.doctor.check import Check

_SECONDS: Final = 10.0  # that looking through a large store may take
_BUSY_SECONDS: Final = 10.0
_STEPS: Final = 10_000  # of SQLite's machine, between two looks at the clock


def looked_through(path: Path) -> Check:
    """Return whether a store that is there can be read and has our form."""
    version, whole, said = _look(path, "ro", "spans")
    if version not in (0, VERSION):
        found = f"{path} has schema version {version}, but this cc-trace writes version {VERSION}"
        return failed("local store", found, f"update cc-trace, or move it away: {_moved(path)}")
    if whole:
        return ok("local store", f"{path}, {said}")
    back = f"sqlite3 {shlex.quote(f'{path}.damaged')} .recover | sqlite3 {shlex.quote(str(path))}"
    found = f"{path} is damaged: {said}"
    return failed("local store", found, f"{_moved(path)}; `{back}` recovers what can still be read")


def _moved(path: Path) -> str:
    return f"mv {shlex.quote(str(path))} {shlex.quote(f'{path}.damaged')}"


def _look(path: Path, mode: str, table: str) -> tuple[int, bool, str]:
    """Return the form of a database, whether it is whole, and what is said of it."""
    version = 0
    try:
        open_regular(path).close()  # SQLite opens whatever is there, and waits for the other end of a pipe
        with contextlib.closing(_opened(path, mode)) as database:
            version = int(database.execute("PRAGMA user_version").fetchone()[0])
            return version, *_quick_check(database, table)
    except sqlite3.Error as error:
        return version, False, str(error)
    except OSError as error:
        return version, False, str(error.strerror)


def _quick_check(database: sqlite3.Connection, table: str) -> tuple[bool, str]:
    """Return whether a database is whole, and what is said of it; `table` is what is counted, if it is there yet."""
    end = time.monotonic() + _SECONDS
    database.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
    try:
        said = str(database.execute("PRAGMA quick_check(1)").fetchone()[0])
        if said != "ok":
            return False, " ".join(said.split())
        there = database.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
        count = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] if there else 0  # noqa: S608  (our own)
    except sqlite3.OperationalError:
        if time.monotonic() <= end:
            raise
        return True, f"no damage found within {_SECONDS:g} seconds"
    return True, f"intact, with {count} {table}"


def ledger_looked_through(path: Path) -> Check:
    """Return whether the ledger that is there can be used: without it nothing is delivered."""
    trouble = _no_file(path)
    if trouble is None:
        # Who may not write leaves the files beside it behind that SQLite makes for a look.
        _, whole, said = _look(path, "rw", "claims")
        if whole:
            return ok("ledger", f"{path}, {said}")
        trouble = f"is damaged: {said}"
    fix = f"{_moved(path)}; the next delivery creates a new one, and each session's state still knows what was sent"
    return failed("ledger", f"{path} {trouble}", fix)


def _no_file(path: Path) -> str | None:
    """Return what keeps a path from being used as a file."""
    if path.is_symlink():
        return "is a symlink, which is not followed"
    if not path.is_file():
        return "is not a file"
    if not os.access(path, os.R_OK | os.W_OK):
        return "cannot be read and written"
    return None


def forget(path: Path, span_id: str) -> None:
    """Take one span out."""
    with contextlib.closing(_opened(path, "rw")) as database:
        database.execute("DELETE FROM spans WHERE span_id = ?", (span_id,))


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    check_beside_database(path)
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, timeout=_BUSY_SECONDS, uri=True, isolation_level=None)
