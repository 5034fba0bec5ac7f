r"""Output streams that escape control characters: no transcript, path, setting or response drives the terminal.

Rule: everything that any command prints passes through here. Control characters, and those that change the direction
of writing, are shown as `\uXXXX`. In JSON that is their escape, and such a character stands only in its strings.
"""

from __future__ import annotations

import os

from cc_trace.escapes import escaped

TYPE_CHECKING = False  # importing typing, re or contextlib takes as long as all that `--help` does
if TYPE_CHECKING:
    from typing import BinaryIO, TextIO


class EscapedBytes:
    """The stream for bytes, which are JSON in UTF-8."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        """Write with control characters escaped."""
        self._stream.write(escaped(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"))
        return len(data)

    def __getattr__(self, name: str) -> object:
        """Delegate everything else to the stream."""
        return getattr(self._stream, name)


class EscapedText:
    """A stream that escapes what is written to it. What its encoding does not have is shown, too.

    In a terminal, lines break between words.
    """

    def __init__(self, stream: TextIO) -> None:
        self.bare = stream
        self._width = _width(stream)

    @property
    def buffer(self) -> EscapedBytes:
        """Return the stream of bytes below."""
        return EscapedBytes(self.bare.buffer)

    def write(self, text: str) -> int:
        """Write with control characters escaped."""
        self.bare.write(self.safe(text))
        return len(text)

    def safe(self, text: str) -> str:
        """Return a text as it is written here."""
        safe, encoding = escaped(text), self.bare.encoding or "utf-8"
        if len(safe) > self._width > 0:
            safe = "\n".join(_wrapped(line, self._width) for line in safe.split("\n"))
        if not safe.isascii():  # a path can have bytes that are no text
            safe = safe.encode(encoding, "backslashreplace").decode(encoding)
        return safe

    def __getattr__(self, name: str) -> object:
        """Delegate everything else to the stream."""
        return getattr(self.bare, name)


def _width(stream: TextIO) -> int:
    """Return the width of a terminal; 0 if the stream is none."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        return 0


def _wrapped(line: str, width: int) -> str:
    """Return a line in pieces that fit, but for words that do not; what follows is indented like it, and by four."""
    lines = []
    indent = " " * (len(line) - len(line.lstrip(" ")) + 4)
    while len(line) > width:
        start = len(line) - len(line.lstrip(" "))
        cut = line.rfind(" ", start, width + 1)
        if cut < 0 and (cut := line.find(" ", width)) < 0:
            break
        lines.append(line[:cut].rstrip(" "))
        line = indent + line[cut:].lstrip(" ")
    return "\n".join([*lines, line])


def bare(stream: TextIO) -> TextIO:
    """Return the stream itself, for output that has escape sequences of its own and admits no others."""
    inner: TextIO = getattr(stream, "bare", stream)
    return inner
