"""`cc-trace sync`: deliver now, in the foreground."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

from cc_trace.cli.interrupts import stop_on_interrupt
from cc_trace.delivery import App, main_transcript, pending_sessions, take_spool
from cc_trace.errors import NotFoundError
from cc_trace.paths import current_folder, find
from cc_trace.text import plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from cc_trace.cli.interrupts import StopFlag
    from cc_trace.delivery import Report, Sync


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Deliver what the options name; print a line per session. Exit 1 if anything is still pending."""
    app = App.open(environment)
    target = options.session or options.transcript
    stop_flag: StopFlag = SimpleNamespace(value=False)
    app.runtime.interrupted = lambda: stop_flag.value
    reports: list[Report] = []
    with app.sync() as sync, stop_on_interrupt(stop_flag):
        for report in _one(app, sync, target) if target is not None else _pending(app, sync):
            print_report(app, report)
            reports.append(report)
            if stop_flag.value:
                break
    if stop_flag.value:
        return 130
    if not reports:
        app.config()  # raises if the settings are wrong, which no session has reported
        print("nothing is pending")
    if any(report.pending for report in reports):
        print("nothing is lost; `cc-trace doctor` finds the cause and says how to fix it", file=sys.stderr)
    not_traced = target is not None and any(report.why_off for report in reports)
    return 0 if all(report.complete for report in reports) and not not_traced else 1


def _one(app: App, sync: Sync, target: str) -> Iterator[Report]:
    """Deliver the session that a user names."""
    path = main_transcript(find(target, app.config_dir, current_folder(), app.states.streams))
    yield sync.sync_session(path, requested=True)


def _pending(app: App, sync: Sync) -> Iterator[Report]:
    """Deliver what is pending since the installation."""
    for session_id in dict.fromkeys([*take_spool(app, None), *app.states.spool.pending(), *app.states.abandoned()]):
        sync.handle_requests(session_id)  # none, once it is interrupted
    since_ns, found = app.states.installed_ns, False
    app.states.index.rebuild()  # a user who asks for everything gets what the files say
    for path in pending_sessions(
        app.states, app.config_dir, app.destination_names, since_ns, include_misconfigured=True
    ):
        if app.runtime.interrupted():
            return
        found = True
        yield sync.sync_session(path)
    if since_ns is None and not found:
        message = "the hook is not installed; run `cc-trace install`. `cc-trace backfill` delivers earlier sessions"
        raise NotFoundError(message)


def print_report(app: App, report: Report) -> None:
    """Print the result of syncing one session: a line for each destination."""
    if report.locked:
        print(f"{report.session_id}: another process is delivering it")
        return
    if report.why_off is not None:
        print(f"{report.session_id}: not traced: {report.why_off}")
    if "*" in report.pending:
        print(f"{report.session_id}: pending: {report.pending['*']}")
    state = app.states.peek(report.session_id)
    for name in dict.fromkeys([*report.sent, *report.pending]):
        if name == "*":
            continue
        sent, reason = report.sent.get(name, 0), report.pending.get(name)
        clause = f"{plural(sent, 'span')} to {name}" if sent else f"nothing {'sent to' if reason else 'new for'} {name}"
        cursor = None if state is None else state.destinations.get(name)
        if cursor is not None and cursor.unfinished_spans:
            clause += f"; {cursor.unfinished_spans:,} unfinished, sent when their turn is over"
        print(f"{report.session_id}: {clause}{f'; pending: {reason}' if reason else ''}")
