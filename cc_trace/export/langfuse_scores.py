"""A turn's scores: numbers that can be charted and filtered in Langfuse. Pure.

Rule: only numbers, never conversation text, so they are sent with any setting of `content`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cc_trace.spans import Span


class Score(NamedTuple):
    """One number about a turn. Its id and time are always the same, so sending it again replaces it."""

    id: str
    name: str
    value: float
    kind: Literal["NUMERIC", "BOOLEAN"]
    trace_id: str
    span_id: str | None  # the turn's, if its trace has other turns, too
    time_ns: int | None


def scores(root: Span, turn: Sequence[Span]) -> tuple[Score, ...]:
    """Return the scores of a turn, including its agents' work. A rate with an empty base is left out."""
    tools = [span for span in turn if span.kind == "tool"]
    failed = sum(span.status == "error" for span in tools)
    usages = [span.response.usage for span in turn if span.response is not None and span.response.usage is not None]
    cache_read = sum(usage.cache_read for usage in usages)
    input_tokens = cache_read + sum(usage.input + usage.cache_write_5m + usage.cache_write_1h for usage in usages)
    values: dict[str, float] = {}
    if tools:
        values["tool_error_rate"] = failed / len(tools)
    if input_tokens:
        values["cache_hit_rate"] = cache_read / input_tokens
    values["api_retries"] = sum(span.name == "api_retry" for span in turn if span.kind == "event")
    values["lines_changed"] = sum(_count(span, "lines_added") + _count(span, "lines_removed") for span in tools)
    values["permission_denials"] = sum(map(_is_denied, tools))
    numbers = [_score(root, name, value, "NUMERIC") for name, value in values.items()]
    return (*numbers, _score(root, "interrupted", float(root.status == "interrupted"), "BOOLEAN"))


def _score(root: Span, name: str, value: float, kind: Literal["NUMERIC", "BOOLEAN"]) -> Score:
    span_id = root.span_id if root.parent_id is not None else None
    return Score(
        f"cc-trace-{root.span_id}-{name}", name, value, kind, root.trace_id, span_id, root.end_ns or root.start_ns
    )


def _count(span: Span, key: str) -> int:
    value = span.metadata.get(key)
    return value if isinstance(value, int) else 0


def _is_denied(span: Span) -> bool:
    permission = span.metadata.get("permission")
    return isinstance(permission, dict) and permission.get("decision") == "reject"
