"""`cc-trace usage` against ccusage (20 or later), where that is installed: the same tokens on the same files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

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
HELPERS = ("acompact-", "aprompt_suggestion-")  # agents that Claude Code starts for itself
pytestmark = pytest.mark.skipif(CCUSAGE is None, reason="ccusage is not installed")


def copy(source: Path, target: Path) -> None:
    """Copy a transcript with its lines as Claude Code writes them: ccusage skips those with spaces in their JSON."""
    lines = source.read_bytes().splitlines()
    if source.name.startswith("agent-") and lines and _is_helper(source, lines[0]):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(b"".join(_compact(line) + b"\n" for line in lines))


def _is_helper(path: Path, first: bytes) -> bool:
    return path.name.removeprefix("agent-").startswith(HELPERS) or b'"content":"Warmup"' in first


def _compact(line: bytes) -> bytes:
    try:
        return json.dumps(json.loads(line), separators=(",", ":")).encode()
    except ValueError:
        return line


def both(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return what ccusage counts, and what we do."""
    assert CCUSAGE is not None
    done = subprocess.run([CCUSAGE, "daily", "--json", "--offline"], capture_output=True, env=os.environ, check=True)
    theirs: Any = json.loads(done.stdout)
    main(["usage", "--json"])
    ours = json.loads(capsys.readouterr().out)["total"]
    totals = theirs["totals"] if isinstance(theirs, dict) else {}
    return {name: totals.get(their, 0) for name, their in COUNTS.items()}, {name: ours[name] for name in COUNTS}


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir() if path.is_dir()))
def test_recorded_sessions(case: str, projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Subagents, forks, failures, interruptions, every version."""
    for path in (CASES / case).rglob("*.jsonl"):
        if ".spans" not in str(path):
            copy(path, projects / path.relative_to(CASES / case))
    theirs, ours = both(capsys)
    assert ours == theirs


@pytest.mark.parametrize("path", corpus(), ids=label)
def test_public_transcripts(path: Path, projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy(path, projects / "00000000-0000-4000-8000-000000000001.jsonl")
    theirs, ours = both(capsys)
    assert ours == theirs
