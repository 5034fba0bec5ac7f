"""When a turn is over: Stop hooks of others, goals, silence, data in place of words, and CI."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Final

from backend import HANG, OK
from expected import Unusual
from scenario import scenario
from script import Reply, Use
from versions import CURRENT, EVERY
from waiting import LONG_SECONDS, until

if TYPE_CHECKING:
    from sandbox import Sandbox

_JSON: Final = json.dumps({"decision": "block", "reason": "go on"})
_SCHEMA: Final = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
_ECHO: Final = Use("Bash", {"command": "echo 1", "description": "x"})
_GOES_ON: Final = [
    Reply(uses=(_ECHO,)),
    Reply("First reply."),
    Reply("Second reply.", delay_seconds=5),  # longer than a worker takes
]


def _stop_hook(sandbox: Sandbox, hook: dict[str, str], **calls: int) -> None:
    """Register a Stop hook of somebody else, which is called so often in the turns with these tags.

    The versions before the current one write nothing of it.
    """
    sandbox.has_other_hooks = True
    if sandbox.version == CURRENT:
        sandbox.unusual |= {tag: Unusual(events=("hook",) * count) for tag, count in calls.items()}
    sandbox.home.settings["hooks"] = {"Stop": [{"hooks": [hook]}]}


def _blocks_once(sandbox: Sandbox, how: str) -> dict[str, str]:
    """Return a hook that makes the model go on at its first call, and says so in this way."""
    once = shlex.quote(str(sandbox.home.folder / "once"))
    return {"type": "command", "command": f"[ -e {once} ] || {{ : > {once}; {how}; }}"}


@scenario(*EVERY)
def blocked(sandbox: Sandbox) -> None:
    """By its exit code, at once; then the model takes its time."""
    _stop_hook(sandbox, _blocks_once(sandbox, "echo go on >&2; exit 2"), blocked=2)
    sandbox.script(blocked=_GOES_ON)
    assert sandbox.ask("[[blocked]] x") == "Second reply."


@scenario()
def blocked_by_json(sandbox: Sandbox) -> None:
    """By what it prints."""
    _stop_hook(sandbox, _blocks_once(sandbox, f"echo {shlex.quote(_JSON)}"), blocked=2)
    sandbox.script(blocked=_GOES_ON)
    assert sandbox.ask("[[blocked]] x") == "Second reply."


@scenario()
def blocked_late(sandbox: Sandbox) -> None:
    """By a hook that runs longer than ours, and longer than the transcript is at rest."""
    _stop_hook(sandbox, _blocks_once(sandbox, "sleep 3; echo go on >&2; exit 2"), blocked=2)
    sandbox.script(blocked=_GOES_ON)
    assert sandbox.ask("[[blocked]] x") == "Second reply."


@scenario()
def blocked_interactively(sandbox: Sandbox) -> None:
    """The session goes on after the turn, and its last Stop alone has it delivered."""
    _stop_hook(sandbox, _blocks_once(sandbox, "sleep 1; echo go on >&2; exit 2"), blocked=2, t2=1)
    sandbox.script(blocked=_GOES_ON, t2=[Reply("Answer two.")])
    with sandbox.terminal() as terminal:
        terminal.say("[[blocked]] x", "blocked")
        terminal.wait_for("Second reply")
        sandbox.wait_for_turn("blocked")
        terminal.say_and_wait("[[t2]] two", "t2")
        terminal.exit()


@scenario()
def other_hook_takes_long(sandbox: Sandbox) -> None:
    """It does not block: the turn is delivered when it has ended, while the session sits idle."""
    _stop_hook(sandbox, {"type": "command", "command": "sleep 3"}, t1=1)
    sandbox.script(t1=[Reply("Answer one.")])
    with sandbox.terminal() as terminal:
        terminal.say("[[t1]] one", "t1")
        sandbox.wait_for_turn("t1")
        terminal.exit()


@scenario()
def blocked_by_a_prompt(sandbox: Sandbox) -> None:
    """A model judges whether the turn may end: first not, then it may."""
    _stop_hook(sandbox, {"type": "prompt", "prompt": "Is it done? $ARGUMENTS"}, judged=2)
    for said, judgement in (("Reply two", {"ok": True}), ("Reply one", {"ok": False, "reason": "not yet"})):
        answer = Reply(json.dumps(judgement), delay_seconds=1.5)
        sandbox.api.judgements.append((f'"last_assistant_message":"{said}', answer))
    sandbox.script(judged=[Reply("Reply one."), Reply("Reply two.", delay_seconds=2)])
    assert sandbox.ask("[[judged]] x") == "Reply two."


@scenario()
def goal(sandbox: Sandbox) -> None:
    """Claude Code's own goal keeps the turn going once."""
    sandbox.has_other_hooks = True
    for active, judgement in (("true", {"ok": True}), ("false", {"ok": False, "reason": "not yet"})):
        answer = Reply(json.dumps(judgement), delay_seconds=1.5)
        sandbox.api.judgements.append((f'"stop_hook_active":{active}', answer))
    # The feedback repeats the goal with its tag, so the script begins again.
    sandbox.script(goal=[Reply(uses=(_ECHO,), delay_seconds=1), Reply("Worked on it.", delay_seconds=2)])
    sandbox.unusual["goal"] = Unusual(events=("hook", "hook"), prompt="/goal [[goal]] finish the thing", repeats=True)
    assert sandbox.ask("/goal [[goal]] finish the thing") == "Worked on it."


@scenario()
def data_by_a_schema(sandbox: Sandbox) -> None:
    """`--json-schema`: a success, and the data is what it came to."""
    sandbox.home.write_config("output-styles/pirate.md", "---\nname: Pirate\ndescription: arr\n---\nSpeak so.\n")
    sandbox.home.settings["outputStyle"] = "Pirate"
    given = {"name": "Ann"}
    sandbox.script(style=[Reply("Arr, done.", "arr")], data=[Reply(uses=(Use("StructuredOutput", given),))])
    sandbox.unusual["data"] = Unusual(
        output=json.dumps(given, separators=(",", ":")), no_result=("Structured output provided successfully", "ok")
    )
    sandbox.ask("[[style]] x", "--append-system-prompt", "be nice")
    options = ("--output-format", "json", "--json-schema", json.dumps(_SCHEMA))
    printed = json.loads(sandbox.ask("[[data]] x", *options, session=2))
    assert printed["structured_output"] == given


@scenario()
def silent_while_another_session_ends(sandbox: Sandbox) -> None:
    """A tool takes longer than `rest_seconds`; the other session's worker looks around, and leaves the turn alone."""
    sandbox.home.settings["env"]["CC_TRACE_REST_SECONDS"] = "1"
    sandbox.script(
        waits=[Reply("I wait.", uses=(sandbox.waiting_call(),)), Reply("I have waited.")],
        t2=[Reply("Answer two.")],
    )
    running = sandbox.start("[[waits]] one")
    until(sandbox.is_waiting, "the tool runs")
    until(lambda: sandbox.transcripts.rested_seconds() > 2, "the transcript is at rest")
    sandbox.ask("[[t2]] another session", session=2)
    sandbox.wait_for_turn("t2")
    sandbox.wait_for_workers()
    sandbox.stop_waiting()
    assert running.end().stdout == "I have waited.\n"


def _in_ci(sandbox: Sandbox) -> None:
    sandbox.home.variables["CI"] = "true"
    sandbox.script(ci=[Reply(uses=(_ECHO,)), Reply("ci answer")])


@scenario()
def ci(sandbox: Sandbox) -> None:
    """The hook works in line: all is delivered when Claude Code has ended, without any worker that goes on."""
    _in_ci(sandbox)
    assert sandbox.ask("[[ci]] x") == "ci answer"
    assert sandbox.has_arrived("ci")


@scenario()
def ci_with_another_hook(sandbox: Sandbox) -> None:
    """The root is left to SessionEnd, which has the time it needs: the backend takes longer than 1.5 s."""
    _in_ci(sandbox)
    _stop_hook(sandbox, _blocks_once(sandbox, "echo go on >&2; exit 2"), ci=2)
    sandbox.script(ci=_GOES_ON)
    sandbox.sink.delay_seconds = 2.0
    assert sandbox.ask("[[ci]] x") == "Second reply."
    assert sandbox.has_arrived("ci")


@scenario()
def ci_with_a_goal(sandbox: Sandbox) -> None:
    """A goal is no hook of the settings; the turn goes on all the same."""
    sandbox.home.variables["CI"] = "true"
    goal(sandbox)


@scenario()
def ci_with_a_hanging_backend(sandbox: Sandbox) -> None:
    """Nobody waits longer than was said, and Claude Code has nothing to say of it."""
    _in_ci(sandbox)
    sandbox.home.settings["env"] |= {"CC_TRACE_WAIT_SECONDS": "2", "CC_TRACE_TIMEOUT_SECONDS": str(LONG_SECONDS)}
    sandbox.may_be_pending = True
    sandbox.sink.behaviour = HANG
    assert sandbox.ask("[[ci]] x") == "ci answer"
    sandbox.settle()
    sandbox.sink.behaviour = OK
    sandbox.home.variables.clear()
    sandbox.script(t2=[Reply("Answer two.")])
    sandbox.let_a_minute_pass()
    sandbox.ask("[[t2]] another session", session=2)
