"""Encodes and sends spans: attribute profiles, OTLP, and the destinations, one module each.

A destination encodes spans, sends them in batches, and returns one of four outcomes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cc_trace.export.destination import (
        LANGFUSE_CLOUD,
        Cost,
        DestinationSettings,
        OtlpProtocol,
        max_span_age_seconds,
        open_destination,
        split_name,
        trace_url,
    )
    from cc_trace.export.endpoint import redacted
    from cc_trace.export.metrics import Counts, span_counts
    from cc_trace.export.outcomes import (
        MAX_BATCH_BYTES,
        MAX_BATCH_SPANS,
        Accepted,
        Destination,
        EncodedSpan,
        EncodesWithTurn,
        MetricsDestination,
        Rejected,
        Retryable,
        Temporality,
        Unclear,
    )
    from cc_trace.export.profiles.labels import Labels

__all__ = [
    "LANGFUSE_CLOUD",
    "MAX_BATCH_BYTES",
    "MAX_BATCH_SPANS",
    "Accepted",
    "Cost",
    "Counts",
    "Destination",
    "DestinationSettings",
    "EncodedSpan",
    "EncodesWithTurn",
    "Labels",
    "MetricsDestination",
    "OtlpProtocol",
    "Rejected",
    "Retryable",
    "Temporality",
    "Unclear",
    "max_span_age_seconds",
    "open_destination",
    "redacted",
    "span_counts",
    "split_name",
    "trace_url",
]

# Loaded on first use: a command does not wait for imports it does not need.
_MODULES: Final = {
    "Accepted": "outcomes",
    "Cost": "destination",
    "Counts": "metrics",
    "MetricsDestination": "outcomes",
    "Temporality": "outcomes",
    "span_counts": "metrics",
    "Destination": "outcomes",
    "DestinationSettings": "destination",
    "LANGFUSE_CLOUD": "destination",
    "Labels": "profiles.labels",
    "MAX_BATCH_BYTES": "outcomes",
    "MAX_BATCH_SPANS": "outcomes",
    "EncodedSpan": "outcomes",
    "EncodesWithTurn": "outcomes",
    "OtlpProtocol": "destination",
    "Rejected": "outcomes",
    "Retryable": "outcomes",
    "Unclear": "outcomes",
    "split_name": "destination",
    "max_span_age_seconds": "destination",
    "open_destination": "destination",
    "redacted": "endpoint",
    "trace_url": "destination",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
