"""Lists of spans: the ones a chart counts, and the most expensive, failed and slowest of a turn or a session."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cc_trace.pricing import cost_usd as price_of
from cc_trace.store import rewrites
from cc_trace.store.filters import CALLS, TIME_KINDS, TOOK
from cc_trace.store.questions import MAX_ROWS
from cc_trace.store.slowest import slowest
from cc_trace.transcript import Usage

if TYPE_CHECKING:
    import sqlite3

    from cc_trace.store.filters import Filter
    from cc_trace.store.slowest import Slow
    from cc_trace.store.store import Store

_FIRST_FEW: Final = 12
_MAX_FAILED: Final = 500
_MAX_CAUSES: Final = 20
_PICK: Final = (
    "span_id, session_id, turn, place, kind, name, label, agent, model, start_ns, end_ns, status, spans.cost_usd,"
    " total_usd, waits, spans.error,"
    " CASE WHEN spans.error LIKE '%…' THEN substr(json_extract(span, '$.output'), 1, 20000) END said"
)
# What a list prints and sorts by: turns and agents with all that is below them, everything else alone.
_PAID: Final = "CASE WHEN kind IN ('turn', 'subagent') THEN total_usd ELSE spans.cost_usd END"
_SORTS: Final = {
    "recent": "start_ns DESC",
    "oldest": "start_ns",
    "cost": f"{_PAID} DESC NULLS LAST",
    "duration": f"{TOOK} DESC NULLS LAST",
    "tokens": "COALESCE(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens, 0) DESC",
}


_MISS: Final = " json_extract(span, '$.metadata.cache_miss') cache_miss,"


class Picked(NamedTuple):
    """Some of the selected spans, and the totals of all of them."""

    rows: list[sqlite3.Row]
    total: int
    cost_usd: float | None  # None: not known of any
    tokens: int
    took_ms: float | None  # likewise
    lines_added: int
    lines_removed: int


def spans(store: Store, chosen: Filter, offset: int = 0, limit: int = MAX_ROWS) -> Picked:
    """Return the selected spans. Of a response that called several tools, each has an even share."""
    where = chosen.spans()
    took = f"json_extract(span, '$.metadata.time_ms.{chosen.time}') * 1000000" if chosen.time else TOOK
    if chosen.waited:
        took = "wait_ms * 1000000"
    order = (
        f"{took} DESC"
        if (chosen.time or chosen.waited) and chosen.sort == "duration"
        else _SORTS.get(chosen.sort, _SORTS["recent"])
    )
    table = f"FROM spans JOIN sessions USING (session_id) WHERE {where.text}"
    part, tool = "1", list[Any]()
    if chosen.called:
        part, tool = f"(SELECT AVG(value = ?) FROM json_each({CALLS}))", [chosen.called]
    # What an agent cost is part of what the agent that started it cost.
    total = {"turn": "total_usd", "subagent": "CASE lane WHEN 'null' THEN total_usd END"}.get(chosen.spans_kind)
    sums = store.read(
        f"SELECT COUNT(*) count, SUM({total or 'spans.cost_usd'} * {part}) cost,"
        f" SUM((input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) * {part}) tokens,"
        f" SUM({took}) took, SUM(lines_added) added, SUM(lines_removed) removed {table}",
        [*tool, *tool, *where.values],
    )[0]
    rows = store.read(
        f"SELECT {_PICK}, title, project, {took} took_ns, {_PAID} paid_usd,"
        f"{_MISS if chosen.miss else ''}"
        " input_tokens + output_tokens + cache_read_tokens + cache_write_tokens tokens,"
        " lines_added added, lines_removed gone"
        f" {table} ORDER BY {order}, spans.row LIMIT ? OFFSET ?",
        [*where.values, min(limit, MAX_ROWS), max(0, offset)],
    )
    return Picked(
        rows,
        sums["count"],
        sums["cost"],
        round(sums["tokens"] or 0),
        None if sums["took"] is None else sums["took"] / 1e6,
        sums["added"] or 0,
        sums["removed"] or 0,
    )


class Notable(NamedTuple):
    """The notable spans of a turn or a session: the first few of each kind, of the failures as many as can be told."""

    dearest: list[sqlite3.Row]
    failed: list[sqlite3.Row]
    disturbed: list[sqlite3.Row]  # requests that failed and were sent again, and interruptions: no failures
    slowest: list[Slow]


def notable(store: Store, session_id: str, number: int | None, failures: int) -> Notable:
    """Return the most expensive spans, the failures if there are any, and the slowest; number None: of all turns."""
    which = [session_id, number]
    where = "session_id = ?1 AND (?2 IS NULL OR turn = ?2) AND place IS NOT NULL"
    return Notable(
        dearest=store.read(
            f"SELECT {_PICK}, CASE kind WHEN 'subagent' THEN total_usd ELSE cost_usd END spent FROM spans WHERE {where}"
            " AND ((kind = 'subagent' AND total_usd > 0) OR (kind = 'generation' AND agent = '' AND cost_usd > 0))"
            f" ORDER BY spent DESC, turn, place LIMIT {_FIRST_FEW}",
            which,
        ),
        failed=store.read(
            f"SELECT {_PICK} FROM spans WHERE {where} AND status = 'error' AND kind <> 'turn'"
            f" ORDER BY turn, place LIMIT {_MAX_FAILED}",
            which,
        )
        if failures
        else [],
        disturbed=store.read(
            f"SELECT {_PICK} FROM spans WHERE {where} AND +kind = 'event' AND name IN ('api_retry', 'interruption')"
            f" AND status <> 'error' ORDER BY turn, place LIMIT {_MAX_FAILED}",
            which,
        ),
        slowest=slowest(store, session_id, number)[:_FIRST_FEW],
    )


def next_error(store: Store, session_id: str, number: int, place: int) -> int | None:
    """Return the place of a turn's next failed span, after the last one the first, or None if none failed."""
    found = store.read(
        "SELECT place FROM spans WHERE session_id = ? AND turn = ? AND status = 'error' AND kind <> 'turn'"
        " ORDER BY place <= ?, place LIMIT 1",
        [session_id, number, place],
    )
    return found[0][0] if found else None


def edits(store: Store, session_id: str, path: str) -> list[str]:
    """Return the calls of a session that changed a file, in order."""
    found = store.read(
        "SELECT span_id FROM spans WHERE session_id = ? AND +kind = 'tool' AND status = 'ok'"
        " AND json_extract(span, '$.tool.file_path') = ?"
        " ORDER BY start_ns, turn, place",
        [session_id, path],
    )
    return [row[0] for row in found]


_BELOW: Final = (
    "SUM(kind = 'generation') requests, SUM(kind = 'tool') tools, SUM(status = 'error') errors,"
    " SUM(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) tokens,"
    " GROUP_CONCAT(DISTINCT model) models"
)


def below(store: Store, agent: sqlite3.Row) -> sqlite3.Row | None:
    """Return what is below an agent's span in sum, or None if it has no place yet."""
    if agent["place"] is None:
        return None
    return store.read(
        f"SELECT {_BELOW}, COUNT(DISTINCT CASE WHEN kind = 'tool' AND status = 'ok'"
        " THEN json_extract(span, '$.tool.file_path') END) files"
        " FROM spans WHERE session_id = ? AND turn = ? AND place > ? AND place <= ?",
        [agent["session_id"], agent["turn"], agent["place"], agent["last"]],
    )[0]


def agents(store: Store, session_id: str) -> list[sqlite3.Row]:
    """Return a session's agents with what they did in sum, the most expensive first; `total`: of agents."""
    return store.read(
        "WITH agents AS (SELECT row, span_id, session_id, turn, place, last, name, start_ns, end_ns, total_usd,"
        " COALESCE(NULLIF(label, ''), (SELECT json_extract(span, '$.input.description') FROM spans call"
        " WHERE call.session_id = own.session_id AND call.span_id = own.parent_id), '') label,"
        " json_extract(span, '$.metadata.background') background, COUNT(*) OVER () total FROM spans own"
        " WHERE session_id = ? AND +kind = 'subagent' AND place IS NOT NULL"
        " ORDER BY total_usd DESC, turn, place LIMIT 50)"
        f" SELECT agents.*, {_BELOW} FROM agents LEFT JOIN spans ON spans.session_id = agents.session_id"
        " AND spans.turn = agents.turn AND spans.place > agents.place AND spans.place <= agents.last"
        " GROUP BY agents.row ORDER BY agents.total_usd DESC, agents.turn, agents.place",
        [session_id],
    )


def hooks(store: Store, session_id: str) -> list[sqlite3.Row]:
    """Return a session's hooks by event and command, the longest-running first; `total`: of runs."""
    return store.read(
        "SELECT json_extract(span, '$.metadata.hook_event') event, json_extract(span, '$.metadata.command') command,"
        " COUNT(*) runs, SUM(json_extract(span, '$.metadata.blocked') = 1) blocked, SUM(status = 'error') errors,"
        " SUM(COALESCE(json_extract(span, '$.metadata.duration_ms'), (end_ns - start_ns) / 1e6)) took_ms,"
        " MIN(span_id) span_id, SUM(COUNT(*)) OVER () total FROM spans"
        " WHERE session_id = ? AND +kind = 'event' AND name = 'hook' GROUP BY 1, 2 ORDER BY took_ms DESC LIMIT 50",
        [session_id],
    )


class Decisions(NamedTuple):
    """The decisions about a session's tool calls."""

    told: list[sqlite3.Row]  # those that were refused or waited, the longest waits first; not all if they are many
    allowed: dict[str, int]  # how many others each source allowed
    total: int


def permissions(store: Store, session_id: str) -> Decisions:
    """Return the decisions about a session's tool calls."""
    decided = (
        "WITH decided AS (SELECT span_id, turn, name, label, start_ns,"
        " json_extract(span, '$.metadata.permission.decision') decision,"
        " COALESCE(json_extract(span, '$.metadata.permission.source'), '') source,"
        " wait_ms waited_ms,"
        " json_extract(span, '$.metadata.denial') denial FROM spans WHERE session_id = ? AND +kind = 'tool'"
        " AND (decision IS NOT NULL OR denial IS NOT NULL))"
    )
    plain = "decision = 'accept' AND denial IS NULL AND COALESCE(waited_ms, 0) = 0"
    told = store.read(
        f"{decided} SELECT *, COUNT(*) OVER () total FROM decided WHERE NOT COALESCE({plain}, 0)"
        " ORDER BY decision = 'accept' AND denial IS NULL, waited_ms DESC, start_ns LIMIT 100",
        [session_id],
    )
    allowed = store.read(
        f"{decided} SELECT source, COUNT(*) calls FROM decided WHERE {plain} GROUP BY 1 ORDER BY 2 DESC", [session_id]
    )
    by_source = {row["source"]: row["calls"] for row in allowed}
    return Decisions(told, by_source, sum(by_source.values()) + (told[0]["total"] if told else 0))


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


def misses(store: Store, chosen: Filter) -> list[Miss]:
    """Return the cache misses by cause, the most expensive first: recorded ones, and those that are not.

    A first request had nothing to read, so it missed nothing.
    """
    where = chosen.spans()
    found = store.read(
        "SELECT cache_miss cause, COUNT(*) requests, SUM(json_extract(span, '$.metadata.cache_miss.tokens')) tokens,"
        " SUM(json_extract(span, '$.metadata.cache_miss.cost_usd')) cost FROM spans JOIN sessions USING (session_id)"
        f" WHERE kind = 'generation' AND {where.text} AND cause <> 'first request' GROUP BY 1",
        where.values,
    )
    sums = {row["cause"]: [row["requests"], row["tokens"] or 0, row["cost"] or 0.0] for row in found}
    for each in rewrites.chosen(store, chosen):
        of_cause = sums.setdefault(each.cause, [0, 0, 0.0])
        of_cause[0] += 1
        of_cause[1] += each.tokens
        of_cause[2] += each.cost_usd or 0.0
    return sorted((Miss(cause, *sums[cause]) for cause in sums), key=lambda miss: (-miss.cost_usd, -miss.tokens))[
        :_MAX_CAUSES
    ]


class TimeSpent(NamedTuple):
    """How the time of some turns was spent, in milliseconds by kind."""

    by_kind: dict[str, int]
    turns_ms: float  # their lengths in sum
    untimed: int  # other turns, whose times are not known or cannot be right


def time_spent(store: Store, session_id: str) -> TimeSpent:
    """Return how the time of a session's turns was spent."""
    found = store.read(
        "SELECT untimed, json_extract(span, '$.metadata.time_ms') times, (end_ns - start_ns) / 1e6 took"
        " FROM spans JOIN turns USING (session_id, turn) WHERE session_id = ? AND place = 0",
        [session_id],
    )
    known = [(json.loads(row["times"]), row["took"]) for row in found if row["times"] and not row["untimed"]]
    by_kind = {kind: sum(times.get(kind) or 0 for times, _ in known) for kind in TIME_KINDS}
    return TimeSpent(by_kind, sum(took or 0.0 for _, took in known), len(found) - len(known))


class CacheReads(NamedTuple):
    """What a session's requests paid for reading the cache."""

    requests: int
    tokens: int  # of all
    cost_usd: float


_LONG_CONTEXT: Final = 200_000  # tokens, from which on some models cost more


def cache_reads(store: Store, session_id: str) -> CacheReads:
    """Return what a session's requests, also those of agents, read from the cache, and what that cost."""
    found = store.read(
        "SELECT model, COUNT(*) requests, SUM(cache_read_tokens) tokens, MIN(start_ns) start_ns FROM spans"
        " WHERE session_id = ? AND +kind = 'generation' AND cache_read_tokens > 0"
        f" GROUP BY model, context_tokens > {_LONG_CONTEXT}",
        [session_id],
    )
    requests = tokens = 0
    cost_usd = 0.0
    for row in found:
        average = Usage(cache_read=round(row["tokens"] / row["requests"]))
        cost_usd += row["requests"] * (price_of(row["model"] or "", average, row["start_ns"]) or 0.0)
        requests, tokens = requests + row["requests"], tokens + row["tokens"]
    return CacheReads(requests, tokens, cost_usd)


def spending(store: Store, session_id: str) -> list[tuple[int, float]]:
    """Return a session's cost over time, including its agents', in at most 500 steps."""
    found = store.read(
        "WITH paid AS (SELECT COALESCE(end_ns, start_ns) at, cost_usd FROM spans"
        " WHERE session_id = ? AND +kind = 'generation' AND cost_usd IS NOT NULL AND COALESCE(end_ns, start_ns) > 0),"
        " bounds AS (SELECT MIN(at) first, MAX(at) - MIN(at) + 1 length FROM paid)"
        " SELECT MAX(at) at, SUM(cost_usd) cost FROM paid, bounds GROUP BY (at - first) * 500 / length ORDER BY 1",
        [session_id],
    )
    return [(row["at"], row["cost"]) for row in found]
