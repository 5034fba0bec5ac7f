"""The interface of a destination, and the four outcomes of sending to one.

Rule: nothing counts as delivered unless a destination has accepted it. Only `Accepted` and `Rejected` advance the
state; after `Retryable` and `Unclear` the next sync has the same spans again.
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
MAX_SPAN_BYTES: Final = MAX_BATCH_BYTES - 16_000  # the limit of one span; the rest is for the request around it


@dataclass(frozen=True, slots=True)
class EncodedSpan:
    """One span as encoded for its destination. `data` is in the destination's own format; `size` is in bytes."""

    span_id: str
    trace_id: str
    size: int
    data: Any


@dataclass(frozen=True, slots=True)
class Accepted:
    """The destination has the batch, except `dropped_spans` (partial success), which it would drop again."""

    dropped_spans: int = 0
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """The payload will never be accepted (400, 413, 422). Halving it finds the span at fault."""

    status: str
    message: str


@dataclass(frozen=True, slots=True)
class Retryable:
    """Nothing was stored, but the payload is fine: server unreachable or overloaded, wrong key or URL."""

    message: str
    after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Unclear:
    """It was sent but not confirmed: it may or may not have been stored."""

    message: str


Outcome: TypeAlias = Accepted | Rejected | Retryable | Unclear


# Of metrics: what was counted since the last report, or since counting began.
Temporality: TypeAlias = Literal["delta", "cumulative"]


class Destination(Protocol):
    """Something that spans can be sent to."""

    name: str
    idempotent: bool  # sending a span twice equals sending it once
    queryable: bool  # `stored_ids` works; may become false after a query

    def encode(self, span: Span) -> EncodedSpan:
        """Return a span as it will be sent. Pure; a span larger than a batch is cut, with a marker."""

    def as_json(self, encoded: EncodedSpan) -> bytes:
        """Return an encoded span as JSON, for people."""

    def send(self, batch: Sequence[EncodedSpan]) -> Outcome:
        """Send one batch and return the outcome. Never raises for anything the network or the backend does."""

    def stored_ids(self, batch: Sequence[EncodedSpan]) -> frozenset[str] | None:
        """Return which of these spans the backend has, or None if it cannot be queried or does not answer."""

    def close(self) -> None:
        """Close connections and files."""


@runtime_checkable
class EncodesWithTurn(Protocol):
    """A destination that adds to a span what it derives from its whole turn."""

    def encode_with_turn(
        self, span: Span, turn: Sequence[Span], find: Callable[[str], Media | None], *, may_query: bool
    ) -> EncodedSpan:
        """Return a span as it will be sent, given all spans of its turn and a function that finds an image by digest.

        `may_query`: the backend may be queried for this. Never raises for its answers.
        """


@runtime_checkable
class MetricsDestination(Destination, Protocol):
    """A destination that also accepts metrics."""

    metrics: Temporality | None  # the temporality to send; None: send no metrics

    def send_metrics(self, counts: Mapping[str, list[float]], start_ns: int, end_ns: int, session_id: str) -> Outcome:
        """Send a session's counts between two times (see `export/metrics`). Like `send`, it never raises."""
