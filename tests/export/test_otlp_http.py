"""OTLP over HTTP: what each behaviour of a backend means, and what is sent."""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import socket
import ssl
import threading
import time
from collections import Counter
from dataclasses import replace
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from backend import (
    CLOSE_MIDDLE,
    CLOSE_STORED,
    CLOSE_UNSTORED,
    HANG,
    HANG_STORED,
    OK,
    PORTAL_PAGE,
    REFUSE,
    Behaviour,
    HttpBackend,
    partial_success,
    refuses_above,
    refuses_span,
    status,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTracePartialSuccess
from shared import CASES

from cc_trace import __version__
from cc_trace.errors import ConfigError
from cc_trace.export.destination import DestinationSettings, open_destination
from cc_trace.export.endpoint import traces_url
from cc_trace.export.outcomes import Accepted, Rejected, Retryable, Unclear
from cc_trace.export.responses import HttpResponse, http_outcome, langfuse_success, otlp_success
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.export.outcomes import Destination, Outcome
    from cc_trace.spans.model import Span

SECONDS = 1.0
REFUSED, RESET = os.strerror(errno.ECONNREFUSED), os.strerror(errno.ECONNRESET)
NEVER = Unclear(f"{{place}}: no response within {SECONDS:g} seconds")
# What a backend does, what that means, and whether it then has the spans.
OUTCOMES: list[tuple[str, Behaviour, Outcome, bool]] = [
    ("ok", OK, Accepted(), True),
    ("refuse", REFUSE, Retryable("cannot connect to {place}: " + REFUSED), False),
    ("400", status(400, "bad"), Rejected("400", "bad"), False),
    ("401", status(401, "who?"), Retryable("401 Unauthorized: who?"), False),
    ("403", status(403), Retryable("403 Forbidden"), False),
    ("404", status(404), Retryable("404 Not Found"), False),
    ("405", status(405), Retryable("405 Method Not Allowed"), False),
    ("408", status(408), Retryable("408 Request Timeout"), False),
    ("413", status(413), Rejected("413", "Request Entity Too Large"), False),
    ("422", status(422, "bad"), Rejected("422", "bad"), False),
    ("429", status(429, retry_after="7"), Retryable("429 Too Many Requests", 7.0), False),
    ("500", status(500), Unclear("500 Internal Server Error"), False),
    ("502", status(502), Unclear("502 Bad Gateway"), False),
    ("503", status(503, retry_after="soon"), Retryable("503 Service Unavailable"), False),
    ("504", status(504), Unclear("504 Gateway Timeout"), False),
    ("599", status(599), Unclear("599 unknown status"), False),
    (
        "302",
        status(302, location="https://u:key@elsewhere.test:8443/login?key=1"),
        Retryable("302 Found to https://elsewhere.test:8443/login: redirects are not followed"),
        False,
    ),
    ("302, nowhere", status(302, location="http://["), Retryable("302 Found: redirects are not followed"), False),
    ("partial success", partial_success(2, "too old"), Accepted(2, "too old"), True),
    ("hang", HANG, NEVER, False),
    ("hang, stored", HANG_STORED, NEVER, True),
    ("a byte at a time", Behaviour("drip", seconds=0.05), NEVER, True),
    (
        "an answer a byte at a time",
        Behaviour("drip", seconds=0.05, drips="body", partly=1, said="x" * 100),
        Accepted(),
        True,
    ),
    (
        "close, stored",
        CLOSE_STORED,
        Unclear("no response from {place}: Server disconnected without sending a response."),
        True,
    ),
    (
        "close, not stored",
        CLOSE_UNSTORED,
        Unclear("no response from {place}: Server disconnected without sending a response."),
        False,
    ),
    (
        "close in the middle",
        CLOSE_MIDDLE,
        Unclear("no response from {place}: " + RESET),
        False,
    ),
    ("too large", refuses_above(10), Rejected("413", "too large"), False),
]


@pytest.fixture(scope="module")
def spans() -> list[Span]:
    return list(Session(next((CASES / "2.1.325--b_tools").rglob("*.jsonl"))).spans())


@pytest.fixture
def backend() -> Iterator[HttpBackend]:
    with HttpBackend() as running:
        yield running


@pytest.fixture(params=["http/protobuf", "http/json", "langfuse"])
def destination(request: pytest.FixtureRequest, backend: HttpBackend) -> Iterator[Destination]:
    settings = DestinationSettings("x", "otlp", endpoint=backend.url, timeout_seconds=SECONDS)
    if request.param == "langfuse":
        settings = replace(settings, kind="langfuse", public_key="pk-lf-1234", secret_key="sk-lf-5678")  # noqa: S106
    else:
        settings = replace(settings, protocol=request.param)
    opened = open_destination(settings)
    yield opened
    opened.close()


def send(settings: DestinationSettings, *spans: Span) -> Outcome:
    destination = open_destination(settings)
    try:
        return destination.send([destination.encode(span) for span in spans])
    finally:
        destination.close()


def otlp(endpoint: str, **more: Any) -> DestinationSettings:
    return DestinationSettings("x", "otlp", endpoint=endpoint, timeout_seconds=2, **more)


def ids(spans: list[Span]) -> Counter[str]:
    return Counter(span.span_id for span in spans)


@pytest.mark.parametrize(
    ("doing", "meaning", "stored"), [row[1:] for row in OUTCOMES], ids=[row[0] for row in OUTCOMES]
)
def test_each_behaviour_has_one_outcome(
    backend: HttpBackend,
    destination: Destination,
    spans: list[Span],
    doing: Behaviour,
    meaning: Outcome,
    *,
    stored: bool,
) -> None:
    """Whatever a backend does, it is told in time, and the next batch goes through once it is well again."""
    backend.behaviour = doing
    if isinstance(meaning, Retryable | Unclear):
        meaning = replace(meaning, message=meaning.message.format(place=f"127.0.0.1:{backend.port}"))
    begin = time.monotonic()
    assert meaning == destination.send([destination.encode(span) for span in spans])
    assert time.monotonic() - begin < SECONDS + 5
    assert (ids(spans) if stored else Counter()) == backend.counts
    backend.behaviour = OK
    assert destination.send([destination.encode(spans[0])]) == Accepted()


def test_only_a_batch_with_the_refused_span_is_refused(
    backend: HttpBackend, destination: Destination, spans: list[Span]
) -> None:
    backend.behaviour = refuses_span(spans[1].span_id)
    batch = [destination.encode(span) for span in spans]
    assert destination.send(batch) == Rejected("400", "bad span")
    assert destination.send([batch[0], *batch[2:]]) == Accepted()
    assert backend.counts == ids([spans[0], *spans[2:]])


def test_what_is_sent(backend: HttpBackend, spans: list[Span]) -> None:
    """Protobuf at the usual path, with the user's headers, the same bytes each time."""
    for _ in range(2):
        settings = otlp(f"{backend.url}/prefix/", headers=(("X-Team", "a"), ("Content-Type", "text/plain")))
        assert send(settings, *spans) == Accepted()
    first, second = backend.requests
    assert first == second
    assert (first.method, first.path) == ("POST", "/prefix/v1/traces")
    del first.headers["content-length"]
    assert first.headers == {
        "host": f"127.0.0.1:{backend.port}",
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "keep-alive",
        "user-agent": f"cc-trace/{__version__}",
        "x-team": "a",
        "content-type": "application/x-protobuf",
    }


def test_only_what_leaves_this_machine_is_compressed(
    backend: HttpBackend, spans: list[Span], monkeypatch: pytest.MonkeyPatch
) -> None:
    with HttpBackend() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        for url in (backend.url, f"http://localhost:{backend.port}", *["http://collector.test"] * 2):
            assert send(otlp(url), *spans) == Accepted()
    near, far = backend.requests, proxy.requests
    assert far[0] == far[1], "the same bytes each time"
    assert {request.body for request in (*near, *far)} == {near[0].body}
    assert [request.headers.get("content-encoding") for request in (*near, *far)] == [None, None, "gzip", "gzip"]
    assert int(far[0].headers["content-length"]) < len(near[0].body) == int(near[0].headers["content-length"])


def test_a_connection_that_was_closed_between_two_batches_is_opened_again(
    backend: HttpBackend, destination: Destination, spans: list[Span]
) -> None:
    for span in spans:
        assert destination.send([destination.encode(span)]) == Accepted()
        backend.drop_connections()
        time.sleep(0.01)
    assert backend.counts == ids(spans)


def test_unreachable_host_is_retryable(spans: list[Span]) -> None:
    """A port whose queue is full drops what would connect, as a firewall does."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        place = f"127.0.0.1:{full.getsockname()[1]}"
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0)
            waiting.connect_ex(full.getsockname())
        said = send(replace(otlp(f"http://{place}"), timeout_seconds=SECONDS), spans[0])
    assert said == Retryable(f"cannot connect to {place}: timed out")


def test_proxy_is_not_used_for_localhost(
    backend: HttpBackend, spans: list[Span], monkeypatch: pytest.MonkeyPatch
) -> None:
    with HttpBackend() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert send(otlp(backend.url), spans[0]) == Accepted()
        assert send(otlp(f"http://localhost:{backend.port}"), spans[0]) == Accepted()
        assert proxy.requests == []
        assert send(otlp("http://collector.test"), spans[0]) == Accepted()
        assert [request.path for request in proxy.requests] == ["http://collector.test/v1/traces"]


@pytest.mark.parametrize(
    ("proxy", "said"),
    [
        ("http://user:Qz7s3c#r3t@127.0.0.1:9", "is not a usable URL"),
        ("ftp://user:Qz7s3c@127.0.0.1", "is not a usable URL"),
        ("socks5://user:Qz7s3c@127.0.0.1", "uses SOCKS, which cc-trace does not support; use an HTTP proxy"),
    ],
)
def test_unusable_proxy_is_retryable_and_its_password_is_not_shown(
    spans: list[Span], monkeypatch: pytest.MonkeyPatch, proxy: str, said: str
) -> None:
    """Opening must not fail: it would stop the other destinations."""
    monkeypatch.setenv("ALL_PROXY", proxy)
    expected = Retryable(f"a proxy in HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or NO_PROXY {said}")
    assert send(otlp("http://collector.test"), spans[0]) == expected


@pytest.fixture
def certificates(tmp_path: Path) -> dict[str, Path]:
    """A CA, a server's and a client's certificate of it, and another client's that nobody knows."""
    ca, files = trustme.CA(), {name: tmp_path / name for name in ("ca", "server", "client", "stranger")}
    ca.cert_pem.write_to_path(files["ca"])
    ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(files["server"])
    ca.issue_cert("client.test").private_key_and_cert_chain_pem.write_to_path(files["client"])
    trustme.CA().issue_cert("client.test").private_key_and_cert_chain_pem.write_to_path(files["stranger"])
    return files


def test_tls_files_are_used(certificates: dict[str, Path], spans: list[Span]) -> None:
    """The server is verified with the CA file, and we show it our certificate. Without either nothing is stored."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates["ca"])
    context.load_cert_chain(certificates["server"])
    context.verify_mode = ssl.CERT_REQUIRED
    with HttpBackend(context) as backend:
        known = otlp(backend.url, ca_file=certificates["ca"], cert_file=certificates["client"])
        assert send(known, spans[0]) == Accepted()
        for unknown in (
            replace(known, ca_file=None),
            replace(known, cert_file=None),
            replace(known, ca_file=None, cert_file=None),
            replace(known, cert_file=certificates["stranger"]),
        ):
            assert isinstance(send(unknown, spans[0]), Retryable)
        assert backend.counts == ids(spans[:1])
        backend.behaviour = Behaviour("drip", seconds=0.05)
        begin = time.monotonic()
        assert send(replace(known, timeout_seconds=SECONDS), spans[0]) == Unclear(
            f"127.0.0.1:{backend.port}: no response within {SECONDS:g} seconds"
        )
        assert time.monotonic() - begin < SECONDS + 5


JOB = b'{"name":"otel-ingestion-job","data":{"payload":{"data":{"fileKey":"otel/p/1.json"}}},"id":"1","attemptsMade":0}'
PORTAL = "the URL is wrong, or a network sign-in page answered"


@pytest.mark.parametrize(
    ("content_type", "body", "meaning"),
    [
        ("application/json", b"{}", Accepted()),
        ("application/json", b'{"partialSuccess":null}', Accepted()),  # MLflow
        ("application/json", b'{"partialSuccess":{"rejectedSpans":3,"errorMessage":"a"}}', Accepted(3, "a")),
        ("application/json", b'{"partial_success":{"rejected_spans":"3"}}', Accepted(3)),
        ("application/json", b'{"partialSuccess":{"rejectedSpans":-1,"errorMessage":null}}', Accepted()),
        ("application/json", b'{"partialSuccess":{"errorMessage":"slow down"}}', Accepted(0, "slow down")),
        ("application/x-protobuf", b"", Accepted()),
        ("text/html", b"", Accepted()),
        ("", b"", Accepted()),
    ],
)
def test_the_body_of_an_acceptance_is_understood(content_type: str, body: bytes, meaning: Outcome) -> None:
    """Nothing, or OTLP's response in either encoding."""
    for success in (otlp_success, langfuse_success):
        assert http_outcome(HttpResponse(200, content_type, body), (), 0, success) == meaning


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("text/html; charset=utf-8", b"\n<!doctype html><html>sign in", "a web page (text/html)"),
        ("", b"<html>", "a web page"),
        ("application/x-protobuf", b"<html><body>sign in", "a web page (application/x-protobuf)"),
        ("application/xml", b"<?xml version='1.0'?><error/>", "XML (application/xml)"),
        ("application/json", b'{"error":"no project"}', "other JSON (application/json)"),
        ("application/json", b'{"errors":["no project"]}', "other JSON (application/json)"),
        ("application/json", b"[1]", "other JSON (application/json)"),
        ("application/json", b'{"partialSuccess":', "other JSON (application/json)"),
        ("application/json", b"[" * 100_000, "other JSON (application/json)"),
        ("application/json", b'{"a":' * 100_000, "other JSON (application/json)"),
        ("text/plain", b"{}", "other JSON (text/plain)"),
        ("text/plain", b"OK", "2 bytes of text/plain"),
        ("", b"\x0a\x00", "2 bytes of no content type"),
        ("application/x-protobuf", b"\x0a\x05\x08", "3 bytes of application/x-protobuf"),
    ],
)
def test_a_2xx_with_anything_else_is_no_acceptance(content_type: str, body: bytes, kind: str) -> None:
    """A captive portal, a proxy or a wrong URL answers 200 as well: it is tried again, and nothing of it is quoted."""
    for success in (otlp_success, langfuse_success):
        said = http_outcome(HttpResponse(200, content_type, body), (), 0, success)
        assert said == Retryable(f"200, but {kind} instead of an OTLP response: {PORTAL}")


@pytest.mark.parametrize(
    ("body", "meaning"),
    [
        (JOB, Accepted()),
        (b'{"message":"OK"}', Accepted()),
        (b'{"successes":[{"id":"1","status":201}],"errors":[]}', Accepted()),
        (b'{"captive":true}', Unclear("200 with unexpected JSON")),
    ],
)
def test_responses_of_langfuse_are_understood(body: bytes, meaning: Outcome) -> None:
    """Langfuse answers with the job that will store the batch. From another backend that means nothing."""
    answer = HttpResponse(200, "application/json; charset=utf-8", body)
    assert http_outcome(answer, (), 0, langfuse_success) == meaning
    assert isinstance(http_outcome(answer, (), 0), Retryable)


def test_truncated_response_is_judged_by_status_and_type() -> None:
    cut = HttpResponse(200, "application/json", b'{"partialSuccess":', complete=False)
    assert http_outcome(cut, (), 0) == Accepted()
    assert isinstance(http_outcome(cut._replace(content_type="text/html"), (), 0), Retryable)


def test_captive_portal_loses_nothing(backend: HttpBackend, destination: Destination, spans: list[Span]) -> None:
    """Over the wire as well."""
    backend.behaviour = PORTAL_PAGE
    said = destination.send([destination.encode(spans[0])])
    assert said == Retryable(f"200, but a web page (text/html) instead of an OTLP response: {PORTAL}")


def test_the_message_of_a_refusal_in_protobuf_is_read() -> None:
    """OTLP says that it is a google.rpc.Status, whose first two fields are of the same types as these."""
    body = ExportTracePartialSuccess(rejected_spans=3, error_message="no span id").SerializeToString()
    assert http_outcome(HttpResponse(400, "application/x-protobuf", body), (), 0) == Rejected("400", "no span id")
    assert http_outcome(HttpResponse(400, "application/x-protobuf", b"\xff"), (), 0) == Rejected("400", "Bad Request")


def test_retry_after_may_be_a_date() -> None:
    now = 1_700_000_000.0
    answer = HttpResponse(429, retry_after=formatdate(now + 90, usegmt=True))
    assert http_outcome(answer, (), now) == Retryable("429 Too Many Requests", 90.0)
    assert http_outcome(answer, (), now + 100) == Retryable("429 Too Many Requests", 0.0)
    assert http_outcome(HttpResponse(429, retry_after="9" * 30), (), now) == Retryable(
        "429 Too Many Requests", 86_400.0
    )


def test_messages_carry_no_key_and_no_control_characters(
    backend: HttpBackend, spans: list[Span], caplog: pytest.LogCaptureFixture
) -> None:
    """A backend that repeats what it was sent, over many lines, is quoted in one short one."""
    caplog.set_level("INFO")
    url = backend.url.replace("http://", "http://someone:password@")
    settings = otlp(f"{url}/?api_key=query-key", headers=(("authorization", "Bearer token-1"), ("x-key", "header-key")))
    backend.behaviour = status(401, "token-1, \x1b[1m\r\nheader-key query-key password someone" + "." * 1000)
    said = send(settings, spans[0])
    assert said == Retryable("401 Unauthorized: ***,  [1m *** *** *** ***" + "." * 274 + "…")
    assert backend.requests[0].path == "/v1/traces?api_key=query-key"
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (("x-key", "sec\nret"), "header x-key of destination x contains characters that are not valid in HTTP"),
        (("x-key", "sécret"), "header x-key of destination x contains characters that are not valid in HTTP"),
        (("x key", "secret"), "destination x has a header whose name is not valid in HTTP"),
    ],
)
def test_a_header_that_cannot_be_sent_is_not_shown(header: tuple[str, str], told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        open_destination(otlp("http://127.0.0.1", headers=(header,)))
    assert str(raised.value) == told


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ({"endpoint": "http://h:4318"}, "http://h:4318/v1/traces"),
        ({"endpoint": "http://h:4318/"}, "http://h:4318/v1/traces"),
        ({"endpoint": "https://h/otlp/v1/traces"}, "https://h/otlp/v1/traces"),
        ({"endpoint": "https://h/a?b=c"}, "https://h/a/v1/traces?b=c"),
        ({"endpoint": "https://h/a", "traces_endpoint": "https://h/spans"}, "https://h/spans"),
    ],
)
def test_traces_have_a_url_of_their_own_or_the_usual_path(given: dict[str, str], used: str) -> None:
    assert traces_url(DestinationSettings("x", "otlp", **given)) == used  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "endpoint",
    [
        None,
        "",
        "h:4318",
        "ftp://h",
        "http://",
        "http://h:port",
        "http://a..b",
        "http://a b",
        "http://[",
        "http://h/\x01",
    ],
)
def test_invalid_url_is_reported_at_once(endpoint: str | None) -> None:
    with pytest.raises(ConfigError, match="destination x"):
        open_destination(DestinationSettings("x", "otlp", endpoint=endpoint))


def test_missing_tls_files_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="TLS files of destination x cannot be used"):
        open_destination(otlp("https://127.0.0.1", ca_file=tmp_path / "nothing"))


def test_no_thread_is_left(backend: HttpBackend, spans: list[Span]) -> None:
    before = set(threading.enumerate())
    backend.behaviour = HANG
    send(replace(otlp(backend.url), timeout_seconds=0.1), spans[0])
    backend.close()
    assert set(threading.enumerate()) <= before


def test_login_of_a_url_is_not_repeated(backend: HttpBackend, spans: list[Span]) -> None:
    """In no form in which a server may repeat it: as in the URL, decoded, or as it was sent."""
    url = f"http://user-name:p%40ss-word@127.0.0.1:{backend.port}/?token=a%2Bb%2Bc%2Bd"
    login = base64.b64encode(b"user-name:p@ss-word").decode()
    backend.behaviour = status(401, f"no: p%40ss-word p@ss-word {login} token=a%2Bb%2Bc%2Bd a+b+c+d")
    assert send(otlp(url), spans[0]) == Retryable("401 Unauthorized: no: *** *** *** *** ***")
