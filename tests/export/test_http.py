"""The HTTP client: what it writes, how it reads, when it keeps a connection, and which way it takes through proxies."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from cc_trace.export.connection import Connection
from cc_trace.export.destination import DestinationSettings
from cc_trace.export.endpoint import is_loopback
from cc_trace.export.http import HttpClient
from cc_trace.export.outcomes import Retryable, Unclear
from cc_trace.export.responses import HttpResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/plain\r\n\r\nok"
GOOD = HttpResponse(200, "text/plain", b"ok")


@dataclass
class Server:
    """Says to each request what it was told to say, and notes the requests of each connection."""

    says: list[bytes]
    then: Callable[[socket.socket], socket.socket] | None = None  # after its first response, as a tunnel does
    connections: list[list[bytes]] = field(default_factory=list)
    port: int = 0

    @contextlib.contextmanager
    def running(self) -> Iterator[Server]:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.port = listening.getsockname()[1]
            thread = threading.Thread(target=self._run, args=(listening,))
            thread.start()
            try:
                yield self
            finally:
                listening.shutdown(socket.SHUT_RDWR)
                thread.join()

    def _run(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                self.connections.append([])
                with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
                    self._serve(stack.enter_context(connection), stack)

    def _serve(self, connection: socket.socket, stack: contextlib.ExitStack) -> None:
        while self.says:
            request = b""
            while b"\r\n\r\n" not in request:
                if not (chunk := connection.recv(65536)):
                    return
                request += chunk
            self.connections[-1].append(request)
            said = self.says.pop(0)
            connection.sendall(said)
            if self.then is not None:
                connection, self.then = stack.enter_context(self.then(connection)), None
            elif b"\r\ncontent-length: " not in said and b"chunked" not in said:
                return


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def client(url: str, **more: Any) -> HttpClient:
    settings = DestinationSettings("x", "otlp", timeout_seconds=5, **more)
    return HttpClient(settings, url, frozenset())


def get(url: str, times: int = 1, **more: Any) -> list[HttpResponse | Retryable | Unclear]:
    with contextlib.closing(client(url, **more)) as opened:
        return [opened.get(url, []) for _ in range(times)]


def test_one_connection_serves_many_requests() -> None:
    with Server([OK, OK, OK]).running() as server:
        assert get(f"http://127.0.0.1:{server.port}/", 3) == [GOOD] * 3
    assert [len(requests) for requests in server.connections] == [3]


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            HttpResponse(200, "", b"abc"),
        ),
        (b"HTTP/1.1 200 OK\r\n\r\nall until the end", HttpResponse(200, "", b"all until the end")),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na", HttpResponse(200, "", b"a")),
        (b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n", HttpResponse(204)),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, GOOD),
    ],
    ids=["chunked", "until the end", "HTTP/1.0", "nothing", "continue"],
)
def test_responses_of_each_framing_are_read(said: bytes, read: HttpResponse) -> None:
    with Server([said, OK]).running() as server:
        assert get(f"http://127.0.0.1:{server.port}/", 2) == [read, GOOD]


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\ncontent-type: a/b\r\nconnection: close\r\ncontent-length: 9\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ncontent-type: a/b\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n9\r\nabc",
        *(
            b"HTTP/1.1 200 OK\r\ncontent-type: a/b\r\ntransfer-encoding: chunked\r\n\r\n"
            b"3;a=b\r\nabc\r\n%s\r\n12345678\r\n0\r\n\r\n" % size
            for size in (b"-5", b"0x8", b"1_0", b"", b"8 8", b"f" * 17)
        ),
    ],
)
def test_truncated_body_is_incomplete(said: bytes) -> None:
    server = Server([said])
    with server.running():
        assert get(f"http://127.0.0.1:{server.port}/") == [HttpResponse(200, "a/b", b"abc", complete=False)]


def test_a_long_body_is_not_read_to_its_end() -> None:
    """And the rest of it is not taken for the next response."""
    long = b"HTTP/1.1 200 OK\r\ncontent-length: 70000\r\n\r\n" + b"x" * 70_000
    with Server([long, OK]).running() as server:
        url = f"http://127.0.0.1:{server.port}/"
        with contextlib.closing(client(url)) as opened:
            assert opened.post(url, [], b"") == HttpResponse(200, "", b"x" * 64_000, complete=False)
            assert opened.post(url, [], b"") == GOOD


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200 + b"\r\n",
    ],
)
def test_non_http_response_is_unclear(said: bytes) -> None:
    with Server([said]).running() as server:
        [outcome] = get(f"http://127.0.0.1:{server.port}/")
    assert isinstance(outcome, Unclear)
    assert outcome.message.startswith(f"no response from 127.0.0.1:{server.port}: ")


@pytest.mark.parametrize("size", range(1, len(OK) - 2))
def test_truncated_head_is_unclear(size: int) -> None:
    """Even if its status can be read."""
    with Server([OK[:size].replace(b"content-length", b"Content-Length")]).running() as server:
        assert isinstance(get(f"http://127.0.0.1:{server.port}/")[0], Unclear)


def test_a_user_in_the_url_is_sent_as_a_header_and_other_characters_are_escaped() -> None:
    with Server([OK]).running() as server:
        get(f"http://us%40er:pass@127.0.0.1:{server.port}/a b/é?q=%20#part")
    [[request]] = server.connections
    assert request.startswith(b"GET /a%20b/%C3%A9?q=%20 HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"\r\nauthorization: Basic " + base64.b64encode(b"us@er:pass") + b"\r\n" in request


def test_a_proxy_gets_the_whole_url_and_its_own_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server([OK]).running() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:p%40ss@127.0.0.1:{proxy.port}")
        assert get("http://collector.test:4318/v1/traces") == [GOOD]
    [[request]] = proxy.connections
    assert request.startswith(b"GET http://collector.test:4318/v1/traces HTTP/1.1\r\nhost: collector.test:4318\r\n")
    assert b"\r\nproxy-authorization: Basic " + base64.b64encode(b"me:p@ss") + b"\r\n" in request


@pytest.mark.parametrize(
    ("bypass", "direct"), [("collector.invalid", True), ("invalid", True), ("other.invalid", False), ("*", True)]
)
def test_hosts_named_in_no_proxy_are_reached_without_it(
    monkeypatch: pytest.MonkeyPatch, bypass: str, *, direct: bool
) -> None:
    with Server([OK]).running() as proxy:
        monkeypatch.setenv("ALL_PROXY", f"127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", bypass)
        [outcome] = get("http://collector.invalid/")
    assert isinstance(outcome, Retryable) is direct
    assert len(proxy.connections) == (not direct)


def test_tls_goes_through_a_tunnel_of_the_proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The proxy sees the host's name and its own credentials; the request is read by the host alone."""
    ca, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("collector.test").configure_cert(context)
    ca.cert_pem.write_to_path(tmp_path / "ca")
    tunnel = Server(
        [b"HTTP/1.1 200 Connection established\r\n\r\n", OK, OK],
        lambda connection: context.wrap_socket(connection, server_side=True),
    )
    with tunnel.running():
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:secret@127.0.0.1:{tunnel.port}")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca"))
        url = "https://collector.test/v1/traces"
        with contextlib.closing(client(url)) as opened:
            assert [opened.post(url, [("x-key", "a")], b"body") for _ in range(2)] == [GOOD] * 2
    [[connect, first, second]] = tunnel.connections
    credentials = base64.b64encode(b"me:secret").decode()
    expected = (
        f"CONNECT collector.test:443 HTTP/1.1\r\nhost: collector.test:443\r\nproxy-authorization: Basic {credentials}"
    )
    assert connect.decode() == f"{expected}\r\n\r\n"
    assert first.startswith(b"POST /v1/traces HTTP/1.1\r\nhost: collector.test\r\n")
    assert b"proxy-authorization" not in first + second


def test_proxy_cannot_answer_for_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it sends behind its own answer would be read as if it came through TLS."""
    with Server([b"HTTP/1.1 200 Connection established\r\n\r\n" + OK]).running() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        said = get("https://collector.test/")
    assert said == [Retryable("cannot connect to collector.test: the proxy sent more than its answer")]


def test_addresses_of_a_host_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with many addresses that do not answer takes no longer than one."""
    now = 0.0
    waited: list[float] = []

    class Silent(socket.socket):
        def connect(self, _place: object) -> None:
            nonlocal now
            waited.append(self.gettimeout() or 0)
            now += waited[-1]
            raise TimeoutError

    places = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"192.0.2.{number}", 80)) for number in range(9)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: places)
    monkeypatch.setattr(socket, "socket", Silent)
    monkeypatch.setattr("cc_trace.export.connection.time.monotonic", lambda: now)
    with pytest.raises(TimeoutError):
        Connection(("collector.test", 80), connect_seconds=4, deadline=10)
    assert waited == [4, 4, 2]


def test_next_address_of_a_host_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server([OK]).running() as server, socket.create_server(("127.0.0.1", 0)) as other:
        closed = other.getsockname()[1]
        other.close()
        places = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in (closed, server.port)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: places)
        assert get("http://collector.test/") == [GOOD]


@pytest.mark.parametrize(
    ("host", "here"),
    [
        *((host, True) for host in ("localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.9.9.9", "::1")),
        *((host, False) for host in ("notlocalhost", "localhost.test", "", ".", "10.0.0.1", "127.0.0.1.test")),
    ],
)
def test_only_this_machine_is_loopback(host: str, *, here: bool) -> None:
    assert is_loopback(host) is here


def test_proxy_that_refuses_is_retryable(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"
    with Server([refusal]).running() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        said = get("https://collector.test/")
    assert said == [Retryable("cannot connect to collector.test: the proxy answered 407 Proxy Authentication Required")]
