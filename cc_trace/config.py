"""Settings, from the environment and from config.toml. Pure: both are given as values.

Rule: a wrong value is named, with what is allowed; it is never silently replaced by a default.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from cc_trace.destinations import LANGFUSE_CLOUD, DestinationSettings
from cc_trace.errors import ConfigError
from cc_trace.profiles.labels import Labels
from cc_trace.state import state_folder
from cc_trace.transcript import claude_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cc_trace.destinations import Protocol

_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")
_PROTOCOLS: Final = ("http/protobuf", "http/json", "grpc")
_PROFILES: Final = ("otel", "openinference", "langfuse")


@dataclass(frozen=True, slots=True)
class Config:
    """What is to be done, and where."""

    enabled: bool
    config_dir: Path  # Claude Code's
    state_dir: Path
    destinations: tuple[DestinationSettings, ...]
    rest_seconds: float


def read_config(environment: Mapping[str, str], file: Mapping[str, Any], home: Path) -> Config:
    """Return the effective settings: a variable wins over the file."""
    settings = _Settings(environment, file)
    config_dir = claude_folder(environment, home)
    state_dir = state_folder(environment, config_dir)
    labels = Labels(
        user_id=settings.text("USER_ID"),
        tags=tuple(_split(settings.text("TAGS"))),
        environment=settings.text("ENVIRONMENT"),
        release=settings.text("RELEASE"),
        resource=_pairs(settings.text("RESOURCE_ATTRIBUTES"), "CC_TRACE_RESOURCE_ATTRIBUTES"),
    )
    names = _split(settings.text("DESTINATIONS")) or _configured(settings) or ["local"]
    return Config(
        settings.flag("ENABLED", default=True),
        config_dir,
        state_dir,
        tuple(_destination(name, settings, labels, state_dir) for name in dict.fromkeys(names)),
        settings.number("REST_SECONDS", 300.0),
    )


class _Settings:
    """A setting by its name: CC_TRACE_NAME, else `name` in the file."""

    def __init__(self, environment: Mapping[str, str], file: Mapping[str, Any]) -> None:
        self.environment = environment
        self._file = file

    def text(self, name: str) -> str | None:
        value: Any = self.environment.get(f"CC_TRACE_{name}")
        if value is None:
            value = self._file.get(name.lower())
        if value is None or value == "":
            return None
        if isinstance(value, list):
            return ",".join(str(item) for item in value)
        if isinstance(value, dict):
            return ",".join(f"{key}={item}" for key, item in value.items())
        return str(value)

    def first(self, *variables: str) -> str | None:
        """Return the first of some variables by their full names, else the file's entry of that name."""
        for variable in variables:
            if value := self.environment.get(variable) or self._file.get(variable.lower()):
                return str(value)
        return None

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() in _TRUE:
            return True
        if value.lower() in _FALSE:
            return False
        message = f"CC_TRACE_{name} is {value!r}; allowed are true and false"
        raise ConfigError(message)

    def number(self, name: str, default: float) -> float:
        value = self.text(name)
        try:
            return default if value is None else float(value)
        except ValueError:
            message = f"CC_TRACE_{name} is {value!r}; a number of seconds is wanted"
            raise ConfigError(message) from None

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.text(name) or default
        if value not in allowed:
            message = f"CC_TRACE_{name} is {value!r}; allowed are {', '.join(allowed)}"
            raise ConfigError(message)
        return value


def _configured(settings: _Settings) -> list[str]:
    """Return the destinations that have what they need, where none is named."""
    names = []
    if settings.text("OTLP_ENDPOINT"):
        names.append("otlp")
    if _langfuse_keys(settings) != (None, None):
        names.append("langfuse")
    if settings.text("FILE"):
        names.append("file")
    return names


def _langfuse_keys(settings: _Settings) -> tuple[str | None, str | None]:
    return (
        settings.first("CC_LANGFUSE_PUBLIC_KEY", "LANGFUSE_PUBLIC_KEY"),
        settings.first("CC_LANGFUSE_SECRET_KEY", "LANGFUSE_SECRET_KEY"),
    )


def _destination(name: str, settings: _Settings, labels: Labels, state_dir: Path) -> DestinationSettings:
    kind, _, exporter = name.partition(":")
    timeout = settings.number("TIMEOUT_SECONDS", 10.0)
    match kind:
        case "local":
            return DestinationSettings(name, "local", path=state_dir / "traces.db", labels=labels)
        case "file":
            path = settings.text("FILE") or str(state_dir / "traces.jsonl")
            return DestinationSettings(name, "file", path=Path(path).expanduser(), labels=labels)
        case "otlp":
            return _otlp(name, settings, labels, timeout)
        case "langfuse":
            return _langfuse(name, settings, labels, timeout)
        case "otel" if exporter:
            return DestinationSettings(name, "otel", exporter=exporter, labels=labels, timeout_seconds=timeout)
    message = f"CC_TRACE_DESTINATIONS names {name!r}; allowed are local, otlp, langfuse, file and otel:NAME"
    raise ConfigError(message)


def _otlp(name: str, settings: _Settings, labels: Labels, timeout: float) -> DestinationSettings:
    endpoint = settings.text("OTLP_ENDPOINT")
    protocol = cast("Protocol", settings.choice("OTLP_PROTOCOL", _PROTOCOLS, "http/protobuf"))
    if endpoint is None:
        message = "destination otlp needs CC_TRACE_OTLP_ENDPOINT, for example http://localhost:4318"
        raise ConfigError(message)
    return DestinationSettings(
        name,
        "otlp",
        profile=settings.choice("OTLP_PROFILE", _PROFILES, "otel"),
        endpoint=endpoint,
        protocol=protocol,
        headers=tuple(_pairs(settings.text("OTLP_HEADERS"), "CC_TRACE_OTLP_HEADERS").items()),
        timeout_seconds=timeout,
        ca_file=_file(settings.text("OTLP_CA_FILE")),
        cert_file=_file(settings.text("OTLP_CERT_FILE")),
        key_file=_file(settings.text("OTLP_KEY_FILE")),
        labels=labels,
    )


def _langfuse(name: str, settings: _Settings, labels: Labels, timeout: float) -> DestinationSettings:
    public, secret = _langfuse_keys(settings)
    if public is None or secret is None:
        missing = "LANGFUSE_PUBLIC_KEY" if public is None else "LANGFUSE_SECRET_KEY"
        message = f"destination langfuse needs {missing}"
        raise ConfigError(message)
    base = settings.first("CC_LANGFUSE_BASE_URL", "LANGFUSE_BASE_URL", "LANGFUSE_HOST") or LANGFUSE_CLOUD
    return DestinationSettings(
        name,
        "langfuse",
        profile="langfuse",
        endpoint=base,
        public_key=public,
        secret_key=secret,
        timeout_seconds=timeout,
        labels=labels,
    )


def _file(text: str | None) -> Path | None:
    return None if text is None else Path(text).expanduser()


def _split(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _pairs(text: str | None, variable: str) -> dict[str, str]:
    pairs = {}
    for part in _split(text):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            message = f"{variable} has a part that is not key=value"
            raise ConfigError(message)
        pairs[key.strip()] = value.strip()
    return pairs
