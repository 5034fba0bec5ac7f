"""Writes the `local` destination's spans to the store, and reads them back when a transcript is gone.

Rules:
- A later version of a span overwrites the earlier one. A copy of it in another session (a fork, a resumed session)
  leaves the row with the session that had it first, as at every other destination.
- A batch is one transaction. If the process dies during it, the store is unchanged.
"""

from __future__ import annotations

import contextlib
import sqlite3
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import orjson

from cc_trace.errors import NotFoundError, StateError
from cc_trace.files import prepare_database
from cc_trace.spans import OUTPUT_CHARS, TITLE_CHARS, SessionSummary
from cc_trace.store.schema import BUSY_SECONDS, OTHER_VERSION, TYPED, VERSION, connect_to_read, version_of
from cc_trace.store.span_rows import from_json, typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from cc_trace.spans import Span
    from cc_trace.store.span_rows import Value

_NAMES: Final = (*TYPED, "span")
_UPSERT: Final = (
    f"INSERT INTO spans ({', '.join(_NAMES)}) SELECT {', '.join(f'?{n}' for n in range(1, len(_NAMES) + 1))}"  # noqa: S608
    " WHERE NOT EXISTS (SELECT 1 FROM spans WHERE span_id = ?1 AND session_id <> ?2 AND copied = 0)"
    f" ON CONFLICT (span_id, session_id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _NAMES)}"
)
# A turn's spans are delivered from its end, its root last: of those that began at one moment and have no place yet, the
# later row is the first.
_ROWS: Final = "SELECT turn, place, span FROM spans WHERE session_id = ? ORDER BY turn, place IS NULL, place, row DESC"
_ROWS_OF_1: Final = "SELECT turn, NULL, span FROM spans WHERE session_id = ? ORDER BY turn, rowid DESC"
# A trace without any time is kept. Looking for old ones can take long and locks nobody out; so each is looked at again
# when it is deleted, for it may have gone on.
_ENDED_BEFORE: Final = "SELECT trace_id FROM spans GROUP BY trace_id HAVING MAX(COALESCE(end_ns, start_ns)) < ? LIMIT ?"
_NOW_OLD: Final = (
    "trace_id = ?1 AND NOT EXISTS (SELECT 1 FROM spans WHERE trace_id = ?1 AND COALESCE(end_ns, start_ns) >= ?2)"
)
_DELETE_TRACE: Final = (
    f"DELETE FROM texts WHERE rowid IN (SELECT row FROM spans WHERE {_NOW_OLD})",  # noqa: S608
    f"DELETE FROM spans WHERE {_NOW_OLD}",  # noqa: S608
)
_DELETE_EMPTY: Final = (
    "DELETE FROM turns WHERE (session_id, turn) NOT IN (SELECT session_id, turn FROM spans)",
    "DELETE FROM sessions WHERE session_id NOT IN (SELECT session_id FROM spans)",
    "DELETE FROM usage WHERE session_id NOT IN (SELECT session_id FROM spans)",
)


def row_of(span: Span, data: str) -> tuple[Value, ...]:
    """Return the row for a span. `data`: its JSON."""
    return (*typed(span), data)


def write_spans(database: sqlite3.Connection, rows: Sequence[tuple[Value, ...]]) -> None:
    """Write a batch, all or nothing. Raises sqlite3.Error."""
    database.execute("BEGIN IMMEDIATE")
    try:
        database.executemany(_UPSERT, rows)
        database.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # a full disk has already rolled it back
            database.execute("ROLLBACK")
        raise


def remove_traces(path: Path, before_ns: int, max_traces: int) -> int:
    """Delete at most `max_traces` traces whose last span ended before then; return how many were deleted.

    It is one transaction: if the process dies during it, the store is unchanged. A store made by an earlier version
    reuses the space but does not get smaller. Raises OSError and sqlite3.Error.
    """
    prepare_database(path)
    with contextlib.closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as database:
        if 1 <= version_of(database) < VERSION:
            return 0  # the next writer migrates it to this version
        if version_of(database) != VERSION:
            raise sqlite3.DatabaseError(OTHER_VERSION)
        found = database.execute(_ENDED_BEFORE, (before_ns, max_traces)).fetchall()
        if found:
            database.execute("BEGIN IMMEDIATE")
            for statement in _DELETE_TRACE:
                database.executemany(statement, [(trace_id, before_ns) for (trace_id,) in found])
            for statement in _DELETE_EMPTY:
                database.execute(statement)
            database.execute("COMMIT")
            database.executescript(
                "PRAGMA incremental_vacuum"
            )  # `execute` would run one step, which frees only one page
    return len(found)


def read_session(path: Path, session_id: str) -> Iterator[Span]:
    """Yield a session's spans turn by turn, each turn's in tree order; none if the store does not know it."""
    if not path.is_file():
        message = f"no local store at {path}"
        raise NotFoundError(message)
    try:
        with contextlib.closing(connect_to_read(path)) as database:
            question = _ROWS_OF_1 if version_of(database) == 1 else _ROWS
            for _, rows in groupby(database.execute(question, (session_id,)), key=itemgetter(0)):
                found = [(place, from_json(data)) for _, place, data in rows]
                spans = [span for _, span in found]
                yield from spans if None not in [place for place, _ in found] else _in_tree_order(spans)
    except sqlite3.Error as error:
        message = f"the local store {path} cannot be read: {error}"
        raise StateError(message) from error


def find_stored(path: Path, beginning: str) -> list[str]:
    """Return the ids of the sessions in a store that begin with a text. Raises StateError."""
    question = "SELECT DISTINCT session_id FROM spans WHERE substr(session_id, 1, ?2) = ?1"
    try:
        with contextlib.closing(connect_to_read(path)) as database:
            return [session_id for (session_id,) in database.execute(question, (beginning, len(beginning)))]
    except sqlite3.Error as error:
        message = f"the local store {path} cannot be read: {error}"
        raise StateError(message) from error


def read_from(path: Path, session_id: str) -> str | None:
    """Return the transcript that a session was read from, though it may be gone; None if that is not known."""
    try:
        with contextlib.closing(connect_to_read(path)) as database:
            row = database.execute("SELECT path FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
    except (OSError, sqlite3.Error):
        return None
    return None if row is None else row[0]


def read_titles(path: Path, session_ids: Iterable[str]) -> dict[str, str]:
    """Return the titles of these sessions; none if the store cannot be read or has an earlier version."""
    wanted = "SELECT session_id, title FROM sessions WHERE session_id IN (SELECT value FROM json_each(?))"
    try:
        with contextlib.closing(connect_to_read(path)) as database:
            return dict(database.execute(wanted, (orjson.dumps([*session_ids]).decode(),)))
    except (OSError, sqlite3.Error):
        return {}


class StoredSession:
    """A session read from the store, for when its transcript is gone. The summary is complete after `spans`."""

    def __init__(self, session_id: str, spans: Sequence[Span]) -> None:
        self.summary = SessionSummary(session_id)
        self._spans = spans

    @property
    def cwd(self) -> str | None:
        """Return the folder it was started in, if its turns say so."""
        found = (span.metadata.get("cwd") for span in self._spans if span.kind == "turn")
        return next((folder for folder in found if isinstance(folder, str)), None)

    def spans(self) -> Iterator[Span]:
        """Yield its spans, and add them to the summary."""
        summary = self.summary
        roots: set[str] = set()
        for span in self._spans:
            if span.kind == "turn":
                summary.turns += 1
                roots.add(span.span_id)
                first_prompt = str(span.input)[:TITLE_CHARS] if span.input is not None else ""
                summary.first_prompt = summary.first_prompt or first_prompt
                if span.output is not None:
                    summary.latest_output = str(span.output)[:OUTPUT_CHARS] or summary.latest_output
                summary.describe(span.metadata)
            summary.first_ns = min(
                (time for time in (summary.first_ns, span.start_ns) if time is not None), default=None
            )
            summary.last_ns = max((time for time in (summary.last_ns, span.end_ns) if time is not None), default=None)
            summary.count(span, main=span.parent_id in roots)
            yield span


def _in_tree_order(spans: list[Span]) -> Iterator[Span]:
    """Order a turn's spans, parents before children. Spans whose parent is missing are at the top level."""
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
    """Return when a span first appeared in the transcript: for a response its first line, not its request."""
    moment = span.response.first_token_ns if span.response is not None else None
    moment = span.start_ns if moment is None else moment
    return moment is None, moment or 0
