"""Charts as SVG: plain rectangles and lines at computed positions; each mark is a link with a title. Pure."""

from __future__ import annotations

import json
from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cc_trace.view import figures

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from cc_trace.store import insights

WIDTH: Final = 1000.0
HEIGHT: Final = 200.0
# Where a context comes from, as it is stacked from the bottom, each with its class: one colour in all sessions.
_ORIGINS: Final = {
    "system prompt": "o8",
    "tools": "o5",
    "memory files": "o6",
    "skills": "o7",
    "reminders": "o9",
    "prompts": "o4",
    "tool results": "o0",
    "tool calls": "o2",
    "answers": "o1",
    "thinking": "o3",
    "cache read": "o0",
    "cache write": "o1",
    "uncached input": "o2",
}
_CAUSES: Final = {
    "unknown": "no cause found",
    "not recorded": "unknown (older Claude Code)",
}  # where the word says too little
_LITTLE_USD: Final = 0.01  # a miss that cost less is not told
_FEW_TOKENS: Final = 1_024  # nor is one of fewer marked
_FAR: Final = 3  # times as much as was needed: a limit so far above is not drawn
_WIDEST: Final = WIDTH / 12  # of a bar: a few of them stand apart


class Box(NamedTuple):
    """One rectangle; `name` is its class."""

    name: str
    x: float
    y: float
    width: float
    height: float


class Bar(NamedTuple):
    """One request, in a column of the chart that begins at `x` and is `step` wide. `counts`: tokens by origin."""

    href: str
    summary: str
    counts: list[int]
    boxes: list[Box]
    x: float
    step: float
    miss: str  # its cache miss in words, if it has one
    missed: bool  # and it is marked
    title: str


class ContextChart(NamedTuple):
    """The context of each request by origin, with the limit, compactions and cache misses."""

    bars: list[Bar]
    origins: list[tuple[str, str]]  # class and name, in the order of each bar's counts
    limit: int | None
    limit_y: float | None
    total: int  # requests of the session, though not all may be drawn
    highest: int
    top: float  # tokens at the top of the chart
    estimated: bool  # how the tokens divide is an estimate
    compactions: list[tuple[float, str, str]]  # x, link, title
    misses: list[tuple[str, str]]  # link, title
    small_misses: list[float]  # the costs of those that are only marked


def context_chart(rows: Sequence[sqlite3.Row], rewrites: Mapping[str, dict[str, Any]]) -> ContextChart:
    """Draw the requests of a session. `rewrites`: the cache misses that are not recorded, by span."""
    requests = [row for row in rows if row["kind"] == "generation"]
    contexts = [_object(row["context"]) for row in requests]
    parts = [_by_origin(row, context) for row, context in zip(requests, contexts, strict=True)]
    found = {name for part in parts for name in part}
    origins = {name: _ORIGINS[name] for name in _ORIGINS if name in found}
    origins |= dict.fromkeys(sorted(found - _ORIGINS.keys()), "o8")
    limit = next(
        (each["limit"] for each in contexts[::-1] if each.get("limit") and isinstance(each["limit"], int)), None
    )
    sent = [sum(part.values()) for part in parts]
    highest = max(sent, default=1) or 1
    top = max(highest, limit if limit and limit < highest * _FAR else 0) * 1.04
    step = WIDTH / max(len(requests), 1)
    bars, misses, compactions = list[Bar](), list[tuple[str, str]](), list[tuple[float, str, str]]()
    small_misses = list[float]()
    for row in rows:
        if row["kind"] != "generation":
            compactions.append(
                (
                    len(bars) * step,
                    f"/spans/{row['span_id']}",
                    _compaction_text(row, sent[max(0, len(bars) - 1) : len(bars) + 1]),
                )
            )
            continue
        miss = _object(row["cache_miss"]) or rewrites.get(row["span_id"]) or None
        bar = _bar(row, parts[len(bars)], origins, miss, _Column(len(bars) * step, step, top))
        bars.append(bar)
        if miss and stands_out(miss):
            misses.append((bar.href, f"Turn {row['turn']}: {bar.miss}"))
        elif miss and bar.missed:
            small_misses.append(miss.get("cost_usd") or 0.0)
    return ContextChart(
        bars=bars,
        origins=[(class_, name) for name, class_ in origins.items()],
        limit=limit,
        limit_y=HEIGHT * (1 - limit / top) if limit is not None and limit <= top else None,
        total=rows[0]["total"] if rows else 0,
        highest=highest,
        top=top,
        estimated=any(each.get("estimated") for each in contexts),
        compactions=compactions,
        misses=misses,
        small_misses=small_misses,
    )


class _Column(NamedTuple):
    x: float
    step: float
    top: float  # tokens


def _bar(
    row: sqlite3.Row, part: dict[str, int], origins: dict[str, str], miss: dict[str, Any] | None, column: _Column
) -> Bar:
    gap = min(1.0, column.step * 0.15)
    width = min(column.step - gap, _WIDEST)
    boxes, y = list[Box](), HEIGHT
    for name, class_ in origins.items():
        if count := part.get(name, 0):
            height = HEIGHT * count / column.top
            y -= height
            boxes.append(Box(class_, column.x + (column.step - width) / 2, y, width, height))
    tokens, cost = f"{sum(part.values()):,}", figures.money(row["cost_usd"])
    summary = f"Turn {row['turn']} · {row['model']} · {tokens} tokens · {cost}"
    told = miss_text(miss) if miss else ""
    lines = [summary, *(f"{name}: {part[name]:,}" for name in origins if part.get(name)), told]
    return Bar(
        href=f"/spans/{row['span_id']}",
        summary=summary,
        counts=[part.get(name, 0) for name in origins],
        boxes=boxes,
        x=column.x,
        step=column.step,
        miss=told,
        missed=miss is not None and (stands_out(miss) or _is_large(miss)),
        title="\n".join(line for line in lines if line),
    )


def _compaction_text(row: sqlite3.Row, sent: Sequence[int]) -> str:
    """Describe a compaction in plain English. `sent`: the tokens of the requests before and after it."""
    text = f"Turn {row['turn']}: compaction"
    if row["trigger"] in ("auto", "manual"):
        text += " because the context was full" if row["trigger"] == "auto" else " requested with /compact"
    if isinstance(row["duration_ms"], int | float):
        text += f" took {figures.duration(row['duration_ms'])}"
    if len(sent) > 1:
        text += f": {sent[0]:,} tokens in the request before, {sent[1]:,} in the next"
    what = "Old tool results were removed." if row["micro"] else "Everything before it was replaced by a summary."
    return f"{text}. {what}"


class CostBar(NamedTuple):
    """What one turn cost."""

    turn: int
    x: float
    width: float
    height: float
    cost: float | None


def cost_bars(rows: Sequence[sqlite3.Row]) -> list[CostBar]:
    """Draw the cost of each turn."""
    highest = max((row["total_usd"] or 0.0 for row in rows), default=0.0) or 1.0
    step = WIDTH / max(len(rows), 1)
    width = max(min(step * 0.85, _WIDEST), 0.5)
    return [
        CostBar(
            row["turn"],
            (number + 0.5) * step - width / 2,
            width,
            60 * (row["total_usd"] or 0.0) / highest,
            row["total_usd"],
        )
        for number, row in enumerate(rows)
    ]


class CostLine(NamedTuple):
    """Cumulative cost over time, as the points of a line."""

    points: str
    cost_usd: float
    first_ns: int | None
    last_ns: int | None


def cost_line(rows: Sequence[tuple[int, float]]) -> CostLine:
    """Draw the cumulative cost over time. Each row is a time and the amount spent then."""
    if not rows:
        return CostLine("0,60 1000,60", 0.0, None, None)
    first, last = rows[0][0], rows[-1][0]
    whole, spent, points = sum(cost for _, cost in rows) or 1.0, 0.0, ["0,60"]
    for moment, cost in rows:
        x = WIDTH * (moment - first) / (last - first) if last > first else WIDTH
        points.append(f"{x:.1f},{60 * (1 - spent / whole):.1f}")  # money is spent at a moment, not between two
        spent += cost
        points.append(f"{x:.1f},{60 * (1 - spent / whole):.1f}")
    return CostLine(" ".join([*points, f"1000,{60 * (1 - spent / whole):.1f}"]), spent, first, last)


_LABEL_PERCENT: Final = 8.0  # of the chart, for the name of a day
_NARROW_PERCENT: Final = 24.0


class DayBar(NamedTuple):
    """One day."""

    name: str
    query: dict[str, str]
    x: float
    bar_x: float  # its tokens follow
    step: float
    width: float
    height: float
    tokens_height: float
    cost_usd: float
    tokens: int
    requests: int


class DayChart(NamedTuple):
    """The cost and tokens of each day that has some.

    `labels`: where a day's bar is, its name, and its class; `gaps`: where days are left out, and how many.
    """

    bars: list[DayBar]
    highest: float
    labels: list[tuple[float, str, str]]
    gaps: list[tuple[float, int]]


def day_chart(days: Sequence[insights.Share]) -> DayChart:
    """Draw the cost of each day."""
    highest = max((day.cost_usd for day in days), default=0.0)
    most = max((day.tokens for day in days), default=0)
    missing = [_days_between(one.name, other.name) for one, other in pairwise(days)]
    slots, place = [0.0] if days else [], 0.0  # a gap is as wide as the days that it leaves out, at most two
    for left_out in missing:
        place += 1 + min(left_out, 2)
        slots.append(place)
    step = WIDTH / (place + 1)
    width = min(step * 0.6, _WIDEST / 2)
    bars = [
        DayBar(
            name=day.name,
            query=day.query,
            x=slot * step,
            bar_x=(slot + 0.5) * step - width * 2 / 3,
            step=step,
            width=width,
            height=130 * day.cost_usd / highest if highest else 0.0,
            tokens_height=130 * day.tokens / most if most else 0.0,
            cost_usd=day.cost_usd,
            tokens=day.tokens,
            requests=day.requests,
        )
        for slot, day in zip(slots, days, strict=True)
    ]
    gaps = [
        ((slot + 1 + min(left_out, 2) / 2) * step, left_out)
        for slot, left_out in zip(slots, missing, strict=False)
        if left_out > 0
    ]
    return DayChart(bars, highest, _labels(bars), gaps)


def _days_between(one: str, other: str) -> int:
    """Return how many days lie between two days."""
    try:
        return max(0, (date.fromisoformat(other) - date.fromisoformat(one)).days - 1)
    except ValueError:  # one of them is not known
        return 1


def _labels(bars: list[DayBar]) -> list[tuple[float, str, str]]:
    """Name as many bars as there is room for, the last and the first among them; `minor`: not in a narrow window."""
    places = [100 * (bar.x + bar.step / 2) / WIDTH for bar in bars]

    shown = _apart(places, range(len(bars)), _LABEL_PERCENT)
    major = _apart(places, shown, _NARROW_PERCENT)
    return [(places[number], bars[number].name, "" if number in major else "minor") for number in shown]


def _apart(places: list[float], numbers: Sequence[int], distance: float) -> list[int]:
    """Choose numbers whose places are that far apart: the first and the last if there is room, and others between."""
    chosen = list(numbers[-1:])
    for number in numbers[-2::-1]:
        is_near_first = number != numbers[0] and places[number] - places[numbers[0]] < distance
        if places[chosen[-1]] - places[number] >= distance and not is_near_first:
            chosen.append(number)
    return chosen[::-1]


def _by_origin(row: sqlite3.Row, context: dict[str, Any]) -> dict[str, int]:
    found = context.get("by_origin")
    if isinstance(found, dict):
        counts = {str(name): count for name, count in found.items() if isinstance(count, int) and count > 0}
        if counts:
            return counts
    return {
        name: count
        for name, count in (
            ("cache read", row["cache_read"]),
            ("cache write", row["cache_write"]),
            ("uncached input", row["input"]),
        )
        if count
    }


def stands_out(miss: dict[str, Any]) -> bool:
    """Return whether a miss is worth a note: it cost something, and something could have been cached already."""
    cost = miss.get("cost_usd")
    return not _is_first(miss) and not (isinstance(cost, int | float) and cost < _LITTLE_USD)


def _is_large(miss: dict[str, Any]) -> bool:
    tokens = miss.get("tokens")
    return not _is_first(miss) and isinstance(tokens, int) and tokens >= _FEW_TOKENS


def _is_first(miss: dict[str, Any]) -> bool:
    """Return whether nothing could have been cached yet: such misses are expected and not shown."""
    causes = miss.get("causes")
    return isinstance(causes, list) and any(
        isinstance(each, dict) and each.get("kind") == "first request" for each in causes
    )


def cause_name(cause: str) -> str:
    """Return the cause of a miss as a page says it."""
    return _CAUSES.get(cause, cause.replace("_", " "))


def miss_text(miss: dict[str, Any]) -> str:
    """Describe a cache miss in plain English."""
    causes = miss.get("causes")
    told = [
        cause_name(str(cause.get("kind", "unknown"))) + (f" ({cause['detail']})" if cause.get("detail") else "")
        for cause in (causes if isinstance(causes, list) else [])
        if isinstance(cause, dict)
    ]
    tokens, cost = miss.get("tokens"), miss.get("cost_usd")
    text = "cache miss" + (f" of {tokens:,} tokens" if isinstance(tokens, int) else "")
    text += f", {figures.money(cost)} more than reading them from the cache" if isinstance(cost, int | float) else ""
    return text + (f": {'; '.join(told)}" if told else "")


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
