"""`cc-trace sync`: deliver now, in the foreground; also what the hook starts in the background."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from cc_trace.cli.interrupts import heard_in
from cc_trace.cli.workplace import Workplace, here
from cc_trace.errors import CcTraceError, NotFoundError
from cc_trace.history import a_session
from cc_trace.orders import NOBODY, Caller
from cc_trace.payload import Payload, parse_payload
from cc_trace.sweep import MAX_SESSIONS, left_behind
from cc_trace.transcript import find

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from cc_trace.cli.interrupts import Wish
    from cc_trace.orders import Report
    from cc_trace.sync import Sync

_SWEEP_EVERY_SECONDS = 60.0
_MAX_SPOOLED_BYTES = 16 << 20
_LEFT_SECONDS = 60.0
_PID_DIGITS = 10
_WORKER_SECONDS = 5.0  # a worker takes what its hook spooled within a tenth of a second


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Deliver what the options name; print a line per session. Exit 1 if anything stayed behind."""
    if options.spooled is not None:
        return _hooked(options, environment)
    place = Workplace.open(environment)
    named = options.session or options.transcript
    wish: Wish = SimpleNamespace(value=False)
    place.world.interrupted = lambda: wish.value
    reports: list[Report] = []
    with place.sync() as sync, heard_in(wish):
        for report in _one(place, sync, named) if named is not None else _left(place, sync):
            _print(report)
            reports.append(report)
            if wish.value:
                break
    if wish.value:
        return 130
    if not reports:
        place.config()  # no session has said what is wrong with the settings
        print("nothing is left behind")
    if any(report.behind for report in reports):
        print("`cc-trace doctor` finds out why, and says what to do; nothing is lost", file=sys.stderr)
    left_out = named is not None and any(report.off for report in reports)
    return 0 if all(report.complete for report in reports) and not left_out else 1


def _one(place: Workplace, sync: Sync, named: str) -> Iterator[Report]:
    """Deliver the session that a user names."""
    path = a_session(find(named, place.config_dir, here()))
    yield sync.session(path, caller=Caller(named=True))


def _left(place: Workplace, sync: Sync) -> Iterator[Report]:
    """Deliver what was left behind since the installation."""
    for session_id in [*_take_spool(place, None), *place.states.pending()]:
        sync.wanted(session_id)  # none, once it is interrupted
    if (since_ns := place.states.installed_ns) is None:
        message = "nothing is ours to deliver yet: run `cc-trace install`; `cc-trace backfill` delivers history"
        raise NotFoundError(message)
    for path in left_behind(place.states, place.config_dir, place.destination_names, since_ns, wrong=True):
        if place.world.interrupted():
            return
        yield sync.session(path)


def _hooked(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Work for a hook. Nobody reads what is printed: a wrong setting stands in the log, its word in the spool."""
    place = Workplace.open(environment, hooked=True)
    place.states.stamp_installed()
    (place.states.folder / "hooked").touch(mode=0o600)
    pid = environment.get("CLAUDE_PID", "")
    try:
        project = environment.get("CLAUDE_PROJECT_DIR")
        anchor = place.config(project).anchor if place.off(project) is None else None
        claude_pid = int(pid) if pid.isdecimal() and len(pid) < _PID_DIGITS else None
        caller = Caller(claude_pid, anchor, project=project)
        return _work(place, Path(options.spooled), options.deadline, caller)
    except CcTraceError as error:
        place.log.write(f"nothing is delivered: {error}")
    except Exception as error:  # noqa: BLE001  (whatever it was, this is the only place that can tell)
        place.log.write(f"the worker ended: {type(error).__name__}: {error}")
    return 2


def _print(report: Report) -> None:
    if report.busy:
        print(f"{report.session_id}: another process is delivering it")
        return
    if report.off is not None:
        print(f"{report.session_id}: left out: {report.off}")
    if "*" in report.behind:
        print(f"{report.session_id}: behind: {report.behind['*']}")
    for name in dict.fromkeys([*report.sent, *report.behind]):
        if name == "*":
            continue
        sent = report.sent.get(name, 0)
        why = f"; behind: {report.behind[name]}" if name in report.behind else ""
        print(f"{report.session_id}: {sent} span{'' if sent == 1 else 's'} to {name}{why}")


def _work(place: Workplace, spooled: Path, deadline_seconds: float | None, caller: Caller) -> int:
    """Be the worker that a hook started: nobody waits for it, nobody reads what it prints."""
    with contextlib.suppress(OSError, AttributeError):
        os.setsid()  # so that what is done to Claude Code's process group is not done to us
    for name in ("SIGHUP", "SIGINT"):
        with contextlib.suppress(AttributeError, ValueError):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    deadline = None if deadline_seconds is None else time.time() + deadline_seconds
    place.reached("started")
    sessions = _take_spool(place, spooled)
    with place.sync() as sync:
        for session_id in dict.fromkeys([*sessions, *place.states.pending()]):
            sync.wanted(session_id, deadline, caller if sessions.get(session_id) else NOBODY)
        if deadline is None and _sweep_is_due(place.states.folder / "swept"):
            _sweep(place, sync)
    return 0


def _take_spool(place: Workplace, spooled: Path | None) -> dict[str, bool]:
    """Turn what hooks left in the spool into word for their sessions; also what earlier workers never took.

    Return the sessions, and whether it was our own hook that named it.
    """
    sessions: dict[str, bool] = {}
    for path in _spooled(place.states.spool, spooled):
        own = path.with_name(f".{path.name.lstrip('.')}.{os.getpid()}")
        try:
            path.rename(own)  # whoever renames it has it; a hook may use its name again at once
            told_ns = own.stat().st_mtime_ns  # when the hook ran; renaming keeps it
            with own.open("rb") as file:
                data = file.read(_MAX_SPOOLED_BYTES)
        except OSError:
            continue  # another worker took it
        payload = parse_payload(data, place.config_dir)
        if isinstance(payload, Payload):
            place.states.want(payload.session_id, data, told_ns)
            sessions[payload.session_id] = sessions.get(payload.session_id, False) or path == spooled
        else:
            place.log.write(f"{path.name}: {payload}")
        with contextlib.suppress(OSError):
            own.unlink()
    place.reached("spool taken")
    return sessions


def _spooled(spool: Path, own: Path | None) -> list[Path]:
    """Return what waits in the spool for us: our own, and what has waited so long that its own worker must be dead.

    What another hook spooled just now is for its own worker, which has that session's environment.
    """
    left = [*spool.glob("*.tmp"), *spool.glob(".*")]
    waiting = sorted(path for path in spool.glob("*.json") if path == own or _age_seconds(path) > _WORKER_SECONDS)
    return [*waiting, *(path for path in left if _age_seconds(path) > _LEFT_SECONDS)]


def _age_seconds(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _sweep_is_due(stamp: Path) -> bool:
    """Tell whether the last look around was long enough ago, and note this one."""
    if stamp.exists() and 0 <= _age_seconds(stamp) < _SWEEP_EVERY_SECONDS:
        return False
    stamp.touch(mode=0o600)
    return True


def _sweep(place: Workplace, sync: Sync) -> None:
    """Deliver what was left behind, of a bounded number of sessions. One that cannot even be read does not count."""
    states, left = place.states, MAX_SESSIONS
    for path in left_behind(states, place.config_dir, place.destination_names, states.installed_ns or 0):
        left -= "*" not in sync.session(path).behind
        if not left:
            break
    place.reached("swept")
