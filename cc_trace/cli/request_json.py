"""`cc-trace show --request --json`: a request as one JSON object."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import orjson

from cc_trace.cli.json_output import usage_json
from cc_trace.errors import CcTraceError
from cc_trace.text import rfc3339

if TYPE_CHECKING:
    from cc_trace.cli.request import FoundRequest
    from cc_trace.requests import CacheMiss, Call, Context


def print_json(details: FoundRequest, *, content: bool) -> None:
    """Print a request as one JSON object."""
    row = _request_json(details, content=content)
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


def _request_json(details: FoundRequest, *, content: bool) -> dict[str, Any]:
    call, attempt, request = details.call, details.attempt, details.request
    response, failure = call.response, call.failure
    usage = response.usage if response is not None else None
    return {
        "kind": "request",
        "id": attempt.id,
        "session_id": details.session_id,
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
        "context": _context_json(details.context),
        "cache": _miss_json(details.miss),
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
