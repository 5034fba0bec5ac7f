"""Messages in the form of chat completions, which Langfuse and MLflow show as a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cc_trace.export.profiles.metadata import function, messages, offered_tools
from cc_trace.export.profiles.text import plain
from cc_trace.values import json_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from cc_trace.spans import Span
    from cc_trace.transcript import JsonValue


def request(span: Span, convert: Callable[[JsonValue], JsonValue]) -> dict[str, JsonValue]:
    """Return a request's messages, each converted, and the tools that it offered, if known."""
    body: dict[str, JsonValue] = {"messages": [convert(message) for message in messages(span)]}
    tools = offered_tools(span)
    return {**body, "tools": [_tool(tool) for tool in tools]} if tools else body


def input_message(message: JsonValue, thoughts: Callable[[list[str]], dict[str, JsonValue]]) -> JsonValue:
    """Return one input message of a response: a prompt, a tool result, or an earlier response."""
    if not isinstance(message, dict):
        return {"role": "user", "content": plain(message)}
    if message.get("role") == "assistant":
        return output_message(message, thoughts)
    content = message.get("content")
    return {**message, "content": "" if content is None else plain(content)}


def output_message(message: dict[str, JsonValue], thoughts: Callable[[list[str]], dict[str, JsonValue]]) -> JsonValue:
    """Return a response's message. `thoughts` returns the thinking in the backend's own field."""
    chat_message: dict[str, JsonValue] = {"role": "assistant", "content": plain(message.get("content") or "")}
    thinking, calls = message.get("thinking"), message.get("tool_calls")
    if isinstance(thinking, list) and any(thinking):  # often only a signature was kept
        chat_message |= thoughts([plain(thought) for thought in thinking if thought])
    if isinstance(calls, list) and calls:
        chat_message["tool_calls"] = [_call(call) for call in calls]
    return chat_message


def _tool(tool: JsonValue) -> JsonValue:
    definition = function(tool)
    return {"type": "function", "function": definition} if definition else tool


def _call(call: JsonValue) -> JsonValue:
    match call:
        case {"id": id_, "name": name, "input": arguments}:
            return {"id": id_, "type": "function", "function": {"name": name, "arguments": json_text(arguments)}}
        case _:
            return call
