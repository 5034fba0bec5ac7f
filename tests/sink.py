"""A destination for tests that counts what it stored, and fails on demand."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

import orjson

from cc_trace.cli.json_output import span_json
from cc_trace.export.outcomes import Accepted, EncodedSpan, Outcome, Rejected, Retryable, Unclear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cc_trace.spans.model import Span

SinkBehaviour = Literal["ok", "down", "unclear stored", "unclear lost"]


class Sink:
    """Keeps every span it took, as bytes, and how often."""

    def __init__(self, name: str = "sink", *, queryable: bool = False) -> None:
        self.name = name
        self.idempotent = False
        self.queryable = queryable
        self.behaviour: SinkBehaviour = "ok"
        self.rejected_ids: set[str] = set()  # spans for which it answers 400
        self.taken: Counter[str] = Counter()
        self.stored: dict[str, bytes] = {}
        self.changed: list[str] = []  # ids that came again with other bytes
        self.order: list[str] = []
        self.batches: list[int] = []

    def encode(self, span: Span) -> EncodedSpan:
        data = orjson.dumps(span_json(span))
        return EncodedSpan(span.span_id, span.trace_id, len(data), data)

    def as_json(self, encoded: EncodedSpan) -> bytes:
        data: bytes = encoded.data
        return data

    def send(self, batch: Sequence[EncodedSpan]) -> Outcome:
        self.batches.append(len(batch))
        if self.behaviour == "down":
            return Retryable("connection refused")
        if self.rejected_ids & {encoded.span_id for encoded in batch}:
            return Rejected("400", "invalid span")
        if self.behaviour == "unclear lost":
            return Unclear("no response")
        for encoded in batch:
            self._store(encoded)
        return Unclear("no response") if self.behaviour == "unclear stored" else Accepted()

    def _store(self, encoded: EncodedSpan) -> None:
        if encoded.span_id in self.stored and self.stored[encoded.span_id] != encoded.data:
            self.changed.append(encoded.span_id)
        self.taken[encoded.span_id] += 1
        self.order.append(encoded.span_id)
        self.stored[encoded.span_id] = encoded.data

    def stored_ids(self, batch: Sequence[EncodedSpan]) -> frozenset[str] | None:
        if not self.queryable or self.behaviour == "down":
            return None
        return frozenset(encoded.span_id for encoded in batch) & self.stored.keys()

    def close(self) -> None:
        pass

    @property
    def twice(self) -> list[str]:
        """The spans that were taken more than once."""
        return [span for span, count in self.taken.items() if count > 1]


class Clock:
    """A time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Late(Sink):
    """Langfuse in a bad hour: a batch times out, is stored by then, and is shown `shown_after` seconds later."""

    def __init__(self, clock: Clock, name: str = "sink") -> None:
        super().__init__(name, queryable=True)
        self._clock = clock
        self.timeout, self.shown_after = 10.0, 55.0
        self._shown_at: dict[str, float] = {}

    def send(self, batch: Sequence[EncodedSpan]) -> Outcome:
        if self.behaviour.startswith("unclear"):
            self._clock.now += self.timeout
        return super().send(batch)

    def _store(self, encoded: EncodedSpan) -> None:
        super()._store(encoded)
        self._shown_at.setdefault(encoded.span_id, self._clock.now + self.shown_after)

    def stored_ids(self, batch: Sequence[EncodedSpan]) -> frozenset[str] | None:
        held = super().stored_ids(batch)
        return None if held is None else frozenset(id_ for id_ in held if self._clock.now >= self._shown_at[id_])
