"""Backends for tests: servers on 127.0.0.1 that store spans, count them, and misbehave as they are told.

    with HttpBackend() as backend:              # or GrpcBackend()
        backend.behaviour = status(503)         # at any time; REFUSE closes the port, any other opens it again
        ...                                     # send to backend.url
        assert backend.counts == Counter(ids)   # every span id that was stored, and how often

One `Behaviour` means the same for both: for gRPC an HTTP status stands for the code that says the same.
HttpBackend also plays the part of Langfuse's API: what it has (GET /api/public/v2/observations), whose project it is,
removing a trace.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import socket
import struct
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Self
from urllib.parse import parse_qs, urlsplit

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from io import BufferedReader

    import grpc
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

_LONGEST_SECONDS: Final = 30.0  # that a server hangs, should a test forget it


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a backend does with a batch. `stores`: it keeps the spans, whatever it says or does not say."""

    kind: Literal["answer", "refuse", "hang", "drip", "close", "cut"] = "answer"
    status: int = 200
    stores: bool = True
    said: str = ""  # the text of a refusal, or of a partial success
    retry_after: str | None = None
    location: str | None = None
    partly: int = 0  # how many spans a partial success says were rejected
    blamed: str | None = None  # only a batch with this span id is refused
    max_bytes: int | None = None  # only a larger batch is refused
    before_ns: int | None = None  # only a batch with a span that began before is refused
    seconds: float = 1.0  # between two bytes
    drips: Literal["all", "body"] = "all"
    page: tuple[str, bytes] | None = None  # the content type and body of a 200 that is no answer of a backend


OK: Final = Behaviour()
REFUSE: Final = Behaviour("refuse", stores=False)
HANG: Final = Behaviour("hang", stores=False)
HANG_STORED: Final = Behaviour("hang")
ONE_BYTE_A_SECOND: Final = Behaviour("drip")
CLOSE_STORED: Final = Behaviour("close")  # after the body was read
CLOSE_UNSTORED: Final = Behaviour("close", stores=False)
CLOSE_MIDDLE: Final = Behaviour("cut", stores=False)  # in the middle of the body
# What a network's sign-in page answers to anything; nothing is stored.
PORTAL_PAGE: Final = Behaviour(stores=False, page=("text/html", b"<!doctype html><html>sign in</html>"))


def status(code: int, said: str = "", *, retry_after: str | None = None, location: str | None = None) -> Behaviour:
    """Refuse everything with this status."""
    return Behaviour(status=code, stores=False, said=said, retry_after=retry_after, location=location)


def partial_success(rejected: int, said: str) -> Behaviour:
    """Take a batch and say that some of it were rejected."""
    return Behaviour(partly=rejected, said=said)


def refuses_span(span_id: str, code: int = 400) -> Behaviour:
    """Refuse a batch in which this span is."""
    return Behaviour(status=code, said="bad span", blamed=span_id)


def refuses_before(moment_ns: int) -> Behaviour:
    """Refuse a batch with a span that began before."""
    return Behaviour(status=400, stores=False, said="too old", before_ns=moment_ns)


def refuses_above(max_bytes: int) -> Behaviour:
    """Refuse a batch that is larger, before compression."""
    return Behaviour(status=413, said="too large", max_bytes=max_bytes)


@dataclass(frozen=True, slots=True)
class Request:
    """What arrived, decompressed."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class _Backend:
    """A port that can be closed and opened, and a store of spans."""

    scheme: str = "http"

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.spans: list[Message] = []
        self.resources: list[Any] = []
        self._behaviour = OK
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._threads: list[threading.Thread] = []
        self._connections: set[socket.socket] = set()
        self._socket = _bound(0)
        self.port: int = self._socket.getsockname()[1]
        self._listen()

    @property
    def url(self) -> str:
        """Where it is, while it is."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def behaviour(self) -> Behaviour:
        """What it does now."""
        return self._behaviour

    @behaviour.setter
    def behaviour(self, new: Behaviour) -> None:
        refused, self._behaviour = self._behaviour == REFUSE, new
        self._changed.set()  # who hangs, hangs no longer
        self._changed = threading.Event()
        if (new == REFUSE) != refused:
            self._stop_listening()
            self._socket = _bound(self.port)  # bound but not listening: others cannot take it, and all are refused
            if new != REFUSE:
                self._listen()

    @property
    def counts(self) -> Counter[str]:
        """How often each span id was stored."""
        with self._lock:
            return Counter(span.span_id.hex() for span in self.spans)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave no thread and no port behind."""
        self._changed.set()
        self._stop_listening()
        for thread in self._threads:
            thread.join(_LONGEST_SECONDS)

    def drop_connections(self) -> None:
        """Break off whatever is connected."""
        with self._lock:
            open_now, self._connections = self._connections, set()
        for connection in open_now:
            _shut(connection)

    def _serve(self, connection: socket.socket) -> None:
        raise NotImplementedError

    def _listen(self) -> None:
        self._socket.listen(64)
        self._start(self._accept, self._socket)

    def _stop_listening(self) -> None:
        _shut(self._socket)  # wakes accept
        self._socket.close()
        self.drop_connections()

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with self._lock:
                self._connections.add(connection)
            self._start(self._served, connection)

    def _served(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            self._serve(connection)
        with self._lock:
            self._connections.discard(connection)

    def _store(self, message: ExportTraceServiceRequest) -> None:
        with self._lock:
            for resource_spans in message.resource_spans:
                self.resources.append(resource_spans.resource)
                for scope_spans in resource_spans.scope_spans:
                    self.spans += scope_spans.spans

    def _status(self, doing: Behaviour, message: ExportTraceServiceRequest, size: int) -> int:
        """The status of a batch, stored if it is to be."""
        spans = [
            span
            for resource_spans in message.resource_spans
            for scope_spans in resource_spans.scope_spans
            for span in scope_spans.spans
        ]
        if doing.blamed is not None and doing.blamed not in {span.span_id.hex() for span in spans}:
            doing = OK
        if doing.before_ns is not None and all(span.start_time_unix_nano >= doing.before_ns for span in spans):
            doing = OK
        if doing.max_bytes is not None and size <= doing.max_bytes:
            doing = OK
        if doing.stores and doing.status == OK.status:
            self._store(message)
        return doing.status


class HttpBackend(_Backend):
    """OTLP over HTTP, and Langfuse's read API.

    `reads` is how the read API behaves; for `lag` questions it knows of nothing; a page of it has `page` rows.
    `authorization` is the header that is asked for, if any; `tls` the context of a server with TLS.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.reads = OK
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.metrics_behaviour = OK  # what it does with them: a status of its own
        self.lag = 0
        self.page = 1000
        self.project = "my project"
        self.authorization: str | None = None
        self._tls = tls
        self.scheme = "http" if tls is None else "https"
        super().__init__()

    def _serve(self, connection: socket.socket) -> None:
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True)
            with self._lock:
                self._connections.add(connection)
        with connection, connection.makefile("rb") as file:
            while (request := self._read(file, connection)) is not None:
                with self._lock:
                    self.requests.append(request)
                doing = self._doing(request)
                changed = self._changed
                response = self._answer(request, doing)
                match doing.kind:
                    case "hang":
                        changed.wait(_LONGEST_SECONDS)
                        return
                    case "close":
                        return
                    case "drip":
                        self._drip(connection, response, doing, changed)
                        return
                    case _:
                        connection.sendall(response)

    def _doing(self, request: Request) -> Behaviour:
        """How it behaves with a request."""
        return self.reads if request.method in ("GET", "DELETE") else self._behaviour

    def _shown(self) -> list[Message]:
        """The spans that the read API knows of."""
        return self.spans

    def _read(self, file: BufferedReader, connection: socket.socket) -> Request | None:
        words = file.readline().decode().split()
        if not words:
            return None
        headers: dict[str, str] = {}
        while line := file.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        length = int(headers.get("content-length", "0"))
        if self._behaviour.kind == "cut" and words[0] == "POST":
            file.read(length // 2)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return None
        body = file.read(length)
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        return Request(words[0], words[1], headers, body)

    def _answer(self, request: Request, doing: Behaviour) -> bytes:
        if self.authorization is not None and request.headers.get("authorization") != self.authorization:
            return _response(401, b'{"message":"Invalid credentials"}', "application/json")
        if self._behaviour.page is not None:
            return _response(200, self._behaviour.page[1], self._behaviour.page[0])
        if request.method in ("GET", "DELETE"):
            type_, said = doing.page or ("application/json", doing.said.encode())
            answer = self._asked(request)
            if answer is None:
                return _response(404, b'{"message":"not found"}', type_)
            return _response(doing.status, said or json.dumps(answer).encode(), type_)
        is_json = request.headers.get("content-type") == "application/json"
        if request.path.endswith("/v1/metrics"):
            return self._answer_metrics(request, is_json=is_json)
        code = self._status(doing, _parsed_json(request.body) if is_json else _parsed(request.body), len(request.body))
        if code != OK.status:
            more = (("retry-after", doing.retry_after), ("location", doing.location))
            return _response(code, doing.said.encode(), "text/plain", *((n, v) for n, v in more if v is not None))
        if request.path.endswith("/api/public/otel/v1/traces") and not doing.partly:
            return _response(200, _JOB, "application/json; charset=utf-8")
        if is_json:
            partial = {"partialSuccess": {"rejectedSpans": str(doing.partly), "errorMessage": doing.said}}
            return _response(200, json.dumps(partial if doing.partly else {}).encode(), "application/json")
        return _response(200, _taken(doing), "application/x-protobuf")

    def _answer_metrics(self, request: Request, *, is_json: bool) -> bytes:
        doing, message = self.metrics_behaviour, ExportMetricsServiceRequest()
        if is_json:
            ParseDict(json.loads(request.body), message)
        else:
            message.ParseFromString(request.body)
        if doing.stores:
            with self._lock:
                self.metrics.append(message)
        if doing.status != OK.status:
            return _response(doing.status, doing.said.encode(), "text/plain")
        return _response(200, b"{}" if is_json else b"", request.headers["content-type"])

    def _asked(self, request: Request) -> dict[str, Any] | None:
        """What Langfuse's API says; None where it has no such page."""
        path = urlsplit(request.path).path
        if request.method == "DELETE":
            trace_id = path.rpartition("/")[2]
            with self._lock:
                self.spans = [span for span in self.spans if span.trace_id.hex() != trace_id]
            return {"message": "Trace deleted successfully"}
        if path.endswith("/projects"):
            organization = {"id": "o1", "name": "Example"}
            return {"data": [{"id": "p1", "name": self.project, "organization": organization, "metadata": {}}]}
        return self._observations(request.path) if path.endswith("/observations") else None

    def _observations(self, path: str) -> dict[str, Any]:
        query = parse_qs(urlsplit(path).query)
        with self._lock:
            rows = [_observation(span) for span in self._shown() if span.trace_id.hex() in query["traceId"]]
        if self.lag:
            self.lag -= 1
            rows = []
        begin, size = int(query.get("cursor", ["0"])[0]), min(self.page, int(query.get("limit", ["50"])[0]))
        more = {"cursor": str(begin + size)} if begin + size < len(rows) else {}
        return {"data": rows[begin : begin + size], "meta": more}

    @staticmethod
    def _drip(connection: socket.socket, response: bytes, doing: Behaviour, changed: threading.Event) -> None:
        at_once = response.index(b"\r\n\r\n") + 4 if doing.drips == "body" else 0
        connection.sendall(response[:at_once])
        for byte in response[at_once:]:
            if changed.wait(doing.seconds):
                return
            connection.sendall(bytes([byte]))


class GrpcBackend(_Backend):
    """OTLP over gRPC: a real grpc server, and before it a forwarder that can break connections and be slow."""

    # What says the same as an HTTP status; any other is UNKNOWN.
    CODES: Final = {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "UNIMPLEMENTED",
        413: "RESOURCE_EXHAUSTED",
        422: "INVALID_ARGUMENT",
        429: "RESOURCE_EXHAUSTED",
        500: "INTERNAL",
        503: "UNAVAILABLE",
    }

    def __init__(self, credentials: grpc.ServerCredentials | None = None) -> None:
        import grpc  # noqa: PLC0415  (90 ms that tests over HTTP need not pay)

        self._grpc = grpc
        self._slow: Behaviour | None = None  # once a call has come
        self._pool = ThreadPoolExecutor(8)
        self._server = grpc.server(self._pool)
        handlers: dict[str, Any] = {"Export": grpc.unary_unary_rpc_method_handler(self._export)}
        service = "opentelemetry.proto.collector.trace.v1.TraceService"
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        if credentials is None:
            self._inside = self._server.add_insecure_port("127.0.0.1:0")
        else:
            self.scheme = "https"
            self._inside = self._server.add_secure_port("127.0.0.1:0", credentials)
        self._server.start()
        super().__init__()

    def close(self) -> None:
        """Leave no thread and no port behind."""
        super().close()
        self._server.stop(0).wait()
        self._pool.shutdown()

    def _export(self, body: bytes, context: Any) -> bytes:
        doing, changed = self._behaviour, self._changed
        headers = {str(name): str(value) for name, value in context.invocation_metadata()}
        with self._lock:
            self.requests.append(Request("Export", "", headers, body))
        code = self._status(doing, _parsed(body), len(body))
        match doing.kind:
            case "hang":
                changed.wait(_LONGEST_SECONDS)
            case "close":
                self.drop_connections()
            case "drip":
                self._slow = doing
        if code != OK.status:
            if doing.retry_after is not None:
                context.set_trailing_metadata((("grpc-status-details-bin", _retry_info(doing.retry_after)),))
            said = {
                302: "Received http2 header with status: 302",  # grpc's own words
                413: f"{doing.said}: received message larger than max",
            }.get(code, doing.said)
            context.abort(self._grpc.StatusCode[self.CODES.get(code, "UNKNOWN")], said)
        return _taken(doing)

    def _serve(self, connection: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self._inside)) as inside, contextlib.ExitStack() as at_end:
            at_end.callback(_shut, inside)  # wakes the thread below; closing alone would not
            self._start(self._forward, inside, connection)
            passed = 0
            while chunk := connection.recv(65536):
                passed += len(chunk)
                if self._behaviour.kind == "cut" and passed > 600:  # more than a connection begins with
                    return
                inside.sendall(chunk)

    def _forward(self, inside: socket.socket, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := inside.recv(65536):
                doing, changed = self._behaviour, self._changed
                if self._slow is not doing:
                    connection.sendall(chunk)
                    continue
                while chunk and not changed.wait(doing.seconds):
                    connection.sendall(chunk[:1])
                    chunk = chunk[1:]
                connection.sendall(chunk)
        _shut(connection)


# What Langfuse answers: the job that will store the batch.
_JOB: Final = (
    b'{"name":"otel-ingestion-job","data":{"payload":{"data":{"fileKey":"otel/p/1.json"}}},"opts":{},"id":"1"}'
)


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound


def _shut(connection: socket.socket) -> None:
    """End a connection for both sides, and wake who waits for it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _response(code: int, body: bytes, content_type: str, *more: tuple[str, str]) -> bytes:
    headers = [("content-type", content_type), ("content-length", str(len(body))), *more]
    lines = [f"HTTP/1.1 {code} Said", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode() + body


def _taken(doing: Behaviour) -> bytes:
    response = ExportTraceServiceResponse()
    if doing.partly:
        response.partial_success.rejected_spans = doing.partly
        response.partial_success.error_message = doing.said
    return response.SerializeToString()


def _parsed(body: bytes) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(body)


def _parsed_json(body: bytes) -> ExportTraceServiceRequest:
    """OTLP's JSON has ids in hex, where protobuf's JSON has base64."""

    def with_base64(pairs: dict[str, Any]) -> dict[str, Any]:
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in pairs:
                pairs[name] = base64.b64encode(bytes.fromhex(pairs[name])).decode()
        return pairs

    return ParseDict(json.loads(body, object_hook=with_base64), ExportTraceServiceRequest())


def _observation(span: Message) -> dict[str, Any]:
    given = {pair.key.removeprefix("langfuse."): pair.value.string_value for pair in span.attributes}
    return {
        "id": span.span_id.hex(),
        "traceId": span.trace_id.hex(),
        "parentObservationId": span.parent_span_id.hex() or None,
        "projectId": "test",
        "startTime": datetime.fromtimestamp(span.start_time_unix_nano // 1_000_000 / 1000, UTC).isoformat(),
        "type": given.get("observation.type", "span").upper(),
        "name": span.name,
        "sessionId": given.get("session.id"),
        "input": given.get("observation.input"),
        "output": given.get("observation.output"),
        "usageDetails": json.loads(given.get("observation.usage_details", "{}")),
    }


def _retry_info(seconds: str) -> bytes:
    from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # noqa: PLC0415
    from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # noqa: PLC0415

    details, info = Status(), RetryInfo()
    info.retry_delay.seconds = int(seconds)
    details.details.add().Pack(info)
    return bytes(details.SerializeToString())
