"""`cc-trace usage`: tokens, cost, requests and errors, by day, project, model, agent, tool or session."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Final

import orjson

from cc_trace.cli.stored import up_to_date
from cc_trace.delivery import since_seconds
from cc_trace.store import usage
from cc_trace.text import dollars, shortened

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence


_COLUMNS: Final = ("requests", "errors", "input", "output", "cache read", "cache write", "cost")
_NAME_CHARS: Final = 40
_BAR_CHARS: Final = 24
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Print a row for each."""
    since = since_seconds(options.since, time.time())
    with up_to_date(environment) as store:
        rows, total = usage.usage(store, options.by, since)
    if options.json:
        report = {"by": options.by, "rows": [_json(row) for row in rows], "total": _json(total)}
        sys.stdout.buffer.write(orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        return 0
    if not rows:
        print("no usage found" if options.since else "no sessions yet")
        return 0
    _print(options.by, [*rows, total])
    return 0


def _json(row: usage.Usage) -> dict[str, object]:
    fields: dict[str, object] = {
        "name": row.name,
        "requests": round(row.requests, 3),
        "errors": row.errors,
        "input_tokens": round(row.input_tokens),
        "output_tokens": round(row.output_tokens),
        "cache_read_tokens": round(row.cache_read_tokens),
        "cache_write_tokens": round(row.cache_write_tokens),
        "cost_usd": round(row.cost_usd, 6),
    }
    if row.calls:
        fields["calls"] = row.calls
    if row.title:
        fields["title"] = row.title
    return fields


def _print(by: str, rows: Sequence[usage.Usage]) -> None:
    """Print a table; the last row is the total, and has no bar."""
    names = [_name(row) for row in rows]
    columns = _COLUMNS if by != "tool" else ("calls", *_COLUMNS)
    cells = [_cells(row, tool=by == "tool") for row in rows]
    widths = [max(len(column), *(len(row[index]) for row in cells)) for index, column in enumerate(columns)]
    first = max(len(by), *map(len, names))
    heads = "  ".join(column.rjust(width) for column, width in zip(columns, widths, strict=True))
    print(f"{by.ljust(first)}  {heads}")
    sizes = [row.cost_usd or 0.0 for row in rows[:-1]]
    if not any(sizes):
        sizes = [row.tokens or row.calls for row in rows[:-1]]
    largest = max(sizes, default=0.0) or 1.0
    room = shutil.get_terminal_size((120, 24)).columns - first - sum(widths) - 2 * len(widths) - 2
    for name, row, size in zip(names, cells, [*sizes, 0.0], strict=True):
        line = "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print(f"{name.ljust(first)}  {line}  {_bar(size / largest, min(_BAR_CHARS, room))}".rstrip())


def _name(row: usage.Usage) -> str:
    name = row.name if not row.title else f"{row.name[:8]}  {row.title}"
    return shortened(" ".join(name.split()), _NAME_CHARS)


def _cells(row: usage.Usage, *, tool: bool) -> tuple[str, ...]:
    counts = (row.input_tokens, row.output_tokens, row.cache_read_tokens, row.cache_write_tokens)
    cells = (f"{row.requests:,.0f}", f"{row.errors:,}", *(f"{count:,.0f}" for count in counts), dollars(row.cost_usd))
    return (f"{row.calls:,}", *cells) if tool else cells


def _bar(share: float, width: int) -> str:
    """Return a bar, to the eighth of a character."""
    eighths = round(share * max(0, width) * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
