"""Runs of the real Claude Code both ways: from the transcript, and from what it printed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import claude_code
import processes
import pytest
from both_ways import compare, tree
from expected import expected
from received import ReceivedTraces
from sandbox import Sandbox
from scenarios.agents import agent, steps
from script import Failure, Reply, Use
from versions import CURRENT, EVERY
from waiting import LONG_SECONDS, until

from cc_trace.spans import Session, Span
from cc_trace.transcript import convert_stream, read_messages, save_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STREAM: Final = ("--output-format", "stream-json", "--verbose")
PARTIAL: Final = (*STREAM, "--include-partial-messages")
ARRAY: Final = ("--output-format", "json", "--verbose")
SESSIONLESS: Final = "--no-session-persistence"
SCHEMA: Final = json.dumps({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})


@pytest.fixture(params=EVERY)
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sandbox]:
    """A sandbox without our hook."""
    version: str = request.param
    processes.adopt_orphans()
    with Sandbox(request.node.name, tmp_path / "sandbox", version, claude_code.command(version)) as made:
        made.prepare(hook=False)
        yield made


current = pytest.mark.parametrize("sandbox", [CURRENT], indirect=True)


def call(sandbox: Sandbox, *arguments: str, stdin: bytes = b"", **environment: str) -> subprocess.Popen[bytes]:
    """Start one of our commands in the home of a sandbox."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cc_trace", *arguments],
        env=sandbox.home.environment | sandbox.home.settings["env"] | environment,
        cwd=sandbox.home.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(stdin)
    process.stdin.close()
    process.stdin = None
    return process


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    out, err = process.communicate(timeout=LONG_SECONDS)
    return process.returncode, out, err


def run(sandbox: Sandbox, prompt: str, *options: str) -> tuple[int, bytes, bytes]:
    """Run Claude Code under `cc-trace run`."""
    session = ("--session-id", sandbox.session())
    return ended(call(sandbox, "run", "--", *sandbox.command, "-p", prompt, *session, *options))


@dataclass(frozen=True, slots=True)
class Case:
    """A run that is traced both ways; `lacks`: what docs/streams.md says that its stream does not tell."""

    prompt: str
    set_script: Callable[[Sandbox], None]
    options: tuple[str, ...] = ()
    codes: tuple[int, ...] = (0,)  # in some version
    versions: tuple[str, ...] = EVERY
    lacks: tuple[str, ...] = ()
    notified: bool = False


def _text(sandbox: Sandbox) -> None:
    sandbox.script(hello=[Reply("Hello there.")])


def _tools(sandbox: Sandbox) -> None:
    path = sandbox.home.write("a.txt", "alpha\n")
    calls = (
        Use("Read", {"file_path": str(path)}),
        Use("Bash", {"command": "echo out; echo err >&2; exit 3", "description": "fail"}),
        Use("Write", {"file_path": str(path.with_name("new.txt")), "content": "written\n"}),
    )
    sandbox.script(tools=[Reply("Three things.", "Look.", calls), Reply("All are done.", "That is all.")])


def _busy(sandbox: Sandbox) -> None:
    failures = (Failure(529, "overloaded_error"), Failure(500, "api_error"))
    sandbox.script(busy=[Reply("Now it works.", failures=failures)])


def _refused(sandbox: Sandbox) -> None:
    sandbox.script(refused=[Reply(always=Failure(400, "invalid_request_error"))])


def _turns(sandbox: Sandbox) -> None:
    again = Use("Bash", {"command": "echo again", "description": "x"})
    sandbox.script(turns=[Reply(uses=(again,)) for _ in range(4)])


def _agent(sandbox: Sandbox) -> None:
    tool = "Task" if sandbox.version.startswith("2.0.") else "Agent"
    background = None if sandbox.version.startswith("2.0.") else False
    launch = agent("[[part]] go", background=background, tool=tool)
    sandbox.script(delegate=[Reply(uses=(launch,)), Reply("It is done.")], part=steps(sandbox, "part"))


def _background(sandbox: Sandbox) -> None:
    launch = agent("[[part]] go", background=True)
    answers = [Reply(uses=(launch,)), Reply("It works."), Reply("It has ended.")]
    sandbox.script(delegate=answers, part=steps(sandbox, "part", 1.0))


def _schema(sandbox: Sandbox) -> None:
    sandbox.script(data=[Reply(uses=(Use("StructuredOutput", {"name": "Ann"}),))])


CASES: Final = {
    "text": Case("[[hello]] say hello", _text),
    "partial": Case("[[tools]] use them", _tools, ("--include-partial-messages",)),
    "tools": Case("[[tools]] use them", _tools),
    "busy": Case("[[busy]] go", _busy),
    "refused": Case("[[refused]] go", _refused, codes=(1,)),
    "turns": Case("[[turns]] go", _turns, ("--max-turns", "2"), codes=(0, 1)),
    "agent": Case("[[delegate]] go", _agent, lacks=EVERY),
    "forwarded": Case("[[delegate]] go", _agent, ("--forward-subagent-text",), versions=(CURRENT,)),
    "background": Case("[[delegate]] go", _background, versions=EVERY[:2], notified=True),
    "schema": Case("[[data]] go", _schema, ("--json-schema", SCHEMA), versions=(CURRENT,)),
}
_EACH: Final = [pytest.param(v, c, id=f"{n}-{v}") for n, c in CASES.items() for v in c.versions]
each_case = pytest.mark.parametrize(("sandbox", "case"), _EACH, indirect=["sandbox"])


def both_ways(sandbox: Sandbox, case: Case, folder: Path) -> tuple[list[Span], list[Span], bytes]:
    """Play a case; return its spans from the stream and from the transcript, and what was printed."""
    case.set_script(sandbox)
    process = sandbox.start(case.prompt, *STREAM, *case.options)
    done = process.end()
    assert done.code in case.codes, done
    sandbox.settle()
    transcript = sandbox.transcripts.path(sandbox.session())
    (made,) = convert_stream(read_messages(done.stdout.encode()), prompt=case.prompt)
    streamed = [*Session(save_stream(made, folder), ending="over").spans()]
    return streamed, [*Session(transcript, ending="over").spans()], done.stdout.encode()


@each_case
def test_both_sources_give_the_same_spans_and_each_arrives_once(sandbox: Sandbox, case: Case, tmp_path: Path) -> None:
    """Ids, parents, names; status, texts, tokens and cost where a stream has them. Whichever source comes first."""
    streamed, transcribed, printed = both_ways(sandbox, case, tmp_path)
    known = [span for span in streamed if span.agent_id is None or sandbox.version not in case.lacks]
    compare(known, transcribed, notified=case.notified)
    if sandbox.version in case.lacks:
        assert tree(streamed).items() < tree(transcribed).items()
    else:
        assert tree(streamed) == tree(transcribed)
    aside = tmp_path / "aside"
    for first in ("transcript", "stream"):
        before = len(sandbox.sink.spans)
        state: Any = {"CC_TRACE_HOME": str(tmp_path / first), "CC_TRACE_REST_SECONDS": "0"}
        sync = ("sync", "--session", sandbox.session())
        projects = sandbox.home.config / "projects"
        if first == "transcript":
            assert ended(call(sandbox, *sync, **state))[0] == 0
        shutil.move(projects, aside)
        code, _, err = ended(call(sandbox, "ingest", "--prompt", case.prompt, stdin=printed, **state))
        assert (code, err) == (0, b"")
        shutil.move(aside, projects)
        assert ended(call(sandbox, *sync, **state))[0] == 0
        assert ended(call(sandbox, "ingest", "--prompt", case.prompt, stdin=printed, **state))[0] == 0
        received = Counter(span.span_id.hex() for span in sandbox.sink.spans[before:])
        assert set(received.values()) == {1}
        assert set(tree(transcribed)) <= set(received)


@pytest.mark.parametrize("options", [STREAM, PARTIAL, ARRAY], ids=["stream", "partial", "array"])
def test_a_run_without_persistence_is_delivered(sandbox: Sandbox, options: tuple[str, ...]) -> None:
    """From what it prints alone: prompt, texts, tools, and with partial messages all tokens."""
    _tools(sandbox)
    options = (*options, SESSIONLESS)
    code, out, err = run(sandbox, "[[tools]] use them", *options)
    assert (code, err) == (0, b"")
    assert out.startswith((b"{", b"["))
    ((turn,),) = ReceivedTraces(sandbox.sink.spans).turns().values()
    ((wanted,),) = expected(sandbox.api.calls, {}).values()
    assert ReceivedTraces(sandbox.sink.spans).twice() == []
    assert (turn.prompt, turn.output, turn.status) == (wanted.prompt, wanted.output, "ok")
    generations = sorted(turn.generations, key=lambda each: each.id)  # which may have one time, see docs/streams.md
    assert [(each.id, each.text, each.thinking) for each in generations] == [
        (each.id, each.text, each.thinking) for each in wanted.generations
    ]
    assert [sorted(each.calls, key=lambda call: call.id) for each in generations] == [
        [*each.calls] for each in wanted.generations
    ]
    if "--include-partial-messages" in options:
        assert [each.usage for each in generations] == [each.usage for each in wanted.generations]


def test_a_result_alone_is_delivered(sandbox: Sandbox) -> None:
    _text(sandbox)
    code, out, err = run(sandbox, "[[hello]] say hello", "--output-format", "json", SESSIONLESS)
    assert (code, err, json.loads(out)["result"]) == (0, b"", "Hello there.")
    ((turn,),) = ReceivedTraces(sandbox.sink.spans).turns().values()
    assert (turn.prompt, turn.output, turn.status) == ("[[hello]] say hello", "Hello there.", "ok")


def test_text_is_traced_from_the_transcript(sandbox: Sandbox) -> None:
    _tools(sandbox)
    assert run(sandbox, "[[tools]] use them") == (0, b"All are done.\n", b"")
    received = ReceivedTraces(sandbox.sink.spans)
    assert received.turns() == expected(sandbox.api.calls, {})
    assert received.twice() == []


def test_text_without_a_transcript_is_said_in_one_line(sandbox: Sandbox) -> None:
    _text(sandbox)
    code, out, err = run(sandbox, "[[hello]] say hello", SESSIONLESS)
    assert (code, out, sandbox.sink.counts) == (0, b"Hello there.\n", {})
    assert err == b"cc-trace: not traced: no transcript; add --output-format stream-json --verbose\n"


def test_the_hook_and_the_wrapper_deliver_once(sandbox: Sandbox) -> None:
    """Where both are there: the hook's worker and `cc-trace run` come at the same time."""
    sandbox.home.cc_trace("install")
    _tools(sandbox)
    assert run(sandbox, "[[tools]] use them", *STREAM)[0] == 0
    sandbox.settle()
    received = ReceivedTraces(sandbox.sink.spans)
    assert received.twice() == []
    assert received.turns() == expected(sandbox.api.calls, {})


@pytest.mark.parametrize("persistence", [(), (SESSIONLESS,)], ids=["transcript", "stream"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_claude_is_incomplete(sandbox: Sandbox, number: signal.Signals, persistence: tuple[str, ...]) -> None:
    """It ends as it ended without us; what it had done by then is delivered."""
    sandbox.script(waits=[Reply("I wait.", uses=(sandbox.waiting_call(),)), Reply("Never said.")])
    prompt, session = "[[waits]] go", ("--session-id", sandbox.session())
    process = call(sandbox, "run", "--", *sandbox.command, "-p", prompt, *session, *STREAM, *persistence)
    until((sandbox.home.project / "waiting").exists, "the tool runs")
    (pid,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(pid), number)
    code, out, err = ended(process)
    sandbox.stop_waiting()
    # By SIGTERM Claude Code ends itself, with the exit code that a shell gives it.
    assert (code, err) == (-9 if number == signal.SIGKILL else 143, b"")
    assert b'"type":"assistant"' in out
    sandbox.settle()
    ((turn,),) = ReceivedTraces(sandbox.sink.spans).turns().values()
    assert (turn.prompt, turn.status.partition(":")[0]) == (prompt, "incomplete")
    assert [each.text for each in turn.generations] == ["I wait."]
    assert ReceivedTraces(sandbox.sink.spans).twice() == []


@current
def test_an_error_keeps_its_exit_code(sandbox: Sandbox) -> None:
    _refused(sandbox)
    code, out, _ = run(sandbox, "[[refused]] go", *STREAM, SESSIONLESS)
    assert (code, json.loads(out.splitlines()[-1])["is_error"]) == (1, True)
    ((turn,),) = ReceivedTraces(sandbox.sink.spans).turns().values()
    assert turn.status.startswith("error: API Error: 400")


@current
def test_several_prompts_on_stdin_are_several_turns(sandbox: Sandbox) -> None:
    """`--input-format stream-json`, as the SDKs use it: a result after each."""
    sandbox.script(t1=[Reply("Answer one.")], t2=[Reply("Answer two.")])
    asked = [{"type": "user", "message": {"role": "user", "content": f"[[t{number}]] x"}} for number in (1, 2)]
    stdin = "".join(json.dumps(each) + "\n" for each in asked).encode()
    options = ("--input-format", "stream-json", *STREAM, "--replay-user-messages", SESSIONLESS)
    process = call(sandbox, "run", "--", *sandbox.command, "-p", *options, stdin=stdin)
    code, _, err = ended(process)
    assert (code, err) == (0, b"")
    (turns,) = ReceivedTraces(sandbox.sink.spans).turns().values()
    assert [(turn.prompt, turn.output) for turn in turns] == [
        ("[[t1]] x", "Answer one."),
        ("[[t2]] x", "Answer two."),
    ]


@current
def test_a_pipelines_trace_is_joined(sandbox: Sandbox) -> None:
    """And with `--propagate` what Claude Code starts knows of it."""
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    look = Use("Bash", {"command": 'echo "seen: $TRACEPARENT"', "description": "look"})
    sandbox.script(look=[Reply(uses=(look,)), Reply("Seen.")])
    command = (*sandbox.command, "-p", "[[look]] x", *STREAM)
    assert ended(call(sandbox, "run", "--propagate", "--", *command, CC_TRACE_TRACEPARENT=parent))[0] == 0
    assert {span.trace_id.hex() for span in sandbox.sink.spans} == {"a" * 32}
    assert "b" * 16 in {span.parent_span_id.hex() for span in sandbox.sink.spans}
    results = [facts for span in sandbox.sink.spans if "seen:" in (facts := str(span))]
    assert results
    assert any("a" * 32 in each for each in results)


@current
def test_reports_of_both_sources_agree(sandbox: Sandbox, tmp_path: Path) -> None:
    case = CASES["partial"]
    _, _, printed = both_ways(sandbox, case, tmp_path)
    (tmp_path / "run.jsonl").write_bytes(printed)
    reports = []
    for source in (str(tmp_path / "run.jsonl"), sandbox.session()):
        code, out, err = ended(call(sandbox, "report", source, "--format", "json"))
        assert (code, err) == (0, b"")
        reports.append(json.loads(out))
    same = (
        "session_id",
        "status",
        "answered",
        "turns",
        "tools",
        "errors",
        "tokens",
        "cost_usd",
        "files",
        "lines_added",
    )
    one, other = ({name: report[name] for name in same} for report in reports)
    assert one == other
