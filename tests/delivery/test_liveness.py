"""Whether a session's process lives and works, from Claude Code's record of it and from the process itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from claude_process import ended_pid, write_record
from lines import prompt, write
from waiting import until

from cc_trace.delivery.cursor import SessionState
from cc_trace.delivery.liveness import ending_from_process, liveness
from cc_trace.delivery.process import Process

SESSION = "11111111-0000-4000-8000-000000000001"
OTHER = "22222222-0000-4000-8000-000000000002"


@pytest.mark.parametrize(
    ("status", "expected"),
    [("busy", "working"), ("waiting", "working"), ("idle", "idle"), (None, "alive"), ("new word", "alive")],
)
def test_status_maps_to_liveness(tmp_path: Path, status: str | None, expected: str) -> None:
    """A process that waits for the user is in the middle of a turn; a missing or unknown status only means alive."""
    write_record(tmp_path, SESSION, status)
    assert liveness(tmp_path, SESSION) == expected


def test_crashed_process_is_gone(tmp_path: Path) -> None:
    """Its record stays behind."""
    write_record(tmp_path, SESSION, "busy", pid=ended_pid())
    assert liveness(tmp_path, SESSION) == "gone"


def test_reused_pid_is_gone(tmp_path: Path) -> None:
    """The test's own process is alive, but did not write the record or run the hook."""
    write_record(tmp_path, SESSION, "busy", procStart="1")
    assert liveness(tmp_path, SESSION) == "gone"
    assert liveness(tmp_path, OTHER, Process(os.getpid(), "1")) == "gone"


def test_zombie_process_is_gone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", "it ended")
        write_record(tmp_path, SESSION, "busy", pid=process.pid, procStart=None)
        assert liveness(tmp_path, SESSION) == "gone"


def test_resumed_session_uses_live_process(tmp_path: Path) -> None:
    """One process crashed with it, another goes on."""
    write_record(tmp_path, SESSION, "busy", pid=ended_pid())
    write_record(tmp_path, SESSION, "idle")
    assert liveness(tmp_path, SESSION) == "idle"


def test_process_with_other_session_is_gone(tmp_path: Path) -> None:
    """As after /clear."""
    write_record(tmp_path, OTHER, "busy")
    assert liveness(tmp_path, SESSION, Process.running(os.getpid())) == "gone"
    assert liveness(tmp_path, SESSION) == "unknown"


def test_liveness_falls_back_to_hook_process(tmp_path: Path) -> None:
    """Claude Code 2.0 writes no record."""
    assert liveness(tmp_path, SESSION) == "unknown"
    assert liveness(tmp_path, SESSION, Process.running(os.getpid())) == "alive"
    assert liveness(tmp_path, SESSION, Process.running(ended_pid())) == "gone"


def test_foreign_pid_namespace_is_unknown(tmp_path: Path) -> None:
    """The id belongs to another process here."""
    write_record(tmp_path, SESSION, "busy", pid=ended_pid(), pidDomain="linux:0123:pid:[1]")
    assert liveness(tmp_path, SESSION) == "unknown"
    here = f"linux:0123:{Path('/proc/self/ns/pid').readlink()}"
    write_record(tmp_path, SESSION, "busy", pidDomain=here)
    assert liveness(tmp_path, OTHER) == "unknown"


@pytest.mark.parametrize("status", ["busy", "idle"])
def test_own_pid_namespace_is_used(tmp_path: Path, status: str) -> None:
    write_record(tmp_path, SESSION, status, pidDomain=f"linux:0123:{Path('/proc/self/ns/pid').readlink()}")
    assert liveness(tmp_path, SESSION) == {"busy": "working", "idle": "idle"}[status]


OWN = os.getpid()
OTHER_FORMS = {
    "empty": "",
    "torn": "{",
    "a list": "[]",
    "an id that is text": '{"pid": "1"}',
    "another's name": json.dumps({"pid": 1, "sessionId": SESSION, "status": "busy"}),
    "a session that is a number": json.dumps({"pid": OWN, "sessionId": 7}),
    "too long": json.dumps({"pid": OWN, "sessionId": SESSION, "padding": "x" * 100_000}),
}


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_malformed_record_is_ignored(tmp_path: Path, form: str) -> None:
    write_record(tmp_path, SESSION, "busy").write_text(OTHER_FORMS[form])
    assert liveness(tmp_path, SESSION) == "unknown"


def test_irregular_record_file_is_not_opened(tmp_path: Path) -> None:
    """A pipe would block, and a link could point anywhere."""
    record = write_record(tmp_path, SESSION, "busy")
    elsewhere = record.rename(tmp_path / "elsewhere")
    record.symlink_to(elsewhere)
    assert liveness(tmp_path, SESSION) == "unknown"
    record.unlink()
    os.mkfifo(record)
    assert liveness(tmp_path, SESSION) == "unknown"


@pytest.fixture
def on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no call that only asks whether a process exists: os.kill would interrupt or end it."""

    def kill(pid: int, number: int) -> None:
        message = f"signal {number} for process {pid}"
        raise AssertionError(message)

    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr("cc_trace.delivery.process.sys", SimpleNamespace(platform="win32"))
    monkeypatch.setattr("cc_trace.delivery.process._stat", lambda _: None)


@pytest.mark.usefixtures("on_windows")
def test_windows_liveness_is_unknown(tmp_path: Path) -> None:
    """How long the transcript has been quiet decides then, whatever the record says."""
    process = Process.running(os.getpid())
    assert (process, process.is_alive) == (Process(os.getpid()), None)
    assert liveness(tmp_path, SESSION, process) == "unknown"
    write_record(tmp_path, SESSION, "busy")
    assert liveness(tmp_path, SESSION, process) == "unknown"
    transcript = write(tmp_path / f"{SESSION}.jsonl", [prompt("a")])
    state = SessionState(SESSION, str(transcript), claude_pid=os.getpid())
    written = transcript.stat().st_mtime
    assert ending_from_process(transcript, state, written + 299, 300, tmp_path) == "quiet"
    assert ending_from_process(transcript, state, written + 300, 300, tmp_path) == "over"
