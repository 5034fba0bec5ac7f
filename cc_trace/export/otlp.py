"""OTLP, the wire form: spans as protobuf, requests joined from spans that are already encoded, the same as JSON.

Rules:
- A span is encoded once. A request is put together around the encoded spans, so halving a batch or sending it again
  encodes nothing anew.
- No content can make a span unsendable: text that is no Unicode is mended, a span that is too large is cut and says so.

Source: github.com/open-telemetry/opentelemetry-proto, trace/v1; for JSON the section "JSON Protobuf Encoding" of the
OTLP specification. Importing this module takes 60 ms, for the messages: it is imported when something is to be sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

from cc_trace import __version__
from cc_trace.export.profiles.text import MAX_DEPTH, TOO_DEEP, attribute, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue

    from cc_trace.export.profiles.labels import AttributeValue
    from cc_trace.spans import Span
    from cc_trace.transcript import JsonValue

_FOR_MLFLOW: Final = "mlflow.spanType"  # it counts only OK as success, and marks in red only what has an exception
_SHORTEST: Final = 64  # characters of a text that are worth keeping
_MARKER_CHARS: Final = 100  # more than a marker has: what cutting a text must save at least
_MAX_FACTS: Final = 32  # of a span that is still too large when all its texts are short
_LEFT_OUT: Final = "[left out by cc-trace: too many values]"


def encode_span(span: Span, name: str, attributes: Mapping[str, AttributeValue]) -> bytes:
    """Return a span, under the name and with the attributes a profile gave it."""
    start_ns, end_ns = _times(span)
    message = Message(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        parent_span_id=bytes.fromhex(span.parent_id or ""),
        name=readable(name),
        kind=Message.SPAN_KIND_CLIENT if span.kind == "generation" else Message.SPAN_KIND_INTERNAL,
        start_time_unix_nano=start_ns,
        end_time_unix_nano=end_ns,
    )
    if not start_ns:
        attributes = {**attributes, "cc_trace.time": "unknown"}
    _fill(message.attributes, attributes)
    if span.status != "ok":  # a status of OK is for users to set, says the specification: unset is what went well
        message.status.code = Status.STATUS_CODE_ERROR
        message.status.message = readable(span.error or span.status)
        if _FOR_MLFLOW in attributes:
            event = message.events.add(time_unix_nano=end_ns, name="exception")
            kind = attributes.get("error.type", span.status)
            _fill(event.attributes, {"exception.type": kind, "exception.message": span.error or span.status})
    elif _FOR_MLFLOW in attributes:
        message.status.code = Status.STATUS_CODE_OK
    match span.metadata.get("launched_by"):
        case {"trace_id": str(trace_id), "span_id": str(span_id)}:
            message.links.add(trace_id=bytes.fromhex(trace_id), span_id=bytes.fromhex(span_id))
    return message.SerializeToString()


def request(spans: Sequence[bytes], resource: Mapping[str, AttributeValue]) -> bytes:
    """Return an ExportTraceServiceRequest with these encoded spans."""
    scope_spans = ScopeSpans(scope=_scope()).SerializeToString()
    scope_spans += _fields(ScopeSpans.SPANS_FIELD_NUMBER, spans)
    resource_spans = ResourceSpans(resource=_resource(resource)).SerializeToString()
    resource_spans += _fields(ResourceSpans.SCOPE_SPANS_FIELD_NUMBER, (scope_spans,))
    return _fields(ExportTraceServiceRequest.RESOURCE_SPANS_FIELD_NUMBER, (resource_spans,))


def request_json(spans: Sequence[bytes], resource: Mapping[str, AttributeValue]) -> bytes:
    """Return the same request as OTLP/JSON, which differs from protobuf's JSON in its ids and enums."""
    scope_spans = {"scope": MessageToDict(_scope()), "spans": [_json_span(span) for span in spans]}
    return orjson.dumps(
        {"resourceSpans": [{"resource": MessageToDict(_resource(resource)), "scopeSpans": [scope_spans]}]}
    )


def fitted(span: Span, pack: Callable[[Span], bytes], max_bytes: int) -> bytes:
    """Return a span as `pack` makes it, its long texts cut so far that it has at most `max_bytes`.

    All texts are cut to the same length, the greatest that fits give or take a quarter. A span of countless small
    values loses them. What is then left, ids, names and a few facts, has 40 KB at the very most and is not cut further.
    """
    data, limit = pack(span), max_bytes
    if len(data) <= max_bytes:
        return data
    shortest = pack(_shortened(span, _SHORTEST))
    if len(shortest) > max_bytes:
        return pack(_emptied(span))
    while len(data) > max_bytes and limit > _SHORTEST:
        limit = limit * 3 // 4
        data = pack(_shortened(span, limit))
    return data if len(data) <= max_bytes else shortest


def _times(span: Span) -> tuple[int, int]:
    """Return start and end; backends need both, so the one that is known stands for the other."""
    first_token_ns = span.response.first_token_ns if span.response is not None else None
    known = [time for time in (span.start_ns, span.end_ns, first_token_ns) if time is not None] or [0]
    start_ns = span.start_ns if span.start_ns is not None else known[0]
    end_ns = span.end_ns if span.end_ns is not None else start_ns
    return start_ns, max(start_ns, end_ns)


def _fill(pairs: RepeatedCompositeFieldContainer[KeyValue], attributes: Mapping[str, AttributeValue]) -> None:
    """Write attributes into a message; filled in place, which is twice as fast as handing made messages over."""
    try:
        _write(pairs, attributes)
    except ValueError:  # text that is no Unicode, an integer wider than 64 bits
        del pairs[:]
        _write(pairs, {readable(key): _sendable(value) for key, value in attributes.items()})


def _write(pairs: RepeatedCompositeFieldContainer[KeyValue], attributes: Mapping[str, AttributeValue]) -> None:
    for key, value in attributes.items():
        pair = pairs.add()
        pair.key = key
        if isinstance(value, str):
            pair.value.string_value = value
        elif isinstance(value, bool):
            pair.value.bool_value = value
        elif isinstance(value, int):
            pair.value.int_value = value
        elif isinstance(value, float):
            pair.value.double_value = value
        else:
            values = pair.value.array_value.values
            for item in value:
                values.add(string_value=item)


def _sendable(value: AttributeValue) -> AttributeValue:
    if isinstance(value, str):
        return readable(value)
    return [readable(item) for item in value] if isinstance(value, list) else attribute(value)


def _scope() -> InstrumentationScope:
    return InstrumentationScope(name="cc-trace", version=__version__)


def _resource(attributes: Mapping[str, AttributeValue]) -> Resource:
    resource = Resource()
    _fill(resource.attributes, attributes)
    return resource


def _fields(number: int, values: Iterable[bytes]) -> bytes:
    """Return encoded messages as the values of one field: each has the field's tag and its length before it."""
    tag = _varint(number << 3 | 2)
    return b"".join([part for value in values for part in (tag, _varint(len(value)), value)])


def _varint(number: int) -> bytes:
    """Return a number in protobuf's form: seven bits a byte, the lowest first, the high bit set on all but the last."""
    found = bytearray()
    while number >> 7:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _json_span(data: bytes) -> dict[str, Any]:
    span = Message.FromString(data)
    found: dict[str, Any] = MessageToDict(span, use_integers_for_enums=True)
    found |= {"traceId": span.trace_id.hex(), "spanId": span.span_id.hex()}
    if span.parent_span_id:
        found["parentSpanId"] = span.parent_span_id.hex()
    for link, shown in zip(span.links, found.get("links", ()), strict=True):
        shown |= {"traceId": link.trace_id.hex(), "spanId": link.span_id.hex()}
    return found


def _shortened(span: Span, limit: int) -> Span:
    """Return a span with no text longer than `limit` and a marker; trace and span ids have their length anyway."""
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


def _emptied(span: Span) -> Span:
    """Return what is left of a span when texts were not what made it large."""
    short = _shortened(span, _SHORTEST)
    facts = [(key, value) for key, value in short.metadata.items() if not isinstance(value, list | dict)]
    given: JsonValue = _LEFT_OUT
    result: JsonValue = _LEFT_OUT
    if span.kind == "generation":
        given, result = [{"role": "user", "content": _LEFT_OUT}], {"role": "assistant", "content": _LEFT_OUT}
    return short._replace(
        input=given if span.input is not None else None,
        output=result if span.output is not None else None,
        metadata={_cut(key, _SHORTEST): value for key, value in facts[:_MAX_FACTS]},
    )


def _cut_value(value: Any, limit: int, depth: int = MAX_DEPTH) -> Any:  # noqa: ANN401 -- what comes in comes out
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
