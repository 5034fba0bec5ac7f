"""Claude Code in a terminal."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

from expected import Unusual
from scenario import scenario
from script import PLAN_FILE, HttpResponse, Use

if TYPE_CHECKING:
    from stage import Stage

_INTERRUPTED_TOOL: Final = "[Request interrupted by user for tool use]"
_REJECTED: Final = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
)


@scenario()
def two_turns_then_exit(stage: Stage) -> None:
    """Two prompts, /exit. A Stop alone has a turn delivered."""
    stage.script(t1=[HttpResponse("Answer one.")], t2=[HttpResponse("Answer two.")])
    with stage.terminal() as terminal:
        terminal.say_and_wait("[[t1]] one", "t1")
        stage.wait_for_turn("t1")
        terminal.say_and_wait("[[t2]] two", "t2")
        terminal.exit()


@scenario()
def next_prompt_at_once(stage: Stage) -> None:
    """The worker of the first Stop finds the second turn begun: it is not over because the first one was."""
    stage.hold_workers()
    stage.script(
        t1=[HttpResponse("Answer one.")],
        waits=[HttpResponse("I wait.", uses=(stage.waiting_call(),)), HttpResponse("I have waited.")],
    )
    with stage.terminal() as terminal:
        terminal.say_and_wait("[[t1]] one", "t1")
        terminal.say("[[waits]] two", "waits")
        terminal.wait_until(stage.is_waiting, "the tool runs")
        stage.release_workers()
        stage.wait_for_workers()
        stage.stop_waiting()
        terminal.wait_until(lambda: stage.transcripts.stops() > 1, "the second turn is over")
        terminal.exit()


@scenario()
def escape(stage: Stage) -> None:
    """Esc while an answer is streamed, and while a tool runs; then a turn that ends well."""
    stage.script(
        slow=[HttpResponse("This answer is broken\n\noff before it has come to its end.", hangs=True)],
        waits=[HttpResponse(uses=(stage.waiting_call(),)), HttpResponse("Never said.")],
        t1=[HttpResponse("Answer one.")],
    )
    stage.unusual["slow"] = Unusual.interrupted("[Request interrupted by user]")
    stage.unusual["waits"] = Unusual.interrupted(_INTERRUPTED_TOOL)
    with stage.terminal() as terminal:
        terminal.say("[[slow]] one", "slow")
        terminal.wait_for("This answer is broken")  # whole lines of it are drawn, so Claude Code has this one
        terminal.press("Escape", lambda: "Interrupted" in terminal.screen)
        terminal.say("[[waits]] two", "waits")
        terminal.wait_until(stage.is_waiting, "the tool runs")
        terminal.press("Escape", lambda: terminal.screen.count("Interrupted") > 1)
        stage.stop_waiting()
        terminal.say_and_wait("[[t1]] three", "t1")
        terminal.exit()


@scenario()
def compact_and_clear(stage: Stage) -> None:
    """/compact between two turns, then /clear: another session of the same process."""
    stage.script(**{f"t{number}": [HttpResponse(f"Answer {number}.")] for number in range(1, 5)})
    stage.unusual["t3"] = Unusual(events=("compaction",))
    with stage.terminal() as terminal:
        terminal.say_and_wait("[[t1]] one", "t1")
        terminal.say_and_wait("[[t2]] two", "t2")
        terminal.command("/compact", lambda: stage.transcripts.count(subtype="compact_boundary"))
        terminal.wait_for(r"Compacted")
        terminal.say_and_wait("[[t3]] three", "t3")
        terminal.command("/clear", lambda: "Answer 3." not in terminal.screen)
        terminal.say_and_wait("[[t4]] four", "t4")
        terminal.exit()


def _plan(stage: Stage, *, clear: bool) -> None:
    """Make a plan and accept it."""
    stage.script(
        plan=[
            HttpResponse(
                "Here is my plan.",
                "make a plan",
                (Use("Write", {"file_path": PLAN_FILE, "content": "# Plan\n\n1. Write a file [[carry_out]]\n"}),),
            ),
            HttpResponse(uses=(Use("ExitPlanMode", {}),)),
            HttpResponse(
                uses=(Use("Write", {"file_path": str(stage.home.project / "planned.txt"), "content": "x\n"}),)
            ),
            HttpResponse("The plan is carried out."),
        ],
        carry_out=[HttpResponse("Carried out in a new session.")],
    )
    stage.home.settings["showClearContextOnPlanAccept"] = clear
    with stage.terminal("--permission-mode", "plan") as terminal:
        terminal.say("[[plan]] make a plan", "plan")
        terminal.confirm("(?i)would you like to proceed", lambda: stage.transcripts.stops() > 0)
        terminal.exit()


@scenario()
def plan_accepted(stage: Stage) -> None:
    """A plan accepted, the conversation kept."""
    _plan(stage, clear=False)


@scenario()
def plan_accepted_and_cleared(stage: Stage) -> None:
    """A plan accepted, carried out in a new session: for the old one it was broken off."""
    stage.unusual["plan"] = Unusual.interrupted(_INTERRUPTED_TOOL, (_REJECTED, f"error: {_REJECTED}"))
    _plan(stage, clear=True)


@scenario()
def killed_then_another_session(stage: Stage) -> None:
    """SIGKILL while a tool runs: the next session's worker knows that it is gone, and delivers what was left behind."""
    stage.script(
        t1=[HttpResponse("Answer one.")],
        waits=[HttpResponse("I wait.", uses=(stage.waiting_call(),)), HttpResponse("Never said.")],
        t2=[HttpResponse("Answer two.")],
    )
    stage.unusual["waits"] = Unusual("incomplete: 1 tool call without a result", untold=(None, "incomplete: no result"))
    with stage.terminal() as terminal:
        terminal.say_and_wait("[[t1]] one", "t1")
        stage.wait_for_turn("t1")
        stage.wait_for_workers()
        terminal.say("[[waits]] two", "waits")
        terminal.wait_until(stage.is_waiting, "the tool runs")
        terminal.signal(signal.SIGKILL)
    stage.stop_waiting()
    stage.settle()
    stage.let_a_minute_pass()
    stage.ask("[[t2]] another session", session=2)


@scenario()
def commands(stage: Stage) -> None:
    """A slash command of the user's own, a shell command, a file mentioned."""
    stage.home.write(
        ".claude/commands/mine.md", "---\ndescription: my command\n---\n[[mine]] expanded with $ARGUMENTS\n"
    )
    stage.home.write("a.txt", "alpha\n")
    stage.script(
        mine=[HttpResponse("Answer one.")],
        printed=[HttpResponse("Answer two.")],
        file=[HttpResponse("Answer three.")],
    )
    printed = "!echo '[[printed]]'\n<bash-stdout>[[printed]]</bash-stdout><bash-stderr></bash-stderr>"
    stage.unusual["mine"] = Unusual(prompt="/mine some words")
    stage.unusual["printed"] = Unusual(prompt=printed, asked=printed)
    with stage.terminal() as terminal:
        terminal.command("/mine some words", lambda: stage.transcripts.stops() == 1)
        terminal.shell("echo '[[printed]]'", lambda: stage.transcripts.stops() == 2)
        terminal.say_and_wait("[[file]] look at @a.txt please", "file")
        terminal.exit()
