"""`cc-trace run`, in a process of its own: the command must not notice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cc_trace.store import read_session

RECORDINGS = Path(__file__).parents[1] / "transcript" / "stream" / "recordings"
HELLO = "eb4e4d28-e60d-506b-af76-2518e00dee3b"


def start(home: Path, *command: str, **environment: str) -> subprocess.Popen[bytes]:
    known = {"HOME": str(home), "PATH": os.environ["PATH"], "CC_TRACE_HOME": str(home / "state")}
    return subprocess.Popen(
        [sys.executable, "-m", "cc_trace", "run", "--", *command],
        env=known | {"CC_TRACE_DESTINATIONS": "local"} | environment,
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ended(process: subprocess.Popen[bytes], stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    out, err = process.communicate(stdin, timeout=60)
    return process.returncode, out, err


def claude(tmp_path: Path, script: str) -> str:
    """Write a program in the place of Claude Code."""
    path = tmp_path / "claude"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("code", [0, 3])
def test_a_run_is_delivered_and_passes_through(tmp_path: Path, code: int) -> None:
    output = RECORDINGS / "2.1.325-hello-stream" / "output"
    program = claude(tmp_path, f"cat {output}; echo careful >&2; exit {code}")
    assert ended(start(tmp_path, program, "-p", "say hello")) == (code, output.read_bytes(), b"careful\n")
    turn, generation = read_session(tmp_path / "state" / "traces.db", HELLO)
    assert (turn.input, turn.status, generation.status) == ("say hello", "ok", "ok")


def test_stdin_is_the_commands_own(tmp_path: Path) -> None:
    assert ended(start(tmp_path, "cat"), b"\x00\xff\n torn") == (0, b"\x00\xff\n torn", b"")


def test_a_command_that_was_killed_ends_us_the_same_way(tmp_path: Path) -> None:
    output = RECORDINGS / "2.1.325-tools-stream" / "output"
    program = claude(tmp_path, f"head -n 3 {output}; kill -TERM $$")
    code, out, _ = ended(start(tmp_path, program, "-p", "go on"))
    assert (code, out) == (-signal.SIGTERM, b"".join(output.read_bytes().splitlines(keepends=True)[:3]))
    session_id = "02d999ad-da04-559f-b186-ff50fb34da47"
    assert next(iter(read_session(tmp_path / "state" / "traces.db", session_id))).status == "incomplete"


def test_a_signal_reaches_the_command(tmp_path: Path) -> None:
    loop = "while :; do sleep 0.01; done"
    process = start(tmp_path, claude(tmp_path, f'trap "echo ended; exit 7" TERM; echo ready; {loop}'))
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGTERM)
    assert ended(process)[:2] == (7, b"ended\n")


def test_a_reader_that_goes_away_ends_the_command(tmp_path: Path) -> None:
    with start(tmp_path, "yes") as process:
        assert process.stdout is not None
        assert process.stdout.read(4) == b"y\ny\n"
        process.stdout.close()
        assert process.wait(60) == -signal.SIGPIPE


def test_much_output_passes_through(tmp_path: Path) -> None:
    code, out, err = ended(start(tmp_path, "head", "-c", "20000000", "/dev/zero"))
    assert (code, len(out), out.count(b"\x00"), err) == (0, 20_000_000, 20_000_000, b"")


def test_a_run_that_prints_text_says_that_it_is_not_traced(tmp_path: Path) -> None:
    code, out, err = ended(start(tmp_path, claude(tmp_path, "echo Hello."), "-p", "hi"))
    assert (code, out) == (0, b"Hello.\n")
    assert err == b"cc-trace: not traced: add --output-format stream-json --verbose\n"


def test_a_wrong_setting_does_not_change_how_a_run_ends(tmp_path: Path) -> None:
    output = RECORDINGS / "2.1.325-hello-stream" / "output"
    process = start(tmp_path, claude(tmp_path, f"cat {output}"), "-p", "x", CC_TRACE_DESTINATIONS="nowhere")
    code, out, err = ended(process)
    assert (code, out) == (0, output.read_bytes())
    assert err.startswith(b"cc-trace: not traced: ")
    assert err.count(b"\n") == 1


@pytest.mark.parametrize(("command", "code"), [(["/does/not/exist"], 127), (["/etc/passwd"], 126), ([], 2)])
def test_a_command_that_cannot_be_run(tmp_path: Path, command: list[str], code: int) -> None:
    assert ended(start(tmp_path, *command))[:2] == (code, b"")
