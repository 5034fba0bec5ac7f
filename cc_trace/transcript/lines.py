"""A transcript file as complete lines with their byte offsets.

Rule: split bytes at newlines, decode afterwards. A last line without a newline is not an error but "not yet";
it is yielded only to a caller that knows the file has stopped growing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from cc_trace.files import open_regular
from cc_trace.transcript.entries import make_tuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHUNK_BYTES: Final = 1 << 20
# The longest line seen in public transcripts is 2 MB. A line longer than this is counted, but not held in memory.
MAX_LINE_BYTES: Final = 64 << 20


class Line(NamedTuple):
    """One line. `data` is None if it was too long to hold; `torn` if it does not end with a newline."""

    offset: int
    number: int
    data: bytes | None
    torn: bool = False


class Position(NamedTuple):
    """Where to resume reading: the byte offset of a line's start, and the line's number counted from 0."""

    offset: int = 0
    number: int = 0


BEGINNING: Final = Position()


def read_lines(
    path: Path, start: Position = BEGINNING, *, torn: bool = False, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[Line]:
    """Yield the complete lines from `start` on; with `torn`, also a last line that has no newline."""
    with open_regular(path, buffering=CHUNK_BYTES) as file:
        yield from lines_in(file, start, torn=torn, max_line_bytes=max_line_bytes)


def lines_in(
    file: BinaryIO, start: Position = BEGINNING, *, torn: bool = False, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[Line]:
    """Do the same as `read_lines` for a file that is already open."""
    offset, number = start.offset, start.number
    file.seek(offset)
    while data := file.readline(max_line_bytes):
        size = len(data)
        if data.endswith(b"\n"):
            yield make_tuple(Line, (offset, number, data, False))
        else:
            whole = size < max_line_bytes
            size += 0 if whole else _length_of_rest(file)
            ended = not whole and _ended(file)
            if ended or torn:
                yield Line(offset, number, data if whole else None, torn=not ended)
        offset += size
        number += 1


def _length_of_rest(file: BinaryIO) -> int:
    """Skip the rest of a line that is too long to hold; return its length."""
    length = 0
    while piece := file.readline(CHUNK_BYTES):
        length += len(piece)
        if piece.endswith(b"\n"):
            break
    return length


def _ended(file: BinaryIO) -> bool:
    """Return whether the byte before the current position is a newline."""
    file.seek(-1, os.SEEK_CUR)
    return file.read(1) == b"\n"
