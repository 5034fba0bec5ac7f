"""Messages in the form of chat completions, which Langfuse and MLflow show as a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cc_trace.export.profiles.text import json_text, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from cc_trace.transcript import JsonValue


def asked(message: JsonValue) -> JsonValue:
    """Return a message that a response answers: a prompt, or the result of a tool."""
    if not isinstance(message, dict):
        return {"role": "user", "content": plain(message)}
    given = message.get("content")
    return {**message, "content": "" if given is None else plain(given)}


def answered(message: dict[str, JsonValue], thoughts: Callable[[list[str]], dict[str, JsonValue]]) -> JsonValue:
    """Return a response's message; `thoughts` says where a backend has a place for them."""
    found: dict[str, JsonValue] = {"role": "assistant", "content": plain(message.get("content") or "")}
    thinking, calls = message.get("thinking"), message.get("tool_calls")
    if isinstance(thinking, list) and any(thinking):  # often only a signature was kept
        found |= thoughts([plain(thought) for thought in thinking if thought])
    if isinstance(calls, list) and calls:
        found["tool_calls"] = [_call(call) for call in calls]
    return found


def _call(call: JsonValue) -> JsonValue:
    match call:
        case {"id": id_, "name": name, "input": given}:
            return {"id": id_, "type": "function", "function": {"name": name, "arguments": json_text(given)}}
        case _:
            return call
