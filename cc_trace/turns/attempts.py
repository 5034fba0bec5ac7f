"""The attempts of the request that is waiting for a response, and which of them failed.

Claude Code 2.1.3xx records every attempt. A failed attempt that is retried may have a line of its own
(`system/api_error`). An attempt that was rejected and resent with other parameters, or resent at once in an interactive
session, has none. Earlier versions record only the failures.
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
    """Attempts without a response so far. A failed one is an event, which later gets the key of its request's outcome.

    A request can be written before the response that precedes it, as Claude Code does not write lines in the order of
    their times. Which attempts failed is known once a response names its own.
    """

    def __init__(self) -> None:
        self._sent: dict[str, RequestSent] = {}
        self._reported: list[tuple[str | None, Event]] = []  # failures that have a line, with the attempt if known

    @property
    def waiting(self) -> Iterable[RequestSent]:
        """Return the attempts in order."""
        return self._sent.values()

    def add_sent(self, entry: RequestSent) -> None:
        """Add an attempt."""
        self._sent[entry.id] = entry

    def add_failure(self, entry: Retry) -> Event:
        """Add a line about a failed attempt, and return it as an event that began when the attempt was sent."""
        time_ns, metadata = entry.head.time_ns, dict(entry.metadata)
        last = next(reversed(self._sent.values()), None)
        if last is not None and any(id_ == last.id for id_, _ in self._reported):
            last = None
        sent_ns = last.head.time_ns if last is not None else None
        start_ns = sent_ns if sent_ns is not None and time_ns is not None and sent_ns <= time_ns else time_ns
        fields: dict[str, JsonValue] = {
            "attempt": metadata.pop("retryAttempt", None),
            "status": entry.status,
            "wait_ms": metadata.pop("retryInMs", None),
            "request_id": entry.request_id,
        }
        metadata |= {name: value for name, value in fields.items() if value is not None}
        event = Event(
            kind="api_retry", start_ns=start_ns, end_ns=time_ns, text=entry.message, origin=SYSTEM, metadata=metadata
        )
        self._reported.append((last.id if last is not None else None, event))
        return event

    def end_with_response(self, attempt_id: str | None, key: str) -> tuple[RequestSent | None, int, list[Event]]:
        """End the request whose attempt got the response with this key.

        Return that attempt, how many were sent, and the failed ones before it that have no line. Attempts sent after it
        keep waiting for another response.
        """
        if not (self._sent or self._reported):  # as always before 2.1.3xx
            return None, 0, []
        request = self._sent.get(attempt_id or "")
        if request is None:
            self._end(key, {*self._sent})
            return None, 0, []
        ids = [*self._sent]
        ended = ids[: ids.index(request.id) + 1]
        sent = [each for each in map(self._sent.__getitem__, ended) if _same_request(each, request)]
        rejected = self._rejected(sent, key)
        self._end(key, {*ended})
        return request, len(sent), rejected

    def end_with_error(self, key: str) -> tuple[list[RequestSent], list[Event]]:
        """End the request with the API error of this key; return its attempts, and the failures that have no line."""
        sent = [*self._sent.values()]
        if not sent:
            self.abandon()  # no request to place its retries under
            return [], []
        rejected = self._rejected([each for each in sent if _same_request(each, sent[-1])], key)
        self._end(key, {*self._sent})
        return sent, rejected

    def abandon(self) -> None:
        """Discard all attempts: no response will come."""
        self._sent, self._reported = {}, []

    def abandon_before(self, time_ns: int | None) -> None:
        """Discard attempts sent before a prompt: the process died and left them without a response."""
        if time_ns is None or not (self._sent or self._reported):
            return
        self._sent = {id_: sent for id_, sent in self._sent.items() if (sent.head.time_ns or time_ns) >= time_ns}
        self._reported = [(id_, event) for id_, event in self._reported if (event.start_ns or time_ns) >= time_ns]

    def _rejected(self, sent: list[RequestSent], key: str) -> list[Event]:
        """Return an event for each attempt but the last whose failure has no line."""
        reported, events = {id_ for id_, _ in self._reported}, list[Event]()
        for number, (attempt, following) in enumerate(pairwise(sent), 1):
            if attempt.id not in reported:
                event = Event(
                    kind="api_retry",
                    start_ns=attempt.head.time_ns,
                    end_ns=following.head.time_ns,
                    text=_SENT_AGAIN if attempt.metadata == following.metadata else _SENT_ANEW,
                    origin=SYSTEM,
                    metadata={"attempt": number},
                    key=attempt.id,
                    outcome_key=key,
                )
                events.append(event)
        return events

    def _end(self, key: str, ended: set[str]) -> None:
        """Give the failures of these attempts the key of their request's outcome, and discard the attempts."""
        for id_, event in self._reported:
            if id_ is None or id_ in ended:
                event.outcome_key = key
        self._reported = [(id_, event) for id_, event in self._reported if id_ is not None and id_ not in ended]
        self._sent = {id_: sent for id_, sent in self._sent.items() if id_ not in ended}


def _same_request(one: RequestSent, other: RequestSent) -> bool:
    """Return whether two attempts are for the same response. The next request has more messages."""
    return one.messages == other.messages and one.metadata.get("query_source") == other.metadata.get("query_source")
