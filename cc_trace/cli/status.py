"""`cc-trace status`: per session and destination what is delivered, what is behind and why; and what goes on now."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from cc_trace.activity import activity
from cc_trace.cli.rows import rfc3339
from cc_trace.cli.workplace import Workplace
from cc_trace.sessions import Resume, Session

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from cc_trace.progress import Progress, SessionState


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Print the status of all sessions there is a state of, the last changed first."""
    place = Workplace.open(environment)
    states = [state for id_ in place.states.sessions() if (state := place.states.peek(id_)) is not None]
    states.sort(key=lambda state: state.mtime_ns, reverse=True)
    rows = [_row(state) for state in states]
    if options.json:
        sys.stdout.buffer.write(orjson.dumps(rows, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    elif not rows:
        print(f"no session has been delivered yet (state folder {place.states.folder})")
    else:
        for row in rows:
            _print(row)
    return 0


def _row(state: SessionState) -> dict[str, Any]:
    return {
        "session_id": state.session_id,
        "transcript": state.transcript,
        "activity": _activity(state),
        "destinations": {name: _destination(progress) for name, progress in state.destinations.items()},
    }


def _destination(progress: Progress) -> dict[str, Any]:
    return {
        "delivered": progress.delivered,
        "behind": progress.behind,
        "unfinished": progress.unfinished,
        "turns": progress.turns,
        "error": progress.error,
        "error_at": _time(progress.error_at),
        "not_before": _time(progress.not_before),
        "refused": progress.notes,
        "time": _time(progress.time),
    }


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else rfc3339(int(seconds * 1e9))


def _activity(state: SessionState) -> str:
    """Say what the session does, reading only from its oldest undelivered turn on."""
    path = Path(state.transcript)
    furthest = max(state.destinations.values(), key=lambda progress: progress.offset, default=None)
    resume = Resume() if furthest is None else Resume(furthest.position, furthest.turns)
    try:
        session = Session(path, resume)
        turn = None
        for trace in session.traces():
            turn = trace.turn
        rest_seconds = time.time() - path.stat().st_mtime
    except OSError:
        return "transcript gone"
    return activity(turn, asked=session.asked_after(turn), summarized=session.summarized, rest_seconds=rest_seconds)


def _print(row: dict[str, Any]) -> None:
    print(f"{row['session_id']}  {row['activity']}")
    for name, progress in row["destinations"].items():
        parts = [f"{progress['delivered']} delivered"]
        if progress["behind"]:
            parts.append(f"{progress['behind']} behind")
        if progress["unfinished"]:
            parts.append(f"{progress['unfinished']} unfinished")
        if progress["time"]:
            parts.append(f"at {progress['time']}")
        print(f"  {name}: {', '.join(parts)}")
        if progress["error"]:
            print(f"    {progress['error']} ({progress['error_at']})")
        for note in progress["refused"]:
            what = note.get("span_id") or f"{note.get('spans')} spans"
            print(f"    refused: {what}: {note.get('status')} {note.get('message')}")
