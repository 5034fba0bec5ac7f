"""`cc-trace backfill`: deliver the history of this machine; what is there already is not sent again.

An interrupt takes effect after the batch in hand: what was sent is always recorded, and a second run goes on there.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, Protocol

from cc_trace.cli.backfill_summary import Summary
from cc_trace.cli.workplace import Workplace
from cc_trace.endings import seen_in
from cc_trace.errors import CcTraceError
from cc_trace.history import oldest_taken, past_sessions, since_seconds, waiting
from cc_trace.ledger import Ledger
from cc_trace.openings import first_cwd
from cc_trace.orders import Report
from cc_trace.progress import SessionState

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from multiprocessing.queues import SimpleQueue

    from cc_trace.cli.backfill_bar import Bar
    from cc_trace.delivery import Advance
    from cc_trace.history import Past


class Wish(Protocol):
    """Whether the user wants it to stop."""

    value: bool


_GIVE_UP_AFTER: Final = 3  # sessions in a row of which nothing could be sent: the backend is not there


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Deliver, show how far it is, and say at the end what came of it. Exit 1 if anything stayed behind."""
    if options.jobs < 1:
        message = f"--jobs {options.jobs}: a number from 1 on is wanted"
        raise CcTraceError(message)
    place = Workplace.open(environment, to=options.to)
    place.world.rest_seconds = place.config().rest_seconds
    now = time.time()
    found = past_sessions(options.paths, place.config_dir, since_seconds(options.since, now))
    _warn(place, found, now)
    summary = Summary(len(found), sum(past.size for past in found))
    if options.dry_run:
        return _counted(place, found, summary)
    wish: Wish = SimpleNamespace(value=False)
    with _bar(summary) as bar:
        if options.jobs == 1:
            reports = _in_turn(place, found, bar, wish)
        else:
            import multiprocessing.sharedctypes  # noqa: PLC0415  (30 ms, and only --jobs needs it)

            wish = multiprocessing.sharedctypes.RawValue("b", 0)  # all processes see it
            reports = _side_by_side(environment, options, found, bar, wish)
        with _interrupts(wish):
            _collect(reports, summary, bar, wish)
    summary.seconds = time.time() - now
    summary.print_delivered()
    if wish.value and not summary.gave_up:
        return 130
    return 1 if summary.behind else 0


def _collect(reports: Iterator[tuple[Past, Report]], summary: Summary, bar: Bar, wish: Wish) -> None:
    failed = 0
    for past, report in reports:
        summary.add(report)
        bar.done(past)
        failed = failed + 1 if report.behind and not any(report.sent.values()) else 0
        if failed >= _GIVE_UP_AFTER:
            summary.gave_up = wish.value = True


def _warn(place: Workplace, found: Sequence[Past], now: float) -> None:
    """Say it before if a backend is known to refuse old spans."""
    for settings in place.config().destinations:
        if (seconds := oldest_taken(settings)) is not None:
            old = sum(past.changed < now - seconds for past in found)
            if old:
                age = f"{seconds // 3600} hour{'s' if seconds > 3600 else ''}"  # noqa: PLR2004
                print(
                    f"cc-trace: {settings.name}: this backend refuses spans that are older than {age},"
                    f" as those of {old} of {len(found)} sessions are",
                    file=sys.stderr,
                )


def _counted(place: Workplace, found: Sequence[Past], summary: Summary) -> int:
    """Count what would be sent, and send nothing."""
    path = place.states.folder / "ledger.db"
    counted: dict[str, set[str]] = {}
    with contextlib.ExitStack() as stack:
        ledger = stack.enter_context(contextlib.closing(Ledger(path, lambda _: False))) if path.exists() else None
        for past in found:
            state = place.states.peek(past.path.stem)
            cwd = state.cwd if state is not None else first_cwd(past.path)
            off = place.config(cwd).off(cwd)
            if off is None and place.states.left_out(past.path.stem):
                off = "it was written to while tracing was off"
            if off is not None:
                summary.off[off] += 1
                continue
            session = state or SessionState(past.path.stem, str(past.path))
            ending = seen_in(past.path, session, time.time(), place.config(cwd).rest_seconds)
            for settings in place.config(cwd).destinations:
                known = None if settings.kind == "local" else ledger
                seen = counted.setdefault(settings.name, set())
                summary.count(settings.name, *waiting(past, state, known, settings.name, ending, seen))
    summary.print_counted()
    return 0


class _Worker:
    """Delivers one session after the other."""

    def __init__(self, place: Workplace, told: Callable[[str, Advance], None], wish: Wish) -> None:
        self._place = place
        self._told = told
        self._wish = wish
        self._session = ""
        place.world.advanced = self._advanced
        self._stack = contextlib.ExitStack()
        self._sync = self._stack.enter_context(place.sync())

    def deliver(self, past: Past) -> Report:
        """Deliver a session; an interrupt leaves the rest of it for the next run."""
        self._session = past.path.stem
        try:
            return self._sync.session(past.path)
        except KeyboardInterrupt:
            return Report(past.path.stem, behind={"*": "interrupted"})

    def close(self) -> None:
        """Let go of everything."""
        self._stack.close()

    def _advanced(self, advance: Advance) -> None:
        self._told(self._session, advance)
        if self._wish.value:
            raise KeyboardInterrupt


def _in_turn(place: Workplace, found: Sequence[Past], bar: Bar, wish: Wish) -> Iterator[tuple[Past, Report]]:
    worker = _Worker(place, bar.advanced, wish)
    try:
        for past in found:
            if wish.value:
                return
            yield past, worker.deliver(past)
    finally:
        worker.close()


def _side_by_side(
    environment: Mapping[str, str],
    options: argparse.Namespace,
    found: Sequence[Past],
    bar: Bar,
    wish: Wish,
) -> Iterator[tuple[Past, Report]]:
    """Deliver several sessions at a time, each in a process of its own: reading them takes one core."""
    import multiprocessing  # noqa: PLC0415  (30 ms, and only --jobs needs it)
    from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait  # noqa: PLC0415  (the same)

    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    given = (dict(environment), options.to, queue, wish)
    listener = threading.Thread(target=_listen, args=(queue, bar), daemon=True)
    listener.start()
    with ProcessPoolExecutor(options.jobs, context, initializer=_begin, initargs=given) as pool:
        left = iter(found)
        at_work: dict[Future[Report], Past] = {}
        while True:
            for past in islice(left, 0 if wish.value else options.jobs - len(at_work)):
                at_work[pool.submit(_deliver, past)] = past
            if not at_work:
                break
            for future in wait(at_work, return_when=FIRST_COMPLETED).done:
                yield at_work.pop(future), future.result()
    queue.put(None)
    listener.join()


def _listen(queue: SimpleQueue[tuple[str, Advance] | None], bar: Bar) -> None:
    while (told := queue.get()) is not None:
        bar.advanced(*told)


_worker: _Worker


def _begin(
    environment: dict[str, str], to: str | None, queue: SimpleQueue[tuple[str, Advance] | None], wish: Wish
) -> None:
    """Be a process of the pool. Interrupts are the parent's to take: they would hit a request in hand."""
    global _worker  # noqa: PLW0603  (what a pool's process keeps between its tasks)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    place = Workplace.open(environment, to=to)
    place.world.rest_seconds = place.config().rest_seconds
    _worker = _Worker(place, lambda session, advance: queue.put((session, advance)), wish)


def _deliver(past: Past) -> Report:
    return _worker.deliver(past)


@contextlib.contextmanager
def _interrupts(wish: Wish) -> Iterator[None]:
    """Take the first interrupt as a wish to stop soon; a second one ends everything."""

    def heard(*_: object) -> None:
        wish.value = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, heard)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _bar(summary: Summary) -> contextlib.AbstractContextManager[Bar]:
    from cc_trace.cli.backfill_bar import bar  # noqa: PLC0415  (rich takes 60 ms, which a wrong call need not pay)

    return bar(summary)
