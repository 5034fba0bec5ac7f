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
from arrived import Arrived
from both_ways import compare, tree
from expected import expected
from scenarios.agents import agent, steps
from script import Failure, HttpResponse, Use
from stage import Stage
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
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """A stage without our hook."""
    version: str = request.param
    processes.adopt_orphans()
    with Stage(request.node.name, tmp_path / "stage", version, claude_code.command(version)) as made:
        made.furnish(hook=False)
        yield made


current = pytest.mark.parametrize("stage", [CURRENT], indirect=True)


def call(stage: Stage, *arguments: str, stdin: bytes = b"", **environment: str) -> subprocess.Popen[bytes]:
    """Start one of our commands in the home of a stage."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cc_trace", *arguments],
        env=stage.home.environment | stage.home.settings["env"] | environment,
        cwd=stage.home.project,
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


def run(stage: Stage, prompt: str, *options: str) -> tuple[int, bytes, bytes]:
    """Run Claude Code under `cc-trace run`."""
    session = ("--session-id", stage.session())
    return ended(call(stage, "run", "--", *stage.command, "-p", prompt, *session, *options))


@dataclass(frozen=True, slots=True)
class Case:
    """A run that is played both ways; `lacks`: what docs/streams.md says that its stream does not tell."""

    prompt: str
    play: Callable[[Stage], None]
    options: tuple[str, ...] = ()
    codes: tuple[int, ...] = (0,)  # in some version
    versions: tuple[str, ...] = EVERY
    lacks: tuple[str, ...] = ()
    notified: bool = False


def _text(stage: Stage) -> None:
    stage.script(hello=[HttpResponse("Hello there.")])


def _tools(stage: Stage) -> None:
    path = stage.home.write("a.txt", "alpha\n")
    calls = (
        Use("Read", {"file_path": str(path)}),
        Use("Bash", {"command": "echo out; echo err >&2; exit 3", "description": "fail"}),
        Use("Write", {"file_path": str(path.with_name("new.txt")), "content": "written\n"}),
    )
    stage.script(tools=[HttpResponse("Three things.", "Look.", calls), HttpResponse("All are done.", "That is all.")])


def _busy(stage: Stage) -> None:
    failures = (Failure(529, "overloaded_error"), Failure(500, "api_error"))
    stage.script(busy=[HttpResponse("Now it works.", failures=failures)])


def _refused(stage: Stage) -> None:
    stage.script(refused=[HttpResponse(always=Failure(400, "invalid_request_error"))])


def _turns(stage: Stage) -> None:
    again = Use("Bash", {"command": "echo again", "description": "x"})
    stage.script(turns=[HttpResponse(uses=(again,)) for _ in range(4)])


def _agent(stage: Stage) -> None:
    tool = "Task" if stage.version.startswith("2.0.") else "Agent"
    background = None if stage.version.startswith("2.0.") else False
    launch = agent("[[part]] go", background=background, tool=tool)
    stage.script(delegate=[HttpResponse(uses=(launch,)), HttpResponse("It is done.")], part=steps(stage, "part"))


def _background(stage: Stage) -> None:
    launch = agent("[[part]] go", background=True)
    answers = [HttpResponse(uses=(launch,)), HttpResponse("It works."), HttpResponse("It has ended.")]
    stage.script(delegate=answers, part=steps(stage, "part", 1.0))


def _schema(stage: Stage) -> None:
    stage.script(data=[HttpResponse(uses=(Use("StructuredOutput", {"name": "Ann"}),))])


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
each_case = pytest.mark.parametrize(("stage", "case"), _EACH, indirect=["stage"])


def both_ways(stage: Stage, case: Case, folder: Path) -> tuple[list[Span], list[Span], bytes]:
    """Play a case; return its spans from the stream and from the transcript, and what was printed."""
    case.play(stage)
    process = stage.start(case.prompt, *STREAM, *case.options)
    done = process.end()
    assert done.code in case.codes, done
    stage.settle()
    transcript = stage.transcripts.path(stage.session())
    (made,) = convert_stream(read_messages(done.stdout.encode()), prompt=case.prompt)
    streamed = [*Session(save_stream(made, folder), ending="over").spans()]
    return streamed, [*Session(transcript, ending="over").spans()], done.stdout.encode()


@each_case
def test_both_sources_give_the_same_spans_and_each_arrives_once(stage: Stage, case: Case, tmp_path: Path) -> None:
    """Ids, parents, names; status, texts, tokens and cost where a stream has them. Whichever source comes first."""
    streamed, told, printed = both_ways(stage, case, tmp_path)
    known = [span for span in streamed if span.agent_id is None or stage.version not in case.lacks]
    compare(known, told, notified=case.notified)
    if stage.version in case.lacks:
        assert tree(streamed).items() < tree(told).items()
    else:
        assert tree(streamed) == tree(told)
    aside = tmp_path / "aside"
    for first in ("transcript", "stream"):
        before = len(stage.sink.spans)
        state: Any = {"CC_TRACE_HOME": str(tmp_path / first), "CC_TRACE_REST_SECONDS": "0"}
        sync = ("sync", "--session", stage.session())
        projects = stage.home.config / "projects"
        if first == "transcript":
            assert ended(call(stage, *sync, **state))[0] == 0
        shutil.move(projects, aside)
        code, _, err = ended(call(stage, "ingest", "--prompt", case.prompt, stdin=printed, **state))
        assert (code, err) == (0, b"")
        shutil.move(aside, projects)
        assert ended(call(stage, *sync, **state))[0] == 0
        assert ended(call(stage, "ingest", "--prompt", case.prompt, stdin=printed, **state))[0] == 0
        arrived = Counter(span.span_id.hex() for span in stage.sink.spans[before:])
        assert set(arrived.values()) == {1}
        assert set(tree(told)) <= set(arrived)


@pytest.mark.parametrize("options", [STREAM, PARTIAL, ARRAY], ids=["stream", "partial", "array"])
def test_a_run_without_persistence_is_delivered(stage: Stage, options: tuple[str, ...]) -> None:
    """From what it prints alone: prompt, texts, tools, and with partial messages all tokens."""
    _tools(stage)
    options = (*options, SESSIONLESS)
    code, out, err = run(stage, "[[tools]] use them", *options)
    assert (code, err) == (0, b"")
    assert out.startswith((b"{", b"["))
    ((turn,),) = Arrived(stage.sink.spans).turns().values()
    ((wanted,),) = expected(stage.api.exchanges, {}).values()
    assert Arrived(stage.sink.spans).twice() == []
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


def test_a_result_alone_is_delivered(stage: Stage) -> None:
    _text(stage)
    code, out, err = run(stage, "[[hello]] say hello", "--output-format", "json", SESSIONLESS)
    assert (code, err, json.loads(out)["result"]) == (0, b"", "Hello there.")
    ((turn,),) = Arrived(stage.sink.spans).turns().values()
    assert (turn.prompt, turn.output, turn.status) == ("[[hello]] say hello", "Hello there.", "ok")


def test_text_is_traced_from_the_transcript(stage: Stage) -> None:
    _tools(stage)
    assert run(stage, "[[tools]] use them") == (0, b"All are done.\n", b"")
    arrived = Arrived(stage.sink.spans)
    assert arrived.turns() == expected(stage.api.exchanges, {})
    assert arrived.twice() == []


def test_text_without_a_transcript_is_said_in_one_line(stage: Stage) -> None:
    _text(stage)
    code, out, err = run(stage, "[[hello]] say hello", SESSIONLESS)
    assert (code, out, stage.sink.counts) == (0, b"Hello there.\n", {})
    assert err == b"cc-trace: not traced: no transcript; add --output-format stream-json --verbose\n"


def test_the_hook_and_the_wrapper_deliver_once(stage: Stage) -> None:
    """Where both are there: the hook's worker and `cc-trace run` come at the same time."""
    stage.home.cc_trace("install")
    _tools(stage)
    assert run(stage, "[[tools]] use them", *STREAM)[0] == 0
    stage.settle()
    arrived = Arrived(stage.sink.spans)
    assert arrived.twice() == []
    assert arrived.turns() == expected(stage.api.exchanges, {})


@pytest.mark.parametrize("persistence", [(), (SESSIONLESS,)], ids=["transcript", "stream"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_claude_is_incomplete(stage: Stage, number: signal.Signals, persistence: tuple[str, ...]) -> None:
    """It ends as it ended without us; what it had done by then is delivered."""
    stage.script(waits=[HttpResponse("I wait.", uses=(stage.waiting_call(),)), HttpResponse("Never said.")])
    prompt, session = "[[waits]] go", ("--session-id", stage.session())
    process = call(stage, "run", "--", *stage.command, "-p", prompt, *session, *STREAM, *persistence)
    until((stage.home.project / "waiting").exists, "the tool runs")
    (pid,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(pid), number)
    code, out, err = ended(process)
    stage.stop_waiting()
    # By SIGTERM Claude Code ends itself, with the exit code that a shell gives it.
    assert (code, err) == (-9 if number == signal.SIGKILL else 143, b"")
    assert b'"type":"assistant"' in out
    stage.settle()
    ((turn,),) = Arrived(stage.sink.spans).turns().values()
    assert (turn.prompt, turn.status.partition(":")[0]) == (prompt, "incomplete")
    assert [each.text for each in turn.generations] == ["I wait."]
    assert Arrived(stage.sink.spans).twice() == []


@current
def test_an_error_keeps_its_exit_code(stage: Stage) -> None:
    _refused(stage)
    code, out, _ = run(stage, "[[refused]] go", *STREAM, SESSIONLESS)
    assert (code, json.loads(out.splitlines()[-1])["is_error"]) == (1, True)
    ((turn,),) = Arrived(stage.sink.spans).turns().values()
    assert turn.status.startswith("error: API Error: 400")


@current
def test_several_prompts_on_stdin_are_several_turns(stage: Stage) -> None:
    """`--input-format stream-json`, as the SDKs use it: a result after each."""
    stage.script(t1=[HttpResponse("Answer one.")], t2=[HttpResponse("Answer two.")])
    asked = [{"type": "user", "message": {"role": "user", "content": f"[[t{number}]] x"}} for number in (1, 2)]
    stdin = "".join(json.dumps(each) + "\n" for each in asked).encode()
    options = ("--input-format", "stream-json", *STREAM, "--replay-user-messages", SESSIONLESS)
    process = call(stage, "run", "--", *stage.command, "-p", *options, stdin=stdin)
    code, _, err = ended(process)
    assert (code, err) == (0, b"")
    (turns,) = Arrived(stage.sink.spans).turns().values()
    assert [(turn.prompt, turn.output) for turn in turns] == [
        ("[[t1]] x", "Answer one."),
        ("[[t2]] x", "Answer two."),
    ]


@current
def test_a_pipelines_trace_is_joined(stage: Stage) -> None:
    """And with `--propagate` what Claude Code starts knows of it."""
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    look = Use("Bash", {"command": 'echo "seen: $TRACEPARENT"', "description": "look"})
    stage.script(look=[HttpResponse(uses=(look,)), HttpResponse("Seen.")])
    command = (*stage.command, "-p", "[[look]] x", *STREAM)
    assert ended(call(stage, "run", "--propagate", "--", *command, CC_TRACE_TRACEPARENT=parent))[0] == 0
    assert {span.trace_id.hex() for span in stage.sink.spans} == {"a" * 32}
    assert "b" * 16 in {span.parent_span_id.hex() for span in stage.sink.spans}
    results = [facts for span in stage.sink.spans if "seen:" in (facts := str(span))]
    assert results
    assert any("a" * 32 in each for each in results)


@current
def test_reports_of_both_sources_agree(stage: Stage, tmp_path: Path) -> None:
    case = CASES["partial"]
    _, _, printed = both_ways(stage, case, tmp_path)
    (tmp_path / "run.jsonl").write_bytes(printed)
    reports = []
    for source in (str(tmp_path / "run.jsonl"), stage.session()):
        code, out, err = ended(call(stage, "report", source, "--format", "json"))
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
