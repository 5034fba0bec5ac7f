"""A connection with a deadline for every step: opening, TLS, reading and writing.

A socket's own timeout applies to each single step, so a server that sends a byte now and then would never exceed it.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl

_RECEIVE_BYTES: Final = 1 << 16
_MAX_LINE_BYTES: Final = 1 << 16


class Connection:
    """An open connection. `deadline` is the current request's, by the monotonic clock; past it comes TimeoutError."""

    def __init__(self, address: tuple[str, int], connect_seconds: float, deadline: float) -> None:
        self.deadline = deadline
        self.reusable = False  # the last response was read to its end, and the server keeps the connection
        self._received = b""
        self._socket = self._open(address, connect_seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def remaining_seconds(self) -> float:
        """Return the time left for the next step."""
        if (seconds := self.deadline - time.monotonic()) <= 0:
            message = "timed out"
            raise TimeoutError(message)
        return seconds

    def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Switch to TLS with a host. Data received before that must not pass for the host's."""
        if self._received:
            message = "the proxy sent more than its answer"
            raise ConnectionError(message)
        self._socket.settimeout(self.remaining_seconds())
        self._socket = context.wrap_socket(self._socket, server_hostname=host)

    def send_all(self, data: bytes) -> None:
        """Send everything."""
        remaining = memoryview(data)
        while remaining:
            self._socket.settimeout(self.remaining_seconds())
            remaining = remaining[self._socket.send(remaining) :]

    def read_line(self, at_end: str = "the response is incomplete") -> bytes:
        """Return the next line without its end. Raises ConnectionError if it is incomplete or too long."""
        while b"\n" not in self._received[: _MAX_LINE_BYTES + 1]:
            if len(self._received) > _MAX_LINE_BYTES:
                message = "a line of its response is too long"
                raise ConnectionError(message)
            if not (data := self._receive()):
                raise ConnectionError(at_end)
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line.removesuffix(b"\r")

    def read_some(self, max_bytes: int) -> bytes:
        """Return the next bytes, at most `max_bytes`; empty at the end."""
        received = self._received or self._receive()
        self._received = received[max_bytes:]
        return received[:max_bytes]

    def is_idle(self) -> bool:
        """Return whether the server has neither closed the connection nor sent anything since its last response."""
        if not self.reusable or self._received:
            return False
        self._socket.settimeout(0)
        try:
            socket.socket.recv(self._socket, 1, socket.MSG_PEEK)  # not SSLSocket's, which takes no flags
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _open(self, address: tuple[str, int], connect_seconds: float) -> socket.socket:
        """Connect to the first address that accepts. `create_connection` would give each address the whole time."""
        error = OSError("the host has no address")
        for family, kind, protocol, _, sockaddr in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            sock = None
            try:
                sock = socket.socket(family, kind, protocol)
                sock.settimeout(min(connect_seconds, self.remaining_seconds()))
                sock.connect(sockaddr)
            except OSError as failure:
                error = failure
                if sock is not None:
                    sock.close()
            else:
                return sock
        raise error

    def _receive(self) -> bytes:
        self._socket.settimeout(self.remaining_seconds())
        return self._socket.recv(_RECEIVE_BYTES)
