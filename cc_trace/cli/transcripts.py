"""Which session a user means: one with a transcript of Claude Code's, one known from its output, or a stored one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cc_trace.errors import NotFoundError
from cc_trace.paths import find, here, is_session_id

if TYPE_CHECKING:
    from pathlib import Path


def find_transcript(target: str | None, config_dir: Path, state: Path) -> Path:
    """Find a session's transcript: Claude Code's own, else the one that was made of a run's output.

    Raises NotFoundError, which says what to use instead where only the local store has the session, or more of it.
    """
    try:
        path = find(target, config_dir, here(), state / "streams")
        if path.parent != state / "streams" or not _stored_from_another(path, state):
            return path
        session_id: str | None = path.stem
    except NotFoundError:
        if target is None or (session_id := find_in_store(target, state)) is None:
            raise
    message = f"the transcript of session {session_id} is gone; `cc-trace show {session_id}` prints what was stored"
    raise NotFoundError(message)


def _stored_from_another(stream: Path, state: Path) -> bool:
    """Tell whether the local store has a session from Claude Code's own transcript, which is gone by now."""
    from cc_trace.store import read_from, store_path  # noqa: PLC0415  (most transcripts are there)

    return read_from(store_path(state), stream.stem) not in (None, str(stream))


def find_in_store(target: str, state: Path) -> str | None:
    """Return the id of the session in the local store that a user typed, or the beginning of; None if there is none."""
    path = state / "traces.db"
    if not is_session_id(target) or not path.is_file():
        return None
    from cc_trace.store import find_stored  # noqa: PLC0415  (most transcripts are there)

    found = find_stored(path, target)
    return target if target in found else found[0] if len(found) == 1 else None
