"""A cache of what matters in all state files, so that 10,000 of them need not be read at every Stop.

Rules:
- The state files are the truth. A row is invalidated before its state is written, and filled in afterwards. If the
  process dies in between, the invalid row makes readers open the file.
- A cache that is missing or damaged, or that once could not be written, is rebuilt from the files.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from cc_trace.files import open_private, prepare_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from cc_trace.delivery.cursor import SessionState

_VERSION: Final = 3
_BUSY_SECONDS: Final = 5.0
INVALID: Final = -1  # no transcript has this size
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS sessions (session TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, cwd TEXT,"
    " environment TEXT, agent_bytes INTEGER, pending TEXT, complete TEXT, tried REAL) WITHOUT ROWID"
)


class IndexRow(NamedTuple):
    """One session. `pending` and `complete` name destinations."""

    session_id: str
    size: int  # the transcript's size when it was last read
    mtime_ns: int
    cwd: str | None
    environment: str | None  # its own hook's, as JSON
    agent_bytes: int  # the total size of its agents' files then
    pending: frozenset[str]
    complete: frozenset[str]
    waiting_since: float  # when it was last tried, or may be tried next

    @property
    def valid(self) -> bool:
        """Return whether the row is up to date with the state file."""
        return self.size != INVALID


def row_of(state: SessionState) -> IndexRow:
    """Return the row of a state."""
    cursors = state.destinations
    return IndexRow(
        session_id=state.session_id,
        size=state.size,
        mtime_ns=state.mtime_ns,
        cwd=state.cwd,
        environment=_json(state.environment),
        agent_bytes=state.agent_bytes,
        pending=frozenset(name for name, cursor in cursors.items() if cursor.pending),
        complete=frozenset(name for name, cursor in cursors.items() if not cursor.pending),
        waiting_since=max(
            (max(cursor.last_attempt_at or 0.0, cursor.not_before or 0.0) for cursor in cursors.values()), default=0.0
        ),
    )


class SessionIndex:
    """The table. Opened on first use, by one thread. `read_all` yields every state, for rebuilding."""

    def __init__(self, path: Path, read_all: Callable[[], Iterable[SessionState]]) -> None:
        self._path = path
        self._stale = path.with_name(f"{path.name}.stale")
        self._read_all = read_all
        self._database: sqlite3.Connection | None = None

    def invalidate(self, session_id: str) -> None:
        """Mark a session's row as invalid, because its state file is about to be written."""
        self._write("UPDATE sessions SET size = ? WHERE session = ?", (INVALID, session_id))

    def put(self, state: SessionState) -> None:
        """Store the row of a state that was written."""
        self._write(_UPSERT, _values(row_of(state)))

    def remove(self, session_id: str) -> None:
        """Remove the row of a session whose state was removed."""
        self._write("DELETE FROM sessions WHERE session = ?", (session_id,))

    def rows(self) -> dict[str, IndexRow]:
        """Return the rows of all sessions that have a state."""
        try:
            records = self._open().execute("SELECT * FROM sessions").fetchall()
        except (OSError, sqlite3.Error):  # locked for long by another process, or the disk is full
            self.close()
            return {state.session_id: row_of(state) for state in self._read_all()}
        # By position, as there are thousands: with keywords this takes twice as long.
        return {
            id_: IndexRow(id_, size, mtime_ns, cwd, environment, agents, _names(pending), _names(complete), tried)
            for id_, size, mtime_ns, cwd, environment, agents, pending, complete, tried in records
        }

    def rebuild(self) -> None:
        """Rebuild the table from all state files."""
        with contextlib.suppress(OSError, sqlite3.Error):
            self._fill(self._open())

    def close(self) -> None:
        """Close the file."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        try:
            self._open().execute(statement, values)
        except (OSError, sqlite3.Error):
            self.close()
            self._distrust()

    def _distrust(self) -> None:
        """Have the table rebuilt when it is next opened: a change could not be written to it."""
        try:
            os.close(open_private(self._stale, os.O_RDWR))
        except OSError:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            try:
                self._database = self._connect()
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                for suffix in ("", "-wal", "-shm"):  # damaged
                    self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
                self._database = self._connect()
        return self._database

    def _connect(self) -> sqlite3.Connection:
        prepare_database(self._path)
        database = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version != _VERSION:
                database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = OFF")  # if the machine crashes, the table is rebuilt
            if version != _VERSION or self._stale.exists():
                self._fill(database)
        except BaseException:
            database.close()
            raise
        return database

    def _fill(self, database: sqlite3.Connection) -> None:
        database.execute("BEGIN IMMEDIATE")
        try:
            self._stale.unlink(missing_ok=True)  # before reading: a write that fails from now on marks it again
            database.execute("DROP TABLE IF EXISTS sessions")
            database.execute(_SCHEMA)
            database.executemany(_UPSERT, (_values(row_of(state)) for state in self._read_all()))
            database.execute(f"PRAGMA user_version = {_VERSION}")
            database.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                database.execute("ROLLBACK")
            raise


_UPSERT: Final = "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


def _values(row: IndexRow) -> tuple[object, ...]:
    names = ("\n".join(sorted(destinations)) for destinations in (row.pending, row.complete))
    return (
        row.session_id,
        row.size,
        row.mtime_ns,
        _text(row.cwd),
        row.environment,
        row.agent_bytes,
        *names,
        row.waiting_since,
    )


def _json(environment: Mapping[str, Mapping[str, str | None]] | None) -> str | None:
    """Return a hook's environment as JSON; equal environments give equal texts."""
    return None if environment is None else orjson.dumps(environment, option=orjson.OPT_SORT_KEYS).decode()


def _text(value: str | None) -> str | None:
    """Return a path as SQLite can store it. One that is not UTF-8 then matches no project, so its file is read."""
    return value if value is None or value.isprintable() else value.encode("utf-8", "replace").decode()


def _names(text: str) -> frozenset[str]:
    names = _KNOWN_NAMES.get(text)
    if names is None:
        names = _KNOWN_NAMES[text] = frozenset(text.split("\n")) if text else frozenset()
    return names


_KNOWN_NAMES: Final[dict[str, frozenset[str]]] = {}  # interned: all sessions share a few sets
