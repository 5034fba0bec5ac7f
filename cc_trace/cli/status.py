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
from cc_trace.errors import CcTraceError
from cc_trace.openings import first_cwd
from cc_trace.progress import SessionState
from cc_trace.sessions import Resume, Session
from cc_trace.sweep import left_behind

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from cc_trace.progress import Progress


LEFT_OUT = "left out: written to while it was off or excluded; when it is not, `cc-trace sync --session ID` sends it"


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Print the status of all sessions there is a state of, the last changed first; then of those without one."""
    place = Workplace.open(environment)
    states = [state for id_ in place.states.sessions() if (state := place.states.peek(id_)) is not None]
    states.sort(key=lambda state: state.mtime_ns, reverse=True)
    left_out = place.states.all_left_out()
    rows = [_row(state, LEFT_OUT if state.session_id in left_out else _activity(state)) for state in states]
    rows += _others(place, {state.session_id for state in states})
    if options.json:
        sys.stdout.buffer.write(orjson.dumps(rows, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    elif not rows:
        print(f"no session has been delivered yet (state folder {place.states.folder})")
    else:
        for row in rows:
            _print(row)
    return 0


def _others(place: Workplace, known: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the sessions of which nothing was delivered: left out, not yet, or because of a wrong setting."""
    for path in _undelivered(place):
        if path.stem in known:
            continue
        try:
            why = place.off(first_cwd(path))
        except CcTraceError as error:
            why = str(error)
        said = f"nothing delivered: {why}" if why else "nothing delivered yet"
        yield _row(SessionState(path.stem, str(path)), said)
    for session_id in place.states.all_left_out():
        if session_id not in known:
            yield _row(SessionState(session_id, ""), LEFT_OUT)


def _undelivered(place: Workplace) -> list[Path]:
    since_ns = place.states.installed_ns
    if since_ns is None:
        return []
    return left_behind(place.states, place.config_dir, place.destination_names, since_ns, wrong=True)


def _row(state: SessionState, said: str) -> dict[str, Any]:
    return {
        "session_id": state.session_id,
        "transcript": state.transcript or None,
        "activity": said,
        "left_out": said == LEFT_OUT,
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
