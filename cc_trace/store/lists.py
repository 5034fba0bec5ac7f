"""Lists of spans: the ones a chart counts, and a turn's most expensive, failed and waiting spans."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cc_trace.store.insights import NO_TOOL, TIME_KINDS
from cc_trace.store.questions import DAY, MAX_ROWS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from cc_trace.store.store import Store

_FIRST_FEW: Final = 12
_PICK: Final = (
    "span_id, session_id, turn, place, kind, name, label, agent, model, start_ns, end_ns, status, spans.cost_usd,"
    " total_usd, waits, substr(json_extract(span, '$.error'), 1, 400) error"
)
_SORTS: Final = {
    "recent": "start_ns DESC",
    "cost": "COALESCE(total_usd, spans.cost_usd, 0) DESC",
    "duration": "end_ns - start_ns DESC",
    "tokens": "COALESCE(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens, 0) DESC",
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which spans a URL selects; empty: all. `time`: turns with this kind of time; `miss`: the first cause.

    `called`: responses that called a tool, or `NO_TOOL`; their cost and tokens are that tool's share of them.
    """

    kind: str = ""
    tool: str = ""
    status: str = ""
    model: str = ""
    agent: str = ""
    project: str = ""
    day: str = ""
    since: str = ""
    until: str = ""
    time: str = ""
    miss: str = ""
    called: str = ""
    sort: str = "recent"

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Chosen:
        """Return the known parameters of a query."""
        found = {field.name: query[field.name][:500] for field in fields(cls) if field.name in query}
        if found.get("sort") not in _SORTS:
            found.pop("sort", None)
        if found.get("time") not in TIME_KINDS:
            found.pop("time", None)
        return cls(**found)

    def asked(self) -> dict[str, str]:
        """Return the parameters that are set, as in the URL."""
        return {
            field.name: value
            for field in fields(self)
            if (value := getattr(self, field.name)) and (field.name != "sort" or value != "recent")
        }


class Picked(NamedTuple):
    """Some of the selected spans, and the totals of all of them."""

    rows: list[sqlite3.Row]
    total: int
    cost_usd: float
    tokens: int
    took_ms: float


def spans(store: Store, chosen: Chosen, offset: int = 0, limit: int = MAX_ROWS) -> Picked:
    """Return the selected spans. A span copied by a fork is not counted again."""
    where, values = _where(chosen)
    took = f"json_extract(span, '$.metadata.time_ms.{chosen.time}') * 1000000" if chosen.time else "end_ns - start_ns"
    order = f"{took} DESC" if chosen.time and chosen.sort == "duration" else _SORTS[chosen.sort]
    table = f"FROM spans JOIN sessions USING (session_id) WHERE {where}"
    part, tool = "1", list[Any]()
    if chosen.called and chosen.called != NO_TOOL:
        part = "(SELECT AVG(value = ?) FROM json_each(calls))"
        tool = [chosen.called]
    sums = store.read(
        f"SELECT COUNT(*) count, SUM(spans.cost_usd * {part}) cost, SUM(spans.total_usd) total,"
        f" SUM((input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) * {part}) tokens,"
        f" SUM({took}) took {table}",
        [*tool, *tool, *values],
    )[0]
    rows = store.read(
        f"SELECT {_PICK}, title, project, {took} took_ns,"
        " input_tokens + output_tokens + cache_read_tokens + cache_write_tokens tokens"
        f" {table} ORDER BY {order}, spans.row LIMIT ? OFFSET ?",
        [*values, min(limit, MAX_ROWS), max(0, offset)],
    )
    cost = sums["total"] if chosen.kind == "turn" else sums["cost"]
    return Picked(rows, sums["count"], cost or 0.0, round(sums["tokens"] or 0), (sums["took"] or 0) / 1e6)


def _where(chosen: Chosen) -> tuple[str, list[Any]]:
    parts, values = ["copied = 0"], list[Any]()
    kind = (
        "turn"
        if chosen.time
        else "tool"
        if chosen.tool
        else "generation"
        if chosen.miss or chosen.called
        else chosen.kind
    )
    called = "" if chosen.called == NO_TOOL else chosen.called
    for condition, value in (
        ("kind = ?", kind),
        ("COALESCE(tool, name) = ?", chosen.tool),
        ("EXISTS (SELECT 1 FROM json_each(calls) WHERE value = ?)", called),
        ("status = ?", chosen.status),
        ("model = ?", chosen.model),
        ("agent = ?", "" if chosen.agent == "main thread" else chosen.agent),
        ("project = ?", chosen.project),
        (f"{DAY} = ?", chosen.day),
        (f"{DAY} >= ?", chosen.since),
        (f"{DAY} <= ?", chosen.until),
        ("cache_miss = ?", chosen.miss),
    ):
        if value:
            parts.append(condition)
            values.append(value)
    if chosen.called == NO_TOOL:
        parts.append("COALESCE(json_array_length(calls), 0) = 0")
    if chosen.agent == "main thread":
        parts.append("agent = ''")
    if chosen.time:
        parts.append(f"json_extract(span, '$.metadata.time_ms.{chosen.time}') > 0")
    return " AND ".join(parts), values


class Notable(NamedTuple):
    """The notable spans of a turn, the first few of each kind."""

    dearest: list[sqlite3.Row]
    failed: list[sqlite3.Row]
    waits: list[sqlite3.Row]


def notable(store: Store, session_id: str, number: int, failures: int) -> Notable:
    """Return a turn's most expensive spans, its failures if there are any, and its waits."""
    which = [session_id, number]
    where = "session_id = ? AND turn = ?"
    return Notable(
        dearest=store.read(
            f"SELECT {_PICK}, CASE kind WHEN 'subagent' THEN total_usd ELSE cost_usd END spent FROM spans WHERE {where}"
            " AND ((kind = 'subagent' AND total_usd > 0) OR (kind = 'generation' AND agent = '' AND cost_usd > 0))"
            f" ORDER BY spent DESC, place LIMIT {_FIRST_FEW}",
            which,
        ),
        failed=store.read(
            f"SELECT {_PICK} FROM spans WHERE {where} AND status = 'error' AND kind <> 'turn'"
            f" ORDER BY place LIMIT {_FIRST_FEW}",
            which,
        )
        if failures
        else [],
        waits=store.read(f"SELECT {_PICK} FROM spans WHERE {where} AND waits <> '[]' LIMIT 1000", which),
    )


def next_error(store: Store, session_id: str, number: int, place: int) -> int | None:
    """Return the place of a turn's next failed span, after the last one the first, or None if none failed."""
    found = store.read(
        "SELECT place FROM spans WHERE session_id = ? AND turn = ? AND status = 'error' AND kind <> 'turn'"
        " ORDER BY place <= ?, place LIMIT 1",
        [session_id, number, place],
    )
    return found[0][0] if found else None


def hooks(store: Store, session_id: str) -> list[sqlite3.Row]:
    """Return a session's hooks by event and command, the longest-running first."""
    return store.read(
        "SELECT json_extract(span, '$.metadata.hook_event') event, json_extract(span, '$.metadata.command') command,"
        " COUNT(*) runs, SUM(json_extract(span, '$.metadata.blocked') = 1) blocked, SUM(status = 'error') errors,"
        " SUM(COALESCE(json_extract(span, '$.metadata.duration_ms'), (end_ns - start_ns) / 1e6)) took_ms,"
        " MIN(span_id) span_id FROM spans WHERE session_id = ? AND kind = 'event' AND name = 'hook'"
        " GROUP BY 1, 2 ORDER BY took_ms DESC LIMIT 50",
        [session_id],
    )


def permissions(store: Store, session_id: str) -> list[sqlite3.Row]:
    """Return a session's tool calls that needed a decision, refusals and long waits first."""
    return store.read(
        "SELECT span_id, turn, name, label, json_extract(span, '$.metadata.permission.decision') decision,"
        " json_extract(span, '$.metadata.permission.source') source,"
        " json_extract(span, '$.metadata.permission.wait_ms') wait_ms,"
        " json_extract(span, '$.metadata.denial') denial FROM spans WHERE session_id = ? AND kind = 'tool'"
        " AND (decision IS NOT NULL OR denial IS NOT NULL)"
        " ORDER BY decision = 'accept' AND denial IS NULL, wait_ms DESC, start_ns LIMIT 100",
        [session_id],
    )


class Relatives(NamedTuple):
    """The session that one continues, and those that continue it."""

    before: sqlite3.Row | None
    after: list[sqlite3.Row]


def relatives(store: Store, session_id: str, predecessor: str | None) -> Relatives:
    """Return the sessions before and after one: forks, executed plans, cleared contexts."""
    before = store.read("SELECT session_id, title FROM sessions WHERE session_id = ?", [predecessor])
    after = store.read(
        "SELECT session_id, title, json_extract(summary, '$.lineage') lineage FROM sessions"
        " WHERE json_extract(summary, '$.predecessor') = ?"
        " ORDER BY first_ns LIMIT 20",
        [session_id],
    )
    return Relatives(before[0] if before else None, after)


class Miss(NamedTuple):
    """The prompt cache misses with the same main cause."""

    cause: str
    requests: int
    tokens: int
    cost_usd: float


def misses(store: Store, chosen: Chosen) -> list[Miss]:
    """Return the cache misses by cause, those with the most tokens first."""
    where, values = _where(chosen)
    found = store.read(
        "SELECT cache_miss cause, COUNT(*) requests, SUM(json_extract(span, '$.metadata.cache_miss.tokens')) tokens,"
        " SUM(json_extract(span, '$.metadata.cache_miss.cost_usd')) cost FROM spans JOIN sessions USING (session_id)"
        f" WHERE kind = 'generation' AND {where} AND cause IS NOT NULL GROUP BY 1 ORDER BY tokens DESC LIMIT 20",
        values,
    )
    return [Miss(row["cause"], row["requests"], row["tokens"] or 0, row["cost"] or 0.0) for row in found]


def spending(store: Store, session_id: str) -> list[tuple[int, float]]:
    """Return a session's cost over time, including its agents', in at most 500 steps."""
    found = store.read(
        "WITH paid AS (SELECT COALESCE(end_ns, start_ns) at, cost_usd FROM spans"
        " WHERE session_id = ? AND kind = 'generation' AND cost_usd IS NOT NULL AND COALESCE(end_ns, start_ns) > 0),"
        " bounds AS (SELECT MIN(at) first, MAX(at) - MIN(at) + 1 length FROM paid)"
        " SELECT MAX(at) at, SUM(cost_usd) cost FROM paid, bounds GROUP BY (at - first) * 500 / length ORDER BY 1",
        [session_id],
    )
    return [(row["at"], row["cost"]) for row in found]
