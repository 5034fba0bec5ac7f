"""What the beginning of a transcript tells: whose it is, and which session went before. Only a few lines are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cc_trace.paths import is_uuid
from cc_trace.transcript.entries import Prompt, Reply
from cc_trace.transcript.lines import read_lines
from cc_trace.transcript.parse import parse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.transcript.entries import Entry

_PEEK_LINES: Final = 64


def read_head(path: Path) -> Iterator[Entry]:
    """Yield the entries at the beginning of a file."""
    for line in read_lines(path, torn=True):
        if line.number >= _PEEK_LINES:
            return
        yield from parse(line)


def identify(path: Path) -> tuple[str, bool]:
    """Return a session's id, and whether the file is an agent's own.

    The session of a file is its name; of a renamed file it is what its lines say. In an agent's file all lines are
    sidechain lines, and there they are the main thread.
    """
    named, told = path.stem, None
    for entry in read_head(path):
        head = entry.head
        if head is None:
            continue
        told = told or head.context.session_id
        if isinstance(entry, Prompt | Reply):
            return (named if is_uuid(named) else told or named), head.sidechain and head.agent_id is not None
    return (named if is_uuid(named) else told or named), False


def first_cwd(path: Path) -> str | None:
    """Return the folder a session was started in."""
    try:
        heads = (entry.head for entry in read_head(path) if entry.head is not None)
        return next((head.context.cwd for head in heads if head.context.cwd is not None), None)
    except OSError:
        return None


def first_session_id(path: Path) -> str | None:
    """Return the session that a transcript's first line names: after some transitions it is the one before."""
    try:
        return next((entry.head.context.session_id for entry in read_head(path) if entry.head is not None), None)
    except OSError:
        return None
