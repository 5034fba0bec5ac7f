"""`cc-trace sessions`: the sessions of this machine, the latest first."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Final

import orjson

from cc_trace.cli.stored import up_to_date
from cc_trace.delivery import since_seconds
from cc_trace.errors import CcTraceError
from cc_trace.store import questions
from cc_trace.text import dollars, local_time, plural, rfc3339, shortened

if TYPE_CHECKING:
    import argparse
    import sqlite3
    from collections.abc import Mapping

_WHOLE_COLUMNS: Final = 110  # a narrower terminal shows when and what, on one line


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Print a line per session."""
    if options.limit is not None and options.limit < 1:
        message = f"--limit is {options.limit}; it must be at least 1"
        raise CcTraceError(message)
    since_ns = int(since_seconds(options.since, time.time()) * 1e9)
    with up_to_date(environment) as store:
        rows = questions.latest(store, options.project, since_ns, options.limit)
    if options.json:
        objects = [_json(row) for row in rows]
        sys.stdout.buffer.write(orjson.dumps(objects, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        return 0
    if not rows:
        print("no matching sessions" if options.project or options.since else "no sessions yet")
    width = shutil.get_terminal_size((120, 24)).columns
    for row in rows:
        print(_line(row, width))
    return 0


def _json(row: sqlite3.Row) -> dict[str, object]:
    fields = {name: row[name] for name in ("session_id", "title", "project", "repository", "cwd", "branch")}
    fields |= {"first": rfc3339(row["first_ns"]), "last": rfc3339(row["last_ns"])}
    fields |= {name: row[name] for name in ("turns", "cost_usd", "tokens", "errors", "state", "predecessor")}
    return fields | {"transcript": row["path"]}


def _line(row: sqlite3.Row, width: int) -> str:
    last = local_time(row["last_ns"])
    cost = "" if row["cost_usd"] is None else dollars(row["cost_usd"])
    project = shortened(row["project"] or "", 20)
    line = f"{row['session_id'][:8]}  {last:<16}  "
    if width >= _WHOLE_COLUMNS:
        line += f"{plural(row['turns'], 'turn'):>9}  {cost:>8}  {row['state']:<20}  {project:<20}  "
    return line + shortened(" ".join(row["title"].split()), max(20, width - len(line)))
