"""Claude Code in a terminal."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

from expected import Unusual
from scenario import scenario
from script import PLAN_FILE, Reply, Use

if TYPE_CHECKING:
    from sandbox import Sandbox

_INTERRUPTED_TOOL: Final = "[Request interrupted by user for tool use]"
_REJECTED: Final = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
)


@scenario()
def two_turns_then_exit(sandbox: Sandbox) -> None:
    """Two prompts, /exit. A Stop alone has a turn delivered."""
    sandbox.script(t1=[Reply("Answer one.")], t2=[Reply("Answer two.")])
    with sandbox.terminal() as terminal:
        terminal.say_and_wait("[[t1]] one", "t1")
        sandbox.wait_for_turn("t1")
        terminal.say_and_wait("[[t2]] two", "t2")
        terminal.exit()


@scenario()
def next_prompt_at_once(sandbox: Sandbox) -> None:
    """The worker of the first Stop finds the second turn begun: it is not over because the first one was."""
    sandbox.hold_workers()
    sandbox.script(
        t1=[Reply("Answer one.")],
        waits=[Reply("I wait.", uses=(sandbox.waiting_call(),)), Reply("I have waited.")],
    )
    with sandbox.terminal() as terminal:
        terminal.say_and_wait("[[t1]] one", "t1")
        terminal.say("[[waits]] two", "waits")
        terminal.wait_until(sandbox.is_waiting, "the tool runs")
        sandbox.release_workers()
        sandbox.wait_for_workers()
        sandbox.stop_waiting()
        terminal.wait_until(lambda: sandbox.transcripts.stops() > 1, "the second turn is over")
        terminal.exit()


@scenario()
def escape(sandbox: Sandbox) -> None:
    """Esc while an answer is streamed, and while a tool runs; then a turn that ends well."""
    sandbox.script(
        slow=[Reply("This answer is broken\n\noff before it has come to its end.", hangs=True)],
        waits=[Reply(uses=(sandbox.waiting_call(),)), Reply("Never said.")],
        t1=[Reply("Answer one.")],
    )
    sandbox.unusual["slow"] = Unusual.interrupted("[Request interrupted by user]")
    sandbox.unusual["waits"] = Unusual.interrupted(_INTERRUPTED_TOOL)
    with sandbox.terminal() as terminal:
        terminal.say("[[slow]] one", "slow")
        terminal.wait_for("This answer is broken")  # whole lines of it are drawn, so Claude Code has this one
        terminal.press("Escape", lambda: "Interrupted" in terminal.screen)
        terminal.say("[[waits]] two", "waits")
        terminal.wait_until(sandbox.is_waiting, "the tool runs")
        terminal.press("Escape", lambda: terminal.screen.count("Interrupted") > 1)
        sandbox.stop_waiting()
        terminal.say_and_wait("[[t1]] three", "t1")
        terminal.exit()


@scenario()
def compact_and_clear(sandbox: Sandbox) -> None:
    """/compact between two turns, then /clear: another session of the same process."""
    sandbox.script(**{f"t{number}": [Reply(f"Answer {number}.")] for number in range(1, 5)})
    sandbox.unusual["t3"] = Unusual(events=("compaction",))
    with sandbox.terminal() as terminal:
        terminal.say_and_wait("[[t1]] one", "t1")
        terminal.say_and_wait("[[t2]] two", "t2")
        terminal.command("/compact", lambda: sandbox.transcripts.count(subtype="compact_boundary"))
        terminal.wait_for(r"Compacted")
        terminal.say_and_wait("[[t3]] three", "t3")
        terminal.command("/clear", lambda: "Answer 3." not in terminal.screen)
        terminal.say_and_wait("[[t4]] four", "t4")
        terminal.exit()


def _plan(sandbox: Sandbox, *, clear: bool) -> None:
    """Make a plan and accept it."""
    sandbox.script(
        plan=[
            Reply(
                "Here is my plan.",
                "make a plan",
                (Use("Write", {"file_path": PLAN_FILE, "content": "# Plan\n\n1. Write a file [[carry_out]]\n"}),),
            ),
            Reply(uses=(Use("ExitPlanMode", {}),)),
            Reply(uses=(Use("Write", {"file_path": str(sandbox.home.project / "planned.txt"), "content": "x\n"}),)),
            Reply("The plan is carried out."),
        ],
        carry_out=[Reply("Carried out in a new session.")],
    )
    sandbox.home.settings["showClearContextOnPlanAccept"] = clear
    with sandbox.terminal("--permission-mode", "plan") as terminal:
        terminal.say("[[plan]] make a plan", "plan")
        terminal.confirm("(?i)would you like to proceed", lambda: sandbox.transcripts.stops() > 0)
        terminal.exit()


@scenario()
def plan_accepted(sandbox: Sandbox) -> None:
    """A plan accepted, the conversation kept."""
    _plan(sandbox, clear=False)


@scenario()
def plan_accepted_and_cleared(sandbox: Sandbox) -> None:
    """A plan accepted, carried out in a new session: for the old one it was broken off."""
    sandbox.unusual["plan"] = Unusual.interrupted(_INTERRUPTED_TOOL, (_REJECTED, f"error: {_REJECTED}"))
    _plan(sandbox, clear=True)


@scenario()
def killed_then_another_session(sandbox: Sandbox) -> None:
    """SIGKILL while a tool runs: the next session's worker knows that it is gone, and delivers what was left behind."""
    sandbox.script(
        t1=[Reply("Answer one.")],
        waits=[Reply("I wait.", uses=(sandbox.waiting_call(),)), Reply("Never said.")],
        t2=[Reply("Answer two.")],
    )
    sandbox.unusual["waits"] = Unusual(
        "incomplete: 1 tool call without a result", no_result=(None, "incomplete: no result")
    )
    with sandbox.terminal() as terminal:
        terminal.say_and_wait("[[t1]] one", "t1")
        sandbox.wait_for_turn("t1")
        sandbox.wait_for_workers()
        terminal.say("[[waits]] two", "waits")
        terminal.wait_until(sandbox.is_waiting, "the tool runs")
        terminal.signal(signal.SIGKILL)
    sandbox.stop_waiting()
    sandbox.settle()
    sandbox.let_a_minute_pass()
    sandbox.ask("[[t2]] another session", session=2)


@scenario()
def commands(sandbox: Sandbox) -> None:
    """A slash command of the user's own, a shell command, a file mentioned."""
    sandbox.home.write(
        ".claude/commands/mine.md", "---\ndescription: my command\n---\n[[mine]] expanded with $ARGUMENTS\n"
    )
    sandbox.home.write("a.txt", "alpha\n")
    sandbox.script(
        mine=[Reply("Answer one.")],
        printed=[Reply("Answer two.")],
        file=[Reply("Answer three.")],
    )
    printed = "!echo '[[printed]]'\n<bash-stdout>[[printed]]</bash-stdout><bash-stderr></bash-stderr>"
    sandbox.unusual["mine"] = Unusual(prompt="/mine some words")
    sandbox.unusual["printed"] = Unusual(prompt=printed, asked=printed)
    with sandbox.terminal() as terminal:
        terminal.command("/mine some words", lambda: sandbox.transcripts.stops() == 1)
        terminal.shell("echo '[[printed]]'", lambda: sandbox.transcripts.stops() == 2)
        terminal.say_and_wait("[[file]] look at @a.txt please", "file")
        terminal.exit()
