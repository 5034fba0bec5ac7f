"""`cc-trace run`, in a process of its own: the command must not notice."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from backend import HANG, OK, HttpBackend

from cc_trace.cli.claude_command import read_command
from cc_trace.store import read_session

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORDINGS = Path(__file__).parents[1] / "transcript" / "stream" / "recordings"
HELLO = "eb4e4d28-e60d-506b-af76-2518e00dee3b"


def start(
    home: Path, *command: str, options: Sequence[str] = (), start_new_session: bool = False, **environment: str
) -> subprocess.Popen[bytes]:
    known = {"HOME": str(home), "PATH": os.environ["PATH"], "CC_TRACE_HOME": str(home / "state")}
    return subprocess.Popen(
        [sys.executable, "-m", "cc_trace", "run", *options, "--", *command],
        env=known | {"CC_TRACE_DESTINATIONS": "local"} | environment,
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=start_new_session,
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


@pytest.mark.parametrize(("kind", "times"), [("jsonv", "result"), ("stream", "arrival")])
def test_times_of_a_version_that_tells_none(tmp_path: Path, kind: str, times: str) -> None:
    """Those at which the messages came; an array came as one, when all was over."""
    output = RECORDINGS / f"2.0.77-hello-{kind}" / "output"
    slowly = f'while read -r line || [ "$line" ]; do sleep 0.01; printf \'%s\\n\' "$line"; done < {output}'
    assert ended(start(tmp_path, claude(tmp_path, slowly), "-p", "say hello"))[0] == 0
    (session_id,) = set(re.findall(r'"session_id": ?"([^"]+)"', output.read_text()))
    (turn,) = (span for span in read_session(tmp_path / "state" / "traces.db", session_id) if span.kind == "turn")
    assert turn.metadata["stream_times"] == times
    assert turn.start_ns is not None
    assert turn.end_ns is not None
    assert turn.start_ns < turn.end_ns


def test_stdin_is_passed_to_the_command(tmp_path: Path) -> None:
    assert ended(start(tmp_path, "cat"), b"\x00\xff\n torn") == (0, b"\x00\xff\n torn", b"")


def test_signal_death_of_the_command_is_passed_on(tmp_path: Path) -> None:
    output = RECORDINGS / "2.1.325-tools-stream" / "output"
    program = claude(tmp_path, f"head -n 3 {output}; kill -TERM $$")
    code, out, _ = ended(start(tmp_path, program, "-p", "go on"))
    assert (code, out) == (-signal.SIGTERM, b"".join(output.read_bytes().splitlines(keepends=True)[:3]))
    session_id = "02d999ad-da04-559f-b186-ff50fb34da47"
    assert next(iter(read_session(tmp_path / "state" / "traces.db", session_id))).status == "incomplete"


@pytest.mark.parametrize("name", ["TERM", "HUP", "INT"])
def test_a_signal_reaches_the_command(tmp_path: Path, name: str) -> None:
    """SIGINT too, where no terminal sends it to the command itself."""
    loop = "while :; do sleep 0.01; done"
    program = claude(tmp_path, f'trap "echo ended; exit 7" {name}; echo ready; {loop}')
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs behind it
    process = start(tmp_path, program, start_new_session=True)
    signal.signal(signal.SIGINT, before)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(getattr(signal, f"SIG{name}"))
    assert ended(process)[:2] == (7, b"ended\n")


def test_closed_stdout_ends_the_command(tmp_path: Path) -> None:
    with start(tmp_path, "yes") as process:
        assert process.stdout is not None
        assert process.stdout.read(4) == b"y\ny\n"
        process.stdout.close()
        assert process.wait(60) == -signal.SIGPIPE


@pytest.mark.parametrize("asked", [[], ["-p"]], ids=["other", "claude"])
def test_100_mb_pass_through(tmp_path: Path, asked: list[str]) -> None:
    """Byte for byte, traced or not; what is no message is skipped."""
    data = tmp_path / "data"
    data.write_bytes(os.urandom(1 << 20) * 100)
    code, out, err = ended(start(tmp_path, claude(tmp_path, f"cat {data}; exit 3"), *asked))
    assert (code, hashlib.sha256(out).digest()) == (3, hashlib.sha256(data.read_bytes()).digest())
    assert err.startswith(b"cc-trace: not traced: no transcript;" if asked else b"")


def test_100_mb_of_messages_pass_through_and_are_traced(tmp_path: Path) -> None:
    lines = (RECORDINGS / "2.1.325-hello-stream" / "output").read_bytes().splitlines(keepends=True)
    noise = b'{"type":"system","subtype":"status","text":"' + b"x" * (1 << 20) + b'"}\n'
    output = tmp_path / "output"
    output.write_bytes(lines[0] + noise * 100 + b"".join(lines[1:]))
    code, out, err = ended(start(tmp_path, claude(tmp_path, f"cat {output}"), "-p", "hi"))
    assert (code, out == output.read_bytes(), err) == (0, True, b"")
    assert [span.status for span in read_session(tmp_path / "state" / "traces.db", HELLO)] == ["ok", "ok"]


def test_non_blocking_stdout_loses_nothing(tmp_path: Path) -> None:
    """With `2>&1` stdout and stderr are one pipe, which node makes non-blocking for all who have it."""
    program = f"import os; os.set_blocking(2, False); os.execvp('head', ['head', '-c', '{1 << 23}', '/dev/zero'])"
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "CC_TRACE_HOME": str(tmp_path / "state")}
    command = [sys.executable, "-m", "cc_trace", "run", "--", sys.executable, "-c", program]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        out = process.stdout.read(1) + process.stdout.read()  # so that the pipe has been full
    assert (process.wait(60), len(out)) == (0, 1 << 23)


def test_background_processes_of_the_command_are_not_waited_for(tmp_path: Path) -> None:
    """As without us: the command's end is ours, and what comes later is still written."""
    (tmp_path / "held").touch()
    late = f"(while [ -e {tmp_path / 'held'} ]; do sleep 0.05; done; echo late) &"
    process = start(tmp_path, claude(tmp_path, f"echo early; {late} exit 5"))
    assert process.wait(60) == 5
    assert process.stdout is not None
    assert process.stdout.readline() == b"early\n"
    (tmp_path / "held").unlink()
    assert process.stdout.read() == b"late\n"
    assert ended(process)[0] == 5


def test_a_backend_that_hangs_does_not_change_how_a_run_ends(tmp_path: Path) -> None:
    output = RECORDINGS / "2.1.325-hello-stream" / "output"
    with HttpBackend() as backend:
        backend.behaviour = HANG
        settings: Any = {"CC_TRACE_DESTINATIONS": "otlp", "CC_TRACE_OTLP_ENDPOINT": backend.url}
        settings["CC_TRACE_TIMEOUT_SECONDS"] = "1"
        first = ended(start(tmp_path, claude(tmp_path, f"cat {output}; exit 4"), "-p", "hi", **settings))
        assert first == (4, output.read_bytes(), b"")
        assert backend.counts == {}
        backend.behaviour = OK
        known = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "CC_TRACE_HOME": str(tmp_path / "state")}
        later = subprocess.run(
            [sys.executable, "-m", "cc_trace", "sync"], env=known | settings, cwd=tmp_path, check=False, text=True,
            capture_output=True,
        )  # fmt: skip
        assert (later.returncode, later.stdout) == (0, f"{HELLO}: 2 spans to otlp\n"), later
        assert set(backend.counts.values()) == {1}


def test_the_output_ends_before_the_delivery_does(tmp_path: Path) -> None:
    """Who reads it need not wait for a backend."""
    output = RECORDINGS / "2.1.325-hello-stream" / "output"
    with HttpBackend() as backend:
        backend.behaviour = HANG
        settings: Any = {"CC_TRACE_DESTINATIONS": "otlp", "CC_TRACE_OTLP_ENDPOINT": backend.url}
        with start(tmp_path, claude(tmp_path, f"cat {output}"), "-p", "hi", **settings) as process:
            assert process.stdout is not None
            assert process.stdout.read() == output.read_bytes()
            assert process.poll() is None
            process.kill()


def test_several_sessions_in_one_output_are_told_apart(tmp_path: Path) -> None:
    names = ("2.1.325-hello-stream", "2.1.325-tools-stream")
    first, second = (RECORDINGS / name / "output" for name in names)
    renamed = f"sed 's/msg_0/msg_9/g; s/toolu_0/toolu_9/g' {second}"  # no two sessions have a response in common
    assert ended(start(tmp_path, claude(tmp_path, f"cat {first}; {renamed}"), "-p", "say hello"))[0] == 0
    store = tmp_path / "state" / "traces.db"
    ids = (HELLO, "02d999ad-da04-559f-b186-ff50fb34da47")
    one, two = (span for id_ in ids for span in read_session(store, id_) if span.kind == "turn")
    assert (one.input, one.status, two.input, two.status) == ("say hello", "ok", "", "ok")


def test_interleaved_stderr_stays_where_it_is(tmp_path: Path) -> None:
    """Even where both are one file, each line is in its place."""
    lines = (RECORDINGS / "2.1.325-hello-stream" / "output").read_text().splitlines()
    (tmp_path / "output").write_text("\n".join(lines) + "\n")
    program = claude(
        tmp_path, f"while read -r line; do printf '%s\\n' \"$line\"; echo noise >&2; done < {tmp_path}/output"
    )
    code, out, err = ended(start(tmp_path, program, "-p", "hi"))
    assert (code, out, err) == (0, (tmp_path / "output").read_bytes(), b"noise\n" * len(lines))
    assert [span.status for span in read_session(tmp_path / "state" / "traces.db", HELLO)] == ["ok", "ok"]


PARENT = f"00-{'a' * 32}-{'b' * 16}-01"


@pytest.mark.parametrize(("options", "seen"), [([], ""), (["--propagate"], PARENT)])
def test_a_pipelines_trace_is_joined(tmp_path: Path, options: list[str], seen: str) -> None:
    """The run hangs under the given span; what it starts is told of it only when that was asked for."""
    output = RECORDINGS / "2.1.325-hello-stream" / "output"
    program = claude(tmp_path, f'cat {output}; printf "%s" "$TRACEPARENT" >&2')
    process = start(tmp_path, program, "-p", "hi", options=options, CC_TRACE_TRACEPARENT=PARENT)
    assert ended(process)[2] == seen.encode()
    turn = next(iter(read_session(tmp_path / "state" / "traces.db", HELLO)))
    assert (turn.trace_id, turn.parent_id) == ("a" * 32, "b" * 16)


def test_a_seed_makes_the_trace_id(tmp_path: Path) -> None:
    output = RECORDINGS / "2.1.325-hello-stream" / "output"
    ended(start(tmp_path, claude(tmp_path, f"cat {output}"), "-p", "hi", CC_TRACE_SEED="build-7"))
    turn = next(iter(read_session(tmp_path / "state" / "traces.db", HELLO)))
    assert turn.trace_id == hashlib.sha256(b"build-7:1").hexdigest()[:32]


def test_there_is_nothing_to_propagate_without_a_span(tmp_path: Path) -> None:
    code, out, err = ended(start(tmp_path, "echo", "hi", options=["--propagate"]))
    assert (code, out) == (2, b"")
    assert err == b"cc-trace: --propagate needs a span to join; set CC_TRACE_TRACEPARENT\n"


@pytest.mark.parametrize(
    ("command", "known"),
    [
        ("claude -p ask", ("ask", None)),
        ("/usr/bin/claude --verbose --output-format stream-json -p ask", ("ask", None)),
        ("claude -p --output-format=stream-json --verbose ask", ("ask", None)),
        ("claude -p --allowedTools Bash Read --model opus ask", ("ask", None)),
        ("claude -p --allowedTools Bash Read -- ask", ("ask", None)),
        ("claude ask -p", ("ask", None)),
        ("claude -pc ask", ("ask", None)),
        ("claude --resume 1234 -p ask", ("ask", "1234")),
        ("claude -r -p ask", ("ask", None)),
        ("claude --resume 1234 --fork-session -p ask", ("ask", None)),
        ("claude --session-id 99 -p ask", ("ask", "99")),
        ("claude --session-id ../x -p ask", ("ask", None)),
        ("timeout 60 npx @anthropic-ai/claude-code -p ask", ("ask", None)),
        ("claude -p --output-format text", (None, None)),
        ("claude -p --model", (None, None)),
        ("make ask", (None, None)),
    ],
)
def test_prompt_and_session_are_read_from_the_command(command: str, known: tuple[str | None, str | None]) -> None:
    read = read_command(command.split())
    assert (read.prompt, read.session_id) == known


def test_a_run_that_prints_text_says_that_it_is_not_traced(tmp_path: Path) -> None:
    code, out, err = ended(start(tmp_path, claude(tmp_path, "echo Hello."), "-p", "hi"))
    assert (code, out) == (0, b"Hello.\n")
    assert err == b"cc-trace: not traced: no transcript; add --output-format stream-json --verbose\n"


@pytest.mark.parametrize("asked", [["-p", "hi"], ["--resume", HELLO, "-p", "hi"], []], ids=["new", "resumed", "script"])
def test_a_run_that_prints_text_is_traced_from_its_transcript(tmp_path: Path, asked: list[str]) -> None:
    """Whether it was told which session to use, or a script called Claude Code without our knowing how."""
    recorded = RECORDINGS / "2.1.325-hello-stream" / "transcript" / f"{HELLO}.jsonl"
    folder = tmp_path / ".claude" / "projects" / str(tmp_path).replace("/", "-").replace("_", "-").replace(".", "-")
    moved = f"sed 's#/home/user/project#{tmp_path}#' {recorded} > {folder}/{HELLO}.jsonl"
    program = claude(tmp_path, f"mkdir -p {folder}; {moved}; echo Hello.")
    assert ended(start(tmp_path, program, *asked)) == (0, b"Hello.\n", b"")
    turn, generation = read_session(tmp_path / "state" / "traces.db", HELLO)
    assert (turn.status, generation.status) == ("ok", "ok")


def test_a_transcript_written_within_a_tick_of_the_start_belongs_to_the_run(tmp_path: Path) -> None:
    """File times come from a coarser clock: they may lie some milliseconds before the time the file was written."""
    recorded = RECORDINGS / "2.1.325-hello-stream" / "transcript" / f"{HELLO}.jsonl"
    folder = tmp_path / ".claude" / "projects" / str(tmp_path).replace("/", "-").replace("_", "-").replace(".", "-")
    moved = f"sed 's#/home/user/project#{tmp_path}#' {recorded} > {folder}/{HELLO}.jsonl"
    back = f"touch -d @$(awk 'BEGIN {{ printf \"%.3f\", '$began' - 0.015 }}') {folder}/{HELLO}.jsonl"
    program = claude(tmp_path, f"began=$(date +%s.%N); mkdir -p {folder}; {moved}; {back}; echo Hello.")
    assert ended(start(tmp_path, program, "-p", "hi")) == (0, b"Hello.\n", b"")
    assert [span.status for span in read_session(tmp_path / "state" / "traces.db", HELLO)] == ["ok", "ok"]


def test_a_transcript_of_another_time_is_left_alone(tmp_path: Path) -> None:
    """A script that wrote no transcript: those that lie there already are none of its business."""
    folder = tmp_path / ".claude" / "projects" / str(tmp_path).replace("/", "-").replace("_", "-")
    shutil.copytree(RECORDINGS / "2.1.325-hello-stream" / "transcript", folder)
    assert ended(start(tmp_path, "true")) == (0, b"", b"")
    assert not (tmp_path / "state").exists()


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
