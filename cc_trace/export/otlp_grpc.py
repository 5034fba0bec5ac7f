"""Any OTLP endpoint over gRPC; compressed with gzip, unless it is on this machine. Needs the extra `grpc`.

Rules:
- There are no retries here: grpc's own are off.
- A status is less precise than in HTTP: UNAVAILABLE comes from an overloaded server, but also from grpc itself if there
  was no connection or it broke. The text distinguishes them; in doubt the outcome is unclear.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from cc_trace import __version__
from cc_trace.errors import ConfigError
from cc_trace.export.encoding import OtlpDestination
from cc_trace.export.endpoint import headers, is_loopback, secrets, url
from cc_trace.export.outcomes import Rejected, Retryable, Unclear
from cc_trace.export.responses import MAX_AFTER_SECONDS, cleaned, grpc_outcome, verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cc_trace.export.destination import DestinationSettings
    from cc_trace.export.outcomes import EncodedSpan, Outcome

_METHOD: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_METRICS_METHOD: Final = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
_CONNECT_SECONDS: Final = 5.0
_PORTS: Final = {"http": 4317, "https": 443}
_KEY: Final = re.compile(r"(?!grpc-)[0-9a-z_.-]+")
_Code: Final = grpc.StatusCode
# grpc-core and grpc-go say RESOURCE_EXHAUSTED "larger than max", tonic says OUT_OF_RANGE "message length too large".
_TOO_LARGE: Final = re.compile("larger than max|too large", re.IGNORECASE)
_REDIRECT: Final = re.compile(r"http2 header with status: 3\d\d")  # grpc has no code for it and says UNKNOWN
_NO_CONNECTION: Final = re.compile(
    "^(failed to connect|errors resolving|dns resolution|name resolution)", re.IGNORECASE
)
_BROKEN: Final = re.compile(
    "stream|socket|connection|broken pipe|goaway|keepalive|ping|transport|cancel|eof|shut", re.IGNORECASE
)


class OtlpGrpc(OtlpDestination):
    """Sends batches of spans. Backends may store a span twice if it is sent twice, and cannot be queried."""

    def __init__(self, settings: DestinationSettings) -> None:
        super().__init__(settings)
        self._seconds = settings.timeout_seconds
        self._secret_values = secrets(settings)
        self._metadata = _metadata(settings)
        self._address, self._channel = _channel(settings)
        self.metrics = settings.metrics
        self._export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(_METHOD)
        self._export_metrics: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(_METRICS_METHOD)

    def send(self, batch: Sequence[EncodedSpan]) -> Outcome:
        """Call Export with one batch."""
        return self._call(self._export, self._encoder.body(batch))

    def send_metrics(self, counts: Mapping[str, list[float]], start_ns: int, end_ns: int, session_id: str) -> Outcome:
        """Call the metrics service's Export with a session's counts."""
        body = self._encoder.metrics_body(counts, self.metrics or "delta", start_ns, end_ns, session_id)
        return self._call(self._export_metrics, body)

    def _call(self, export: grpc.UnaryUnaryMultiCallable[bytes, bytes], body: bytes) -> Outcome:
        try:
            response = export(body, timeout=self._seconds, metadata=self._metadata)
        except grpc.RpcError as error:
            return self._failure(error)
        return grpc_outcome(response, self._secret_values)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def _failure(self, error: Any) -> Outcome:  # noqa: ANN401  (an RpcError is also a Call, which its type does not say)
        if error.code() is _Code.DEADLINE_EXCEEDED:
            return Unclear(f"{self._address}: no response within {self._seconds:g} seconds")
        after_seconds = _after_seconds(error.trailing_metadata() or ())
        return status_outcome(error.code(), cleaned(error.details() or "", self._secret_values), after_seconds)


def status_outcome(code: grpc.StatusCode, details: str, after_seconds: float | None) -> Outcome:
    """Return the outcome that a status means for the batch."""
    message = f"{code.name}: {details}" if details else code.name
    match code:
        case _Code.RESOURCE_EXHAUSTED | _Code.OUT_OF_RANGE if after_seconds is None and _TOO_LARGE.search(details):
            return Rejected(code.name, details)
        case _Code.UNAVAILABLE if after_seconds is None and not _NO_CONNECTION.match(details):
            return Unclear(message) if _BROKEN.search(details) else Retryable(message)
        case _ if _REDIRECT.search(details):
            return Retryable(message, after_seconds)
    match verdict(code.name):
        case "rejected":
            return Rejected(code.name, details or code.name)
        case "not stored":
            return Retryable(message, after_seconds)
        case "unclear":
            return Unclear(message)


def _metadata(settings: DestinationSettings) -> tuple[tuple[str, str | bytes], ...]:
    """Return the headers as gRPC metadata, after checking them: gRPC's own error would show all values."""
    metadata: list[tuple[str, str | bytes]] = []
    for name, value in headers(settings):
        key = name.lower()
        if not _KEY.fullmatch(key):
            message = f"header {name} of destination {settings.name} has a name that gRPC does not allow"
            raise ConfigError(message)
        metadata.append((key, value.encode() if key.endswith("-bin") else value))
    return tuple(metadata)


def _channel(settings: DestinationSettings) -> tuple[str, grpc.Channel]:
    """Return a channel, and its host and port. Nothing is connected yet."""
    text = (settings.traces_endpoint or settings.endpoint or "").strip()
    bare = "://" not in text  # as gRPC users write it
    parts = url(settings, f"https://{text}" if bare else text)
    host = parts.hostname or ""
    if bare and is_loopback(host):
        parts = parts._replace(scheme="http")
    address = f"{f'[{host}]' if ':' in host else host}:{parts.port or _PORTS[parts.scheme]}"
    # Connecting must time out before the call does, or a host that never answers would look like an unclear outcome.
    connect_ms = int(1000 * min(_CONNECT_SECONDS, settings.timeout_seconds / 2))
    options = [
        ("grpc.min_reconnect_backoff_ms", connect_ms),  # also the time limit of one attempt
        ("grpc.initial_reconnect_backoff_ms", connect_ms),
        ("grpc.use_local_subchannel_pool", 1),  # so that closing the channel closes the connection
        ("grpc.enable_retries", 0),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.primary_user_agent", f"cc-trace/{__version__}"),
        ("grpc.enable_http_proxy", int(not is_loopback(host))),
    ]
    compression = grpc.Compression.NoCompression if is_loopback(host) else grpc.Compression.Gzip
    if parts.scheme == "http":
        return address, grpc.insecure_channel(address, options, compression)
    # A certificate without a key would abort the process. The certificate's file may also have the key.
    files = (settings.ca_file, settings.cert_file and (settings.key_file or settings.cert_file), settings.cert_file)
    try:
        root, key, chain = (file.read_bytes() if file is not None else None for file in files)
    except OSError as error:
        message = f"the TLS files of destination {settings.name} cannot be used: {error}"
        raise ConfigError(message) from error
    return address, grpc.secure_channel(address, grpc.ssl_channel_credentials(root, key, chain), options, compression)


def _after_seconds(metadata: Sequence[tuple[str, str | bytes]]) -> float | None:
    """Return the delay of a RetryInfo among the details of a status."""
    for name, value in metadata:
        if name == "grpc-status-details-bin" and isinstance(value, bytes):
            try:
                for detail in Status.FromString(value).details:
                    info = RetryInfo()
                    if detail.Unpack(info):
                        delay: float = info.retry_delay.seconds + info.retry_delay.nanos / 1e9
                        return min(max(0.0, delay), MAX_AFTER_SECONDS)
            except DecodeError:
                return None
    return None
