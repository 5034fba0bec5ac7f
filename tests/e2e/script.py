"""What the model says in a session: answers chosen by a `[[tag]]` in the prompt, and the events they are sent as."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

TAG: Final = re.compile(r"\[\[([a-z0-9_]+)\]\]")
PLAN_FILE: Final = "{plan file}"  # in a call's input: the file Claude Code names in plan mode
AGENT_ID: Final = "{agent id}"  # in a call's input: the agent Claude Code named first in this conversation
_CAPTURES: Final = {
    PLAN_FILE: re.compile(r"/[^ \"`]*/plans/[^ \"`]*\.md"),
    AGENT_ID: re.compile(r"\ba[0-9a-f]{16}\b"),
}
PIECE_CHARS: Final = 24  # of a text that is streamed
START_OUTPUT_TOKENS: Final = 1  # as message_start tells; the final count comes with message_delta
_SIGNATURE: Final = "c2lnbmF0dXJl"


@dataclass(frozen=True, slots=True)
class Use:
    """A tool call the model makes."""

    name: str
    input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """An error in place of an answer."""

    status: int
    kind: str


@dataclass(frozen=True, slots=True)
class Reply:
    """One response of the model: thinking, then text, then calls, as far as they are given."""

    text: str = ""
    thinking: str = ""
    uses: tuple[Use, ...] = ()
    failures: tuple[Failure, ...] = ()  # served first, one an attempt
    always: Failure | None = None  # served every time
    hangs: bool = False  # after the first piece of its text, until the client has left
    delay_seconds: float = 0.0  # before anything of it is served: a model that takes its time


Script = dict[str, list[Reply]]


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a response cost, as the API counts it."""

    input: int
    output: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int

    @classmethod
    def of(cls, number: int) -> Tokens:
        """Return counts that no other response of a session has, so that none can be taken for another's."""
        return cls(100 + number, 1000 + 3 * number, 300 + 5 * number, 20 + 7 * number, 10 + 11 * number)

    @property
    def as_json(self) -> dict[str, Any]:
        """The usage object of a message."""
        return {
            "input_tokens": self.input,
            "output_tokens": self.output,
            "cache_read_input_tokens": self.cache_read,
            "cache_creation_input_tokens": self.cache_write_5m + self.cache_write_1h,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.cache_write_5m,
                "ephemeral_1h_input_tokens": self.cache_write_1h,
            },
            "service_tier": "standard",
        }


@dataclass(frozen=True, slots=True)
class Message:
    """A response as it is served."""

    id: str
    model: str
    tokens: Tokens
    text: str
    thinking: str
    uses: tuple[tuple[str, Use], ...]  # each with its id
    stop_reason: str
    content: tuple[dict[str, Any], ...] = field(repr=False)

    @property
    def as_json(self) -> dict[str, Any]:
        """The whole message."""
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": list(self.content),
            "stop_reason": self.stop_reason,
            "stop_sequence": None,
            "usage": self.tokens.as_json,
        }


def message(answer: Reply, number: int, model: str, asked: str) -> Message:
    """Return an answer as the message of this number; `asked` is the request's text, from which captures are taken."""
    captured = {name: found[0] for name, pattern in _CAPTURES.items() if (found := pattern.search(asked))}
    uses = tuple(
        (f"toolu_{number:06d}{place:02d}", Use(use.name, _filled(use.input, captured)))
        for place, use in enumerate(answer.uses)
    )
    content: list[dict[str, Any]] = []
    if answer.thinking:
        content.append({"type": "thinking", "thinking": answer.thinking, "signature": _SIGNATURE})
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    content += [{"type": "tool_use", "id": id_, "name": use.name, "input": use.input} for id_, use in uses]
    stop = "tool_use" if uses else "end_turn"
    return Message(
        f"msg_{number:06d}", model, Tokens.of(number), answer.text, answer.thinking, uses, stop, tuple(content)
    )


def _filled(value: dict[str, Any], captured: dict[str, str]) -> dict[str, Any]:
    return {key: captured.get(item, item) if isinstance(item, str) else item for key, item in value.items()}


def events(said: Message) -> Iterator[dict[str, Any]]:
    """Yield a message as the events of a stream."""
    start = said.as_json | {"content": [], "stop_reason": None}
    start["usage"] = start["usage"] | {"output_tokens": START_OUTPUT_TOKENS}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(said.content):
        opening, deltas = _parts(block)
        yield {"type": "content_block_start", "index": index, "content_block": opening}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": said.stop_reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": said.tokens.as_json}
    yield {"type": "message_stop"}


def _parts(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block:
        case {"type": "text", "text": str(text)}:
            pieces = [text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS)]
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
        case {"type": "thinking", "thinking": str(thought)}:
            return {"type": "thinking", "thinking": "", "signature": ""}, [
                {"type": "thinking_delta", "thinking": thought},
                {"type": "signature_delta", "signature": _SIGNATURE},
            ]
        case _:
            return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
