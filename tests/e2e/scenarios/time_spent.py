"""Where a turn's time goes: hooks that sleep, dialogs that wait, requests that are retried."""

from __future__ import annotations

import json
import shlex
import time
from typing import TYPE_CHECKING, Final

from expected import Unusual
from scenario import scenario
from script import Failure, Reply, Use

if TYPE_CHECKING:
    from sandbox import Sandbox

_SLEEP: Final = Use("Bash", {"command": "sleep 1; touch slept", "description": "sleep"})
_ALLOW: Final = json.dumps(
    {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow", "additionalContext": "ok"}}
)


def _hook(command: str, matcher: str = "") -> list[dict[str, object]]:
    return [{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]


@scenario()
def hooks_take_time(sandbox: Sandbox) -> None:
    """With a prompt, before a call, after a response: two seconds each, and none of it is the model's or a tool's."""
    sandbox.has_other_hooks = True
    sandbox.home.settings["hooks"] = {
        "UserPromptSubmit": _hook("sleep 2; echo be brief"),
        "PreToolUse": _hook(f"sleep 2; echo {shlex.quote(_ALLOW)}", "Bash"),
        "Stop": _hook("sleep 2"),
    }
    sandbox.script(hooks=[Reply(uses=(_SLEEP,)), Reply("Done.", delay_seconds=1)])
    sandbox.unusual["hooks"] = Unusual(events=("hook", "hook", "hook"))
    sandbox.spent_ms = {"hooks": 6000, "tools": 1000, "model": 1000}
    assert sandbox.ask("[[hooks]] x") == "Done."


@scenario()
def permission_takes_time(sandbox: Sandbox) -> None:
    """The dialog is open for three seconds, twice; then the command runs for one."""
    sandbox.home.settings["permissions"] = {"allow": []}
    written = Use("Write", {"file_path": str(sandbox.home.project / "a.txt"), "content": "x\n"})
    sandbox.script(asks=[Reply(uses=(_SLEEP,)), Reply(uses=(written,)), Reply("Done.", delay_seconds=1)])
    sandbox.spent_ms = {"permission": 6000, "tools": 1000, "model": 1000}
    with sandbox.terminal() as terminal:
        terminal.say("[[asks]] x", "asks")
        for question, done in (
            ("(?i)do you want to proceed", lambda: sandbox.api.answered("asks", 1)),
            ("(?i)do you want to create", lambda: sandbox.transcripts.stops() > 0),
        ):
            terminal.wait_for(question)
            time.sleep(3)
            terminal.confirm(question, done)
        terminal.exit()


@scenario()
def retries_take_time(sandbox: Sandbox) -> None:
    """Two attempts are refused; Claude Code waits before the next ones, and that is not the model's time."""
    overloaded = Failure(529, "overloaded_error")
    sandbox.script(busy=[Reply("Done.", failures=(overloaded, overloaded), delay_seconds=1)])
    sandbox.unusual["busy"] = Unusual(events=("api_retry", "api_retry"))
    sandbox.spent_ms = {"retries": 1000, "model": 1000}
    assert sandbox.ask("[[busy]] x") == "Done."
