"""`cc-trace ingest`: deliver runs from the output of `claude -p`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cc_trace.cli.sync import print_report
from cc_trace.delivery import App, sync_stream
from cc_trace.errors import CcTraceError, NotFoundError
from cc_trace.paths import current_folder
from cc_trace.transcript import convert_stream, read_messages

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from cc_trace.transcript import StreamTranscript


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Deliver each file; print a line per run. Exit 1 if anything is pending, 2 if nothing could be read."""
    runs = [stream for name in options.files or ["-"] for stream in read_runs(name, options.prompt)]
    app = App.open(environment)
    with app.sync() as sync:
        reports = [sync_stream(app, sync, stream, current_folder()) for stream in runs]
    for report in reports:
        print_report(app, report)
    if any(report.pending for report in reports):
        print("nothing is lost; `cc-trace doctor` finds the cause and says how to fix it", file=sys.stderr)
    return 0 if all(report.complete and report.why_off is None for report in reports) else 1


def read_runs(name: str, prompt: str | None) -> list[StreamTranscript]:
    """Return the sessions in a file, or in stdin."""
    try:
        if name == "-":
            messages, ended_ns = read_messages(_stdin_lines()), time.time_ns()
        else:
            path = Path(name)
            messages, ended_ns = read_messages(path.read_bytes()), path.stat().st_mtime_ns
    except OSError as error:
        message = f"cannot read {name}: {error.strerror}"
        raise CcTraceError(message) from error
    runs = convert_stream(messages, prompt=prompt, ended_ns=ended_ns)
    if not runs:
        source = "stdin" if name == "-" else name
        message = f"{source} has no messages of Claude Code; run `claude -p` with --output-format stream-json --verbose"
        raise NotFoundError(message)
    return runs


def _stdin_lines() -> Iterator[tuple[bytes, int]]:
    """Yield the lines of stdin, each with the time it arrived."""
    for line in sys.stdin.buffer:
        yield line, time.time_ns()
