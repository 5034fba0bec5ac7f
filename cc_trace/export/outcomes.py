"""What a destination is, and the four ways in which sending to one can end.

Rule: nothing counts as delivered that a destination has not accepted. Only `Accepted` and `Rejected` move the state
forward; after `Retryable` and `Unclear` the same spans are there again at the next sync.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cc_trace.spans import Span
    from cc_trace.transcript import Media

MAX_BATCH_SPANS: Final = 512
MAX_BATCH_BYTES: Final = 4_000_000  # before compression; gRPC servers take 4 MiB by default
FIT_BYTES: Final = MAX_BATCH_BYTES - 16_000  # what one span may have: the rest is for what a request has around it


@dataclass(frozen=True, slots=True)
class EncodedSpan:
    """One span in the form its destination takes: `data` is the destination's own, `size` in bytes."""

    span_id: str
    trace_id: str
    size: int
    data: Any


@dataclass(frozen=True, slots=True)
class Accepted:
    """The destination has them. `refused` of them it took and threw away (partial success): sending again is no use."""

    refused: int = 0
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A payload that will never be taken (400, 413, 422). Halving it finds the span that is to blame."""

    status: str
    message: str


@dataclass(frozen=True, slots=True)
class Retryable:
    """Nothing is wrong with the payload: refused, unreachable, a wrong key or URL, overload. Nothing was stored."""

    message: str
    after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Unclear:
    """It was sent and no answer came: it may or may not have been stored."""

    message: str


Outcome: TypeAlias = Accepted | Rejected | Retryable | Unclear


# Of metrics: what was counted since the last time, or since counting began.
Temporality: TypeAlias = Literal["delta", "cumulative"]


class Destination(Protocol):
    """Where spans go."""

    name: str
    idempotent: bool  # taking a span twice is the same as once
    queryable: bool  # `stored_ids` can tell what the backend has; may turn out to be false when it is asked

    def encode(self, span: Span) -> EncodedSpan:
        """Return a span as it will be sent. Pure; a span larger than a batch is cut, with a marker."""

    def as_json(self, encoded: EncodedSpan) -> bytes:
        """Return what an encoded span holds as JSON, for people."""

    def send(self, batch: Sequence[EncodedSpan]) -> Outcome:
        """Send one batch and say how it ended. Never raises for anything the network or the backend does."""

    def stored_ids(self, batch: Sequence[EncodedSpan]) -> frozenset[str] | None:
        """Return which of these span ids the backend has, None where it cannot be asked, or does not answer now."""

    def close(self) -> None:
        """Let go of connections and files."""


@runtime_checkable
class EncodesInTurn(Protocol):
    """A destination that says more of a span than stands in it."""

    def encode_in_turn(
        self, span: Span, turn: Sequence[Span], find: Callable[[str], Media | None], *, may_ask: bool
    ) -> EncodedSpan:
        """Return a span as it will be sent, given all spans of its turn and what finds an image by its digest.

        `may_ask`: the backend may be asked what is needed for that. Never raises for what it answers.
        """


@runtime_checkable
class MetricsDestination(Destination, Protocol):
    """A destination that takes metrics too."""

    metrics: Temporality | None  # how it wants them; None: it is to get none

    def send_metrics(self, counts: Mapping[str, list[float]], start_ns: int, end_ns: int, session_id: str) -> Outcome:
        """Send what a session counted between two moments; see `export/metrics`. Like `send`, it never raises."""
