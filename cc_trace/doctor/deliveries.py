"""What has not been delivered, per destination, and why; whether a sync hangs."""

from __future__ import annotations

import shlex
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cc_trace.delivery import AgentListing
from cc_trace.doctor.check import failed, listed, moment, mtime, ok, warning
from cc_trace.errors import ConfigError
from cc_trace.paths import is_session_id
from cc_trace.settings import read_config
from cc_trace.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cc_trace.delivery import Cursor, SessionState
    from cc_trace.doctor.check import Check
    from cc_trace.doctor.subject import Subject

_DAY: Final = 86_400.0
_RECENT_SECONDS: Final = 7 * _DAY  # older refusals are mentioned, and no reason to worry
_LONG_SECONDS: Final = 300.0  # for a sync


class _Delivery(NamedTuple):
    """The delivery of a session to one destination."""

    state: SessionState
    cursor: Cursor
    unread_since: float | None  # when lines were written that no sync has read

    @property
    def is_late(self) -> bool:
        cursor = self.cursor
        return bool(cursor.pending_spans or cursor.error or cursor.intent or cursor.unclear)

    def is_unfinished_since(self, time: float) -> bool:
        return bool(self.cursor.unfinished_spans) and 0 < mtime(Path(self.state.transcript)) < time


def deliveries(subject: Subject) -> Iterator[Check]:
    """Report what is pending, refused or unfinished, for every destination of every project."""
    listing = AgentListing(subject.states, remember=False)
    by_destination: defaultdict[str, list[_Delivery]] = defaultdict(list)
    for state in filter(None, map(subject.states.peek, subject.states.sessions())):
        unread_since = _unread_since(state, listing)
        for name, cursor in state.destinations.items():
            by_destination[name].append(_Delivery(state, cursor, unread_since))
    configured = _destinations(subject)
    for name in sorted(by_destination, key=lambda name: (name not in configured, name)):
        yield _check(name, by_destination[name], subject)


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


def _destinations(subject: Subject, state: SessionState | None = None) -> list[str]:
    """Return the names of this project's destinations, or of a session's; none if its settings are wrong."""
    try:
        if state is None:
            config = subject.config()
        else:
            settings = subject.sources.settings(None if state.cwd is None else Path(state.cwd), state.environment)
            config = read_config(settings, subject.states.folder, subject.sources.home)
    except (ConfigError, ValueError):  # a path can have a NUL in it
        return []
    return [destination.name for destination in config.destinations]


def _check(name: str, sessions: Sequence[_Delivery], subject: Subject) -> Check:
    """Check the deliveries to one destination, and report what matters most."""
    title, yesterday = f"delivery {name}", subject.now - _DAY
    late = [delivery for delivery in sessions if delivery.is_late]
    if pending := [delivery for delivery in late if Path(delivery.state.transcript).is_file()]:
        return _pending(name, pending, subject)
    refusals = [note for delivery in sessions for note in delivery.cursor.notes]
    if recent := [note for note in refusals if _time(note) > subject.now - _RECENT_SECONDS]:
        reasons = [(f"{n.get('status', '')} {n.get('message', '')}".strip(), _spans([n]), _time(n)) for n in recent]
        finding = f"{plural(_spans(recent), 'span')} refused for good: {_reasons('span', reasons)}"
        return warning(title, finding, "nothing, if you do not need them; `cc-trace status` shows which ones")
    if unfinished := sum(delivery.is_unfinished_since(yesterday) for delivery in sessions):
        return warning(title, f"{plural(unfinished, 'session')} unfinished for more than a day", "cc-trace sync")
    unread = [delivery.unread_since for delivery in sessions if delivery.unread_since is not None]
    if old := sum(since < yesterday for since in unread):
        finding = f"{plural(old, 'session')} with lines more than a day old that no sync has read"
        return warning(title, finding, "cc-trace sync")
    spans = sum(delivery.cursor.delivered for delivery in sessions)
    parts = [f"{plural(len(sessions), 'session')}, {plural(spans, 'span')}"]
    if late:
        parts.append(f"{plural(len(late), 'session')} cannot be completed: the transcript is gone")
    if refusals:
        parts.append(f"{plural(_spans(refusals), 'span')} refused more than a week ago")
    if unread:
        parts.append(f"{plural(len(unread), 'session')} with new lines, which the next sync reads")
    return ok(title, "; ".join(parts) if unread else f"{'; '.join(parts)}, nothing pending")


def _pending(name: str, pending: Sequence[_Delivery], subject: Subject) -> Check:
    """Return that sessions are pending. Whether `sync` can help depends on the settings of their projects."""
    title, states = f"delivery {name}", [delivery.state for delivery in pending]
    reasons = [
        (cursor.error or "the last attempt got no response", 1, cursor.error_at or cursor.last_attempt_at or 0.0)
        for cursor in (delivery.cursor for delivery in pending)
    ]
    finding = f"{plural(len(pending), 'session')} pending: {_reasons('session', reasons)}"
    for state in {(state.cwd, repr(state.environment)): state for state in states}.values():
        if name in _destinations(subject, state):
            configured_here = name in _destinations(subject)
            hint = f"see `destination {name}`" if configured_here else f"run `cc-trace doctor` in {state.cwd}"
            return failed(title, finding, f"run `cc-trace sync`; if that does not help, {hint}")
    folders = listed(dict.fromkeys(state.cwd for state in states if state.cwd is not None)) or "their projects"
    fix = f"nothing, if you no longer use {name}; otherwise run `cc-trace sync` where it is configured"
    return warning(title, f"{finding}. As configured here, {name} is not a destination of {folders}", fix)


def _reasons(noun: str, reasons: Iterable[tuple[str, int, float]]) -> str:
    """Return the most common reasons, each with its count and when it was last seen."""
    counts: defaultdict[str, int] = defaultdict(int)
    times: defaultdict[str, float] = defaultdict(float)
    for reason, count, time in reasons:
        counts[reason] += count
        times[reason] = max(times[reason], time)
    common = sorted(counts, key=counts.__getitem__, reverse=True)
    return listed(f"{reason} ({plural(counts[reason], noun)}, last at {moment(times[reason])})" for reason in common)


def _spans(notes: Iterable[dict[str, Any]]) -> int:
    return sum(count if isinstance(count := note.get("spans", 1), int) else 1 for note in notes)


def _time(note: dict[str, Any]) -> float:
    time = note.get("time")
    return float(time) if isinstance(time, int | float) else 0.0


def locks(subject: Subject) -> Iterator[Check]:
    """Check that no process holds a session's lock for long: a worker that hangs blocks all others."""
    for path in (subject.states.folder / "locks").glob("*.lock"):
        since = mtime(path)  # whoever takes a lock updates its file's time
        old = since < subject.now - _LONG_SECONDS
        if old and is_session_id(path.stem) and subject.states.is_locked(path.stem):
            finding = f"session {path.stem} has been locked by a process since {moment(since)}; nobody else can sync it"
            yield warning(
                "locks", finding, f"find the process with `lsof {shlex.quote(str(path))}`; if it hangs, end it"
            )
