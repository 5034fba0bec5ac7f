"""What a sync is told: who asks, for what, in which world; and what it reports. Plain data."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from cc_trace.delivery import REQUEST_SECONDS, UNCLEAR_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cc_trace.delivery import Advance
    from cc_trace.destinations.outcomes import Destination
    from cc_trace.sources import HookEnvironment
    from cc_trace.spans import Anchor, Span


@dataclass(slots=True)
class World:
    """Clock, sleep and what else a test replaces."""

    clock: Callable[[], float]
    sleep: Callable[[float], None]
    reached: Callable[[str], None] = lambda _: None
    patient: bool = True  # leave a backend alone that asked for it; a user who calls by hand need not wait
    advanced: Callable[[Advance], None] = lambda _: None  # told after every batch
    # Whether Stop hooks besides ours may make the model go on, in the sessions of a project; in doubt they may.
    may_be_blocked: Callable[[str | None], bool] = lambda _: True
    jitter: Callable[[], float] = random.random  # the random part of a wait
    interrupted: Callable[[], bool] = lambda: False  # asked before every batch


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done with the sessions of one project."""

    destinations: tuple[Destination, ...] = ()
    outgoing: Callable[[Span, Sequence[Span]], Span] = lambda span, _: span  # what of it may leave, given its turn
    off: str | None = None  # why nothing is
    rest_seconds: float = 300.0  # a session that has not been written to for so long is over
    unclear_seconds: float = UNCLEAR_SECONDS  # after an attempt without an answer, before "not there" is believed
    addresses: Mapping[str, str] = field(default_factory=dict)  # destination -> what it shares with other projects
    request_seconds: float = REQUEST_SECONDS  # the longest that one request can take


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks for one certain session, and what is known from that."""

    claude_pid: int | None = None
    anchor: Anchor | None = None  # what the turns since the last sync are tied to; None: this caller does not know
    named: bool = False  # a user asks for just this session
    project: str | None = None  # whose hook it is, which knows better than the transcript
    environment: HookEnvironment | None = None  # of the hook, to be remembered with its session
    told_ns: int | None = None  # when a hook told how the session ends; what began later is not meant


NOBODY: Final = Caller()
WRITTEN_WHILE_OFF: Final = "it was written to while tracing was off"  # and so the session stays out
SENT_BY_ANOTHER: Final = "another session is sending the same spans"  # a fork, or what it was forked from


@dataclass(slots=True)
class Report:
    """What one sync of a session came to."""

    session_id: str
    sent: dict[str, int] = field(default_factory=dict)
    behind: dict[str, str] = field(default_factory=dict)  # destination -> why
    busy: bool = False
    off: str | None = None  # why it is left out
    turns: dict[str, int] = field(default_factory=dict)  # destination -> turns whose root was sent
    refused: Counter[str] = field(default_factory=Counter)  # why -> spans that a backend will never take

    def after(self, before: Report) -> Report:
        """Return this and what an earlier sync of the session came to, of which this is the rest."""
        sent, turns = Counter(before.sent), Counter(before.turns)
        sent.update(self.sent)
        turns.update(self.turns)
        return replace(self, sent=sent, turns=turns, refused=before.refused + self.refused)

    @property
    def waits(self) -> bool:
        """Tell whether all that stayed behind is what another session is sending just now."""
        return bool(self.behind) and set(self.behind.values()) == {SENT_BY_ANOTHER}

    @property
    def complete(self) -> bool:
        """Tell whether nothing stayed behind."""
        return not self.behind and not self.busy
