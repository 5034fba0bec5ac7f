"""`Tracer`, on messages as the SDKs give them; `tests/e2e` has the SDKs themselves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from backend import HANG, OK, HttpBackend

import cc_trace
from cc_trace import Tracer
from cc_trace.store import read_session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

RECORDINGS = Path(__file__).parent / "transcript" / "stream" / "recordings"
HELLO = "eb4e4d28-e60d-506b-af76-2518e00dee3b"


# As the Python SDK has them; it tells them apart by their classes.


@dataclass
class TextBlock:
    """Words."""

    text: str


@dataclass
class ToolUseBlock:
    """A call."""

    id: str
    name: str
    input: dict[str, Any]


@dataclass
class ToolResultBlock:
    """Its result."""

    tool_use_id: str
    content: str | list[dict[str, Any]] | None = None
    is_error: bool | None = None


@dataclass
class SystemMessage:
    """It keeps all that was said."""

    subtype: str
    data: dict[str, Any]


@dataclass
class AssistantMessage:
    """A part of a response."""

    content: list[Any]
    model: str
    parent_tool_use_id: str | None = None
    usage: dict[str, Any] | None = None
    message_id: str | None = None
    stop_reason: str | None = None
    session_id: str | None = None
    uuid: str | None = None


@dataclass
class UserMessage:
    """A prompt, or results."""

    content: str | list[Any]
    uuid: str | None = None
    parent_tool_use_id: str | None = None
    tool_use_result: dict[str, Any] | None = None


@dataclass
class ResultMessage:
    """The end of a run."""

    subtype: str
    duration_ms: int
    is_error: bool
    num_turns: int
    session_id: str
    result: str | None = None
    total_cost_usd: float | None = None
    usage: dict[str, Any] | None = None
    model_usage: dict[str, Any] | None = field(default=None)


@dataclass
class StreamEvent:
    """A piece of a response."""

    uuid: str
    session_id: str
    event: dict[str, Any]
    parent_tool_use_id: str | None = None


def usage(output: int) -> dict[str, int]:
    return {"input_tokens": 10, "output_tokens": output}


def messages(session_id: str = HELLO, name: str = "m") -> list[object]:
    """A run with a tool, as the Python SDK tells of it."""
    call = ToolUseBlock(f"toolu_{name}", "Bash", {"command": "ls"})
    data = {"type": "system", "subtype": "init", "session_id": session_id, "cwd": "/p", "tools": ["Bash"]}
    return [
        SystemMessage("init", data),
        AssistantMessage([call], "claude-sonnet-4-5", None, usage(1), f"{name}_1", None, session_id, f"{name}u1"),
        StreamEvent("e1", session_id, {"type": "content_block_delta", "delta": {"text": "x"}}),
        UserMessage([ToolResultBlock(call.id, "a.txt")], f"{name}u2"),
        AssistantMessage(
            [TextBlock("One file.")], "claude-sonnet-4-5", None, usage(5), f"{name}_2", "end_turn", session_id
        ),
        ResultMessage("success", 20, is_error=False, num_turns=2, session_id=session_id, total_cost_usd=0.5),
    ]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CC_TRACE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CC_TRACE_DESTINATIONS", "local")
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return tmp_path / "state"


def kinds(state: Path, session_id: str = HELLO) -> list[tuple[str, str]]:
    return sorted((span.kind, span.status) for span in read_session(state / "traces.db", session_id))


WHOLE = [("generation", "ok"), ("generation", "ok"), ("tool", "ok"), ("turn", "ok")]


def test_a_run_of_the_python_sdk(state: Path) -> None:
    with Tracer("list the files") as tracer:
        assert list(tracer.watch(given := messages())) == given
    spans = {span.kind: span for span in read_session(state / "traces.db", HELLO)}
    assert kinds(state) == WHOLE
    turn, tool = spans["turn"], spans["tool"]
    assert (turn.input, turn.output, turn.metadata["stream_times"]) == ("list the files", "One file.", "arrival")
    assert (tool.name, tool.output) == ("Bash", "a.txt")
    assert turn.metadata["run"] == {
        "tools": ["Bash"],
        "result": "success",
        "is_error": False,
        "num_turns": 2,
        "duration_ms": 20,
        "total_cost_usd": 0.5,
    }


def test_dicts_are_messages_too(state: Path) -> None:
    """As `query` of the TypeScript SDK yields them."""
    output = (RECORDINGS / "2.1.325-tools-partial" / "output").read_text()
    with Tracer() as tracer:
        for line in output.splitlines():
            tracer.add(json.loads(line))
    spans = read_session(state / "traces.db", json.loads(output.splitlines()[0])["session_id"])
    assert sorted((span.kind, span.status) for span in spans) == sorted([*WHOLE, ("tool", "ok"), ("tool", "ok")])


@pytest.mark.parametrize("outer", ["with", "async with"])
def test_an_asynchronous_stream(outer: str, state: Path) -> None:
    async def query() -> AsyncIterator[object]:
        for message in messages():
            await asyncio.sleep(0)
            yield message

    async def main() -> list[object]:
        if outer == "with":
            with Tracer("x") as tracer:
                return [message async for message in tracer.watch(query())]
        async with Tracer("x") as tracer:
            return [message async for message in tracer.watch(query())]

    assert asyncio.run(main()) == messages()
    assert kinds(state) == WHOLE


def test_leaving_the_loop_early_closes_nothing() -> None:
    """A client's stream goes on after a `break`, as it would without us; `aclosing` closes it."""
    closed: list[str] = []

    async def stream() -> AsyncIterator[int]:
        try:
            for number in range(4):
                yield number
        finally:
            closed.append("closed")

    async def main() -> list[int]:
        numbers, seen = stream(), []
        tracer = Tracer()
        async for number in tracer.watch(numbers):
            seen.append(number)
            break
        async for number in tracer.watch(numbers):
            seen.append(number)
            break
        assert closed == []
        async with contextlib.aclosing(tracer.watch(numbers)):  # type: ignore[type-var]
            pass
        assert closed == ["closed"]
        return seen

    assert asyncio.run(main()) == [0, 1]


def test_many_sessions_in_one_process(state: Path) -> None:
    """In tasks and in threads, at the same time."""
    ids = [f"session-{number}" for number in range(6)]

    async def run(session_id: str) -> None:
        async with Tracer("x") as tracer:
            for message in messages(session_id, session_id):
                tracer.add(message)
                await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*map(run, ids[:3]))

    def work(session_id: str) -> None:
        with Tracer("x") as tracer:
            list(tracer.watch(messages(session_id, session_id)))

    threads = [threading.Thread(target=work, args=(id_,)) for id_ in ids[3:]]
    for thread in threads:
        thread.start()
    asyncio.run(main())
    for thread in threads:
        thread.join()
    assert [kinds(state, id_) for id_ in ids] == [WHOLE] * 6


def test_a_longer_session_is_traced_prompt_by_prompt(state: Path) -> None:
    for number in (1, 2):
        with Tracer(f"prompt {number}") as tracer:
            list(tracer.watch(messages(HELLO, f"m{number}")))
    turns = [span for span in read_session(state / "traces.db", HELLO) if span.kind == "turn"]
    assert sorted((turn.name, turn.input) for turn in turns) == [("Turn 1", "prompt 1"), ("Turn 2", "prompt 2")]


def test_turns_of_one_stream_are_told_apart(state: Path) -> None:
    """Also where nobody tells what was asked."""
    with Tracer() as tracer:
        for number in (1, 2):
            list(tracer.watch(messages(HELLO, f"m{number}")))
    assert kinds(state) == sorted(WHOLE * 2)


def test_half_of_a_surrogate_pair_costs_no_turn(state: Path) -> None:
    """The SDK keeps one that a tool's output was cut within."""
    told = messages()
    with Tracer("half \ud83d") as tracer:
        list(tracer.watch(told))
    (turn,) = [span for span in read_session(state / "traces.db", HELLO) if span.kind == "turn"]
    assert turn.input == "half \ufffd"


def test_a_run_that_breaks_off_is_incomplete(state: Path) -> None:
    """And the exception is the program's own."""

    def work() -> None:
        with Tracer("x") as tracer:
            for number, _ in enumerate(tracer.watch(messages())):
                if number == 3:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert ("turn", "incomplete") in kinds(state)


@pytest.mark.parametrize("message", [None, 3, "text", object(), {"a": 1}, {"type": 3}, [messages()[0]]])
def test_what_is_no_message_is_named_once(message: object, state: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Tracer("x") as tracer:
        list(tracer.watch([*messages(), message, message]))
    assert [record.getMessage() for record in caplog.records] == [
        f"a {type(message).__name__} is not traced: it is not a Claude Code message"
    ]
    assert kinds(state) == WHOLE


class Hostile:
    """Raises at whatever is asked of it."""

    def __getattr__(self, name: str) -> object:
        """Raise."""
        raise RuntimeError(name)


def test_a_message_that_raises_is_the_tracers_problem(state: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Tracer("x") as tracer:
        tracer.add(Hostile())
        list(tracer.watch(messages()))
    assert "a Hostile is not traced: RuntimeError: data" in caplog.text
    assert kinds(state) == WHOLE


@pytest.mark.parametrize(
    ("variable", "value"), [("CC_TRACE_DESTINATIONS", "nowhere"), ("CC_TRACE_HOME", "/proc/none"), ("HOME", "")]
)
@pytest.mark.usefixtures("state")
def test_wrong_settings_are_a_warning(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(variable, value)
    with Tracer("x") as tracer:
        assert list(tracer.watch(messages())) == messages()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert caplog.records[0].getMessage().startswith("not traced: ")


@pytest.mark.usefixtures("state")
def test_a_backend_that_hangs_is_waited_for_within_bounds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And what it did not take then is delivered later, once."""
    with HttpBackend() as backend:
        backend.behaviour = HANG
        monkeypatch.setenv("CC_TRACE_DESTINATIONS", "otlp")
        monkeypatch.setenv("CC_TRACE_OTLP_ENDPOINT", backend.url)
        monkeypatch.setenv("CC_TRACE_TIMEOUT_SECONDS", "3")
        with Tracer("x", wait_seconds=0.1) as tracer:
            list(tracer.watch(messages()))
        late = "some spans are still pending; `cc-trace sync` delivers them"
        assert late in caplog.text or "pending for otlp: the time limit was reached" in caplog.text
        for thread in threading.enumerate():
            if thread.name == "cc-trace":
                thread.join()
        backend.behaviour = OK
        assert backend.counts == {}
        subprocess.run([sys.executable, "-m", "cc_trace", "sync"], check=True, env=dict(os.environ), stdout=-3)
        assert [*backend.counts.values()] == [1] * 4


def test_a_session_with_a_transcript_is_delivered_from_that(state: Path, tmp_path: Path) -> None:
    """It tells more: its prompt, final counts. Nothing is sent twice."""
    recorded = RECORDINGS / "2.1.325-tools-stream"
    folder = tmp_path / ".claude" / "projects" / "-home-user-project"
    folder.mkdir(parents=True)
    (transcript,) = (recorded / "transcript").glob("*.jsonl")
    (folder / transcript.name).write_bytes(transcript.read_bytes())
    with Tracer() as tracer:
        for line in (recorded / "output").read_text().splitlines():
            tracer.add(json.loads(line))
    (turn,) = (span for span in read_session(state / "traces.db", transcript.stem) if span.kind == "turn")
    assert turn.input == (recorded / "prompt").read_text()
    assert not (state / "streams").exists()


def test_a_transcript_without_this_run_is_not_enough(state: Path, tmp_path: Path) -> None:
    """A session resumed with `--no-session-persistence`: its file has only what was before."""
    recorded = RECORDINGS / "2.1.325-hello-stream"
    folder = tmp_path / ".claude" / "projects" / "-home-user-project"
    folder.mkdir(parents=True)
    (folder / f"{HELLO}.jsonl").write_bytes((recorded / "transcript" / f"{HELLO}.jsonl").read_bytes())
    with Tracer("go on") as tracer:
        list(tracer.watch(messages(HELLO, "later")))
    turns = [span.input for span in read_session(state / "traces.db", HELLO) if span.kind == "turn"]
    assert sorted(map(str, turns)) == sorted([(recorded / "prompt").read_text(), "go on"])


def test_importing_the_package_imports_nothing_else() -> None:
    """The hook's interpreter passes there."""
    script = "import sys; known = set(sys.modules); import cc_trace; print(*sorted(set(sys.modules) - known))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["cc_trace"]


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        _ = cc_trace.Other


def test_types_pass_through(tmp_path: Path) -> None:
    """For who checks types: a message keeps its type, in both kinds of streams."""
    program = """
from collections.abc import AsyncIterator
from cc_trace import Tracer

async def numbers() -> AsyncIterator[int]:
    yield 1

async def main() -> None:
    async with Tracer("x", wait_seconds=1) as tracer:
        async for number in tracer.watch(numbers()):
            reveal_type(number)
        for text in tracer.watch(["a"]):
            reveal_type(text)
        reveal_type(tracer)
"""
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    told = [
        line.partition("Revealed type is ")[2].strip('"') for line in done.stdout.splitlines() if "Revealed" in line
    ]
    assert [each.removeprefix("builtins.") for each in told] == ["int", "str", "cc_trace.tracer.Tracer"], done.stdout
