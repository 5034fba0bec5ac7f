"""The store's schema, and opening its file.

Rules:
- It is one SQLite file, closed to others. What the `local` destination delivers and what is read from the transcripts
  stand in the same rows.
- `PRAGMA user_version` is the version of the form. A file of an earlier version is brought to this one when it is first
  opened, in one transaction; one of a later version is left alone.

docs/store.md describes the tables and columns: people query them.
"""

from __future__ import annotations

import errno
import sqlite3
from typing import TYPE_CHECKING, Final

from cc_trace.files import check_beside_database, prepare_database
from cc_trace.store.doubts import MARK_ALL

if TYPE_CHECKING:
    from pathlib import Path

VERSION: Final = 5
BUSY_SECONDS: Final = 10.0
OTHER_VERSION: Final = "it was written by another version of cc-trace"
# What of a span has columns; docs/store.md says what each is. `span` is all of it, as JSON.
TYPED: Final = {
    "span_id": "TEXT NOT NULL",
    "session_id": "TEXT NOT NULL",
    "trace_id": "TEXT NOT NULL",
    "parent_id": "TEXT",
    "turn": "INTEGER NOT NULL",
    "kind": "TEXT NOT NULL",
    "name": "TEXT NOT NULL",
    "tool": "TEXT",
    "agent_id": "TEXT",
    "agent": "TEXT NOT NULL DEFAULT ''",
    "model": "TEXT",
    "start_ns": "INTEGER",
    "end_ns": "INTEGER",
    "first_token_ns": "INTEGER",
    "status": "TEXT NOT NULL",
    "error": "TEXT",
    "input_tokens": "INTEGER",
    "output_tokens": "INTEGER",
    "cache_read_tokens": "INTEGER",
    "cache_write_tokens": "INTEGER",
    "cost_usd": "REAL",
    "context_tokens": "INTEGER",
    "cache_miss": "TEXT",
    "attempts": "INTEGER",
    "wait_ms": "REAL",
    "calls": "TEXT",
    "refused": "TEXT",
    "lines_added": "INTEGER",
    "lines_removed": "INTEGER",
}
# Its place among the spans of its turn. NULL: it was delivered, and its turn has not been laid out since.
PLACED: Final = {
    "copied": "INTEGER NOT NULL DEFAULT 0",
    "place": "INTEGER",
    "last": "INTEGER",
    "depth": "INTEGER",
    "label": "TEXT",
    "total_usd": "REAL",
    "hot": "INTEGER",
    "lane": "TEXT",
    "waits": "TEXT",
}
_COLUMNS: Final = {**TYPED, **PLACED, "span": "TEXT NOT NULL"}
# What forks copied is left out of sums over sessions; all that is summed up stands in the index.
_INDEX_OF_COPIES: Final = """
CREATE INDEX spans_copied ON spans (session_id, copied, kind, status, cost_usd, input_tokens, output_tokens,
    cache_read_tokens, cache_write_tokens) WHERE copied = 1;
"""
# What is summed up or sorted over the spans of a turn stands in the index: a row is large.
_INDEX_OF_PLACES: Final = """
CREATE INDEX spans_in_place ON spans (session_id, turn, place, last, kind, status, agent, agent_id, tool, start_ns,
    end_ns, first_token_ns, wait_ms, cost_usd, total_usd, input_tokens, output_tokens, cache_read_tokens,
    cache_write_tokens);
"""
_SUMS_OF_A_TURN: Final = """
SELECT SUM(kind = 'generation'), SUM(kind = 'tool'), SUM(status = 'error' AND kind <> 'turn'), SUM(output_tokens)
    FROM spans WHERE spans.session_id = turns.session_id AND spans.turn = turns.turn
"""
_SUM_UP: Final = f"UPDATE turns SET (requests, tools, errors, output_tokens) = ({_SUMS_OF_A_TURN})"  # noqa: S608
SUM_UP_TURN: Final = f"{_SUM_UP} WHERE session_id = ? AND turn = ?"
# For how long a session was active. {0}: its id.
ACTIVE_NS: Final = """
SELECT SUM(end_ns - start_ns) FROM spans JOIN turns USING (session_id, turn)
    WHERE spans.session_id = {0} AND place = 0 AND NOT untimed
"""
_TABLES: Final = f"""
CREATE TABLE spans (row INTEGER PRIMARY KEY, {", ".join(f"{name} {type_}" for name, type_ in _COLUMNS.items())});
CREATE UNIQUE INDEX spans_by_id ON spans (span_id, session_id);
CREATE INDEX spans_by_trace ON spans (trace_id);
CREATE INDEX spans_by_kind ON spans (kind, start_ns);
CREATE INDEX spans_without_place ON spans (session_id) WHERE place IS NULL;
{_INDEX_OF_PLACES}
{_INDEX_OF_COPIES}
CREATE TABLE sessions (session_id TEXT PRIMARY KEY, title TEXT NOT NULL DEFAULT '', project TEXT, repository TEXT,
    cwd TEXT, branch TEXT, first_ns INTEGER, last_ns INTEGER, active_ns INTEGER, turns INTEGER, cost_usd REAL,
    tokens INTEGER, errors INTEGER, state TEXT, predecessor TEXT, path TEXT, stamp TEXT, summary TEXT);
CREATE INDEX sessions_by_time ON sessions (last_ns);
CREATE TABLE turns (session_id TEXT, turn INTEGER, digest TEXT, running INTEGER, requests INTEGER,
    tools INTEGER, errors INTEGER, output_tokens INTEGER, untimed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session_id, turn));
CREATE TABLE usage (session_id TEXT NOT NULL, quarter INTEGER NOT NULL, kind TEXT NOT NULL, model TEXT NOT NULL,
    agent TEXT NOT NULL, tool TEXT NOT NULL, requests REAL, errors INTEGER, input_tokens REAL, output_tokens REAL,
    cache_read_tokens REAL, cache_write_tokens REAL, cost_usd REAL);
CREATE INDEX usage_of_a_session ON usage (session_id);
CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = 'unicode61');
PRAGMA user_version = {VERSION};
"""
_FROM_1: Final = f"""
ALTER TABLE spans RENAME TO earlier;
{_TABLES}
INSERT INTO spans (span_id, session_id, trace_id, parent_id, turn, kind, name, tool, agent_id, agent, model, start_ns,
    end_ns, first_token_ns, status, error, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd,
    span)
    SELECT span_id, session_id, trace_id, parent_id, turn, kind, name, json_extract(span, '$.tool.name'), agent_id,
    COALESCE(json_extract(span, '$.agent_name'), ''), model, start_ns, end_ns,
    json_extract(span, '$.response.first_token_ns'), status, error, input_tokens, output_tokens, cache_read_tokens,
    cache_write_tokens, cost_usd, span FROM earlier ORDER BY rowid;
DROP TABLE earlier;
"""  # noqa: S608  (ours)
# Lines that results do not tell are counted when the sessions are read again, as all are.
_FROM_4: Final = f"""
ALTER TABLE spans ADD COLUMN lines_added INTEGER;
ALTER TABLE spans ADD COLUMN lines_removed INTEGER;
ALTER TABLE turns ADD COLUMN requests INTEGER;
ALTER TABLE turns ADD COLUMN tools INTEGER;
ALTER TABLE turns ADD COLUMN errors INTEGER;
ALTER TABLE turns ADD COLUMN output_tokens INTEGER;
ALTER TABLE turns ADD COLUMN untimed INTEGER NOT NULL DEFAULT 0;
DROP INDEX spans_in_place;
{_INDEX_OF_PLACES}
{_SUM_UP};
{MARK_ALL};
UPDATE spans SET lines_added = json_extract(span, '$.metadata.lines_added'),
    lines_removed = json_extract(span, '$.metadata.lines_removed') WHERE kind = 'tool';
UPDATE turns SET digest = '' WHERE (session_id, turn) IN (SELECT session_id, turn FROM spans
    WHERE kind = 'tool' AND lines_added IS NULL AND json_extract(span, '$.tool.file_path') IS NOT NULL);
UPDATE sessions SET stamp = '' WHERE stamp IS NOT NULL;
PRAGMA user_version = {VERSION};
"""  # noqa: S608  (ours)
# What else is new is computed as each session is read, or laid out, again; until then it is missing.
_FROM_3: Final = f"""
ALTER TABLE spans ADD COLUMN refused TEXT;
ALTER TABLE sessions ADD COLUMN active_ns INTEGER;
UPDATE turns SET digest = '';
UPDATE spans SET place = NULL WHERE session_id IN (SELECT session_id FROM sessions WHERE stamp IS NULL);
{_FROM_4}
UPDATE sessions SET active_ns = ({ACTIVE_NS.format("sessions.session_id")});
"""  # noqa: S608  (likewise)
_FROM_2: Final = f"""
{_INDEX_OF_COPIES}
{_FROM_3}
"""
# What brings a file to this version, by the version that it has.
_SCRIPTS: Final = {0: _TABLES, 1: _FROM_1, 2: _FROM_2, 3: _FROM_3, 4: _FROM_4}


def connect(path: Path, busy_seconds: float | None = None) -> sqlite3.Connection:
    """Open the store for writing, and create it if necessary. Raises OSError, sqlite3.Error."""
    # SQLite gives -wal and -shm the mode of the file, and follows a link only in the name of the file itself.
    prepare_database(path)
    seconds = BUSY_SECONDS if busy_seconds is None else busy_seconds
    database = sqlite3.connect(path, timeout=seconds, isolation_level=None, check_same_thread=False)
    try:
        _prepare(database)
    except BaseException:
        database.close()
        raise
    return database


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open an existing store for reading. Raises OSError, sqlite3.Error."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))  # SQLite would block on a pipe
    check_beside_database(path)
    uri = f"{path.absolute().as_uri()}?mode=ro"
    database = sqlite3.connect(uri, timeout=BUSY_SECONDS, uri=True, isolation_level=None)
    if not 1 <= version_of(database) <= VERSION:  # the columns that are read exist in all versions
        database.close()
        raise sqlite3.DatabaseError(OTHER_VERSION)
    return database


def version_of(database: sqlite3.Connection) -> int:
    """Return the version of a store's schema; 0: it has none yet."""
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _prepare(database: sqlite3.Connection) -> None:
    """Create missing tables. If the process dies here, there are none, and the next process creates them."""
    if not version_of(database):  # on a file that has tables they have no effect, and wait for whoever writes
        database.execute("PRAGMA page_size = 16384")  # most rows have some kilobytes
        database.execute("PRAGMA auto_vacuum = INCREMENTAL")
    database.execute("PRAGMA journal_mode = WAL")
    # With WAL a crash of the machine can lose only the last batches.
    database.execute("PRAGMA synchronous = NORMAL")
    if version_of(database) == VERSION:
        return
    database.execute("BEGIN IMMEDIATE")
    try:
        script = _SCRIPTS.get(version_of(database), "")
        for statement in script.split(";\n"):  # `executescript` would commit first
            database.execute(statement)
        database.execute("COMMIT")
    except BaseException:
        database.execute("ROLLBACK")
        raise
    if version_of(database) != VERSION:
        raise sqlite3.DatabaseError(OTHER_VERSION)
