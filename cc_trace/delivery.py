"""One session to one destination: what is final and not yet there is sent, each span once.

Rules:
- Children before their root, so that a trace that can be seen is complete.
- An intent is saved before anything is sent, and the progress after it was accepted. Who dies in between leaves an
  intent behind: those spans are unclear. A destination that can be asked is asked before they are sent again.
- A refused batch is halved until the span to blame is found; that one is noted and stepped over. Where all of a batch
  is refused, the fault is not the spans': a header is missing, an experiment has another name. That is tried again.
- The first answer that is neither acceptance nor refusal ends the delivery: the transcript keeps everything.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from cc_trace.destinations.outcomes import MAX_BATCH_BYTES, MAX_BATCH_SPANS, Accepted, Rejected, Retryable, Unclear
from cc_trace.progress import MAX_NOTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cc_trace.destinations.outcomes import Destination, Parcel
    from cc_trace.ledger import Ledger
    from cc_trace.progress import Progress
    from cc_trace.sessions import Session, Trace
    from cc_trace.spans import Span
    from cc_trace.transcript import Position

# Langfuse shows what it took only after a while; asked too early, it would seem not to have it.
UNCLEAR_SECONDS: Final = 10.0
REFUSING_SECONDS: Final = 7 * 86_400.0  # for so long a backend that refuses everything is taken to be set up wrong
_MAX_TASKS: Final = 500  # background tasks remembered, the last launched


class _Stop(Exception):  # noqa: N818  (not an error: the delivery ends here for now)
    """The destination does not take any more now."""


@dataclass(slots=True)
class _Open:
    """A turn that is not completely delivered."""

    begin: Position
    number: int
    settled: set[str]  # of its spans, those accepted or refused
    waiting: set[str] = field(default_factory=set)  # final, to be sent
    unfinished: int = 0  # spans that are not final


@dataclass(slots=True)
class Surroundings:
    """What a delivery needs of the world; a test gives its own."""

    clock: Callable[[], float]  # unix seconds
    save: Callable[[], None]  # the session's state
    reached: Callable[[str], None] = lambda _: None  # named steps, for tests that die there
    stopped: Callable[[], str | None] = lambda: None  # why nothing more is to be sent now
    unclear_seconds: float = UNCLEAR_SECONDS
    outgoing: Callable[[Span], Span] = lambda span: span  # what of a span may leave
    advanced: Callable[[Advance], None] = lambda _: None  # told after every batch


class Advance(NamedTuple):
    """How far a delivery has got: spans and turns taken in the last batch, and up to where all is delivered."""

    to: str
    spans: int
    turns: int
    offset: int


class Delivery:
    """Sends what a session's transcript holds and a destination does not."""

    def __init__(
        self, session: Session, destination: Destination, progress: Progress, ledger: Ledger, around: Surroundings
    ) -> None:
        self.sent = 0
        self.turns = 0  # whose root was sent
        self.refused: Counter[str] = Counter()  # why -> spans
        self._session = session
        self._destination = destination
        self._progress = progress
        self._ledger = None if destination.repeatable else ledger
        self._around = around
        self._turns: deque[_Open] = deque()
        self._roots: set[str] = set()
        self._owner: dict[str, _Open] = {}  # spans of the batch -> their turn
        self._batch: list[Parcel] = []
        self._batch_bytes = 0
        self._unclear = frozenset(progress.intent)
        self._blamed: dict[str, Rejected] = {}  # spans of the batch that were refused alone
        self._smallest: Parcel | None = None  # of the batch, until it was tried alone
        self._sent_before = 0  # this batch

    def run(self) -> bool:
        """Deliver; return whether all that was final is there now."""
        progress = self._progress
        settled, stopped = {*progress.accepted, *progress.rejected}, False
        try:
            for trace in self._session.traces():
                self._turn(trace, settled)
            self._around.reached("spans built")
            self._flush()
            progress.error = progress.error_at = progress.not_before = None
        except _Stop:
            stopped = True
        self._advance()
        progress.behind = sum(len(turn.waiting) for turn in self._turns)
        progress.unfinished = sum(turn.unfinished for turn in self._turns)
        progress.time = self._around.clock()
        self._around.save()
        return not stopped and not progress.behind

    def _turn(self, trace: Trace, settled: set[str]) -> None:
        known = {span.span_id for span in trace.spans} & settled
        turn = _Open(trace.turn.begin, trace.turn.number, known, unfinished=trace.awaited)
        self._turns.append(turn)
        self._roots.add(trace.spans[0].span_id)
        for span in reversed(trace.spans):  # so that nothing goes before what it contains, and the root last
            if span.span_id in turn.settled:
                continue
            if not span.final:
                turn.unfinished += 1
                continue
            turn.waiting.add(span.span_id)
            self._owner[span.span_id] = turn
            self._add(self._destination.pack(self._around.outgoing(span)))

    def _add(self, parcel: Parcel) -> None:
        if len(self._batch) >= MAX_BATCH_SPANS or self._batch_bytes + parcel.size > MAX_BATCH_BYTES:
            self._flush()
        self._batch.append(parcel)
        self._batch_bytes += parcel.size

    def _flush(self) -> None:
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if not batch:
            return
        if (why := self._around.stopped()) is not None:
            self._fail(why)
        ready = self._claimed(batch) if self._ledger is not None else batch
        turns, self._sent_before, to = self.turns, self.sent, self._destination.name
        self._blamed, self._smallest = {}, min(ready, key=lambda parcel: parcel.size, default=None)
        if ready:
            try:
                self._send(ready)
            except _Stop:
                self._release([*self._blamed])
                raise
            self._blame()
        self._advance()
        self._around.advanced(Advance(to, self.sent - self._sent_before, self.turns - turns, self._progress.offset))

    def _claimed(self, batch: list[Parcel]) -> list[Parcel]:
        """Return what may be sent: not what another session delivered, nor what the destination says it has."""
        assert self._ledger is not None  # noqa: S101
        claims = self._ledger.claim(
            self._destination.name, self._session.facts.session_id, [parcel.span_id for parcel in batch]
        )
        self._around.reached("claimed")
        self._settle([parcel.span_id for parcel in batch if claims[parcel.span_id] == "delivered"], sent=False)
        ready = [parcel for parcel in batch if claims[parcel.span_id] in ("mine", "unclear")]
        unclear = [p for p in ready if claims[p.span_id] == "unclear" or p.span_id in self._unclear]
        held = self._asked(unclear) if unclear and self._destination.askable else frozenset[str]()
        if held:
            self._ledger.settle(self._destination.name, held)
            self._settle(held, sent=False)
        return [parcel for parcel in ready if parcel.span_id not in held]

    def _asked(self, unclear: list[Parcel]) -> frozenset[str]:
        held = self._destination.holds(unclear)
        if held is None:
            if not self._destination.askable:
                return frozenset()
            self._fail("cannot ask what was stored of an earlier attempt")
        at = self._progress.intent_at
        early = at is not None and 0 <= self._around.clock() - at < self._around.unclear_seconds
        if early and not held.issuperset(parcel.span_id for parcel in unclear):
            self._fail("an earlier attempt may still be stored; asking again later")
        return held

    def _send(self, parcels: Sequence[Parcel]) -> None:
        parcels = [parcel for parcel in parcels if parcel.span_id in self._owner and parcel.span_id not in self._blamed]
        if not parcels:
            return  # tried alone in the meantime
        progress, ids = self._progress, [parcel.span_id for parcel in parcels]
        progress.intent, progress.intent_at = ids, self._around.clock()
        self._around.save()
        self._around.reached("intent saved")
        outcome = self._destination.send(parcels)
        self._around.reached("answered")
        match outcome:
            case Accepted(refused, message):
                if refused:
                    self._note(spans=refused, status="partial success", message=message or "")
                self._done(ids)
                self.sent += len(ids)
            case Rejected() if len(parcels) > 1:
                progress.intent = []
                middle = len(parcels) // 2
                try:
                    self._send(parcels[:middle])
                except _Stop:
                    self._release(ids[middle:])
                    raise
                self._send(parcels[middle:])
            case Rejected():
                progress.intent = []
                self._blamed[ids[0]] = outcome
                self._try_smallest()
            case Retryable(message, after):
                progress.intent = []
                self._release(ids)
                progress.not_before = self._around.clock() + after if after else None
                self._fail(message)
            case Unclear(message):
                self._fail(f"{message}; it is not known what was stored")

    def _try_smallest(self) -> None:
        """Find out, when a span was refused alone, whether the backend takes any: 512 more requests would tell, too."""
        smallest, self._smallest = self._smallest, None
        if smallest is not None and self.sent == self._sent_before and smallest.span_id not in self._blamed:
            self._send([smallest])
            if self.sent == self._sent_before:
                self._blame()

    def _blame(self) -> None:
        """Step over the spans that were refused alone, unless the backend refuses everything; but not for ever."""
        progress, now, blamed = self._progress, self._around.clock(), self._blamed
        everything = self.sent == self._sent_before
        if not everything:
            progress.refusing_since = None
        if not blamed:
            return
        self._blamed = {}
        if everything and (len(blamed) > 1 or not progress.delivered):
            since = progress.refusing_since = progress.refusing_since or now
            if 0 <= now - since < REFUSING_SECONDS:
                self._release([*blamed])
                first = next(iter(blamed.values()))
                self._fail(f"{first.status} {first.message}; it refuses everything")
        for id_, outcome in blamed.items():
            self._note(span_id=id_, status=outcome.status, message=outcome.message)
        progress.rejected += blamed
        self._done([*blamed], accepted=False)

    def _release(self, ids: list[str]) -> None:
        """Give up claims on what was not stored."""
        if self._ledger is not None:
            self._ledger.release(self._destination.name, ids)

    def _done(self, ids: list[str], *, accepted: bool = True) -> None:
        """Record an answer that settles these spans. Dying before the state is saved makes them unclear."""
        if self._ledger is not None:
            self._ledger.settle(self._destination.name, ids)
            self._around.reached("ledger settled")
        self._progress.intent = []
        self._settle(ids, sent=accepted)
        self._around.save()
        self._around.reached("state saved")

    def _settle(self, ids: Iterable[str], *, sent: bool) -> None:
        progress, rejected = self._progress, set(self._progress.rejected)
        for id_ in ids:
            turn = self._owner.pop(id_)
            turn.waiting.discard(id_)
            turn.settled.add(id_)
            self.turns += sent and id_ in self._roots
            self._roots.discard(id_)
            if id_ not in rejected:
                progress.accepted.append(id_)
                progress.delivered += sent

    def _note(self, **note: Any) -> None:  # noqa: ANN401
        self.refused[f"{note['status']} {note['message']}".strip()] += note.get("spans", 1)
        self._progress.notes = [*self._progress.notes, {**note, "time": self._around.clock()}][-MAX_NOTES:]

    def _fail(self, message: str) -> NoReturn:
        self._progress.error, self._progress.error_at = message, self._around.clock()
        raise _Stop

    def _advance(self) -> None:
        """Move to the oldest turn that is not completely delivered; the last one stays, for it may grow."""
        progress, turns = self._progress, self._turns
        while len(turns) > 1 and not turns[0].waiting and not turns[0].unfinished:
            turns.popleft()
        if turns:
            progress.offset, progress.line = turns[0].begin.offset, turns[0].begin.number
            progress.turns = turns[0].number - 1
        kept: set[str] = set().union(*(turn.settled for turn in turns))
        progress.accepted = [id_ for id_ in progress.accepted if id_ in kept]
        progress.rejected = [id_ for id_ in progress.rejected if id_ in kept]
        resume = self._session.resume
        progress.launched = dict(list(resume.launched.items())[-_MAX_TASKS:])
        progress.launches = dict(list(resume.launches.items())[-_MAX_TASKS:])
        known = {*progress.launched, *progress.launched.values(), *progress.launches}
        progress.ended = sorted(resume.ended & known)
