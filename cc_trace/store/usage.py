"""Tokens, cost, requests and errors by day, project, model and so on. Computed from sums per session, so it is fast.

Rules:
- A response that several sessions have (a fork copies turns) counts once, in the session that had it first.
- Agents' work is included.
- By tool, a response counts for the tool that it called, divided evenly if it called several: the rows sum up to the
  total. Errors by tool are calls that failed, otherwise requests that failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from cc_trace.store.filters import AGENT, MODEL, PROJECT

if TYPE_CHECKING:
    import sqlite3

    from cc_trace.store.store import Store

By: TypeAlias = Literal["day", "project", "model", "agent", "tool", "session"]
QUARTER_SECONDS: Final = 900  # of an hour: days begin at one in every time zone
_NAMES: Final[dict[By, str]] = {
    "day": "date(quarter * 900, 'unixepoch', 'localtime')",
    "project": PROJECT,
    "model": MODEL,
    "agent": AGENT,
    "tool": "COALESCE(NULLIF(tool, ''), 'no tool')",
    "session": "usage.session_id",
}
_SUMS: Final = (
    "SUM(CASE usage.kind WHEN 'generation' THEN requests ELSE 0 END) requests,"
    " SUM(CASE usage.kind WHEN 'tool' THEN requests ELSE 0 END) calls,"
    " SUM(input_tokens) input, SUM(output_tokens) output, SUM(cache_read_tokens) cache_read,"
    " SUM(cache_write_tokens) cache_write, SUM(usage.cost_usd) cost,"
    " SUM(CASE WHEN usage.kind = ?1 THEN usage.errors ELSE 0 END) errors"
)


@dataclass(frozen=True, slots=True)
class Usage:
    """One row. `calls`: of tools. `title`: of a session."""

    name: str
    requests: float
    calls: int
    errors: int
    input_tokens: float
    output_tokens: float
    cache_read_tokens: float
    cache_write_tokens: float
    cost_usd: float
    title: str = ""

    @property
    def tokens(self) -> float:
        """Return all tokens."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens


def usage(store: Store, by: By, since: float = 0.0) -> tuple[list[Usage], Usage]:
    """Return a row per group, days in order and others by cost, and the total. `since`: unix seconds."""
    counted = "tool" if by == "tool" else "generation"
    where = "WHERE quarter >= ?2" + ("" if by == "tool" else " AND usage.kind = 'generation'")
    values = [counted, int(since // QUARTER_SECONDS)]
    table = f"FROM usage LEFT JOIN sessions USING (session_id) {where}"
    order = "name" if by == "day" else "cost DESC, requests DESC, calls DESC, name"
    rows = store.read(
        f"SELECT {_NAMES[by]} name, MAX(sessions.title) title, {_SUMS} {table} GROUP BY 1 ORDER BY {order}", values
    )
    total = store.read(f"SELECT 'total' name, '' title, {_SUMS} {table}", values)[0]
    return [_row(row, titled=by == "session") for row in rows], _row(total, titled=False)


def _row(row: sqlite3.Row, *, titled: bool) -> Usage:
    return Usage(
        name=row["name"],
        requests=row["requests"] or 0,
        calls=int(row["calls"] or 0),
        errors=row["errors"] or 0,
        input_tokens=row["input"] or 0,
        output_tokens=row["output"] or 0,
        cache_read_tokens=row["cache_read"] or 0,
        cache_write_tokens=row["cache_write"] or 0,
        cost_usd=row["cost"] or 0.0,
        title=(row["title"] or "") if titled else "",
    )
