"""A backend that is down, refuses, is slow or hangs: the session does not notice, and nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backend import HANG, OK, REFUSE, Behaviour, status
from processes import started_in
from scenario import scenario
from script import HttpResponse
from waiting import LONG_SECONDS, until

if TYPE_CHECKING:
    from stage import Stage


def _first_in_vain(stage: Stage, behaviour: Behaviour) -> None:
    """Run a session whose turn the backend does not take, then another when it is well again."""
    stage.script(t1=[HttpResponse("Answer one.")], t2=[HttpResponse("Answer two.")])
    stage.may_be_behind = True
    stage.sink.behaviour = behaviour
    stage.ask("[[t1]] in vain")
    stage.settle()
    assert stage.sink.counts == {}
    stage.sink.behaviour = OK
    stage.let_a_minute_pass()
    stage.ask("[[t2]] another session", session=2)


@scenario()
def backend_down(stage: Stage) -> None:
    """Nobody listens."""
    _first_in_vain(stage, REFUSE)


@scenario()
def backend_refusing(stage: Stage) -> None:
    """It says that it is not available."""
    _first_in_vain(stage, status(503))


@scenario()
def backend_hanging(stage: Stage) -> None:
    """It takes a request and never answers; who waited for it would wait longer than a hook may take."""
    stage.home.settings["env"]["CC_TRACE_TIMEOUT_SECONDS"] = "6"
    _first_in_vain(stage, HANG)


@scenario()
def backend_slow(stage: Stage) -> None:
    """Claude Code has ended before the backend answers, and the worker has not."""
    stage.home.settings["env"]["CC_TRACE_TIMEOUT_SECONDS"] = str(LONG_SECONDS)
    stage.script(hello=[HttpResponse("Hello.")])
    stage.sink.hold()
    stage.ask("[[hello]] say hello")
    until(lambda: stage.sink.requests, "the backend was asked")
    assert stage.sink.counts == {}
    assert started_in(stage.home.folder), "no worker waits for the backend"
    stage.sink.release()
