"""The numbers of the Insights page: cost, tokens and time, by day, project, model, agent and tool.

Rule: a span copied by a fork counts once, in the session that had it first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cc_trace.store.questions import DAY

if TYPE_CHECKING:
    import sqlite3

    from cc_trace.store.questions import Filter
    from cc_trace.store.store import Store

TIME_KINDS: Final = ("model", "tools", "permission", "hooks", "retries", "idle", "unknown")
NO_TOOL: Final = "no tool"  # the group of responses without tool calls
_SUMS: Final = (
    "SUM(spans.cost_usd) cost_usd, SUM(input_tokens) input, SUM(output_tokens) output,"
    " SUM(cache_read_tokens) cache_read, SUM(cache_write_tokens) cache_write, COUNT(*) requests,"
    " SUM(status = 'error') errors"
)


class Share(NamedTuple):
    """One row of a chart, and the query that lists what it counts."""

    name: str
    cost_usd: float
    tokens: int
    requests: int
    errors: int
    query: dict[str, str]


class Latency(NamedTuple):
    """How long a tool takes, and how often it fails."""

    name: str
    calls: int
    errors: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Insights:
    """All data of the page."""

    total: sqlite3.Row
    by: dict[str, list[Share]]
    time_ms: dict[str, int]
    untimed: int  # turns whose times are not known
    tools: list[Latency]
    missed_tokens: int
    missed_usd: float
    misses: int
    dearest: list[sqlite3.Row]


def insights(store: Store, chosen: Filter) -> Insights:
    """Return the numbers for a filter."""
    where, values = _where(chosen)
    responses = f"FROM spans JOIN sessions USING (session_id) WHERE kind = 'generation' AND copied = 0 AND {where}"

    def shares(column: str, name: str, limit: int) -> list[Share]:
        order = "1 DESC" if name == "day" else "2 DESC"
        found = store.read(
            f"SELECT {column} name, SUM(spans.cost_usd) cost_usd,"
            f" SUM(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) tokens, COUNT(*) requests,"
            f" SUM(status = 'error') errors {responses} GROUP BY 1 ORDER BY {order} LIMIT {limit}",
            values,
        )
        kept = {key: value for key, value in chosen.asked().items() if key != "sort"}
        return [
            Share(
                *(row["name"] or "unknown", row["cost_usd"] or 0.0, row["tokens"] or 0),
                *(row["requests"], row["errors"] or 0, {**kept, name: row["name"] or ""}),
            )
            for row in found
        ]

    by = {
        "day": shares(DAY, "day", 60)[::-1],
        "project": shares("project", "project", 20),
        "model": shares("model", "model", 20),
        "agent": shares("CASE agent WHEN '' THEN 'main thread' ELSE agent END", "agent", 20),
    }
    by["tool"] = _by_tool(store, where, values, chosen)
    total = store.read(
        f"SELECT {_SUMS}, COUNT(DISTINCT session_id) sessions {responses}",
        values,
    )[0]
    missed = store.read(
        "SELECT SUM(json_extract(span, '$.metadata.cache_miss.tokens')),"
        " SUM(json_extract(span, '$.metadata.cache_miss.cost_usd')), COUNT(json_extract(span, '$.metadata.cache_miss'))"
        f" {responses}",
        values,
    )[0]
    dearest = store.read(
        "SELECT session_id, turn, title, label, total_usd, start_ns, end_ns FROM spans JOIN sessions USING (session_id)"
        f" WHERE kind = 'turn' AND copied = 0 AND total_usd > 0 AND {where} ORDER BY total_usd DESC LIMIT 10",
        values,
    )
    times = _times(store, where, values)
    return Insights(
        total=total,
        by=by,
        time_ms={kind: int(times[kind] or 0) for kind in TIME_KINDS},
        untimed=times["untimed"],
        tools=_tools(store, where, values),
        missed_tokens=missed[0] or 0,
        missed_usd=missed[1] or 0.0,
        misses=missed[2],
        dearest=dearest,
    )


def _by_tool(store: Store, where: str, values: list[Any], chosen: Filter) -> list[Share]:
    """Divide responses among the tools that they called, evenly if they called several."""
    found = store.read(
        "SELECT COALESCE(call.value, '') name, SUM(spans.cost_usd * part) cost_usd, SUM(counted * part) tokens,"
        " COUNT(DISTINCT spans.row) requests, SUM(status = 'error') errors FROM (SELECT *,"
        " 1.0 / MAX(1, COALESCE(json_array_length(calls), 0)) part,"
        " input_tokens + output_tokens + cache_read_tokens + cache_write_tokens counted FROM spans"
        " WHERE kind = 'generation' AND copied = 0) spans JOIN sessions USING (session_id)"
        f" LEFT JOIN json_each(calls) call WHERE {where} GROUP BY 1 ORDER BY 2 DESC LIMIT 20",
        values,
    )
    kept = {key: value for key, value in chosen.asked().items() if key != "sort"}
    return [
        Share(
            name=row["name"] or NO_TOOL,
            cost_usd=row["cost_usd"] or 0.0,
            tokens=round(row["tokens"] or 0),
            requests=row["requests"],
            errors=row["errors"] or 0,
            query={**kept, "called": row["name"] or NO_TOOL},
        )
        for row in found
    ]


def _where(chosen: Filter) -> tuple[str, list[Any]]:
    parts, values = ["1"], []
    for condition, value in (
        ("project = ?", chosen.project),
        (f"{DAY} >= ?", chosen.since),
        (f"{DAY} <= ?", chosen.until),
    ):
        if value:
            parts.append(condition)
            values.append(value)
    return " AND ".join(parts), values


def _times(store: Store, where: str, values: list[Any]) -> sqlite3.Row:
    """Return the milliseconds of each kind over all turns, and how many turns have none."""
    sums = ", ".join(f"SUM(json_extract(span, '$.metadata.time_ms.{kind}')) {kind}" for kind in TIME_KINDS)
    return store.read(
        f"SELECT {sums}, COUNT(*) - COUNT(json_extract(span, '$.metadata.time_ms')) untimed"
        f" FROM spans JOIN sessions USING (session_id) WHERE kind = 'turn' AND copied = 0 AND {where}",
        values,
    )[0]


def _tools(store: Store, where: str, values: list[Any]) -> list[Latency]:
    """Return the tools with the most calls. Percentiles are by nearest rank."""
    found = store.read(
        "WITH calls AS (SELECT COALESCE(tool, name) name, status = 'error' failed, (end_ns - start_ns) / 1e6 took,"
        " ROW_NUMBER() OVER (PARTITION BY COALESCE(tool, name) ORDER BY end_ns - start_ns) place,"
        " COUNT(*) OVER (PARTITION BY COALESCE(tool, name)) total FROM spans JOIN sessions USING (session_id)"
        f" WHERE kind = 'tool' AND copied = 0 AND end_ns IS NOT NULL AND start_ns IS NOT NULL AND {where})"
        " SELECT name, total, SUM(failed) errors, MAX(CASE WHEN place = (total + 1) / 2 THEN took END) p50,"
        " MAX(CASE WHEN place = (total * 95 + 99) / 100 THEN took END) p95"
        " FROM calls GROUP BY name ORDER BY total DESC, name LIMIT 25",
        values,
    )
    return [
        Latency(row["name"], row["total"], row["errors"] or 0, row["p50"] or 0.0, row["p95"] or 0.0) for row in found
    ]
