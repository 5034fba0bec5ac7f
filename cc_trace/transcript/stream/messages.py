"""Reads the output of `claude -p`, in any of its forms, as messages.

| form | where |
|---|---|
| a line per message | `--output-format stream-json` |
| an array of messages | `--output-format json --verbose`, and the execution file of claude-code-action |
| the `result` alone | `--output-format json` |

Anything else (a line of stderr, the torn end of a killed run) is counted and skipped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from cc_trace.transcript.parse import read_damaged

if TYPE_CHECKING:
    from collections.abc import Iterable

Message: TypeAlias = dict[str, Any]
# The partial messages with final token counts. The others, thousands of them, only repeat the complete messages in
# pieces.
_COUNTING: Final = ("message_start", "message_delta")
_PIECE: Final = re.compile(rb'\{"type":"stream_event","event":\{"type":"(?:content_block|message_stop|ping)')


@dataclass(slots=True)
class Messages:
    """Messages in order. `arrived_ns` has the time each one arrived, where it was observed."""

    items: list[Message] = field(default_factory=list)
    arrived_ns: list[int | None] = field(default_factory=list)
    skipped: int = 0

    def by_session(self) -> list[Messages]:
        """Return the messages of each session, in the order in which the sessions began.

        A message without a session id belongs to the current session; after a result, to the next one.
        """
        sessions: dict[str, Messages] = {}
        current, waiting = None, Messages()
        for message, arrived_ns in zip(self.items, self.arrived_ns, strict=True):
            session_id = message.get("session_id") or current
            target = waiting
            if session_id is not None:
                key = session_id if isinstance(session_id, str) else repr(session_id)
                if key not in sessions:
                    sessions[key] = Messages()
                target = sessions[key]
                if waiting.items:
                    target.extend(waiting)
                    waiting = Messages()
            target.items.append(message)
            target.arrived_ns.append(arrived_ns)
            current = None if message["type"] == "result" else session_id
        if sessions and waiting.items:
            [*sessions.values()][-1].extend(waiting)
        return [*sessions.values()] or [waiting]

    def extend(self, others: Messages) -> None:
        """Append all of another's messages."""
        self.items += others.items
        self.arrived_ns += others.arrived_ns

    def add(self, value: object, arrived_ns: int | None = None) -> None:
        """Append a message, or an array of messages."""
        for message in value if isinstance(value, list) else [value]:
            match message:
                case {"type": "stream_event", "event": {"type": str(kind)}} if kind not in _COUNTING:
                    continue
            if isinstance(message, dict) and isinstance(message.get("type"), str):
                self.items.append(message)
                self.arrived_ns.append(arrived_ns)
            else:
                self.skipped += 1

    def add_line(self, line: bytes, arrived_ns: int | None = None) -> None:
        """Append the message on a line, or count the line as skipped."""
        if _PIECE.match(line) or not line.strip():
            return
        try:
            self.add(orjson.loads(line), arrived_ns)
        except orjson.JSONDecodeError:
            values = [value for value in read_damaged(line) if isinstance(value, dict | list)]
            for value in values:
                self.add(value, arrived_ns)
            self.skipped += not values


def read_messages(data: bytes | Iterable[tuple[bytes, int | None]]) -> Messages:
    """Return the messages in an output, given as bytes or as lines with their arrival times."""
    messages = Messages()
    if not isinstance(data, bytes):
        lines = list(data)
        for line, arrived_ns in lines:
            messages.add_line(line, arrived_ns)
        if not messages.items and lines:  # an array that spans lines
            whole = read_messages(b"".join(line for line, _ in lines))
            whole.arrived_ns = [None] * len(whole.items)
            return whole
        return messages
    try:
        messages.add(orjson.loads(data))
    except orjson.JSONDecodeError:
        for line in data.split(b"\n"):
            messages.add_line(line)
        if not messages.items:  # an array over many lines
            for value in read_damaged(data):
                messages.add(value)
    return messages
