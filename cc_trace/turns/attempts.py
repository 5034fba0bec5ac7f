"""The attempts of the call that waits for a response, and which of them failed.

Claude Code 2.1.3xx records every attempt. Of one that failed and was made again, a line may tell (`system/api_error`);
a request that was rejected is sent again in another form without one. Earlier versions write that line alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cc_trace.turns.model import SYSTEM, Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cc_trace.transcript import JsonValue, RequestSent, Retry

_SENT_AGAIN = "no response; sent again in another form"


class Attempts:
    """What was sent since the last response. Each failed attempt is an event, which learns what its call came to."""

    def __init__(self) -> None:
        self._sent: dict[str, RequestSent] = {}
        self._failed: list[Event] = []
        self._told = False  # a line told that the last attempt failed

    @property
    def waiting(self) -> Iterable[RequestSent]:
        """Return the attempts in order."""
        return self._sent.values()

    def sent(self, entry: RequestSent) -> Event | None:
        """Take an attempt; return the failure of the one before it where no line told that."""
        before = next(reversed(self._sent.values()), None)
        made: Event | None = None
        if before is not None and not self._told and _same_caller(before, entry):
            known: dict[str, JsonValue] = {"attempt": len(self._sent)}
            made = Event("api_retry", before.head.time_ns, entry.head.time_ns, _SENT_AGAIN, SYSTEM, known)
            made.key = before.id
            self._failed.append(made)
        self._sent[entry.id], self._told = entry, False
        return made

    def failed(self, entry: Retry) -> Event:
        """Take a line that tells of a failed attempt; return it as an event, which began when it was sent."""
        time_ns, metadata = entry.head.time_ns, dict(entry.metadata)
        last = next(reversed(self._sent.values()), None) if not self._told else None
        sent_ns = last.head.time_ns if last is not None else None
        start_ns = sent_ns if sent_ns is not None and time_ns is not None and sent_ns <= time_ns else time_ns
        known: dict[str, JsonValue] = {
            "attempt": metadata.pop("retryAttempt", None),
            "status": entry.status,
            "wait_ms": metadata.pop("retryInMs", None),
            "request_id": entry.request_id,
        }
        metadata |= {name: value for name, value in known.items() if value is not None}
        made = Event("api_retry", start_ns, time_ns, entry.message, SYSTEM, metadata)
        self._failed.append(made)
        self._told = True
        return made

    def answered(self, ref: str | None, key: str) -> tuple[RequestSent | None, int]:
        """End the call with the response of this key; return the request that it names, and how many were sent."""
        request, count = self._sent.get(ref or ""), len(self._sent)
        self._end(key)
        return request, count if request is not None else 0

    def gave_up(self, key: str) -> list[RequestSent]:
        """End the call with the API error of this key; return what was sent."""
        sent = [*self._sent.values()]
        if sent:
            self._end(key)
        else:
            self.abandon()  # there is no call to hang its retries below
        return sent

    def abandon(self) -> None:
        """Forget what nobody waits for any more."""
        self._sent, self._failed, self._told = {}, [], False

    def abandon_before(self, time_ns: int | None) -> None:
        """Forget what was sent before a prompt came: a process that died left it without a response."""
        if time_ns is None or not (self._sent or self._failed):
            return
        kept = {id_: sent for id_, sent in self._sent.items() if (sent.head.time_ns or time_ns) >= time_ns}
        self._told = self._told and len(kept) == len(self._sent)
        self._sent = kept
        self._failed = [event for event in self._failed if (event.start_ns or time_ns) >= time_ns]

    def _end(self, key: str) -> None:
        for event in self._failed:
            event.answer_key = key
        self.abandon()


def _same_caller(one: RequestSent, other: RequestSent) -> bool:
    return one.id != other.id and one.metadata.get("query_source") == other.metadata.get("query_source")
