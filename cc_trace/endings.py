"""How a session stands: whether more will be written to its transcript, as far as that can be told."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from cc_trace.transcript import agent_paths

if TYPE_CHECKING:
    from pathlib import Path

    from cc_trace.payload import Payload
    from cc_trace.progress import SessionState
    from cc_trace.sessions import Ending

_QUIET_SECONDS: Final = 2.0


def told_by(payload: Payload) -> Ending:
    """Tell what a hook says of a session whose file is at rest."""
    if payload.event == "SessionEnd" or payload.busy is False:
        return "over"
    return "stopped" if payload.busy is None else "growing"


def seen_in(transcript: Path, state: SessionState, now: float, rest_seconds: float) -> Ending:
    """Tell how a session stands that nobody told us about: by its time at rest, and whether its process is gone.

    While a foreground agent works only its own file is written to. A process id tells only of the time since its
    hook ran: a session that has grown since may have been resumed by another process.
    """
    status = transcript.stat()
    written = [status.st_mtime]
    for path in agent_paths(transcript):
        with contextlib.suppress(OSError):
            written.append(path.stat().st_mtime)
    rest = now - max(written)
    alive = state.claude_pid is not None and is_alive(state.claude_pid)
    same = status.st_size == state.size
    if same and state.claude_pid is not None and not alive:
        return "over"
    if rest >= rest_seconds and not (same and alive):
        return "over"
    return "quiet" if rest >= _QUIET_SECONDS else "growing"


def is_alive(pid: int) -> bool:
    """Tell whether a process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is there, and not ours
        return True
    return True
