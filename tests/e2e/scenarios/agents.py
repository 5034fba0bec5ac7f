"""Agents: in the foreground, in the background, side by side, inside one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expected import Unusual
from scenario import scenario
from script import HttpResponse, Use

if TYPE_CHECKING:
    from stage import Stage


def agent(prompt: str, *, background: bool | None = None, model: str | None = None, tool: str = "Agent") -> Use:
    """Return the call that launches an agent; what is not given Claude Code chooses by itself."""
    chosen: dict[str, bool | str] = {} if background is None else {"run_in_background": background}
    chosen |= {} if model is None else {"model": model}
    return Use(tool, {"description": "a part", "prompt": prompt, "subagent_type": "general-purpose", **chosen})


def steps(stage: Stage, name: str, seconds: float = 0.2) -> list[HttpResponse]:
    """Return the work of an agent: a command, a file, an answer."""
    path = stage.home.write(f"{name}.txt", f"{name}\n")
    return [
        HttpResponse(
            thinking="first", uses=(Use("Bash", {"command": f"sleep {seconds}; echo {name}", "description": "w"}),)
        ),
        HttpResponse(uses=(Use("Read", {"file_path": str(path)}),)),
        HttpResponse(f"{name} is done."),
    ]


@scenario()
def foreground_agent(stage: Stage) -> None:
    """Claude Code waits for the agent."""
    stage.script(
        delegate=[
            HttpResponse("I delegate.", uses=(agent("[[part]] go", background=False),)),
            HttpResponse("It is done."),
        ],
        part=steps(stage, "part"),
    )
    assert stage.ask("[[delegate]] go") == "It is done."


@scenario()
def another_model(stage: Stage) -> None:
    """An agent that another model answers."""
    call = agent("[[part]] go", background=False, model="haiku")
    stage.script(delegate=[HttpResponse(uses=(call,)), HttpResponse("It is done.")], part=steps(stage, "part"))
    assert stage.ask("[[delegate]] go") == "It is done."
    assert len({each.request.model for each in stage.api.exchanges}) == 2


@scenario()
def background_agent(stage: Stage) -> None:
    """The turn stops while the agent works, and goes on when it has ended."""
    stage.script(
        delegate=[
            HttpResponse(uses=(agent("[[part]] go", background=True),)),
            HttpResponse("It works in the background."),
            HttpResponse("It has ended."),
        ],
        part=steps(stage, "part", 2.0),
    )
    stage.unusual["delegate"] = Unusual(events=("notification",))
    assert stage.ask("[[delegate]] go").endswith("It has ended.")


@scenario()
def parallel_agents(stage: Stage) -> None:
    """Two agents that one response launched, in the foreground."""
    calls = tuple(agent(f"[[{name}]] go", background=False) for name in ("left", "right"))
    stage.script(
        delegate=[HttpResponse(uses=calls), HttpResponse("Both are done.")],
        left=steps(stage, "left"),
        right=steps(stage, "right", 0.4),
    )
    assert stage.ask("[[delegate]] go") == "Both are done."


@scenario()
def nested_agents(stage: Stage) -> None:
    """An agent that launches an agent."""
    stage.script(
        delegate=[HttpResponse(uses=(agent("[[outer]] go", background=False),)), HttpResponse("All is done.")],
        outer=[HttpResponse(uses=(agent("[[inner]] go", background=False),)), HttpResponse("outer is done.")],
        inner=steps(stage, "inner"),
    )
    assert stage.ask("[[delegate]] go") == "All is done."


@scenario()
def background_command(stage: Stage) -> None:
    """A command in the background: the turn stops, and goes on when it has ended."""
    call = Use("Bash", {"command": "sleep 2; echo done", "description": "wait", "run_in_background": True})
    stage.script(
        delegate=[
            HttpResponse(uses=(call,)),
            HttpResponse("It runs in the background."),
            HttpResponse("It has ended."),
        ],
    )
    stage.unusual["delegate"] = Unusual(events=("notification",))
    assert stage.ask("[[delegate]] go").endswith("It has ended.")
