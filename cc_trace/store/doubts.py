"""Turns whose times cannot be right.

Some versions rewrote the times of the lines that they copied when a session was resumed: all its responses and results
then have the time of the copy, and only the prompts have their own. So turns that ended at one moment, and a turn
whose responses all ended at one moment, have no times that say anything.
"""

from __future__ import annotations

from typing import Final

_FEW: Final = 3  # responses that would not end at one moment by chance


def _marking(which: str) -> str:
    return f"""
UPDATE turns SET untimed = (session_id, turn) IN (
    SELECT session_id, turn FROM (SELECT session_id, turn, start_ns, end_ns,
        COUNT(*) OVER (PARTITION BY session_id, end_ns) together FROM spans WHERE kind = 'turn' AND {which})
        WHERE together > 1 AND end_ns > start_ns
    UNION SELECT session_id, turn FROM spans WHERE kind = 'generation' AND agent = '' AND agent_id IS NULL
        AND end_ns IS NOT NULL AND {which} GROUP BY session_id, turn
        HAVING COUNT(*) >= {_FEW} AND MIN(end_ns) = MAX(end_ns))
    WHERE {which}
"""  # noqa: S608  (ours)


MARK_SESSION: Final = _marking("session_id = ?1")
MARK_ALL: Final = _marking("1")
# The turns that are marked, each as a session's id and a number.
UNTIMED: Final = "SELECT session_id, turn FROM turns WHERE untimed"
