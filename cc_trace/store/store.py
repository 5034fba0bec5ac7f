"""Writes sessions from transcripts to the store.

Rules:
- What is in it has passed through `privacy`, with the settings of its session's project. A session that is off or
  excluded is not in it.
- A turn is written in one transaction if it differs from the store's version of it. If the process dies during it, the
  store is unchanged.
- A span that several sessions have (a fork copies turns) counts once, in the session that had it first; the rows of the
  others are marked `copied`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cc_trace.errors import StateError
from cc_trace.spans import TITLE_CHARS, Session
from cc_trace.store import terminal
from cc_trace.store.delivered import StoredSession, read_session
from cc_trace.store.doubts import MARK_SESSION
from cc_trace.store.layout import rows
from cc_trace.store.schema import ACTIVE_NS, PLACED, SUM_UP_TURN, TYPED, connect
from cc_trace.store.span_rows import integer, to_json, typed
from cc_trace.turns import current_activity
from cc_trace.values import json_text, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from cc_trace.privacy import Content, Privacy
    from cc_trace.spans import SessionSummary, Span, Trace
    from cc_trace.store.layout import Row
    from cc_trace.store.span_rows import Value
    from cc_trace.transcript import JsonValue

_TEXT_CHARS: Final = 20_000  # searchable characters of one span
_BATCH_BYTES: Final = 8 << 20  # written at once
_RECENT_SECONDS: Final = 3_600.0  # no session is at work that was not active since then
_MAX_FILES: Final = 1_000  # of a session's changed files
_COLUMNS: Final = ("row", *TYPED, *PLACED, "span")
_INSERT: Final = f"INSERT INTO spans ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608
_HOLDERS: Final = (
    "SELECT span_id, spans.session_id, predecessor FROM json_each(?) JOIN spans ON span_id = value"
    " LEFT JOIN sessions ON sessions.session_id = spans.session_id WHERE spans.session_id <> ? AND copied = 0"
)
# A response that called several tools is divided evenly among them, so that the rows sum up to the total. `quarter` is
# the quarter of an hour, in which every time zone's days begin.
_COUNT_USAGE: Final = """
INSERT INTO usage SELECT session_id, COALESCE(start_ns, 0) / 900000000000, 'generation', COALESCE(model, ''), agent,
    COALESCE(call.value, ''), SUM(part), SUM(status = 'error'), SUM(input_tokens * part), SUM(output_tokens * part),
    SUM(cache_read_tokens * part), SUM(cache_write_tokens * part), SUM(cost_usd * part)
    FROM (SELECT *, 1.0 / MAX(1, COALESCE(json_array_length(calls), 0)) part FROM spans
    WHERE session_id = ?1 AND kind = 'generation' AND copied = 0) LEFT JOIN json_each(calls) call GROUP BY 2, 4, 5, 6
UNION ALL SELECT session_id, COALESCE(start_ns, 0) / 900000000000, 'tool', '', agent, COALESCE(tool, name), COUNT(*),
    SUM(status = 'error'), 0, 0, 0, 0, 0 FROM spans WHERE session_id = ?1 AND kind = 'tool' AND copied = 0
    GROUP BY 2, 5, 6
"""


class _Made(NamedTuple):
    """A turn ready to be written: the columns of each span before and after `copied`, and its searchable text."""

    turn: tuple[str, int, str, bool]
    rows: list[tuple[tuple[Value, ...], tuple[object, ...], str]]
    bytes: int


class Store:
    """The store's file. One thread writes; any thread may read."""

    def __init__(self, path: Path, busy_seconds: float | None = None) -> None:
        """Open it. `busy_seconds`: how long to wait for another writing process; None: the default time."""
        self._path = path
        self._busy_seconds = busy_seconds
        self._writing = threading.Lock()
        self._local = threading.local()
        self._writer = self._connect()

    def _connect(self) -> sqlite3.Connection:
        try:
            database = connect(self._path, self._busy_seconds)
        except (OSError, sqlite3.Error) as error:
            reason = (error.strerror or error) if isinstance(error, OSError) else error
            message = f"cannot use the local store {self._path}: {reason}; run `cc-trace doctor`"
            raise StateError(message) from error
        database.row_factory = sqlite3.Row
        return database

    def read(self, question: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        """Return the rows of a query."""
        if not hasattr(self._local, "reader"):
            self._local.reader = self._connect()
            self._local.reader.execute("PRAGMA query_only = 1")
        found: list[sqlite3.Row] = self._local.reader.execute(question, values).fetchall()
        return found

    def stamps(self) -> dict[str, str | None]:
        """Return how each session's files were when they were read; None: its transcript was gone."""
        return {row["session_id"]: row["stamp"] for row in self.read("SELECT session_id, stamp FROM sessions")}

    def close(self) -> None:
        """Close the file."""
        self._writer.close()

    def remove(self, session_id: str) -> bool:
        """Forget a session; return whether it was there."""
        if not self.read(
            "SELECT 1 FROM spans WHERE session_id = ?1 UNION SELECT 1 FROM sessions WHERE session_id = ?1",
            [session_id],
        ):
            return False
        with self._transaction() as database:
            own = "SELECT row FROM spans WHERE session_id = ?"
            database.execute(f"DELETE FROM texts WHERE rowid IN ({own})", (session_id,))  # noqa: S608  (ours)
            for table in ("spans", "turns", "usage", "sessions"):
                database.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))  # noqa: S608  (likewise)
        return True

    def update(
        self, path: Path, stamp: str, privacy: Privacy, *, written: float, now: float, since_ns: int = 0
    ) -> bool:
        """Read a session and write what is new of it; return whether anything was. Raises OSError, sqlite3.Error.

        `written`: when its files were last written to, in unix seconds. It says nothing of files that were copied or
        restored, so a session is at rest since its latest entry if that is older.
        `since_ns`: turns that ended before are left out.
        """
        session = Session(path, look_ahead=True, requests=True)
        last: Trace | None = None
        latest_ns = 0
        changed = False
        numbers: set[int] = set()
        made: list[_Made] = []
        size = [0]

        def write(trace: Trace, *, running: bool) -> bool:
            if _ended_ns(trace.spans) < since_ns:
                return False
            numbers.add(trace.turn.number)
            turn = self._made(trace.spans, privacy, running=running)
            if turn is not None:
                made.append(turn)
                size[0] += turn.bytes
            if size[0] >= _BATCH_BYTES:
                self._write_turns(made)
                made.clear()
                size[0] = 0
            return turn is not None

        for trace in session.traces():
            if last is not None:
                changed |= write(last, running=False)
            last = trace
            latest_ns = max(latest_ns, _ended_ns(trace.spans))
        if (unanswered := session.unanswered()) is not None:
            if last is not None:
                changed |= write(last, running=False)
            last = unanswered
            latest_ns = max(latest_ns, _ended_ns(last.spans))
        turn = last.turn if last is not None else None
        latest = max(latest_ns, session.summary.last_ns or 0) / 1e9
        state = current_activity(
            turn,
            prompted=session.has_prompt_after(turn),
            summarized=session.summarized,
            rest_seconds=now - (min(written, latest) if latest else written),
        )
        if last is not None:
            running = state in ("working", "waiting for approval") and not session.has_prompt_after(turn)
            changed |= write(last, running=running)
        self._write_turns(made)
        self._remove_other_turns(session.summary.session_id, numbers)
        return self._write_session(session.summary, str(path), stamp, state, privacy) or changed

    def erase_deleted(self) -> None:
        """Rewrite the file without the deleted texts, which SQLite otherwise leaves in it. Raises sqlite3.Error."""
        with self._writing:
            self._writer.execute("INSERT INTO texts (texts) VALUES ('optimize')")
            self._writer.execute("VACUUM")
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def mark_ended(self, has_ended: Callable[[Path], bool], now: float) -> list[str]:
        """Note that the sessions of the last hour whose process has ended are idle, and return their ids.

        A transcript does not say so: `has_ended` is asked, with its path.
        """
        active = self.read(
            "SELECT session_id, path FROM sessions"
            " WHERE last_ns BETWEEN ? AND ? AND state <> 'idle' AND path IS NOT NULL",
            [(now - _RECENT_SECONDS) * 1e9, (now + _RECENT_SECONDS) * 1e9],
        )
        ended = [row["session_id"] for row in active if has_ended(Path(row["path"]))]
        if ended:
            with self._transaction() as database:
                for session_id in ended:
                    database.execute("UPDATE sessions SET state = 'idle' WHERE session_id = ?", (session_id,))
                    database.execute("UPDATE turns SET running = 0 WHERE session_id = ?", (session_id,))
        return ended

    def unplaced(self) -> list[str]:
        """Return the sessions with delivered spans that no update has processed since."""
        return [row[0] for row in self.read("SELECT DISTINCT session_id FROM spans WHERE place IS NULL")]

    def lay_out(self, session_id: str) -> None:
        """Do what `update` does for a session whose transcript is gone, from its delivered spans."""
        stored = StoredSession(session_id, list(read_session(self._path, session_id)))
        turns: dict[int, list[Span]] = {}
        for span in stored.spans():
            turns.setdefault(span.turn, []).append(span)
        for spans in turns.values():
            if (made := self._made(spans, None, running=False)) is not None:
                self._write_turns([made])
        self._write_session(stored.summary, None, None, "idle", None)

    def _made(self, spans: Sequence[Span], privacy: Privacy | None, *, running: bool) -> _Made | None:
        """Return a turn's rows to write, or None if the store has them. `privacy` None: everything may leave."""
        session_id, number = spans[0].session_id, spans[0].turn
        unmasked = {id(span): to_json(span) for span in spans}
        digest = _digest(unmasked.values(), privacy)
        known = self._writer.execute(
            "SELECT digest, running FROM turns WHERE session_id = ? AND turn = ?", (session_id, number)
        ).fetchone()
        if known is not None and known["digest"] == digest and bool(known["running"]) == running:
            unplaced = "SELECT 1 FROM spans WHERE session_id = ? AND turn = ? AND place IS NULL"
            if self._writer.execute(unplaced, (session_id, number)).fetchone() is None:
                return None
        outgoing = spans if privacy is None else [privacy(span, spans) for span in spans]
        prepared, size = [], 0
        for row in rows(outgoing):
            encoded = unmasked.get(id(row.span)) or to_json(row.span)  # the same object, if nothing was masked
            data, text = encoded.decode(), searchable(row.span)
            prepared.append((typed(row.span, row.waits), (*_placed(row), data), text))
            size += len(data) + len(text)
        return _Made((session_id, number, digest, running), prepared, size)

    def _write_turns(self, turns: Sequence[_Made]) -> None:
        """Write some turns, each as a whole. Several at once, because each commit costs work in the search index."""
        if not turns:
            return
        with self._transaction() as database:
            for made in turns:
                session_id, number = made.turn[:2]
                _delete_turn(database, session_id, number)
                database.execute("INSERT INTO turns (session_id, turn, digest, running) VALUES (?, ?, ?, ?)", made.turn)
                copied = _copies(database, session_id, [str(columns[0]) for columns, _, _ in made.rows])
                first = database.execute("SELECT COALESCE(MAX(row), 0) + 1 FROM spans").fetchone()[0]
                database.executemany(
                    _INSERT,
                    [
                        (row, *columns, columns[0] in copied, *placed)
                        for row, (columns, placed, _) in enumerate(made.rows, first)
                    ],
                )
                database.executemany(
                    "INSERT INTO texts (rowid, text) VALUES (?, ?)",
                    [(row, text) for row, (_, _, text) in enumerate(made.rows, first) if text],
                )
                database.execute(SUM_UP_TURN, (session_id, number))

    def _remove_other_turns(self, session_id: str, numbers: set[int]) -> None:
        found = self._writer.execute("SELECT DISTINCT turn FROM spans WHERE session_id = ?", (session_id,)).fetchall()
        if gone := [turn for (turn,) in found if turn not in numbers]:
            with self._transaction() as database:
                for turn in gone:
                    _delete_turn(database, session_id, turn)

    def _write_session(
        self, summary: SessionSummary, path: str | None, stamp: str | None, state: str, privacy: Privacy | None
    ) -> bool:
        session_id, content = summary.session_id, privacy.content if privacy is not None else "full"
        outgoing = privacy.text if privacy is not None else str
        title = _title(summary, content)
        told = title if privacy is None else privacy.beginning(title, TITLE_CHARS)
        about: dict[str, JsonValue] = {
            "files": [outgoing(name) for name in list(summary.files_modified)[:_MAX_FILES]]
            if content == "full"
            else [],
            "predecessor": summary.predecessor,
            "lineage": summary.lineage,
            "version": summary.version,
            "mode": summary.mode,
            "models": list(summary.models),
            "unseen_cost_usd": summary.unseen_cost_usd,
            "unpriced": summary.unpriced,
        }
        with self._transaction() as database:
            _count_usage(database, session_id)
            database.execute(MARK_SESSION, (session_id,))
            active_ns = database.execute(ACTIVE_NS.format("?"), (session_id,)).fetchone()[0]
            totals = database.execute(
                "SELECT SUM(cost_usd), SUM(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens),"
                " SUM(status = 'error' AND kind <> 'turn'), SUM(lines_added), SUM(lines_removed)"
                " FROM spans WHERE session_id = ?",
                (session_id,),
            ).fetchone()
            about |= {"lines_added": totals[3] or 0, "lines_removed": totals[4] or 0}
            row: dict[str, object] = {
                "session_id": session_id,
                "title": readable(" ".join(told.split())[:TITLE_CHARS]) or session_id,
                "project": readable(outgoing(summary.project or "")),
                "repository": readable(outgoing(summary.repository or "")) or None,
                "cwd": readable(outgoing(summary.cwd or "")),
                "branch": readable(outgoing(summary.git_branch or "")),
                "first_ns": integer(summary.first_ns),
                "last_ns": integer(summary.last_ns),
                "active_ns": active_ns,
                "turns": summary.turns,
                "cost_usd": totals[0],
                "tokens": totals[1] or 0,
                "errors": totals[2] or 0,
                "state": state,
                "predecessor": summary.predecessor,
                "path": path,
                "stamp": stamp,
                "summary": json.dumps(about),
            }
            before = database.execute("SELECT * FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
            database.execute(
                f"INSERT OR REPLACE INTO sessions ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",  # noqa: S608
                tuple(row.values()),
            )
        return before is None or {**dict(before), "stamp": stamp} != row

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
    """Return the path of the store."""
    return state / "traces.db"


def searchable(span: Span) -> str:
    """Return the searchable text of a span: prompts, answers, input and output of tools, errors."""
    match span.kind:
        case "turn":
            value: JsonValue = span.input
        case "generation":
            value = [span.output.get("content") if isinstance(span.output, dict) else span.output, span.error]
        case _ if span.output == span.error:
            value = [span.input, span.output]
        case _:
            value = [span.input, span.output, span.error]
    return readable("\n".join(_texts(value, 0))[:_TEXT_CHARS])


def _texts(value: JsonValue, depth: int) -> Iterator[str]:
    match value:
        case str():
            yield terminal.searchable(value[:_TEXT_CHARS])
        case list() if depth < 20:  # noqa: PLR2004
            for item in value[:1000]:
                yield from _texts(item, depth + 1)
        case dict() if depth < 20:  # noqa: PLR2004
            yield from _texts(list(value.values()), depth)


def _delete_turn(database: sqlite3.Connection, session_id: str, turn: int) -> None:
    which = (session_id, turn)
    rows = database.execute("SELECT row FROM spans WHERE session_id = ? AND turn = ?", which).fetchall()
    if rows:  # otherwise the search index would write out what it holds back, which costs more than all else here
        database.executemany("DELETE FROM texts WHERE rowid = ?", rows)
        database.execute("DELETE FROM spans WHERE session_id = ? AND turn = ?", which)
    database.execute("DELETE FROM turns WHERE session_id = ? AND turn = ?", which)


def _copies(database: sqlite3.Connection, session_id: str, span_ids: Sequence[str]) -> set[str]:
    """Return which of these spans another session had first. Sessions that continue this one do not count."""
    found: set[str] = set()
    givers: set[str] = set()
    for span_id, holder, predecessor in database.execute(_HOLDERS, (json.dumps(span_ids), session_id)).fetchall():
        if predecessor != session_id:
            found.add(span_id)
            continue
        database.execute("UPDATE spans SET copied = 1 WHERE span_id = ? AND session_id = ?", (span_id, holder))
        givers.add(holder)
    for holder in givers:
        _count_usage(database, holder)
    return found


def _count_usage(database: sqlite3.Connection, session_id: str) -> None:
    database.execute("DELETE FROM usage WHERE session_id = ?", (session_id,))
    database.execute(_COUNT_USAGE, (session_id,))


def _placed(row: Row) -> tuple[object, ...]:
    """Return the columns of a span's place in its turn, except the first."""
    return (
        *(row.place, row.last, row.depth, readable(row.label), row.total_usd, row.hot),
        *(json_text(row.lane), json_text(row.waits)),
    )


def _title(summary: SessionSummary, content: Content) -> str:
    """Return a session's title, or what stands in for it and may leave."""
    match content:
        case "full":
            return summary.title or summary.first_prompt or summary.latest_output
        case "no-tool-content":
            return summary.title or (summary.first_prompt if summary.first_prompt_typed else "")
        case "metadata":
            return ""


def _digest(spans: Iterable[bytes], privacy: Privacy | None) -> str:
    """Return a digest that changes when the turn, or what may leave of it, changes. `spans` are JSON."""
    made = hashlib.sha256(repr(privacy and privacy.settings).encode("utf-8", "replace"))
    for span in spans:
        made.update(span)
    return made.hexdigest()[:32]


def _ended_ns(spans: Iterable[Span]) -> int:
    """Return when the last of these spans ended, ignoring spans without times."""
    times = [time for span in spans for time in (span.start_ns, span.end_ns) if time is not None]
    return max(times, default=1 << 63)
