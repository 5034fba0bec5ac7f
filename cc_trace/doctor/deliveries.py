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
    """What is known of a session's delivery to one destination."""

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
    here = _destinations(subject)
    for name in sorted(by_destination, key=lambda name: (name not in here, name)):
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
    return [each.name for each in config.destinations]


def _check(name: str, sessions: Sequence[_Delivery], subject: Subject) -> Check:
    """Check the deliveries to one destination, and report what matters most."""
    title, yesterday = f"delivery {name}", subject.now - _DAY
    late = [each for each in sessions if each.is_late]
    if pending := [each for each in late if Path(each.state.transcript).is_file()]:
        return _pending(name, pending, subject)
    refused = [note for each in sessions for note in each.cursor.notes]
    if recent := [note for note in refused if _time(note) > subject.now - _RECENT_SECONDS]:
        said = [(f"{n.get('status', '')} {n.get('message', '')}".strip(), _spans([n]), _time(n)) for n in recent]
        found = f"{plural(_spans(recent), 'span')} refused for good: {_reasons('span', said)}"
        return warning(title, found, "nothing, if you do not need them; `cc-trace status` shows which ones")
    if unfinished := sum(each.is_unfinished_since(yesterday) for each in sessions):
        return warning(title, f"{plural(unfinished, 'session')} unfinished for more than a day", "cc-trace sync")
    unread = [each.unread_since for each in sessions if each.unread_since is not None]
    if old := sum(since < yesterday for since in unread):
        found = f"{plural(old, 'session')} with lines more than a day old that no sync has read"
        return warning(title, found, "cc-trace sync")
    parts = [f"{plural(len(sessions), 'session')}, {plural(sum(each.cursor.delivered for each in sessions), 'span')}"]
    if late:
        parts.append(f"{plural(len(late), 'session')} cannot be completed: the transcript is gone")
    if refused:
        parts.append(f"{plural(_spans(refused), 'span')} refused more than a week ago")
    if unread:
        parts.append(f"{plural(len(unread), 'session')} with new lines, which the next sync reads")
    return ok(title, "; ".join(parts) if unread else f"{'; '.join(parts)}, nothing pending")


def _pending(name: str, pending: Sequence[_Delivery], subject: Subject) -> Check:
    """Return that sessions are pending. Whether `sync` can help depends on the settings of their projects."""
    title, states = f"delivery {name}", [each.state for each in pending]
    said = [
        (cursor.error or "the last attempt got no response", 1, cursor.error_at or cursor.last_attempt_at or 0.0)
        for cursor in (each.cursor for each in pending)
    ]
    found = f"{plural(len(pending), 'session')} pending: {_reasons('session', said)}"
    for state in {(state.cwd, repr(state.environment)): state for state in states}.values():
        if name in _destinations(subject, state):
            here = name in _destinations(subject)
            look = f"see `destination {name}`" if here else f"run `cc-trace doctor` in {state.cwd}"
            return failed(title, found, f"run `cc-trace sync`; if that does not help, {look}")
    where = listed(dict.fromkeys(state.cwd for state in states if state.cwd is not None)) or "their projects"
    fix = f"nothing, if you no longer use {name}; otherwise run `cc-trace sync` where it is configured"
    return warning(title, f"{found}. As configured here, {name} is not a destination of {where}", fix)


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
            found = f"session {path.stem} has been locked by a process since {moment(since)}; nobody else can sync it"
            yield warning("locks", found, f"find the process with `lsof {shlex.quote(str(path))}`; if it hangs, end it")
