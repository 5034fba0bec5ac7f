"""A destination whose key is not at hand: it came with the environment of a session's hook, and is kept nowhere.

The session stays pending, with that as the reason, until a hook or a command has the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cc_trace.export.encoding import Packing
from cc_trace.export.outcomes import Retryable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cc_trace.export.destination import DestinationSettings
    from cc_trace.export.outcomes import EncodedSpan, Outcome
    from cc_trace.spans import Span


class Waiting:
    """Encodes spans as its profile does, and sends nothing."""

    idempotent = False
    queryable = False

    def __init__(self, settings: DestinationSettings, why: str) -> None:
        self.name = settings.name
        self._why = why
        self._packing = Packing(settings)

    def encode(self, span: Span) -> EncodedSpan:
        """Return a span as it will be sent."""
        return self._packing.encode(span)

    def as_json(self, parcel: EncodedSpan) -> bytes:
        """Return what would be sent, as OTLP/JSON."""
        return self._packing.as_json(parcel)

    def send(self, parcels: Sequence[EncodedSpan]) -> Outcome:  # noqa: ARG002
        """Say what it waits for."""
        return Retryable(self._why)

    def stored_ids(self, parcels: Sequence[EncodedSpan]) -> frozenset[str] | None:  # noqa: ARG002
        """Return None: it cannot be asked without the key."""
        return None

    def close(self) -> None:
        """Nothing is open."""
