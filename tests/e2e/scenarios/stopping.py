"""When a turn is over: Stop hooks of others, goals, silence, data in place of words, and CI."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Final

from backend import HANG, OK
from expected import Unusual
from scenario import scenario
from script import HttpResponse, Use
from versions import CURRENT, EVERY
from waiting import LONG_SECONDS, until

if TYPE_CHECKING:
    from stage import Stage

_JSON: Final = json.dumps({"decision": "block", "reason": "go on"})
_SCHEMA: Final = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
_ECHO: Final = Use("Bash", {"command": "echo 1", "description": "x"})
_GOES_ON: Final = [
    HttpResponse(uses=(_ECHO,)),
    HttpResponse("First reply."),
    HttpResponse("Second reply.", delay_seconds=5),  # longer than a worker takes
]


def _stop_hook(stage: Stage, hook: dict[str, str], **calls: int) -> None:
    """Register a Stop hook of somebody else, which is called so often in the turns with these tags.

    The versions before the current one write nothing of it.
    """
    stage.has_other_hooks = True
    if stage.version == CURRENT:
        stage.unusual |= {tag: Unusual(events=("hook",) * count) for tag, count in calls.items()}
    stage.home.settings["hooks"] = {"Stop": [{"hooks": [hook]}]}


def _blocks_once(stage: Stage, how: str) -> dict[str, str]:
    """Return a hook that makes the model go on at its first call, and says so in this way."""
    once = shlex.quote(str(stage.home.folder / "once"))
    return {"type": "command", "command": f"[ -e {once} ] || {{ : > {once}; {how}; }}"}


@scenario(*EVERY)
def blocked(stage: Stage) -> None:
    """By its exit code, at once; then the model takes its time."""
    _stop_hook(stage, _blocks_once(stage, "echo go on >&2; exit 2"), blocked=2)
    stage.script(blocked=_GOES_ON)
    assert stage.ask("[[blocked]] x") == "Second reply."


@scenario()
def blocked_by_json(stage: Stage) -> None:
    """By what it prints."""
    _stop_hook(stage, _blocks_once(stage, f"echo {shlex.quote(_JSON)}"), blocked=2)
    stage.script(blocked=_GOES_ON)
    assert stage.ask("[[blocked]] x") == "Second reply."


@scenario()
def blocked_late(stage: Stage) -> None:
    """By a hook that runs longer than ours, and longer than the transcript is at rest."""
    _stop_hook(stage, _blocks_once(stage, "sleep 3; echo go on >&2; exit 2"), blocked=2)
    stage.script(blocked=_GOES_ON)
    assert stage.ask("[[blocked]] x") == "Second reply."


@scenario()
def blocked_interactively(stage: Stage) -> None:
    """The session goes on after the turn, and its last Stop alone has it delivered."""
    _stop_hook(stage, _blocks_once(stage, "sleep 1; echo go on >&2; exit 2"), blocked=2, t2=1)
    stage.script(blocked=_GOES_ON, t2=[HttpResponse("Answer two.")])
    with stage.terminal() as terminal:
        terminal.say("[[blocked]] x", "blocked")
        terminal.wait_for("Second reply")
        stage.wait_for_turn("blocked")
        terminal.say_and_wait("[[t2]] two", "t2")
        terminal.exit()


@scenario()
def other_hook_takes_long(stage: Stage) -> None:
    """It does not block: the turn is delivered when it has ended, while the session sits idle."""
    _stop_hook(stage, {"type": "command", "command": "sleep 3"}, t1=1)
    stage.script(t1=[HttpResponse("Answer one.")])
    with stage.terminal() as terminal:
        terminal.say("[[t1]] one", "t1")
        stage.wait_for_turn("t1")
        terminal.exit()


@scenario()
def blocked_by_a_prompt(stage: Stage) -> None:
    """A model judges whether the turn may end: first not, then it may."""
    _stop_hook(stage, {"type": "prompt", "prompt": "Is it done? $ARGUMENTS"}, judged=2)
    for said, judgement in (("Reply two", {"ok": True}), ("Reply one", {"ok": False, "reason": "not yet"})):
        answer = HttpResponse(json.dumps(judgement), delay_seconds=1.5)
        stage.api.judgements.append((f'"last_assistant_message":"{said}', answer))
    stage.script(judged=[HttpResponse("Reply one."), HttpResponse("Reply two.", delay_seconds=2)])
    assert stage.ask("[[judged]] x") == "Reply two."


@scenario()
def goal(stage: Stage) -> None:
    """Claude Code's own goal keeps the turn going once."""
    stage.has_other_hooks = True
    for active, judgement in (("true", {"ok": True}), ("false", {"ok": False, "reason": "not yet"})):
        answer = HttpResponse(json.dumps(judgement), delay_seconds=1.5)
        stage.api.judgements.append((f'"stop_hook_active":{active}', answer))
    # The feedback repeats the goal with its tag, so the script begins again.
    stage.script(goal=[HttpResponse(uses=(_ECHO,), delay_seconds=1), HttpResponse("Worked on it.", delay_seconds=2)])
    stage.unusual["goal"] = Unusual(events=("hook", "hook"), prompt="/goal [[goal]] finish the thing", repeats=True)
    assert stage.ask("/goal [[goal]] finish the thing") == "Worked on it."


@scenario()
def data_by_a_schema(stage: Stage) -> None:
    """`--json-schema`: a success, and the data is what it came to."""
    stage.home.write_config("output-styles/pirate.md", "---\nname: Pirate\ndescription: arr\n---\nSpeak so.\n")
    stage.home.settings["outputStyle"] = "Pirate"
    given = {"name": "Ann"}
    stage.script(style=[HttpResponse("Arr, done.", "arr")], data=[HttpResponse(uses=(Use("StructuredOutput", given),))])
    stage.unusual["data"] = Unusual(
        output=json.dumps(given, separators=(",", ":")), untold=("Structured output provided successfully", "ok")
    )
    stage.ask("[[style]] x", "--append-system-prompt", "be nice")
    options = ("--output-format", "json", "--json-schema", json.dumps(_SCHEMA))
    printed = json.loads(stage.ask("[[data]] x", *options, session=2))
    assert printed["structured_output"] == given


@scenario()
def silent_while_another_session_ends(stage: Stage) -> None:
    """A tool takes longer than `rest_seconds`; the other session's worker looks around, and leaves the turn alone."""
    stage.home.settings["env"]["CC_TRACE_REST_SECONDS"] = "1"
    stage.script(
        waits=[HttpResponse("I wait.", uses=(stage.waiting_call(),)), HttpResponse("I have waited.")],
        t2=[HttpResponse("Answer two.")],
    )
    running = stage.start("[[waits]] one")
    until(stage.is_waiting, "the tool runs")
    until(lambda: stage.transcripts.rested_seconds() > 2, "the transcript is at rest")
    stage.ask("[[t2]] another session", session=2)
    stage.wait_for_turn("t2")
    stage.wait_for_workers()
    stage.stop_waiting()
    assert running.end().stdout == "I have waited.\n"


def _in_ci(stage: Stage) -> None:
    stage.home.variables["CI"] = "true"
    stage.script(ci=[HttpResponse(uses=(_ECHO,)), HttpResponse("ci answer")])


@scenario()
def ci(stage: Stage) -> None:
    """The hook works in line: all is delivered when Claude Code has ended, without any worker that goes on."""
    _in_ci(stage)
    assert stage.ask("[[ci]] x") == "ci answer"
    assert stage.has_arrived("ci")


@scenario()
def ci_with_another_hook(stage: Stage) -> None:
    """The root is left to SessionEnd, which has the time it needs: the backend takes longer than 1.5 s."""
    _in_ci(stage)
    _stop_hook(stage, _blocks_once(stage, "echo go on >&2; exit 2"), ci=2)
    stage.script(ci=_GOES_ON)
    stage.sink.delay_seconds = 2.0
    assert stage.ask("[[ci]] x") == "Second reply."
    assert stage.has_arrived("ci")


@scenario()
def ci_with_a_goal(stage: Stage) -> None:
    """A goal is no hook of the settings; the turn goes on all the same."""
    stage.home.variables["CI"] = "true"
    goal(stage)


@scenario()
def ci_with_a_hanging_backend(stage: Stage) -> None:
    """Nobody waits longer than was said, and Claude Code has nothing to say of it."""
    _in_ci(stage)
    stage.home.settings["env"] |= {"CC_TRACE_WAIT_SECONDS": "2", "CC_TRACE_TIMEOUT_SECONDS": str(LONG_SECONDS)}
    stage.may_be_behind = True
    stage.sink.behaviour = HANG
    assert stage.ask("[[ci]] x") == "ci answer"
    stage.settle()
    stage.sink.behaviour = OK
    stage.home.variables.clear()
    stage.script(t2=[HttpResponse("Answer two.")])
    stage.let_a_minute_pass()
    stage.ask("[[t2]] another session", session=2)
