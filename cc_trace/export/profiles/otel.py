"""OpenTelemetry's conventions for generative AI, which any OTLP backend can read.

Rules:
- Conversation, agent and operation are named on every span: Honeycomb groups by them.
- Model and usage stand on generations alone: backends count every span that has them as a call of a model.
- Messages are JSON strings. Every output message has a finish_reason: Phoenix drops those without.
- What the conventions have no name for is `cc_trace.*`.

Source: github.com/open-telemetry/semantic-conventions-genai (gen-ai-spans, gen-ai-agent-spans, mcp, the messages'
JSON schemas).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cc_trace.export.profiles.facts import facts
from cc_trace.export.profiles.text import attribute, json_text, plain

if TYPE_CHECKING:
    from cc_trace.export.profiles.labels import AttributeValue, Labels
    from cc_trace.spans import Span
    from cc_trace.transcript import JsonValue, Usage

_OPERATIONS: Final = {
    "turn": "invoke_agent",
    "subagent": "invoke_agent",
    "generation": "chat",
    "tool": "execute_tool",
}
_FINISH: Final = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_call", "max_tokens": "length"}
_NAMED: Final = frozenset({"session_id", "agent_id", "tool_name", "tool_id"})  # facts the conventions have a name for


def attributes(span: Span, labels: Labels) -> tuple[str, dict[str, AttributeValue]]:
    """Return a span's name and attributes."""
    name, found = named(span, labels)
    found |= content(span)
    if labels.tags:
        found["cc_trace.tags"] = list(labels.tags)
    if (response := span.response) is not None and response.cost_usd is not None:
        found["gen_ai.usage.cost"] = response.cost_usd
    for key, value in facts(span).items():
        if value is not None and key not in _NAMED:
            found[f"cc_trace.{key}"] = attribute(value)
    return name, found


def named(span: Span, labels: Labels) -> tuple[str, dict[str, AttributeValue]]:
    """Return a span's name and what the conventions say of it besides content."""
    operation, agent = _OPERATIONS.get(span.kind, span.name), _agent(span, labels)
    found: dict[str, AttributeValue] = {
        "session.id": span.session_id,
        "gen_ai.conversation.id": span.session_id,
        "gen_ai.agent.name": agent,
        "gen_ai.operation.name": operation,
    }
    if span.agent_id is not None:
        found["gen_ai.agent.id"] = span.agent_id
    if labels.user_id is not None:
        found["user.id"] = labels.user_id
    if span.status != "ok":
        found["error.type"] = _error_type(span)
    match span.kind:
        case "generation":
            return _named_generation(span, found)
        case "tool":
            return _named_tool(span, found)
        case "event":
            return span.name, found
        case _:
            return f"{operation} {agent}", found


def content(span: Span) -> dict[str, AttributeValue]:
    """Return what was said in a span."""
    found: dict[str, AttributeValue] = {}
    if span.kind == "tool":
        if span.input is not None:
            found["gen_ai.tool.call.arguments"] = json_text(span.input)
        if span.output is not None:
            found["gen_ai.tool.call.result"] = plain(span.output)
        return found
    if asked := _asked(span.input):
        found["gen_ai.input.messages"] = json_text(asked)
    if span.kind == "event":  # what happened in it, said by no one
        if span.output:
            found["cc_trace.output"] = plain(span.output)
    elif parts := _answered(span.output):
        answer: JsonValue = {"role": "assistant", "parts": parts, "finish_reason": _finish_reason(span)}
        found["gen_ai.output.messages"] = json_text([answer])
    return found


def _agent(span: Span, labels: Labels) -> str:
    return span.agent_name or labels.agent_name


def _error_type(span: Span) -> str:
    """Return the kind of failure, out of few; `tool_error` is the conventions' word for a result marked as an error."""
    if span.status != "error":
        return span.status
    if span.kind == "tool":
        denial = span.metadata.get("denial")
        return denial if isinstance(denial, str) else "tool_error"
    return span.name if span.kind == "event" else f"{span.kind}_error"


def _named_generation(span: Span, found: dict[str, AttributeValue]) -> tuple[str, dict[str, AttributeValue]]:
    found["gen_ai.provider.name"] = "anthropic"
    reason = span.metadata.get("stop_reason")
    if isinstance(reason, str):
        found["gen_ai.response.finish_reasons"] = [_FINISH.get(reason, reason)]
    if (response := span.response) is None:
        return "chat", found
    if response.message_id is not None:
        found["gen_ai.response.id"] = response.message_id
    if response.usage is not None:
        found |= _usage(response.usage)
    if response.model is None:
        return "chat", found
    found["gen_ai.request.model"] = found["gen_ai.response.model"] = response.model
    return f"chat {response.model}", found


def _usage(usage: Usage) -> dict[str, AttributeValue]:
    """Return token counts; the input includes what was read from and written to the cache, as the convention says."""
    written = usage.cache_write_5m + usage.cache_write_1h
    return {
        "gen_ai.usage.input_tokens": usage.input + usage.cache_read + written,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": written,  # the old name, which most backends read
        "gen_ai.usage.cache_write.input_tokens": written,
    }


def _named_tool(span: Span, found: dict[str, AttributeValue]) -> tuple[str, dict[str, AttributeValue]]:
    name = span.tool.name if span.tool is not None else span.name
    found["gen_ai.tool.name"] = name
    found["gen_ai.tool.type"] = "function"
    if span.tool is not None:
        found["gen_ai.tool.call.id"] = span.tool.id
    if name.startswith("mcp__"):
        found["mcp.method.name"] = "tools/call"
    return f"execute_tool {name}", found


def _asked(given: JsonValue) -> list[JsonValue]:
    """Return input messages: of a generation what it answers, of others their one text."""
    match given:
        case str() if given:
            return [{"role": "user", "parts": [_text(given)]}]
        case list():
            return [_input_message(message) for message in given]
        case _:
            return []


def _input_message(message: JsonValue) -> JsonValue:
    match message:
        case {"role": "tool", "tool_call_id": str(id_), "content": result}:
            return {"role": "tool", "parts": [{"type": "tool_call_response", "id": id_, "response": result}]}
        case {"role": str(role), "content": text}:
            return {"role": role, "parts": [_text(text)]}
        case _:
            return {"role": "user", "parts": [_text(message)]}


def _answered(given: JsonValue) -> list[JsonValue]:
    """Return the parts of the output message: reasoning, text, tool calls."""
    if not isinstance(given, dict):
        return [_text(given)] if given else []
    thoughts = [thought for thought in _list(given.get("thinking")) if thought]  # often only a signature was kept
    parts: list[JsonValue] = [{"type": "reasoning", "content": plain(thought)} for thought in thoughts]
    if text := given.get("content"):
        parts.append(_text(text))
    for call in _list(given.get("tool_calls")):
        match call:
            case {"id": str(id_), "name": str(name), "input": arguments}:
                parts.append({"type": "tool_call", "id": id_, "name": name, "arguments": arguments})
    return parts


def _finish_reason(span: Span) -> str:
    """Return why a message ended; most lines of a transcript do not tell, and then it follows from what they hold."""
    reason = span.metadata.get("stop_reason")
    if isinstance(reason, str):
        return _FINISH.get(reason, reason)
    if span.status != "ok":
        return span.status
    return "tool_call" if isinstance(span.output, dict) and span.output.get("tool_calls") else "stop"


def _text(value: JsonValue) -> JsonValue:
    return {"type": "text", "content": plain(value)}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
