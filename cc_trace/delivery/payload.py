"""The JSON that Claude Code passes to a hook on stdin. It is untrusted: no path outside Claude Code's folder counts."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from cc_trace.paths import is_session_id
from cc_trace.transcript import read_damaged


class Payload(NamedTuple):
    """What is used of a hook's JSON."""

    event: str
    transcript: Path
    last_message: str | None = None
    has_background_tasks: bool | None = None  # whether background tasks are running; None: this version does not say

    @property
    def session_id(self) -> str:
        """Return the session's id: its file's name."""
        return self.transcript.stem


def parse_payload(data: bytes, config_dir: Path) -> Payload | str:
    """Parse a hook's JSON; return why there is nothing to do if it cannot be used."""
    match _read(data):
        case None:
            return "payload is not JSON"
        case {"transcript_path": str(path), **rest}:
            transcript = _inside(path, config_dir)
            if transcript is None:
                return "transcript_path leads outside Claude Code's folder"
            event, message = rest.get("hook_event_name"), rest.get("last_assistant_message")
            return Payload(
                event=event if isinstance(event, str) else "",
                transcript=transcript,
                last_message=message if isinstance(message, str) and message else None,
                has_background_tasks=_has_running(rest.get("background_tasks")),
            )
        case _:
            return "payload has no transcript_path"


def _read(data: bytes) -> Any:  # noqa: ANN401  (raw JSON)
    """Parse JSON; None if it is none.

    A last message with half a surrogate pair is not strict JSON. It is left out: the transcript may write it otherwise.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        values = read_damaged(data)
    raw = values[0] if values else None
    return {**raw, "last_assistant_message": None} if isinstance(raw, dict) else raw


def _inside(text: str, config_dir: Path) -> Path | None:
    """Return a transcript's real path if it is where Claude Code keeps transcripts."""
    try:
        path = Path(text).expanduser()
        real = path.resolve()
        roots = [(config_dir / name).resolve() for name in ("projects", "sessions")]
        with contextlib.suppress(FileNotFoundError):  # it may not exist yet
            real.stat()
    except (OSError, RuntimeError, ValueError):  # no such user, a loop of links, too long, a NUL
        return None
    if path.suffix != ".jsonl" or not is_session_id(real.stem):
        return None
    return real if any(real.is_relative_to(root) for root in roots) else None


def _has_running(tasks: Any) -> bool | None:  # noqa: ANN401  (raw JSON)
    return any(_running(task) for task in tasks) if isinstance(tasks, list) else None


def _running(task: Any) -> bool:  # noqa: ANN401  (raw JSON)
    return isinstance(task, dict) and task.get("status") in ("running", "pending")
