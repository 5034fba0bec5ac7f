"""Any exporter of the OpenTelemetry ecosystem, by its name in the entry point group `opentelemetry_traces_exporter`.

An exporter reports only success or failure. A failure or an exception may have happened before or after spans were
stored, and may be permanent or temporary: so both are unclear. How long it takes, and whether its success is genuine,
is up to the exporter.
"""

from __future__ import annotations

import contextlib
import inspect
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from cc_trace import __version__
from cc_trace.errors import ConfigError
from cc_trace.export.encoding import OtlpDestination
from cc_trace.export.endpoint import headers, secrets
from cc_trace.export.outcomes import Accepted, Unclear
from cc_trace.export.responses import cleaned

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.util.types import AttributeValue

    from cc_trace.export.destination import DestinationSettings
    from cc_trace.export.outcomes import EncodedSpan, Outcome

GROUP: Final = "opentelemetry_traces_exporter"


class OtelExporter(OtlpDestination):
    """Passes spans to an exporter."""

    def __init__(self, settings: DestinationSettings) -> None:
        super().__init__(settings)
        self._resource = Resource(self._encoder.resource)
        self._scope = InstrumentationScope("cc-trace", __version__, self._encoder.schema_url or None)
        self._secret_values = secrets(settings)
        self._milliseconds = int(settings.timeout_seconds * 1000)
        self._exporter = _exporter(settings)

    def send(self, batch: Sequence[EncodedSpan]) -> Outcome:
        """Export one batch."""
        spans = [readable_span(Message.FromString(encoded.data), self._resource, self._scope) for encoded in batch]
        try:
            result = self._exporter.export(spans)
            if result is SpanExportResult.SUCCESS and self._exporter.force_flush(self._milliseconds):
                return Accepted()
        except Exception as error:  # noqa: BLE001  (foreign code may raise anything; the outcome is the same)
            return Unclear(f"the exporter raised {type(error).__name__}: {cleaned(str(error), self._secret_values)}")
        return Unclear("the exporter failed without giving a reason")

    def close(self) -> None:
        """Shut the exporter down."""
        with contextlib.suppress(Exception):
            self._exporter.shutdown()


def readable_span(message: Message, resource: Resource, scope: InstrumentationScope) -> ReadableSpan:
    """Return a span as an ended span of the SDK."""
    parent = _context(message.trace_id, message.parent_span_id) if message.parent_span_id else None
    return ReadableSpan(
        message.name,
        context=_context(message.trace_id, message.span_id),
        parent=parent,
        resource=resource,
        attributes=_attributes(message.attributes),
        links=[Link(_context(link.trace_id, link.span_id), _attributes(link.attributes)) for link in message.links],
        kind=SpanKind(message.kind - 1),  # OTLP has UNSPECIFIED before INTERNAL
        status=Status(StatusCode(message.status.code), message.status.message or None),
        start_time=message.start_time_unix_nano,
        end_time=message.end_time_unix_nano,
        instrumentation_scope=scope,
    )


def _context(trace_id: bytes, span_id: bytes) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int.from_bytes(trace_id), int.from_bytes(span_id), is_remote=False, trace_flags=flags)


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, AttributeValue]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> AttributeValue:
    match value.WhichOneof("value"):
        case "array_value":
            return [item.string_value for item in value.array_value.values]
        case field:
            scalar: AttributeValue = getattr(value, field or "string_value")
            return scalar


def _exporter(settings: DestinationSettings) -> SpanExporter:
    """Return the exporter with this name. It configures itself; our settings are passed in addition."""
    candidates = list(entry_points(group=GROUP, name=settings.exporter or ""))
    if not candidates:
        names = ", ".join(sorted({point.name for point in entry_points(group=GROUP)}))
        message = f"destination {settings.name}: exporter {settings.exporter!r} is not installed; installed: {names}"
        raise ConfigError(message)
    arguments: dict[str, Any] = {}
    if (endpoint := settings.traces_endpoint or settings.endpoint) is not None:
        arguments["endpoint"] = endpoint
    if settings.path is not None:
        arguments["path"] = settings.path
    if settings.headers:
        arguments["headers"] = dict(headers(settings))
    try:
        factory = candidates[0].load()
        unknown = [name for name in arguments if name not in inspect.signature(factory).parameters]
        exporter: SpanExporter = factory(**{name: value for name, value in arguments.items() if name not in unknown})
    except Exception as error:
        reason = cleaned(str(error), secrets(settings))
        message = f"destination {settings.name}: exporter {settings.exporter!r} cannot be created: {reason}"
        raise ConfigError(message) from error
    if unknown:
        exporter.shutdown()
        message = f"destination {settings.name}: exporter {settings.exporter!r} does not accept {' or '.join(unknown)}"
        raise ConfigError(message)
    return exporter
