"""A transcript that stays open while its session is synced. Many callers read from it; it is opened at most twice.

Rules:
- Every read returns the file's current contents. Only the head is cached, once it is complete.
- If the file was replaced by another, it is reopened.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, BinaryIO, Final, Self

from cc_trace.files import open_regular
from cc_trace.transcript.head import head_entries, summarize_head
from cc_trace.transcript.lines import BEGINNING, CHUNK_BYTES, lines_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.transcript.entries import Entry
    from cc_trace.transcript.head import TranscriptHead
    from cc_trace.transcript.lines import Line, Position

FINGERPRINT_BYTES: Final = 1024


class OpenTranscript:
    """One transcript. The file is opened on first use; the caller that creates the object closes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Two handles, because other positions are read, unbuffered, while lines are yielded one by one.
        self._looking = _Handle(path, buffering=0)
        self._reading = _Handle(path, buffering=CHUNK_BYTES)
        self._head: TranscriptHead | None = None

    def __enter__(self) -> Self:
        """Return itself; nothing is opened yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file. The next read reopens it."""
        self._looking.close()
        self._reading.close()
        self._head = None

    @property
    def session_id(self) -> str:
        """Return the session's id: its file's name."""
        return self.path.stem

    def stat(self) -> os.stat_result:
        """Return the file's current size and times."""
        return self.path.stat()

    def lines(self, start: Position = BEGINNING) -> Iterator[Line]:
        """Yield the lines from `start` on, including a last one without a newline. Only one reader at a time."""
        file = self._reading.file()
        file.seek(0, os.SEEK_END)  # discards the buffer: the file may have been overwritten since
        return lines_in(file, start, torn=True)

    def entries(self) -> Iterator[Entry]:
        """Yield the entries of the first lines."""
        return head_entries(self.lines())

    @property
    def head(self) -> TranscriptHead:
        """Return what the first lines say: the session, its folder and its predecessor."""
        if self._head is not None:
            return self._head
        head = summarize_head(self.entries())
        if head.is_complete:  # otherwise later lines may add to it
            self._head = head
        return head

    def tail(self, length: int) -> bytes:
        """Return the last bytes."""
        return self._bytes(max(0, self.stat().st_size - length), -1)

    def fingerprint(self, length: int) -> str:
        """Return a digest of the first bytes. If it differs, it is a different transcript."""
        return hashlib.sha256(self._bytes(0, length)).hexdigest()

    def fingerprint_before(self, offset: int) -> str:
        """Return a digest of the bytes just before a position. It differs if the transcript was rewritten."""
        length = min(offset, FINGERPRINT_BYTES)
        return hashlib.sha256(self._bytes(offset - length, length)).hexdigest()

    def is_line_start(self, offset: int) -> bool:
        """Return whether a line can start at a position."""
        return not offset or self._bytes(offset - 1, 1) == b"\n"

    def _bytes(self, offset: int, length: int) -> bytes:
        file = self._looking.file()
        file.seek(offset)
        return file.read(length)


class _Handle:
    """A file that is opened on first use, and reopened when it has been replaced."""

    def __init__(self, path: Path, buffering: int) -> None:
        self._path = path
        self._buffering = buffering
        self._file: BinaryIO | None = None

    def file(self) -> BinaryIO:
        if self._file is not None and not os.path.samestat(self._path.stat(), os.fstat(self._file.fileno())):
            self.close()
        if self._file is None:
            self._file = open_regular(self._path, buffering=self._buffering)
        return self._file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
