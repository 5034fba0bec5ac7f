"""`cc-trace usage` against ccusage, where that is installed: the same tokens on the same files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from shared import CASES, corpus, label

from cc_trace.cli import main

if TYPE_CHECKING:
    from pathlib import Path

CCUSAGE = shutil.which("ccusage")
COUNTS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cacheReadTokens",
    "cache_write_tokens": "cacheCreationTokens",
}
pytestmark = pytest.mark.skipif(CCUSAGE is None, reason="ccusage is not installed")


def both(capsys: pytest.CaptureFixture[str], by: str = "day") -> tuple[dict[str, int], dict[str, int]]:
    """What ccusage counts, and what we do: in all, or by agent for the main thread."""
    assert CCUSAGE is not None
    done = subprocess.run([CCUSAGE, "daily", "--json", "--offline"], capture_output=True, env=os.environ, check=True)
    theirs = json.loads(done.stdout)
    main(["usage", "--by", by, "--json"])
    ours = json.loads(capsys.readouterr().out)
    row = ours["total"] if by == "day" else next(row for row in ours["rows"] if row["name"] == "main thread")
    totals = theirs["totals"] if isinstance(theirs, dict) else {}
    return {name: totals.get(their, 0) for name, their in COUNTS.items()}, {name: row[name] for name in COUNTS}


def test_recorded_sessions(projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them at once: subagents, forks, failures, interruptions."""
    for case in CASES.glob("2.1.325--*"):
        shutil.copytree(case, projects, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.spans"))
    theirs, ours = both(capsys)
    assert ours == theirs
    assert ours["output_tokens"] > 0


@pytest.mark.parametrize("path", corpus(), ids=label)
def test_public_transcripts(path: Path, projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """But for output tokens, of which ccusage takes the first count, and agents in progress lines, which it skips."""
    shutil.copy(path, projects / "00000000-0000-4000-8000-000000000001.jsonl")
    theirs, ours = both(capsys)
    if b"agent_progress" in path.read_bytes():
        theirs, ours = both(capsys, "agent")
    assert ours.pop("output_tokens") >= theirs.pop("output_tokens")
    assert ours == theirs
