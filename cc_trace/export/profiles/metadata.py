"""A span's metadata, with what else is known of it and has no name in a convention."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cc_trace.spans import Span
    from cc_trace.transcript import JsonValue


def all_metadata(span: Span) -> dict[str, JsonValue]:
    """Return what a profile puts where its destination has metadata."""
    found: dict[str, JsonValue] = {"turn_number": span.turn, **span.metadata}
    if span.agent_id is not None:
        found["agent_id"] = span.agent_id
    if (response := span.response) is not None:
        if response.request_id is not None:
            found["request_id"] = response.request_id
        if response.usage is not None and not response.usage_complete:
            found["usage_complete"] = False  # said only where it is not: the counts are then a lower bound
    return found
