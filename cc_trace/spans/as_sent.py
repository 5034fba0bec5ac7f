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
    made: list[JsonValue] = []
    tools: dict[str, str] = {}
    for message in messages:
        match message:
            case {"role": "assistant", "content": content}:
                told = blocks(content)
                tools |= {block.id: block.name for block in told if isinstance(block, ToolUse)}
                calls: list[JsonValue] = [
                    {"id": block.id, "name": block.name, "input": block.input}
                    for block in told
                    if isinstance(block, ToolUse)
                ]
                made.append(answer(told, calls))
            case {"role": str(role), "content": content}:
                made += _said(role, content, tools)
            case _:
                made.append({"role": "user", "content": _MISSING})
    return made


def answer(told: Iterable[Block], calls: list[JsonValue]) -> dict[str, JsonValue]:
    """Return a response as one message. Blocks other than text, thinking and calls are replaced by descriptions."""
    texts: list[str] = []
    thinking: list[JsonValue] = []
    for block in told:
        if isinstance(block, Thinking):
            thinking.append("[redacted]" if block.redacted else block.text)
        elif not isinstance(block, ToolUse) and block.text.strip():
            texts.append(block.text)
    made: dict[str, JsonValue] = {"role": "assistant", "content": "\n".join(texts)}
    if thinking:
        made["thinking"] = thinking
    if calls:
        made["tool_calls"] = calls
    return made


def _said(role: str, content: JsonValue, tools: dict[str, str]) -> Iterator[JsonValue]:
    """Yield the parts of a message that is not a response: each tool result, and the content between them."""
    texts: list[JsonValue] = []
    for block in content if isinstance(content, list) else [content]:
        match block:
            case {"type": "tool_result", "tool_use_id": str(id_), **result}:
                yield from _words(role, texts)
                texts = []
                output = plain_text(result.get("content"))
                yield {"role": "tool", "tool_call_id": id_, "name": tools.get(id_, "unknown"), "content": output}
            case _:
                texts.append(block)
    yield from _words(role, texts)


def _words(role: str, texts: list[JsonValue]) -> Iterator[JsonValue]:
    if texts:
        yield {"role": role, "content": plain_text(texts)}
