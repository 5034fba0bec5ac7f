"""`cc-trace show --request` for reading: what was asked for, how it went, then what was sent."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

from cc_trace.escapes import escaped
from cc_trace.text import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cc_trace.cli.request import FoundRequest
    from cc_trace.requests import CacheMiss, Call, Context, Request
    from cc_trace.transcript import JsonValue

_CUT_CHARS: Final = 400


def print_text(details: FoundRequest, *, full: bool, content: bool) -> None:
    """Print a request for reading: what was asked for, how it went, then what was sent."""
    for line in (*_summary(details, content=content), *(_body(details.request, full=full) if content else ())):
        sys.stdout.write(f"{escaped(line)}\n")


def _summary(details: FoundRequest, *, content: bool) -> Iterator[str]:
    call, attempt, request = details.call, details.attempt, details.request
    response, failure = call.response, call.failure
    yield f"Request {attempt.id}"
    if response is not None:
        yield f"  response       {response.message_id}"
    yield f"  session        {details.session_id}" + (f", agent {attempt.agent_id}" if attempt.agent_id else "")
    yield f"  sent           {rfc3339(attempt.sent_ns) or 'unknown'}, by {attempt.query_source or 'unknown'}"
    thinking = attempt.thinking.get("type") or "off"
    budget = f" with {attempt.thinking_budget:,} tokens" if attempt.thinking_budget is not None else ""
    yield f"  model          {attempt.model or 'unknown'}"
    yield f"  max_tokens     {attempt.max_tokens if attempt.max_tokens is not None else 'unknown'}"
    yield f"  thinking       {thinking}{budget}" + (f", effort {attempt.effort}" if attempt.effort else "")
    yield f"  betas          {', '.join(attempt.betas) or 'none'}"
    yield f"  breakpoints    {', '.join('.'.join(map(str, point.path)) for point in attempt.breakpoints) or 'none'}"
    yield f"  exact          {_proof(request)}"
    for part in request.missing:
        yield f"  missing        {part}"
    if len(call.attempts) > 1 or failure is not None:
        yield from ("", "Attempts", *_attempt_lines(call, content=content))
    if details.context is not None:
        yield from ("", f"Context: {details.context.total_tokens:,} tokens; the breakdown is an estimate")
        yield from _context_lines(details.context)
    if response is not None and response.usage is not None:
        usage = response.usage
        written = usage.cache_write_5m + usage.cache_write_1h
        yield from ("", f"Cache: {usage.cache_read:,} read, {written:,} written, {usage.input:,} not cached")
        yield from _miss_lines(details.miss)


def _proof(request: Request) -> str:
    if request.verified:
        return "yes, its digest matches the one that Claude Code recorded"
    if request.verified is None:
        return "unknown, Claude Code recorded no digest"
    return "no, its digest differs from the one that Claude Code recorded"


def _attempt_lines(call: Call, *, content: bool) -> Iterator[str]:
    failed = {retry.attempt_id: retry for retry in call.retries}
    answered = call.answered if call.response is not None else None
    for number, attempt in enumerate(call.attempts, 1):
        line = f"  {number}  {rfc3339(attempt.sent_ns) or 'unknown'}  {attempt.id}"
        if attempt is answered:
            line += "  answered"
        if (retry := failed.get(attempt.id)) is not None:
            error = retry.error if content else f"status {retry.status}"
            line += f"  {error}" + (f", waited {retry.wait_ms:,.0f} ms" if retry.wait_ms is not None else "")
            line += f" ({retry.request_id})" if retry.request_id else ""
        yield line
    if call.failure is not None:
        error = call.failure.error if content else call.failure.kind or "API error"
        yield f"  failed: {error}" + (f" (status {call.failure.status})" if call.failure.status is not None else "")


def _context_lines(shares: Context) -> Iterator[str]:
    for part in shares.parts:
        percent = 100 * part.tokens / shares.total_tokens if shares.total_tokens else 0
        name = f"{part.origin}: {part.name}" if part.name else part.origin
        yield f"  {part.tokens:>10,}  {percent:>5.1f} %  {name}"
    if not shares.complete:
        yield "  (counts only what is in the transcript; see `missing`)"


def _miss_lines(miss: CacheMiss | None) -> Iterator[str]:
    if miss is None:
        yield "  everything that the previous request left in the cache was read"
        return
    cost = (
        f", which cost ${miss.cost_usd:.4f} more than reading them from the cache" if miss.cost_usd is not None else ""
    )
    yield f"  missed {miss.tokens:,} tokens{cost}"
    for cause in miss.causes:
        yield f"  cause: {cause.kind}" + (f" ({cause.detail})" if cause.detail else "")


def _body(request: Request, *, full: bool) -> Iterator[str]:
    yield from ("", "System prompt")
    for block in request.system if isinstance(request.system, list) else [request.system]:
        yield from _block_lines(block, full=full)
    tools = request.tools if isinstance(request.tools, list) else []
    yield from ("", f"Tools: {len(tools)}")
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        yield f"  {len(_text(tool)):>8,} characters  {name or 'unnamed'}"
        if full:
            yield from _indented(_text(tool))
    yield from ("", f"Messages: {len(request.messages)}")
    for place, message in enumerate(request.messages):
        if not isinstance(message, dict):
            yield f"{place} not in the transcript"
            continue
        yield f"{place} {message.get('role')}"
        content = message.get("content")
        for block in content if isinstance(content, list) else [content]:
            yield from _block_lines(block, full=full)


def _block_lines(block: JsonValue, *, full: bool) -> Iterator[str]:
    """Yield a block's kind, and its text or JSON, shortened unless `full`."""
    match block:
        case {"type": "text", "text": str(text)}:
            kind = "text"
        case {"type": "thinking", "thinking": str(text)}:
            kind = "thinking"
        case {"type": "tool_use", "name": str(name), "input": given}:
            kind, text = f"tool_use {name}", _text(given)
        case {"type": "tool_result", "content": str(text), "tool_use_id": str(id_)}:
            kind = f"tool_result {id_}"
        case {"type": str(kind)}:
            text = _text(block)
        case _:
            kind, text = "text", _text(block)
    marked = ", cache breakpoint" if isinstance(block, dict) and "cache_control" in block else ""
    yield f"  [{kind}, {len(text):,} characters{marked}]"
    if full or len(text) <= _CUT_CHARS:
        yield from _indented(text)
    else:
        yield from _indented(f"{text[:_CUT_CHARS]}…")
        yield f"    ({len(text) - _CUT_CHARS:,} more characters: --full)"


def _indented(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield f"    {line}"


def _text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply to be shown)"
