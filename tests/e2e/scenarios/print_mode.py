"""`claude -p`: text, tools, errors, signals, several at once."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

from expected import Unusual
from home import MODEL
from scenario import scenario
from script import Failure, HttpResponse, Use
from waiting import until

if TYPE_CHECKING:
    from stage import Stage

_REFUSED: Final = "API Error: 400 scripted failure"


@scenario()
def one_text_turn(stage: Stage) -> None:
    """A prompt and an answer."""
    stage.script(hello=[HttpResponse("Hello.")])
    assert stage.ask("[[hello]] say hello") == "Hello."


@scenario()
def long_texts(stage: Stage) -> None:
    """Many lines, in letters of one to four bytes, arrive whole: asked, thought, written, said."""
    asked, thought, written, said = (
        "\n".join(
            f"{name} {number}: na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve \N{CJK UNIFIED IDEOGRAPH-6587} "
            f'\N{GRINNING FACE} "quoted" \\ and\ttabbed.'
            for number in range(600)
        )
        for name in ("prompt", "thought", "file", "answer")
    )
    path = str(stage.home.project / "long.txt")
    stage.script(
        long=[
            HttpResponse(thinking=thought, uses=(Use("Write", {"file_path": path, "content": written}),)),
            HttpResponse(said),
        ]
    )
    assert stage.ask(f"[[long]] {asked}") == said


@scenario()
def thinking_and_parallel_tools(stage: Stage) -> None:
    """Thinking, text and three calls in one response, then the end."""
    path = stage.home.write("a.txt", "alpha\nbeta\n")
    calls = (
        Use("Read", {"file_path": str(path)}),
        Use("Bash", {"command": "sleep 0.3; echo done", "description": "wait"}),
        Use("Write", {"file_path": str(path.with_name("new.txt")), "content": "written\n"}),
    )
    stage.script(
        tools=[
            HttpResponse("Three things.", "Look, run, write.", calls),
            HttpResponse("All are done.", "That was all."),
        ],
    )
    assert stage.ask("[[tools]] use the tools") == "All are done."


@scenario()
def tool_errors(stage: Stage) -> None:
    """A missing file, a failing command, a tool that does not exist, a wrong input, one that is not allowed."""
    calls = (
        Use("Read", {"file_path": str(stage.home.project / "missing.txt")}),
        Use("Bash", {"command": "echo out; echo err >&2; exit 3", "description": "fail"}),
        Use("NoSuchTool", {}),
        Use("Read", {"wrong": 1}),
        Use("WebFetch", {"url": "https://example.invalid/", "prompt": "x"}),
    )
    stage.script(fails=[HttpResponse(uses=calls), HttpResponse("Errors seen.")])
    stage.ask("[[fails]] go")


@scenario()
def overloaded_then_fine(stage: Stage) -> None:
    """Two failures which Claude Code tries again after."""
    failures = (Failure(529, "overloaded_error"), Failure(500, "api_error"))
    stage.script(busy=[HttpResponse("Now it works.", failures=failures)])
    stage.unusual["busy"] = Unusual(events=("api_retry", "api_retry"))
    stage.ask("[[busy]] go")


@scenario()
def api_error(stage: Stage) -> None:
    """A request that is refused for good, in all six forms in which it is sent, after a turn that went well."""
    stage.script(hello=[HttpResponse("Hello.")], refused=[HttpResponse(always=Failure(400, "invalid_request_error"))])
    failed = f"chat {MODEL}: error: {_REFUSED}"
    events = ("api_retry", failed, *["api_retry"] * 4)  # the call begins with its first attempt
    stage.unusual["refused"] = Unusual(f"error: {_REFUSED}", events, output=_REFUSED)
    stage.ask("[[hello]] say hello")
    stage.ask("[[refused]] go", "--resume", stage.session(), session=None, code=1)


@scenario()
def terminated(stage: Stage) -> None:
    """SIGTERM while a tool runs. How the tool ended is told only if there was still time to write it."""
    stage.script(waits=[HttpResponse("I wait.", uses=(stage.waiting_call(),)), HttpResponse("Never said.")])
    running = stage.start("[[waits]] go")
    until(stage.is_waiting, "the tool runs")
    running.signal(signal.SIGTERM)
    assert running.end().code == 128 + signal.SIGTERM
    stage.stop_waiting()
    told = stage.transcripts.contain("Exit code 137")
    written = ("Exit code 137", "error: Exit code 137") if told else (None, "incomplete: no result")
    why = "no response to the last input" if told else "1 tool call without a result"
    stage.unusual["waits"] = Unusual(f"incomplete: {why}", untold=written)


@scenario()
def several_at_once(stage: Stage) -> None:
    """Four sessions in one project at the same time."""
    call = Use("Bash", {"command": "sleep 0.5; echo hi", "description": "wait"})
    stage.script(tools=[HttpResponse(uses=(call,)), HttpResponse("The end.")])
    runs = [stage.start("[[tools]] go", session=number) for number in range(1, 5)]
    assert [(e.code, e.stdout, e.stderr) for e in (run.end() for run in runs)] == [(0, "The end.\n", "")] * 4
