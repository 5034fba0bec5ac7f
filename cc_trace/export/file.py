"""A file of OTLP JSON Lines, one request per line, as the collector's otlpjsonfile receiver reads it.

Rules:
- A line is appended with a single write, under a lock. If the process dies during the write, at most a torn line is
  left, and the next writer starts a new line.
- Only files that were created here, or look like it, are written to, and modes are never changed. A mistyped path, or
  one chosen by somebody else, must not damage another file of the user.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from cc_trace.export.encoding import OtlpDestination
from cc_trace.export.outcomes import Accepted, Retryable, Unclear
from cc_trace.files import lock, open_private

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cc_trace.export.destination import DestinationSettings
    from cc_trace.export.outcomes import EncodedSpan, Outcome

_HEAD_BYTES: Final = 1 << 18
_BEGINNING: Final = b'{"resourceSpans":[{"resource":'
_SCOPE: Final = b'"scope":{"name":"cc-trace"'
_SAFELY: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class JsonLines(OtlpDestination):
    """Appends batches of spans. A span that is sent twice is in the file twice."""

    def __init__(self, settings: DestinationSettings, path: Path) -> None:
        super().__init__(settings, "json")
        self._path = path
        self._seconds = settings.timeout_seconds

    def send(self, batch: Sequence[EncodedSpan]) -> Outcome:
        """Append one line."""
        line = self._encoder.body(batch) + b"\n"
        try:
            descriptor = _open(self._path)
        except OSError as error:
            return Retryable(f"{self._path}: {error.strerror or error}")
        try:
            if not lock(descriptor, self._seconds):
                return Retryable(f"{self._path}: another process has held its lock for {self._seconds:g} seconds")
            if (problem := _problem(descriptor)) is not None:
                return Retryable(
                    f"{self._path} {problem}; choose a path that does not exist yet, or move this file away"
                )
            return self._append(descriptor, line)
        finally:
            os.close(descriptor)  # which also releases the lock

    def _append(self, descriptor: int, line: bytes) -> Outcome:
        size = os.fstat(descriptor).st_size
        try:
            if size and _last_byte(descriptor, size) != b"\n":
                line = b"\n" + line
            written = os.write(descriptor, line)
        except OSError as error:
            return self._truncate_back(descriptor, size, error.strerror or str(error))
        if written < len(line):
            return self._truncate_back(descriptor, size, "not enough disk space for the whole line")
        try:
            os.fsync(descriptor)
        except OSError as error:
            return Unclear(f"{self._path}: {error.strerror or error}")
        return Accepted()

    def _truncate_back(self, descriptor: int, size: int, reason: str) -> Outcome:
        """Truncate a partly written line. Nobody else can have written since: we hold the lock."""
        try:
            os.ftruncate(descriptor, size)
        except OSError:
            return Unclear(f"{self._path}: {reason}")
        return Retryable(f"{self._path}: {reason}")


def _open(path: Path) -> int:
    """Open the file, or create it with mode 0600, and return its descriptor. Raises OSError."""
    try:
        return os.open(path, os.O_RDWR | os.O_APPEND | _SAFELY)
    except FileNotFoundError:
        pass
    try:
        return open_private(path, os.O_RDWR | os.O_APPEND | os.O_EXCL)
    except FileExistsError:  # another process created it first
        return os.open(path, os.O_RDWR | os.O_APPEND | _SAFELY)


def _problem(descriptor: int) -> str | None:
    """Return why a file must not be written to, or None if it may: it is ours, or empty and only we can access it."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"
    if status.st_size == 0:
        private = not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o077)
        return None if private else "is empty and accessible to other users"
    os.lseek(descriptor, 0, os.SEEK_SET)
    head = os.read(descriptor, _HEAD_BYTES)
    if head.startswith(_BEGINNING) and (_SCOPE in head or b"\n" not in head):  # a first line may be torn
        return None
    return "was not written by cc-trace"


def _last_byte(descriptor: int, size: int) -> bytes:
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1)
