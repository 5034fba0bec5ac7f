"""A transcript that stays open while its session is synced: looked into in many places, opened twice at most.

Rules:
- What is read is what stands in the file now: nothing is kept from an earlier look but the head, once it is complete.
- A file that was put in the place of another is opened anew.
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
    """One transcript. Its file is opened when it is first needed; whoever makes one closes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Two, because lines are handed out one by one while a look is taken elsewhere. That look is unbuffered.
        self._looking = _Handle(path, buffering=0)
        self._reading = _Handle(path, buffering=CHUNK_BYTES)
        self._head: TranscriptHead | None = None

    def __enter__(self) -> Self:
        """Return itself; nothing is opened yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the file."""
        self.close()

    def close(self) -> None:
        """Let go of the file; what is asked next opens it again."""
        self._looking.close()
        self._reading.close()
        self._head = None

    @property
    def session_id(self) -> str:
        """Return the session's id: its file's name."""
        return self.path.stem

    def stat(self) -> os.stat_result:
        """Return the size and the times that the file has now."""
        return self.path.stat()

    def lines(self, start: Position = BEGINNING) -> Iterator[Line]:
        """Yield the lines from `start` on, also a last one without its newline. Only one reader at a time."""
        file = self._reading.file()
        file.seek(0, os.SEEK_END)  # which forgets what was buffered: it may have been written over since
        return lines_in(file, start, torn=True)

    def entries(self) -> Iterator[Entry]:
        """Yield the entries at the beginning."""
        return head_entries(self.lines())

    @property
    def head(self) -> TranscriptHead:
        """Return what the beginning tells: whose it is, where it was started, which session went before."""
        if self._head is not None:
            return self._head
        head = summarize_head(self.entries())
        if head.is_complete:  # else later lines tell more
            self._head = head
        return head

    def tail(self, length: int) -> bytes:
        """Return the last bytes."""
        return self._bytes(max(0, self.stat().st_size - length), -1)

    def fingerprint(self, length: int) -> str:
        """Return a digest of the first bytes: a transcript that begins otherwise is another one."""
        return hashlib.sha256(self._bytes(0, length)).hexdigest()

    def fingerprint_before(self, offset: int) -> str:
        """Return a digest of the last bytes before a position: a transcript that was rewritten has others there."""
        length = min(offset, FINGERPRINT_BYTES)
        return hashlib.sha256(self._bytes(offset - length, length)).hexdigest()

    def is_line_start(self, offset: int) -> bool:
        """Tell whether a line can begin at a position."""
        return not offset or self._bytes(offset - 1, 1) == b"\n"

    def _bytes(self, offset: int, length: int) -> bytes:
        file = self._looking.file()
        file.seek(offset)
        return file.read(length)


class _Handle:
    """A file, opened when it is needed and again when another one stands in its place."""

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
