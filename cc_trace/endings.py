"""How a session stands: whether more will be written to its transcript, as far as that can be told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cc_trace.agent_files import scan
from cc_trace.liveness import Process, liveness

if TYPE_CHECKING:
    from pathlib import Path

    from cc_trace.liveness import Liveness
    from cc_trace.payload import Payload
    from cc_trace.progress import SessionState
    from cc_trace.sessions import Ending

_QUIET_SECONDS: Final = 2.0


def told_by(payload: Payload, alive: Liveness) -> Ending:
    """Tell what a hook says of a session whose file is at rest, and whose process is `alive` in that way.

    A Stop alone does not end a turn: another Stop hook may make the model go on, and Claude Code is at work until the
    last of them has ended. A version that does not say so is believed, unless the transcript tells otherwise.
    """
    if payload.event == "SessionEnd":
        return "over"
    if payload.busy or alive == "working":
        return "growing"
    if payload.busy is None:
        return "stopped"
    return "over" if alive in ("idle", "gone") else "settled"


def seen_in(transcript: Path, state: SessionState, now: float, rest_seconds: float, config_dir: Path) -> Ending:
    """Tell how a session stands that nobody told us about: by its process, and where nothing is known of that by rest.

    A process that lives is never taken to be done because it is quiet: it may wait for the user, or for a tool. While
    a foreground agent works only its own file is written to. A process that has ended tells only of the time since
    its hook ran: a session that has grown since may have been resumed by another.
    """
    status = transcript.stat()
    written = [status.st_mtime, *(file.written_ns / 1e9 for file in scan(transcript))]
    rest = now - max(written)
    known = None if state.claude_pid is None else Process(state.claude_pid, state.claude_start)
    if known is not None and status.st_size != state.size and not known.is_alive:
        known = None
    match liveness(config_dir, transcript.stem, known):
        case "gone":
            return "over"
        case "working":
            return "growing"
        case "idle" if rest >= _QUIET_SECONDS:  # the end of a turn is written a moment later
            return "stopped"
        case "unknown" if rest >= rest_seconds:
            return "over"
    return "quiet" if rest >= _QUIET_SECONDS else "growing"
