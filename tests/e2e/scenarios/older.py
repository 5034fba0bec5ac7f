"""The versions before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenario import scenario
from script import Reply, Use
from versions import PREVIOUS

from scenarios.agents import agent, steps

if TYPE_CHECKING:
    from sandbox import Sandbox


@scenario(*PREVIOUS)
def text(sandbox: Sandbox) -> None:
    """A prompt and an answer."""
    sandbox.script(hello=[Reply("Hello.")])
    assert sandbox.ask("[[hello]] say hello") == "Hello."


@scenario(*PREVIOUS)
def tools(sandbox: Sandbox) -> None:
    """Two calls in one response, one of which fails."""
    path = sandbox.home.write("a.txt", "alpha\n")
    calls = (
        Use("Read", {"file_path": str(path)}),
        Use("Bash", {"command": "echo out; exit 3", "description": "fail"}),
    )
    sandbox.script(tools=[Reply("Two things.", "Look and run.", calls), Reply("Both are done.")])
    assert sandbox.ask("[[tools]] use the tools") == "Both are done."


@scenario(*PREVIOUS)
def an_agent(sandbox: Sandbox) -> None:
    """An agent Claude Code waits for; the tool had another name in 2.0."""
    name = "Task" if sandbox.version.startswith("2.0.") else "Agent"
    sandbox.script(
        delegate=[Reply("I delegate.", uses=(agent("[[part]] go", tool=name),)), Reply("It is done.")],
        part=steps(sandbox, "part"),
    )
    assert sandbox.ask("[[delegate]] go") == "It is done."
