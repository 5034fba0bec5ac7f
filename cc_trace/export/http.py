"""Sends a request over HTTP and returns its response, or an outcome if there is none. Never raises a network error.

Rules:
- There are no retries here and no redirects are followed: the caller decides.
- A request ends by its deadline, however slow the server: each step gets the time that is left. The exception is name
  resolution, whose time only the system limits.
- Without a response the outcome is `Retryable` if nothing can have arrived, and otherwise `Unclear`.

Hand-written because importing a client library takes as long as all the rest of a sync.
"""

from __future__ import annotations

import os
import time
from base64 import b64encode
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import SplitResult, quote, unquote, urlsplit

from cc_trace import __version__
from cc_trace.errors import ConfigError
from cc_trace.export.connection import Connection
from cc_trace.export.endpoint import is_loopback
from cc_trace.export.http_reader import read_response
from cc_trace.export.outcomes import Retryable, Unclear
from cc_trace.export.responses import cleaned, phrase

if TYPE_CHECKING:
    import ssl

    from cc_trace.export.destination import DestinationSettings
    from cc_trace.export.responses import HttpResponse

Headers: TypeAlias = list[tuple[str, str]]
_CONNECT_SECONDS: Final = 5.0
_IDLE_SECONDS: Final = 5.0  # after a longer idle time, a device on the way may have dropped the connection silently
_PORTS: Final = {"http": 80, "https": 443}
_PROXIES: Final = "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or NO_PROXY"
_SAFE: Final = "%/:=&?~+!$,;'@()*[]"  # left unquoted in a path or a query


class HttpClient:
    """Keeps one connection to one host."""

    def __init__(self, settings: DestinationSettings, url: str, secret_values: frozenset[str]) -> None:
        self._url = urlsplit(url)
        if any(character < " " or character == "\x7f" for character in url):
            message = f"the endpoint of destination {settings.name} is not a URL: it has control characters"
            raise ConfigError(message)
        self._host, self._port = _host(self._url), self._url.port or _PORTS[self._url.scheme]
        self._address = _address(self._url)
        self._seconds = settings.timeout_seconds
        self._secret_values = secret_values
        self._context = _context(settings) if self._url.scheme == "https" else None
        self._connection: Connection | None = None
        self._last_used = 0.0

    def post(self, url: str, headers: Headers, content: bytes) -> HttpResponse | Retryable | Unclear:
        """Send a body. Never raises for anything the network or the server does."""
        return self._request("POST", url, headers, content, max_body_bytes=64_000)

    def get(self, url: str, headers: Headers) -> HttpResponse | Retryable | Unclear:
        """Send a GET. Never raises for anything the network or the server does."""
        return self._request("GET", url, headers, None, max_body_bytes=16_000_000)

    def request(
        self, method: str, url: str, headers: Headers, content: bytes | None
    ) -> HttpResponse | Retryable | Unclear:
        """Send a request with any method. Never raises for anything the network or the server does."""
        return self._request(method, url, headers, content, max_body_bytes=16_000_000)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _request(
        self, method: str, url: str, headers: Headers, content: bytes | None, max_body_bytes: int
    ) -> HttpResponse | Retryable | Unclear:
        deadline = time.monotonic() + self._seconds
        try:
            proxy = self._proxy()
        except ValueError as error:
            return Retryable(f"a proxy in {_PROXIES} {error}")
        try:
            connection = self._connect(proxy, deadline)
        except (OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
            return Retryable(self._message("cannot connect to", error))
        data = self._encode(method, url, headers, content, proxy)
        try:
            response = _exchange(connection, data, max_body_bytes)
        except TimeoutError:
            self.close()
            return Unclear(f"{self._address}: no response within {self._seconds:g} seconds")
        except OSError as error:
            self.close()
            if _is_certificate_refusal(error):
                return Retryable(self._message("cannot connect to", error))
            return Unclear(self._message("no response from", error))
        self._last_used = time.monotonic()
        if not connection.reusable:
            self.close()
        return response

    def _connect(self, proxy: SplitResult | None, deadline: float) -> Connection:
        """Return the open connection, or a new one. If this raises, no part of a request was sent."""
        if self._connection is not None:
            if time.monotonic() - self._last_used < _IDLE_SECONDS and self._connection.is_idle():
                self._connection.deadline = deadline
                return self._connection
            self.close()
        address = (self._host, self._port) if proxy is None else (_host(proxy), proxy.port or _PORTS[proxy.scheme])
        connection = Connection(address, min(self._seconds, _CONNECT_SECONDS), deadline)
        try:
            if self._context is not None:
                if proxy is not None:
                    _open_tunnel(connection, _authority(self._host, self._port), _proxy_headers(proxy))
                connection.start_tls(self._context, self._host)
            connection.remaining_seconds()
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _encode(
        self, method: str, url: str, headers: Headers, content: bytes | None, proxy: SplitResult | None
    ) -> bytes:
        """Return a request's bytes. A proxy gets the whole URL, unless it only tunnels TLS."""
        parts = urlsplit(url)
        target = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
        lines = [
            ("host", self._address),
            ("accept", "*/*"),
            ("accept-encoding", "identity"),
            ("connection", "keep-alive"),
            ("user-agent", f"cc-trace/{__version__}"),
        ]
        if parts.username or parts.password:
            headers = [(name, value) for name, value in headers if name.lower() != "authorization"]
            lines.append(("authorization", _basic(parts)))
        if proxy is not None and self._context is None:
            target = f"http://{self._address}{target}"
            lines += _proxy_headers(proxy)
        set_by_caller = {name.lower() for name, _ in headers}
        lines = [*((name, value) for name, value in lines if name not in set_by_caller), *headers]
        if content is not None:
            lines.append(("content-length", str(len(content))))
        head = "".join(f"{name}: {value}\r\n" for name, value in lines)
        return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + (content or b"")

    def _proxy(self) -> SplitResult | None:
        """Return the proxy that the environment or the system sets for this host. Raises ValueError if it is unusable.

        Looked up per request, not when a destination is opened: an unusable one must not stop other destinations.
        """
        if is_loopback(self._host):
            return None
        from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415  (as slow as all of this module)

        proxies = getproxies()
        text = proxies.get(self._url.scheme) or proxies.get("all")
        if not text or proxy_bypass(_authority(self._host, self._port)):
            return None
        return _parse_proxy(text)

    def _message(self, problem: str, error: Exception) -> str:
        reason = getattr(error, "strerror", None) or str(error)
        return f"{problem} {self._address}: {cleaned(reason, self._secret_values) or type(error).__name__}"


def _exchange(connection: Connection, data: bytes, max_body_bytes: int) -> HttpResponse:
    """Send a request and read its response."""
    try:
        connection.send_all(data)
    except TimeoutError:
        raise
    except OSError:
        pass  # a server may respond, or refuse, before it has read everything: read the response anyway
    return read_response(connection, max_body_bytes)


def _open_tunnel(connection: Connection, authority: str, headers: Headers) -> None:
    """Have a proxy open a tunnel to a host. Raises OSError with its response if it refuses."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in (("host", authority), *headers))
    connection.send_all(f"CONNECT {authority} HTTP/1.1\r\n{lines}\r\n".encode("latin-1"))
    response = read_response(connection, 0, tunnel=True)
    if response.status not in range(200, 300):
        message = f"the proxy answered {response.status} {phrase(response.status)}"
        raise OSError(message)


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    return host if host.isascii() else host.encode("idna").decode()


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _address(parts: SplitResult) -> str:
    """Return host and port as in a `host` header: without the default port."""
    port = parts.port or _PORTS[parts.scheme]
    text = _authority(_host(parts), port)
    return text.removesuffix(f":{port}") if port == _PORTS[parts.scheme] else text


def _basic(parts: SplitResult) -> str:
    credentials = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return "Basic " + b64encode(credentials.encode()).decode()


def _proxy_headers(proxy: SplitResult) -> Headers:
    return [("proxy-authorization", _basic(proxy))] if proxy.username or proxy.password else []


def _parse_proxy(text: str) -> SplitResult:
    """Return the parts of a proxy's URL. No message quotes it: it may carry a password."""
    message = "is not a usable URL"
    try:
        proxy = urlsplit(text if "://" in text else f"http://{text}")
        usable = bool(proxy.hostname) and (proxy.port is None or proxy.port > 0)
    except ValueError as error:
        raise ValueError(message) from error
    if proxy.scheme.startswith("socks"):
        message = "uses SOCKS, which cc-trace does not support; use an HTTP proxy"
    elif proxy.scheme == "https":
        message = "is an https:// proxy, which cc-trace does not support; use http://"
    elif usable and proxy.scheme == "http":
        return proxy
    raise ValueError(message)


def _context(settings: DestinationSettings) -> ssl.SSLContext:
    """Return the TLS context: with the configured CA file, else SSL_CERT_FILE or SSL_CERT_DIR, else certifi's."""
    import ssl  # noqa: PLC0415  (a tenth of a worker's time, and a collector on this machine has no TLS)

    try:
        if settings.ca_file is not None:
            context = ssl.create_default_context(cafile=settings.ca_file)
        else:
            context = _default_context()
        if settings.cert_file is not None:
            # Without a password, OpenSSL would prompt for one on the terminal.
            context.load_cert_chain(settings.cert_file, settings.key_file, password="")
        context.set_alpn_protocols(["http/1.1"])
    except (OSError, ValueError) as error:
        message = f"the TLS files of destination {settings.name} cannot be used: {error}"
        raise ConfigError(message) from error
    return context


def _default_context() -> ssl.SSLContext:
    import ssl  # noqa: PLC0415  (see above)

    if file := os.getenv("SSL_CERT_FILE"):
        return ssl.create_default_context(cafile=file)
    if folder := os.getenv("SSL_CERT_DIR"):
        return ssl.create_default_context(capath=folder)
    import certifi  # noqa: PLC0415  (as above)

    return ssl.create_default_context(cafile=certifi.where())


def _is_certificate_refusal(error: Exception) -> bool:
    """Return whether the server rejected the client certificate. With TLS 1.3 it does so after we began to send."""
    reason = getattr(error, "reason", None) or ""  # an SSLError's
    return "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason)
