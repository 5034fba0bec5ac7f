"""URLs and headers of requests, as configured by the user and checked before anything is sent.

Rule: no message quotes a value, because a URL or a header may carry a key.
"""

from __future__ import annotations

import ipaddress
import re
from base64 import b64encode
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from cc_trace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cc_trace.export.destination import DestinationSettings

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, a token
_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_TRACES: Final = "/v1/traces"
_METRICS: Final = "/v1/metrics"
_SHORTEST_SECRET: Final = 6  # shorter values, such as a version, would be found in any text


def url(settings: DestinationSettings, text: str) -> SplitResult:
    """Return the parts of an http or https URL."""
    try:
        parts = urlsplit(text.strip())
        host, _ = parts.hostname, parts.port
        (host or "").encode("idna")
    except ValueError:
        host = None
    if not host or " " in host or parts.scheme not in ("http", "https"):
        setting = "langfuse_base_url" if settings.kind == "langfuse" else "otlp_endpoint"
        message = (
            f"destination {settings.name} needs an address with http:// or https://;"
            f" `cc-trace config set {setting} URL` sets it"
        )
        raise ConfigError(message)
    return parts


def traces_url(settings: DestinationSettings) -> str:
    """Return the URL for traces: the one configured for traces unchanged, or the base URL with the standard path."""
    if settings.traces_endpoint is not None:
        return urlunsplit(url(settings, settings.traces_endpoint))
    if settings.endpoint is None:
        message = f"destination {settings.name} needs an endpoint"
        raise ConfigError(message)
    parts = url(settings, settings.endpoint)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith(_TRACES) else path + _TRACES))


def metrics_url(settings: DestinationSettings) -> str:
    """Return the URL for metrics, derived from the one for traces."""
    parts = urlsplit(traces_url(settings))
    return urlunsplit(parts._replace(path=parts.path.removesuffix(_TRACES) + _METRICS))


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine.

    A proxy cannot reach it, and compressing for it costs a fifth of a delivery and saves nothing.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return f".{host.lower().removesuffix('.')}".endswith(".localhost")


def headers(settings: DestinationSettings) -> tuple[tuple[str, str], ...]:
    """Return the headers after checking them: a library's own error would show the value."""
    for name, value in settings.headers:
        if not _NAME.fullmatch(name):
            message = f"destination {settings.name} has a header whose name is not valid in HTTP"
            raise ConfigError(message)
        if not _VALUE.fullmatch(value):
            message = f"header {name} of destination {settings.name} contains characters that are not valid in HTTP"
            raise ConfigError(message)
    return tuple((name, value.strip()) for name, value in settings.headers)


def secrets(settings: DestinationSettings, *extra: str) -> frozenset[str]:
    """Return every text that must be redacted if a backend's response contains it."""
    values = [*extra, *(value for _, value in settings.headers), settings.public_key, settings.secret_key]
    for text in (settings.endpoint, settings.traces_endpoint):
        parts = urlsplit(text or "")
        login = unquote(parts.username or ""), unquote(parts.password or "")
        values += [parts.username, parts.password, *login, b64encode(":".join(login).encode()).decode()]
        values += [parts.query, *(value for _, value in parse_qsl(parts.query))]
    words = {word for text in values if text for word in (text, *text.split())}
    return frozenset(word for word in words if len(word) >= _SHORTEST_SECRET)


def redacted(text: str, secret_values: Iterable[str]) -> str:
    """Redact secrets, longer ones first: one may be part of another."""
    for secret in sorted(secret_values, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
