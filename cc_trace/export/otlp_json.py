"""Converts encoded spans to OTLP/JSON, for destinations that take JSON and for people.

Source: the section "JSON Protobuf Encoding" of the OTLP specification. Importing this module takes 60 ms because of
protobuf's messages, so it is imported only when JSON is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

from cc_trace import __version__
from cc_trace.export.otlp import OURS, encode_resource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cc_trace.export.otlp import Scope
    from cc_trace.export.profiles.labels import AttributeValue


def request_json(
    spans: Sequence[bytes], resource: Mapping[str, AttributeValue], schema_url: str = "", scope: Scope = OURS
) -> bytes:
    """Return an ExportTraceServiceRequest as OTLP/JSON, which differs from protobuf's JSON in its ids and enums."""
    resource_json = MessageToDict(Resource.FromString(encode_resource(resource)))
    scope_json: dict[str, Any] = {"name": scope.name, "version": __version__}
    if scope.attributes:
        scope_json |= MessageToDict(Resource.FromString(encode_resource(scope.attributes)))  # the same field in both
    scope_spans: dict[str, Any] = {"scope": scope_json, "spans": [_span(span) for span in spans]}
    if schema_url:
        scope_spans["schemaUrl"] = schema_url
    return orjson.dumps({"resourceSpans": [{"resource": resource_json, "scopeSpans": [scope_spans]}]})


def metrics_json(data: bytes) -> bytes:
    """Return an encoded ExportMetricsServiceRequest as OTLP/JSON.

    Counts of histograms are numbers: readers must accept numbers and strings, but some accept only numbers.
    """
    request = MessageToDict(ExportMetricsServiceRequest.FromString(data), use_integers_for_enums=True)
    for resource_metrics in request.get("resourceMetrics", ()):
        for scope_metrics in resource_metrics.get("scopeMetrics", ()):
            for metric in scope_metrics.get("metrics", ()):
                for point in metric.get("histogram", {}).get("dataPoints", ()):
                    point["count"] = int(point["count"])
                    point["bucketCounts"] = [*map(int, point["bucketCounts"])]
    return orjson.dumps(request)


def _span(data: bytes) -> dict[str, Any]:
    span = Message.FromString(data)
    span_json: dict[str, Any] = MessageToDict(span, use_integers_for_enums=True)
    span_json |= {"traceId": span.trace_id.hex(), "spanId": span.span_id.hex()}
    if span.parent_span_id:
        span_json["parentSpanId"] = span.parent_span_id.hex()
    for link, link_json in zip(span.links, span_json.get("links", ()), strict=True):
        link_json |= {"traceId": link.trace_id.hex(), "spanId": link.span_id.hex()}
    return span_json
