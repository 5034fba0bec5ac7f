"""Encodes spans as OTLP, each once, with the attributes of a profile, and joins them into requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from cc_trace.errors import ConfigError
from cc_trace.export.otlp import OURS, Scope, encode_span, encode_within, request
from cc_trace.export.outcomes import MAX_SPAN_BYTES, EncodedSpan
from cc_trace.export.profiles import PROFILES, Profile, resource, schema_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cc_trace.export.destination import DestinationSettings
    from cc_trace.export.outcomes import Temporality
    from cc_trace.export.profiles.labels import AttributeValue
    from cc_trace.spans import Span

Form: TypeAlias = Literal["protobuf", "json"]


class SpanEncoder:
    """Encodes the spans and requests of one destination. The data of an `EncodedSpan` is the span in protobuf."""

    def __init__(self, settings: DestinationSettings, form: Form = "protobuf") -> None:
        if settings.profile not in PROFILES:
            profiles = ", ".join(PROFILES)
            message = f"destination {settings.name} has no profile {settings.profile!r}; it must be one of {profiles}"
            raise ConfigError(message)
        self.resource = resource(settings.profile, settings.labels)
        self.schema_url = schema_url(settings.profile)
        self.scope = _scope(settings)
        self._profile = PROFILES[settings.profile]
        self._labels = settings.labels
        self._form = form

    def encode(self, span: Span, profile: Profile | None = None) -> EncodedSpan:
        """Return a span as it will be sent, cut if it is larger than a batch may be. `profile`: for this span only."""
        limit, profile = MAX_SPAN_BYTES, profile or self._profile
        data, size = self._encode_within(span, profile, limit)
        while size > MAX_SPAN_BYTES and limit > 1:  # as JSON it is larger: reduce it in proportion, and by a tenth more
            limit = limit * MAX_SPAN_BYTES // size * 9 // 10
            data, size = self._encode_within(span, profile, limit)
        return EncodedSpan(span.span_id, span.trace_id, size, data)

    def body(self, batch: Sequence[EncodedSpan]) -> bytes:
        """Return an ExportTraceServiceRequest."""
        spans = [encoded.data for encoded in batch]
        join = request if self._form == "protobuf" else _json
        return join(spans, self.resource, self.schema_url, self.scope)

    def metrics_body(
        self, counts: Mapping[str, list[float]], temporality: Temporality, start_ns: int, end_ns: int, session_id: str
    ) -> bytes:
        """Return an ExportMetricsServiceRequest.

        The session is the service instance, because each series must have one writer: the holder of the session's lock.
        """
        from cc_trace.export.metrics import metrics_request  # noqa: PLC0415  (few want metrics)

        instance: dict[str, AttributeValue] = {**self.resource, "service.instance.id": session_id}
        body = metrics_request(counts, temporality, start_ns, end_ns, instance)
        if self._form == "protobuf":
            return body
        from cc_trace.export.otlp_json import metrics_json  # noqa: PLC0415  (60 ms)

        return metrics_json(body)

    def as_json(self, encoded: EncodedSpan) -> bytes:
        """Return one span's request as OTLP/JSON, regardless of the format it is sent in."""
        return _json([encoded.data], self.resource, self.schema_url, self.scope)

    def _encode_within(self, span: Span, profile: Profile, max_bytes: int) -> tuple[bytes, int]:
        data = encode_within(span, lambda variant: encode_span(variant, *profile(variant, self._labels)), max_bytes)
        return data, len(data) if self._form == "protobuf" else len(_json([data], {}))


class OtlpDestination:
    """Base of OTLP destinations: same encoding, not idempotent, not queryable."""

    idempotent = False
    queryable = False

    def __init__(self, settings: DestinationSettings, form: Form = "protobuf") -> None:
        self.name = settings.name
        self._encoder = SpanEncoder(settings, form)

    def encode(self, span: Span) -> EncodedSpan:
        """Return a span as it will be sent."""
        return self._encoder.encode(span)

    def as_json(self, encoded: EncodedSpan) -> bytes:
        """Return what would be sent, as OTLP/JSON."""
        return self._encoder.as_json(encoded)

    def stored_ids(self, batch: Sequence[EncodedSpan]) -> frozenset[str] | None:  # noqa: ARG002
        """Return None: OTLP has no queries."""
        return None

    def close(self) -> None:
        """Close what is open: nothing, unless a subclass overrides this."""


def _scope(settings: DestinationSettings) -> Scope:
    """Return the scope of a destination's spans.

    Langfuse repeats every attribute as a row of metadata unless the scope's name begins with that of its SDKs. Those
    also name their project, and some servers reject such a scope without it. The resource names cc-trace.
    """
    if settings.kind == "langfuse" and settings.public_key is not None:
        return Scope("langfuse-sdk/cc-trace", {"public_key": settings.public_key})
    return OURS


def _json(
    spans: Sequence[bytes], resource: Mapping[str, AttributeValue], schema_url: str = "", scope: Scope = OURS
) -> bytes:
    from cc_trace.export.otlp_json import request_json  # noqa: PLC0415  (60 ms, and most destinations take protobuf)

    return request_json(spans, resource, schema_url, scope)
