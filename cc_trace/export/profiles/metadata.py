"""A span's metadata, with what else is known of it and has no name in a convention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cc_trace.spans import Span
    from cc_trace.transcript import JsonValue


# What a request had beside its messages: every profile has a place of its own for it.
_SYSTEM_PROMPT: Final = "system_prompt"
_TOOLS: Final = "tools"


def all_metadata(span: Span) -> dict[str, JsonValue]:
    """Return what a profile puts where its destination has metadata."""
    found: dict[str, JsonValue] = {"turn_number": span.turn, **span.metadata}
    if span.kind == "generation":
        found.pop(_SYSTEM_PROMPT, None)
        found.pop(_TOOLS, None)
    if span.agent_id is not None:
        found["agent_id"] = span.agent_id
    if (response := span.response) is not None:
        if response.request_id is not None:
            found["request_id"] = response.request_id
        if response.usage is not None and not response.usage_complete:
            found["usage_complete"] = False  # said only where it is not: the counts are then a lower bound
    return found


def system_prompt(span: Span) -> str:
    """Return the system prompt of a request; empty where it is not told."""
    text = span.metadata.get(_SYSTEM_PROMPT) if span.kind == "generation" else None
    return text if isinstance(text, str) else ""


def messages(span: Span) -> list[JsonValue]:
    """Return the messages of a request, its system prompt first; none where a span has a text, or nothing."""
    given, system = span.input if isinstance(span.input, list) else [], system_prompt(span)
    return [{"role": "system", "content": system}, *given] if system else given


def offered_tools(span: Span) -> list[JsonValue]:
    """Return the tools that a request offered, with their schemas; none where they are not told."""
    tools = span.metadata.get(_TOOLS) if span.kind == "generation" else None
    return tools if isinstance(tools, list) else []


def function(tool: JsonValue) -> dict[str, JsonValue]:
    """Return name, description and parameters of a tool that was offered; empty: one of the API's own."""
    if not isinstance(tool, dict) or "input_schema" not in tool:
        return {}
    named = {"name": "name", "description": "description", "parameters": "input_schema"}
    return {key: tool[given] for key, given in named.items() if given in tool}
