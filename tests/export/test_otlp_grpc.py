"""OTLP over gRPC: what each behaviour of a backend means, and what is sent."""

from __future__ import annotations

import socket
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import grpc
import pytest
import trustme
from backend import (
    CLOSE_MIDDLE,
    CLOSE_STORED,
    CLOSE_UNSTORED,
    HANG,
    HANG_STORED,
    OK,
    REFUSE,
    Behaviour,
    GrpcBackend,
    partial_success,
    refuses_above,
    refuses_span,
    status,
)
from shared import CASES

from cc_trace import __version__
from cc_trace.errors import ConfigError
from cc_trace.export.destination import DestinationSettings, open_destination
from cc_trace.export.otlp_grpc import _after_seconds, status_outcome
from cc_trace.export.outcomes import Accepted, Rejected, Retryable, Unclear
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.export.outcomes import Outcome
    from cc_trace.spans.model import Span

SECONDS = 1.0
NEVER = Unclear(f"{{place}}: no response within {SECONDS:g} seconds")
BROKEN = Unclear("UNAVAILABLE: Stream removed (Socket closed)")
NO_PORT = "UNAVAILABLE: failed to connect to all addresses; last error: UNKNOWN: ipv4:{place}: "
# What a backend does, what that means, and whether it then has the spans.
OUTCOMES: list[tuple[str, Behaviour, Outcome, bool]] = [
    ("ok", OK, Accepted(), True),
    ("refuse", REFUSE, Retryable(NO_PORT + "Failed to connect to remote host: Connection refused"), False),
    ("400", status(400, "bad"), Rejected("INVALID_ARGUMENT", "bad"), False),
    ("401", status(401, "who?"), Retryable("UNAUTHENTICATED: who?"), False),
    ("403", status(403), Retryable("PERMISSION_DENIED"), False),
    ("404", status(404), Retryable("UNIMPLEMENTED"), False),
    ("413", status(413, "no"), Rejected("RESOURCE_EXHAUSTED", "no: received message larger than max"), False),
    ("429", status(429, retry_after="7"), Retryable("RESOURCE_EXHAUSTED", 7.0), False),
    ("quota", status(429, "quota"), Retryable("RESOURCE_EXHAUSTED: quota"), False),
    ("500", status(500, "oh"), Unclear("INTERNAL: oh"), False),
    ("503", status(503, "later"), Retryable("UNAVAILABLE: later"), False),
    ("503, when", status(503, "socket", retry_after="7"), Retryable("UNAVAILABLE: socket", 7.0), False),
    ("302", status(302), Retryable("UNKNOWN: Received http2 header with status: 302"), False),
    ("599", status(599, "what"), Unclear("UNKNOWN: what"), False),
    ("partial success", partial_success(2, "too old"), Accepted(2, "too old"), True),
    ("hang", HANG, NEVER, False),
    ("hang, stored", HANG_STORED, NEVER, True),
    ("a byte at a time", Behaviour("drip", seconds=0.05), NEVER, True),
    ("close, stored", CLOSE_STORED, BROKEN, True),
    ("close, not stored", CLOSE_UNSTORED, BROKEN, False),
    ("close in the middle", CLOSE_MIDDLE, BROKEN, False),
    (
        "too large",
        refuses_above(10),
        Rejected("RESOURCE_EXHAUSTED", "too large: received message larger than max"),
        False,
    ),
]


@pytest.fixture(scope="module")
def spans() -> list[Span]:
    return list(Session(next((CASES / "2.1.325--b_tools").rglob("*.jsonl"))).spans())


@pytest.fixture(scope="module")
def server() -> Iterator[GrpcBackend]:
    with GrpcBackend() as running:
        yield running


@pytest.fixture
def backend(server: GrpcBackend) -> GrpcBackend:
    server.behaviour = OK
    server.spans.clear()
    server.requests.clear()
    return server


def otlp(endpoint: str, **more: Any) -> DestinationSettings:
    return DestinationSettings("x", "otlp", endpoint=endpoint, protocol="grpc", timeout_seconds=SECONDS, **more)


def send(settings: DestinationSettings, *spans: Span) -> Outcome:
    destination = open_destination(settings)
    try:
        return destination.send([destination.encode(span) for span in spans])
    finally:
        destination.close()


def ids(spans: list[Span]) -> Counter[str]:
    return Counter(span.span_id for span in spans)


@pytest.mark.parametrize(
    ("doing", "meaning", "stored"), [row[1:] for row in OUTCOMES], ids=[row[0] for row in OUTCOMES]
)
def test_each_behaviour_has_one_outcome(
    backend: GrpcBackend, spans: list[Span], doing: Behaviour, meaning: Outcome, *, stored: bool
) -> None:
    """Whatever a backend does, it is told in time, and the next batch goes through once it is well again."""
    backend.behaviour = doing
    if isinstance(meaning, Retryable | Unclear):
        meaning = replace(meaning, message=meaning.message.format(place=f"127.0.0.1:{backend.port}"))
    begin = time.monotonic()
    assert meaning == send(otlp(backend.url), *spans)
    assert time.monotonic() - begin < SECONDS + 5
    assert (ids(spans) if stored else Counter()) == backend.counts
    backend.behaviour = OK
    assert send(otlp(backend.url), spans[0]) == Accepted()


def test_only_a_batch_with_the_refused_span_is_refused(backend: GrpcBackend, spans: list[Span]) -> None:
    backend.behaviour = refuses_span(spans[1].span_id)
    assert send(otlp(backend.url), *spans) == Rejected("INVALID_ARGUMENT", "bad span")
    assert send(otlp(backend.url), spans[0], *spans[2:]) == Accepted()
    assert backend.counts == ids([spans[0], *spans[2:]])


def test_what_is_sent(backend: GrpcBackend, spans: list[Span]) -> None:
    """The same bytes each time, with the user's headers as metadata."""
    for endpoint in (backend.url, f"127.0.0.1:{backend.port}"):
        assert send(otlp(endpoint, headers=(("X-Team", "a"), ("x-bytes-bin", "b"))), *spans) == Accepted()
    first, second = backend.requests
    assert first.body == second.body
    assert (first.headers["x-team"], first.headers["x-bytes-bin"]) == ("a", "b'b'")
    assert first.headers["user-agent"].startswith(f"cc-trace/{__version__} ")


@pytest.mark.parametrize(
    ("endpoint", "compression"),
    [
        ("http://127.0.0.1:4317", grpc.Compression.NoCompression),
        ("localhost:4317", grpc.Compression.NoCompression),
        ("http://collector.test:4317", grpc.Compression.Gzip),
        ("https://collector.test", grpc.Compression.Gzip),
    ],
)
def test_only_what_leaves_this_machine_is_compressed(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, compression: grpc.Compression
) -> None:
    asked: list[grpc.Compression] = []
    open_channel = grpc.secure_channel if endpoint.startswith("https:") else grpc.insecure_channel

    def opened(*arguments: Any) -> grpc.Channel:
        asked.append(arguments[-1])
        return open_channel(*arguments)

    monkeypatch.setattr(grpc, open_channel.__name__, opened)
    open_destination(otlp(endpoint)).close()
    assert asked == [compression]


@pytest.mark.parametrize("code", list(grpc.StatusCode), ids=lambda code: code.name)
def test_every_status_has_an_outcome(code: grpc.StatusCode) -> None:
    """Rejected only for what the payload is to blame for; retryable only if nothing can have been stored."""
    rejected = {"INVALID_ARGUMENT"}
    unclear = {"OK", "UNKNOWN", "INTERNAL", "CANCELLED", "DEADLINE_EXCEEDED", "DATA_LOSS", "ALREADY_EXISTS"}
    meaning = Rejected if code.name in rejected else Unclear if code.name in unclear else Retryable
    assert type(status_outcome(code, "said", None)) is meaning


@pytest.mark.parametrize(
    ("code", "details", "meaning"),
    [
        ("RESOURCE_EXHAUSTED", "grpc: received message larger than max (5 vs. 4)", Rejected),
        ("OUT_OF_RANGE", "Error, decoded message length too large: found 5 bytes, the limit is: 4 bytes", Rejected),
        ("UNAVAILABLE", "errors resolving h:1: [field:hostname lookup error:not found]", Retryable),
        ("UNAVAILABLE", "failed to connect to all addresses; last error: UNAVAILABLE: Socket closed", Retryable),
        ("UNAVAILABLE", "the memory limit is reached", Retryable),
        ("UNAVAILABLE", "recvmsg:Connection reset by peer", Unclear),
        ("UNAVAILABLE", "GOAWAY received", Unclear),
        ("UNAVAILABLE", "Cancelling all calls", Unclear),
    ],
)
def test_message_refines_an_ambiguous_code(code: str, details: str, meaning: type[Outcome]) -> None:
    """Servers and grpc itself use one code for several things; these messages were recorded."""
    assert type(status_outcome(grpc.StatusCode[code], details, None)) is meaning


def test_malformed_status_details_are_ignored() -> None:
    assert _after_seconds([("grpc-status-details-bin", b"\xff")]) is None


def test_server_that_stays_silent_is_retryable(spans: list[Span]) -> None:
    """A port that takes connections and stays silent, as behind a broken tunnel."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = send(otlp(f"http://127.0.0.1:{silent.getsockname()[1]}"), spans[0])
    assert isinstance(said, Retryable)
    assert said.message.endswith("connection attempt timed out before receiving SETTINGS frame")


def test_tls_files_are_used(spans: list[Span], tmp_path: Path) -> None:
    """The server is verified with the CA file, and we show it our certificate. Without either nothing is stored."""
    ca, ca_file, cert_file, key_file = trustme.CA(), tmp_path / "ca", tmp_path / "cert", tmp_path / "key"
    ours, theirs = ca.issue_cert("client.test"), ca.issue_cert("127.0.0.1")
    ca.cert_pem.write_to_path(ca_file)
    ours.cert_chain_pems[0].write_to_path(cert_file)
    ours.private_key_pem.write_to_path(key_file)
    pairs = [(theirs.private_key_pem.bytes(), theirs.cert_chain_pems[0].bytes())]
    credentials = grpc.ssl_server_credentials(pairs, ca.cert_pem.bytes(), require_client_auth=True)
    with GrpcBackend(credentials) as backend:
        known = otlp(backend.url, ca_file=ca_file, cert_file=cert_file, key_file=key_file)
        assert send(known, spans[0]) == Accepted()
        ours.private_key_and_cert_chain_pem.write_to_path(both_file := tmp_path / "both")
        assert send(replace(known, cert_file=both_file, key_file=None), spans[1]) == Accepted()
        assert isinstance(send(replace(known, ca_file=None), spans[0]), Retryable)
        send(replace(known, cert_file=None), spans[0])
        send(replace(known, cert_file=None, key_file=None), spans[0])
        assert backend.counts == ids(spans[:2])
    with pytest.raises(ConfigError, match="TLS files of destination x cannot be used"):
        open_destination(replace(known, ca_file=tmp_path / "nothing"))


@pytest.mark.parametrize("endpoint", [None, "", "http://", "ftp://h:1", "h:port", "["])
def test_invalid_endpoint_is_reported_at_once(endpoint: str | None) -> None:
    with pytest.raises(ConfigError, match="destination x"):
        open_destination(DestinationSettings("x", "otlp", endpoint=endpoint, protocol="grpc"))


@pytest.mark.parametrize("name", ["x!key", "grpc-timeout", "x key"])
def test_a_header_that_cannot_be_sent_is_not_shown(name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        open_destination(otlp("http://127.0.0.1", headers=((name, "secret"),)))
    assert "secret" not in str(raised.value)


def test_messages_carry_no_key(backend: GrpcBackend, spans: list[Span]) -> None:
    backend.behaviour = status(401, "what is token-1?")
    said = send(otlp(backend.url, headers=(("authorization", "Bearer token-1"),)), spans[0])
    assert said == Retryable("UNAUTHENTICATED: what is ***?")
