"""Cache misses that are seen from token counts, where Claude Code did not record the requests (before 2.1.3xx).

Rules:
- A request missed what the previous request of its thread had read from or written to the cache and what it did not
  read itself but processed again, as `requests/cache` counts it. The ends of what is cached move, so little is no miss.
- The cause is named if the session itself shows it, else it is "not recorded".
- A pause says something only if the times do (`doubts`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from cc_trace.requests import miss_cost_usd
from cc_trace.store.doubts import UNTIMED
from cc_trace.transcript import Usage

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from cc_trace.store.filters import Filter
    from cc_trace.store.store import Store

NOT_RECORDED: Final = "not recorded"
_FEW_TOKENS: Final = 1_024  # the API caches no fewer
_FEW_PERCENT: Final = 10  # of what was cached
_HELD: Final = "cache_read_tokens + cache_write_tokens"
# The main thread, or one agent; old versions have no ids of agents.
_THREAD: Final = "COALESCE({0}agent_id, CASE {0}agent WHEN '' THEN '' ELSE {0}parent_id END)"
_AGAIN: Final = "MIN(held - cache_read_tokens, input_tokens + cache_write_tokens)"
# For each: `row`, `missed`, `why`, and `pause_ns` since the request before if that is the cause.
REWRITES: Final = f"""
SELECT own.row, missed, CASE
    WHEN own.model <> before.model THEN 'model changed'
    WHEN EXISTS (SELECT 1 FROM spans event WHERE event.session_id = own.session_id
        AND event.turn BETWEEN before.turn AND own.turn AND event.kind = 'event' AND event.name = 'compaction'
        AND event.agent_id IS own.agent_id AND event.agent = own.agent
        AND (event.turn, event.place) > (before.turn, before.place)
        AND (event.turn, event.place) < (own.turn, own.place)) THEN 'compaction'
    WHEN own.start_ns - before.start_ns
        > CASE WHEN json_extract(before.span, '$.response.usage.cache_write_5m') > 0
            AND json_extract(before.span, '$.response.usage.cache_write_1h') = 0 THEN 300000000000
            ELSE 3600000000000 END
        AND (own.session_id, own.turn) NOT IN ({UNTIMED})
        AND (before.session_id, before.turn) NOT IN ({UNTIMED}) THEN 'expired'
    ELSE '{NOT_RECORDED}' END why, own.start_ns - before.start_ns pause_ns
FROM (SELECT row, row_before, {_AGAIN} missed FROM (
        SELECT row, cache_miss, input_tokens, cache_read_tokens, cache_write_tokens,
            LAG({_HELD}) OVER thread held, LAG(row) OVER thread row_before
        FROM spans WHERE kind = 'generation' AND context_tokens > 0
        WINDOW thread AS (PARTITION BY session_id, {_THREAD.format("")} ORDER BY turn, place))
    WHERE cache_miss IS NULL AND missed >= {_FEW_TOKENS} AND missed * 100 >= held * {_FEW_PERCENT}) found
JOIN spans own ON own.row = found.row JOIN spans before ON before.row = row_before
WHERE json_extract(own.span, '$.metadata.context') IS NULL
"""  # noqa: S608  (ours)
_OF_A_SESSION: Final = REWRITES.replace("WHERE kind", "WHERE session_id = ?1 AND +kind")
_OF_A_REQUEST: Final = REWRITES.replace("WHERE kind", "WHERE row IN (?1, ?2) AND +kind")
_REQUEST_BEFORE: Final = f"""
SELECT before.row FROM spans own JOIN spans before ON before.session_id = own.session_id
    AND (before.turn, before.place) < (own.turn, own.place)
    AND +before.kind = 'generation' AND before.context_tokens > 0
WHERE own.row = ? AND {_THREAD.format("before.")} = {_THREAD.format("own.")}
ORDER BY before.turn DESC, before.place DESC LIMIT 1
"""  # noqa: S608  (ours)


class Rewrite(NamedTuple):
    """A request that processed again what had been cached. `cost_usd`: more than reading it would have cost."""

    span_id: str
    tokens: int
    cost_usd: float | None
    cause: str
    pause_ns: int | None  # since the request before; None: it is not the cause

    @property
    def miss(self) -> dict[str, object]:
        """Return what `metadata.cache_miss` of a recorded request says."""
        detail = f"{self.pause_ns // 1_000_000_000:,} s after the request before" if self.pause_ns is not None else ""
        causes = [{"kind": self.cause, "detail": detail}]
        return {"causes": causes, "tokens": self.tokens, "cost_usd": self.cost_usd}


def of_session(store: Store, session_id: str) -> dict[str, Rewrite]:
    """Return the rewrites of a session by the id of the request's span."""
    found = _read(store, f"FROM ({_OF_A_SESSION}) JOIN spans USING (row)", [session_id])
    return {each.span_id: each for each in found}


def of_request(store: Store, row: int) -> Rewrite | None:
    """Return the rewrite that one request is, if it is one. `row`: of its span."""
    before = store.read(_REQUEST_BEFORE, [row])
    if not before:
        return None
    found = _read(store, f"FROM ({_OF_A_REQUEST}) JOIN spans USING (row)", [row, before[0][0]])
    return found[0] if found else None


def chosen(store: Store, chosen: Filter) -> list[Rewrite]:
    """Return the rewrites among the selected spans."""
    where = chosen.spans()
    table = f"FROM ({REWRITES}) JOIN spans USING (row) JOIN sessions USING (session_id) WHERE {where.text}"
    return _read(store, table, where.values)


def _read(store: Store, table: str, values: Sequence[object]) -> list[Rewrite]:
    found = store.read(
        f"SELECT span_id, model, start_ns, missed, why, pause_ns, json_extract(span, '$.response.usage') usage {table}",
        values,
    )
    return [_rewrite(row) for row in found]


def _rewrite(row: sqlite3.Row) -> Rewrite:
    pause_ns = row["pause_ns"] if row["why"] == "expired" else None
    cost = miss_cost_usd(row["model"], Usage(**json.loads(row["usage"])), row["missed"], row["start_ns"])
    return Rewrite(row["span_id"], row["missed"], cost, row["why"], pause_ns)
