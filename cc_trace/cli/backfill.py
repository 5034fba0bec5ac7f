"""`cc-trace backfill`: deliver earlier sessions of this machine; what was delivered already is not sent again."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

from cc_trace.cli.backfill_summary import Summary
from cc_trace.cli.backfill_workers import in_turn, side_by_side
from cc_trace.cli.interrupts import stop_on_interrupt
from cc_trace.delivery import (
    WRITTEN_WHILE_OFF,
    AgentDeliveries,
    App,
    SessionState,
    count_unsent,
    ending_from_process,
    main_transcripts,
    open_ledger,
    past_sessions,
    since_seconds,
    state_is_pending,
    suppressed_by,
)
from cc_trace.errors import CcTraceError
from cc_trace.export import max_span_age_seconds
from cc_trace.text import plural
from cc_trace.transcript import OpenTranscript, first_cwd

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from cc_trace.cli.backfill_bar import Bar
    from cc_trace.cli.interrupts import StopFlag
    from cc_trace.delivery import DeliveredBatch, Ledger, TranscriptFile

_LOCK_SECONDS: Final = 1.0
_HOUR: Final = 3600


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Deliver, show the progress, and print a summary at the end. Exit 1 if anything is still pending."""
    if options.jobs < 1:
        message = f"--jobs is {options.jobs}; it must be at least 1"
        raise CcTraceError(message)
    if options.again and options.to is None:
        message = "--again needs --to DESTINATION, since it sends everything there again"
        raise CcTraceError(message)
    app = App.open(environment, only_destination=options.to)
    app.runtime.metrics = False
    now = time.time()
    files = past_sessions(options.paths, app.config_dir, since_seconds(options.since, now))
    if not files:
        print(
            "no sessions to deliver"
            if options.since is None
            else f"no sessions to deliver with --since {options.since}"
        )
        return 0
    _warn(app, files, now)
    summary = Summary(len(files), sum(file.size for file in files), again=options.again)
    if options.dry_run:
        return _dry_run(app, files, summary)
    if options.again:
        files = _forget(app, options.to, files, summary)
    stop_flag: StopFlag = SimpleNamespace(value=False)
    with _bar(summary) as bar:
        if options.jobs == 1:
            reports = in_turn(app, files, bar.add, stop_flag)
        else:
            import multiprocessing.sharedctypes  # noqa: PLC0415  (30 ms, and only --jobs needs it)

            with app.sync():
                pass  # an error in the state folder is reported once, here
            stop_flag = multiprocessing.sharedctypes.RawValue("b", 0)  # all processes see it
            reports = side_by_side(environment, options.to, options.jobs, files, bar.add, stop_flag)
        with stop_on_interrupt(stop_flag):
            for file, report in reports:
                summary.add(report)
                bar.done(file)
    summary.seconds = time.time() - now
    summary.print_delivered()
    if stop_flag.value:
        return 130
    return 1 if summary.pending else 0


def _forget(app: App, to: str, files: Sequence[TranscriptFile], summary: Summary) -> list[TranscriptFile]:
    """Forget what these sessions have delivered to a destination: there is another backend under its name now.

    Return the sessions that were forgotten: not those that another process is delivering. A fork sends what it copied
    from a deleted session.
    """
    forgotten: list[TranscriptFile] = []
    with contextlib.ExitStack() as stack:
        if (ledger := open_ledger(app.states.folder / "ledger.db")) is not None:
            stack.callback(ledger.close)
            for session_id in {*ledger.sessions(to)}.difference(path.stem for path in main_transcripts(app.config_dir)):
                ledger.delete_claims(to, session_id)
        for file in files:
            with app.states.locked(file.path.stem, _LOCK_SECONDS) as locked:
                if not locked:
                    reason = f"another process is delivering it; wait, then run this again with {file.path}"
                    summary.add_pending(reason)
                    continue
                if ledger is not None:
                    ledger.delete_claims(to, file.path.stem)
                state = app.states.peek(file.path.stem)
                if state is not None and state.destinations.pop(to, None) is not None:
                    app.states.save(state)
            forgotten.append(file)
    return forgotten


def _warn(app: App, files: Sequence[TranscriptFile], now: float) -> None:
    """Warn if a backend is known to refuse old spans, or if a session has several transcripts."""
    for file in files:
        for other in file.others:
            fix = f"`cc-trace sync --transcript {shlex.quote(str(other))}` delivers it"
            print(
                f"cc-trace: {file.path.stem} also has an older transcript in another folder, skipped here; {fix}",
                file=sys.stderr,
            )
    old: Counter[tuple[str, int]] = Counter()
    for file in files:
        with contextlib.suppress(CcTraceError, OSError):  # reported when the session is delivered
            for settings in app.config(*app.project_and_environment(file.path)).destinations:
                seconds = max_span_age_seconds(settings)
                if seconds is not None and file.changed < now - seconds:
                    old[settings.name, seconds] += 1
    for (name, seconds), count in old.items():
        age = plural(seconds // _HOUR, "hour")
        clause = f"{name} refuses spans older than {age}; this affects {count} of {len(files)}"
        print(f"cc-trace: {clause} sessions", file=sys.stderr)


def _dry_run(app: App, files: Sequence[TranscriptFile], summary: Summary) -> int:
    """Count what would be sent, and send nothing."""
    counted_turns: dict[str, set[str]] = {}
    with contextlib.ExitStack() as stack:
        ledger = None if summary.again else open_ledger(app.states.folder / "ledger.db")
        if ledger is not None:
            stack.callback(ledger.close)
        for file in files:
            try:
                _count(app, file, summary, ledger, counted_turns)
            except (OSError, CcTraceError) as error:
                summary.pending[str(error)] += 1
    summary.print_counted()
    return 1 if summary.pending else 0


def _count(
    app: App, file: TranscriptFile, summary: Summary, ledger: Ledger | None, counted_turns: dict[str, set[str]]
) -> None:
    saved_state = app.states.peek(file.path.stem)
    state = saved_state or SessionState(file.path.stem, str(file.path), cwd=first_cwd(file.path))
    off = app.why_off(state.cwd, state.environment)
    with OpenTranscript(file.path) as transcript:
        suppressed = off is None and suppressed_by(transcript, app.states, new=saved_state is None) is not None
    if suppressed:
        off = WRITTEN_WHILE_OFF
    if off is not None:
        summary.off[off] += 1
        return
    now, config = time.time(), app.config(state.cwd, state.environment)
    ending = ending_from_process(file.path, state, now, config.rest_seconds, app.config_dir)
    rest_ns = int((now - config.rest_seconds) * 1e9)
    agents = AgentDeliveries(app.states, file.path, remember=False)
    for settings in config.destinations:
        name, turns, spans = settings.name, 0, 0
        if summary.again:
            state.destinations.pop(name, None)
        if state_is_pending(saved_state, file.size, [name], agents.refresh):
            agents.refresh()
            files = agents.to_read(name, state.cursor(name))
            session = state.read_on(file.path, name, ending, rest_ns=rest_ns, agents=files)
            # An idempotent store also gets the turns that a fork copied.
            seen = set[str]() if settings.idempotent else counted_turns.setdefault(name, set())
            claims = None if settings.idempotent else ledger
            turns, spans = count_unsent(session, state.destinations.get(name), claims, name, seen)
        summary.count(name, turns, spans)


class _NoBar:
    """Shows nothing, where stderr is not a terminal."""

    def add(self, session_id: str, batch: DeliveredBatch) -> None:
        """Ignore a batch."""

    def done(self, file: TranscriptFile) -> None:
        """Ignore a session."""


def _bar(summary: Summary) -> contextlib.AbstractContextManager[Bar | _NoBar]:
    if not sys.stderr.isatty():
        return contextlib.nullcontext(_NoBar())
    from cc_trace.cli.backfill_bar import bar  # noqa: PLC0415  (rich takes 60 ms)

    return bar(summary)
