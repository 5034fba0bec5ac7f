"""How a session's process is, by what Claude Code writes of it and by the process itself."""

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
from cc_trace.delivery.liveness import Process, from_files, liveness

SESSION = "11111111-0000-4000-8000-000000000001"
OTHER = "22222222-0000-4000-8000-000000000002"


@pytest.mark.parametrize(
    ("status", "expected"),
    [("busy", "working"), ("waiting", "working"), ("idle", "idle"), (None, "alive"), ("new word", "alive")],
)
def test_a_living_process_says_how_it_is(tmp_path: Path, status: str | None, expected: str) -> None:
    """One that waits for the user is in the middle of a turn; an older version, or a newer word, says nothing."""
    write_record(tmp_path, SESSION, status)
    assert liveness(tmp_path, SESSION) == expected


def test_a_process_that_crashed_is_gone(tmp_path: Path) -> None:
    """Its file stays behind, whatever it says."""
    write_record(tmp_path, SESSION, "busy", pid=ended_pid())
    assert liveness(tmp_path, SESSION) == "gone"


def test_an_id_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    """The process of these tests is alive, but is not the one that wrote the file, or whose hook ran."""
    write_record(tmp_path, SESSION, "busy", procStart="1")
    assert liveness(tmp_path, SESSION) == "gone"
    assert liveness(tmp_path, OTHER, Process(os.getpid(), "1")) == "gone"


def test_nobody_has_asked_yet_how_it_ended(tmp_path: Path) -> None:
    """A process whose parent does not wait for it is still listed, and has ended all the same."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", "it ended")
        write_record(tmp_path, SESSION, "busy", pid=process.pid, procStart=None)
        assert liveness(tmp_path, SESSION) == "gone"


def test_a_session_that_was_resumed_lives(tmp_path: Path) -> None:
    """One process crashed with it, another goes on."""
    write_record(tmp_path, SESSION, "busy", pid=ended_pid())
    write_record(tmp_path, SESSION, "idle")
    assert liveness(tmp_path, SESSION) == "idle"


def test_a_process_that_went_on_with_another_session_has_left_this_one(tmp_path: Path) -> None:
    """As after /clear."""
    write_record(tmp_path, OTHER, "busy")
    assert liveness(tmp_path, SESSION, Process.running(os.getpid())) == "gone"
    assert liveness(tmp_path, SESSION) == "unknown"


def test_without_a_file_the_process_of_the_last_hook_tells(tmp_path: Path) -> None:
    """As in 2.0, which writes none."""
    assert liveness(tmp_path, SESSION) == "unknown"
    assert liveness(tmp_path, SESSION, Process.running(os.getpid())) == "alive"
    assert liveness(tmp_path, SESSION, Process.running(ended_pid())) == "gone"


def test_a_process_of_a_container_cannot_be_looked_up(tmp_path: Path) -> None:
    """Its id means another process here."""
    write_record(tmp_path, SESSION, "busy", pid=ended_pid(), pidDomain="linux:0123:pid:[1]")
    assert liveness(tmp_path, SESSION) == "unknown"
    here = f"linux:0123:{Path('/proc/self/ns/pid').readlink()}"
    write_record(tmp_path, SESSION, "busy", pidDomain=here)
    assert liveness(tmp_path, OTHER) == "unknown"


@pytest.mark.parametrize("status", ["busy", "idle"])
def test_a_process_of_this_namespace_is_looked_up(tmp_path: Path, status: str) -> None:
    """The file names the namespace its id belongs to."""
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
def test_a_file_of_another_form_says_nothing(tmp_path: Path, form: str) -> None:
    """Damaged, of other types, of another process, or too long."""
    write_record(tmp_path, SESSION, "busy").write_text(OTHER_FORMS[form])
    assert liveness(tmp_path, SESSION) == "unknown"


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    """A pipe would hang, a link could lead anywhere."""
    record = write_record(tmp_path, SESSION, "busy")
    elsewhere = record.rename(tmp_path / "elsewhere")
    record.symlink_to(elsewhere)
    assert liveness(tmp_path, SESSION) == "unknown"
    record.unlink()
    os.mkfifo(record)
    assert liveness(tmp_path, SESSION) == "unknown"


@pytest.fixture
def on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process can be asked whether it is there: what asks elsewhere interrupts or ends it."""

    def kill(pid: int, number: int) -> None:
        message = f"signal {number} for process {pid}"
        raise AssertionError(message)

    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr("cc_trace.delivery.liveness.sys", SimpleNamespace(platform="win32"))
    monkeypatch.setattr("cc_trace.delivery.liveness._stat", lambda _: None)


@pytest.mark.usefixtures("on_windows")
def test_on_windows_nothing_is_known_of_a_process(tmp_path: Path) -> None:
    """A session's time at rest decides then, whatever its record says: it may be that of a process that crashed."""
    process = Process.running(os.getpid())
    assert (process, process.is_alive) == (Process(os.getpid()), None)
    assert liveness(tmp_path, SESSION, process) == "unknown"
    write_record(tmp_path, SESSION, "busy")
    assert liveness(tmp_path, SESSION, process) == "unknown"
    transcript = write(tmp_path / f"{SESSION}.jsonl", [prompt("a")])
    state = SessionState(SESSION, str(transcript), claude_pid=os.getpid())
    written = transcript.stat().st_mtime
    assert from_files(transcript, state, written + 299, 300, tmp_path) == "quiet"
    assert from_files(transcript, state, written + 300, 300, tmp_path) == "over"
