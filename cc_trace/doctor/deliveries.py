"""What has not been delivered, per destination, and why."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cc_trace.delivery import AgentListing
from cc_trace.doctor.check import counted, failed, listed, moment, mtime, ok, warning
from cc_trace.errors import ConfigError
from cc_trace.settings import read_config

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cc_trace.delivery import Cursor, SessionState
    from cc_trace.doctor.check import Check, Subject

_RECENT_SECONDS: Final = 7 * 86_400.0  # older refusals are mentioned, and no reason to worry
_LONG_SECONDS: Final = 86_400.0
_STATUS: Final = "`cc-trace status` shows which"


def deliveries(subject: Subject) -> Iterator[Check]:
    """Report what is pending, refused or unfinished, for every destination of every project."""
    states = [state for id_ in subject.states.sessions() if (state := subject.states.peek(id_)) is not None]
    known = dict.fromkeys(name for state in states for name in state.destinations)
    here = _destinations(subject, None)
    listing = AgentListing(subject.states, remember=False)
    unread = {state.session_id: since for state in states if (since := _unread_since(state, listing)) is not None}
    for name in sorted(known, key=lambda name: (name not in here, name)):
        sessions = [(state, state.destinations[name]) for state in states if name in state.destinations]
        yield _delivery(name, sessions, unread, subject)


def _destinations(subject: Subject, state: SessionState | None) -> list[str]:
    """Return the names of a session's destinations, of the project at hand if none is given; none if they are wrong."""
    try:
        if state is None:
            return [settings.name for settings in subject.config().destinations]
        settings = subject.sources.settings(None if state.cwd is None else Path(state.cwd), state.environment)
        config = read_config(settings, subject.states.folder, subject.sources.home)
    except (ConfigError, ValueError):  # a path can have a NUL in it
        return []
    return [each.name for each in config.destinations]


def _unread_since(state: SessionState, listing: AgentListing) -> float | None:
    """Return when a session's files were last written to, if there are lines in them that no sync has read."""
    path = Path(state.transcript)
    try:
        status, files = path.stat(), listing.files(path)
    except (OSError, ValueError):  # gone: there is nothing to read
        return None
    if status.st_size == state.size and sum(file.size for file in files) == state.agent_bytes:
        return None
    return max(status.st_mtime, *(file.written_ns / 1e9 for file in files), 0.0)


def _delivery(
    name: str, sessions: Sequence[tuple[SessionState, Cursor]], unread: Mapping[str, float], subject: Subject
) -> Check:
    title = f"delivery {name}"
    late = [(state, cursor) for state, cursor in sessions if _is_late(cursor)]
    pending_spans = [(state, cursor) for state, cursor in late if Path(state.transcript).is_file()]
    notes = [note for _, cursor in sessions for note in cursor.notes]
    recent = [note for note in notes if _time(note) > subject.now - _RECENT_SECONDS]
    unfinished = [state for state, cursor in sessions if _left_unfinished(state, cursor, subject.now)]
    said = f"{counted(len(sessions), 'session')}, {counted(sum(each.delivered for _, each in sessions), 'span')}"
    if pending_spans:
        found = f"{counted(len(pending_spans), 'session')} pending: {_reasons([cursor for _, cursor in pending_spans])}"
        return _pending(name, found, [state for state, _ in pending_spans], subject)
    if recent:
        found = f"{counted(_spans(recent), 'span')} refused for good: {_refusals(recent)}"
        return warning(title, found, f"nothing, if you can do without them; {_STATUS}")
    if unfinished:
        found = f"{counted(len(unfinished), 'session')} unfinished for more than a day"
        return warning(title, found, "cc-trace sync")
    new = [unread[state.session_id] for state, _ in sessions if state.session_id in unread]
    if old := [since for since in new if since < subject.now - _LONG_SECONDS]:
        found = f"{counted(len(old), 'session')} with lines more than a day old that no sync has read"
        return warning(title, found, "cc-trace sync")
    if len(late) > len(pending_spans):
        said += f"; {counted(len(late) - len(pending_spans), 'session')} cannot be completed: the transcript is gone"
    if notes:
        said += f"; {counted(_spans(notes), 'span')} refused more than a week ago"
    if new:
        return ok(title, f"{said}; {counted(len(new), 'session')} with new lines, which the next sync reads")
    return ok(title, f"{said}, nothing pending")


def _pending(name: str, found: str, states: Sequence[SessionState], subject: Subject) -> Check:
    """Return that sessions are pending. Whether `sync` can help depends on the settings of their projects."""
    title, here = f"delivery {name}", name in _destinations(subject, None)
    for state in {(state.cwd, repr(state.environment)): state for state in states}.values():
        if name in _destinations(subject, state):
            look = f"see `destination {name}`" if here else f"run `cc-trace doctor` in {state.cwd}"
            return failed(title, found, f"run `cc-trace sync`; if that does not help, {look}")
    where = listed(dict.fromkeys(state.cwd for state in states if state.cwd is not None)) or "their projects"
    fix = f"nothing, if you no longer use {name}; otherwise run `cc-trace sync` where it is configured"
    return warning(title, f"{found}. As configured here, {name} is not a destination of {where}", fix)


def _is_late(cursor: Cursor) -> bool:
    return bool(cursor.pending_spans or cursor.error or cursor.intent or cursor.unclear)


def _left_unfinished(state: SessionState, cursor: Cursor, now: float) -> bool:
    return bool(cursor.unfinished) and 0 < mtime(Path(state.transcript)) < now - _LONG_SECONDS


def _reasons(pending_spans: Sequence[Cursor]) -> str:
    """Return the most common errors, each with when it was last seen."""
    seen: dict[str, list[float]] = {}
    for cursor in pending_spans:
        error = cursor.error or "the last attempt got no response"
        seen.setdefault(error, []).append(cursor.error_at or cursor.time or 0.0)
    common = sorted(seen.items(), key=lambda item: -len(item[1]))
    return listed(
        f"{error} ({counted(len(times), 'session')}, last at {moment(max(times))})" for error, times in common
    )


def _refusals(notes: Sequence[dict[str, Any]]) -> str:
    counts: Counter[str] = Counter()
    for note in notes:
        counts[f"{note.get('status', '')} {note.get('message', '')}".strip()] += _spans([note])
    newest = max(map(_time, notes))
    return f"{listed(f'{why} ({count})' for why, count in counts.most_common())}, last at {moment(newest)}"


def _spans(notes: Sequence[dict[str, Any]]) -> int:
    return sum(count if isinstance(count := note.get("spans", 1), int) else 1 for note in notes)


def _time(note: dict[str, Any]) -> float:
    time = note.get("time")
    return float(time) if isinstance(time, int | float) else 0.0


def suppressed(subject: Subject) -> Iterator[Check]:
    """Report how many sessions were written to while tracing was off."""
    folder = subject.states.folder / "off"
    if folder.is_dir():
        count = sum(1 for _ in folder.iterdir())
        yield ok("suppressed sessions", f"{count}, written to while tracing was off" if count else "none")


CHECKS: Final = (deliveries, suppressed)
