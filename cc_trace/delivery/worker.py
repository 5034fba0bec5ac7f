"""What a hook starts in the background: it takes the requests of all hooks, syncs their sessions, and sweeps."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from cc_trace.delivery.app import App
from cc_trace.delivery.payload import Payload, parse_payload
from cc_trace.delivery.requests import SyncRequest
from cc_trace.delivery.retention import clean_up, is_due
from cc_trace.delivery.sweep import MAX_SESSIONS, MAX_UNKNOWN, pending_sessions
from cc_trace.errors import CcTraceError
from cc_trace.files import read_regular

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cc_trace.delivery.sync import Sync

NO_CONTEXT = SyncRequest(b"", 0)  # a request of which only the payload is known


_SWEEP_EVERY_SECONDS = 60.0


_MAX_SPOOLED_BYTES = 16 << 20


_LEFT_SECONDS = 60.0


_PID_DIGITS = 10


_WORKER_SECONDS = 5.0  # a worker takes what its hook spooled within a tenth of a second


def run_worker(environment: Mapping[str, str], spooled: Path, deadline_seconds: float | None) -> int:
    """Work for a hook. Nobody reads what is printed: a wrong setting stands in the log, its word in the spool."""
    place = App.open(environment, hooked=True)
    place.states.stamp_installed()
    (place.states.folder / "hooked").touch(mode=0o600)
    pid = environment.get("CLAUDE_PID", "")
    try:
        project = environment.get("CLAUDE_PROJECT_DIR")
        kept = place.sources.remember()
        link = place.config(project, kept).link if place.off(project, kept) is None else None
        claude_pid = int(pid) if pid.isdecimal() and len(pid) < _PID_DIGITS else None
        workers = place.config(project, kept).workers if place.off(project, kept) is None else 1
        context = SyncRequest(b"", 0, claude_pid, link, project, kept)
        return _work(place, spooled, deadline_seconds, context, workers)
    except CcTraceError as error:
        place.log.write(f"nothing is delivered: {error}")
    except Exception as error:  # noqa: BLE001  (whatever it was, this is the only place that can tell)
        place.log.write(f"the worker ended: {type(error).__name__}: {error}")
    return 2


def _work(place: App, spooled: Path, deadline_seconds: float | None, context: SyncRequest, workers: int) -> int:
    """Be the worker that a hook started: nobody waits for it, nobody reads what it prints."""
    with contextlib.suppress(OSError, AttributeError):
        os.setsid()  # so that what is done to Claude Code's process group is not done to us
    for name in ("SIGHUP", "SIGINT"):
        with contextlib.suppress(AttributeError, ValueError):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    place.reached("started")
    sessions = take_spool(place, spooled, context)
    if deadline_seconds is not None:  # the hook waits for us: its own session, now
        deadline = time.time() + deadline_seconds
        with place.sync() as sync:
            for session_id in dict.fromkeys([*sessions, *place.states.pending()]):
                sync.wanted(session_id, deadline)
        return 0
    _take_turns(place, workers)
    return 0


def _take_turns(place: App, workers: int) -> None:
    """Serve all requests, as one of a few workers; where there are enough, they serve ours.

    No request is missed: it was left before a place was looked for, and whoever has one looks for requests again after
    giving it back. Who is killed with a place leaves its requests to the next worker.
    """
    while True:
        with place.states.worker_slot(workers) as held:
            if not held:
                return
            place.reached("slot taken")
            with place.sync() as sync:
                while before := place.states.pending():
                    for session_id in before:
                        sync.wanted(session_id)
                    if place.states.pending() == before:  # others are at work on those, and look again themselves
                        break
                if _sweep_is_due(place.states.folder / "swept"):
                    _sweep(place, sync)
                    _clean_up(place, sync)
        place.reached("slot given back")
        if all(place.states.is_locked(session_id) for session_id in place.states.pending()):
            return


def take_spool(place: App, spooled: Path | None, context: SyncRequest = NO_CONTEXT) -> list[str]:
    """Turn what hooks left in the spool into requests; also what earlier workers never took. Return the sessions.

    `context` is what our own hook's process knows. It goes with the request, for another worker may serve it.
    """
    sessions: list[str] = []
    for path in _spooled(place.states.spool, spooled):
        own = path.with_name(f".{path.name.lstrip('.')}.{os.getpid()}")
        try:
            path.rename(own)  # whoever renames it has it; a hook may use its name again at once
            hook_ns = own.stat().st_mtime_ns  # when the hook ran; renaming keeps it
        except OSError:
            continue  # another worker took it
        try:
            data = read_regular(own, _MAX_SPOOLED_BYTES, follow=False)
        except OSError as error:  # no hook of ours has left it
            data = b""
            place.log.write(f"{path.name}: {error.strerror}")
        payload = parse_payload(data, place.config_dir)
        if isinstance(payload, Payload):
            known = context if path == spooled else NO_CONTEXT
            place.states.post_request(payload.session_id, replace(known, payload=data, hook_ns=hook_ns))
            sessions.append(payload.session_id)
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


def _sweep(place: App, sync: Sync) -> None:
    """Deliver what was left behind, of a bounded number of sessions. One that cannot even be read does not count."""
    left, since_ns = MAX_SESSIONS, place.states.installed_ns or 0
    found = pending_sessions(place.states, place.config_dir, place.reachable, since_ns, max_unknown=MAX_UNKNOWN)
    for path in found:
        left -= "*" not in sync.session(path).pending
        for session_id in place.states.pending():  # who stops just now does not wait for what is old
            sync.wanted(session_id)
        if not left:
            break
    place.reached("swept")


def _clean_up(place: App, sync: Sync) -> None:
    """Remove what has expired, once a day. Whatever goes wrong with it, deliveries go on."""
    now = place.world.clock()
    try:
        if not is_due(place.states.folder / "cleaned", now):
            return
        for _ in clean_up(place.states, place.config_dir, place.config(None), now, place.log):
            for session_id in place.states.pending():  # as above
                sync.wanted(session_id)
    except (OSError, CcTraceError) as error:
        place.log.write(f"cleaning up: {error}")
    place.reached("cleaned")
