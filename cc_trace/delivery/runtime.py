"""What a sync works with: the process's clock and hooks for tests, and what a project's settings say."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cc_trace.export import Destination
    from cc_trace.requests import RequestContent
    from cc_trace.spans import Span

# Langfuse shows what it took only after a while; asked too early, it would seem not to have it.
UNCLEAR_SECONDS: Final = 60.0
REQUEST_SECONDS: Final = 10.0


class Advance(NamedTuple):
    """How far a delivery has got: spans and turns taken in the last batch, and up to where all is delivered."""

    to: str
    spans: int
    turns: int
    offset: int


@dataclass(slots=True)
class Runtime:
    """Clock, sleep and what else a test or a command replaces; one for all sessions of a process."""

    clock: Callable[[], float]  # unix seconds
    sleep: Callable[[float], None]
    reached: Callable[[str], None] = lambda _: None  # named steps, for tests that die there
    patient: bool = True  # leave a backend alone that asked for it; a user who calls by hand need not wait
    advanced: Callable[[Advance], None] = lambda _: None  # called after every batch
    # Whether Stop hooks besides ours may make the model go on, in the sessions of a project; in doubt they may.
    may_be_blocked: Callable[[str | None], bool] = lambda _: True
    jitter: Callable[[], float] = random.random  # the random part of a wait
    interrupted: Callable[[], bool] = lambda: False  # asked before every batch

    def why_stopped(self, deadline: float | None) -> str | None:
        """Return why nothing more is to be sent now; None where nothing speaks against it."""
        if self.interrupted():
            return "interrupted"
        return "the time allowed was over" if deadline is not None and self.clock() >= deadline else None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done with the sessions of one project."""

    destinations: tuple[Destination, ...] = ()
    outgoing: Callable[[Span, Sequence[Span]], Span] = lambda span, _: span  # what of it may leave, given its turn
    off: str | None = None  # why nothing is
    rest_seconds: float = 300.0  # a session that has not been written to for so long is over
    unclear_seconds: float = UNCLEAR_SECONDS  # after an attempt without an answer, before "not there" is believed
    addresses: Mapping[str, str] = field(default_factory=dict)  # destination -> what it shares with other projects
    request_content: RequestContent = "none"  # what of each request its span carries
    request_seconds: float = REQUEST_SECONDS  # the longest that sending a batch can take
