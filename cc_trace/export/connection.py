"""A connection whose every step ends by a deadline: opening, TLS, a proxy's tunnel, reading and writing.

A socket's own timeout bounds the single step, so a server that sends a byte now and then would never run into it.
"""

from __future__ import annotations

import io
import socket
import time
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

    from _typeshed import WriteableBuffer

_SUCCESS: Final = range(200, 300)


class Connection:
    """An open connection. `deadline` is the current request's, by the monotonic clock; past it is TimeoutError."""

    def __init__(self, address: tuple[str, int], connect_seconds: float, deadline: float) -> None:
        self.deadline = deadline
        self.reusable = False  # the last response was read to its end, and the server keeps the connection
        self._socket = socket.create_connection(address, min(connect_seconds, self.left_seconds()))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def left_seconds(self) -> float:
        """Return how long the next step may take."""
        if (left := self.deadline - time.monotonic()) <= 0:
            message = "timed out"
            raise TimeoutError(message)
        return left

    def tunnel(self, authority: str, headers: Iterable[tuple[str, str]]) -> None:
        """Let a proxy connect us to a host. OSError has what it said where it does not."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in (("host", authority), *headers))
        self.sendall(f"CONNECT {authority} HTTP/1.1\r\n{lines}\r\n".encode("latin-1"))
        response = HTTPResponse(self, method="CONNECT")  # type: ignore[arg-type]  # it wants `makefile` only
        try:
            response.begin()
        finally:
            response.close()
        if response.status not in _SUCCESS:
            message = f"{response.status} {response.reason}"
            raise OSError(message)

    def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Speak TLS from here on, with a host of this name."""
        self._socket.settimeout(self.left_seconds())
        self._socket = context.wrap_socket(self._socket, server_hostname=host)

    def sendall(self, data: bytes) -> None:
        """Send everything."""
        left = memoryview(data)
        while left:
            self._socket.settimeout(self.left_seconds())
            left = left[self._socket.send(left) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return what is received as a file, as `http.client` wants it. It outlives `close`."""
        return io.BufferedReader(_Received(self, self._socket))

    def is_idle(self) -> bool:
        """Tell whether the server has neither closed the connection nor said anything since its last response."""
        if not self.reusable:
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
        """Let go of it."""
        self._socket.close()


class _Received(io.RawIOBase):
    def __init__(self, connection: Connection, sock: socket.socket) -> None:
        self._connection, self._socket = connection, sock
        self._raw = sock.makefile("rb", buffering=0)  # counted by the socket, which stays open as long

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        self._socket.settimeout(self._connection.left_seconds())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
