"""A collector on a port of its own that takes every batch at once and says on request what it received.

    python bench/listener.py    # prints its port; GET / answers {"spans": ..., "distinct": ..., ...}

It looks into the batches only when asked: while they come, it takes as little of the machine as it can.
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_BATCHES: Final[list[tuple[bytes, bool]]] = []  # and whether it is compressed
_ONE_PAGE: Final = {"page": 1, "limit": 100, "totalItems": 0, "totalPages": 1}
_TIMES: Final[list[float]] = []


class _Listener(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # one connection for all batches

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        _BATCHES.append((body, self.headers["content-encoding"] == "gzip"))
        _TIMES.append(time.time())
        self._answer(b"", "application/x-protobuf")

    def do_GET(self) -> None:
        if self.path != "/":  # which models have prices, asked as at Langfuse: none
            self._answer(json.dumps({"data": [], "meta": _ONE_PAGE}).encode(), "application/json")
            return
        batches = (gzip.decompress(body) if compressed else body for body, compressed in _BATCHES)
        requests = [ExportTraceServiceRequest.FromString(batch) for batch in batches]
        scopes = [scope for request in requests for part in request.resource_spans for scope in part.scope_spans]
        ids = [span.span_id for scope in scopes for span in scope.spans]
        counts = {
            "spans": len(ids),
            "distinct": len(set(ids)),
            "bytes": sum(len(body) for body, _ in _BATCHES),
            "last": max(_TIMES, default=0),
        }
        _BATCHES.clear()
        _TIMES.clear()
        self._answer(json.dumps(counts).encode(), "application/json")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:  # noqa: ANN401  (the base class's own)
        pass


def main() -> int:
    """Serve until stdin ends, which it does when whoever started this is gone."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Listener) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_address[1], flush=True)
        sys.stdin.read()
        server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
