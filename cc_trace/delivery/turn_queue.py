"""The turns of a delivery, from the oldest that is not completely delivered; they decide how far the cursor moves."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cc_trace.delivery.cursor import Cursor
    from cc_trace.spans import Resume, Span, Trace
    from cc_trace.transcript import OpenTranscript, Position

_MAX_TASKS: Final = 500  # background tasks remembered, the latest ones


@dataclass(slots=True)
class _QueuedTurn:
    """A turn, and which of its spans are delivered."""

    begin: Position
    number: int
    settled: set[str]  # spans accepted or refused for good
    waiting: set[str] = field(default_factory=set)  # spans that are final and still to be sent
    unfinished: int = 0  # number of spans that are not final


class TurnQueue:
    """Knows which spans of the turns are settled, and moves the cursor behind those that are completely delivered."""

    def __init__(self, cursor: Cursor, transcript: OpenTranscript) -> None:
        self.sent = 0  # turns of which the root was sent
        self.unfinished: set[str] = set()  # spans that are not final
        self._cursor = cursor
        self._transcript = transcript
        self._settled = {*cursor.accepted, *cursor.rejected}
        self._turns: deque[_QueuedTurn] = deque()
        self._roots: set[str] = set()
        self._turn_of: dict[str, _QueuedTurn] = {}  # spans that are waiting -> their turn
        self._agent_of: dict[str, str] = {}  # span of an agent that is not settled -> the agent

    def __contains__(self, span_id: object) -> bool:
        """Return whether a span waits to be sent."""
        return span_id in self._turn_of

    def add(self, trace: Trace, *, is_held_back: bool) -> Iterator[Span]:
        """Add a turn; yield its spans that are to be sent, children before parents, each as it begins to wait.

        `is_held_back`: nothing is sent of the turn, as if none of its spans were final.
        """
        settled = {span.span_id for span in trace.spans} & self._settled
        turn = _QueuedTurn(begin=trace.turn.begin, number=trace.turn.number, settled=settled, unfinished=trace.awaited)
        self._turns.append(turn)
        self._roots.add(trace.spans[0].span_id)
        for span in reversed(trace.spans):  # the root last
            if span.span_id in turn.settled:
                continue
            if span.agent_id is not None:
                self._agent_of[span.span_id] = span.agent_id
            if not span.final or is_held_back:
                turn.unfinished += 1
                self.unfinished.add(span.span_id)
                continue
            turn.waiting.add(span.span_id)
            self._turn_of[span.span_id] = turn
            yield span

    def settle(self, ids: Iterable[str], *, sent: bool) -> None:
        """Record in the cursor, which is not saved yet, that spans are settled. `sent`: by us, and accepted."""
        cursor, rejected, ids = self._cursor, set(self._cursor.rejected), dict.fromkeys(ids)
        cursor.unclear = [id_ for id_ in cursor.unclear if id_ not in ids]
        for id_ in ids:
            turn = self._turn_of.pop(id_)
            turn.waiting.discard(id_)
            turn.settled.add(id_)
            self._agent_of.pop(id_, None)
            cursor.last_turn_sent = max(cursor.last_turn_sent, turn.number)
            self.sent += sent and id_ in self._roots
            self._roots.discard(id_)
            if id_ not in rejected:
                cursor.accepted.append(id_)
                cursor.delivered += sent

    def advance(self, resume: Resume) -> None:
        """Move the cursor to the oldest turn that is not completely delivered, at most to the last one: it may grow."""
        cursor, turns = self._cursor, self._turns
        while len(turns) > 1 and not turns[0].waiting and not turns[0].unfinished:
            turns.popleft()
        if turns and (not cursor.fingerprint or turns[0].begin.offset != cursor.offset):
            cursor.fingerprint = self._transcript.fingerprint_before(turns[0].begin.offset)
        if turns:
            cursor.offset, cursor.line = turns[0].begin.offset, turns[0].begin.number
            cursor.turns_before = turns[0].number - 1
        settled: set[str] = set().union(*(turn.settled for turn in turns))
        cursor.accepted = [id_ for id_ in cursor.accepted if id_ in settled]
        cursor.rejected = [id_ for id_ in cursor.rejected if id_ in settled]
        cursor.call_by_task = dict(list(resume.call_by_task.items())[-_MAX_TASKS:])
        cursor.trace_by_call = dict(list(resume.trace_by_call.items())[-_MAX_TASKS:])
        tracked = {*cursor.call_by_task, *cursor.call_by_task.values(), *cursor.trace_by_call}
        cursor.finished_tasks = sorted(resume.finished_tasks & tracked)

    def count_left(self) -> None:
        """Note in the cursor how many spans are left: those to be sent, and those that are not final."""
        self._cursor.pending_spans = sum(len(turn.waiting) for turn in self._turns)
        self._cursor.unfinished_spans = sum(turn.unfinished for turn in self._turns)

    @property
    def unsettled_agents(self) -> set[str]:
        """Return the agents with spans that are not final or not delivered."""
        return {*self._agent_of.values()}
