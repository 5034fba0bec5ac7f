"""What Claude Code has written: whether the hook ran for it, its lines are known, and the clock agrees with it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from cc_trace.delivery import main_transcripts
from cc_trace.doctor.check import failed, listed, moment, mtime, ok, warning
from cc_trace.spans import Session
from cc_trace.text import plural
from cc_trace.transcript import first_cwd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.doctor.check import Check
    from cc_trace.doctor.subject import Subject
    from cc_trace.spans import SessionSummary

_UNKNOWN: Final = "unknown type "  # as `transcript` counts them
_MAX_READ: Final = 20
_MAX_READ_BYTES: Final = 50_000_000
_MAX_SEARCHED: Final = 50  # transcripts searched for a turn without a hook
_LATE_SECONDS: Final = 300.0
_AHEAD_SECONDS: Final = 300.0


def transcripts(subject: Subject) -> Iterator[Check]:
    """Check that there are transcripts."""
    count = sum(1 for _ in main_transcripts(subject.config_dir))
    if count:
        yield ok("transcripts", f"{plural(count, 'session')} in {subject.config_dir}")
        return
    fix = (
        "run claude and send a prompt; if there are still none, claude uses another CLAUDE_CONFIG_DIR,"
        " or runs with --no-session-persistence, which leaves nothing to trace"
    )
    yield warning("transcripts", f"no transcripts in {subject.config_dir}", fix)


def last_run(subject: Subject) -> Iterator[Check]:
    """Report when the hook last ran, and whether Claude Code has finished turns since without it."""
    ran_at = _last_run(subject)
    sessions = _missed_sessions(subject, ran_at)
    if sessions:
        since = (
            f"since the hook last ran, at {moment(ran_at)}" if ran_at else "by Claude Code, but the hook has never run"
        )
        finding = f"{plural(len(sessions), 'session')} written {since}: "
        fix = "restart claude, which reads its settings at startup; `cc-trace sync` delivers these sessions"
        yield failed("last run", finding + listed(path.stem for path in sessions), fix)
    elif not ran_at:
        yield warning(
            "last run", "the hook has never run", "run claude and send a prompt, then run `cc-trace doctor` again"
        )
    else:
        yield ok("last run", moment(ran_at))


def _last_run(subject: Subject) -> float:
    """Return when a hook's worker last ran, or a hook whose worker never started; 0 if none has.

    Commands that users run write to everything else in the state folder, too.
    """
    states = subject.states
    return max(map(mtime, (states.folder / "hooked", *states.spool.folder.glob("*"))))


def _missed_sessions(subject: Subject, ran_at: float) -> list[Path]:
    """Return the sessions with a turn for which no hook ran. One that was just written to may still be in its turn."""
    installed = mtime(subject.states.folder / "installed")
    if not installed:
        return []  # all sessions are from before the installation
    since = max(ran_at + _LATE_SECONDS, installed)
    until = subject.now - _LATE_SECONDS
    everywhere = any(file.hooks for file in subject.files if file.scope != "project") or subject.plugins
    late = [path for path in main_transcripts(subject.config_dir) if since < mtime(path) < until]
    return [
        path
        for path in sorted(late, key=mtime, reverse=True)[:_MAX_SEARCHED]
        if not _is_known(path, subject)
        and (everywhere or first_cwd(path) == str(subject.project))
        and path.stat().st_size <= _MAX_READ_BYTES
        and _has_answer(path)
    ]


def _is_known(path: Path, subject: Subject) -> bool:
    if subject.states.is_suppressed(path.stem):
        return True
    state = subject.states.peek(path.stem)
    return state is not None and state.size == path.stat().st_size


def _has_answer(path: Path) -> bool:
    """Tell whether the last turn ended by itself: Stop hooks do not run for one that was interrupted."""
    turn = None
    for trace in Session(path).traces():
        turn = trace.turn
    return turn is not None and turn.last_activity != "interrupt"


def line_types(subject: Subject) -> Iterator[Check]:
    """Check the newest transcripts for lines of unknown types."""
    summaries = list(_newest(subject))
    if not summaries:
        return
    skipped = sum((summary.skipped for summary in summaries), Counter[str]())
    versions = list(dict.fromkeys(summary.version for summary in summaries if summary.version is not None))
    source = f"{plural(len(summaries), 'session')} of Claude Code {listed(versions) or 'of an unknown version'}"
    unknown = [f"{kind.removeprefix(_UNKNOWN)} ({n})" for kind, n in skipped.most_common() if kind.startswith(_UNKNOWN)]
    if unknown:
        fix = "update cc-trace; until then only these lines are missing from traces"
        yield warning("line types", f"unknown in {source}: {listed(unknown, limit=8)}", fix)
        return
    skipped_by_design = [
        f"{kind} ({n})" for kind, n in skipped.most_common() if kind.startswith(("system/", "malformed"))
    ]
    yield ok(
        "line types",
        f"all known in {source}" + (f"; skipped: {listed(skipped_by_design, limit=8)}" if skipped_by_design else ""),
    )


def _newest(subject: Subject) -> Iterator[SessionSummary]:
    """Yield the summaries of the newest transcripts, as many as can be read quickly."""
    remaining = _MAX_READ_BYTES
    for path in sorted(main_transcripts(subject.config_dir), key=mtime, reverse=True)[:_MAX_READ]:
        try:
            size = path.stat().st_size
            if size > remaining:
                continue
            remaining -= size
            session = Session(path)
            for _ in session.spans():
                pass
        except OSError:  # gone meanwhile, or not ours to read
            continue
        yield session.summary


def clock(subject: Subject) -> Iterator[Check]:
    """Check that this machine's clock is not behind what was written: turns would seem to be in the future."""
    transcript = max(map(mtime, main_transcripts(subject.config_dir)), default=0.0)
    installation = mtime(subject.states.folder / "installed")
    newest_at, source = max((transcript, "the newest transcript"), (installation, "the installation"))
    if newest_at > subject.now + _AHEAD_SECONDS:
        finding = f"it is {moment(subject.now)} here, but {source} is from {moment(newest_at)}"
        yield warning("clock", finding, "set the clock, for example with `timedatectl set-ntp true`")
