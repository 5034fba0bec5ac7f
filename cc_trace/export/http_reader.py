"""Reads an HTTP/1.1 response from a connection.

Python's `http.client` parses headers with the `email` package, and importing it takes as long as sending a turn.
An invalid response is a ConnectionError. Source: RFC 9112.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

from cc_trace.export.responses import HttpResponse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cc_trace.export.connection import Connection

_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9][0-9])(?: .*)?")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;.*)?")
_MAX_HEADERS: Final = 100
_INFORMATIONAL: Final = range(100, 200)
_WITHOUT_BODY: Final = (204, 304)


def read_response(connection: Connection, max_body_bytes: int, *, tunnel: bool = False) -> HttpResponse:
    """Read a response. Once its status is known, a body that breaks off is returned as far as it arrived.

    Sets whether the connection is reusable. After the head of a `tunnel` response nothing is read.
    """
    minor, status, headers = _read_head(connection)
    while status in _INFORMATIONAL:
        minor, status, headers = _read_head(connection)
    body, complete = bytearray(), False
    with contextlib.suppress(OSError, ValueError):  # the body broke off or took too long
        for part in () if tunnel or status in _WITHOUT_BODY else _parts(connection, headers):
            body += part
            if len(body) >= max_body_bytes:
                break
        else:
            complete = True
    # After a body that ends with the connection, the connection is closed; `is_idle` will notice.
    connection_header = headers.get("connection", "close" if minor == b"0" else "keep-alive").lower()
    connection.reusable = complete and "close" not in connection_header
    return HttpResponse(
        status=status,
        content_type=headers.get("content-type", "").lower(),
        body=bytes(body[:max_body_bytes]),
        retry_after=headers.get("retry-after"),
        location=headers.get("location"),
        complete=complete,
    )


def _read_head(connection: Connection) -> tuple[bytes, int, dict[str, str]]:
    """Return HTTP's minor version, the status and the headers; of headers with the same name, the first."""
    status_line = connection.read_line(at_end="Server disconnected without sending a response.")
    if (match := _STATUS_LINE.fullmatch(status_line)) is None:
        message = "the response is not HTTP"
        raise ConnectionError(message)
    headers: dict[str, str] = {}
    for _ in range(_MAX_HEADERS):
        if not (line := connection.read_line()):
            return match[1], int(match[2]), headers
        name, _, value = line.decode("latin-1").partition(":")
        headers.setdefault(name.strip().lower(), value.strip())
    message = "its response has too many headers"
    raise ConnectionError(message)


def _parts(connection: Connection, headers: dict[str, str]) -> Iterator[bytes]:
    """Yield a body as it arrives. Raises ConnectionError if it ends early."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        while size := _chunk_size(connection.read_line()):
            yield from _exactly(connection, size)
            connection.read_line()
        while connection.read_line():
            pass  # trailers
    elif (length := headers.get("content-length", "")).isdecimal():
        yield from _exactly(connection, int(length))
    else:
        while part := connection.read_some(1 << 16):
            yield part


def _chunk_size(line: bytes) -> int:
    if (match := _CHUNK.fullmatch(line)) is None:
        message = "the response has a chunk without a size"
        raise ConnectionError(message)
    return int(match[1], 16)


def _exactly(connection: Connection, size: int) -> Iterator[bytes]:
    while size:
        if not (part := connection.read_some(size)):
            message = "the response is incomplete"
            raise ConnectionError(message)
        size -= len(part)
        yield part
