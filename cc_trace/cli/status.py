"""`cc-trace status`: what is delivered, pending and going on in each session, and how much disk space all takes."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from cc_trace.delivery import App, SessionState, has_ended, pending_sessions, transcripts_by_session
from cc_trace.errors import CcTraceError
from cc_trace.spans import Resume, Session
from cc_trace.store import read_titles, store_path
from cc_trace.text import rfc3339, shortened
from cc_trace.transcript import first_cwd
from cc_trace.turns import current_activity

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from cc_trace.delivery import Cursor, IndexRow, StateFolder

MAX_SHOWN = 20
_TITLE_CHARS: Final = 60
_SHOWN_SIZES: Final = {"state": "state_bytes", "ledger": "ledger_bytes", "local store": "store_bytes"}
_NEXT_UNIT: Final = 1000
_DATABASE_PART: Final = re.compile("-(wal|shm|journal)$")

SUPPRESSED = (
    "suppressed: used while tracing was off; turn tracing on again and run `cc-trace sync --session ID` to deliver it"
)


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Print the status of sessions, the latest first, then of those of which nothing was delivered.

    Without --all only a bounded number of the latest and of the pending ones, as reading 10,000 states takes long.
    """
    app = App.open(environment)
    index = app.states.index.rows()
    session_ids = _sessions_to_show(index, show_all=options.all)
    states = [state for id_ in session_ids if (state := app.states.peek(id_)) is not None]
    suppressed = app.states.all_suppressed()
    rows = [
        _row(
            state, SUPPRESSED if state.session_id in suppressed else _activity(app, state), _settings_error(app, state)
        )
        for state in states
    ]
    undelivered = _sessions_without_state(app, index)
    rows += undelivered if options.all else islice(undelivered, MAX_SHOWN)
    titles = read_titles(store_path(app.states.folder), [row["session_id"] for row in rows])
    for row in rows:
        row["title"] = titles.get(row["session_id"])
    if options.json:
        sys.stdout.buffer.write(orjson.dumps(rows, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        return 0
    for row in rows:
        _print(row)
    if hidden := index.keys() - session_ids:
        pending = sum(_is_pending(index[id_]) for id_ in hidden)
        print(f"and {len(hidden):,} more sessions, {pending:,} of them pending; `cc-trace status --all` shows them")
    if not rows and app.states.installed_ns is None:
        print("nothing has been delivered, as the hook is not installed; run `cc-trace install`")
    elif not rows:
        print("nothing has been delivered yet; `cc-trace doctor` checks whether the hook runs")
    disk = _disk_usage(app.states)
    sizes = [f"{name} {_size(disk[key])}" for name, key in _SHOWN_SIZES.items()]
    print(f"on disk: {', '.join(sizes)} (in {disk['folder']})")
    return 0


def _disk_usage(states: StateFolder) -> dict[str, Any]:
    """Return the sizes of our files. In the state folder itself only files count: other folders may not be ours."""
    sizes = {"state": sum(size for folder in states.folders for _, size in _files(folder)), "ledger": 0, "store": 0}
    for name, size in _files(states.folder):
        sizes[{"ledger.db": "ledger", "traces.db": "store"}.get(_DATABASE_PART.sub("", name), "state")] += size
    return {"folder": str(states.folder)} | {f"{kind}_bytes": size for kind, size in sizes.items()}


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the name and size of each file in a folder."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.is_file(follow_symlinks=False):
                    yield entry.name, entry.stat(follow_symlinks=False).st_size
            except OSError:  # removed meanwhile
                continue


def _size(count: int) -> str:
    """Format a number of bytes."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < _NEXT_UNIT:
            return f"{size:.0f} {unit}" if unit == "B" or size >= _NEXT_UNIT / 100 else f"{size:.1f} {unit}"
        size /= _NEXT_UNIT
    return f"{size:.1f} GB"


def _sessions_to_show(index: Mapping[str, IndexRow], *, show_all: bool) -> list[str]:
    """Return the sessions to show: all, or the latest ones and the latest pending ones."""
    ordered = sorted(index.values(), key=lambda row: row.mtime_ns, reverse=True)
    if show_all:
        return [row.session_id for row in ordered]
    pending = islice((row.session_id for row in ordered if _is_pending(row)), MAX_SHOWN)
    selected = {*pending, *(row.session_id for row in ordered[:MAX_SHOWN])}
    return [row.session_id for row in ordered if row.session_id in selected]


def _is_pending(row: IndexRow) -> bool:
    return bool(row.pending) or not row.valid


def _sessions_without_state(app: App, index: Mapping[str, IndexRow]) -> Iterator[dict[str, Any]]:
    """Yield the sessions of which nothing was delivered: suppressed, new, or with a wrong setting."""
    for path in _undelivered(app, index):
        try:
            reason = app.why_off(first_cwd(path))
        except CcTraceError as error:
            reason = str(error)
        activity = f"nothing delivered: {reason}" if reason else "nothing delivered yet"
        yield _row(SessionState(path.stem, str(path)), activity)
    for session_id in app.states.all_suppressed():
        if session_id not in index:
            yield _row(SessionState(session_id, ""), SUPPRESSED)


def _undelivered(app: App, index: Mapping[str, IndexRow]) -> Iterator[Path]:
    """Yield the transcripts written since the installation that have no state."""
    since_ns = app.states.installed_ns
    if since_ns is None:
        return iter(())
    return pending_sessions(
        app.states,
        app.config_dir,
        app.destination_names,
        since_ns,
        include_misconfigured=True,
        transcripts=transcripts_by_session(app.config_dir, app.states.streams, skip=index),
        rows=index,
    )


def _settings_error(app: App, state: SessionState) -> str | None:
    """Return the error in a session's settings: nothing is delivered until it is fixed. None: they are fine."""
    try:
        app.why_off(state.cwd, state.environment)
    except CcTraceError as error:
        return str(error)
    return None


def _row(state: SessionState, activity: str, error: str | None = None) -> dict[str, Any]:
    return {
        "session_id": state.session_id,
        "transcript": state.transcript or None,
        "activity": activity,
        "suppressed": activity == SUPPRESSED,
        "left_out": activity == SUPPRESSED,  # an earlier name for it, kept for scripts
        "error": error,
        "destinations": {name: _destination(cursor) for name, cursor in state.destinations.items()},
    }


def _destination(cursor: Cursor) -> dict[str, Any]:
    return {
        "delivered": cursor.delivered,
        "pending": cursor.pending_spans,
        "unfinished": cursor.unfinished_spans,
        "turns": cursor.turns_before,
        "error": cursor.error,
        "error_at": _time(cursor.error_at),
        "not_before": _time(cursor.not_before),
        "refused": cursor.notes,
        "time": _time(cursor.last_attempt_at),
    }


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else rfc3339(int(seconds * 1e9))


def _activity(app: App, state: SessionState) -> str:
    """Return what the session is doing, reading only from its oldest undelivered turn on."""
    path = Path(state.transcript)
    furthest = max(state.destinations.values(), key=lambda cursor: cursor.offset, default=None)
    resume = Resume() if furthest is None else Resume(furthest.position, furthest.turns_before)
    try:
        session = Session(path, resume)
        turn = None
        for trace in session.traces():
            turn = trace.turn
        rest_seconds = time.time() - path.stat().st_mtime
    except OSError:
        return "transcript gone"
    if has_ended(path, state, app.config_dir):
        return "idle"
    return current_activity(
        turn, prompted=session.has_prompt_after(turn), summarized=session.summarized, rest_seconds=rest_seconds
    )


def _print(row: dict[str, Any]) -> None:
    title = " ".join((row["title"] or "").split())
    title_suffix = "" if title in ("", row["session_id"]) else f"  {shortened(title, _TITLE_CHARS)}"
    print(f"{row['session_id']}  {row['activity']}{title_suffix}")
    if row["error"]:
        print(f"  pending: {row['error']}")
    for name, cursor in row["destinations"].items():
        parts = [f"{cursor['delivered']} delivered"]
        if cursor["pending"]:
            parts.append(f"{cursor['pending']} pending")
        if cursor["unfinished"]:
            parts.append(f"{cursor['unfinished']} unfinished")
        if cursor["time"]:
            parts.append(f"last attempt {_local(cursor['time'])}")
        print(f"  {name}: {', '.join(parts)}")
        if cursor["error"]:
            at = f" ({_local(cursor['error_at'])})" if cursor["error_at"] else ""
            print(f"    {cursor['error']}{at}")
        for note in cursor["refused"]:
            subject = note.get("span_id") or f"{note.get('spans')} spans"
            print(f"    refused: {subject}: {note.get('status')} {note.get('message')}")


def _local(time: str) -> str:
    """Return a time of a row as the user's clock shows it."""
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
