"""Where spans go: one module each, imported when it is chosen (grpc takes 90 ms, opentelemetry-sdk 80)."""
# ruff: noqa: PLC0415

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

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
# Who says what a response cost: the server, we, or we where the server has no price.
Cost: TypeAlias = Literal["server", "local", "missing"]
_ASKING: Final = 6  # requests that may go before a batch: of images, scores and prices


@dataclass(frozen=True, slots=True)
class DestinationSettings:
    """What one destination needs to know. Its repr shows no key."""

    name: str  # also the name of its progress in the state
    kind: DestinationKind
    profile: str = "otel"  # for otlp and file; the others have their own
    endpoint: str | None = field(default=None, repr=False)  # a base URL, or one that ends with /v1/traces
    traces_endpoint: str | None = field(default=None, repr=False)  # a URL that is used as it stands
    protocol: OtlpProtocol = "http/protobuf"
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout_seconds: float = 10.0  # of one request in all
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    path: Path | None = None  # of local and file
    public_key: str | None = field(default=None, repr=False)  # of langfuse
    secret_key: str | None = field(default=None, repr=False)
    exporter: str | None = None  # of otel: its entry point's name
    labels: Labels = field(default_factory=Labels)
    metrics: Temporality | None = None  # of otlp: how metrics are sent beside the spans; None: none are
    waits_for: str | None = None  # what is not at hand: nothing can be sent yet
    # Of langfuse:
    cost: Cost = "server"
    media: bool = False  # images and documents are uploaded
    scores: bool = False
    cache: Path | None = None  # the folder where it is kept what the server has prices for

    @property
    def idempotent(self) -> bool:
        """Tell whether a span that comes twice is the same as once, so that a fork's copies need not be held back."""
        return self.kind == "local"

    @property
    def send_seconds(self) -> float:
        """Return how long sending a batch can take at most, with all that has to go before it."""
        return self.timeout_seconds * (1 + _ASKING * (self.media or self.scores))

    @property
    def store(self) -> Path | None:
        """Return the database on this machine that can be looked into; None where it is elsewhere."""
        return self.path if self.kind == "local" else None

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the packages that are needed for it, beyond those that everything needs."""
        match self.kind, self.protocol:
            case "local", _:
                return ()
            case "file", _:
                return _OTLP_PACKAGES
            case "otel", _:
                return (*_OTLP_PACKAGES, "opentelemetry-sdk")
            case "otlp", "grpc":
                return (*_OTLP_PACKAGES, "grpcio", "googleapis-common-protos")
            case _:
                return (*_OTLP_PACKAGES, "certifi")


def open_destination(settings: DestinationSettings) -> Destination:
    """Return a destination. Nothing is connected or opened yet; what is wrong with the settings is a ConfigError."""
    if settings.waits_for is not None:
        from cc_trace.export.waiting import Waiting

        return Waiting(settings, settings.waits_for)
    match settings.kind, settings.protocol:
        case "local", _:
            from cc_trace.export.local import LocalStore

            return LocalStore(settings.name, _path(settings))
        case "file", _:
            from cc_trace.export.file import JsonLines

            return JsonLines(settings, _path(settings))
        case "langfuse", _:
            from cc_trace.export.langfuse import Langfuse

            return Langfuse(settings)
        case "otel", _:
            try:
                from cc_trace.export.otel_exporter import OtelExporter
            except ImportError as error:
                raise _missing(settings, "opentelemetry-sdk", error) from error
            return OtelExporter(settings)
        case "otlp", "grpc":
            try:
                from cc_trace.export.otlp_grpc import OtlpGrpc
            except ImportError as error:
                raise _missing(settings, "grpcio googleapis-common-protos", error) from error
            return OtlpGrpc(settings)
        case _:
            from cc_trace.export.otlp_http import OtlpHttp

            return OtlpHttp(settings)


def trace_url(settings: DestinationSettings, trace_id: str) -> str | None:
    """Return where a person can look at a trace; None where the destination has no such address, or none is known."""
    if settings.kind != "langfuse":
        return None
    from cc_trace.export.langfuse import server_url

    return f"{server_url(settings)}/trace/{trace_id}"  # leads to the trace in its project


def check_name(name: str, place: str) -> None:
    """Raise ConfigError for a name that stands for no destination; `place` is where it was said."""
    kind, colon, exporter = name.partition(":")
    if kind not in get_args(DestinationKind) or not (exporter if kind == "otel" else not colon):
        message = f"{place} names {quoted(name)}; it must be one of local, otlp, langfuse, file, otel:NAME"
        raise ConfigError(message)


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
    else:  # an environment of uv's
        pip = f"uv pip install --python {shlex.quote(sys.executable)}"
    return ConfigError(f"destination {settings.name} needs a package that is missing ({error}); run: {pip} {package}")
