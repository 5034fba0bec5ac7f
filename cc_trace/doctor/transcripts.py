"""What Claude Code has written: whether the hook ran for it, whether its lines are known, whether the clock fits."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from cc_trace.delivery import main_transcripts
from cc_trace.doctor.check import counted, failed, listed, moment, mtime, ok, warning
from cc_trace.doctor.registration import enabled_plugins, settings_files
from cc_trace.spans import Session
from cc_trace.transcript import first_cwd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.doctor.check import Check, Subject
    from cc_trace.spans import SessionSummary

_MAX_READ: Final = 20
_MAX_READ_BYTES: Final = 50_000_000
_MAX_MISSED: Final = 50  # transcripts searched for a turn without a hook
_LATE_SECONDS: Final = 300.0
_AHEAD_SECONDS: Final = 300.0


def transcripts(subject: Subject) -> Iterator[Check]:
    """Tell whether there are any."""
    found = list(main_transcripts(subject.config_dir))
    if found:
        yield ok("transcripts", f"{counted(len(found), 'session')} in {subject.config_dir}")
        return
    fix = (
        "run claude and send a prompt; if there are still none, claude uses another CLAUDE_CONFIG_DIR,"
        " or runs with --no-session-persistence, which leaves nothing to trace"
    )
    yield warning("transcripts", f"no transcripts in {subject.config_dir}", fix)


def last_run(subject: Subject) -> Iterator[Check]:
    """Report when the hook last ran, and whether Claude Code has finished turns since without it."""
    ran = _last_run(subject)
    missed = _missed(subject, ran)
    if missed:
        found = f"{counted(len(missed), 'session')} written since the hook last ran"
        when = f" at {moment(ran)}" if ran else ", and it never has"
        fix = "restart claude, which reads its settings at startup; `cc-trace sync` delivers these sessions"
        yield failed("last run", f"{found}{when}: {listed(path.stem for path in missed)}", fix)
    elif not ran:
        yield warning("last run", "the hook has never run", "run claude, send a prompt, then run `cc-trace doctor`")
    else:
        yield ok("last run", moment(ran))


def _last_run(subject: Subject) -> float:
    """Return when a hook's worker last ran, or a hook whose worker never came; 0 where never.

    All else in the state folder is also written by commands that users run.
    """
    states = subject.states
    return max(map(mtime, (states.folder / "hooked", *states.spool.folder.glob("*"))))


def _missed(subject: Subject, ran: float) -> list[Path]:
    """Return the sessions with a turn for which no hook ran. One that was just written to may still be in its turn."""
    since = max(ran + _LATE_SECONDS, mtime(subject.states.folder / "installed"))
    until = subject.now - _LATE_SECONDS
    if not (subject.states.folder / "installed").exists():
        return []  # nothing is installed, and all there is is history
    files = settings_files(subject)
    everywhere = any(file.hooks for file in files if file.scope != "project") or enabled_plugins(files)
    late = [path for path in main_transcripts(subject.config_dir) if since < mtime(path) < until]
    late.sort(key=mtime, reverse=True)
    return [
        path
        for path in late[:_MAX_MISSED]
        if not _known(path, subject)
        and (everywhere or first_cwd(path) == str(subject.project))
        and path.stat().st_size <= _MAX_READ_BYTES
        and _answered(path)
    ]


def _known(path: Path, subject: Subject) -> bool:
    if subject.states.is_suppressed(path.stem):
        return True
    state = subject.states.peek(path.stem)
    return state is not None and state.size == path.stat().st_size


def _answered(path: Path) -> bool:
    """Tell whether the last turn came to an end: there is no Stop for one that was interrupted."""
    turn = None
    for trace in Session(path).traces():
        turn = trace.turn
    return turn is not None and turn.last != "interrupt"


def line_types(subject: Subject) -> Iterator[Check]:
    """Check the newest transcripts for lines of unknown types and times in the future."""
    read = list(_newest(subject))
    if not read:
        return
    skipped: Counter[str] = sum((summary.skipped for summary in read), Counter())
    versions = list(dict.fromkeys(summary.version for summary in read if summary.version is not None))
    shown = f"{counted(len(read), 'session')} of Claude Code {listed(versions) or 'of an unknown version'}"
    unknown = {kind: count for kind, count in skipped.most_common() if kind.startswith("unknown type ")}
    if unknown:
        types = listed((f"{kind.removeprefix('unknown type ')} ({count})" for kind, count in unknown.items()), most=8)
        fix = "update cc-trace; until then only these lines are missing from traces"
        yield warning("line types", f"unknown in {shown}: {types}", fix)
    else:
        passed = [
            f"{kind} ({count})" for kind, count in skipped.most_common() if kind.startswith(("system/", "malformed"))
        ]
        yield ok("line types", f"all known in {shown}" + (f"; skipped: {listed(passed, most=8)}" if passed else ""))
    yield _clock(subject, read)


def _newest(subject: Subject) -> Iterator[SessionSummary]:
    """Yield what is in the newest transcripts, as many as can be read quickly."""
    left = _MAX_READ_BYTES
    for path in sorted(main_transcripts(subject.config_dir), key=mtime, reverse=True)[:_MAX_READ]:
        try:
            size = path.stat().st_size
            if size > left:
                continue
            left -= size
            session = Session(path)
            for _ in session.spans():
                pass
        except OSError:  # gone meanwhile, or not ours to read
            continue
        yield session.summary


def _clock(subject: Subject, read: list[SessionSummary]) -> Check:
    """Check that this machine's clock is not behind the transcripts: turns would seem to be in the future."""
    times = {
        "the newest line of a transcript": max((summary.last_ns or 0 for summary in read), default=0) / 1e9,
        "the newest transcript": max(map(mtime, main_transcripts(subject.config_dir)), default=0.0),
        "the installation": mtime(subject.states.folder / "installed"),
    }
    ahead = {what: time for what, time in times.items() if time > subject.now + _AHEAD_SECONDS}
    if ahead:
        what, time = max(ahead.items(), key=lambda item: item[1])
        found = f"it is {moment(subject.now)} here, but {what} is from {moment(time)}"
        return warning("clock", found, "set the clock, for example with `timedatectl set-ntp true`")
    return ok("clock", moment(subject.now))


CHECKS: Final = (transcripts, last_run, line_types)
