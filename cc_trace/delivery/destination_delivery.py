"""Deliver one session to one destination: every span that is final and not there yet is sent, once.

Rules:
- Children go before their root, so that a trace that is visible is complete.
- The intent is saved before anything is sent. An acceptance is recorded three times: in place in the saved intent, in
  the ledger, and in the new state; each is enough. If the process dies before the first, the spans are unclear.
- A destination that can be queried is asked before unclear spans are sent again. "Not stored" is believed only
  `unclear_seconds` after the attempt ended.
- A refused batch is halved until the span to blame is found (`refusals`); it is noted and skipped.
- Any other outcome ends the delivery: the transcript keeps everything.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any, NoReturn

from cc_trace.delivery.backoff import MAX_PLAUSIBLE_WAIT_SECONDS
from cc_trace.delivery.cursor import MAX_NOTES
from cc_trace.delivery.refusals import MAX_REFUSALS, Suspects
from cc_trace.delivery.runtime import DeliveredBatch
from cc_trace.delivery.turn_queue import TurnQueue
from cc_trace.export import (
    MAX_BATCH_BYTES,
    MAX_BATCH_SPANS,
    Accepted,
    EncodesWithTurn,
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
    from cc_trace.delivery.metrics_report import MetricsReport
    from cc_trace.delivery.runtime import Plan, Runtime
    from cc_trace.delivery.state import StateFolder
    from cc_trace.export import Destination, EncodedSpan
    from cc_trace.spans import Session, Span, Trace
    from cc_trace.transcript import OpenTranscript


class _DeliveryPaused(Exception):  # noqa: N818  (not an error: the next sync goes on)
    """Nothing more can be sent now."""


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
        first_unlinked_turn: int | None = None,
    ) -> None:
        """Prepare to send the turns that `session` reads on; `transcript` is its file, `state` has the cursor to move.

        No batch is sent after `deadline`, in unix seconds. `first_unlinked_turn`: nothing is sent of turns from this
        number on while they are running, since only their own hook knows what their traces are linked to. None: the
        links are known.
        """
        self.sent = 0
        self.refused: Counter[str] = Counter()  # reason -> number of spans
        self._session = session
        self._destination = destination
        self._encodes_with_turn = destination if isinstance(destination, EncodesWithTurn) else None
        self._cursor = cursor = state.cursor(destination.name)
        self._start = self._cursor.position  # of the oldest turn that is not completely delivered
        self._ledger = None if destination.idempotent else ledger
        self._state, self._states = state, states
        self._plan, self._runtime = plan, runtime
        self._transcript = transcript
        self._deadline = deadline
        self._first_unlinked_turn = first_unlinked_turn
        self._queue = TurnQueue(cursor, transcript)
        self._batch: list[EncodedSpan] = []
        self._batch_bytes = 0
        self._flushing: list[EncodedSpan] = []  # the batch being sent
        self.failure: Retryable | Unclear | None = None  # what ended the delivery
        self.responded = False  # the destination accepted or refused something, so it can be reached
        self._suspects = Suspects(cursor)
        self._media = MediaFinder(self._files)
        self._metrics: MetricsReport | None = None
        self.metrics_failure: str | None = None  # why metrics were not accepted

    def run(self) -> bool:
        """Deliver; return whether the destination now has every span that is final."""
        cursor = self._cursor
        stopped = False
        self._resume_attempt()
        self._metrics = self._open_metrics()
        try:
            for trace in self._session.traces():
                self._add_turn(trace)
            self._runtime.mark_step("spans built")
            self._flush()
            self._blame_remaining_suspects()
            cursor.error = cursor.error_at = cursor.not_before = None
            # Spans that are no longer in the transcript can be neither sent nor asked about.
            cursor.unclear = [id_ for id_ in cursor.unclear if id_ in self._queue.unfinished]
        except _DeliveryPaused:
            stopped = True
            self._release([*self._suspects])
        if not stopped and self._metrics is not None and self._runtime.stop_reason(self._deadline) is None:
            self.metrics_failure = self._metrics.send(self._session.summary.session_id, self._save)
        self._queue.advance(self._session.resume)
        self._queue.count_left()
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
            self._settle_in_ledger(ids)

    def _open_metrics(self) -> MetricsReport | None:
        destination = self._destination
        if not self._runtime.metrics or not isinstance(destination, MetricsDestination) or destination.metrics is None:
            return None
        from cc_trace.delivery.metrics_report import MetricsReport  # noqa: PLC0415  (few want metrics)

        return MetricsReport(destination, self._cursor.metrics, self._runtime)

    @property
    def unsettled_agents(self) -> set[str]:
        """Return the agents with spans that are not final or not delivered."""
        return self._queue.unsettled_agents

    @property
    def turns(self) -> int:
        """Return the number of turns of which the root was sent."""
        return self._queue.sent

    def _add_turn(self, trace: Trace) -> None:
        root, first_unlinked = trace.spans[0], self._first_unlinked_turn
        is_unlinked = first_unlinked is not None and trace.turn.number >= first_unlinked
        for span in self._queue.add(trace, is_held_back=is_unlinked and not root.final):
            redacted = self._plan.redact(span, trace.spans)
            if self._metrics is not None:
                self._metrics.add(redacted, root.start_ns)
            self._add_to_batch(self._encode(redacted, trace.spans))

    def _encode(self, span: Span, turn: Sequence[Span]) -> EncodedSpan:
        if self._encodes_with_turn is not None:
            return self._encodes_with_turn.encode_with_turn(span, turn, self._media.find, may_query=True)
        return self._destination.encode(span)

    def _files(self) -> Iterator[tuple[Path, Position]]:
        """Yield the files and positions from which to look for images of the turns being delivered."""
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
        if (reason := self._runtime.stop_reason(self._deadline)) is not None:
            self._pause(reason)
        ready = self._claim(batch) if self._ledger is not None else batch
        turns, sent, self._flushing = self.turns, self.sent, ready
        try:
            self._send(ready)
            self._retry_suspects()
        except _DeliveryPaused:
            self._release_unsettled(ready, keep={*self._cursor.unclear})
            raise
        self._queue.advance(self._session.resume)
        self._runtime.on_batch(
            DeliveredBatch(
                to=self._destination.name,
                spans=self.sent - sent,
                turns=self.turns - turns,
                offset=self._cursor.offset,
            )
        )

    def _claim(self, batch: list[EncodedSpan]) -> list[EncodedSpan]:
        """Claim spans; return those to send: none that another session delivered or claimed, or that is stored."""
        assert self._ledger is not None  # noqa: S101
        runtime, ids, to = self._runtime, [span.span_id for span in batch], self._destination.name
        session_id = self._session.summary.session_id
        claims, since = self._ledger.claim(to, session_id, ids, runtime.clock())
        runtime.mark_step("claimed")
        self._queue.settle([id_ for id_ in ids if claims[id_] == "delivered"], sent=False)
        ready = [span for span in batch if claims[span.span_id] in ("mine", "unclear")]
        unclear = [span for span in ready if claims[span.span_id] == "unclear" or span.span_id in self._cursor.unclear]
        if not unclear or not self._destination.queryable:
            return ready
        try:
            stored = self._query_stored(unclear, max(since or 0.0, self._cursor.unclear_at or 0.0))
        except _DeliveryPaused:
            self._release_unsettled(ready, keep={span.span_id for span in unclear})
            raise
        return [span for span in ready if span.span_id not in stored]

    def _query_stored(self, unclear: list[EncodedSpan], since: float) -> frozenset[str]:
        """Return the unclear spans that are stored; end the delivery while it is too early to believe "not stored"."""
        stored = self._destination.stored_ids(unclear)
        if stored is None:
            if not self._destination.queryable:
                return frozenset()
            self._pause("cannot find out what was stored by an earlier attempt")
        if stored:
            self._settle_in_ledger(stored)
            self._queue.settle(stored, sent=False)
        now, wait = self._runtime.clock(), self._plan.unclear_seconds
        too_early = since - now < MAX_PLAUSIBLE_WAIT_SECONDS and now - min(now, since) < wait
        if too_early and not stored.issuperset(span.span_id for span in unclear):
            self._cursor.not_before = min(now, since) + wait
            self._pause("an earlier attempt may still be stored; asking again later")
        return stored

    def _send(self, spans: Sequence[EncodedSpan]) -> None:
        """Send a batch. A refused batch is sent again in halves, down to the spans that are refused alone."""
        spans = [span for span in spans if span.span_id in self._queue and span.span_id not in self._suspects]
        if not spans:
            return  # tried alone in the meantime
        rejected = self._attempt(spans)
        if rejected is None:
            return
        if len(spans) > 1:
            middle = len(spans) // 2
            self._send(spans[:middle])
            self._send(spans[middle:])
            return
        self._suspects.add(spans[0], rejected, self.sent)
        self._send_control_span()

    def _attempt(self, spans: Sequence[EncodedSpan]) -> Rejected | None:
        """Send one request and record its outcome; return a refusal for the caller to interpret."""
        cursor, runtime, ids = self._cursor, self._runtime, [span.span_id for span in spans]
        self._save_intent(ids)
        outcome = self._destination.send(spans)
        runtime.mark_step("answered")
        if not isinstance(outcome, Accepted):
            cursor.metrics.in_intent = {}
        match outcome:
            case Accepted():
                self._record_acceptance(ids, outcome)
            case Rejected():
                self.responded = True
                cursor.intent = []
                return outcome
            case Retryable(message, after):
                self.failure = outcome
                cursor.intent = []
                self._release(ids)
                cursor.not_before = runtime.clock() + after if after else None
                self._pause(message)
            case Unclear(message):
                self.failure = outcome
                cursor.unclear += ids
                cursor.intent, cursor.unclear_at = [], runtime.clock()
                if self._ledger is not None:
                    self._ledger.set_outcome_time(self._destination.name, ids, cursor.unclear_at)
                self._pause(f"{message}; it is not known what was stored")
        return None

    def _save_intent(self, ids: list[str]) -> None:
        """Save what is about to be sent, and when: if we die before the outcome is recorded, it is unclear."""
        cursor, now = self._cursor, self._runtime.clock()
        if self._ledger is not None:
            error = self._ledger.set_outcome_time(self._destination.name, ids, now + self._plan.request_seconds)
            if error is not None:
                self._pause(f"ledger: {error}")
        cursor.unclear = [id_ for id_ in cursor.unclear if id_ not in set(ids)]
        cursor.intent, cursor.intent_at = ids, now
        cursor.metrics.in_intent = self._metrics.counts_of(ids) if self._metrics is not None else {}
        self._save()
        self._runtime.mark_step("intent saved")

    def _record_acceptance(self, ids: list[str], accepted: Accepted) -> None:
        """Record that a batch was accepted: in the saved intent, in the ledger, and in the new state."""
        self.responded = True
        self._mark_intent_accepted()
        self._cursor.metrics.accept()
        if accepted.dropped_spans:
            self._note_refusal(spans=accepted.dropped_spans, status="partial success", message=accepted.message or "")
        self._settle(ids)
        self.sent += len(ids)
        self._cursor.refusing_since = None

    def _send_control_span(self) -> None:
        """After a span was refused alone, send the smallest other one, to see whether the backend accepts any."""
        in_a_row = self._suspects.refused_in_a_row(self.sent)
        if in_a_row >= MAX_REFUSALS:
            self._pause_if_misconfigured()
            return
        candidates = [
            span for span in self._flushing if span.span_id in self._queue and span.span_id not in self._suspects
        ]
        if in_a_row and candidates:
            self._send([min(candidates, key=lambda span: span.size)])

    def _retry_suspects(self) -> None:
        """Resend suspects once another span has been accepted; refused again, they are to blame."""
        while (suspect := self._suspects.take_retriable(self.sent)) is not None:
            if (rejected := self._attempt([suspect])) is not None:
                self._blame({suspect.span_id: rejected})

    def _blame_remaining_suspects(self) -> None:
        """Leave suspects for the next sync; blame them once the backend has refused everything for a week."""
        if [*self._suspects]:
            self._pause_if_misconfigured()
            self._blame(self._suspects.take_all())

    def _pause_if_misconfigured(self) -> None:
        if (reason := self._suspects.reason_to_wait(self._runtime.clock())) is not None:
            self._pause(reason)

    def _blame(self, rejections: dict[str, Rejected]) -> None:
        for id_, outcome in rejections.items():
            self._note_refusal(span_id=id_, status=outcome.status, message=outcome.message)
        self._cursor.rejected += rejections
        self._settle([*rejections], accepted=False)

    def _release_unsettled(self, spans: Sequence[EncodedSpan], keep: set[str]) -> None:
        """Give up the claims on these spans, except on the settled ones and those in `keep`, which may be stored."""
        self._release([span.span_id for span in spans if span.span_id in self._queue and span.span_id not in keep])

    def _release(self, ids: Sequence[str]) -> None:
        """Give up the claims on spans that were not stored."""
        if self._ledger is not None:
            self._ledger.release(self._destination.name, ids)

    def _settle(self, ids: list[str], *, accepted: bool = True) -> None:
        """Record that these spans were accepted, or refused for good: in the ledger, then in the state."""
        if self._ledger is not None:
            self._settle_in_ledger(ids)
            self._runtime.mark_step("ledger settled")
        self._cursor.intent = []
        self._queue.settle(ids, sent=accepted)
        self._save()
        self._runtime.mark_step("state saved")

    def _settle_in_ledger(self, ids: Iterable[str]) -> None:
        """Record in the ledger that spans are settled; if that fails, the state keeps them until it works."""
        ids = [*ids]
        if self._ledger is not None and self._ledger.settle(
            self._destination.name, self._session.summary.session_id, ids
        ):
            self._cursor.not_in_ledger += ids

    def _save(self) -> None:
        self._states.save(self._state)

    def _mark_intent_accepted(self) -> None:
        """Mark the saved intent as accepted. If that fails, the ledger and the next state record it too."""
        with contextlib.suppress(OSError):
            self._states.mark_accepted(self._state.session_id)

    def _note_refusal(self, **note: Any) -> None:  # noqa: ANN401
        self.refused[f"{note['status']} {note['message']}".strip()] += note.get("spans", 1)
        self._cursor.notes = [*self._cursor.notes, {**note, "time": self._runtime.clock()}][-MAX_NOTES:]

    def _pause(self, message: str) -> NoReturn:
        self._cursor.error, self._cursor.error_at = message, self._runtime.clock()
        raise _DeliveryPaused
