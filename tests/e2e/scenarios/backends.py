"""A backend that is down, refuses, is slow or hangs: the session does not notice, and nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backend import HANG, OK, REFUSE, Behaviour, status
from processes import started_in
from scenario import scenario
from script import Reply
from waiting import LONG_SECONDS, until

if TYPE_CHECKING:
    from sandbox import Sandbox


def _first_in_vain(sandbox: Sandbox, behaviour: Behaviour) -> None:
    """Run a session whose turn the backend does not take, then another when it is well again."""
    sandbox.script(t1=[Reply("Answer one.")], t2=[Reply("Answer two.")])
    sandbox.may_be_pending = True
    sandbox.sink.behaviour = behaviour
    sandbox.ask("[[t1]] in vain")
    sandbox.settle()
    assert sandbox.sink.counts == {}
    sandbox.sink.behaviour = OK
    sandbox.let_a_minute_pass()
    sandbox.ask("[[t2]] another session", session=2)


@scenario()
def backend_down(sandbox: Sandbox) -> None:
    """Nobody listens."""
    _first_in_vain(sandbox, REFUSE)


@scenario()
def backend_refusing(sandbox: Sandbox) -> None:
    """It says that it is not available."""
    _first_in_vain(sandbox, status(503))


@scenario()
def backend_hanging(sandbox: Sandbox) -> None:
    """It takes a request and never answers; who waited for it would wait longer than a hook may take."""
    sandbox.home.settings["env"]["CC_TRACE_TIMEOUT_SECONDS"] = "6"
    _first_in_vain(sandbox, HANG)


@scenario()
def backend_slow(sandbox: Sandbox) -> None:
    """Claude Code has ended before the backend answers, and the worker has not."""
    sandbox.home.settings["env"]["CC_TRACE_TIMEOUT_SECONDS"] = str(LONG_SECONDS)
    sandbox.script(hello=[Reply("Hello.")])
    sandbox.sink.hold()
    sandbox.ask("[[hello]] say hello")
    until(lambda: sandbox.sink.requests, "the backend was asked")
    assert sandbox.sink.counts == {}
    assert started_in(sandbox.home.folder), "no worker waits for the backend"
    sandbox.sink.release()
