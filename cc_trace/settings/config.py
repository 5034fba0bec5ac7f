"""The effective configuration for the sessions of one project. Pure: settings and folders are arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, assert_never, cast

from cc_trace.errors import ConfigError
from cc_trace.export import LANGFUSE_CLOUD, DestinationSettings, Labels, split_name
from cc_trace.privacy import PrivacySettings, Redactor, check_masks, quoted
from cc_trace.settings.catalogue import BY_NAME
from cc_trace.settings.lookup import Settings, waits_for
from cc_trace.spans import TraceLink

if TYPE_CHECKING:
    from collections.abc import Callable

    from cc_trace.export import Cost, OtlpProtocol, Temporality
    from cc_trace.privacy import Content
    from cc_trace.requests import RequestContent
    from cc_trace.settings.lookup import SettingValue

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")
_WILDCARD: Final = re.compile(r"[*?[]")
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16


class Exclusion(NamedTuple):
    """Folders whose sessions are not traced."""

    pattern: str
    place: str  # where it is set, for messages

    def matches(self, project: str, real: Callable[[str], str]) -> bool:
        """Return whether a project is such a folder, or below one. `real` resolves symlinks."""
        bare = self.pattern.rstrip("/")
        paths, patterns = (project, real(project)), (bare, _resolve_symlinks(bare, real))
        literally = any(path == bare or path.startswith(f"{bare}/") for path in paths)  # such as a folder named `[id]`
        return literally or any(
            fnmatchcase(path, pattern or "/") or fnmatchcase(path, f"{pattern}/*")
            for path, pattern in product(paths, patterns)
        )


def _resolve_symlinks(pattern: str, real: Callable[[str], str]) -> str:
    """Return a pattern with symlinks resolved in its folders before the first wildcard."""
    parts = pattern.split("/")
    fixed = next((index for index, part in enumerate(parts) if _WILDCARD.search(part)), len(parts))
    folder = "/".join(parts[:fixed])
    return "/".join([_WILDCARD.sub(r"[\g<0>]", real(folder)), *parts[fixed:]]) if folder else pattern


@dataclass(frozen=True, slots=True)
class TracingScope:
    """Which sessions are traced. Read separately, so that `enabled = false` works even if other settings are wrong."""

    disabled_by: str | None  # the setting that turns tracing off
    exclude: tuple[Exclusion, ...]

    def off(self, project: str | None, real: Callable[[str], str] = lambda path: path) -> str | None:
        """Return why sessions of a project are not traced, or None if they are. `real` resolves symlinks."""
        if self.disabled_by is not None:
            return f"{self.disabled_by} is false"
        if project is None:
            return None
        matching = (exclusion for exclusion in self.exclude if exclusion.matches(project, real))
        return next((f"{exclusion.place} contains {exclusion.pattern}" for exclusion in matching), None)


@dataclass(frozen=True, slots=True)
class LocalConfig(TracingScope):
    """What to keep of sessions on this machine. Read separately: it works even if a destination is incomplete."""

    privacy: PrivacySettings
    store: bool  # whether they may be in the store: in addition to their destinations, or as one of them
    store_days: float


@dataclass(frozen=True, slots=True)
class Config(LocalConfig):
    """What to do with the sessions of one project, with every setting checked."""

    destinations: tuple[DestinationSettings, ...]
    request_content: RequestContent
    link: TraceLink
    rest_seconds: float
    unclear_seconds: float
    workers: int
    state_days: float
    debug: bool


def read_scope(settings: Settings, home: Path) -> TracingScope:
    """Return which sessions are traced. No other setting is read."""
    sources = [settings, *(Settings([layer]) for layer in settings.restrictions)]
    exclude = tuple(
        Exclusion(_expand_home(pattern, home), source.place("exclude"))
        for source in sources
        for pattern in source.names("exclude")
    )
    return TracingScope(settings.place("enabled") if settings.flag("enabled") is False else None, exclude)


def read_local_config(settings: Settings, home: Path) -> LocalConfig:
    """Check and convert the settings that decide what is kept on this machine. Raises ConfigError."""
    if mask := settings.names("mask"):
        Redactor(mask)  # raises if one is not a regular expression
    if project_mask := settings.restricting("mask"):
        check_masks(project_mask)
    scope, content = read_scope(settings, home), cast("Content", settings.text("content"))
    return LocalConfig(
        disabled_by=scope.disabled_by,
        exclude=scope.exclude,
        privacy=PrivacySettings(content, settings.whole_number("max_chars"), tuple(mask), tuple(project_mask)),
        store=settings.flag("store") is not False or "local" in _destination_names(settings),
        store_days=settings.number("store_days"),
    )


def read_config(settings: Settings, state_dir: Path, home: Path) -> Config:
    """Check and convert the settings. Raises ConfigError for the first one that is wrong."""
    local = read_local_config(settings, home)
    labels = Labels(
        user_id=settings.text("user_id"),
        tags=tuple(settings.names("tags")),
        environment=settings.text("environment"),
        release=settings.text("release"),
        resource=settings.pairs("resource_attributes"),
    )
    request_content = cast("RequestContent", settings.text("request_content"))
    return Config(
        disabled_by=local.disabled_by,
        exclude=local.exclude,
        privacy=local.privacy,
        store=local.store,
        store_days=local.store_days,
        destinations=tuple(
            _destination(name, settings, labels, state_dir, home) for name in _destination_names(settings)
        ),
        request_content=request_content if local.privacy.content == "full" else "none",
        link=_link(settings),
        rest_seconds=settings.number("rest_seconds"),
        unclear_seconds=settings.number("unclear_seconds"),
        workers=_workers(settings),
        state_days=settings.number("state_days"),
        debug=settings.flag("debug") is True,
    )


def _workers(settings: Settings) -> int:
    number = settings.whole_number("workers")
    if number < 1:
        message = f"{settings.place('workers')} is {number}; it must be at least 1"
        raise ConfigError(message)
    return number


def _destination_names(settings: Settings) -> list[str]:
    """Return the destinations that are listed, else those that are configured, else the local store."""
    enabled = _langfuse_enabled(settings)
    names = list(dict.fromkeys(settings.names("destinations")))
    if not names:
        names = [name for name, key in (("otlp", "otlp_endpoint"), ("file", "file")) if settings.text(key)]
        if enabled or (enabled is None and _has_own_keys(settings)):
            names.append("langfuse")
    elif enabled and "langfuse" not in names:
        names.append("langfuse")
    return [name for name in names if name != "langfuse" or enabled is not False] or ["local"]


def _langfuse_enabled(settings: Settings) -> bool | None:
    """Return whether TRACE_TO_LANGFUSE enables Langfuse; None if it is not set. cc-langfuse accepts only `true`."""
    value = settings.value("trace_to_langfuse")
    if value is not None and value.text.lower() not in ("true", "false"):
        message = f"{value.place} is {quoted(value.text)}; it must be true or false"
        raise ConfigError(message)
    return None if value is None else value.text.lower() == "true"


def _has_own_keys(settings: Settings) -> bool:
    """Return whether there are Langfuse keys meant for us. Plain LANGFUSE_* may belong to the user's program."""
    keys = (settings.value("langfuse_public_key"), settings.value("langfuse_secret_key"))
    return any(key is not None and not _is_bare(key) for key in keys)


def _is_bare(value: SettingValue) -> bool:
    return value.key.startswith("LANGFUSE_")


def _link(settings: Settings) -> TraceLink:
    """Return the trace link. A TRACEPARENT in the environment of another program is ignored."""
    traceparent = settings.value("traceparent")
    if traceparent is None:
        return TraceLink(settings.text("seed"))
    match = _TRACEPARENT.fullmatch(traceparent.text.strip().lower())
    if match is None or match[1] == _NO_TRACE or match[2] == _NO_SPAN:
        message = (
            f"{traceparent.place} is {quoted(traceparent.text)}; it must be 00-TRACE_ID-SPAN_ID-FLAGS in hexadecimal"
        )
        raise ConfigError(message)
    return TraceLink(settings.text("seed"), match[1], match[2])


def _destination(name: str, settings: Settings, labels: Labels, state_dir: Path, home: Path) -> DestinationSettings:
    destinations = settings.value("destinations")
    kind, exporter = split_name(name, settings.place("destinations"))
    timeout = settings.number("timeout_seconds")
    if not timeout:
        message = f"{settings.place('timeout_seconds')} is 0; it must be more than 0"
        raise ConfigError(message)
    if kind == "otel" and destinations is not None and destinations.layer.project:
        message = f"{destinations.place} names {quoted(name)}: a project may not choose a program to run"
        raise ConfigError(message)
    match kind:
        case "local":
            return DestinationSettings(name, "local", path=state_dir / "traces.db", labels=labels)
        case "file":
            path = _path(settings.text("file"), home) or state_dir / "traces.jsonl"
            if not path.is_absolute():  # a hook can run in any folder
                message = f"{settings.place('file')} is {str(path)!r}; it must be an absolute path"
                raise ConfigError(message)
            return DestinationSettings(name, "file", path=path, labels=labels)
        case "otlp":
            return _otlp(name, settings, labels, timeout, home)
        case "langfuse":
            return _langfuse(name, settings, labels, timeout, state_dir)
        case "otel":
            return DestinationSettings(name, "otel", exporter=exporter, labels=labels, timeout_seconds=timeout)
        case _:
            assert_never(kind)


def _otlp(name: str, settings: Settings, labels: Labels, timeout: float, home: Path) -> DestinationSettings:
    endpoint, address = settings.text("otlp_endpoint"), settings.value("otlp_endpoint")
    if endpoint is None or address is None:
        message = "destination otlp needs an address; `cc-trace config set otlp_endpoint http://localhost:4318` sets it"
        raise ConfigError(message)
    headers = _beside(settings, address, "otlp_headers")
    trusted = not address.layer.project  # otherwise the user's certificate is not presented
    return DestinationSettings(
        name,
        "otlp",
        profile=settings.text("otlp_profile") or "otel",
        endpoint=endpoint,
        protocol=cast("OtlpProtocol", settings.text("otlp_protocol")),
        headers=() if _why_no_key(headers) else tuple(Settings([address.layer]).pairs("otlp_headers").items()),
        timeout_seconds=timeout,
        ca_file=_path(settings.text("otlp_ca_file"), home),
        cert_file=_path(settings.text("otlp_cert_file"), home) if trusted else None,
        key_file=_path(settings.text("otlp_key_file"), home) if trusted else None,
        labels=labels,
        metrics=cast("Temporality", settings.text("metrics_temporality")) if settings.text("metrics") == "on" else None,
        why_no_key=_why_no_key(headers),
    )


def _langfuse(name: str, settings: Settings, labels: Labels, timeout: float, state_dir: Path) -> DestinationSettings:
    public, secret = settings.value("langfuse_public_key"), settings.value("langfuse_secret_key")
    if public is None or secret is None:
        missing = "langfuse_public_key" if public is None else "langfuse_secret_key"
        raise ConfigError(_missing_key(missing, public or secret))
    check_key("langfuse_public_key", public.text)
    check_key("langfuse_secret_key", secret.text)
    public = _beside(settings, secret, "langfuse_public_key")
    url = _beside(settings, secret, "langfuse_base_url")
    return DestinationSettings(
        name,
        "langfuse",
        profile="langfuse",
        endpoint=LANGFUSE_CLOUD if url is None else url.text,
        public_key=None if public is None else public.text,
        secret_key=secret.text,
        timeout_seconds=timeout,
        labels=labels,
        why_no_key=_why_no_key(secret, public, url),
        cost=cast("Cost", settings.text("langfuse_cost")),
        media=settings.flag("langfuse_media") is True and settings.text("content") == "full",
        scores=settings.flag("langfuse_scores") is True,
        cache=state_dir,
    )


def check_key(name: str, text: str) -> None:
    """Raise ConfigError if Langfuse's public and secret key are swapped."""
    prefix = {"langfuse_public_key": "sk-lf-", "langfuse_secret_key": "pk-lf-"}.get(name)
    if prefix is not None and text.startswith(prefix):
        kind = "secret key" if prefix == "sk-lf-" else "public key"
        message = f"{name} holds a {kind} ({prefix}…); are the two keys swapped? `cc-trace config set {name}` sets it"
        raise ConfigError(message)


def _missing_key(missing: str, other: SettingValue | None) -> str:
    """Return an error about a missing key and how to set it. Both keys must be set in the same place."""
    message = f"destination langfuse needs {missing if other is not None and other.key.islower() else missing.upper()}"
    if other is None:
        return f"{message}; `cc-trace config set {missing}` sets it"
    return f"{message}; set it where {other.key} is set: {other.origin}"


def _beside(settings: Settings, reference: SettingValue, name: str) -> SettingValue | None:
    """Return the value from the same source: a key belongs to the address beside it, and an address to the key.

    A value in another source is rejected, even if it is the user's own: the author of one may not have meant the other.
    Values that may belong to another program are ignored.
    """
    layer, setting = reference.layer, BY_NAME[name]
    if layer.has(setting):
        return layer.value(setting)
    other = settings.value(name)
    if other is None or (_is_bare(other) and not _is_bare(reference)):
        return None
    message = (
        f"{reference.key} is set in {reference.origin}, {other.key} in {other.origin}: a key is sent only to an address"
        f" that is set in the same place; set both in {reference.origin}, or set {setting.variable} to an empty value"
        " there"
    )
    raise ConfigError(message)


def _why_no_key(*values: SettingValue | None) -> str | None:
    """Return the first variable that is not available, and where it was set."""
    absent = next((value for value in values if value is not None and value.absent), None)
    return None if absent is None else waits_for(absent, "it and the same address")


def _path(text: str | None, home: Path) -> Path | None:
    return None if text is None else Path(_expand_home(text, home))


def _expand_home(text: str, home: Path) -> str:
    return f"{home}{text[1:]}" if text == "~" or text.startswith("~/") else text
