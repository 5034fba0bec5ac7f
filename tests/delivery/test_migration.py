"""A state folder of the first version is resumed: nothing is sent again, nothing is missed.

`version_1` was written by that version: one session delivered, one up to its second prompt, to `local` and `file`.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

from shared import CASES

from cc_trace.spans.session import Session

WRITTEN = Path(__file__).parent / "version_1"
AGENTS = CASES / "2.1.325--c2_parallel_subagents/cccccccc-0000-4000-8000-000000000002.jsonl"
TWO_TURNS = CASES / "2.1.325--g1_two_turns_exit/44444444-0000-4000-8000-000000000001.jsonl"


def ids_in_file(path: Path) -> Counter[str]:
    requests = [json.loads(line) for line in path.read_text().splitlines()]
    return Counter(
        span["spanId"]
        for request in requests
        for resource in request["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    )


def test_version_1_state_is_resumed(tmp_path: Path) -> None:
    """Afterwards both destinations have each span of both sessions once."""
    claude = tmp_path / "claude"
    projects, state, file = claude / "projects" / "-p", claude / "state" / "cc-trace", tmp_path / "spans.jsonl"
    projects.mkdir(parents=True)
    shutil.copytree(WRITTEN, state, ignore=shutil.ignore_patterns("spans.jsonl"))
    shutil.copy(WRITTEN / "spans.jsonl", file)
    shutil.copytree(AGENTS.with_suffix(""), projects / AGENTS.stem)
    for case in (AGENTS, TWO_TURNS):
        os.utime(shutil.copy(case, projects), (0, 0))  # long ago: the sessions are over
    before = ids_in_file(file)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "CLAUDE_CONFIG_DIR": str(claude),
        "CC_TRACE_DESTINATIONS": "local,file",
        "CC_TRACE_FILE": str(file),
    }
    for case in (AGENTS, TWO_TURNS):
        subprocess.run(
            [sys.executable, "-m", "cc_trace", "sync", "--session", case.stem],
            env=environment,
            check=True,
            capture_output=True,
        )
    expected = {span.span_id for case in (AGENTS, TWO_TURNS) for span in Session(case, ending="over").spans()}
    after = ids_in_file(file)
    assert set(before) < set(after)
    assert after == Counter(expected)
    database = sqlite3.connect(state / "traces.db")
    assert Counter(id_ for (id_,) in database.execute("SELECT span_id FROM spans")) == Counter(expected)
    database.close()
    assert not list(state.rglob("*.aside-*"))
    assert "rewritten" not in (state / "cc-trace.log").read_text()
