"""The benchmark still measures: run in the small, it prints every figure of the table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import collector
import pytest
import transcripts
from shared import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FIGURES = [
    "hook (sh) / `python3 -c pass`",
    "hook (sh) while the backend refuses / `python3 -c pass`",
    "hook (sh) while the backend hangs / `python3 -c pass`",
    "hook (sh) / empty sh script",
    "`python3 -m cc_trace.hook` / `python3 -c pass`",
    "`cc-trace --help` / `python3 -c pass`",
    "`python3 -m cc_trace --help` / `python3 -c pass`",
    "CPU of importing the Langfuse package, where something is asked / `python3 -c pass`",
    "`cc-trace run -- true` / `python3 -c pass`",
    "`cc-trace run -- cat` of 1 MB / `cat`",
    "worker's CPU for one Stop / `python3 -c pass`",
    "worker's CPU for one Stop to Langfuse / to a collector",
    "from Stop to the collector / `python3 -c pass`",
    "worker's CPU for one more turn, 1 MB / 1 MB",
    "worker's CPU for one more turn, 2 MB / 1 MB",
    "worker's memory for one more turn, 2 MB / an idle worker's",
    "30 sessions: worker's CPU for a Stop that looks around / `python3 -c pass`",
    "30 sessions: CPU of `cc-trace status` / `python3 -c pass`",
    "worker's CPU for an idle Stop, 40 agents' files in the session's folder / `python3 -c pass`",
    "worker's CPU for an idle Stop, 40 agents' files beside the transcript / `python3 -c pass`",
    "current, 0 MB: all spans / `orjson.loads` of every line",
    "older, 0 MB: all spans / `orjson.loads` of every line",
    "current, 0 MB: peak memory, all spans / size of the file",
    "older, 0 MB: peak memory, all spans / size of the file",
    "current, 0 MB: masking every value / `orjson.loads` of every line",
    "older, 0 MB: masking every value / `orjson.loads` of every line",
    "older, 0 MB: spans to gzipped OTLP requests / opentelemetry-sdk's exporter",
    "older, 0 MB: the same without gzip",
    "current, 0 MB: backfill to a collector on this machine / `orjson.loads` of every line",
    "current, 0 MB: backfill to a collector elsewhere, compressed / `orjson.loads` of every line",
    "current, 0 MB: backfill, peak memory / size of the file",
    "older, 0 MB: backfill to a collector on this machine / `orjson.loads` of every line",
    "older, 0 MB: backfill to a collector elsewhere, compressed / `orjson.loads` of every line",
    "older, 0 MB: backfill, peak memory / size of the file",
    "current, 0 MB: bringing the store up to date / `orjson.loads` of every line",
    "older, 0 MB: bringing the store up to date / `orjson.loads` of every line",
    "CPU of `cc-trace usage` over 2 MB of known history / `python3 -c pass`",
    "Sessions page, 30 sessions: server's CPU / 200 of them",
    "Sessions page, 30 sessions: bytes / 200 of them",
    "rows from its middle, 30 sessions: server's CPU / 200 of them",
    "rows from its middle, 30 sessions: bytes / 200 of them",
    "Turn page, 60 spans: server's CPU / 200 of them",
    "Turn page, 60 spans: bytes / 200 of them",
    "rows from its middle, 60 spans: server's CPU / 200 of them",
    "rows from its middle, 60 spans: bytes / 200 of them",
]


def test_every_figure_is_measured() -> None:
    """Each row has a ratio; the figures of a run this small mean nothing."""
    command = [sys.executable, str(ROOT / "bench" / "run.py"), "--small"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    rows = re.findall(r"^\| (.+?) \| (\d+\.\d\d x)", printed, re.MULTILINE)
    assert [figure for figure, _ in rows] == FIGURES


@pytest.mark.parametrize("mix", transcripts.MIXES)
@pytest.mark.parametrize("megabytes", [1, 30])
def test_a_transcript_has_the_size_in_its_name(tmp_path: Path, mix: transcripts.Mix, megabytes: int) -> None:
    """Rounded as a reader of the table would, and its last turn is whole."""
    path = tmp_path / "transcript.jsonl"
    transcripts.write(path, mix, megabytes * 1_000_000)
    assert round(path.stat().st_size / 1_000_000) == megabytes
    assert b'"subtype":"turn_duration"' in path.read_bytes().splitlines()[-1]


def test_a_fleet_loses_and_doubles_nothing() -> None:
    """In the small: through an outage of a real collector; it raises where a span is lost or came twice."""
    if (reason := collector.why_not()) is not None:
        pytest.skip(reason)
    command = [sys.executable, str(ROOT / "bench" / "fleet.py"), "--machines", "3"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, env=environment)
    assert "| 3, 130, 0, 0 |" in done.stdout
