"""From spans to the bytes on the wire, against the encoder of opentelemetry-sdk's own exporter.

Theirs begins with spans of the SDK that carry the attributes already; ours makes the attributes first, as a sync does.
Both make the same requests (`_same` looks), and both are set against each other with and without their compression.
"""

from __future__ import annotations

import gzip
import io
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode
from table import MB, Row, ratio
from timing import cpu_seconds
from transcripts import write

from cc_trace import __version__
from cc_trace.export.destination import DestinationSettings
from cc_trace.export.encoding import SpanEncoder
from cc_trace.export.http import HttpClient
from cc_trace.export.otlp_http import OtlpHttp
from cc_trace.export.outcomes import MAX_BATCH_BYTES, MAX_BATCH_SPANS
from cc_trace.export.profiles import PROFILES, Labels, resource
from cc_trace.export.profiles.otel import SCHEMA_URL
from cc_trace.export.responses import HttpResponse
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from table import Effort

    from cc_trace.spans.model import Span

MAX_RATIO: Final = 1.0
_SETTINGS: Final = DestinationSettings("otlp", "otlp", endpoint="http://collector.test:4318")  # nothing is connected


def rows(effort: Effort) -> list[Row]:
    """Return CPU time for all spans of a session, in the batches in which they are sent."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "transcript.jsonl")
        write(path, "older", effort.speed_bytes)  # twenty times the spans of the other mix
        batches = list(_batches(list(Session(path).spans())))
    theirs = [[_sdk_span(span) for span in batch] for batch in batches]
    if not all(map(_same, batches, theirs)):
        message = "ours and theirs are not the same spans"
        raise RuntimeError(message)
    rounds = max(1, effort.rounds // 3)  # a round takes long, and its times differ little
    sent, exported = cpu_seconds(rounds, partial(_send, batches), partial(_export, theirs))
    packed, encoded = cpu_seconds(rounds, partial(_pack, batches), partial(_encode, theirs))
    size = f"{effort.speed_bytes // MB} MB"
    return [
        ratio(
            f"older, {size}: spans to gzipped OTLP requests / opentelemetry-sdk's exporter", sent / exported, MAX_RATIO
        ),
        ratio(f"older, {size}: the same without gzip", packed / encoded, MAX_RATIO),
    ]


def _batches(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """Yield spans as a delivery puts them together."""
    encoder, size = SpanEncoder(_SETTINGS), 0
    batch: list[Span] = []
    for span in spans:
        encoded = encoder.encode(span)
        if len(batch) >= MAX_BATCH_SPANS or size + encoded.size > MAX_BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(span)
        size += encoded.size
    yield batch


class _Accepting(HttpClient):
    """Has no connection and says yes: what the network takes is nobody's merit."""

    def __init__(self) -> None:
        pass

    def post(self, url: str, headers: object, content: bytes) -> HttpResponse:  # noqa: ARG002
        return HttpResponse(200, "application/x-protobuf", b"", None, None)


def _send(batches: Sequence[Sequence[Span]]) -> None:
    destination = OtlpHttp(_SETTINGS, _Accepting())
    for batch in batches:
        destination.send([destination.encode(span) for span in batch])


def _export(batches: Sequence[Sequence[ReadableSpan]]) -> None:
    for batch in batches:
        buffer = io.BytesIO()
        with gzip.GzipFile(fileobj=buffer, mode="w") as file:  # as their exporter does, at gzip's default level
            file.write(encode_spans(batch).SerializeToString())


def _pack(batches: Sequence[Sequence[Span]]) -> None:
    encoder = SpanEncoder(_SETTINGS)
    for batch in batches:
        encoder.body([encoder.encode(span) for span in batch])


def _encode(batches: Sequence[Sequence[ReadableSpan]]) -> None:
    for batch in batches:
        encode_spans(batch).SerializeToString()


def _sdk_span(span: Span) -> ReadableSpan:
    name, attributes = PROFILES[_SETTINGS.profile](span, Labels())
    parent = None if span.parent_id is None else _context(span.trace_id, span.parent_id)
    error = None if span.status == "ok" else Status(StatusCode.ERROR, span.error or span.status)
    return ReadableSpan(
        name=name,
        context=_context(span.trace_id, span.span_id),
        parent=parent,
        resource=_RESOURCE,
        attributes=attributes,
        kind=SpanKind.CLIENT if span.kind == "generation" else SpanKind.INTERNAL,
        status=error or Status(),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=_SCOPE,
    )


_RESOURCE: Final = Resource(resource(_SETTINGS.profile, Labels()))
_SCOPE: Final = InstrumentationScope("cc-trace", __version__, SCHEMA_URL)


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False)


def _same(batch: Sequence[Span], theirs: Sequence[ReadableSpan]) -> bool:
    """Tell whether both make the same request, but for what their encoder says of a parent: that it is not remote."""
    encoder = SpanEncoder(_SETTINGS)
    ours = ExportTraceServiceRequest.FromString(encoder.body([encoder.encode(span) for span in batch]))
    request = encode_spans(theirs)
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.ClearField("flags")
        if not span.status.code:
            span.ClearField("status")
    return ours == request
