"""Opens destinations. Each has its own module, imported when chosen (grpc takes 90 ms, opentelemetry-sdk 80)."""
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, assert_never, cast, get_args

from cc_trace.errors import ConfigError
from cc_trace.export.profiles.labels import Labels
from cc_trace.privacy import quoted

if TYPE_CHECKING:
    from pathlib import Path

    from cc_trace.export.outcomes import Destination, Temporality

DestinationKind: TypeAlias = Literal["local", "otlp", "langfuse", "file", "otel"]
_OTLP_PACKAGES: Final = ("opentelemetry-proto", "protobuf")
LANGFUSE_CLOUD: Final = "https://cloud.langfuse.com"
OtlpProtocol: TypeAlias = Literal["http/protobuf", "http/json", "grpc"]
# Who prices a response: the server, cc-trace, or cc-trace if the server has no price.
Cost: TypeAlias = Literal["server", "local", "missing"]
# Backends that refuse old spans: suffix of the host's name -> maximum age in seconds.
_MAX_SPAN_AGES: Final = {"dynatrace.com": 3600, "sumologic.com": 86_400}
_EXTRA_REQUESTS: Final = 6  # that may precede a batch: for images, scores and prices


@dataclass(frozen=True, slots=True)
class DestinationSettings:
    """The settings of one destination. The repr does not show keys."""

    name: str  # also the name of its progress in the state
    kind: DestinationKind
    profile: str = "otel"  # for otlp and file; the others have their own
    endpoint: str | None = field(default=None, repr=False)  # a base URL, or one that ends with /v1/traces
    traces_endpoint: str | None = field(default=None, repr=False)  # a URL that is used unchanged
    protocol: OtlpProtocol = "http/protobuf"
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout_seconds: float = 10.0  # for a whole request
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    path: Path | None = None  # of local and file
    public_key: str | None = field(default=None, repr=False)  # of langfuse
    secret_key: str | None = field(default=None, repr=False)
    exporter: str | None = None  # of otel: its entry point's name
    labels: Labels = field(default_factory=Labels)
    metrics: Temporality | None = None  # of otlp: the temporality of metrics; None: none are sent
    why_no_key: str | None = None  # why nothing can be sent yet: its key came with another process's environment
    # Of langfuse:
    cost: Cost = "server"
    media: bool = False  # images and documents are uploaded
    scores: bool = False
    cache: Path | None = None  # the folder for the list of the server's prices

    @property
    def idempotent(self) -> bool:
        """Return whether sending a span twice equals sending it once, so a fork's copies need not be suppressed."""
        return self.kind == "local"

    @property
    def address(self) -> str:
        """Return what identifies the backend: projects may use one name for different collectors. May carry a login.

        A destination that waits for its key has its own address: that a key is missing says nothing about the backend.
        """
        target = self.traces_endpoint or self.endpoint or str(self.path or self.exporter)
        return f"{self.name} {target} {self.public_key or ''} {self.why_no_key or ''}".rstrip()

    @property
    def send_seconds(self) -> float:
        """Return how long sending a batch can take at most, including the requests before it."""
        return self.timeout_seconds * (1 + _EXTRA_REQUESTS * (self.media or self.scores))

    @property
    def store(self) -> Path | None:
        """Return the path of the local database, or None for other destinations."""
        return self.path if self.kind == "local" else None

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the packages it needs in addition to the base dependencies."""
        match self.kind:
            case "local":
                return ()
            case "file":
                return _OTLP_PACKAGES
            case "otel":
                return (*_OTLP_PACKAGES, "opentelemetry-sdk")
            case "otlp" if self.protocol == "grpc":
                return (*_OTLP_PACKAGES, "grpcio", "googleapis-common-protos")
            case "otlp" | "langfuse":
                return (*_OTLP_PACKAGES, "certifi")
            case _:
                assert_never(self.kind)


def open_destination(settings: DestinationSettings) -> Destination:
    """Return a destination. Nothing is connected or opened yet. Raises ConfigError for wrong settings."""
    if settings.why_no_key is not None:
        from cc_trace.export.keyless import KeylessDestination

        return KeylessDestination(settings, settings.why_no_key)
    match settings.kind:
        case "local":
            from cc_trace.export.local import LocalStore

            return LocalStore(settings.name, _path(settings))
        case "file":
            from cc_trace.export.file import JsonLines

            return JsonLines(settings, _path(settings))
        case "langfuse":
            from cc_trace.export.langfuse import Langfuse

            return Langfuse(settings)
        case "otel":
            try:
                from cc_trace.export.otel_exporter import OtelExporter
            except ImportError as error:
                raise _missing(settings, "opentelemetry-sdk", error) from error
            return OtelExporter(settings)
        case "otlp" if settings.protocol == "grpc":
            try:
                from cc_trace.export.otlp_grpc import OtlpGrpc
            except ImportError as error:
                raise _missing(settings, "grpcio googleapis-common-protos", error) from error
            return OtlpGrpc(settings)
        case "otlp":
            from cc_trace.export.otlp_http import OtlpHttp

            return OtlpHttp(settings)
        case _:
            assert_never(settings.kind)


def trace_url(settings: DestinationSettings, trace_id: str) -> str | None:
    """Return the URL of a trace's page, or None if the destination has none or it is not known."""
    if settings.kind != "langfuse":
        return None
    from cc_trace.export.langfuse import server_url

    return f"{server_url(settings)}/trace/{trace_id}"  # redirects to the trace in its project


def max_span_age_seconds(settings: DestinationSettings) -> int | None:
    """Return the maximum age of spans that a backend accepts; None if no limit is known."""
    from urllib.parse import urlsplit

    host = urlsplit(settings.endpoint or "").hostname or ""
    return next((age for name, age in _MAX_SPAN_AGES.items() if host == name or host.endswith(f".{name}")), None)


def split_name(name: str, source: str) -> tuple[DestinationKind, str]:
    """Return a destination's kind, and for `otel:NAME` the exporter's name. Raises ConfigError for an unknown one.

    `source`: the option or setting that has the name.
    """
    kind, colon, exporter = name.partition(":")
    if kind not in get_args(DestinationKind) or not (exporter if kind == "otel" else not colon):
        options = ", ".join("otel:NAME" if option == "otel" else option for option in get_args(DestinationKind))
        verb = "is" if source.startswith("--") else "contains"
        message = f"{source} {verb} {quoted(name)}; the destinations are {options}"
        raise ConfigError(message)
    return cast("DestinationKind", kind), exporter


def _path(settings: DestinationSettings) -> Path:
    if settings.path is None:
        message = f"destination {settings.name} needs a path"
        raise ConfigError(message)
    return settings.path


def _missing(settings: DestinationSettings, package: str, error: ImportError) -> ConfigError:
    import shlex
    from importlib.util import find_spec

    if find_spec("pip") is not None:
        pip = f"{shlex.quote(sys.executable)} -m pip install"
    else:  # an environment made by uv
        pip = f"uv pip install --python {shlex.quote(sys.executable)}"
    return ConfigError(f"destination {settings.name} needs a package that is missing ({error}); run: {pip} {package}")
