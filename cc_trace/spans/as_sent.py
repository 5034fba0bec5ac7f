"""Converts a request's messages, as sent, to the form of a span's input and output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cc_trace.transcript import Thinking, ToolUse, blocks, plain_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cc_trace.transcript import Block, JsonValue

_MISSING: Final = "[not in the transcript]"


def as_sent(messages: Iterable[JsonValue]) -> list[JsonValue]:
    """Return a request's messages. Tool results become separate messages."""
    converted: list[JsonValue] = []
    tool_names: dict[str, str] = {}  # by the call's id
    for message in messages:
        match message:
            case {"role": "assistant", "content": content}:
                response = blocks(content)
                uses = [block for block in response if isinstance(block, ToolUse)]
                tool_names |= {use.id: use.name for use in uses}
                calls: list[JsonValue] = [{"id": use.id, "name": use.name, "input": use.input} for use in uses]
                converted.append(assistant_message(response, calls))
            case {"role": str(role), "content": content}:
                converted += _input_messages(role, content, tool_names)
            case _:
                converted.append({"role": "user", "content": _MISSING})
    return converted


def assistant_message(response: Iterable[Block], calls: list[JsonValue]) -> dict[str, JsonValue]:
    """Return a response as one message. Blocks other than text, thinking and calls are replaced by descriptions."""
    texts: list[str] = []
    thinking: list[JsonValue] = []
    for block in response:
        if isinstance(block, ToolUse):
            continue
        if isinstance(block, Thinking):
            thinking.append("[redacted]" if block.redacted else block.text)
        elif block.text.strip():
            texts.append(block.text)
    message: dict[str, JsonValue] = {"role": "assistant", "content": "\n".join(texts)}
    if thinking:
        message["thinking"] = thinking
    if calls:
        message["tool_calls"] = calls
    return message


def _input_messages(role: str, content: JsonValue, tool_names: dict[str, str]) -> Iterator[JsonValue]:
    """Yield the parts of a message that is not a response: each tool result, and the content between them."""
    texts: list[JsonValue] = []
    for block in content if isinstance(content, list) else [content]:
        match block:
            case {"type": "tool_result", "tool_use_id": str(id_), **result}:
                yield from _text_message(role, texts)
                texts = []
                output = plain_text(result.get("content"))
                yield {"role": "tool", "tool_call_id": id_, "name": tool_names.get(id_, "unknown"), "content": output}
            case _:
                texts.append(block)
    yield from _text_message(role, texts)


def _text_message(role: str, texts: list[JsonValue]) -> Iterator[JsonValue]:
    if texts:
        yield {"role": role, "content": plain_text(texts)}
