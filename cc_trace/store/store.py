"""The file: private SQLite, made from the transcripts.

Rules:
- It is a cache. Whoever deletes it loses nothing; one of another version is made anew.
- What is in it has passed through `privacy`, with the settings of its session's project. A session that is off or
  excluded is not in it.
- A turn is written in one transaction, when it differs from what the index has of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import threading
from typing import TYPE_CHECKING, Final

from cc_trace.files import prepare_database
from cc_trace.spans import Session
from cc_trace.store.layout import rows
from cc_trace.turns import current_activity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cc_trace.privacy import Privacy
    from cc_trace.spans import SessionSummary, Span, Trace
    from cc_trace.store.layout import Row
    from cc_trace.transcript import JsonValue

VERSION: Final = 1
_BUSY_SECONDS: Final = 10.0
_INT64: Final = 1 << 63
_TEXT_CHARS: Final = 20_000  # of one span that can be searched
_SCHEMA: Final = f"""
CREATE TABLE sessions (session_id TEXT PRIMARY KEY, path TEXT, stamp TEXT, title TEXT, project TEXT, cwd TEXT,
    branch TEXT, first_ns INTEGER, last_ns INTEGER, turns INTEGER, cost_usd REAL, tokens INTEGER, errors INTEGER,
    state TEXT, summary TEXT);
CREATE TABLE turns (session_id TEXT, turn INTEGER, digest TEXT, running INTEGER, PRIMARY KEY (session_id, turn));
CREATE TABLE spans (row INTEGER PRIMARY KEY, span_id TEXT, session_id TEXT, turn INTEGER, place INTEGER,
    last INTEGER, depth INTEGER, parent_id TEXT, kind TEXT, name TEXT, label TEXT, agent TEXT, model TEXT,
    start_ns INTEGER, end_ns INTEGER, first_ns INTEGER, status TEXT, cost_usd REAL, total_usd REAL,
    input INTEGER, output INTEGER, cache_read INTEGER, cache_write INTEGER, hot INTEGER, lane TEXT, waits TEXT,
    copied INTEGER, span TEXT);
CREATE UNIQUE INDEX spans_in_place ON spans (session_id, turn, place);
CREATE INDEX spans_by_id ON spans (span_id);
CREATE INDEX spans_by_kind ON spans (kind, start_ns);
CREATE INDEX sessions_by_time ON sessions (last_ns);
CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = 'unicode61');
PRAGMA user_version = {VERSION};
"""
_COLUMNS: Final = (
    *("span_id", "session_id", "turn", "place", "last", "depth", "parent_id", "kind", "name", "label", "agent"),
    *("model", "start_ns", "end_ns", "first_ns", "status", "cost_usd", "total_usd", "input", "output"),
    *("cache_read", "cache_write", "hot", "lane", "waits", "copied", "span"),
)
_INSERT: Final = f"INSERT INTO spans ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608


class Store:
    """The file, written by one thread and read by any."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = threading.Lock()
        self._local = threading.local()
        try:
            self._writer = self._connect(path)
            _prepare(self._writer)
        except sqlite3.DatabaseError as error:  # another version, or damaged: it holds nothing that is not elsewhere
            if isinstance(error, sqlite3.OperationalError):  # locked, or the disk is full: others may be using it
                raise
            for each in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal"))):
                each.unlink(missing_ok=True)
            self._writer = self._connect(path)
            _prepare(self._writer)

    def _connect(self, path: Path) -> sqlite3.Connection:
        prepare_database(path)
        database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        database.row_factory = sqlite3.Row
        return database

    def read(self, question: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        """Return the rows that answer a question."""
        if not hasattr(self._local, "reader"):
            self._local.reader = self._connect(self._path)
            self._local.reader.execute("PRAGMA query_only = 1")
        found: list[sqlite3.Row] = self._local.reader.execute(question, values).fetchall()
        return found

    def stamps(self) -> dict[str, str]:
        """Return how each session's files were when they were read."""
        return {row["session_id"]: row["stamp"] for row in self.read("SELECT session_id, stamp FROM sessions")}

    def close(self) -> None:
        """Let go of the file."""
        self._writer.close()

    def remove(self, session_id: str) -> None:
        """Forget a session."""
        with self._transaction() as database:
            for (turn,) in database.execute("SELECT turn FROM turns WHERE session_id = ?", (session_id,)).fetchall():
                _delete_turn(database, session_id, turn)
            database.execute("DELETE FROM sessions WHERE session_id = ?", (session_id,))

    def update(self, path: Path, stamp: str, privacy: Privacy, rest_seconds: float) -> bool:
        """Read a session and write what is new of it; return whether anything was. Raises OSError.

        `rest_seconds`: for how long its files have not changed.
        """
        session = Session(path, look_ahead=True, requests=True)
        last: Trace | None = None
        changed = False
        numbers: set[int] = set()
        for trace in session.traces():
            if last is not None:
                changed |= self._write_turn(last, privacy, running=False)
            last = trace
            numbers.add(trace.turn.number)
        turn = last.turn if last is not None else None
        state = current_activity(
            turn,
            asked=session.asked_after(turn),
            summarized=session.summarized,
            rest_seconds=rest_seconds,
        )
        if last is not None:
            running = state in ("working", "waiting for approval") and not session.asked_after(turn)
            changed |= self._write_turn(last, privacy, running=running)
        return self._write_session(session.summary, path, stamp, state, privacy, numbers) or changed

    def _write_turn(self, trace: Trace, privacy: Privacy, *, running: bool) -> bool:
        spans, number = trace.spans, trace.turn.number
        session_id = spans[0].session_id
        digest = _digest(spans)
        known = self._writer.execute(
            "SELECT digest, running FROM turns WHERE session_id = ? AND turn = ?", (session_id, number)
        ).fetchone()
        if known is not None and known["digest"] == digest and bool(known["running"]) == running:
            return False
        made = rows([privacy(span, spans) for span in spans])
        with self._transaction() as database:
            _delete_turn(database, session_id, number)
            database.execute("INSERT INTO turns VALUES (?, ?, ?, ?)", (session_id, number, digest, running))
            for row in made:
                place = database.execute(_INSERT, _values(row, session_id, number, database)).lastrowid
                if text := searchable(row.span):
                    database.execute("INSERT INTO texts (rowid, text) VALUES (?, ?)", (place, text))
        return True

    def _write_session(
        self, summary: SessionSummary, path: Path, stamp: str, state: str, privacy: Privacy, numbers: set[int]
    ) -> bool:
        session_id = summary.session_id
        title = (summary.title or summary.goal or summary.latest_output) if privacy.content != "metadata" else ""
        told = privacy.text(title or session_id)
        with self._transaction() as database:
            gone = [
                turn
                for (turn,) in database.execute("SELECT turn FROM turns WHERE session_id = ?", (session_id,)).fetchall()
                if turn not in numbers
            ]
            for turn in gone:
                _delete_turn(database, session_id, turn)
            totals = database.execute(
                "SELECT SUM(cost_usd), SUM(input + output + cache_read + cache_write),"
                " SUM(status = 'error' AND kind <> 'turn') FROM spans WHERE session_id = ?",
                (session_id,),
            ).fetchone()
            about: dict[str, JsonValue] = {
                "files": [privacy.text(name) for name in list(summary.files_modified)[:1000]]
                if privacy.content == "full"
                else [],
                "lines_added": summary.lines_added,
                "lines_removed": summary.lines_removed,
                "predecessor": summary.predecessor,
                "version": summary.version,
                "mode": summary.mode,
                "models": list(summary.models),
                "unseen_cost_usd": summary.unseen_cost_usd,
                "unpriced": summary.unpriced,
            }
            row = (
                *(session_id, str(path), stamp, _text(" ".join(told.split())[:200]), _text(summary.project)),
                *(_text(summary.cwd), _text(summary.git_branch), _integer(summary.first_ns), _integer(summary.last_ns)),
                *(summary.turns, totals[0], totals[1] or 0, totals[2] or 0, state, json.dumps(about)),
            )
            before = database.execute("SELECT * FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
            database.execute(f"INSERT OR REPLACE INTO sessions VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
        return before is None or tuple(before) != row

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._writing:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._writer.execute("ROLLBACK")
                raise


def store_path(state: Path) -> Path:
    """Return where the store is."""
    return state / "store.db"


def searchable(span: Span) -> str:
    """Return what of a span can be found by its words: prompts, answers, what went into tools and came out of them."""
    match span.kind:
        case "turn":
            value: JsonValue = span.input
        case "generation":
            value = span.output.get("content") if isinstance(span.output, dict) else span.output
        case _:
            value = [span.input, span.output]
    return _text("\n".join(_texts(value, 0)))[:_TEXT_CHARS] or ""


def _texts(value: JsonValue, depth: int) -> Iterator[str]:
    match value:
        case str():
            yield value[:_TEXT_CHARS]
        case list() if depth < 20:  # noqa: PLR2004
            for item in value[:1000]:
                yield from _texts(item, depth + 1)
        case dict() if depth < 20:  # noqa: PLR2004
            yield from _texts(list(value.values()), depth)


def _delete_turn(database: sqlite3.Connection, session_id: str, turn: int) -> None:
    which = (session_id, turn)
    database.execute(
        "DELETE FROM texts WHERE rowid IN (SELECT row FROM spans WHERE session_id = ? AND turn = ?)", which
    )
    database.execute("DELETE FROM spans WHERE session_id = ? AND turn = ?", which)
    database.execute("DELETE FROM turns WHERE session_id = ? AND turn = ?", which)


def _values(row: Row, session_id: str, turn: int, database: sqlite3.Connection) -> tuple[object, ...]:
    span, response = row.span, row.span.response
    usage = response.usage if response is not None else None
    counts: tuple[int | None, ...] = (None, None, None, None)
    if usage is not None:
        counts = (usage.input, usage.output, usage.cache_read, usage.cache_write_5m + usage.cache_write_1h)
    copied = database.execute("SELECT 1 FROM spans WHERE span_id = ? LIMIT 1", (span.span_id,)).fetchone() is not None
    return (
        *(span.span_id, session_id, turn, row.place, row.last, row.depth, span.parent_id, span.kind),
        *(_text(span.tool.name if span.tool is not None else span.name), _text(row.label), _text(span.agent_name)),
        _text(response.model) if response is not None else None,
        *(_integer(span.start_ns), _integer(span.end_ns)),
        _integer(response.first_token_ns) if response is not None else None,
        *(span.status, response.cost_usd if response is not None else None, row.total_usd, *map(_integer, counts)),
        *(row.hot, json.dumps(row.lane), json.dumps(row.waits), copied, _json(span)),
    )


def _json(span: Span) -> str:
    fields = span._asdict()
    del fields["origins"]
    for name in ("response", "tool"):
        fields[name] = value._asdict() if (value := fields[name]) is not None else None
    if span.response is not None and span.response.usage is not None:
        fields["response"]["usage"] = span.response.usage._asdict()
    try:
        return _text(json.dumps(fields, ensure_ascii=False))
    except (RecursionError, ValueError):
        return json.dumps({**fields, "input": None, "output": "nested too deeply to be shown", "metadata": {}})


def _digest(spans: Sequence[Span]) -> str:
    made = hashlib.sha256()
    for span in spans:
        made.update(repr(span).encode("utf-8", "replace"))
    return made.hexdigest()[:32]


def _integer(value: int | None) -> int | None:
    return value if value is not None and -_INT64 <= value < _INT64 else None


def _text(value: str | None) -> str:
    """Replace what UTF-8 cannot carry."""
    return "" if value is None else value.encode("utf-8", "replace").decode()


def _prepare(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = OFF")  # what is lost is made anew
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version == VERSION:
        return
    if version != 0:
        message = "another version"
        raise sqlite3.DatabaseError(message)
    database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
