"""Sessions that go on, or become other sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenario import scenario
from script import Reply
from waiting import until

if TYPE_CHECKING:
    from sandbox import Sandbox


@scenario()
def continued_resumed_forked(sandbox: Sandbox) -> None:
    """What a fork copies is not sent again."""
    sandbox.script(**{f"t{number}": [Reply(f"Answer {number}.")] for number in range(1, 7)})
    resumed = ("--resume", sandbox.session())
    sandbox.ask("[[t1]] first")
    sandbox.ask("[[t2]] continued", "--continue", session=None)
    sandbox.ask("[[t3]] resumed", *resumed, session=None)
    sandbox.ask("[[t4]] forked", *resumed, "--fork-session", session=None)
    sandbox.ask("[[t5]] after the fork", *resumed, session=None)
    sandbox.ask("[[t6]] the fork goes on", "--continue", session=None)


@scenario()
def continued_at_once(sandbox: Sandbox) -> None:
    """The worker of the first run's end finds the second run at work: its turn is not over because the first ended."""
    sandbox.hold_workers()
    sandbox.script(
        t1=[Reply("Answer one.")],
        waits=[Reply("I wait.", uses=(sandbox.waiting_call(),)), Reply("I have waited.")],
    )
    sandbox.ask("[[t1]] one")
    running = sandbox.start("[[waits]] two", "--continue", session=None)
    until(sandbox.is_waiting, "the tool runs")
    sandbox.release_workers()
    sandbox.wait_for_workers()
    sandbox.stop_waiting()
    assert running.end().stdout == "I have waited.\n"
