"""A destination without its key, which came with the environment of a session's hook and is not stored.

The session stays pending, with this as the reason, until a hook or a command has the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cc_trace.export.encoding import OtlpDestination
from cc_trace.export.outcomes import Retryable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cc_trace.export.destination import DestinationSettings
    from cc_trace.export.outcomes import EncodedSpan, Outcome


class KeylessDestination(OtlpDestination):
    """Encodes spans with the destination's profile, but sends nothing."""

    def __init__(self, settings: DestinationSettings, reason: str) -> None:
        super().__init__(settings)
        self._reason = reason

    def send(self, batch: Sequence[EncodedSpan]) -> Outcome:  # noqa: ARG002
        """Return a retryable outcome with the reason."""
        return Retryable(self._reason)
