"""What has not been delivered, per destination, and why."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cc_trace.checks import counted, failed, listed, moment, mtime, ok, warning
from cc_trace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cc_trace.checks import Check, Subject
    from cc_trace.progress import Progress, SessionState

_RECENT_SECONDS: Final = 7 * 86_400.0  # older refusals are mentioned, and no reason to worry
_LONG_SECONDS: Final = 86_400.0
_STATUS: Final = "`cc-trace status` shows which"


def deliveries(subject: Subject) -> Iterator[Check]:
    """Tell for each destination in use what is behind, what was refused, and what never ended."""
    states = [state for id_ in subject.states.sessions() if (state := subject.states.peek(id_)) is not None]
    known = dict.fromkeys(name for state in states for name in state.destinations)
    try:
        names = [settings.name for settings in subject.config().destinations]
    except ConfigError:
        names = list(known)
    for name in names:
        if name in known:
            sessions = [(state, state.destinations[name]) for state in states if name in state.destinations]
            yield _delivery(name, sessions, subject)


def _delivery(name: str, sessions: Sequence[tuple[SessionState, Progress]], subject: Subject) -> Check:
    title = f"delivery {name}"
    late = [(state, progress) for state, progress in sessions if progress.behind or progress.error or progress.intent]
    behind = [(state, progress) for state, progress in late if Path(state.transcript).is_file()]
    notes = [note for _, progress in sessions for note in progress.notes]
    recent = [note for note in notes if _time(note) > subject.now - _RECENT_SECONDS]
    unfinished = [state for state, progress in sessions if _left_unfinished(state, progress, subject.now)]
    said = f"{counted(len(sessions), 'session')}, {counted(sum(each.delivered for _, each in sessions), 'span')}"
    if behind:
        found = f"{counted(len(behind), 'session')} behind: {_reasons([progress for _, progress in behind])}"
        return failed(title, found, f"`cc-trace sync` sends what is behind; if it stays, see `destination {name}`")
    if recent:
        found = f"{counted(_spans(recent), 'span')} refused for good: {_refusals(recent)}"
        return warning(title, found, f"nothing, if you can do without them; {_STATUS}")
    if unfinished:
        found = f"{counted(len(unfinished), 'session')} unfinished for more than a day"
        return warning(title, found, "cc-trace sync")
    if len(late) > len(behind):
        said += f"; {counted(len(late) - len(behind), 'session')} cannot be completed: the transcript is gone"
    if notes:
        said += f"; {counted(_spans(notes), 'span')} refused more than a week ago"
    return ok(title, f"{said}, nothing behind")


def _left_unfinished(state: SessionState, progress: Progress, now: float) -> bool:
    return bool(progress.unfinished) and 0 < mtime(Path(state.transcript)) < now - _LONG_SECONDS


def _reasons(behind: Sequence[Progress]) -> str:
    """Return the most common errors, each with when it was last seen."""
    seen: dict[str, list[float]] = {}
    for progress in behind:
        error = progress.error or "nobody saw the answer to the last attempt"
        seen.setdefault(error, []).append(progress.error_at or progress.time or 0.0)
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


def left_out(subject: Subject) -> Iterator[Check]:
    """Tell how many sessions were written to while tracing was off."""
    folder = subject.states.folder / "off"
    if folder.is_dir():
        count = sum(1 for _ in folder.iterdir())
        yield ok("sessions left out", f"{count}, written to while tracing was off" if count else "none")


CHECKS: Final = (deliveries, left_out)
