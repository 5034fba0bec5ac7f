"""Whether a session is a fork of one that was written to while tracing was off: a fork copies its origin's turns.

Claude Code does not always say where copied lines come from. Then they are recognised by the ids of lines and
responses, which a copy keeps. Turns that the suppressed session has only copied itself do not count: its origin may
be traced.
"""

from __future__ import annotations

import contextlib
from itertools import chain
from typing import TYPE_CHECKING

from cc_trace.transcript import Reply, parse, read_head, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cc_trace.delivery.state import StateFolder
    from cc_trace.transcript import Entry, Line, OpenTranscript


def suppressed_by(transcript: OpenTranscript, states: StateFolder, *, new: bool) -> str | None:
    """Return the session that suppresses this one: itself, or one that it copied turns from; None if it is traced.

    Origins are only looked for while the session is `new`.
    """
    if states.is_suppressed(transcript.session_id):
        return transcript.session_id
    return copied_from(transcript, states.all_suppressed()) if new else None


def copied_from(transcript: OpenTranscript, suppressed: Mapping[str, int]) -> str | None:
    """Return the first of the suppressed sessions (id -> when it was noted) that this one has copied turns from."""
    if not suppressed:
        return None
    with contextlib.suppress(OSError):
        entries = list(transcript.entries())
        times = [entry.head.time_ns for entry in entries if entry.head is not None and entry.head.time_ns is not None]
        forked_from = {entry.head.context.forked_from for entry in entries if entry.head is not None}
        ids = _ids(entries)
        changed_ns = transcript.stat().st_mtime_ns
        for other, noted_ns in suppressed.items():
            if not times or not min(times) < noted_ns < changed_ns:
                continue  # this session has no line older than that, or is the origin itself
            if other in forked_from or _has_lines_of(transcript, ids, transcript.path.with_name(f"{other}.jsonl")):
                return other
    return None


def _has_lines_of(transcript: OpenTranscript, ids: set[str], other: Path) -> bool:
    """Return whether these ids include any line that the other session wrote itself."""
    try:
        if ids.isdisjoint(_ids(read_head(other))):
            return False
        return not _ids(_parsed(transcript.lines())).isdisjoint(_ids(_own_lines(other)))
    except OSError:  # it is gone
        return False


def _own_lines(path: Path) -> Iterable[Entry]:
    """Yield the lines that a session wrote itself: a fork's first line is its own, and copied lines are older."""
    since_ns: int | None = None
    for entry in _parsed(read_lines(path, torn=True)):
        if entry.head is None or entry.head.time_ns is None:
            continue
        since_ns = entry.head.time_ns if since_ns is None else since_ns
        if entry.head.time_ns >= since_ns:
            yield entry


def _parsed(lines: Iterable[Line]) -> Iterable[Entry]:
    return chain.from_iterable(map(parse, lines))


def _ids(entries: Iterable[Entry]) -> set[str]:
    """Return the ids of lines and responses. Both, since some versions give copied lines new ids."""
    ids: set[str | None] = set()
    for entry in entries:
        ids.add(entry.head.uuid if entry.head is not None else None)
        if isinstance(entry, Reply):
            ids.add(entry.message_id)
    return {id_ for id_ in ids if id_ is not None}
