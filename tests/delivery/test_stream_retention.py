"""Saved streams of runs without a transcript are removed when they are delivered and old."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cc_trace.delivery import App, sync_stream
from cc_trace.delivery.retention import DAY_SECONDS, clean_up
from cc_trace.transcript import convert_stream, read_messages

if TYPE_CHECKING:
    from cc_trace.delivery import Report

OUTPUT = Path(__file__).parents[1] / "transcript" / "stream" / "recordings" / "2.1.325-agent-stream" / "output"


def ingest(app: App, cwd: Path) -> Report:
    (run,) = convert_stream(read_messages(OUTPUT.read_bytes()))
    with app.sync() as sync:
        return sync_stream(app, sync, run, cwd)


@pytest.mark.parametrize(("days", "endpoint", "kept"), [(40, None, 0), (20, None, 1), (40, "http://127.0.0.1:9", 1)])
def test_stream_is_removed_when_delivered_and_old(tmp_path: Path, days: int, endpoint: str | None, kept: int) -> None:
    """A stream that no destination accepted is kept, however old it is."""
    environment = {"HOME": str(tmp_path), "CC_TRACE_DESTINATIONS": "local"}
    if endpoint is not None:
        environment |= {"CC_TRACE_DESTINATIONS": "otlp", "CC_TRACE_OTLP_ENDPOINT": endpoint}
    app = App.open(environment)
    assert bool(ingest(app, tmp_path).pending) is (endpoint is not None)
    then, streams = time.time() - days * DAY_SECONDS, app.states.streams
    for path in streams.glob("*.jsonl"):
        os.utime(path, (then, then))
    # A file's time of change cannot be set: it is the clock that goes on.
    for _ in clean_up(app.states, app.config_dir, app.config(), time.time() + days * DAY_SECONDS, app.log):
        pass
    assert len([*streams.glob("*.jsonl")]) == len([*streams.glob("*/subagents")]) == kept


def test_no_stream_is_saved_while_tracing_is_off(tmp_path: Path) -> None:
    """A later sync, with tracing on, would send it."""
    environment = {"HOME": str(tmp_path), "CC_TRACE_DESTINATIONS": "local", "CC_TRACE_ENABLED": "false"}
    app = App.open(environment)
    assert ingest(app, tmp_path).why_off == "CC_TRACE_ENABLED is false"
    assert not app.states.streams.exists()
