"""Sessions that go on, or become other sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenario import scenario
from script import HttpResponse
from waiting import until

if TYPE_CHECKING:
    from stage import Stage


@scenario()
def continued_resumed_forked(stage: Stage) -> None:
    """What a fork copies is not sent again."""
    stage.script(**{f"t{number}": [HttpResponse(f"Answer {number}.")] for number in range(1, 7)})
    resumed = ("--resume", stage.session())
    stage.ask("[[t1]] first")
    stage.ask("[[t2]] continued", "--continue", session=None)
    stage.ask("[[t3]] resumed", *resumed, session=None)
    stage.ask("[[t4]] forked", *resumed, "--fork-session", session=None)
    stage.ask("[[t5]] after the fork", *resumed, session=None)
    stage.ask("[[t6]] the fork goes on", "--continue", session=None)


@scenario()
def continued_at_once(stage: Stage) -> None:
    """The worker of the first run's end finds the second run at work: its turn is not over because the first ended."""
    stage.hold_workers()
    stage.script(
        t1=[HttpResponse("Answer one.")],
        waits=[HttpResponse("I wait.", uses=(stage.waiting_call(),)), HttpResponse("I have waited.")],
    )
    stage.ask("[[t1]] one")
    running = stage.start("[[waits]] two", "--continue", session=None)
    until(stage.is_waiting, "the tool runs")
    stage.release_workers()
    stage.wait_for_workers()
    stage.stop_waiting()
    assert running.end().stdout == "I have waited.\n"
