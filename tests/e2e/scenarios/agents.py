"""Agents: in the foreground, in the background, side by side, inside one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expected import Unusual
from scenario import scenario
from script import Reply, Use

if TYPE_CHECKING:
    from sandbox import Sandbox


def agent(prompt: str, *, background: bool | None = None, model: str | None = None, tool: str = "Agent") -> Use:
    """Return the call that launches an agent; what is not given Claude Code chooses by itself."""
    chosen: dict[str, bool | str] = {} if background is None else {"run_in_background": background}
    chosen |= {} if model is None else {"model": model}
    return Use(tool, {"description": "a part", "prompt": prompt, "subagent_type": "general-purpose", **chosen})


def steps(sandbox: Sandbox, name: str, seconds: float = 0.2) -> list[Reply]:
    """Return the work of an agent: a command, a file, an answer."""
    path = sandbox.home.write(f"{name}.txt", f"{name}\n")
    return [
        Reply(thinking="first", uses=(Use("Bash", {"command": f"sleep {seconds}; echo {name}", "description": "w"}),)),
        Reply(uses=(Use("Read", {"file_path": str(path)}),)),
        Reply(f"{name} is done."),
    ]


@scenario()
def foreground_agent(sandbox: Sandbox) -> None:
    """Claude Code waits for the agent."""
    sandbox.script(
        delegate=[
            Reply("I delegate.", uses=(agent("[[part]] go", background=False),)),
            Reply("It is done."),
        ],
        part=steps(sandbox, "part"),
    )
    assert sandbox.ask("[[delegate]] go") == "It is done."


@scenario()
def another_model(sandbox: Sandbox) -> None:
    """An agent that another model answers."""
    call = agent("[[part]] go", background=False, model="haiku")
    sandbox.script(delegate=[Reply(uses=(call,)), Reply("It is done.")], part=steps(sandbox, "part"))
    assert sandbox.ask("[[delegate]] go") == "It is done."
    assert len({each.request.model for each in sandbox.api.calls}) == 2


@scenario()
def background_agent(sandbox: Sandbox) -> None:
    """The turn stops while the agent works, and goes on when it has ended."""
    sandbox.script(
        delegate=[
            Reply(uses=(agent("[[part]] go", background=True),)),
            Reply("It works in the background."),
            Reply("It has ended."),
        ],
        part=steps(sandbox, "part", 2.0),
    )
    sandbox.unusual["delegate"] = Unusual(events=("notification",))
    assert sandbox.ask("[[delegate]] go").endswith("It has ended.")


@scenario()
def parallel_agents(sandbox: Sandbox) -> None:
    """Two agents that one response launched, in the foreground."""
    calls = tuple(agent(f"[[{name}]] go", background=False) for name in ("left", "right"))
    sandbox.script(
        delegate=[Reply(uses=calls), Reply("Both are done.")],
        left=steps(sandbox, "left"),
        right=steps(sandbox, "right", 0.4),
    )
    assert sandbox.ask("[[delegate]] go") == "Both are done."


@scenario()
def nested_agents(sandbox: Sandbox) -> None:
    """An agent that launches an agent."""
    sandbox.script(
        delegate=[Reply(uses=(agent("[[outer]] go", background=False),)), Reply("All is done.")],
        outer=[Reply(uses=(agent("[[inner]] go", background=False),)), Reply("outer is done.")],
        inner=steps(sandbox, "inner"),
    )
    assert sandbox.ask("[[delegate]] go") == "All is done."


@scenario()
def background_command(sandbox: Sandbox) -> None:
    """A command in the background: the turn stops, and goes on when it has ended."""
    call = Use("Bash", {"command": "sleep 2; echo done", "description": "wait", "run_in_background": True})
    sandbox.script(
        delegate=[
            Reply(uses=(call,)),
            Reply("It runs in the background."),
            Reply("It has ended."),
        ],
    )
    sandbox.unusual["delegate"] = Unusual(events=("notification",))
    assert sandbox.ask("[[delegate]] go").endswith("It has ended.")
