"""The numbers of the Insights page: cost, tokens and time, by day, project, model, agent and tool.

Rule: a span copied by a fork counts once, in the session that had it first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from cc_trace.store.doubts import UNTIMED
from cc_trace.store.filters import AGENT, CALLS, DAY, MODEL, PROJECT, TIME_KINDS, TOOK, TOOL

if TYPE_CHECKING:
    import sqlite3

    from cc_trace.store.filters import Filter, Where
    from cc_trace.store.store import Store

_SUMS: Final = (
    "SUM(spans.cost_usd) cost_usd, SUM(input_tokens) input, SUM(output_tokens) output,"
    " SUM(cache_read_tokens) cache_read, SUM(cache_write_tokens) cache_write, COUNT(*) requests"
)
# When a span ended, if the times of its turn can be right.
_ENDED: Final = f"CASE WHEN (session_id, turn) NOT IN ({UNTIMED}) THEN end_ns END"


class Share(NamedTuple):
    """One row of a chart, and the query that lists what it counts."""

    name: str
    cost_usd: float
    tokens: int
    requests: int
    query: dict[str, str]
    output: int = 0  # tokens


class Latency(NamedTuple):
    """How long a tool takes without what it waits for, how often it fails, and how often it was not allowed to run."""

    name: str
    calls: int
    failed: int
    refused: int
    p50_ms: float | None  # None: not known of any call
    p95_ms: float | None
    total_ms: float | None


@dataclass(frozen=True, slots=True)
class Insights:
    """All data of the page."""

    total: sqlite3.Row
    by: dict[str, list[Share]]
    time_ms: dict[str, int]
    turns: int
    untimed: int  # turns whose times are not known or cannot be right
    tools: list[Latency]
    recorded: int  # sessions whose requests are recorded, and with them why the cache was missed
    dearest: list[sqlite3.Row]


def insights(store: Store, chosen: Filter) -> Insights:
    """Return the numbers for a filter."""
    where = chosen.spans()
    responses = f"FROM spans JOIN sessions USING (session_id) WHERE kind = 'generation' AND {where.text}"

    def shares(column: str, name: str, limit: int) -> list[Share]:
        order = "1 DESC" if name == "day" else "2 DESC"
        found = store.read(
            f"SELECT {column} name, SUM(spans.cost_usd) cost_usd,"
            f" SUM(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) tokens,"
            " COUNT(*) requests, SUM(output_tokens) output"
            f" {responses} GROUP BY 1 ORDER BY {order} LIMIT {limit}",
            where.values,
        )
        return [_share(row, name, chosen) for row in found]

    by = {
        "day": shares(DAY, "day", 60)[::-1],
        "project": shares(PROJECT, "project", 20),
        "model": shares(MODEL, "model", 20),
        "agent": shares(AGENT, "agent", 20),
        "tool": _by_tool(store, chosen),
    }
    total = store.read(f"SELECT {_SUMS}, COUNT(DISTINCT session_id) sessions {responses}", where.values)[0]
    recorded = store.read(
        f"SELECT COUNT(DISTINCT session_id) {responses} AND json_extract(span, '$.metadata.context') IS NOT NULL",
        where.values,
    )[0][0]
    dearest = store.read(
        f"SELECT session_id, turn, title, label, total_usd, start_ns, {_ENDED} end_ns"
        " FROM spans JOIN sessions USING (session_id)"
        f" WHERE kind = 'turn' AND total_usd > 0 AND {where.text} ORDER BY total_usd DESC LIMIT 10",
        where.values,
    )
    times = _times(store, where)
    return Insights(
        total=total,
        by=by,
        time_ms={kind: int(times[kind] or 0) for kind in TIME_KINDS},
        turns=times["turns"],
        untimed=times["turns"] - times["timed"],
        tools=_tools(store, where),
        recorded=recorded,
        dearest=dearest,
    )


def _by_tool(store: Store, chosen: Filter) -> list[Share]:
    """Divide responses among the tools that they called, evenly if they called several."""
    where = chosen.spans()
    found = store.read(
        "SELECT call.value name, SUM(spans.cost_usd * part) cost_usd, SUM(counted * part) tokens,"
        f" COUNT(DISTINCT spans.row) requests FROM (SELECT *, {CALLS} called, 1.0 / json_array_length({CALLS}) part,"
        " input_tokens + output_tokens + cache_read_tokens + cache_write_tokens counted FROM spans"
        " WHERE kind = 'generation') spans JOIN sessions USING (session_id)"
        f" JOIN json_each(called) call WHERE {where.text} GROUP BY 1 ORDER BY 2 DESC LIMIT 20",
        where.values,
    )
    return [_share(row, "called", chosen) for row in found]


def _share(row: sqlite3.Row, parameter: str, chosen: Filter) -> Share:
    return Share(
        name=row["name"],
        cost_usd=row["cost_usd"] or 0.0,
        tokens=round(row["tokens"] or 0),
        requests=row["requests"],
        query={**chosen.asked(), parameter: row["name"]},
        output=(row["output"] or 0) if "output" in row.keys() else 0,  # noqa: SIM118  (a row, not a dict)
    )


def _times(store: Store, where: Where) -> sqlite3.Row:
    """Return the milliseconds of each kind over all turns, the number of turns, and how many of them have times."""
    sums = ", ".join(f"SUM(json_extract(times, '$.{kind}')) {kind}" for kind in TIME_KINDS)
    times = f"CASE WHEN (session_id, turn) NOT IN ({UNTIMED}) THEN json_extract(span, '$.metadata.time_ms') END times"
    return store.read(
        f"WITH spent AS MATERIALIZED (SELECT {times} FROM spans JOIN sessions USING (session_id)"
        f" WHERE kind = 'turn' AND {where.text}) SELECT {sums}, COUNT(*) turns, COUNT(times) timed FROM spent",
        where.values,
    )[0]


def _tools(store: Store, where: Where) -> list[Latency]:
    """Return the tools with the most calls. Percentiles are by nearest rank, of the calls that ran and have times."""
    found = store.read(
        f"WITH calls AS (SELECT {TOOL} name, status, refused, CASE WHEN refused IS NULL THEN {TOOK} / 1e6 END took"
        f" FROM spans JOIN sessions USING (session_id) WHERE kind = 'tool' AND {where.text}),"
        " ranked AS (SELECT name, refused, status = 'error' AND refused IS NULL failed, took,"
        " COUNT(took) OVER (PARTITION BY name) timed,"
        " ROW_NUMBER() OVER (PARTITION BY name ORDER BY took NULLS LAST) place FROM calls)"
        " SELECT name, COUNT(*) calls, SUM(failed) failed, COUNT(refused) refused,"
        " MAX(CASE WHEN place = (timed + 1) / 2 THEN took END) p50,"
        " MAX(CASE WHEN place = (timed * 95 + 99) / 100 THEN took END) p95, SUM(took) total"
        " FROM ranked GROUP BY name ORDER BY calls DESC, name LIMIT 25",
        where.values,
    )
    return [
        Latency(*(row[name] for name in ("name", "calls", "failed", "refused", "p50", "p95", "total"))) for row in found
    ]
