"""What took longest in a turn or a session: calls of tools and all that was waited for, alike ones together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from cc_trace.store.filters import MAX_AMONG
from cc_trace.store.layout import PLAN, QUESTION

if TYPE_CHECKING:
    import sqlite3

    from cc_trace.store.store import Store

LONG_NS: Final = 1_000_000_000  # what is shorter counts only where nothing is longer
_MAX_CALLS: Final = 1_000  # the longest: of more, alike ones are not all counted
_PROGRAM: Final = re.compile(r"([\w./@+-]{1,60})(?: ([a-z][\w-]{0,30})(?=\s|$))?")
_SMALL: Final = ("cd", "echo", "true", "export")
_UNTIMED: Final = "SELECT turn FROM turns WHERE session_id = ?1 AND untimed"
_WHERE: Final = "session_id = ?1 AND (?2 IS NULL OR turn = ?2) AND place IS NOT NULL"
# Each is a part of a span's time: why, and how long. A tool's own time begins after its permission. The times of
# responses are guesses in turns whose `time_ms` is not known, and no times count in those where they cannot be right.
_PARTS: Final = (
    (
        "SELECT CASE WHEN kind = 'generation' AND first_token_ns < end_ns THEN 'model' WHEN kind = 'generation'"
        f" THEN 'response' WHEN tool IN ('{QUESTION}', '{PLAN}')"
        " THEN 'answer' ELSE 'call' END why, name, label, span_id, turn, place, CASE kind WHEN 'generation'"
        " THEN first_token_ns - start_ns"
        " ELSE end_ns - start_ns - CAST(COALESCE(wait_ms, 0) * 1000000 AS INTEGER) END took"
        f" FROM spans WHERE {_WHERE} AND took > 0 AND turn NOT IN ({_UNTIMED})"
        " AND (+kind = 'tool' AND status <> 'incomplete' OR +kind = 'generation' AND turn IN (SELECT turn FROM spans"
        " WHERE session_id = ?1 AND place = 0 AND (?2 IS NULL OR turn = ?2)"
        f" AND json_extract(span, '$.metadata.time_ms') IS NOT NULL)) ORDER BY took DESC LIMIT {_MAX_CALLS}"
    ),
    (
        "SELECT json_extract(value, '$[0]') why, name, label, span_id, turn, place,"
        " json_extract(value, '$[2]') - json_extract(value, '$[1]') took FROM spans, json_each(waits)"
        f" WHERE {_WHERE} AND wait_ms IS NOT NULL AND took > 0"
        f" AND (why <> 'answer' OR turn NOT IN ({_UNTIMED})) ORDER BY took DESC"
        f" LIMIT {_MAX_CALLS}"
    ),
)


class Slow(NamedTuple):
    """Some calls, or waits, of one kind.

    `why`: call, model (until the first token), response (all of it: when its first token came is not known), or what it
    waited for.
    """

    why: str
    name: str
    what: str
    calls: int
    took_ns: int  # of all
    longest_ns: int
    span_id: str  # the longest
    turn: int
    place: int
    all_of_them: list[str]  # the ids of all, the longest first; of very many not all


def slowest(store: Store, session_id: str, number: int | None) -> list[Slow]:
    """Return what took longest in a session, or in one turn of it: those that took most together first."""
    groups: dict[tuple[str, ...], list[sqlite3.Row]] = {}
    for part in _PARTS:
        for row in store.read(part, [session_id, number]):
            alone = row["span_id"] if row["why"] in ("model", "response") else ""
            groups.setdefault((row["why"], row["name"], program(row), alone), []).append(row)
    made = [_together(why, what, rows) for (why, _, what, _), rows in groups.items()]
    made.sort(key=lambda each: (-each.took_ns, each.turn, each.place))
    return [each for each in made if each.took_ns >= LONG_NS] or made


def _together(why: str, what: str, rows: list[sqlite3.Row]) -> Slow:
    rows = sorted(rows, key=lambda row: -row["took"])
    longest = rows[0]
    return Slow(
        why=why,
        name=longest["name"],
        what=what if len(rows) > 1 else longest["label"],
        calls=len(rows),
        took_ns=sum(row["took"] for row in rows),
        longest_ns=longest["took"],
        span_id=longest["span_id"],
        turn=longest["turn"],
        place=longest["place"],
        all_of_them=[row["span_id"] for row in rows[:MAX_AMONG]],
    )


def program(row: sqlite3.Row) -> str:
    """Return what makes calls alike: of a command its last program and what that is to do, such as `git commit`."""
    label = str(row["label"] or "")
    if row["name"] != "Bash":
        return label
    unquoted = re.split("[\"'$<]", label, maxsplit=1)[0]
    found = [_PROGRAM.match(part.strip()) for part in re.split("&&|;", unquoted)]
    programs = [" ".join(part for part in each.groups() if part) for each in found if each and each[1] not in _SMALL]
    return programs[-1] if programs else label
