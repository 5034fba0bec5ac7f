"""`cc-trace report`: what a run came to, in figures, and gates for CI. It quotes nothing of the conversation."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace.cli.ingest import read_run
from cc_trace.errors import CcTraceError, NotFoundError
from cc_trace.paths import claude_folder, find, here, home
from cc_trace.spans import Session
from cc_trace.transcript import save_stream

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from cc_trace.spans import SessionSummary, Span

_BEGINNING: Final = 1 << 20


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Print the report of a session, or of a run's output. Exit 1 if a gate fails, 2 if nothing could be read."""
    try:
        path = find(options.session, claude_folder(environment, home(environment)), here())
        with tempfile.TemporaryDirectory() as folder:
            spans, summary = _read(path, Path(folder))
    except OSError as error:
        message = f"cannot read {options.session}: {error.strerror}"
        raise CcTraceError(message) from error
    if not spans:
        message = f"{options.session} has no turn; pass a transcript, a session id, or the output of `claude -p`"
        raise NotFoundError(message)
    figures = _figures(spans, summary)
    failed = _failed_gates(figures, options)
    _print(figures, failed, options.format)
    return 1 if failed else 0


def _read(path: Path, folder: Path) -> tuple[list[Span], SessionSummary]:
    if not _is_transcript(path):
        path = save_stream(read_run(str(path), None), folder)
    session = Session(path, ending="over")
    return list(session.spans()), session.summary


def _is_transcript(path: Path) -> bool:
    """Tell a transcript from an output: its lines name their session in another way."""
    with path.open("rb") as file:
        return b'"sessionId":' in file.read(_BEGINNING)


def _figures(spans: list[Span], summary: SessionSummary) -> dict[str, object]:
    turns = [span for span in spans if span.kind == "turn"]
    start_ns = [span.start_ns for span in turns if span.start_ns is not None]
    end_ns = [span.end_ns for span in spans if span.end_ns is not None]
    known = [cost for cost in (summary.cost_usd, summary.reported_cost_usd) if cost is not None]
    return {
        "session_id": summary.session_id,
        "status": turns[-1].status,
        "turns": len(turns),
        "tool_calls": summary.tool_calls,
        "errors": sum(span.status == "error" for span in spans),
        "files_changed": len(summary.files_modified),
        "lines_added": summary.lines_added,
        "lines_removed": summary.lines_removed,
        "output_tokens": summary.output_tokens,
        "cost_usd": round(max(known), 6) if known else None,  # Claude Code's own count covers what is not traced
        "minutes": round((max(end_ns) - min(start_ns)) / 60e9, 3) if start_ns and end_ns else None,
    }


def _failed_gates(figures: dict[str, object], options: argparse.Namespace) -> list[str]:
    """Return which gates failed; a figure that is not known passes none."""
    failed = []
    for name, limit in (("cost_usd", options.max_cost), ("minutes", options.max_minutes)):
        value = figures[name]
        if limit is not None and not (isinstance(value, int | float) and value <= limit):
            failed.append(f"{name} is {'unknown' if value is None else value}, the limit is {limit:g}")
    if options.fail_on == "error" and figures["status"] != "ok":
        failed.append(f"the last turn ended with status {figures['status']}")
    return failed


def _print(figures: dict[str, object], failed: list[str], form: str) -> None:
    if form == "json":
        print(json.dumps({**figures, "failed": failed}))
        return
    rows = [(name.replace("_", " "), "unknown" if value is None else str(value)) for name, value in figures.items()]
    if form == "markdown":
        print("| Claude Code | |\n|---|---|")
        for name, value in rows:
            print(f"| {name} | {value} |")
        for each in failed:
            print(f"\n**Failed:** {each}")
        return
    for name, value in rows:
        print(f"{name:<14} {value}")
    for each in failed:
        print(f"failed: {each}")
