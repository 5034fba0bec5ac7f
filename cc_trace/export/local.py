"""The store on this machine: SQLite, one row per span, closed to others.

Rules:
- A span is written over by a later version of itself. A copy of it in another session (a fork, a resumed session)
  leaves the row with the session that had it first, as at every other destination.
- A batch is one transaction. Who dies in it leaves the store as it was before.

What one needs to list sessions and to draw a tree has columns; `span` is all of it, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from typing import TYPE_CHECKING, Any, Final

from cc_trace.errors import NotFoundError, StateError
from cc_trace.export.outcomes import FIT_BYTES, Accepted, EncodedSpan, Retryable
from cc_trace.export.profiles.text import json_text, readable
from cc_trace.files import check_beside_database, prepare_database
from cc_trace.spans import Response, Span, Tool
from cc_trace.transcript import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cc_trace.export.outcomes import Outcome

VERSION: Final = 1
_COLUMNS: Final = {
    "span_id": "TEXT PRIMARY KEY",
    "session_id": "TEXT NOT NULL",
    "trace_id": "TEXT NOT NULL",
    "parent_id": "TEXT",
    "kind": "TEXT NOT NULL",
    "name": "TEXT NOT NULL",
    "start_ns": "INTEGER",
    "end_ns": "INTEGER",
    "status": "TEXT NOT NULL",
    "error": "TEXT",
    "turn": "INTEGER NOT NULL",
    "agent_id": "TEXT",
    "model": "TEXT",
    "input_tokens": "INTEGER",
    "output_tokens": "INTEGER",
    "cache_read_tokens": "INTEGER",
    "cache_write_tokens": "INTEGER",
    "cost_usd": "REAL",
    "span": "TEXT NOT NULL",
}
_SCHEMA: Final = (
    f"CREATE TABLE spans ({', '.join(f'{name} {type_}' for name, type_ in _COLUMNS.items())})",
    "CREATE INDEX spans_of_a_session ON spans (session_id, turn)",
    "CREATE INDEX spans_of_a_trace ON spans (trace_id)",
    f"PRAGMA user_version = {VERSION}",
)
_UPSERT: Final = (
    f"INSERT INTO spans VALUES ({', '.join('?' * len(_COLUMNS))}) ON CONFLICT (span_id) DO UPDATE SET "  # noqa: S608
    f"{', '.join(f'{name} = excluded.{name}' for name in _COLUMNS)} WHERE session_id = excluded.session_id"
)
# A turn's spans are written from its end, its root last: of those that began at one moment, the later row is the first.
_ROWS: Final = "SELECT turn, span FROM spans WHERE session_id = ? ORDER BY turn, rowid DESC"
# A trace without any time is kept. Looking for old ones can take long and locks nobody out; so each is looked at again
# when it is deleted, for it may have gone on.
_ENDED_BEFORE: Final = "SELECT trace_id FROM spans GROUP BY trace_id HAVING MAX(COALESCE(end_ns, start_ns)) < ? LIMIT ?"
_DELETE_TRACE: Final = (
    "DELETE FROM spans WHERE trace_id = ?1 AND NOT EXISTS"
    " (SELECT 1 FROM spans WHERE trace_id = ?1 AND COALESCE(end_ns, start_ns) >= ?2)"
)
_BUSY_SECONDS: Final = 10.0
_INT64: Final = 1 << 63
_OTHER_VERSION: Final = "it was written by another version of cc-trace"


class LocalStore:
    """Writes spans to a file; opened when first used."""

    idempotent = True
    queryable = True

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path
        self._database: sqlite3.Connection | None = None

    def encode(self, span: Span) -> EncodedSpan:
        """Return a span's row."""
        data = to_json(span)
        if len(data) > FIT_BYTES:
            from cc_trace.export.otlp import fitted  # noqa: PLC0415  (for the few spans larger than a batch)

            data = fitted(span, to_json, FIT_BYTES)
        return EncodedSpan(span.span_id, span.trace_id, len(data), (*_columns(span), data.decode()))

    def as_json(self, encoded: EncodedSpan) -> bytes:
        """Return what would be written."""
        data: str = encoded.data[-1]
        return data.encode()

    def send(self, batch: Sequence[EncodedSpan]) -> Outcome:
        """Write one batch, all or nothing."""
        try:
            database = self._opened()
            database.execute("BEGIN IMMEDIATE")
            try:
                database.executemany(_UPSERT, [encoded.data for encoded in batch])
                database.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # a full disk has rolled it back already
                    database.execute("ROLLBACK")
                raise
        except (OSError, sqlite3.Error) as error:
            self.close()
            return Retryable(f"{self._path}: {error}")
        return Accepted()

    def stored_ids(self, batch: Sequence[EncodedSpan]) -> frozenset[str] | None:
        """Return which of these the store has, None where it cannot be read."""
        try:
            database = self._opened()
            return frozenset(
                encoded.span_id
                for encoded in batch
                if database.execute("SELECT 1 FROM spans WHERE span_id = ?", (encoded.span_id,)).fetchone()
            )
        except (OSError, sqlite3.Error):
            self.close()
            return None

    def close(self) -> None:
        """Let go of the file."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            # SQLite gives -wal and -shm the mode of the file, and follows a link only in the name of the file itself.
            prepare_database(self._path)
            database = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
            try:
                _prepare(database)
            except BaseException:
                database.close()
                raise
            self._database = database
        return self._database


def remove_traces(path: Path, before_ns: int, max_traces: int) -> int:
    """Delete traces whose last span ended before then, at most so many; return how many. Raises OSError, sqlite3.Error.

    It is one transaction: who dies in it leaves the store as it was before. A store made by an earlier version reuses
    the room but does not get smaller.
    """
    prepare_database(path)
    with contextlib.closing(sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)) as database:
        if _version(database) != VERSION:
            raise sqlite3.DatabaseError(_OTHER_VERSION)
        found = database.execute(_ENDED_BEFORE, (before_ns, max_traces)).fetchall()
        if found:
            database.execute("BEGIN IMMEDIATE")
            database.executemany(_DELETE_TRACE, [(trace_id, before_ns) for (trace_id,) in found])
            database.execute("COMMIT")
            database.executescript("PRAGMA incremental_vacuum")  # `execute` would take one step, which frees one page
    return len(found)


def read_session(path: Path, session_id: str) -> Iterator[Span]:
    """Yield a session's spans turn by turn, each turn's in tree order; none if the store does not know it."""
    if not path.is_file():
        message = f"no local store at {path}"
        raise NotFoundError(message)
    try:
        with contextlib.closing(_read_only(path)) as database:
            turn: list[Span] = []
            for number, data in database.execute(_ROWS, (session_id,)):
                if turn and turn[-1].turn != number:
                    yield from _in_tree_order(turn)
                    turn = []
                turn.append(from_json(data))
            yield from _in_tree_order(turn)
    except sqlite3.Error as error:
        message = f"the local store {path} cannot be read: {error}"
        raise StateError(message) from error


def to_json(span: Span) -> bytes:
    """Return all of a span but who said its texts: that is asked only before it is stored."""
    fields = span._asdict()
    del fields["origins"]
    for name in ("response", "tool"):
        fields[name] = value._asdict() if (value := fields[name]) is not None else None
    if span.response is not None and span.response.usage is not None:
        fields["response"]["usage"] = span.response.usage._asdict()
    return json_text(fields).encode()


def from_json(data: str) -> Span:
    """Return the span that was written."""
    fields: dict[str, Any] = json.loads(data)
    if (response := fields["response"]) is not None:
        if response["usage"] is not None:
            response["usage"] = Usage(**response["usage"])
        fields["response"] = Response(**response)
    if fields["tool"] is not None:
        fields["tool"] = Tool(**fields["tool"])
    return Span(**fields)


def _columns(span: Span) -> tuple[str | int | float | None, ...]:
    """Return the columns beside the JSON, in the order of the schema."""
    response = span.response
    usage = response.usage if response is not None else None
    tokens: tuple[int | None, ...] = (None, None, None, None)
    if usage is not None:
        tokens = (usage.input, usage.output, usage.cache_read, usage.cache_write_5m + usage.cache_write_1h)
    return (
        span.span_id,
        _text(span.session_id),
        span.trace_id,
        span.parent_id,
        span.kind,
        _text(span.name),
        _integer(span.start_ns),
        _integer(span.end_ns),
        span.status,
        _text(span.error),
        span.turn,
        _text(span.agent_id),
        _text(response.model) if response is not None else None,
        *map(_integer, tokens),
        response.cost_usd if response is not None else None,
    )


def _integer(value: int | None) -> int | None:
    """Leave out what SQLite cannot hold, such as a time after 2262; the JSON has it."""
    return value if value is not None and -_INT64 <= value < _INT64 else None


def _text(value: str | None) -> str | None:
    """Replace what UTF-8 cannot carry, such as odd bytes in a file's name."""
    return readable(value) if value is not None else None


def _in_tree_order(spans: list[Span]) -> Iterator[Span]:
    """Order a turn's spans: each before what it contains. What hangs under nothing we have stands at the top."""
    below: dict[str | None, list[Span]] = {}
    known = {span.span_id for span in spans}
    for span in sorted(spans, key=_first_seen):
        below.setdefault(span.parent_id if span.parent_id in known else None, []).append(span)
    stack = below.get(None, [])[::-1]
    while stack:
        span = stack.pop()
        yield span
        stack += below.get(span.span_id, [])[::-1]


def _first_seen(span: Span) -> tuple[bool, int]:
    """Return when a span first showed in the transcript: a response with its first line, not with its request."""
    moment = span.response.first_token_ns if span.response is not None else None
    moment = span.start_ns if moment is None else moment
    return moment is None, moment or 0


def _read_only(path: Path) -> sqlite3.Connection:
    check_beside_database(path)
    database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", timeout=_BUSY_SECONDS, uri=True)
    if _version(database) != VERSION:
        database.close()
        raise sqlite3.DatabaseError(_OTHER_VERSION)
    return database


def _prepare(database: sqlite3.Connection) -> None:
    """Make the table if it is not there. If we die here, there is none and the next one makes it."""
    database.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file; on one that has tables it has no effect
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(
        "PRAGMA synchronous = NORMAL"
    )  # with WAL a crash of the machine may cost the last batches, no more
    if _version(database) == VERSION:
        return
    database.execute("BEGIN IMMEDIATE")
    try:
        if _version(database) == 0:
            for statement in _SCHEMA:
                database.execute(statement)
        database.execute("COMMIT")
    except BaseException:
        database.execute("ROLLBACK")
        raise
    if _version(database) != VERSION:
        raise sqlite3.DatabaseError(_OTHER_VERSION)


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])
