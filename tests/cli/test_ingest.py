"""`cc-trace ingest`, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cc_trace.store import read_session

RECORDINGS = Path(__file__).parents[1] / "transcript" / "stream" / "recordings"
HELLO = "eb4e4d28-e60d-506b-af76-2518e00dee3b"


class Machine:
    """A home with a local store."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.state = home / "state"

    def run(self, *arguments: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[str]:
        known = {"HOME": str(self.home), "PATH": os.environ["PATH"], "CC_TRACE_HOME": str(self.state)}
        known |= {"CC_TRACE_DESTINATIONS": "local", **environment}
        done = subprocess.run(
            [sys.executable, "-m", "cc_trace", *arguments],
            env=known,
            cwd=self.home,
            input=stdin,
            capture_output=True,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def stored(self, session_id: str = HELLO) -> list[tuple[str, str]]:
        return [(span.kind, span.status) for span in read_session(self.state / "traces.db", session_id)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def output(name: str) -> Path:
    return RECORDINGS / name / "output"


def test_a_file_is_delivered_once(machine: Machine) -> None:
    first = machine.run("ingest", str(output("2.1.325-hello-stream")))
    again = machine.run("ingest", str(output("2.1.325-hello-stream")))
    assert (first.returncode, first.stdout, first.stderr) == (0, f"{HELLO}: 2 spans to local\n", "")
    assert (again.returncode, again.stdout) == (0, f"{HELLO}: nothing new for local\n")
    assert machine.stored() == [("turn", "ok"), ("generation", "ok")]


def test_stdin_is_read_as_it_comes(machine: Machine) -> None:
    done = machine.run("ingest", "--prompt", "say hello", stdin=output("2.0.77-hello-stream").read_bytes())
    assert (done.returncode, done.stdout) == (0, f"{HELLO}: 2 spans to local\n")
    turn = next(iter(read_session(machine.state / "traces.db", HELLO)))
    assert (turn.input, turn.metadata["stream_times"]) == ("say hello", "result")


@pytest.mark.parametrize("transcript_first", [True, False])
def test_stream_and_transcript_of_one_run_are_delivered_once(machine: Machine, *, transcript_first: bool) -> None:
    """Whichever source comes first, the other one adds nothing."""
    recorded, folder = RECORDINGS / "2.1.325-hello-stream", machine.home / ".claude" / "projects" / "-p"

    def sync_transcript() -> str:
        shutil.copytree(recorded / "transcript", folder)
        return machine.run("sync", "--session", HELLO, CC_TRACE_REST_SECONDS="0").stdout

    if transcript_first:
        assert sync_transcript() == f"{HELLO}: 2 spans to local\n"
        assert machine.run("ingest", str(recorded / "output")).stdout == f"{HELLO}: nothing new for local\n"
        shutil.rmtree(folder)  # and neither does the stream alone
        assert machine.run("ingest", str(recorded / "output")).stdout == f"{HELLO}: nothing new for local\n"
    else:
        assert machine.run("ingest", str(recorded / "output")).stdout == f"{HELLO}: 2 spans to local\n"
        assert sync_transcript() == f"{HELLO}: nothing new for local\n"
    assert machine.stored() == [("turn", "ok"), ("generation", "ok")]


def test_a_seed_makes_the_trace_id(machine: Machine) -> None:
    machine.run("ingest", str(output("2.1.325-hello-stream")), CC_TRACE_TRACEPARENT=f"00-{'a' * 32}-{'b' * 16}-01")
    turn = next(iter(read_session(machine.state / "traces.db", HELLO)))
    assert (turn.trace_id, turn.parent_id) == ("a" * 32, "b" * 16)


@pytest.mark.parametrize("content", [b"", b"no JSON\n", b'{"a": 1}'])
def test_what_is_no_output_of_claude_code_is_refused(machine: Machine, content: bytes) -> None:
    done = machine.run("ingest", "-", stdin=content)
    assert done.returncode == 2
    assert done.stderr.startswith("cc-trace: stdin has no messages of Claude Code")


def test_a_file_that_is_not_there_is_named(machine: Machine) -> None:
    done = machine.run("ingest", "missing.jsonl")
    assert (done.returncode, done.stderr) == (2, "cc-trace: cannot read missing.jsonl: No such file or directory\n")


def test_secrets_are_masked(machine: Machine) -> None:
    key = "sk-ant-api03-" + "a1B2" * 23 + "AA"
    machine.run("ingest", "--prompt", f"use {key}", stdin=output("2.1.325-hello-stream").read_bytes())
    assert machine.stored()
    assert key.encode() not in (machine.state / "traces.db").read_bytes()


@pytest.mark.parametrize("beginning", [HELLO, HELLO[:8]])
def test_a_run_known_from_its_output_can_be_looked_at(machine: Machine, beginning: str) -> None:
    (machine.home / ".config" / "cc-trace").mkdir(parents=True)
    (machine.home / ".config" / "cc-trace" / "config.toml").write_text(f'file = "{machine.home}/spans.jsonl"\n')
    machine.run("ingest", str(output("2.1.325-hello-stream")), CC_TRACE_DESTINATIONS="file")
    shown = machine.run("show", beginning)
    assert (shown.returncode, "Hello there" in shown.stdout) == (0, True)
    sent = machine.run("preview", beginning, "--to", "file")
    ids = [re.findall(r'"spanId":"(\w+)"', text) for text in (sent.stdout, (machine.home / "spans.jsonl").read_text())]
    assert ids[0] == ids[1] != []
    assert machine.run("export", beginning, "-o", "run.html").returncode == 0
    assert "Hello there" in (machine.home / "run.html").read_text()
    assert [row["session_id"] for row in json.loads(machine.run("sessions", "--json").stdout)] == [HELLO]
    assert machine.run("search", "Hello there").stdout.startswith(HELLO[:8])


def test_of_a_session_that_only_the_store_has_the_commands_say_what_works(machine: Machine) -> None:
    machine.run("ingest", str(output("2.1.325-hello-stream")))
    shutil.rmtree(machine.state / "streams")
    assert machine.run("show", HELLO[:8]).returncode == 0
    assert machine.run("export", HELLO[:8], "-o", "run.html").returncode == 0
    gone = f"cc-trace: the transcript of session {HELLO} is gone; `cc-trace show {HELLO}` prints what was stored\n"
    preview = machine.run("preview", HELLO[:8])
    assert (preview.returncode, preview.stderr) == (2, gone)
    command = [sys.executable, "-m", "cc_trace", "view", HELLO[:8], "--port", "0", "--no-browser"]
    environment = {"HOME": str(machine.home), "PATH": os.environ["PATH"], "CC_TRACE_HOME": str(machine.state)}
    with subprocess.Popen(command, env=environment, cwd=machine.home, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert f"/sessions/{HELLO}?token=" in process.stdout.readline()
        process.terminate()
