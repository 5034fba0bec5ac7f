"""Deliver one session to one destination: every span that is final and not there yet is sent, once.

Rules:
- Children go before their root, so that a trace that is visible is complete.
- The intent is saved before anything is sent. An acceptance is recorded three times: in place in the saved intent, in
  the ledger, and in the new state; each is enough. If the process dies before the first, the spans are unclear.
- A destination that can be queried is asked before unclear spans are sent again. "Not stored" is believed only
  `unclear_seconds` after the attempt ended.
- A refused batch is halved until the span to blame is found. A span is to blame if it is refused, another span is
  accepted, and it is refused again; then it is noted and skipped. Until then the backend may be misconfigured, such as
  by a missing header: the spans are retried, for a week.
- Any other outcome ends the delivery: the transcript keeps everything.
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from cc_trace.delivery.backoff import MAX_PLAUSIBLE_WAIT_SECONDS
from cc_trace.delivery.cursor import MAX_NOTES, add_counts
from cc_trace.delivery.runtime import Advance
from cc_trace.export import (
    MAX_BATCH_BYTES,
    MAX_BATCH_SPANS,
    Accepted,
    EncodesInTurn,
    MetricsDestination,
    Rejected,
    Retryable,
    Unclear,
)
from cc_trace.transcript import BEGINNING, MediaFinder, Position, agent_paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from cc_trace.delivery.cursor import SessionState
    from cc_trace.delivery.ledger import Ledger
    from cc_trace.delivery.runtime import Plan, Runtime
    from cc_trace.delivery.state import StateFolder
    from cc_trace.export import Counts, Destination, EncodedSpan
    from cc_trace.spans import Session, Span, Trace
    from cc_trace.transcript import OpenTranscript

_FRESH_NS: Final = 86_400_000_000_000  # what ended before that is history, and in no metric
_MAX_REFUSALS: Final = 3  # spans refused in a row: then the backend refuses everything
REFUSING_SECONDS: Final = 7 * 86_400.0  # how long a backend that refuses everything is taken to be misconfigured
_MAX_TASKS: Final = 500  # background tasks remembered, the latest ones


class _Stop(Exception):  # noqa: N818  (not an error: the delivery ends here for now)
    """Ends a delivery: nothing more can be sent now."""


@dataclass(slots=True)
class _OpenTurn:
    """A turn that is not completely delivered."""

    begin: Position
    number: int
    settled: set[str]  # spans accepted or refused for good
    waiting: set[str] = field(default_factory=set)  # spans that are final and still to be sent
    unfinished: int = 0  # number of spans that are not final


class _Suspect(NamedTuple):
    """A span that was refused alone, and how many spans had been accepted by then."""

    span: EncodedSpan
    outcome: Rejected
    sent: int


class Delivery:
    """Sends the spans of a session that a destination does not have."""

    def __init__(
        self,
        session: Session,
        destination: Destination,
        *,
        state: SessionState,
        states: StateFolder,
        ledger: Ledger,
        plan: Plan,
        runtime: Runtime,
        transcript: OpenTranscript,
        deadline: float | None = None,
        running_from: int | None = None,
    ) -> None:
        """Deliver a session to a destination.

        `running_from`: nothing is sent of turns from this number on while they are running, since only their own hook
        knows what their traces are linked to. None: the links are known.
        """
        self.sent = 0
        self.turns = 0  # turns of which the root was sent
        self.refused: Counter[str] = Counter()  # reason -> number of spans
        self._session = session
        self._destination = destination
        self._encodes_in_turn = destination if isinstance(destination, EncodesInTurn) else None
        self._cursor = state.cursor(destination.name)
        self._start = self._cursor.position  # of the oldest turn that is not completely delivered
        self._ledger = None if destination.idempotent else ledger
        self._state, self._states = state, states
        self._plan, self._runtime = plan, runtime
        self._transcript = transcript
        self._deadline = deadline
        self._running_from = running_from
        self._turns: deque[_OpenTurn] = deque()
        self._roots: set[str] = set()
        self._turn_of: dict[str, _OpenTurn] = {}  # spans of the batch -> their turn
        self._batch: list[EncodedSpan] = []
        self._batch_bytes = 0
        self._flushing: list[EncodedSpan] = []  # the batch being sent
        self._unfinished: set[str] = set()  # spans that are not final
        self.failure: Retryable | Unclear | None = None  # what ended the delivery
        self.responded = False  # the destination accepted or refused something, so it can be reached
        self._suspects: dict[str, _Suspect] = {}
        self._media = MediaFinder(self._files)
        self._metrics_to = _metrics_destination(destination) if runtime.metrics else None
        self._counts: dict[str, Counts] = {}  # what spans that are not settled count for
        self.metrics_failure: str | None = None  # why metrics were not accepted
        self._agent_of: dict[str, str] = {}  # span of an agent that is not settled -> the agent

    def run(self) -> bool:
        """Deliver; return whether the destination now has every span that is final."""
        cursor = self._cursor
        settled, stopped = {*cursor.accepted, *cursor.rejected}, False
        self._resume_attempt()
        if self._metrics_to is not None:
            cursor.metrics.begin(self._metrics_to.metrics or "", self._now_ns())
        try:
            for trace in self._session.traces():
                self._add_turn(trace, settled)
            self._runtime.mark_step("spans built")
            self._flush()
            self._blame_suspects()
            cursor.error = cursor.error_at = cursor.not_before = None
            # Spans that are no longer in the transcript can be neither sent nor asked about.
            cursor.unclear = [id_ for id_ in cursor.unclear if id_ in self._unfinished]
        except _Stop:
            stopped = True
            self._release([*self._suspects])
        if not stopped:
            self._send_metrics()
        self._advance()
        cursor.pending_spans = sum(len(turn.waiting) for turn in self._turns)
        cursor.unfinished_spans = sum(turn.unfinished for turn in self._turns)
        cursor.last_attempt_at = self._runtime.clock()
        self._save()
        return not stopped and not cursor.pending_spans

    def _resume_attempt(self) -> None:
        """Take over from an earlier attempt: an intent without an outcome is unclear; record what the ledger missed."""
        cursor, now = self._cursor, self._runtime.clock()
        if cursor.intent:
            sent_at = now if cursor.intent_at is None else cursor.intent_at
            ended = min(now, sent_at + self._plan.request_seconds)
            cursor.unclear = [*dict.fromkeys([*cursor.unclear, *cursor.intent])]
            cursor.unclear_at = max(ended, cursor.unclear_at or 0.0)
            cursor.intent = []
        if cursor.not_in_ledger:
            ids, cursor.not_in_ledger = cursor.not_in_ledger, []
            self._record(ids)

    @property
    def unsettled_agents(self) -> set[str]:
        """Return the agents with spans that are not final or not delivered."""
        return {*self._agent_of.values()}

    def _add_turn(self, trace: Trace, settled: set[str]) -> None:
        known = {span.span_id for span in trace.spans} & settled
        turn = _OpenTurn(begin=trace.turn.begin, number=trace.turn.number, settled=known, unfinished=trace.awaited)
        is_unknown = self._running_from is not None and turn.number >= self._running_from
        is_open = is_unknown and not trace.spans[0].final
        self._turns.append(turn)
        self._roots.add(trace.spans[0].span_id)
        for span in reversed(trace.spans):  # children before parents, the root last
            if span.span_id in turn.settled:
                continue
            if span.agent_id is not None:
                self._agent_of[span.span_id] = span.agent_id
            if not span.final or is_open:
                turn.unfinished += 1
                self._unfinished.add(span.span_id)
                continue
            turn.waiting.add(span.span_id)
            self._turn_of[span.span_id] = turn
            outgoing = self._plan.redact(span, trace.spans)
            self._count(outgoing, trace.spans[0].start_ns)
            self._add_to_batch(self._encoded(outgoing, trace.spans))

    def _encoded(self, span: Span, turn: Sequence[Span]) -> EncodedSpan:
        if self._encodes_in_turn is not None:
            return self._encodes_in_turn.encode_in_turn(span, turn, self._media.find, may_ask=True)
        return self._destination.encode(span)

    def _files(self) -> Iterator[tuple[Path, Position]]:
        """Yield where images of the turns that are delivered now stand."""
        yield self._transcript.path, self._start
        for path in agent_paths(self._transcript.path):
            yield path, BEGINNING

    def _add_to_batch(self, span: EncodedSpan) -> None:
        if len(self._batch) >= MAX_BATCH_SPANS or self._batch_bytes + span.size > MAX_BATCH_BYTES:
            self._flush()
        self._batch.append(span)
        self._batch_bytes += span.size

    def _flush(self) -> None:
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if not batch:
            return
        if (why := self._runtime.why_stopped(self._deadline)) is not None:
            self._fail(why)
        ready = self._claim(batch) if self._ledger is not None else batch
        turns, sent, self._flushing = self.turns, self.sent, ready
        try:
            self._send(ready)
            self._retry_suspects()
        except _Stop:
            left = [span.span_id for span in ready if span.span_id in self._turn_of]
            self._release([id_ for id_ in left if id_ not in self._cursor.unclear])
            raise
        self._advance()
        self._runtime.advanced(
            Advance(
                to=self._destination.name,
                spans=self.sent - sent,
                turns=self.turns - turns,
                offset=self._cursor.offset,
            )
        )

    def _claim(self, batch: list[EncodedSpan]) -> list[EncodedSpan]:
        """Claim spans; return those to send: none that another session delivered or the destination has already."""
        assert self._ledger is not None  # noqa: S101
        runtime, ids, to = self._runtime, [span.span_id for span in batch], self._destination.name
        session_id, now = self._session.summary.session_id, runtime.clock()
        claims, since = self._ledger.claim(to, session_id, ids, now, self._plan.request_seconds)
        runtime.mark_step("claimed")
        self._settle([id_ for id_ in ids if claims[id_] == "delivered"], sent=False)
        ready = [span for span in batch if claims[span.span_id] in ("mine", "unclear")]
        unclear = [span for span in ready if claims[span.span_id] == "unclear" or span.span_id in self._cursor.unclear]
        if not unclear or not self._destination.queryable:
            return ready
        try:
            stored = self._query_stored(unclear, max(since or 0.0, self._cursor.unclear_at or 0.0))
        except _Stop:
            kept = {span.span_id for span in unclear}
            self._release(
                [span.span_id for span in ready if span.span_id in self._turn_of and span.span_id not in kept]
            )
            raise
        again = [span.span_id for span in unclear if span.span_id not in stored]
        if (why := self._ledger.set_outcome_time(to, again, now + self._plan.request_seconds)) is not None:
            self._fail(f"ledger: {why}")
        return [span for span in ready if span.span_id not in stored]

    def _query_stored(self, unclear: list[EncodedSpan], since: float) -> frozenset[str]:
        """Return the unclear spans that are stored; end the delivery while it is too early to believe "not stored"."""
        stored = self._destination.stored_ids(unclear)
        if stored is None:
            if not self._destination.queryable:
                return frozenset()
            self._fail("cannot find out what was stored by an earlier attempt")
        if stored:
            self._record(stored)
            self._settle(stored, sent=False)
        now, wait = self._runtime.clock(), self._plan.unclear_seconds
        too_early = since - now < MAX_PLAUSIBLE_WAIT_SECONDS and now - min(now, since) < wait
        if too_early and not stored.issuperset(span.span_id for span in unclear):
            self._cursor.not_before = min(now, since) + wait
            self._fail("an earlier attempt may still be stored; asking again later")
        return stored

    def _send(self, spans: Sequence[EncodedSpan]) -> None:
        """Send a batch. A refused batch is sent again in halves, down to the spans that are refused alone."""
        spans = [span for span in spans if span.span_id in self._turn_of and span.span_id not in self._suspects]
        if not spans:
            return  # tried alone in the meantime
        refused = self._attempt(spans)
        if refused is None:
            return
        if len(spans) > 1:
            middle = len(spans) // 2
            self._send(spans[:middle])
            self._send(spans[middle:])
            return
        self._suspects[spans[0].span_id] = _Suspect(spans[0], refused, self.sent)
        self._probe()

    def _attempt(self, spans: Sequence[EncodedSpan]) -> Rejected | None:
        """Send one request and record its outcome; return a refusal for the caller to interpret."""
        cursor, runtime, ids = self._cursor, self._runtime, [span.span_id for span in spans]
        cursor.unclear = [id_ for id_ in cursor.unclear if id_ not in set(ids)]
        cursor.intent, cursor.intent_at = ids, runtime.clock()
        cursor.metrics.in_intent = _sum([self._counts[id_] for id_ in ids if id_ in self._counts])
        self._save()
        runtime.mark_step("intent saved")
        outcome = self._destination.send(spans)
        runtime.mark_step("answered")
        if not isinstance(outcome, Accepted):
            cursor.metrics.in_intent = {}
        match outcome:
            case Accepted(refused, message):
                self.responded = True
                self._mark_accepted()
                cursor.metrics.accept()
                if refused:
                    self._note(spans=refused, status="partial success", message=message or "")
                self._finish(ids)
                self.sent += len(ids)
                cursor.refusing_since = None
            case Rejected():
                self.responded = True
                cursor.intent = []
                return outcome
            case Retryable(message, after):
                self.failure = outcome
                cursor.intent = []
                self._release(ids)
                cursor.not_before = runtime.clock() + after if after else None
                self._fail(message)
            case Unclear(message):
                self.failure = outcome
                cursor.unclear += ids
                cursor.intent, cursor.unclear_at = [], runtime.clock()
                if self._ledger is not None:
                    self._ledger.set_outcome_time(self._destination.name, ids, cursor.unclear_at)
                self._fail(f"{message}; it is not known what was stored")
        return None

    def _probe(self) -> None:
        """After a span was refused alone, send the smallest other one, to see whether the backend accepts any."""
        in_a_row = [suspect for suspect in self._suspects.values() if suspect.sent == self.sent]
        if len(in_a_row) >= _MAX_REFUSALS:
            self._wait_for_setup()
            return
        left = [span for span in self._flushing if span.span_id in self._turn_of and span.span_id not in self._suspects]
        if in_a_row and left:
            self._send([min(left, key=lambda span: span.size)])

    def _retry_suspects(self) -> None:
        """Resend suspects once another span has been accepted; refused again, they are to blame."""
        for id_, suspect in list(self._suspects.items()):
            if self.sent > suspect.sent:
                del self._suspects[id_]
                if (refused := self._attempt([suspect.span])) is not None:
                    self._blame({id_: refused})

    def _blame_suspects(self) -> None:
        """Leave suspects for the next sync; blame them once the backend has refused everything for a week."""
        if self._suspects:
            self._wait_for_setup()
            self._blame({id_: suspect.outcome for id_, suspect in self._suspects.items()})
            self._suspects = {}

    def _wait_for_setup(self) -> None:
        """End the delivery, as the backend may be misconfigured, unless it has been for `REFUSING_SECONDS`."""
        now = self._runtime.clock()
        since = self._cursor.refusing_since = self._cursor.refusing_since or now
        if 0 <= now - since < REFUSING_SECONDS:
            first = next(iter(self._suspects.values())).outcome
            doubt = "it refuses everything" if len(self._suspects) > 1 else "nothing was accepted since"
            self._fail(f"{first.status} {first.message}; {doubt}")

    def _blame(self, refused: dict[str, Rejected]) -> None:
        for id_, outcome in refused.items():
            self._note(span_id=id_, status=outcome.status, message=outcome.message)
        self._cursor.rejected += refused
        self._finish([*refused], accepted=False)

    def _release(self, ids: Sequence[str]) -> None:
        """Give up the claims on spans that were not stored."""
        if self._ledger is not None:
            self._ledger.release(self._destination.name, ids)

    def _finish(self, ids: list[str], *, accepted: bool = True) -> None:
        """Record that these spans were accepted, or refused for good: in the ledger, then in the state."""
        if self._ledger is not None:
            self._record(ids)
            self._runtime.mark_step("ledger settled")
        self._cursor.intent = []
        self._settle(ids, sent=accepted)
        self._save()
        self._runtime.mark_step("state saved")

    def _record(self, ids: Iterable[str]) -> None:
        """Settle spans in the ledger; if that fails, the state keeps them until it works."""
        ids = [*ids]
        if self._ledger is not None and self._ledger.settle(
            self._destination.name, self._session.summary.session_id, ids
        ):
            self._cursor.not_in_ledger += ids

    def _count(self, span: Span, began_ns: int | None) -> None:
        """Note what a span counts for, should it be accepted. `began_ns`: when its turn began."""
        if self._metrics_to is None or span.response is None or span.end_ns is None:
            return
        if self._now_ns() - span.end_ns > _FRESH_NS:
            return
        from cc_trace.export import measured  # noqa: PLC0415  (few want metrics)

        self._counts[span.span_id] = measured(span)
        metrics = self._cursor.metrics
        metrics.start_ns = metrics.start_ns or began_ns or span.end_ns

    def _send_metrics(self) -> None:
        """Tell the destination what was counted. Whatever comes of it, the spans are delivered."""
        metrics, to, runtime = self._cursor.metrics, self._metrics_to, self._runtime
        if to is None or not metrics.unreported or runtime.why_stopped(self._deadline) is not None:
            return
        if to.metrics == "delta":
            metrics.in_flight = True
            self._save()
        runtime.mark_step("metrics intent saved")
        end_ns = max(self._now_ns(), metrics.start_ns + 1)
        outcome = to.send_metrics(metrics.counts, metrics.start_ns, end_ns, self._session.summary.session_id)
        runtime.mark_step("metrics answered")
        # What was refused is refused again. Whether an unclear delta was taken nobody knows.
        taken = isinstance(outcome, Accepted | Rejected) or (metrics.in_flight and isinstance(outcome, Unclear))
        metrics.reported(end_ns, taken=taken)
        if not isinstance(outcome, Accepted):
            self.metrics_failure = outcome.message

    def _now_ns(self) -> int:
        return int(self._runtime.clock() * 1e9)

    def _settle(self, ids: Iterable[str], *, sent: bool) -> None:
        cursor, rejected, ids = self._cursor, set(self._cursor.rejected), dict.fromkeys(ids)
        cursor.unclear = [id_ for id_ in cursor.unclear if id_ not in ids]
        for id_ in ids:
            turn = self._turn_of.pop(id_)
            turn.waiting.discard(id_)
            turn.settled.add(id_)
            self._agent_of.pop(id_, None)
            cursor.last_turn_sent = max(cursor.last_turn_sent, turn.number)
            self.turns += sent and id_ in self._roots
            self._roots.discard(id_)
            if id_ not in rejected:
                cursor.accepted.append(id_)
                cursor.delivered += sent

    def _save(self) -> None:
        self._states.save(self._state)

    def _mark_accepted(self) -> None:
        """Mark the saved intent as accepted. If that fails, the ledger and the next state record it too."""
        with contextlib.suppress(OSError):
            self._states.mark_accepted(self._state.session_id)

    def _note(self, **note: Any) -> None:  # noqa: ANN401
        self.refused[f"{note['status']} {note['message']}".strip()] += note.get("spans", 1)
        self._cursor.notes = [*self._cursor.notes, {**note, "time": self._runtime.clock()}][-MAX_NOTES:]

    def _fail(self, message: str) -> NoReturn:
        self._cursor.error, self._cursor.error_at = message, self._runtime.clock()
        raise _Stop

    def _advance(self) -> None:
        """Move the cursor to the oldest turn that is not completely delivered, at most to the last one: it may grow."""
        cursor, turns = self._cursor, self._turns
        while len(turns) > 1 and not turns[0].waiting and not turns[0].unfinished:
            turns.popleft()
        if turns and (not cursor.fingerprint or turns[0].begin.offset != cursor.offset):
            cursor.fingerprint = self._transcript.fingerprint_before(turns[0].begin.offset)
        if turns:
            cursor.offset, cursor.line = turns[0].begin.offset, turns[0].begin.number
            cursor.turns_before = turns[0].number - 1
        kept: set[str] = set().union(*(turn.settled for turn in turns))
        cursor.accepted = [id_ for id_ in cursor.accepted if id_ in kept]
        cursor.rejected = [id_ for id_ in cursor.rejected if id_ in kept]
        resume = self._session.resume
        cursor.call_by_task = dict(list(resume.call_by_task.items())[-_MAX_TASKS:])
        cursor.trace_by_call = dict(list(resume.trace_by_call.items())[-_MAX_TASKS:])
        known = {*cursor.call_by_task, *cursor.call_by_task.values(), *cursor.trace_by_call}
        cursor.finished_tasks = sorted(resume.finished_tasks & known)


def _metrics_destination(destination: Destination) -> MetricsDestination | None:
    if isinstance(destination, MetricsDestination) and destination.metrics is not None:
        return destination
    return None


def _sum(counts: Iterable[Counts]) -> Counts:
    total: Counts = {}
    for each in counts:
        add_counts(total, each)
    return total
