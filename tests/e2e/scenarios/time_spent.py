"""Where a turn's time goes: hooks that sleep, dialogs that wait, requests that are retried."""

from __future__ import annotations

import json
import shlex
import time
from typing import TYPE_CHECKING, Final

from expected import Unusual
from scenario import scenario
from script import Failure, HttpResponse, Use

if TYPE_CHECKING:
    from stage import Stage

_SLEEP: Final = Use("Bash", {"command": "sleep 1; touch slept", "description": "sleep"})
_ALLOW: Final = json.dumps(
    {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow", "additionalContext": "ok"}}
)


def _hook(command: str, matcher: str = "") -> list[dict[str, object]]:
    return [{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]


@scenario()
def hooks_take_time(stage: Stage) -> None:
    """With a prompt, before a call, after a response: two seconds each, and none of it is the model's or a tool's."""
    stage.has_other_hooks = True
    stage.home.settings["hooks"] = {
        "UserPromptSubmit": _hook("sleep 2; echo be brief"),
        "PreToolUse": _hook(f"sleep 2; echo {shlex.quote(_ALLOW)}", "Bash"),
        "Stop": _hook("sleep 2"),
    }
    stage.script(hooks=[HttpResponse(uses=(_SLEEP,)), HttpResponse("Done.", delay_seconds=1)])
    stage.unusual["hooks"] = Unusual(events=("hook", "hook", "hook"))
    stage.spent_ms = {"hooks": 6000, "tools": 1000, "model": 1000}
    assert stage.ask("[[hooks]] x") == "Done."


@scenario()
def permission_takes_time(stage: Stage) -> None:
    """The dialog is open for three seconds, twice; then the command runs for one."""
    stage.home.settings["permissions"] = {"allow": []}
    written = Use("Write", {"file_path": str(stage.home.project / "a.txt"), "content": "x\n"})
    stage.script(
        asks=[HttpResponse(uses=(_SLEEP,)), HttpResponse(uses=(written,)), HttpResponse("Done.", delay_seconds=1)]
    )
    stage.spent_ms = {"permission": 6000, "tools": 1000, "model": 1000}
    with stage.terminal() as terminal:
        terminal.say("[[asks]] x", "asks")
        for question, done in (
            ("(?i)do you want to proceed", lambda: stage.api.answered("asks", 1)),
            ("(?i)do you want to create", lambda: stage.transcripts.stops() > 0),
        ):
            terminal.wait_for(question)
            time.sleep(3)
            terminal.confirm(question, done)
        terminal.exit()


@scenario()
def retries_take_time(stage: Stage) -> None:
    """Two attempts are refused; Claude Code waits before the next ones, and that is not the model's time."""
    overloaded = Failure(529, "overloaded_error")
    stage.script(busy=[HttpResponse("Done.", failures=(overloaded, overloaded), delay_seconds=1)])
    stage.unusual["busy"] = Unusual(events=("api_retry", "api_retry"))
    stage.spent_ms = {"retries": 1000, "model": 1000}
    assert stage.ask("[[busy]] x") == "Done."
