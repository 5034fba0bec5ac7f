"""Spans that were refused alone, until it is known what is to blame: the span, or how the backend is set up.

A span is to blame if it is refused, another span is accepted, and it is refused again. Until then the backend may be
misconfigured, such as by a missing header: the spans are retried, for a week.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cc_trace.delivery.cursor import Cursor
    from cc_trace.export import EncodedSpan, Rejected

MAX_REFUSALS: Final = 3  # spans refused in a row: then the backend refuses everything
REFUSING_SECONDS: Final = 7 * 86_400.0  # how long a backend that refuses everything is taken to be misconfigured


class _Suspect(NamedTuple):
    """A span that was refused alone, and how many spans had been accepted by then."""

    span: EncodedSpan
    outcome: Rejected
    sent: int


class Suspects:
    """The spans of one delivery that were refused alone. `sent` is always the number of spans accepted so far."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._by_id: dict[str, _Suspect] = {}

    def __iter__(self) -> Iterator[str]:
        """Yield the spans' ids."""
        return iter(self._by_id)

    def __contains__(self, span_id: object) -> bool:
        """Return whether a span is one of them."""
        return span_id in self._by_id

    def add(self, span: EncodedSpan, outcome: Rejected, sent: int) -> None:
        """Add a span that was refused alone."""
        self._by_id[span.span_id] = _Suspect(span, outcome, sent)

    def refused_in_a_row(self, sent: int) -> int:
        """Return how many were refused since a span was last accepted."""
        return sum(suspect.sent == sent for suspect in self._by_id.values())

    def take_retriable(self, sent: int) -> EncodedSpan | None:
        """Take out a span after which another was accepted: if refused again, it is to blame. None if there is none."""
        for span_id, suspect in self._by_id.items():
            if sent > suspect.sent:
                del self._by_id[span_id]
                return suspect.span
        return None

    def take_all(self) -> dict[str, Rejected]:
        """Take out all that are left, with their refusals."""
        suspects, self._by_id = self._by_id, {}
        return {span_id: suspect.outcome for span_id, suspect in suspects.items()}

    def reason_to_wait(self, now: float) -> str | None:
        """Return why the backend may be misconfigured; None once it has refused everything for `REFUSING_SECONDS`."""
        since = self._cursor.refusing_since = self._cursor.refusing_since or now
        if not 0 <= now - since < REFUSING_SECONDS:
            return None
        first = next(iter(self._by_id.values())).outcome
        explanation = "it refuses everything" if len(self._by_id) > 1 else "nothing was accepted since"
        return f"{first.status} {first.message}; {explanation}"
