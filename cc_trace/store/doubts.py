"""Turns whose times cannot be right.

Some versions rewrote the times of the lines that they copied when a session was resumed: all its responses and results
then have the time of the copy, and only the prompts have their own. So turns that ended at one moment, and a turn
whose responses all ended at one moment, have no times that say anything.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cc_trace.store.store import Store

_FEW: Final = 3  # responses that would not end at one moment by chance
# The turns, each as a session's id and a number.
UNTIMED: Final = f"""
SELECT session_id, turn FROM (SELECT session_id, turn, start_ns, end_ns,
    COUNT(*) OVER (PARTITION BY session_id, end_ns) together FROM spans WHERE kind = 'turn')
    WHERE together > 1 AND end_ns > start_ns
UNION SELECT session_id, turn FROM spans WHERE kind = 'generation' AND agent = '' AND agent_id IS NULL
    AND end_ns IS NOT NULL GROUP BY session_id, turn HAVING COUNT(*) >= {_FEW} AND MIN(end_ns) = MAX(end_ns)
"""  # noqa: S608  (ours)


def untimed_turns(store: Store, session_id: str, only: int | None = None) -> set[int]:
    """Return the numbers of a session's turns whose times cannot be right, or `only` whether one is among them."""
    roots = store.read(
        "SELECT turn, start_ns, end_ns FROM spans WHERE session_id = ? AND place = 0 AND end_ns IS NOT NULL",
        [session_id],
    )
    ends = Counter(row["end_ns"] for row in roots)
    return {
        row["turn"]
        for row in roots
        if only in (None, row["turn"])
        and (
            (ends[row["end_ns"]] > 1 and row["end_ns"] > (row["start_ns"] or 0))
            or _ended_together(store, session_id, row["turn"])
        )
    }


def _ended_together(store: Store, session_id: str, turn: int) -> bool:
    """Tell whether all responses of a turn ended at one moment."""
    # The first few tell of almost all turns that they have times, however long these are.
    for limit in (_FEW, -1):
        ends = store.read(
            "SELECT end_ns FROM spans WHERE session_id = ? AND turn = ? AND kind = 'generation' AND agent = ''"
            " AND agent_id IS NULL AND end_ns IS NOT NULL ORDER BY place LIMIT ?",
            [session_id, turn, limit],
        )
        if len(ends) < _FEW or len({row["end_ns"] for row in ends}) > 1:
            return False
    return True
