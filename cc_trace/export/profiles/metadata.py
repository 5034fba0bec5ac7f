"""A span's metadata, together with its other fields that the conventions have no names for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cc_trace.spans import Span
    from cc_trace.transcript import JsonValue


# What a request has besides its messages. Every profile has its own fields for these.
_SYSTEM_PROMPT: Final = "system_prompt"
_TOOLS: Final = "tools"


def all_metadata(span: Span) -> dict[str, JsonValue]:
    """Return all metadata for a destination's metadata field."""
    metadata: dict[str, JsonValue] = {"turn_number": span.turn, **span.metadata}
    if span.kind == "generation":
        metadata.pop(_SYSTEM_PROMPT, None)
        metadata.pop(_TOOLS, None)
    if span.agent_id is not None:
        metadata["agent_id"] = span.agent_id
    if (response := span.response) is not None:
        if response.request_id is not None:
            metadata["request_id"] = response.request_id
        if response.usage is not None and not response.usage_complete:
            metadata["usage_complete"] = False  # present only if incomplete: the counts are then a lower bound
    return metadata


def system_prompt(span: Span) -> str:
    """Return the system prompt of a request, empty if it is not included."""
    text = span.metadata.get(_SYSTEM_PROMPT) if span.kind == "generation" else None
    return text if isinstance(text, str) else ""


def messages(span: Span) -> list[JsonValue]:
    """Return the messages of a request, its system prompt first; none if the span's input is a text or empty."""
    conversation, system = span.input if isinstance(span.input, list) else [], system_prompt(span)
    return [{"role": "system", "content": system}, *conversation] if system else conversation


def offered_tools(span: Span) -> list[JsonValue]:
    """Return the tools that a request offered, with their schemas; none if they are not included."""
    tools = span.metadata.get(_TOOLS) if span.kind == "generation" else None
    return tools if isinstance(tools, list) else []


def function(tool: JsonValue) -> dict[str, JsonValue]:
    """Return name, description and parameters of an offered tool; empty for one of the API's built-in tools."""
    if not isinstance(tool, dict) or "input_schema" not in tool:
        return {}
    fields = {"name": "name", "description": "description", "parameters": "input_schema"}
    return {key: tool[field] for key, field in fields.items() if field in tool}
