"""One request over HTTP and its answer, or why there is none. httpx's exceptions end here.

Rules:
- Nothing is sent again from here, and no redirect is followed: who sends decides.
- A request ends by its deadline, however slowly a server answers. httpx bounds only the single read and write, so past
  the deadline another thread shuts the connection down. What is left to the system is the time a name takes to resolve.
- No answer is `Retryable` when nothing can have arrived, and else `Unclear`.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import httpx

from cc_trace import __version__
from cc_trace.errors import ConfigError
from cc_trace.export.endpoint import is_loopback
from cc_trace.export.outcomes import Retryable, Unclear
from cc_trace.export.responses import HttpResponse, cleaned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cc_trace.export.destination import DestinationSettings

Headers: TypeAlias = list[tuple[str, str]]
_CONNECT_SECONDS: Final = 5.0
# Before anything was sent: no connection, no TLS, a proxy that refused, a request that could not be written down.
_UNSENT: Final = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
    UnicodeError,  # a host name that cannot be one
)
_PROXIES: Final = "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or NO_PROXY"


class HttpClient:
    """Keeps one connection to one host."""

    def __init__(self, settings: DestinationSettings, url: str, secret_values: frozenset[str]) -> None:
        try:
            parts = httpx.URL(url)
        except httpx.InvalidURL as error:
            message = f"the endpoint of destination {settings.name} is not a URL: {error}"
            raise ConfigError(message) from error
        logging.getLogger("httpx").setLevel(logging.WARNING)  # at INFO it writes down URLs, which may carry keys
        self._place = parts.netloc.decode("ascii").rpartition("@")[2]
        self._seconds = settings.timeout_seconds
        self._unspoken = secret_values
        self._watch = _Watch()
        self._context = _context(settings, secure=parts.scheme == "https")
        self._proxied = not is_loopback(parts.host)
        self._client: httpx.Client | None = None

    def post(self, url: str, headers: Headers, content: bytes) -> HttpResponse | Retryable | Unclear:
        """Send a body. Never raises for anything the network or the server does."""
        return self._request("POST", url, headers, content, max_body_bytes=64_000)

    def get(self, url: str, headers: Headers) -> HttpResponse | Retryable | Unclear:
        """Ask. Never raises for anything the network or the server does."""
        return self._request("GET", url, headers, None, max_body_bytes=16_000_000)

    def close(self) -> None:
        """Let go of the connection."""
        if self._client is not None:
            self._client.close()

    def _opened(self) -> httpx.Client:
        """Return the client. It is made for the first request: a proxy that cannot be used stops nobody else."""
        if self._client is None:
            self._client = httpx.Client(
                verify=self._context,
                headers={"user-agent": f"cc-trace/{__version__}", "accept-encoding": "identity"},
                timeout=httpx.Timeout(self._seconds, connect=min(self._seconds, _CONNECT_SECONDS)),
                limits=httpx.Limits(max_connections=1),
                follow_redirects=False,
                trust_env=self._proxied,
            )
        return self._client

    def _request(
        self, method: str, url: str, headers: Headers, content: bytes | None, max_body_bytes: int
    ) -> HttpResponse | Retryable | Unclear:
        try:
            client = self._opened()
        except (httpx.InvalidURL, ValueError):  # whose text quotes the URL, a password with it
            return Retryable(f"a proxy in {_PROXIES} is not a usable URL")
        except ImportError:
            return Retryable(f"a proxy in {_PROXIES} speaks SOCKS, which needs a package: pip install 'httpx[socks]'")
        trace = {"trace": self._watch.trace}
        with self._watch.bounded(self._seconds):
            try:
                with client.stream(method, url, headers=headers, content=content, extensions=trace) as response:
                    return _answer(response, max_body_bytes)
            except _UNSENT as error:
                return Retryable(self._message("cannot connect to", error))
            except httpx.TransportError as error:
                if _certificate_refused(error):
                    return Retryable(self._message("cannot connect to", error))
                if self._watch.passed or isinstance(error, httpx.TimeoutException):
                    return Unclear(f"{self._place}: no answer within {self._seconds:g} seconds")
                return Unclear(self._message("no answer from", error))

    def _message(self, what: str, error: Exception) -> str:
        return f"{what} {self._place}: {cleaned(str(error), self._unspoken) or type(error).__name__}"


def _answer(response: httpx.Response, max_body_bytes: int) -> HttpResponse:
    """Read an answer. Its status is known; if its body breaks off, what has come of it must do."""
    body, complete = bytearray(), False
    with contextlib.suppress(httpx.TransportError):
        for chunk in response.iter_raw():
            body += chunk
            if len(body) >= max_body_bytes:
                break
        else:
            complete = True
    headers = response.headers
    return HttpResponse(
        response.status_code,
        headers.get("content-type", "").lower(),
        bytes(body[:max_body_bytes]),
        headers.get("retry-after"),
        headers.get("location"),
        complete,
    )


def _context(settings: DestinationSettings, *, secure: bool) -> ssl.SSLContext:
    if not secure:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # not used; loading the CAs takes 20 ms
    try:
        if settings.ca_file is None:
            context = httpx.create_ssl_context()  # SSL_CERT_FILE or SSL_CERT_DIR if set, else certifi's
        else:
            context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.cert_file is not None:
            # Without a password to try, OpenSSL would ask for one at the terminal.
            context.load_cert_chain(settings.cert_file, settings.key_file, password="")
    except (OSError, ValueError) as error:
        message = f"the TLS files of destination {settings.name} cannot be used: {error}"
        raise ConfigError(message) from error
    return context


def _certificate_refused(error: BaseException) -> bool:
    """Tell whether the server wanted another client certificate. With TLS 1.3 it says so after we began to send."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            reason = cause.reason or ""
            return "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason)
        cause = cause.__cause__ or cause.__context__
    return False


class _Watch:
    """Shuts a connection down when its time is over, which wakes the thread that waits for it."""

    def __init__(self) -> None:
        self.passed = False
        self._stream: Any = None

    @contextlib.contextmanager
    def bounded(self, seconds: float) -> Iterator[None]:
        """Bound what is done inside."""
        self.passed = False
        timer = threading.Timer(seconds, self._end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Take note of the connection. httpx calls this at every step of a request, see its `trace` extension."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self._stream = info["return_value"]
            if self.passed:
                self._stream.close()
                message = "no connection in time"
                raise httpx.ConnectTimeout(message)

    def _end(self) -> None:
        self.passed = True
        if self._stream is not None and (sock := self._stream.get_extra_info("socket")) is not None:
            with contextlib.suppress(OSError):  # closed already
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not SSLSocket's, which would take TLS off it
