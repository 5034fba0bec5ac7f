"""Queries of the store. Every result is limited to what a page shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import sqlite3

    from cc_trace.store.filters import Filter
    from cc_trace.store.store import Store

MAX_ROWS: Final = 200  # of one request
MAX_FOLDED: Final = 200
MAX_REQUESTS: Final = 500  # of a chart
_SORTS: Final = {
    "recent": "last_ns DESC",
    "cost": "cost_usd DESC",
    "tokens": "tokens DESC",
    "turns": "turns DESC",
    "duration": "active_ns DESC",
    "errors": "errors DESC",
}
_SESSION: Final = (
    "session_id, title, project, cwd, branch, first_ns, last_ns, active_ns, turns, cost_usd, tokens, errors, state"
)
_ROW: Final = (
    "span_id, place, last, depth, kind, name, label, agent, model, start_ns, first_token_ns, status, cost_usd,"
    " total_usd, hot, lane, waits,"
    # A call without a result is as long as what its agent did.
    " CASE WHEN kind = 'tool' AND status = 'incomplete' AND last > place THEN (SELECT MAX(end_ns) FROM spans below"
    " WHERE below.session_id = spans.session_id AND below.turn = spans.turn"
    " AND below.place BETWEEN spans.place AND spans.last) ELSE end_ns END end_ns"
)


def sessions(store: Store, chosen: Filter, offset: int, limit: int) -> tuple[list[sqlite3.Row], int]:
    """Return some of the sessions, and the number of all of them."""
    where = chosen.sessions()
    total = store.read(f"SELECT COUNT(*) FROM sessions WHERE {where.text}", where.values)[0][0]
    rows = store.read(
        f"SELECT {_SESSION} FROM sessions WHERE {where.text}"
        f" ORDER BY {_SORTS.get(chosen.sort, _SORTS['recent'])}, session_id LIMIT ? OFFSET ?",
        [*where.values, min(limit, MAX_ROWS), max(0, offset)],
    )
    return rows, total


def latest(store: Store, project: str | None, since_ns: int, limit: int | None) -> list[sqlite3.Row]:
    """Return the sessions of a project, or of all, that were active since a time, the latest first."""
    return store.read(
        f"SELECT {_SESSION}, repository, predecessor, path FROM sessions WHERE (?1 IS NULL OR project = ?1)"
        " AND COALESCE(last_ns, 0) >= ?2 ORDER BY last_ns DESC, session_id LIMIT ?3",
        [project, since_ns, -1 if limit is None else limit],
    )


class Totals(NamedTuple):
    """What some sessions come to. Turns that a fork copied count once, in the session that had them first."""

    sessions: int
    turns: int
    cost_usd: float
    tokens: int
    errors: int
    copied: int  # turns of these sessions that count in others


def sessions_total(store: Store, chosen: Filter) -> Totals:
    """Return the totals of all sessions that match a filter."""
    where = chosen.sessions()
    rows = store.read(
        f"SELECT SUM(turns), SUM(cost_usd), SUM(tokens), SUM(errors), COUNT(*) FROM sessions WHERE {where.text}",
        where.values,
    )[0]
    copies = store.read(
        "SELECT SUM(kind = 'turn'), SUM(cost_usd),"
        " SUM(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens),"
        " SUM(status = 'error' AND kind <> 'turn') FROM spans"
        f" WHERE copied = 1 AND session_id IN (SELECT session_id FROM sessions WHERE {where.text})",
        where.values,
    )[0]
    turns, cost_usd, tokens, errors = ((rows[place] or 0) - (copies[place] or 0) for place in range(4))
    return Totals(rows[4], turns, max(0.0, cost_usd), tokens, errors, copies[0] or 0)


def projects(store: Store) -> list[str]:
    """Return the names of all projects."""
    return [row[0] for row in store.read("SELECT DISTINCT project FROM sessions WHERE project <> '' ORDER BY 1")]


def session(store: Store, session_id: str) -> sqlite3.Row | None:
    """Return one session with its summary and path."""
    found = store.read(f"SELECT {_SESSION}, path, summary FROM sessions WHERE session_id = ?", [session_id])
    return found[0] if found else None


def turns(
    store: Store, session_id: str, offset: int = 0, limit: int = MAX_ROWS, only: int | None = None
) -> list[sqlite3.Row]:
    """Return the root spans of a session's turns, or of `only` one, with counts of what is below each.

    `untimed`: its times cannot be right.
    """
    return store.read(
        "SELECT root.turn, root.span_id, root.start_ns, root.end_ns, root.status, root.total_usd, root.label,"
        " json_extract(root.span, '$.input') prompt, json_extract(root.span, '$.output') answer,"
        " json_extract(root.span, '$.error') error, json_extract(root.span, '$.metadata') metadata,"
        " running, untimed, requests, tools, errors, turns.output_tokens output"
        " FROM turns JOIN spans root USING (session_id, turn) WHERE session_id = ?1 AND place = 0"
        " AND (?4 IS NULL OR turn = ?4) ORDER BY turn LIMIT ?2 OFFSET ?3",
        [session_id, limit, offset, only],
    )


def turn(store: Store, session_id: str, number: int) -> sqlite3.Row | None:
    """Return the root of one turn."""
    found = turns(store, session_id, 0, 1, number)
    return found[0] if found else None


class Rows(NamedTuple):
    """Some rows of a turn. `total`: number of rows that are not folded away; `running`: the turn goes on.

    `untimed`: its times cannot be right.
    """

    rows: list[dict[str, Any]]
    total: int
    start_ns: int
    end_ns: int
    running: bool
    untimed: bool


def turn_rows(store: Store, session_id: str, number: int, folded: list[int], offset: int, limit: int) -> Rows:
    """Return some rows of a turn. `folded`: the places of rows whose descendants are hidden."""
    where, values = "session_id = ? AND turn = ?", [session_id, number]
    for place in folded[:MAX_FOLDED]:
        last = store.read(
            "SELECT last FROM spans WHERE session_id = ? AND turn = ? AND place = ?", [session_id, number, place]
        )
        if last:
            where += " AND NOT (place > ? AND place <= ?)"
            values += [place, last[0][0]]
    bounds = store.read(
        "SELECT MIN(start_ns), MAX(MAX(COALESCE(end_ns, 0), COALESCE(start_ns, 0)))"
        " FROM spans WHERE session_id = ? AND turn = ?",
        [session_id, number],
    )[0]
    start_ns, end_ns = bounds[0] or 0, max(bounds[1] or 0, bounds[0] or 0)
    total = store.read(f"SELECT COUNT(*) FROM spans WHERE {where}", values)[0][0]
    found = store.read(
        f"SELECT {_ROW} FROM spans WHERE {where} ORDER BY place LIMIT ? OFFSET ?",
        [*values, min(limit, MAX_ROWS), max(0, offset)],
    )
    known = store.read("SELECT running, untimed FROM turns WHERE session_id = ? AND turn = ?", [session_id, number])
    running, untimed = map(bool, known[0]) if known else (False, False)
    return Rows([_row(each, start_ns) for each in found], total, start_ns, end_ns, running, untimed)


def _row(row: sqlite3.Row, start_ns: int) -> dict[str, Any]:
    """Return a row for the page, with times in milliseconds from the turn's start."""

    def at(time_ns: int | None) -> float | None:
        return None if time_ns is None else (time_ns - start_ns) / 1e6

    lane = json.loads(row["lane"])
    return {
        "id": row["span_id"],
        "place": row["place"],
        "below": row["last"] - row["place"],
        "depth": row["depth"],
        "kind": row["kind"],
        "name": row["name"],
        "label": row["label"],
        "start": at(row["start_ns"]),
        "end": at(row["end_ns"]),
        "first": at(first_token_ns(row)),
        "status": row["status"],
        "cost": row["cost_usd"],
        "total": row["total_usd"],
        "hot": bool(row["hot"]),
        "lane": [at(lane[0]), at(lane[1])] if lane else None,
        "waits": [[kind, at(begin), at(end)] for kind, begin, end in json.loads(row["waits"])],
    }


def first_token_ns(row: sqlite3.Row) -> int | None:
    """Return when the first token of a response came; None if only one time is known of all of it."""
    first_ns, end_ns = row["first_token_ns"], row["end_ns"]
    return first_ns if first_ns is None or end_ns is None or first_ns < end_ns else None


def ran_on_ns(store: Store, session_id: str, number: int) -> int:
    """Return for how long the agents of a turn ran on after its end."""
    found = store.read(
        "SELECT MAX(end_ns) - MAX(CASE place WHEN 0 THEN end_ns END) FROM spans"
        " WHERE session_id = ? AND turn = ? AND (place = 0 OR agent_id IS NOT NULL)",
        [session_id, number],
    )
    return found[0][0] or 0


def place_of(store: Store, session_id: str, number: int, span_id: str) -> int | None:
    """Return a span's place in its turn."""
    found = store.read(
        "SELECT place FROM spans WHERE session_id = ? AND turn = ? AND span_id = ?", [session_id, number, span_id]
    )
    return found[0][0] if found else None


def span(store: Store, span_id: str) -> sqlite3.Row | None:
    """Return one span; if several sessions have it, that of the session that had it first."""
    found = store.read("SELECT * FROM spans WHERE span_id = ? ORDER BY copied LIMIT 1", [span_id])
    return found[0] if found else None


def calls(store: Store, response: sqlite3.Row) -> list[sqlite3.Row]:
    """Return the tool calls that a response made, in order."""
    return store.read(
        "SELECT span_id, place, name, label, status FROM spans WHERE session_id = ? AND turn = ? AND +kind = 'tool'"
        " AND parent_id = ? ORDER BY place LIMIT 100",
        [response["session_id"], response["turn"], response["span_id"]],
    )


def requests(store: Store, session_id: str) -> list[sqlite3.Row]:
    """Return the latest requests of a session's main thread and its compactions, in order; `total`: of requests."""
    return store.read(
        "WITH latest AS (SELECT row, SUM(kind = 'generation') OVER () total FROM spans"
        " WHERE session_id = ? AND agent = ''"
        " AND ((kind = 'generation' AND input_tokens IS NOT NULL) OR (kind = 'event' AND name = 'compaction'))"
        " ORDER BY turn DESC, place DESC LIMIT ?)"
        " SELECT total, span_id, turn, kind, name, model, start_ns, input_tokens input, output_tokens output,"
        " cache_read_tokens cache_read, cache_write_tokens cache_write, cost_usd,"
        " json_extract(span, '$.metadata.context') context, json_extract(span, '$.metadata.cache_miss') cache_miss,"
        " json_extract(span, '$.metadata.durationMs') duration_ms, json_extract(span, '$.metadata.micro') micro,"
        " json_extract(span, '$.metadata.trigger') trigger FROM latest JOIN spans USING (row)"
        " ORDER BY turn, place",
        [session_id, MAX_REQUESTS],
    )


def undercounted(store: Store, session_id: str) -> int:
    """Return how many of a session's requests have more output tokens than are recorded."""
    found = store.read(
        "SELECT COUNT(*) FROM spans WHERE session_id = ? AND +kind = 'generation' AND input_tokens IS NOT NULL"
        " AND json_extract(span, '$.response.usage_complete') = 0",
        [session_id],
    )
    return int(found[0][0])


def costs(store: Store, session_id: str) -> list[sqlite3.Row]:
    """Return the cost of each turn, in order."""
    return store.read(
        "SELECT turn, total_usd, start_ns FROM spans WHERE session_id = ? AND place = 0 ORDER BY turn LIMIT 2000",
        [session_id],
    )


def files(store: Store, session_id: str) -> list[sqlite3.Row]:
    """Return the files that a session changed most often, with lines added and removed; `total`: of files."""
    return store.read(
        "SELECT json_extract(span, '$.tool.file_path') path, COUNT(*) edits, MIN(span_id) span_id,"
        " COALESCE(SUM(lines_added), 0) added, COALESCE(SUM(lines_removed), 0) removed,"
        " COUNT(*) OVER () total FROM spans"
        " WHERE session_id = ? AND +kind = 'tool' AND status = 'ok' AND path IS NOT NULL"
        " GROUP BY 1 ORDER BY 2 DESC LIMIT 100",
        [session_id],
    )


class Hit(NamedTuple):
    """A search result."""

    span_id: str
    session_id: str
    turn: int
    kind: str
    name: str
    title: str
    start_ns: int | None
    snippet: str  # matches are between \x01 and \x02


def search(store: Store, text: str, limit: int = 100) -> list[Hit]:
    """Return the spans that have all the words, the best matches first; calls that only read come after all others."""
    # Each word is a string to FTS5, so that nothing in it is syntax; a NUL would end the query.
    words = [f'"{word.replace(chr(34), chr(34) * 2)}"' for word in text.replace("\0", " ").split()[:20]]
    if not words:
        return []
    words[-1] += "*"  # the last word may be incomplete
    found = store.read(
        "WITH best AS MATERIALIZED (SELECT row, COALESCE(tool, '') IN ('Read', 'Grep', 'Glob', 'LS') reads"
        " FROM texts JOIN spans ON spans.row = texts.rowid WHERE texts MATCH ?1 AND copied = 0"
        " ORDER BY reads, rank LIMIT ?2)"
        " SELECT span_id, session_id, spans.turn, kind, name, title, start_ns,"
        " snippet(texts, 0, char(1), char(2), '…', 24) snippet FROM best JOIN texts ON texts.rowid = best.row"
        " JOIN spans USING (row) JOIN sessions USING (session_id) WHERE texts MATCH ?1 ORDER BY reads, rank",
        [" ".join(words), limit],
    )
    return [Hit(*row) for row in found]
