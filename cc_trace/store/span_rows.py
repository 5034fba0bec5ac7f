"""A span as a row: typed columns, and all of it as JSON. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cc_trace.spans import Response, Span, Tool
from cc_trace.store.changed_lines import changed_lines
from cc_trace.store.layout import refused_by, waits
from cc_trace.transcript import Usage
from cc_trace.values import INT64, json_text, readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cc_trace.store.layout import Wait
    from cc_trace.transcript import JsonValue

Value: TypeAlias = str | int | float | None
_NS_PER_MS: Final = 1e6


def to_json(span: Span) -> bytes:
    """Return a span as JSON, without the origins of its texts, which are needed only before it is stored."""
    fields = span._asdict()
    del fields["origins"]
    for name in ("response", "tool"):
        fields[name] = value._asdict() if (value := fields[name]) is not None else None
    if span.response is not None and span.response.usage is not None:
        fields["response"]["usage"] = span.response.usage._asdict()
    return json_text(fields).encode()


def from_json(data: str) -> Span:
    """Return the span from its JSON."""
    fields: dict[str, Any] = json.loads(data)
    if (response := fields["response"]) is not None:
        if response["usage"] is not None:
            response["usage"] = Usage(**response["usage"])
        fields["response"] = Response(**response)
    if fields["tool"] is not None:
        fields["tool"] = Tool(**fields["tool"])
    return Span(**fields)


def typed(span: Span, known_waits: Sequence[Wait] | None = None) -> tuple[Value, ...]:
    """Return the typed columns of a span, in the order of `schema.TYPED`.

    `known_waits`: what it waited for, if its whole turn is known.
    """
    response, metadata = span.response, span.metadata
    usage = response.usage if response is not None else None
    tokens: tuple[int | None, ...] = (None, None, None, None, None)
    if usage is not None:
        written = usage.cache_write_5m + usage.cache_write_1h
        tokens = (usage.input, usage.output, usage.cache_read, written, usage.input + usage.cache_read + written)
    waited = sum(end - begin for _, begin, end in (waits(span) if known_waits is None else known_waits))
    attempts = metadata.get("attempts")
    return (
        span.span_id,
        _text(span.session_id),
        span.trace_id,
        span.parent_id,
        span.turn,
        span.kind,
        _text(span.name),
        _text(span.tool.name) if span.tool is not None else None,
        _text(span.agent_id),
        _text(span.agent_name) or "",
        _text(response.model) if response is not None else None,
        *map(integer, (span.start_ns, span.end_ns, response.first_token_ns if response is not None else None)),
        span.status,
        _text(span.error),
        *map(integer, tokens[:4]),
        response.cost_usd if response is not None else None,
        integer(tokens[4]),
        _cause(metadata.get("cache_miss")),
        integer(attempts) if isinstance(attempts, int) else None,
        waited / _NS_PER_MS if waited else None,
        _calls(span.output) if span.kind == "generation" else None,
        refused_by(span),
        *map(integer, changed_lines(span)),
    )


def integer(value: int | None) -> int | None:
    """Return None for integers that SQLite cannot store, such as times after 2262. The JSON has them."""
    return value if value is not None and value in INT64 else None


def _text(value: str | None) -> str | None:
    """Replace what cannot be encoded as UTF-8, such as odd bytes in a file name."""
    return readable(value) if value is not None else None


def _cause(miss: JsonValue) -> str | None:
    """Return the first of the causes for which the cache was missed."""
    match miss:
        case {"causes": [{"kind": str(kind)}, *_]}:
            return _text(kind)
        case dict():
            return "unknown"
        case _:
            return None


def _calls(output: JsonValue) -> str | None:
    """Return the names of the tools that a response called, as a JSON array."""
    match output:
        case {"tool_calls": [_, *_] as calls}:
            return json_text([call.get("name") for call in calls if isinstance(call, dict)])
        case _:
            return None
