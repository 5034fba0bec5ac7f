"""What a transcript's first lines say: its session, its folder, its predecessor. Only a few lines are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from cc_trace.paths import is_uuid
from cc_trace.transcript.entries import Prompt, Reply
from cc_trace.transcript.lines import read_lines
from cc_trace.transcript.parse import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cc_trace.transcript.entries import Entry
    from cc_trace.transcript.lines import Line

_HEAD_LINES: Final = 64


class TranscriptHead(NamedTuple):
    """What the first lines say. In a very short transcript some of it may still be missing."""

    first_session_id: str | None  # of the very first line; after some transitions that of the previous session
    session_id: str | None  # the first that a line has
    cwd: str | None  # the folder the session was started in
    is_agent: bool | None  # whether it is an agent's own file; None: there is no prompt or response yet

    @property
    def is_complete(self) -> bool:
        """Return whether later lines can no longer change it."""
        return self.cwd is not None and self.is_agent is not None

    def identify(self, path: Path) -> tuple[str, bool]:
        """Return a session's id, and whether the file is an agent's own.

        A file is named after its session; for a renamed file the lines decide. In an agent's file all lines are
        sidechain lines.
        """
        named = path.stem
        return (named if is_uuid(named) else self.session_id or named), bool(self.is_agent)


def read_head(path: Path) -> Iterator[Entry]:
    """Yield the entries at the beginning of a file."""
    return head_entries(read_lines(path, torn=True))


def head_entries(lines: Iterable[Line]) -> Iterator[Entry]:
    """Yield the entries of the first lines."""
    for line in lines:
        if line.number >= _HEAD_LINES:
            return
        yield from parse(line)


def summarize_head(entries: Iterable[Entry]) -> TranscriptHead:
    """Return what the first lines say. Reads no more lines than necessary."""
    heads = 0
    first = named = cwd = is_agent = None
    for entry in entries:
        if (head := entry.head) is None:
            continue
        heads += 1
        context = head.context
        first = context.session_id if heads == 1 else first
        cwd = context.cwd if cwd is None else cwd
        if is_agent is None:
            named = named or context.session_id
            if isinstance(entry, Prompt | Reply):
                is_agent = head.sidechain and head.agent_id is not None
        if cwd is not None and is_agent is not None:
            break
    return TranscriptHead(first_session_id=first, session_id=named, cwd=cwd, is_agent=is_agent)


def identify(path: Path) -> tuple[str, bool]:
    """Return a session's id, and whether the file is an agent's own."""
    return summarize_head(read_head(path)).identify(path)


def first_cwd(path: Path) -> str | None:
    """Return the folder a session was started in."""
    try:
        return summarize_head(read_head(path)).cwd
    except OSError:
        return None
