"""Charts as SVG: plain rectangles and lines whose places are numbers, each mark a link with a title. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cc_trace.view import figures

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

WIDTH: Final = 1000.0
HEIGHT: Final = 200.0
_OTHER: Final = "context"


class Box(NamedTuple):
    """One rectangle; `name` is its class."""

    name: str
    x: float
    y: float
    width: float
    height: float


@dataclass(slots=True)
class Bar:
    """All boxes of one request, where it leads and what it says."""

    href: str
    title: str
    boxes: list[Box] = field(default_factory=list)
    missed: bool = False
    x: float = 0.0


@dataclass(slots=True)
class ContextChart:
    """The context of each request by origin, with the limit, compactions and cache misses."""

    bars: list[Bar] = field(default_factory=list)
    origins: list[tuple[str, str, int]] = field(default_factory=list)  # class, name, tokens of the latest request
    limit_y: float | None = None
    limit: int | None = None
    highest: int = 0
    compactions: list[tuple[float, str, str]] = field(default_factory=list)  # x, where it leads, what it says
    misses: list[tuple[str, str]] = field(default_factory=list)  # where it leads, what it says
    cost_line: str = ""
    cost_usd: float = 0.0


def context_chart(rows: Sequence[sqlite3.Row]) -> ContextChart:
    """Draw the requests of a session."""
    chart = ContextChart()
    requests = [row for row in rows if row["kind"] == "generation"]
    parts = [_by_origin(row) for row in requests]
    limits = [limit for row in requests if (limit := _object(row["context"]).get("limit")) and isinstance(limit, int)]
    chart.limit = limits[-1] if limits else None
    totals = [sum(part.values()) for part in parts]
    chart.highest = max([*totals, 1])
    top = max(chart.highest, chart.limit if chart.limit and chart.limit < chart.highest * 3 else 0) * 1.04
    if chart.limit is not None and chart.limit <= top:
        chart.limit_y = HEIGHT * (1 - chart.limit / top)
    names = sorted(
        {name for part in parts for name in part}, key=lambda name: -sum(part.get(name, 0) for part in parts)
    )
    classes = {name: f"o{min(number, 9)}" for number, name in enumerate(names)}
    step = WIDTH / max(len(requests), 1)
    place = {row["span_id"]: number for number, row in enumerate(requests)}
    spent, points = 0.0, []
    total_cost = sum(row["cost_usd"] or 0.0 for row in requests)
    for number, (row, part, total) in enumerate(zip(requests, parts, totals, strict=True)):
        bar = _bar(row, part, total, classes, (number * step, step, top))
        chart.bars.append(bar)
        if bar.missed:
            chart.misses.append((bar.href, f"Turn {row['turn']}: {miss_text(_object(row['cache_miss']))}"))
        spent += row["cost_usd"] or 0.0
        points.append(f"{(number + 1) * step:.1f},{60 * (1 - spent / total_cost) if total_cost else 60:.1f}")
    chart.cost_line, chart.cost_usd = " ".join(["0,60", *points]), spent
    before = 0
    for row in rows:
        if row["kind"] == "generation":
            before = place[row["span_id"]] + 1
        else:
            told = f" at {row['before_tokens']:,} tokens" if isinstance(row["before_tokens"], int) else ""
            chart.compactions.append(
                (before * step, f"/spans/{row['span_id']}", f"Compaction in turn {row['turn']}{told}")
            )
    latest = parts[-1] if parts else {}
    chart.origins = [(classes[name], name, latest.get(name, 0)) for name in names]
    return chart


def _bar(
    row: sqlite3.Row, part: dict[str, int], total: int, classes: dict[str, str], place: tuple[float, float, float]
) -> Bar:
    x, step, top = place
    gap = min(1.0, step * 0.15)
    lines = [f"Turn {row['turn']} · {row['model']} · {total:,} tokens · {figures.money(row['cost_usd'])}"]
    bar = Bar(f"/spans/{row['span_id']}", "", x=x + step / 2)
    y = HEIGHT
    for name, class_ in classes.items():
        if count := part.get(name, 0):
            height = HEIGHT * count / top
            y -= height
            bar.boxes.append(Box(class_, x + gap / 2, y, step - gap, height))
            lines.append(f"{name}: {count:,}")
    if miss := _object(row["cache_miss"]):
        bar.missed = True
        lines.append(miss_text(miss))
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


def miss_text(miss: dict[str, Any]) -> str:
    """Say what a cache miss was, as a person would."""
    causes = miss.get("causes")
    told = [
        str(cause.get("kind", "unknown")).replace("_", " ") + (f" ({cause['detail']})" if cause.get("detail") else "")
        for cause in (causes if isinstance(causes, list) else [])
        if isinstance(cause, dict)
    ]
    tokens, cost = miss.get("tokens"), miss.get("cost_usd")
    text = "cache miss" + (f" of {tokens:,} tokens" if isinstance(tokens, int) else "")
    text += f", {figures.money(cost)} more than reading them" if isinstance(cost, int | float) else ""
    return text + (f": {'; '.join(told)}" if told else "")


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
