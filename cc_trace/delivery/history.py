"""All sessions of this machine, and what of them a destination does not have."""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cc_trace.delivery.sweep import is_main_transcript, main_transcripts
from cc_trace.errors import CcTraceError, NotFoundError
from cc_trace.paths import is_there

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cc_trace.delivery.cursor import Cursor
    from cc_trace.delivery.ledger import Ledger
    from cc_trace.spans import Session

_UNITS: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class TranscriptFile(NamedTuple):
    """One session's file on disk."""

    path: Path
    size: int
    changed: float  # unix seconds
    others: tuple[Path, ...] = ()  # files in other folders that are named after the same session, and older


def past_sessions(
    paths: Sequence[str], config_dir: Path, since: float, streams: Path | None = None
) -> list[TranscriptFile]:
    """Return the sessions at these paths, or all, that were written to since then; the oldest first.

    The oldest first, because turns that a fork copied belong to the session that had them first. `streams`: a folder of
    transcripts that were made from the output of runs, for sessions that have no other.
    """
    files: dict[str, TranscriptFile] = {}
    for path in _transcripts_at(paths) if paths else main_transcripts(config_dir, streams):
        try:
            status = path.stat()
        except OSError:
            continue
        previous = files.get(path.stem)
        if previous is not None and path.parent == streams:
            continue
        if status.st_mtime < since or (previous is not None and path in (previous.path, *previous.others)):
            continue
        file = TranscriptFile(path, status.st_size, status.st_mtime)
        if previous is not None:
            newer, older = (previous, file) if previous.changed >= file.changed else (file, previous)
            file = newer._replace(others=(*previous.others, older.path))
        files[path.stem] = file
    return sorted(files.values(), key=lambda file: file.changed)


def _transcripts_at(paths: Sequence[str]) -> Iterable[Path]:
    for name in paths:
        path = Path(name)
        with contextlib.suppress(RuntimeError):  # there is no such user
            path = path.expanduser()
        if is_there(Path.is_file, path):
            yield main_transcript(path)
        elif is_there(Path.is_dir, path):
            yield from sorted(filter(is_main_transcript, path.rglob("*.jsonl")))
        else:
            message = f"no transcript or folder at {path}"
            raise NotFoundError(message)


def main_transcript(path: Path) -> Path:
    """Return a path that a user named if it is a session's main transcript. Raises NotFoundError."""
    if not is_main_transcript(path):
        message = f"{path} is not a session transcript: its file name is not a session id"
        raise NotFoundError(message)
    return path


def since_seconds(text: str | None, now: float) -> float:
    """Convert an age such as `7d`, or a date, to unix seconds. Raises CcTraceError."""
    if text is None:
        return 0.0
    if match := re.fullmatch(r"(\d{1,9})([mhdw])", text):
        return now - int(match[1]) * _UNITS[match[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        message = f"--since is {text!r}; it must be an age such as 30d, 12h or 2w, or a date such as 2026-10-01"
        raise CcTraceError(message) from None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def count_unsent(
    session: Session, cursor: Cursor | None, ledger: Ledger | None, destination: str, counted: set[str]
) -> tuple[int, int]:
    """Count the turns and spans of a session that would be sent to a destination now and were not counted before."""
    settled = set() if cursor is None else {*cursor.accepted, *cursor.rejected}
    turns = spans = 0
    for trace in session.traces():
        unsent = {span.span_id for span in trace.spans if span.final} - settled
        if ledger is not None:
            unsent -= ledger.delivered(destination, unsent)
        unsent -= counted
        counted |= unsent
        turns += trace.spans[0].span_id in unsent
        spans += len(unsent)
    return turns, spans
