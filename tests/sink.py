"""A destination for tests that counts what it stored, and fails as it is told."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

import orjson

from cc_trace.cli.json_output import span_json
from cc_trace.export.outcomes import Accepted, EncodedSpan, Outcome, Rejected, Retryable, Unclear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cc_trace.spans.model import Span

Mood = Literal["ok", "down", "unclear stored", "unclear lost"]


class Sink:
    """Keeps every span it took, as bytes, and how often."""

    def __init__(self, name: str = "sink", *, queryable: bool = False) -> None:
        self.name = name
        self.idempotent = False
        self.queryable = queryable
        self.mood: Mood = "ok"
        self.poison: set[str] = set()  # span ids it refuses for good
        self.taken: Counter[str] = Counter()
        self.stored: dict[str, bytes] = {}
        self.changed: list[str] = []  # ids that came again with other bytes
        self.order: list[str] = []
        self.batches: list[int] = []

    def encode(self, span: Span) -> EncodedSpan:
        data = orjson.dumps(span_json(span))
        return EncodedSpan(span.span_id, span.trace_id, len(data), data)

    def as_json(self, parcel: EncodedSpan) -> bytes:
        data: bytes = parcel.data
        return data

    def send(self, parcels: Sequence[EncodedSpan]) -> Outcome:
        self.batches.append(len(parcels))
        if self.mood == "down":
            return Retryable("connection refused")
        if self.poison & {parcel.span_id for parcel in parcels}:
            return Rejected("400", "a span is not to its taste")
        if self.mood == "unclear lost":
            return Unclear("no answer")
        for parcel in parcels:
            self._store(parcel)
        return Unclear("no answer") if self.mood == "unclear stored" else Accepted()

    def _store(self, parcel: EncodedSpan) -> None:
        if parcel.span_id in self.stored and self.stored[parcel.span_id] != parcel.data:
            self.changed.append(parcel.span_id)
        self.taken[parcel.span_id] += 1
        self.order.append(parcel.span_id)
        self.stored[parcel.span_id] = parcel.data

    def stored_ids(self, parcels: Sequence[EncodedSpan]) -> frozenset[str] | None:
        if not self.queryable or self.mood == "down":
            return None
        return frozenset(parcel.span_id for parcel in parcels) & self.stored.keys()

    def close(self) -> None:
        pass

    @property
    def twice(self) -> list[str]:
        """The spans that were taken more than once."""
        return [span for span, count in self.taken.items() if count > 1]
