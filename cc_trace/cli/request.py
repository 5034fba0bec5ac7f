"""`cc-trace show --request`: one request as it was sent, what filled its context, and why its cache was missed."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from cc_trace.cli.json_output import usage_json
from cc_trace.errors import CcTraceError, NotFoundError
from cc_trace.escapes import escaped
from cc_trace.files import open_regular
from cc_trace.requests import RequestLog, Sent, cache_miss, context_by_origin
from cc_trace.text import rfc3339
from cc_trace.transcript import agent_paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cc_trace.requests import Attempt, CacheMiss, Call, Context, Request
    from cc_trace.transcript import JsonValue

_CUT_CHARS: Final = 400
_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Shown:
    """All there is to say of one request."""

    session_id: str
    call: Call
    attempt: Attempt
    request: Request
    context: Context | None
    miss: CacheMiss | None


def find_request(name: str, transcripts: Iterable[Path]) -> Shown:
    """Find a request by the id of its response, of its record or of the API, in the first transcript that has it."""
    reason = ""
    for path in transcripts:
        log = RequestLog()
        log.read(path)
        found = log.find(name)
        for agent in () if found else agent_paths(path):
            if _mentions(agent, name):
                log.read(agent)
                found = log.find(name)
                if found:
                    break
        if found:
            return _shown(path.stem, log, *found)
        reason = reason or _why_not(name, path, log)
    raise NotFoundError(
        reason or f"no transcript has a response or request {name}; if its transcript is elsewhere, pass its path"
    )


def mentioning(name: str, transcripts: Iterable[Path]) -> Iterator[Path]:
    """Yield the sessions whose transcript, or an agent's, has this id in it."""
    for path in transcripts:
        if _mentions(path, name) or any(_mentions(agent, name) for agent in agent_paths(path)):
            yield path


def _mentions(path: Path, name: str) -> bool:
    wanted, rest = name.encode("utf-8", "replace"), b""
    try:
        with open_regular(path) as file:
            while piece := file.read(_CHUNK_BYTES):
                if wanted in rest + piece:
                    return True
                rest = piece[-len(wanted) :]
    except OSError:
        pass
    return False


def _why_not(name: str, path: Path, log: RequestLog) -> str:
    said = log.response(name)
    if said is not None and said.attempt_id is not None:
        return (
            f"the request for {name} is not in {path.name}: the response was copied there from another session; "
            f"`cc-trace show --request {name}` searches all sessions"
        )
    if not log.recorded:
        return f"{path.name} has no request records: Claude Code 2.1.325 writes them, 2.1.197 does not"
    if said is not None:
        return f"{path.name} has no record of the request for {name}"
    return f"{path.name} has no response or request {name}; `cc-trace show --json {path.stem}` lists each `message_id`"


def _shown(session_id: str, log: RequestLog, call: Call, attempt: Attempt) -> Shown:
    request = log.request(attempt)
    response = call.response if call.answered is attempt else None
    shares = context_by_origin(request, response.usage) if response is not None and response.usage is not None else None
    before, current = log.previous(attempt), _sent(log, call) if response is not None else None
    miss = cache_miss(_sent(log, before), current) if current is not None else None
    return Shown(session_id, call, attempt, request, shares, miss)


def _sent(log: RequestLog, call: Call | None) -> Sent | None:
    if call is None or call.response is None or call.answered is None:
        return None
    attempt, response = call.answered, call.response
    shape = log.shape(attempt.shape_hash) if attempt.shape_hash is not None else None
    return Sent(attempt, response, shape, log.message_names(attempt))


def print_json(shown: Shown, *, content: bool) -> None:
    """Print a request as one JSON object."""
    row = _request_json(shown, content=content)
    try:
        data = orjson.dumps(row)
    except TypeError:  # lone surrogates, or more levels than orjson writes
        data = _escaped(row)
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def _escaped(row: dict[str, Any]) -> bytes:
    try:
        return json.dumps(row).encode("ascii")
    except RecursionError as error:
        message = "the request is nested too deeply to print; add --no-content to print it without its body"
        raise CcTraceError(message) from error


def _request_json(shown: Shown, *, content: bool) -> dict[str, Any]:
    call, attempt, request = shown.call, shown.attempt, shown.request
    response, failure = call.response, call.failure
    usage = response.usage if response is not None else None
    return {
        "kind": "request",
        "id": attempt.id,
        "session_id": shown.session_id,
        "agent_id": attempt.agent_id,
        "message_id": response.message_id if response is not None else failure.message_id if failure else None,
        "request_id": response.request_id if response is not None else failure.request_id if failure else None,
        "query_source": attempt.query_source,
        "sent": rfc3339(attempt.sent_ns),
        "first_block": rfc3339(response.first_ns) if response is not None else None,
        "end": rfc3339(response.last_ns) if response is not None else rfc3339(failure.time_ns) if failure else None,
        "model": attempt.model,
        "response_model": response.model if response is not None else None,
        "max_tokens": attempt.max_tokens,
        "thinking_budget": attempt.thinking_budget,
        "effort": attempt.effort,
        "betas": list(attempt.betas),
        "context_management": attempt.params.get("context_management"),
        "cache_breakpoints": [{"path": list(point.path), "value": point.value} for point in attempt.breakpoints],
        "thinking_ms": response.thinking_ms if response is not None else None,
        "tool_input_ms": response.tool_input_ms if response is not None else None,
        "attempts": _attempts_json(call, content=content),
        "failure": failure
        and {"status": failure.status, "type": failure.kind, "error": failure.error if content else None},
        "usage": usage and usage_json(usage),
        "context": _context_json(shown.context),
        "cache": _miss_json(shown.miss),
        "verified": request.verified,
        "missing": list(request.missing),
        "body": request.body if content else None,
    }


def _attempts_json(call: Call, *, content: bool) -> list[dict[str, Any]]:
    failed = {retry.attempt_id: retry for retry in call.retries}
    answered = call.answered if call.response is not None else None
    rows = []
    for attempt in call.attempts:
        retry = failed.get(attempt.id)
        rows.append(
            {
                "id": attempt.id,
                "sent": rfc3339(attempt.sent_ns),
                "answered": attempt is answered,
                "status": retry.status if retry is not None else None,
                "error": retry.error if retry is not None and content else None,
                "wait_ms": retry.wait_ms if retry is not None else None,
                "request_id": retry.request_id if retry is not None else None,
            }
        )
    return rows


def _context_json(shares: Context | None) -> dict[str, Any] | None:
    if shares is None:
        return None
    parts = [
        {"origin": part.origin, "name": part.name, "tokens": part.tokens, "bytes": part.size_bytes}
        for part in shares.parts
    ]
    return {"tokens": shares.total_tokens, "estimated": True, "complete": shares.complete, "parts": parts}


def _miss_json(miss: CacheMiss | None) -> dict[str, Any] | None:
    if miss is None:
        return None
    causes = [{"kind": cause.kind, "detail": cause.detail} for cause in miss.causes]
    return {"missed_tokens": miss.tokens, "cost_usd": miss.cost_usd, "causes": causes}


def print_text(shown: Shown, *, full: bool, content: bool) -> None:
    """Print a request for reading: what was asked for, how it went, then what was sent."""
    for line in (*_summary(shown, content=content), *(_body(shown.request, full=full) if content else ())):
        sys.stdout.write(f"{escaped(line)}\n")


def _summary(shown: Shown, *, content: bool) -> Iterator[str]:
    call, attempt, request = shown.call, shown.attempt, shown.request
    response, failure = call.response, call.failure
    yield f"Request {attempt.id}"
    if response is not None:
        yield f"  response       {response.message_id}"
    yield f"  session        {shown.session_id}" + (f", agent {attempt.agent_id}" if attempt.agent_id else "")
    yield f"  sent           {rfc3339(attempt.sent_ns) or 'unknown'}, by {attempt.query_source or 'unknown'}"
    thinking = attempt.thinking.get("type") or "off"
    budget = f" with {attempt.thinking_budget:,} tokens" if attempt.thinking_budget is not None else ""
    yield f"  model          {attempt.model or 'unknown'}"
    yield f"  max_tokens     {attempt.max_tokens if attempt.max_tokens is not None else 'unknown'}"
    yield f"  thinking       {thinking}{budget}" + (f", effort {attempt.effort}" if attempt.effort else "")
    yield f"  betas          {', '.join(attempt.betas) or 'none'}"
    yield f"  breakpoints    {', '.join('.'.join(map(str, point.path)) for point in attempt.breakpoints) or 'none'}"
    yield f"  exact          {_proof(request)}"
    for what in request.missing:
        yield f"  missing        {what}"
    if len(call.attempts) > 1 or failure is not None:
        yield from ("", "Attempts", *_attempt_lines(call, content=content))
    if shown.context is not None:
        yield from ("", f"Context: {shown.context.total_tokens:,} tokens; the breakdown is an estimate")
        yield from _context_lines(shown.context)
    if response is not None and response.usage is not None:
        usage = response.usage
        written = usage.cache_write_5m + usage.cache_write_1h
        yield from ("", f"Cache: {usage.cache_read:,} read, {written:,} written, {usage.input:,} not cached")
        yield from _miss_lines(shown.miss)


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
            said = retry.error if content else f"status {retry.status}"
            line += f"  {said}" + (f", waited {retry.wait_ms:,.0f} ms" if retry.wait_ms is not None else "")
            line += f" ({retry.request_id})" if retry.request_id else ""
        yield line
    if call.failure is not None:
        said = call.failure.error if content else call.failure.kind or "API error"
        yield f"  failed: {said}" + (f" (status {call.failure.status})" if call.failure.status is not None else "")


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
    """Yield a block's kind, and its text or JSON; cut, unless asked for in full."""
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
