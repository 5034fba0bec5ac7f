"""`cc-trace sync`: deliver now, in the foreground; also what the hook starts in the background."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cc_trace.cli.workplace import Workplace
from cc_trace.payload import Payload, parse_payload
from cc_trace.sweep import left_behind
from cc_trace.transcript import find

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from cc_trace.sync import Report, Sync

_SWEEP_EVERY_SECONDS = 60.0
_MAX_SPOOLED_BYTES = 16 << 20
_LEFT_SECONDS = 60.0


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Deliver what the options name; print a line per session. Exit 1 if anything stayed behind."""
    place = Workplace.open(environment, patient=options.spooled is not None)
    if not place.config.enabled:
        return 0
    if options.spooled is not None:
        pid = environment.get("CLAUDE_PID", "")
        return _work(place, Path(options.spooled), options.deadline, int(pid) if pid.isdecimal() else None)
    with place.sync() as sync:
        reports = [sync.session(path) for path in _targets(place, options)]
    for report in reports:
        _print(report)
    return 0 if all(report.complete for report in reports) else 1


def _targets(place: Workplace, options: argparse.Namespace) -> list[Path]:
    config_dir = place.config.config_dir
    if options.session is not None or options.transcript is not None:
        return [find(options.session or options.transcript, config_dir, Path.cwd())]
    since_ns = 0 if options.all else place.states.installed_ns
    return left_behind(place.states, config_dir, place.destination_names, since_ns, None)


def _print(report: Report) -> None:
    if report.busy:
        print(f"{report.session_id}: another process is delivering it")
        return
    for name in report.sent | report.behind:
        sent = report.sent.get(name, 0)
        why = f"; behind: {report.behind[name]}" if name in report.behind else ""
        print(f"{report.session_id}: {sent} span{'' if sent == 1 else 's'} to {name}{why}")


def _work(place: Workplace, spooled: Path, deadline_seconds: float | None, claude_pid: int | None) -> int:
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
            sync.wanted(session_id, deadline, claude_pid if sessions.get(session_id) else None)
        if deadline is None and _sweep_is_due(place.states.folder / "swept"):
            _sweep(place, sync)
    return 0


def _take_spool(place: Workplace, spooled: Path) -> dict[str, bool]:
    """Turn what hooks left in the spool into word for their sessions; also what earlier workers never took.

    Return the sessions, and whether it was our own hook that named it.
    """
    sessions: dict[str, bool] = {}
    for path in _spooled(place.states.spool):
        own = path.with_name(f".{path.name.lstrip('.')}.{os.getpid()}")
        try:
            path.rename(own)  # whoever renames it has it; a hook may use its name again at once
            with own.open("rb") as file:
                data = file.read(_MAX_SPOOLED_BYTES)
        except OSError:
            continue  # another worker took it
        payload = parse_payload(data, place.config.config_dir)
        if isinstance(payload, Payload):
            place.states.want(payload.session_id, data)
            sessions[payload.session_id] = sessions.get(payload.session_id, False) or path == spooled
        else:
            place.log.write(f"{path.name}: {payload}")
        with contextlib.suppress(OSError):
            own.unlink()
    place.reached("spool taken")
    return sessions


def _spooled(spool: Path) -> list[Path]:
    """Return what waits in the spool: also what a killed hook or worker left under another name a while ago."""
    left = [*spool.glob("*.tmp"), *spool.glob(".*")]
    return [*sorted(spool.glob("*.json")), *(path for path in left if _age_seconds(path) > _LEFT_SECONDS)]


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
    states, names = place.states, place.destination_names
    for path in left_behind(states, place.config.config_dir, names, states.installed_ns):
        sync.session(path)
    place.reached("swept")
