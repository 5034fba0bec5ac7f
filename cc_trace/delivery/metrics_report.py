"""Metrics of the spans of a delivery, reported to a destination that accepts metrics. Few do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cc_trace.delivery.cursor import add_counts
from cc_trace.export import Accepted, Rejected, Unclear, span_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cc_trace.delivery.cursor import Metrics
    from cc_trace.delivery.runtime import Runtime
    from cc_trace.export import Counts, MetricsDestination
    from cc_trace.spans import Span

_FRESH_NS: Final = 86_400_000_000_000  # older spans are history, and not counted


class MetricsReport:
    """Counts the spans of a delivery, and sends the counts. `metrics`: those of the destination's cursor."""

    def __init__(self, destination: MetricsDestination, metrics: Metrics, runtime: Runtime) -> None:
        self._destination = destination
        self._metrics = metrics
        self._runtime = runtime
        self._counts: dict[str, Counts] = {}  # by span, of those that are not settled
        metrics.begin(destination.metrics or "", self._now_ns())

    def add(self, span: Span, began_ns: int | None) -> None:
        """Count a span, in case it is accepted. `began_ns`: when its turn began."""
        if span.response is None or span.end_ns is None or self._now_ns() - span.end_ns > _FRESH_NS:
            return
        self._counts[span.span_id] = span_counts(span)
        self._metrics.start_ns = self._metrics.start_ns or began_ns or span.end_ns

    def counts_of(self, ids: Iterable[str]) -> Counts:
        """Return the total counts of these spans."""
        total: Counts = {}
        for id_ in ids:
            add_counts(total, self._counts.get(id_, {}))
        return total

    def send(self, session_id: str, save: Callable[[], None]) -> str | None:
        """Send the counts; return why they were not accepted. Either way, the spans count as delivered."""
        metrics, destination, runtime = self._metrics, self._destination, self._runtime
        if not metrics.unreported:
            return None
        if destination.metrics == "delta":
            metrics.in_flight = True
            save()
        runtime.mark_step("metrics intent saved")
        end_ns = max(self._now_ns(), metrics.start_ns + 1)
        outcome = destination.send_metrics(metrics.counts, metrics.start_ns, end_ns, session_id)
        runtime.mark_step("metrics answered")
        # Counts that were refused would be refused again, and an unclear delta may have been counted.
        settled = isinstance(outcome, Accepted | Rejected) or (metrics.in_flight and isinstance(outcome, Unclear))
        metrics.record_report(end_ns, settled=settled)
        return None if isinstance(outcome, Accepted) else outcome.message

    def _now_ns(self) -> int:
        return int(self._runtime.clock() * 1e9)
