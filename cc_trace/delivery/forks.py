"""Whether a session holds what another one wrote while tracing was off: a fork copies the turns of its origin.

Claude Code does not always say where a copy comes from: then the ids tell that lines and responses keep. What a session
that is suppressed has only copied itself does not count: its origin may be traced, and other forks of it.
"""

from __future__ import annotations

import contextlib
from itertools import chain
from typing import TYPE_CHECKING

from cc_trace.transcript import Reply, parse, read_head, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cc_trace.delivery.state import States
    from cc_trace.transcript import Entry, Line, OpenTranscript


def suppressed_by(transcript: OpenTranscript, states: States, *, new: bool) -> str | None:
    """Return the session that this one is suppressed by: itself, or one whose turns it copied; None if it is not.

    Such an origin is looked for while the session is new.
    """
    if states.is_suppressed(transcript.session_id):
        return transcript.session_id
    return copied_from(transcript, states.all_suppressed()) if new else None


def copied_from(transcript: OpenTranscript, suppressed: Mapping[str, int]) -> str | None:
    """Return which of the suppressed sessions, each with the time when that was noted, this one has turns of."""
    if not suppressed:
        return None
    with contextlib.suppress(OSError):
        beginning = list(transcript.entries())
        times = [entry.head.time_ns for entry in beginning if entry.head is not None and entry.head.time_ns is not None]
        named = {entry.head.context.forked_from for entry in beginning if entry.head is not None}
        ids = _ids(beginning)
        changed_ns = transcript.stat().st_mtime_ns
        for other, noted_ns in suppressed.items():
            if not times or not min(times) < noted_ns < changed_ns:
                continue  # it began later and holds nothing older, or was at rest before, and is the origin
            if other in named or _has_lines_of(transcript, ids, transcript.path.with_name(f"{other}.jsonl")):
                return other
    return None


def _has_lines_of(transcript: OpenTranscript, ids: set[str], other: Path) -> bool:
    """Tell whether a session that begins with these ids has any line that the other one wrote itself."""
    try:
        if ids.isdisjoint(_ids(read_head(other))):
            return False
        return not _ids(_parsed(transcript.lines())).isdisjoint(_ids(_written(other)))
    except OSError:  # it is gone
        return False


def _written(path: Path) -> Iterable[Entry]:
    """Yield what a session wrote itself. A copy begins with a line of its own, and what it copied is older."""
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
    """Return the ids of lines and responses; some versions give copied lines new ones."""
    found: set[str | None] = set()
    for entry in entries:
        found.add(entry.head.uuid if entry.head is not None else None)
        if isinstance(entry, Reply):
            found.add(entry.message_id)
    return {each for each in found if each is not None}
