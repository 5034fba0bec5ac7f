"""What a sync is given: the clock, callbacks, and the plan that a project's settings amount to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cc_trace.export import Destination
    from cc_trace.requests import RequestContent
    from cc_trace.spans import Span

# Langfuse shows a span some time after accepting it; asked too early, it would say that it does not have it.
UNCLEAR_SECONDS: Final = 60.0
REQUEST_SECONDS: Final = 10.0


def _random() -> float:
    import random  # noqa: PLC0415  (only failures need it)

    return random.random()  # noqa: S311


class DeliveredBatch(NamedTuple):
    """What a batch delivered: spans and turns, and the offset up to which everything is delivered now."""

    to: str
    spans: int
    turns: int
    offset: int


@dataclass(slots=True)
class Runtime:
    """The clock and the callbacks that commands and tests replace; shared by all sessions of a process."""

    clock: Callable[[], float]  # unix seconds
    sleep: Callable[[float], None]
    mark_step: Callable[[str], None] = lambda _: None  # called at named steps, for tests that die there
    # A hook or a sweep, which waits before it retries a backend that failed; False for commands that a user runs.
    in_background: bool = True
    on_batch: Callable[[DeliveredBatch], None] = lambda _: None  # called after every batch
    # Whether a Stop hook other than ours may make the model go on in a project's sessions; True if unsure.
    may_be_blocked: Callable[[str | None], bool] = lambda _: True
    metrics: bool = True  # count what is sent; not who delivers history
    jitter: Callable[[], float] = _random  # the random part of a wait
    interrupted: Callable[[], bool] = lambda: False  # asked before every batch

    def stop_reason(self, deadline: float | None) -> str | None:
        """Return why no more batches may be sent; None if they may."""
        if self.interrupted():
            return "interrupted"
        return "the time limit was reached" if deadline is not None and self.clock() >= deadline else None


class Plan(NamedTuple):
    """What to do with the sessions of one project."""

    destinations: tuple[Destination, ...] = ()
    redact: Callable[[Span, Sequence[Span]], Span] = lambda span, _: span  # span, its turn's spans -> what may leave
    why_off: str | None = None  # why the sessions are not traced
    rest_seconds: float = 300.0  # a session without a known process is over after this long without a new line
    unclear_seconds: float = UNCLEAR_SECONDS  # how long after an unclear attempt a missing span may still appear
    backoff_keys: Mapping[str, str] = {}  # destination -> its key for backing off
    request_content: RequestContent = "none"  # what a generation's span says about its request
    request_seconds: float = REQUEST_SECONDS  # the longest that sending a batch can take
