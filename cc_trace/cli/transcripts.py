"""Finding the session that a user names: by its transcript, by the output of its run, or in the local store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cc_trace.errors import NotFoundError
from cc_trace.paths import PREFIX_CHARS, ambiguous, current_folder, find, is_session_id
from cc_trace.spans import Session

if TYPE_CHECKING:
    from pathlib import Path

    from cc_trace.store import StoredSession

_STORE: Final = "traces.db"  # in the state folder; importing the store for its name would take long


def find_session(target: str | None, config_dir: Path, state: Path) -> Session | StoredSession:
    """Find a session: from its transcript, or from the local store when that is gone. Raises NotFoundError."""
    try:
        return Session(find_transcript(target, config_dir, state), look_ahead=True, requests=True)
    except NotFoundError:
        session_id = find_in_store(target, state) if target is not None else None
        if session_id is None:
            raise
    from cc_trace.store import StoredSession, read_session  # noqa: PLC0415  (most transcripts are there)

    return StoredSession(session_id, list(read_session(state / _STORE, session_id)))


def find_transcript(target: str | None, config_dir: Path, state: Path) -> Path:
    """Find a session's transcript: Claude Code's own, else the one that was made from a run's output.

    Raises NotFoundError, which names the alternative if only the local store has the session, or has more of it.
    """
    try:
        path = find(target, config_dir, current_folder(), state / "streams")
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
    from cc_trace.store import read_from  # noqa: PLC0415  (most transcripts are there)

    return read_from(state / _STORE, stream.stem) not in (None, str(stream))


def find_in_store(target: str, state: Path) -> str | None:
    """Return the id of the stored session with this id or prefix; None if there is none.

    Raises AmbiguousError if several begin so, StateError if the store cannot be read.
    """
    path = state / _STORE
    if not is_session_id(target) or not path.is_file():
        return None
    from cc_trace.store import find_stored  # noqa: PLC0415  (most transcripts are there)

    matches = find_stored(path, target)
    if target in matches:
        return target
    if len(target) < PREFIX_CHARS or not matches:
        return None
    if len(matches) > 1:
        raise ambiguous(target, matches)
    return matches[0]
