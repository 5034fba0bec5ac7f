"""The attempts of the call that is waiting for a response, and which of them failed.

Claude Code 2.1.3xx records every attempt. Of one that failed and was made again, a line may tell (`system/api_error`);
of one that was rejected and sent again with other parameters, or sent again at once in an interactive session, none
does. Earlier versions write that line alone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from cc_trace.turns.model import SYSTEM, Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cc_trace.transcript import JsonValue, RequestSent, Retry

_SENT_AGAIN = "no response was recorded; sent again"
_SENT_ANEW = "no response was recorded; sent again with other parameters"


class Attempts:
    """Attempts without a response so far. Each failed one is an event, which later gets the key of its call's result.

    A request can be written before the response that it follows, as Claude Code does not write lines in the order of
    their times. So which attempts failed is known only when a response names the attempt it belongs to.
    """

    def __init__(self) -> None:
        self._sent: dict[str, RequestSent] = {}
        self._reported: list[
            tuple[str | None, Event]
        ] = []  # failures that a line told of, with the attempt where known

    @property
    def waiting(self) -> Iterable[RequestSent]:
        """Return the attempts in order."""
        return self._sent.values()

    def sent(self, entry: RequestSent) -> None:
        """Add an attempt."""
        self._sent[entry.id] = entry

    def failed(self, entry: Retry) -> Event:
        """Add a line about a failed attempt; return it as an event that began when the attempt was sent."""
        time_ns, metadata = entry.head.time_ns, dict(entry.metadata)
        last = next(reversed(self._sent.values()), None)
        if last is not None and any(id_ == last.id for id_, _ in self._reported):
            last = None
        sent_ns = last.head.time_ns if last is not None else None
        start_ns = sent_ns if sent_ns is not None and time_ns is not None and sent_ns <= time_ns else time_ns
        known: dict[str, JsonValue] = {
            "attempt": metadata.pop("retryAttempt", None),
            "status": entry.status,
            "wait_ms": metadata.pop("retryInMs", None),
            "request_id": entry.request_id,
        }
        metadata |= {name: value for name, value in known.items() if value is not None}
        made = Event(
            kind="api_retry", start_ns=start_ns, end_ns=time_ns, text=entry.message, origin=SYSTEM, metadata=metadata
        )
        self._reported.append((last.id if last is not None else None, made))
        return made

    def answered(self, ref: str | None, key: str) -> tuple[RequestSent | None, int, list[Event]]:
        """End the call whose attempt `ref` the response of this key answers.

        Return that attempt, how many were sent, and those before it that failed and no line told of. What was sent
        after it waits for another response.
        """
        request = self._sent.get(ref or "")
        if request is None:
            self._end(key, {*self._sent})
            return None, 0, []
        ids = [*self._sent]
        ended = ids[: ids.index(request.id) + 1]
        sent = [each for each in map(self._sent.__getitem__, ended) if _same_call(each, request)]
        rejected = self._rejected(sent, key)
        self._end(key, {*ended})
        return request, len(sent), rejected

    def gave_up(self, key: str) -> tuple[list[RequestSent], list[Event]]:
        """End the call with the API error of this key; return what was sent, and the failures no line told of."""
        sent = [*self._sent.values()]
        if not sent:
            self.abandon()  # there is no call to hang its retries below
            return [], []
        rejected = self._rejected([each for each in sent if _same_call(each, sent[-1])], key)
        self._end(key, {*self._sent})
        return sent, rejected

    def abandon(self) -> None:
        """Forget all attempts: nothing is waiting for them any more."""
        self._sent, self._reported = {}, []

    def abandon_before(self, time_ns: int | None) -> None:
        """Forget what was sent before a prompt came: a process that died left it without a response."""
        if time_ns is None or not (self._sent or self._reported):
            return
        self._sent = {id_: sent for id_, sent in self._sent.items() if (sent.head.time_ns or time_ns) >= time_ns}
        self._reported = [(id_, event) for id_, event in self._reported if (event.start_ns or time_ns) >= time_ns]

    def _rejected(self, sent: list[RequestSent], key: str) -> list[Event]:
        """Return the attempts before the last that failed though no line told of it, as events of a call."""
        reported, made = {id_ for id_, _ in self._reported}, list[Event]()
        for number, (one, following) in enumerate(pairwise(sent), 1):
            if one.id not in reported:
                text = _SENT_AGAIN if one.metadata == following.metadata else _SENT_ANEW
                event = Event(
                    kind="api_retry", start_ns=one.head.time_ns, end_ns=following.head.time_ns, text=text, origin=SYSTEM
                )
                event.metadata, event.key, event.answer_key = {"attempt": number}, one.id, key
                made.append(event)
        return made

    def _end(self, key: str, ended: set[str]) -> None:
        """Give the failures of these attempts the key of their call's result; forget the attempts."""
        for id_, event in self._reported:
            if id_ is None or id_ in ended:
                event.answer_key = key
        self._reported = [(id_, event) for id_, event in self._reported if id_ is not None and id_ not in ended]
        self._sent = {id_: sent for id_, sent in self._sent.items() if id_ not in ended}


def _same_call(one: RequestSent, other: RequestSent) -> bool:
    """Tell whether two attempts ask for the same response: the next request has more messages."""
    return one.messages == other.messages and one.metadata.get("query_source") == other.metadata.get("query_source")
