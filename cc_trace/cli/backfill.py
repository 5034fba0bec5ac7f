"""`cc-trace backfill`: deliver the history of this machine; what is there already is not sent again.

An interrupt takes effect after the batch in hand: what was sent is always recorded, and a second run goes on there.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections import Counter
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, Protocol

from cc_trace.cli.backfill_summary import Summary
from cc_trace.cli.workplace import Workplace
from cc_trace.endings import seen_in
from cc_trace.errors import CcTraceError
from cc_trace.history import oldest_taken, past_sessions, since_seconds, waiting
from cc_trace.ledger import open_ledger
from cc_trace.openings import first_cwd
from cc_trace.orders import WRITTEN_WHILE_OFF, Report
from cc_trace.progress import SessionState
from cc_trace.sweep import is_behind

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from multiprocessing.queues import SimpleQueue

    from cc_trace.cli.backfill_bar import Bar
    from cc_trace.delivery import Advance
    from cc_trace.history import Past
    from cc_trace.ledger import Ledger


class Wish(Protocol):
    """Whether the user wants it to stop."""

    value: bool


_GIVE_UP_AFTER: Final = 3  # sessions in a row of which nothing could be sent: the backend is not there
_LOCK_SECONDS: Final = 1.0
_HOUR: Final = 3600


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Deliver, show how far it is, and say at the end what came of it. Exit 1 if anything stayed behind."""
    if options.jobs < 1:
        message = f"--jobs {options.jobs}: a number from 1 on is wanted"
        raise CcTraceError(message)
    place = Workplace.open(environment, to=options.to)
    now = time.time()
    found = past_sessions(options.paths, place.config_dir, since_seconds(options.since, now))
    if options.again:
        _forget(place, options.to, found)
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

            with place.sync():
                pass  # what is wrong with the state folder is said once, and here
            wish = multiprocessing.sharedctypes.RawValue("b", 0)  # all processes see it
            reports = _side_by_side(environment, options, found, bar, wish)
        with _interrupts(wish):
            _collect(reports, summary, bar)
    summary.seconds = time.time() - now
    summary.print_delivered()
    if wish.value:
        return 130
    return 1 if summary.behind else 0


def _collect(reports: Iterator[tuple[Past, Report]], summary: Summary, bar: Bar) -> None:
    for past, report in reports:
        summary.add(report)
        bar.done(past)


def _forget(place: Workplace, to: str | None, found: Sequence[Past]) -> None:
    """Forget what these sessions have delivered to a destination: there is another backend under its name now."""
    if to is None:
        message = "--again needs --to: it forgets what was delivered there, and sends all of it once more"
        raise CcTraceError(message)
    if (ledger := open_ledger(place.states.folder / "ledger.db")) is not None:
        with contextlib.closing(ledger):
            ledger.forget(to)
    for past in found:
        with place.states.locked(past.path.stem, _LOCK_SECONDS) as held:
            state = place.states.peek(past.path.stem)
            if held and state is not None and state.destinations.pop(to, None) is not None:
                place.states.save(state)


def _warn(place: Workplace, found: Sequence[Past], now: float) -> None:
    """Say it before if a backend is known to refuse old spans."""
    old: Counter[tuple[str, int]] = Counter()
    for past in found:
        with contextlib.suppress(CcTraceError, OSError):  # said when it is its turn
            for settings in place.config(first_cwd(past.path)).destinations:
                seconds = oldest_taken(settings)
                if seconds is not None and past.changed < now - seconds:
                    old[settings.name, seconds] += 1
    for (name, seconds), count in old.items():
        age = f"{seconds // _HOUR} hour{'s' if seconds > _HOUR else ''}"
        said = f"{name}: this backend refuses spans that are older than {age}, as those of {count} of {len(found)}"
        print(f"cc-trace: {said} sessions are", file=sys.stderr)


def _counted(place: Workplace, found: Sequence[Past], summary: Summary) -> int:
    """Count what would be sent, and send nothing."""
    counted: dict[str, set[str]] = {}
    with contextlib.ExitStack() as stack:
        if (ledger := open_ledger(place.states.folder / "ledger.db")) is not None:
            stack.callback(ledger.close)
        for past in found:
            try:
                _count(place, past, summary, ledger, counted)
            except (OSError, CcTraceError) as error:
                summary.behind[str(error)] += 1
    summary.print_counted()
    return 1 if summary.behind else 0


def _count(place: Workplace, past: Past, summary: Summary, ledger: Ledger | None, counted: dict[str, set[str]]) -> None:
    state = place.states.peek(past.path.stem)
    cwd = state.cwd if state is not None else first_cwd(past.path)
    off = place.off(cwd)
    if off is None and place.states.left_out(past.path.stem):
        off = WRITTEN_WHILE_OFF
    if off is not None:
        summary.off[off] += 1
        return
    session = state or SessionState(past.path.stem, str(past.path))
    ending = seen_in(past.path, session, time.time(), place.config(cwd).rest_seconds)
    for settings in place.config(cwd).destinations:
        seen = counted.setdefault(settings.name, set())
        turns = spans = 0
        if is_behind(state, past.size, [settings.name]):
            known = None if settings.kind == "local" else ledger
            turns, spans = waiting(past, state, known, settings.name, ending, seen)
        summary.count(settings.name, turns, spans)


class _Worker:
    """Delivers one session after the other."""

    def __init__(self, place: Workplace, told: Callable[[str, Advance], None], wish: Wish) -> None:
        self._place = place
        self._told = told
        self._wish = wish
        self._session = ""
        self._spans: Counter[str] = Counter()  # of this session, by destination
        self._turns: Counter[str] = Counter()
        self._failures: dict[tuple[str, str | None], tuple[int, str]] = {}
        place.world.advanced = self._advanced
        self._stack = contextlib.ExitStack()
        self._sync = self._stack.enter_context(place.sync())

    def deliver(self, past: Past) -> Report:
        """Deliver a session; an interrupt leaves the rest of it for the next run."""
        self._session, self._spans, self._turns = past.path.stem, Counter(), Counter()
        state = self._place.states.peek(past.path.stem)
        try:
            names = self._place.destination_names(state.cwd) if state is not None else None
            if names and not is_behind(state, past.size, names):
                return Report(past.path.stem, sent=dict.fromkeys(names, 0))
            report = self._sync.session(past.path)
            self._give_up(past, report)
        except KeyboardInterrupt:
            return Report(past.path.stem, self._spans, {"*": "interrupted"}, turns=self._turns)
        return report

    def _give_up(self, past: Past, report: Report) -> None:
        """Do without a destination that took nothing of several sessions in a row: it is not there."""
        if "*" in report.behind or report.off is not None or report.busy:
            return
        for settings in self._place.config(first_cwd(past.path)).destinations:
            key = (settings.name, settings.endpoint)
            if key in self._place.skipped:
                report.behind[settings.name] = f"not tried any more: {self._failures[key][1]}"
                continue
            failed, why = self._failures.get(key, (0, "")), report.behind.get(settings.name)
            self._failures[key] = (failed[0] + 1, why) if why and not report.sent.get(settings.name) else (0, "")
            if self._failures[key][0] >= _GIVE_UP_AFTER:
                self._place.skip(settings)

    def close(self) -> None:
        """Let go of everything."""
        self._stack.close()

    def _advanced(self, advance: Advance) -> None:
        self._told(self._session, advance)
        self._spans[advance.to] += advance.spans
        self._turns[advance.to] += advance.turns
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
    from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, ProcessPoolExecutor, wait  # noqa: PLC0415  (the same)

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
                past = at_work.pop(future)
                try:
                    yield past, future.result()
                except BrokenExecutor as error:  # its process was killed, or could not begin
                    yield past, Report(past.path.stem, behind={"*": f"the process that delivered it ended: {error}"})
                    wish.value = True
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
