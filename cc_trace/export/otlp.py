"""OTLP's wire format: spans as protobuf, and requests joined from spans that are already encoded.

Rules:
- A span is encoded once. A request wraps encoded spans, so halving a batch or sending it again re-encodes nothing.
- No content can make a span unsendable: invalid Unicode is repaired, and an oversized span is cut, with a marker.

Source: github.com/open-telemetry/opentelemetry-proto, trace/v1: the numbers of the fields.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cc_trace import __version__
from cc_trace.export.profiles.text import attribute
from cc_trace.export.protobuf import chunk, chunk_head, chunk_pieces, chunks, double, fixed64, integer
from cc_trace.values import INT64, MAX_DEPTH, TOO_DEEP, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cc_trace.export.profiles.labels import AttributeValue
    from cc_trace.spans import Span
    from cc_trace.transcript import JsonValue

_INTERNAL, _CLIENT = 1, 3  # of SpanKind
_STATUS_OK, _STATUS_ERROR = 1, 2
_FOR_MLFLOW: Final = "mlflow.spanType"  # it counts only OK as success, and marks only spans with an exception
_SHORTEST: Final = 64  # characters that are worth keeping of a text
_MARKER_CHARS: Final = 100  # more than a marker has; cutting a text must save at least this
_MAX_SCALARS: Final = 32  # values kept of a span that is still too large with all its texts cut
_LEFT_OUT: Final = "[left out by cc-trace: too many values]"


class Scope(NamedTuple):
    """The instrumentation scope of spans."""

    name: str = "cc-trace"
    attributes: Mapping[str, AttributeValue] = {}


OURS: Final = Scope()


def encode_span(span: Span, name: str, attributes: Mapping[str, AttributeValue]) -> bytes:
    """Return an encoded span with the name and attributes from a profile."""
    start_ns, end_ns = _times(span)
    if not start_ns:
        attributes = {**attributes, "cc_trace.time": "unknown"}
    return b"".join(
        [
            chunk(1, bytes.fromhex(span.trace_id)),
            chunk(2, bytes.fromhex(span.span_id)),
            chunk(4, bytes.fromhex(span.parent_id)) if span.parent_id else b"",
            _text(5, readable(name)),
            integer(6, _CLIENT if span.kind == "generation" else _INTERNAL),
            fixed64(7, start_ns) if start_ns else b"",
            fixed64(8, end_ns) if end_ns else b"",
            pairs(9, attributes),
            *_events_links_status(span, end_ns, attributes),
        ]
    )


def _events_links_status(
    span: Span, end_ns: int, attributes: Mapping[str, AttributeValue]
) -> tuple[bytes, bytes, bytes]:
    """Return the encoded events, links and status."""
    event = link = status = b""
    if span.status != "ok":  # by the specification only users set OK; success is unset
        status = chunk(15, _text(2, readable(span.error or span.status)) + integer(3, _STATUS_ERROR))
        if _FOR_MLFLOW in attributes:
            kind = attributes.get("error.type", span.status)
            exception = pairs(3, {"exception.type": kind, "exception.message": span.error or span.status})
            event = chunk(11, (fixed64(1, end_ns) if end_ns else b"") + _text(2, "exception") + exception)
    elif _FOR_MLFLOW in attributes:
        status = chunk(15, integer(3, _STATUS_OK))
    match span.metadata.get("launched_by"):
        case {"trace_id": str(trace_id), "span_id": str(span_id)}:
            link = chunk(13, chunk(1, bytes.fromhex(trace_id)) + chunk(2, bytes.fromhex(span_id)))
    return event, link, status


def request(
    spans: Sequence[bytes], resource: Mapping[str, AttributeValue], schema_url: str = "", scope: Scope = OURS
) -> bytes:
    """Return an ExportTraceServiceRequest with these encoded spans."""
    return resource_message(resource, scope_message(spans, schema_url, scope))


def scope_message(items: Sequence[bytes], schema_url: str = "", scope: Scope = OURS) -> list[bytes]:
    """Return the pieces of a ScopeSpans or ScopeMetrics message, which have the same fields."""
    scope_data = _text(1, scope.name) + _text(2, __version__) + pairs(3, scope.attributes)
    return [chunk(1, scope_data), *chunk_pieces(2, items), _text(3, schema_url)]


def resource_message(resource: Mapping[str, AttributeValue], scope: Sequence[bytes]) -> bytes:
    """Return a request with one resource. Requests for spans and for metrics have the same fields.

    It is joined once: joining each enclosing message would copy all spans again.
    """
    encoded, size = chunk(1, encode_resource(resource)), sum(map(len, scope))
    head = chunk_head(2, size)
    return b"".join((chunk_head(1, len(encoded) + len(head) + size), encoded, head, *scope))


def encode_resource(attributes: Mapping[str, AttributeValue]) -> bytes:
    """Return the encoded resource that the spans of a request share."""
    return pairs(1, attributes)


def encode_within(span: Span, encode: Callable[[Span], bytes], max_bytes: int) -> bytes:
    """Return an encoded span of at most `max_bytes`, with its long texts cut if necessary.

    All texts are cut to the same length, the greatest that fits to within a quarter. A span with too many small values
    loses them. The rest, ids, names and some metadata, is 40 KB at most and is not cut further.
    """
    data, limit = encode(span), max_bytes
    if len(data) <= max_bytes:
        return data
    shortest = encode(_shortened(span, _SHORTEST))
    if len(shortest) > max_bytes:
        return encode(_without_values(span))
    while len(data) > max_bytes and limit > _SHORTEST:
        limit = limit * 3 // 4
        data = encode(_shortened(span, limit))
    return data if len(data) <= max_bytes else shortest


def _times(span: Span) -> tuple[int, int]:
    """Return start and end. Backends need both, so if only one is known it is used for both."""
    first_token_ns = span.response.first_token_ns if span.response is not None else None
    times_ns = [time_ns for time_ns in (span.start_ns, span.end_ns, first_token_ns) if time_ns is not None] or [0]
    start_ns = span.start_ns if span.start_ns is not None else times_ns[0]
    end_ns = span.end_ns if span.end_ns is not None else start_ns
    return start_ns, max(start_ns, end_ns)


def pairs(field: int, attributes: Mapping[str, AttributeValue]) -> bytes:
    """Return attributes as a repeated field of keys and values."""
    try:
        return _pairs(field, attributes)
    except ValueError:  # invalid Unicode, or an integer wider than 64 bits
        return _pairs(field, {readable(key): _sendable(value) for key, value in attributes.items()})


def _pairs(field: int, attributes: Mapping[str, AttributeValue]) -> bytes:
    """Join all pairs at once: most bytes are here, and joining each enclosing message would copy them again."""
    parts: list[bytes] = []
    for key, value in attributes.items():
        if isinstance(value, str) and len(value) <= _SHORTEST:
            parts.append(_short_pair(field, key, value))
        else:
            encoded = _value(value)
            parts += (_pair_head(field, key, len(encoded)), encoded)
    return b"".join(parts)


@lru_cache(4096)  # names, ids and models recur on every span
def _short_pair(field: int, key: str, text: str) -> bytes:
    encoded = _value(text)
    return _pair_head(field, key, len(encoded)) + encoded


@lru_cache(4096)  # the keys are the same few, and so are the sizes of numbers
def _pair_head(field: int, key: str, size: int) -> bytes:
    """Return what is written of a pair before its value, which has `size` bytes."""
    before = _text(1, key) + chunk_head(2, size)
    return chunk_head(field, len(before) + size) + before


def _value(value: AttributeValue) -> bytes:
    """Return an AnyValue. Unlike other fields its value is written even if it is empty or zero."""
    if isinstance(value, str):
        return chunk(1, value.encode())
    if isinstance(value, int):
        if isinstance(value, bool):
            return integer(2, value)
        if value not in INT64:
            message = "wider than 64 bits"
            raise ValueError(message)
        return integer(3, value)
    if isinstance(value, float):
        return double(4, value)
    return chunk(5, chunks(1, [chunk(1, item.encode()) for item in value]))


def _text(field: int, text: str) -> bytes:
    return chunk(field, text.encode()) if text else b""


def _sendable(value: AttributeValue) -> AttributeValue:
    if isinstance(value, str):
        return readable(value)
    return [readable(item) for item in value] if isinstance(value, list) else attribute(value)


def _shortened(span: Span, limit: int) -> Span:
    """Return a span with texts of at most `limit` characters and a marker. Ids are never cut."""
    response, tool = span.response, span.tool
    return span._replace(
        name=_cut(span.name, limit),
        session_id=_cut(span.session_id, limit),
        agent_id=_cut_value(span.agent_id, limit),
        error=_cut_value(span.error, limit),
        input=_cut_value(span.input, limit),
        output=_cut_value(span.output, limit),
        metadata=_cut_value(span.metadata, limit),
        response=response
        and response._replace(
            message_id=_cut_value(response.message_id, limit),
            request_id=_cut_value(response.request_id, limit),
            model=_cut_value(response.model, limit),
        ),
        tool=tool and tool._replace(id=_cut(tool.id, limit), name=_cut(tool.name, limit)),
    )


def _without_values(span: Span) -> Span:
    """Return a span without most of its values, for one that is too large even with its texts cut."""
    short = _shortened(span, _SHORTEST)
    scalars = [(key, value) for key, value in short.metadata.items() if not isinstance(value, list | dict)]
    input_: JsonValue = _LEFT_OUT
    output: JsonValue = _LEFT_OUT
    if span.kind == "generation":
        input_, output = [{"role": "user", "content": _LEFT_OUT}], {"role": "assistant", "content": _LEFT_OUT}
    return short._replace(
        input=input_ if span.input is not None else None,
        output=output if span.output is not None else None,
        metadata={_cut(key, _SHORTEST): value for key, value in scalars[:_MAX_SCALARS]},
    )


def _cut_value(value: Any, limit: int, depth: int = MAX_DEPTH) -> Any:  # noqa: ANN401 -- returns the type it is given
    match value:
        case str():
            return _cut(value, limit)
        case list() | dict() if not depth:
            return TOO_DEEP
        case list():
            return [_cut_value(item, limit, depth - 1) for item in value]
        case dict():
            return {key: _cut_value(item, limit, depth - 1) for key, item in value.items()}
        case _:
            return value


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit + _MARKER_CHARS:
        return text
    return f"{text[:limit]}…[cut by cc-trace: {len(text) - limit:,} of {len(text):,} characters left out]"
