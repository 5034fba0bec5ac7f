"""The versions before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenario import scenario
from script import HttpResponse, Use
from versions import PREVIOUS

from scenarios.agents import agent, steps

if TYPE_CHECKING:
    from stage import Stage


@scenario(*PREVIOUS)
def text(stage: Stage) -> None:
    """A prompt and an answer."""
    stage.script(hello=[HttpResponse("Hello.")])
    assert stage.ask("[[hello]] say hello") == "Hello."


@scenario(*PREVIOUS)
def tools(stage: Stage) -> None:
    """Two calls in one response, one of which fails."""
    path = stage.home.write("a.txt", "alpha\n")
    calls = (
        Use("Read", {"file_path": str(path)}),
        Use("Bash", {"command": "echo out; exit 3", "description": "fail"}),
    )
    stage.script(tools=[HttpResponse("Two things.", "Look and run.", calls), HttpResponse("Both are done.")])
    assert stage.ask("[[tools]] use the tools") == "Both are done."


@scenario(*PREVIOUS)
def an_agent(stage: Stage) -> None:
    """An agent Claude Code waits for; the tool had another name in 2.0."""
    name = "Task" if stage.version.startswith("2.0.") else "Agent"
    stage.script(
        delegate=[HttpResponse("I delegate.", uses=(agent("[[part]] go", tool=name),)), HttpResponse("It is done.")],
        part=steps(stage, "part"),
    )
    assert stage.ask("[[delegate]] go") == "It is done."
