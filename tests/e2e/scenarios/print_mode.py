"""`claude -p`: text, tools, errors, signals, several at once."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

from expected import Unusual
from home import MODEL
from scenario import scenario
from script import Failure, Reply, Use
from waiting import until

if TYPE_CHECKING:
    from sandbox import Sandbox

_REFUSED: Final = "API Error: 400 scripted failure"


@scenario()
def one_text_turn(sandbox: Sandbox) -> None:
    """A prompt and an answer."""
    sandbox.script(hello=[Reply("Hello.")])
    assert sandbox.ask("[[hello]] say hello") == "Hello."


@scenario()
def long_texts(sandbox: Sandbox) -> None:
    """Many lines, in letters of one to four bytes, arrive whole: asked, thought, written, said."""
    asked, thought, written, said = (
        "\n".join(
            f"{name} {number}: na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve \N{CJK UNIFIED IDEOGRAPH-6587} "
            f'\N{GRINNING FACE} "quoted" \\ and\ttabbed.'
            for number in range(600)
        )
        for name in ("prompt", "thought", "file", "answer")
    )
    path = str(sandbox.home.project / "long.txt")
    sandbox.script(
        long=[
            Reply(thinking=thought, uses=(Use("Write", {"file_path": path, "content": written}),)),
            Reply(said),
        ]
    )
    assert sandbox.ask(f"[[long]] {asked}") == said


@scenario()
def thinking_and_parallel_tools(sandbox: Sandbox) -> None:
    """Thinking, text and three calls in one response, then the end."""
    path = sandbox.home.write("a.txt", "alpha\nbeta\n")
    calls = (
        Use("Read", {"file_path": str(path)}),
        Use("Bash", {"command": "sleep 0.3; echo done", "description": "wait"}),
        Use("Write", {"file_path": str(path.with_name("new.txt")), "content": "written\n"}),
    )
    sandbox.script(
        tools=[
            Reply("Three things.", "Look, run, write.", calls),
            Reply("All are done.", "That was all."),
        ],
    )
    assert sandbox.ask("[[tools]] use the tools") == "All are done."


@scenario()
def tool_errors(sandbox: Sandbox) -> None:
    """A missing file, a failing command, a tool that does not exist, a wrong input, one that is not allowed."""
    calls = (
        Use("Read", {"file_path": str(sandbox.home.project / "missing.txt")}),
        Use("Bash", {"command": "echo out; echo err >&2; exit 3", "description": "fail"}),
        Use("NoSuchTool", {}),
        Use("Read", {"wrong": 1}),
        Use("WebFetch", {"url": "https://example.invalid/", "prompt": "x"}),
    )
    sandbox.script(fails=[Reply(uses=calls), Reply("Errors seen.")])
    sandbox.ask("[[fails]] go")


@scenario()
def overloaded_then_fine(sandbox: Sandbox) -> None:
    """Two failures which Claude Code tries again after."""
    failures = (Failure(529, "overloaded_error"), Failure(500, "api_error"))
    sandbox.script(busy=[Reply("Now it works.", failures=failures)])
    sandbox.unusual["busy"] = Unusual(events=("api_retry", "api_retry"))
    sandbox.ask("[[busy]] go")


@scenario()
def api_error(sandbox: Sandbox) -> None:
    """A request that is refused for good, in all six forms in which it is sent, after a turn that went well."""
    sandbox.script(hello=[Reply("Hello.")], refused=[Reply(always=Failure(400, "invalid_request_error"))])
    failed = f"chat {MODEL}: error: {_REFUSED}"
    events = ("api_retry", failed, *["api_retry"] * 4)  # the call begins with its first attempt
    sandbox.unusual["refused"] = Unusual(f"error: {_REFUSED}", events, output=_REFUSED)
    sandbox.ask("[[hello]] say hello")
    sandbox.ask("[[refused]] go", "--resume", sandbox.session(), session=None, code=1)


@scenario()
def terminated(sandbox: Sandbox) -> None:
    """SIGTERM while a tool runs. How the tool ended is told only if there was still time to write it."""
    sandbox.script(waits=[Reply("I wait.", uses=(sandbox.waiting_call(),)), Reply("Never said.")])
    running = sandbox.start("[[waits]] go")
    until(sandbox.is_waiting, "the tool runs")
    running.signal(signal.SIGTERM)
    assert running.end().code == 128 + signal.SIGTERM
    sandbox.stop_waiting()
    told = sandbox.transcripts.contain("Exit code 137")
    written = ("Exit code 137", "error: Exit code 137") if told else (None, "incomplete: no result")
    why = "no response to the last input" if told else "1 tool call without a result"
    sandbox.unusual["waits"] = Unusual(f"incomplete: {why}", no_result=written)


@scenario()
def several_at_once(sandbox: Sandbox) -> None:
    """Four sessions in one project at the same time."""
    call = Use("Bash", {"command": "sleep 0.5; echo hi", "description": "wait"})
    sandbox.script(tools=[Reply(uses=(call,)), Reply("The end.")])
    runs = [sandbox.start("[[tools]] go", session=number) for number in range(1, 5)]
    assert [(e.code, e.stdout, e.stderr) for e in (run.end() for run in runs)] == [(0, "The end.\n", "")] * 4
