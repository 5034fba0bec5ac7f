"""The workers of a backfill: this process, one session after the other, or several processes in parallel.

An interrupt takes effect after the current batch: what was sent is always recorded, and a second run continues there.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from cc_trace.cli.interrupts import block_interrupts
from cc_trace.delivery import AgentListing, App, Report, state_is_pending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import BrokenExecutor, Executor, Future
    from multiprocessing.queues import SimpleQueue

    from cc_trace.cli.interrupts import StopFlag
    from cc_trace.delivery import DeliveredBatch, TranscriptFile
    from cc_trace.export import DestinationSettings

    OnBatch: TypeAlias = Callable[[str, DeliveredBatch], None]  # a session's id, and a batch that was sent of it

_GIVE_UP_AFTER: Final = 3  # sessions in a row of which nothing could be sent: the backend is not there


@dataclass(slots=True)
class _Failures:
    """How many sessions in a row a destination accepted nothing of, and why."""

    settings: DestinationSettings
    sessions: int = 0
    reason: str = ""


class _Worker:
    """Delivers one session after the other."""

    def __init__(self, app: App, on_batch: OnBatch, stop_flag: StopFlag) -> None:
        self._app = app
        self._session = ""
        self._failures: list[_Failures] = []
        app.runtime.on_batch = lambda batch: on_batch(self._session, batch)
        app.runtime.interrupted = lambda: bool(stop_flag.value)
        self._stack = contextlib.ExitStack()
        self._sync = self._stack.enter_context(app.sync())

    def deliver(self, file: TranscriptFile) -> Report:
        """Deliver a session; an interrupt leaves the rest of it for the next run."""
        self._session = file.path.stem
        state = self._app.states.peek(self._session)
        names = self._app.destination_names(state.cwd, state.environment) if state is not None else None
        agents = AgentListing(self._app.states)
        if names and not state_is_pending(state, file.size, names, partial(agents.total_bytes, file.path)):
            return Report(self._session, sent=dict.fromkeys(names, 0))
        report = self._sync.sync_session(file.path)
        self._give_up(report)
        return report

    def _give_up(self, report: Report) -> None:
        """Leave out a destination that accepted nothing of several sessions in a row: it cannot be reached.

        One that refuses spans can be reached, and may accept the next session.
        """
        state = self._app.states.peek(self._session)
        if state is None or "*" in report.pending or report.why_off is not None or report.locked:
            return
        for settings in self._app.config(state.cwd, state.environment).destinations:
            failures = self._failures_of(settings)
            if settings in self._app.skipped:
                report.pending[settings.name] = f"gave up after several failures: {failures.reason}"
                continue
            reason = report.pending.get(settings.name, "")
            refuses_spans = state.cursor(settings.name).refusing_since is not None
            failed = reason and not refuses_spans and not report.sent.get(settings.name)
            failures.sessions, failures.reason = failures.sessions + 1 if failed else 0, reason
            if failures.sessions >= _GIVE_UP_AFTER:
                self._app.skip_destination(settings)

    def _failures_of(self, settings: DestinationSettings) -> _Failures:
        for failures in self._failures:
            if failures.settings == settings:
                return failures
        self._failures.append(_Failures(settings))
        return self._failures[-1]

    def close(self) -> None:
        """Close the app's destinations."""
        self._stack.close()


def in_turn(
    app: App, files: Sequence[TranscriptFile], on_batch: OnBatch, stop_flag: StopFlag
) -> Iterator[tuple[TranscriptFile, Report]]:
    """Deliver one session after the other."""
    worker = _Worker(app, on_batch, stop_flag)
    try:
        for file in files:
            if stop_flag.value:
                return
            yield file, worker.deliver(file)
    finally:
        worker.close()


def side_by_side(
    environment: Mapping[str, str],
    to: str | None,
    jobs: int,
    files: Sequence[TranscriptFile],
    on_batch: OnBatch,
    stop_flag: StopFlag,
) -> Iterator[tuple[TranscriptFile, Report]]:
    """Deliver several sessions at a time, each in a process of its own: reading them takes one core.

    A fork waits for the session it was forked from, if both are at work. Only the parent handles
    interrupts: in a process of the pool they would break a request.
    """
    import multiprocessing  # noqa: PLC0415  (30 ms, and only --jobs needs it)
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415  (the same)

    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    arguments = (dict(environment), to, queue, stop_flag)
    listener = threading.Thread(target=_listen, args=(queue, on_batch), daemon=True)
    listener.start()
    waiting_forks: dict[TranscriptFile, Report] = {}
    with ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=arguments) as pool:
        try:
            for file, report in _spread(pool, jobs, files, stop_flag):
                if report.waits_for_other_session:
                    waiting_forks[file] = report
                else:
                    yield file, report
            for file, report in _spread(pool, 1, [*waiting_forks], stop_flag):
                yield file, report.after(waiting_forks.pop(file))
            yield from waiting_forks.items()
        except KeyboardInterrupt:  # the second one: what they send just now is unclear, as after any sudden end
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    queue.put(None)
    listener.join()


def _spread(
    pool: Executor, jobs: int, files: Sequence[TranscriptFile], stop_flag: StopFlag
) -> Iterator[tuple[TranscriptFile, Report]]:
    """Deliver with `jobs` processes at a time, until all is done or the user stops it."""
    from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, wait  # noqa: PLC0415  (as above)

    remaining = iter(files)
    at_work: dict[Future[Report], TranscriptFile] = {}
    while True:
        for file in islice(remaining, 0 if stop_flag.value else jobs - len(at_work)):
            try:
                with block_interrupts():
                    at_work[pool.submit(_deliver, file)] = file
            except BrokenExecutor as error:
                stop_flag.value = True
                yield file, _report_of_lost_process(file, error)
        if not at_work:
            return
        for future in wait(at_work, return_when=FIRST_COMPLETED).done:
            file = at_work.pop(future)
            try:
                yield file, future.result()
            except BrokenExecutor as error:
                stop_flag.value = True
                yield file, _report_of_lost_process(file, error)


def _report_of_lost_process(file: TranscriptFile, error: BrokenExecutor) -> Report:
    """Return the report of a session whose process was killed or could not start."""
    return Report(file.path.stem, pending={"*": f"the process delivering it died: {error}"})


def _listen(queue: SimpleQueue[tuple[str, DeliveredBatch] | None], on_batch: OnBatch) -> None:
    while (message := queue.get()) is not None:
        on_batch(*message)


_worker: _Worker


def _begin(
    environment: dict[str, str],
    to: str | None,
    queue: SimpleQueue[tuple[str, DeliveredBatch] | None],
    stop_flag: StopFlag,
) -> None:
    """Initialize a process of the pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    global _worker  # noqa: PLW0603  (what a pool's process keeps between its tasks)
    app = App.open(environment, only_destination=to)
    app.runtime.metrics = False
    _worker = _Worker(app, lambda session, batch: queue.put((session, batch)), stop_flag)


def _deliver(file: TranscriptFile) -> Report:
    return _worker.deliver(file)
