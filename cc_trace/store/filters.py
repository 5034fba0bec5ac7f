"""What the parameters of a page's URL select, as conditions of a query. Pure.

Rule: whoever divides spans by project, model and so on uses these expressions, so that a chart's mark and the filter
that its link sets are about the same spans.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, NamedTuple

from cc_trace.store.doubts import UNTIMED
from cc_trace.store.rewrites import REWRITES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

UNKNOWN: Final = "unknown"
TIME_KINDS: Final = ("model", "tools", "permission", "hooks", "retries", "idle", "unknown")
# The day on which a span began, and so on; of `spans`, and for the project of `sessions`.
_DATE: Final = "date(start_ns / 1000000000, 'unixepoch', 'localtime')"
DAY: Final = f"COALESCE({_DATE}, '{UNKNOWN}')"
PROJECT: Final = f"COALESCE(NULLIF(project, ''), '{UNKNOWN}')"
MODEL: Final = f"COALESCE(NULLIF(model, ''), '{UNKNOWN}')"
AGENT: Final = "COALESCE(NULLIF(agent, ''), 'main thread')"
TOOL: Final = "COALESCE(tool, name)"
# How long a span took itself, in nanoseconds: a call without what it waited for, a retry with it. NULL: not known.
TOOK: Final = f"""
CASE WHEN (session_id, turn) IN ({UNTIMED}) OR (kind = 'tool' AND status = 'incomplete') THEN NULL
    WHEN name = 'api_retry' THEN MAX(end_ns - start_ns, CAST(COALESCE(wait_ms, 0) * 1e6 AS INTEGER))
    WHEN kind <> 'tool' OR wait_ms IS NULL THEN end_ns - start_ns
    WHEN (end_ns - start_ns) / 1e6 > wait_ms THEN end_ns - start_ns - CAST(wait_ms * 1e6 AS INTEGER) END
"""
CALLS: Final = """COALESCE(NULLIF(calls, '[]'), '["no tool"]')"""  # what a response called, as JSON

# Which parameters a list knows.
PERIOD: Final = ("project", "since", "until")
OF_SESSIONS: Final = (*PERIOD, "day", "model", "agent", "tool", "title", "state", "errors", "sort")
OF_SPANS: Final = (
    *PERIOD,
    *("day", "model", "agent", "tool", "kind", "status", "called", "time", "miss", "session", "turn", "file", "among"),
    "waited",
    "sort",
)

# The requests that missed the cache, and why: as Claude Code recorded it, or as it is seen from token counts.
_MISSES: Final = f"""
SELECT row, cache_miss why FROM spans WHERE kind = 'generation' AND cache_miss IS NOT NULL
UNION ALL SELECT row, why FROM ({REWRITES})
"""  # noqa: S608  (ours)
_MAX_CHARS: Final = 500
MAX_AMONG: Final = 100
_AMONG: Final = re.compile(rf"[0-9a-f]{{16}}(?:,[0-9a-f]{{16}}){{0,{MAX_AMONG - 1}}}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class Where(NamedTuple):
    """A condition and its values."""

    text: str
    values: list[object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The parameters that are set; empty: everything.

    `called`: responses that called a tool; `time`: turns that spent such time; `miss`: responses by the first cause for
    which the cache was missed, recorded or seen from token counts; `errors`: sessions that have some; `file`: calls
    that changed it; `among`: the spans with these ids, separated by commas; `waited`: those that waited, for how long
    they did; `status`: of those with `error` also
    `refused` and `failed` alone.
    """

    project: str = ""
    since: str = ""
    until: str = ""
    day: str = ""
    model: str = ""
    agent: str = ""
    tool: str = ""
    kind: str = ""
    status: str = ""
    called: str = ""
    time: str = ""
    miss: str = ""
    title: str = ""
    state: str = ""
    errors: str = ""
    session: str = ""
    turn: str = ""
    file: str = ""
    among: str = ""
    waited: str = ""
    sort: str = "recent"

    @classmethod
    def of(cls, query: Mapping[str, str], known: Collection[str]) -> Filter:
        """Return the known parameters of a query."""
        found = {name: query[name][:_MAX_CHARS] for name in known if name in query}
        if _AMONG.fullmatch(among := query.get("among", "")) and "among" in known:
            found["among"] = among
        else:
            found.pop("among", None)
        if found.get("time") not in TIME_KINDS:
            found.pop("time", None)
        if not _NUMBER.fullmatch(found.get("turn", "")):
            found.pop("turn", None)
        return cls(**found)

    def asked(self) -> dict[str, str]:
        """Return the parameters that are set, as in the URL."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value and (name, value) != ("sort", "recent")}

    @property
    def spans_kind(self) -> str:
        """Return the kind of the spans, which other parameters may imply."""
        if self.time:
            return "turn"
        if self.tool or self.file or self.status == "refused":
            return "tool"
        if self.called or self.miss:
            return "generation"
        return self.kind or ("generation" if self.model else "")

    def spans(self) -> Where:
        """Return the condition on `spans JOIN sessions`. Of several sessions, what a fork copied counts once."""
        own = ("spans.session_id = ?", self.session) if self.session else ("copied = 0", None)
        conditions: list[_Condition] = [own, ("turn = CAST(? AS INTEGER)", self.turn), (f"{PROJECT} = ?", self.project)]
        if self.status == "error" and not self.spans_kind:
            conditions.append(("kind <> 'turn'", None))  # it failed because of one of the others
        if self.file:
            conditions.append(("status = 'ok'", None))
        conditions.append(("json_extract(span, '$.tool.file_path') = ?", self.file))
        conditions.append(("instr(?, span_id) > 0", self.among))
        return _joined([*conditions, *self._of_spans()])

    def sessions(self) -> Where:
        """Return the condition on `sessions`: those that have such spans, copies included."""
        conditions: list[_Condition] = [(f"{PROJECT} = ?", self.project), ("state = ?", self.state)]
        if self.errors:
            conditions.append(("errors > 0", None))
        conditions += [("instr(lower(title), lower(?))", word) for word in self.title.split()]
        of_spans = _joined([("spans.session_id = sessions.session_id", None), *self._of_spans()])
        where = _joined(conditions)
        if not of_spans.values:
            return where
        text = f"{where.text} AND EXISTS (SELECT 1 FROM spans WHERE {of_spans.text})"  # noqa: S608  (ours)
        return Where(text, where.values + of_spans.values)

    def _of_spans(self) -> list[_Condition]:
        return [
            ("kind = ?", self.spans_kind),
            (f"{DAY} = ?", self.day),
            (f"{_DATE} >= ?", self.since),
            (f"{_DATE} <= ?", self.until),
            (f"{MODEL} = ?", self.model),
            (f"{AGENT} = ?", self.agent),
            (f"{TOOL} = ?", self.tool),
            {
                "failed": ("status = 'error' AND refused IS NULL", None),
                "refused": ("refused IS NOT NULL", None),
            }.get(self.status, ("status = ?", self.status)),
            ("wait_ms > 0", None if self.waited else ""),
            (f"EXISTS (SELECT 1 FROM json_each({CALLS}) WHERE value = ?)", self.called),  # noqa: S608  (likewise)
            ("json_extract(span, '$.metadata.time_ms.' || ?) > 0", self.time),
            (f"(session_id, turn) NOT IN ({UNTIMED})", None if self.time else ""),
            (f"spans.row IN (SELECT row FROM ({_MISSES}) WHERE why = ?)", self.miss),  # noqa: S608  (likewise)
        ]


_Condition = tuple[str, str | None]  # with its value; empty: not asked for; None: it needs none


def _joined(conditions: list[_Condition]) -> Where:
    asked = [(text, value) for text, value in conditions if value != ""]
    return Where(" AND ".join(text for text, _ in asked) or "1", [value for _, value in asked if value is not None])
