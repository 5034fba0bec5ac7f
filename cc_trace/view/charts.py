"""Charts as SVG: plain rectangles and lines at computed positions; each mark is a link with a title. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
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
    "read from cache": "o0",
    "written to cache": "o1",
    "not cached": "o2",
}
_CAUSES: Final = {"unknown": "no cause found", "not recorded": "cause not recorded"}  # where the word says too little
_LITTLE_USD: Final = 0.01  # a miss that cost less is not told
_FEW_TOKENS: Final = 1_024  # nor is one of fewer marked
_FEW: Final = 24  # bars that fill a chart; with fewer of them, bars do not get wider


class Box(NamedTuple):
    """One rectangle; `name` is its class."""

    name: str
    x: float
    y: float
    width: float
    height: float


@dataclass(slots=True)
class Bar:
    """All boxes of one request, with its link and title."""

    href: str
    title: str
    boxes: list[Box] = field(default_factory=list)
    missed: bool = False
    x: float = 0.0  # its middle
    step: float = 0.0


@dataclass(slots=True)
class ContextChart:
    """The context of each request by origin, with the limit, compactions and cache misses."""

    bars: list[Bar] = field(default_factory=list)
    origins: list[tuple[str, str, int]] = field(default_factory=list)  # class, name, tokens of the latest request
    limit_y: float | None = None
    limit: int | None = None
    total: int = 0  # requests of the session, though not all may be drawn
    highest: int = 0
    top: float = 0.0  # tokens at the top of the chart
    estimated: bool = False  # how the tokens divide is an estimate
    compactions: list[tuple[float, str, str]] = field(default_factory=list)  # x, link, title
    misses: list[tuple[str, str]] = field(default_factory=list)  # link, title


def context_chart(rows: Sequence[sqlite3.Row], rewrites: Mapping[str, dict[str, Any]]) -> ContextChart:
    """Draw the requests of a session. `rewrites`: the cache misses that are not recorded, by span."""
    chart = ContextChart()
    requests = [row for row in rows if row["kind"] == "generation"]
    parts = [_by_origin(row) for row in requests]
    limits = [limit for row in requests if (limit := _object(row["context"]).get("limit")) and isinstance(limit, int)]
    chart.limit = limits[-1] if limits else None
    totals = [sum(part.values()) for part in parts]
    chart.total = rows[0]["total"] if rows else 0
    chart.highest = max([*totals, 1])
    top = max(chart.highest, chart.limit if chart.limit and chart.limit < chart.highest * 3 else 0) * 1.04
    if chart.limit is not None and chart.limit <= top:
        chart.limit_y = HEIGHT * (1 - chart.limit / top)
    found = {name for part in parts for name in part}
    classes = {
        name: _ORIGINS.get(name, "o8")
        for name in (*(name for name in _ORIGINS if name in found), *sorted(found - _ORIGINS.keys()))
    }
    step = WIDTH / max(len(requests), _FEW)
    place = {row["span_id"]: number for number, row in enumerate(requests)}
    chart.top = top
    chart.estimated = any(_object(row["context"]).get("estimated") for row in requests)
    for number, (row, part, total) in enumerate(zip(requests, parts, totals, strict=True)):
        bar = _bar(row, part, total, classes, (number * step, step, top))
        chart.bars.append(bar)
        if miss := _object(row["cache_miss"]) or rewrites.get(row["span_id"]):
            bar.missed = stands_out(miss) or _is_large(miss)
            bar.title += f"\n{miss_text(miss)}"
            if stands_out(miss):
                chart.misses.append((bar.href, f"Turn {row['turn']}: {miss_text(miss)}"))
    before = 0
    for row in rows:
        if row["kind"] == "generation":
            before = place[row["span_id"]] + 1
        else:
            chart.compactions.append((before * step, f"/spans/{row['span_id']}", _compaction_text(row)))
    latest = parts[-1] if parts else {}
    chart.origins = [(class_, name, latest.get(name, 0)) for name, class_ in classes.items()]
    return chart


def _compaction_text(row: sqlite3.Row) -> str:
    """Describe a compaction in plain English."""
    text = f"Turn {row['turn']}: compaction"
    if row["trigger"] in ("auto", "manual"):
        text += " because the context was full" if row["trigger"] == "auto" else " requested with /compact"
    before, after = row["before_tokens"], row["after_tokens"]
    if isinstance(before, int):
        text += f": {before:,} tokens" + (f", down to {after:,}" if isinstance(after, int) else "")
    return f"{text}. Everything before it was replaced by a summary."


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
    width = max(min(step * 0.85, WIDTH / _FEW), 0.5)
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
    width = min(step * 0.6, WIDTH / _FEW)
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


def _bar(
    row: sqlite3.Row, part: dict[str, int], total: int, classes: dict[str, str], place: tuple[float, float, float]
) -> Bar:
    x, step, top = place
    gap = min(1.0, step * 0.15)
    lines = [f"Turn {row['turn']} · {row['model']} · {total:,} tokens · {figures.money(row['cost_usd'])}"]
    bar = Bar(f"/spans/{row['span_id']}", "", x=x + step / 2, step=step)
    y = HEIGHT
    for name, class_ in classes.items():
        if count := part.get(name, 0):
            height = HEIGHT * count / top
            y -= height
            bar.boxes.append(Box(class_, x + gap / 2, y, step - gap, height))
            lines.append(f"{name}: {count:,}")
    bar.title = "\n".join(lines)
    return bar


def _by_origin(row: sqlite3.Row) -> dict[str, int]:
    found = _object(row["context"]).get("by_origin")
    if isinstance(found, dict):
        counts = {str(name): count for name, count in found.items() if isinstance(count, int) and count > 0}
        if counts:
            return counts
    return {
        name: count
        for name, count in (
            ("read from cache", row["cache_read"]),
            ("written to cache", row["cache_write"]),
            ("not cached", row["input"]),
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
