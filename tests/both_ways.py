"""Spans of one run, from its transcript and from what it printed, compared as far as docs/streams.md promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cc_trace.spans import Span

Tree = dict[str, tuple[str, str | None, str, str]]


def failed(span: Span) -> bool:
    """Tell whether this is a call that failed: an event where its request is not recorded."""
    return span.status == "error" and span.kind in ("event", "generation")


def tree(spans: Iterable[Span]) -> Tree:
    """Return every span's trace, parent, kind and name, by its id.

    A retry has an id of its own where the transcript of that version does not tell of it.
    """
    return {
        span.span_id: (span.trace_id, span.parent_id, *(("", "") if failed(span) else (span.kind, span.name)))
        for span in spans
        if span.name != "api_retry"
    }


def compare(streamed: Iterable[Span], expected: Iterable[Span], *, notified: bool = False) -> None:
    """Assert that status, texts, tokens and cost are equal where a stream has them.

    A count that is not final is marked so, and never more than the transcript's. `notified`: a task's notification has
    fewer words in a stream.
    """
    known = {span.span_id: span for span in expected}
    for span in streamed:
        other = known.get(span.span_id)
        if other is None or other.name in ("api_retry", "notification") or failed(other):
            continue
        assert (span.status, span.output) == (other.status, other.output)
        if not notified:
            assert span.input == other.input
        if span.response is None or other.response is None:
            continue
        assert span.response.message_id == other.response.message_id
        if span.response.usage_complete:
            assert (span.response.usage, span.response.cost_usd) == (other.response.usage, other.response.cost_usd)
        elif span.response.usage is not None and other.response.usage is not None:
            assert span.response.usage._replace(output=0) == other.response.usage._replace(output=0)
            assert span.response.usage.output <= other.response.usage.output
