"""The background process that a hook starts: it handles the requests of all hooks, then sweeps and cleans up."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from cc_trace.delivery.app import App
from cc_trace.delivery.process import Process
from cc_trace.delivery.retention import clean_up, is_due
from cc_trace.delivery.store_updates import update_store
from cc_trace.delivery.sweep import MAX_SESSIONS, MAX_UNKNOWN, pending_sessions
from cc_trace.delivery.sync_requests import NO_CONTEXT, HookContext, SyncRequest
from cc_trace.errors import CcTraceError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cc_trace.delivery.sync import Sync

_SWEEP_EVERY_SECONDS = 60.0
_PID_DIGITS = 10


def run_worker(environment: Mapping[str, str], spooled: Path, deadline_seconds: float | None) -> int:
    """Run the worker of one hook. Nobody sees its output: errors are logged, and the payload stays in the spool."""
    app = App.open(environment, from_hook=True)
    app.states.stamp_installed()
    (app.states.folder / "hooked").touch(mode=0o600)
    deadline = None if deadline_seconds is None else time.time() + deadline_seconds
    try:
        _detach()
        app.mark_step("started")
        _work(app, spooled, deadline, _context(app, environment))
    except CcTraceError as error:
        app.log.write(f"nothing is delivered: {error}")
    except Exception as error:  # noqa: BLE001  (the log is the only place where anybody will see it)
        app.log.write(f"the worker ended: {type(error).__name__}: {error}")
    else:
        return 0
    return 2


def _detach() -> None:
    """Detach from the terminal: signals to Claude Code's process group must not reach us."""
    with contextlib.suppress(OSError, AttributeError):
        os.setsid()
    for name in ("SIGHUP", "SIGINT"):
        with contextlib.suppress(AttributeError, ValueError):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def _context(app: App, environment: Mapping[str, str]) -> HookContext:
    """Return what only this process knows of its hook; its trace link is still missing."""
    pid = environment.get("CLAUDE_PID", "")
    number = int(pid) if pid.isdecimal() and len(pid) < _PID_DIGITS else 0
    process = Process.running(number) if number else None
    project = environment.get("CLAUDE_PROJECT_DIR")
    return HookContext(process=process, project=project, environment=app.sources.hook_environment())


def _work(app: App, spooled: Path, deadline: float | None, context: HookContext) -> None:
    """Post the payloads as requests, and handle all requests: at once if the hook waits, until `deadline`.

    With a wrong setting only our own are handled. Nothing is sent then, but their sessions keep the environment with
    the wrong value: other workers must not send them by other settings. Raises ConfigError in the end.
    """
    workers = 1
    try:
        if app.why_off(context.project, context.environment) is None:
            config = app.config(context.project, context.environment)
            context, workers = context._replace(link=config.link), config.workers
    except ConfigError:
        _handle_requests(app, take_spool(app, spooled, context), deadline)
        raise
    sessions = take_spool(app, spooled, context)
    if deadline is not None:  # our own session first, without a slot
        _handle_requests(app, [*sessions, *app.states.spool.pending(), *app.states.abandoned()], deadline)
    else:
        _handle_requests_in_slot(app, workers)


def _handle_requests(app: App, sessions: Sequence[str], deadline: float | None) -> None:
    with app.sync() as sync:
        for session_id in dict.fromkeys(sessions):
            sync.handle_requests(session_id, deadline)


def _handle_requests_in_slot(app: App, workers: int) -> None:
    """Handle all requests as one of at most `workers` processes; without a free slot, leave ours to the others.

    No request is missed: ours was posted before we looked for a slot, and a worker checks for requests once more after
    releasing its slot. The requests of a worker that is killed are left to the next one.
    """
    while True:
        with app.states.worker_slot(workers) as acquired:
            if not acquired:
                return
            app.mark_step("slot taken")
            with app.sync() as sync:
                while pending := app.states.spool.pending():
                    for session_id in pending:
                        sync.handle_requests(session_id)
                    if app.states.spool.pending() == pending:  # others are at work on those, and look again themselves
                        break
                for session_id in app.states.abandoned():
                    sync.handle_requests(session_id)
                if _sweep_is_due(app.states.folder / "swept"):
                    _sweep(app, sync)
                    update_store(app, lambda: bool(app.states.spool.pending()))
                    _clean_up(app, sync)
        app.mark_step("slot given back")
        if all(app.states.is_locked(session_id) for session_id in app.states.spool.pending()):
            return


def take_spool(app: App, spooled: Path | None, context: HookContext = NO_CONTEXT) -> list[str]:
    """Post a request for each payload in the spool, including those of workers that died; return their sessions.

    `context` belongs to the payload `spooled`. It is stored with the request, which any worker may handle.
    """
    sessions: list[str] = []
    for name, request in app.states.spool.take_payloads(spooled, context, app.config_dir):
        if isinstance(request, SyncRequest):
            app.states.spool.post_request(request)
            sessions.append(request.session_id)
            app.mark_step("request left")
        else:
            app.log.write(f"{name}: {request}")
    app.mark_step("spool taken")
    return sessions


def _sweep_is_due(stamp: Path) -> bool:
    """Return whether the last sweep was long enough ago; if so, note that another one begins."""
    with contextlib.suppress(FileNotFoundError):
        if 0 <= time.time() - stamp.stat().st_mtime < _SWEEP_EVERY_SECONDS:
            return False
    stamp.touch(mode=0o600)
    return True


def _sweep(app: App, sync: Sync) -> None:
    """Deliver a bounded number of pending sessions. A session that cannot be read does not count."""
    remaining, since_ns = MAX_SESSIONS, app.states.installed_ns or 0
    transcripts = pending_sessions(app.states, app.config_dir, app.reachable, since_ns, max_unknown=MAX_UNKNOWN)
    for path in transcripts:
        remaining -= "*" not in sync.sync_session(path).pending
        for session_id in app.states.spool.pending():  # new turns do not wait for old ones
            sync.handle_requests(session_id)
        if not remaining:
            break
    app.mark_step("swept")


def _clean_up(app: App, sync: Sync) -> None:
    """Remove what has expired, once a day. An error is logged and does not stop deliveries."""
    now = app.runtime.clock()
    try:
        if not is_due(app.states.folder / "cleaned", now):
            return
        for _ in clean_up(app.states, app.config_dir, app.config(None), now, app.log):
            for session_id in app.states.spool.pending():  # as above
                sync.handle_requests(session_id)
    except (OSError, CcTraceError) as error:
        app.log.write(f"cleaning up: {error}")
    app.mark_step("cleaned")
