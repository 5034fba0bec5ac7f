"""Spans and sessions as JSON objects: the form of `cc-trace show --json`, which other programs read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cc_trace.privacy import without_text
from cc_trace.text import rfc3339

if TYPE_CHECKING:
    from cc_trace.spans import SessionSummary, Span
    from cc_trace.transcript import ToolUse, Usage


def span_json(span: Span, *, content: bool = True) -> dict[str, Any]:
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
        "usage": usage and usage_json(usage),
        "usage_complete": response.usage_complete if response is not None else None,
        "cost_usd": response.cost_usd if response is not None else None,
        "tool": {"id": span.tool.id, "name": span.tool.name} if span.tool is not None else None,
        "input": span.input if content else None,
        "output": span.output if content else None,
        "metadata": metadata if content else without_text(metadata),
    }


def session_json(summary: SessionSummary, *, content: bool = True) -> dict[str, Any]:
    """Return a session's summary; without `content` nothing in it quotes the conversation."""
    first, last, pending = summary.first_ns, summary.last_ns, summary.pending_tool_use
    return {
        "kind": "session",
        "session_id": summary.session_id,
        "turns": summary.turns,
        "tool_calls": summary.tool_calls,
        "start": rfc3339(first),
        "end": rfc3339(last),
        "duration_ms": (last - first) // 1_000_000 if first is not None and last is not None else None,
        "files_modified": list(summary.files_modified),
        "lines_added": summary.lines_added,
        "lines_removed": summary.lines_removed,
        "context_tokens": summary.context_tokens,
        "output_tokens": summary.output_tokens,
        "cache_write_5m_tokens": summary.cache_write_5m_tokens,
        "cache_write_1h_tokens": summary.cache_write_1h_tokens,
        "cost_usd": summary.cost_usd,
        "cost_complete": summary.unpriced == 0,
        "reported_cost_usd": summary.reported_cost_usd,
        "reported_complete": summary.reported_complete,
        "unseen_cost_usd": summary.unseen_cost_usd,
        "unseen": {model: unseen._asdict() for model, unseen in summary.unseen.items()},
        "compaction_cost_usd": summary.compaction_cost_usd,
        "models": list(summary.models),
        "cwd": summary.cwd,
        "project": summary.project,
        "repository": summary.repository,
        "worktree": summary.worktree,
        "is_subagent": summary.is_subagent,
        "git_branch": summary.git_branch,
        "pr": summary.pr,
        "mode": summary.mode,
        "version": summary.version,
        "slug": summary.slug if content else None,
        "title": summary.title if content else None,
        "goal": summary.first_prompt if content else None,
        "latest_output": summary.latest_output if content else None,
        "predecessor": summary.predecessor,
        "pending_tool_use": pending and _call_json(pending, content=content),
        "max_turns_reached": summary.max_turns_reached,
        "unanswered_prompts": list(summary.unanswered_prompts) if content else None,
        "skipped": dict(sorted(summary.skipped.items())),
    }


def _call_json(use: ToolUse, *, content: bool) -> dict[str, Any]:
    return {"id": use.id, "name": use.name, "input": use.input if content else None}


def usage_json(usage: Usage) -> dict[str, int]:
    """Return the tokens of a response by kind."""
    return {
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write_5m": usage.cache_write_5m,
        "cache_write_1h": usage.cache_write_1h,
    }
