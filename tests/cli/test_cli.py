"""`cc-trace show`, run as users run it: a process with its own home."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from shared import CASES

if TYPE_CHECKING:
    from pathlib import Path

SESSION = "cccccccc-0000-4000-8000-000000000004"
TRANSCRIPT = CASES / "2.1.325--c4_background_agent" / f"{SESSION}.jsonl"
SPAN_KEYS = {
    "trace_id",
    "span_id",
    "parent_id",
    "kind",
    "name",
    "start",
    "end",
    "session_id",
    "turn",
    "agent_id",
    "status",
    "error",
    "message_id",
    "request_id",
    "model",
    "usage",
    "usage_complete",
    "cost_usd",
    "tool",
    "input",
    "output",
    "metadata",
}
SESSION_KEYS = {
    "kind",
    "tool_calls",
    "turns",
    "duration_ms",
    "files_modified",
    "context_tokens",
    "output_tokens",
    "cost_usd",
    "models",
    "start",
    "end",
    "cwd",
    "project",
    "git_branch",
    "version",
    "slug",
    "goal",
    "latest_output",
    "predecessor",
    "skipped",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one session of one project."""
    project = tmp_path / ".claude" / "projects" / "-home-dev-project"
    project.mkdir(parents=True)
    shutil.copy(TRANSCRIPT, project)
    shutil.copytree(TRANSCRIPT.with_suffix(""), project / SESSION)
    return tmp_path


def cc_trace(*arguments: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cc_trace", *arguments],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", "TZ": "UTC", **environment},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )


def rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_json_has_the_documented_keys(home: Path) -> None:
    """One object per span and line, then the session's: other programs rely on these keys."""
    *spans, session = rows(cc_trace("show", SESSION, "--json", home=home))
    assert len(spans) == 12
    assert all(set(span) >= SPAN_KEYS for span in spans)
    assert set(session) >= SESSION_KEYS
    assert session["kind"] == "session"
    assert spans[0]["start"] == "2026-11-15T23:11:44.944Z"
    assert spans[1]["usage"] == {
        "input": 100,
        "output": 42,
        "cache_read": 300,
        "cache_write_5m": 20,
        "cache_write_1h": 0,
    }
    assert spans[2]["tool"] == {"id": "toolu_02807f2a2a9f50fb332600", "name": "Agent"}


def test_path_and_id_show_the_same(home: Path) -> None:
    """A session can be named by its file or by its id, also under CLAUDE_CONFIG_DIR."""
    by_path = cc_trace("show", str(TRANSCRIPT), "--json", home=home).stdout
    by_id = cc_trace("show", SESSION, "--json", home=home).stdout
    (home / "x").mkdir()
    other = cc_trace("show", SESSION, "--json", home=home / "x", CLAUDE_CONFIG_DIR=str(home / ".claude"))
    assert by_path == by_id == other.stdout != ""


def test_tree_for_people(home: Path) -> None:
    """Turn with prompt and answer, generations with tokens and cost, tools with duration, agents nested, totals."""
    shown = cc_trace("show", SESSION, home=home).stdout.splitlines()
    assert shown[0] == (
        "Turn 1 23:11:44 · 4.9 s · waited 2.8 s · 2 tool calls · 210 out · $0.0055 [[bgagent]] delegate"
        " → Background agent finished, noted."
    )
    assert shown[1].startswith(
        "├── 23:11:45 claude-sonnet-4-5-20250929 · 100 in, 42 out, 300 read, 20 written · $0.0011 · 24 ms"
    )
    assert re.match(r"│   └── \d\d:\d\d:\d\d Agent · 757 ms", shown[2])
    assert re.match(
        r"│       └── \d\d:\d\d:\d\d agent general-purpose · bg agent · 3.4 s · in the background", shown[3]
    )
    assert "1 turn · 2 tool calls" in shown[-2]


def test_malformed_lines_are_counted_for_people(home: Path) -> None:
    """What was skipped by design is not mentioned; an unknown type is, and what could be repaired."""
    transcript = home / "mixed.jsonl"
    lines = [
        *TRANSCRIPT.read_text().splitlines(),
        '{"type":',
        "<html>",
        "{}",
        '{"type":"new"}',
        '{"type":"system"}{',
        "",
    ]
    transcript.write_text("\n".join(lines))
    shown = cc_trace("show", str(transcript), home=home).stdout.splitlines()
    assert shown[-1] == "skipped 2 malformed lines, 1 line without a type, 1 line of unknown type new; repaired 1 line"


def test_tool_errors_are_shown(home: Path) -> None:
    """A failed tool says so, with its message."""
    transcript = CASES / "2.1.325--f_tool_error" / "ffffffff-0000-4000-8000-000000000001.jsonl"
    shown = cc_trace("show", str(transcript), home=home).stdout
    assert "error: File does not exist." in shown
    assert "error: Exit code 3" in shown


def test_no_content_shows_nothing_of_the_conversation(home: Path) -> None:
    """--no-content leaves structure, times, tokens and cost."""
    transcript = CASES / "2.1.325--f_tool_error" / "ffffffff-0000-4000-8000-000000000001.jsonl"
    for format_ in ([], ["--json"], ["--full"]):
        shown = cc_trace("show", str(transcript), "--no-content", *format_, home=home).stdout
        assert "claude-sonnet-4-5" in shown
        for secret in ("[[f]] go", "errors seen", "does not exist", "Exit code 3", "echo out"):
            assert secret not in shown


def test_full_shows_everything(home: Path) -> None:
    """--full prints inputs and outputs whole."""
    shown = cc_trace("show", SESSION, "--full", home=home).stdout
    assert "sleep 2; echo slow" in shown
    assert "Async agent launched successfully." in shown


def test_one_turn(home: Path) -> None:
    """--turn N shows that turn only; the session's facts stay those of the session."""
    transcript = CASES / "2.1.325--g1_two_turns_exit" / "44444444-0000-4000-8000-000000000001.jsonl"
    *spans, session = rows(cc_trace("show", str(transcript), "--json", "--turn", "2", home=home))
    assert {span["turn"] for span in spans} == {2}
    assert session["turns"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["show", "no/such/file.jsonl"],
            "cc-trace: no transcript at no/such/file.jsonl; pass the path of a transcript (.jsonl) or a session id\n",
        ),
        (["show", "."], "cc-trace: . is a directory; pass a transcript (.jsonl) or a session id\n"),
        (["show", SESSION, "--turn", "7"], f"cc-trace: session {SESSION} has no turn 7; it has 1 turn\n"),
    ],
)
def test_a_wrong_call_is_one_clear_line(home: Path, arguments: list[str], message: str) -> None:
    """What is wrong is said in one line on stderr, and the exit code is 2."""
    done = cc_trace(*arguments, home=home)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


def test_an_unknown_session_is_one_clear_line(home: Path) -> None:
    """The line says where was looked."""
    done = cc_trace("show", "11111111-2222-4333-8444-555555555555", home=home)
    assert done.returncode == 2
    assert done.stderr.startswith("cc-trace: no session 11111111-2222-4333-8444-555555555555 under ")
    assert done.stderr.count("\n") == 1


def test_closed_stdout_is_no_error(home: Path) -> None:
    """`cc-trace show … | head -1` ends quietly."""
    transcript = CASES / "2.1.325--c6_sync_subagent" / "cccccccc-0000-4000-8000-000000000007.jsonl"
    command = f"{sys.executable} -m cc_trace show {transcript} --full | head -1"
    done = subprocess.run(
        ["/bin/sh", "-c", command], env={"HOME": str(home)}, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""


def test_what_tools_printed_does_not_drive_the_terminal(home: Path) -> None:
    """Escape sequences in a transcript are not passed on."""
    path = home / "t.jsonl"
    path.write_text(
        '{"type":"user","uuid":"1","message":{"role":"user","content":"\\u001b]0;owned\\u0007 \\u001b[31mred"}}\n'
        '{"type":"assistant","uuid":"2","message":{"id":"m","role":"assistant","model":"x","content":"\\u009b2J"}}\n'
    )
    for format_ in ([], ["--full"]):
        shown = cc_trace("show", str(path), *format_, home=home).stdout
        assert "red" in shown
        assert not set(shown) & set("\x1b\x07\x9b")


def test_an_empty_transcript_has_no_turns(home: Path) -> None:
    """A session that never got an answer is shown as such, not refused."""
    path = home / "empty.jsonl"
    path.touch()
    session = rows(cc_trace("show", str(path), "--json", home=home))
    assert [(row["kind"], row["turns"], row["cost_usd"]) for row in session] == [("session", 0, None)]
