"""Spans and sessions as JSON objects: the form of `cc-trace show --json`, which other programs read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from cc_trace.privacy import without_text

if TYPE_CHECKING:
    from cc_trace.spans import SessionSummary, Span
    from cc_trace.transcript import Usage

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def rfc3339(time_ns: int | None) -> str | None:
    """Return a time in UTC with milliseconds, cut as Langfuse cuts them."""
    if time_ns is None:
        return None
    moment = _EPOCH + timedelta(milliseconds=time_ns // 1_000_000)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def span_row(span: Span, *, content: bool = True) -> dict[str, Any]:
    """Return one span; without `content` nothing in it quotes the conversation."""
    response, metadata = span.response, span.metadata
    usage = response.usage if response is not None else None
    return {
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_id": span.parent_id,
        "kind": span.kind,
        "name": span.name,
        "start": rfc3339(span.start_ns),
        "end": rfc3339(span.end_ns),
        "session_id": span.session_id,
        "turn": span.turn,
        "agent_id": span.agent_id,
        "status": span.status,
        "error": span.error if content else None,
        "message_id": response.message_id if response is not None else None,
        "request_id": response.request_id if response is not None else None,
        "model": response.model if response is not None else None,
        "first_token": rfc3339(response.first_token_ns) if response is not None else None,
        "usage": usage and usage_row(usage),
        "usage_complete": response.usage_complete if response is not None else None,
        "cost_usd": response.cost_usd if response is not None else None,
        "tool": {"id": span.tool.id, "name": span.tool.name} if span.tool is not None else None,
        "input": span.input if content else None,
        "output": span.output if content else None,
        "metadata": metadata if content else without_text(metadata),
    }


def session_row(facts: SessionSummary, *, content: bool = True) -> dict[str, Any]:
    """Return the facts of a session as a whole."""
    first, last = facts.first_ns, facts.last_ns
    return {
        "kind": "session",
        "session_id": facts.session_id,
        "turns": facts.turns,
        "tool_calls": facts.tool_calls,
        "start": rfc3339(first),
        "end": rfc3339(last),
        "duration_ms": (last - first) // 1_000_000 if first is not None and last is not None else None,
        "files_modified": list(facts.files_modified),
        "context_tokens": facts.context_tokens,
        "output_tokens": facts.output_tokens,
        "cost_usd": facts.cost_usd,
        "cost_complete": facts.unpriced == 0,
        "reported_cost_usd": facts.reported_cost_usd,
        "models": list(facts.models),
        "cwd": facts.cwd,
        "project": facts.project,
        "git_branch": facts.git_branch,
        "version": facts.version,
        "slug": facts.slug,
        "goal": facts.goal if content else None,
        "latest_output": facts.latest_output if content else None,
        "predecessor": facts.predecessor,
        "skipped": dict(sorted(facts.skipped.items())),
    }


def usage_row(usage: Usage) -> dict[str, int]:
    """Return the tokens of a response by kind."""
    return {
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write_5m": usage.cache_write_5m,
        "cache_write_1h": usage.cache_write_1h,
    }
