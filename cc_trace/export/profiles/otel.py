"""OpenTelemetry's conventions for generative AI, which any OTLP backend can read.

Rules:
- Conversation, agent and operation are on every span: Honeycomb groups by them.
- Model and usage are only on generations: backends count every span that has them as a model call.
- Messages are JSON strings. Every output message has a finish_reason: Phoenix drops those without.
- Anything the conventions have no name for is `cc_trace.*`, except the cost, which is `gen_ai.usage.cost`.
- `gen_ai.agent.id` is the id of a registered agent, not of a run, so it is not set.

Source: github.com/open-telemetry/semantic-conventions-genai (gen-ai-spans, gen-ai-agent-spans, mcp, the messages'
JSON schemas). It has no release yet; SCHEMA_URL is what its manifest says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from cc_trace.export.profiles.errors import error_type
from cc_trace.export.profiles.metadata import all_metadata, function, offered_tools, system_prompt
from cc_trace.export.profiles.text import attribute, plain
from cc_trace.values import INT64, json_text

if TYPE_CHECKING:
    from cc_trace.export.profiles.labels import AttributeValue, Labels
    from cc_trace.spans import Response, Span
    from cc_trace.transcript import JsonValue, Usage

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"
_OPERATIONS: Final = {
    "turn": "invoke_agent",
    "subagent": "invoke_agent",
    "generation": "chat",
    "tool": "execute_tool",
}
_FINISH: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_call",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "compaction": "compaction",
}
_UNFINISHED: Final = "error"  # the conventions' value for an expected finish reason that never arrived
# Metadata that the conventions have names for.
_NAMED: Final = frozenset({"session_id", "tool_name", "tool_id", "requested_model", "max_tokens", "effort"})
# The form of model names, and of response ids, shows the provider.
_BEDROCK: Final = re.compile(r"arn:aws[a-z-]*:bedrock:|(?:[a-z-]+\.)?anthropic\.claude")
_VERTEX: Final = re.compile(r"claude-[^@]*@")


def attributes(span: Span, labels: Labels) -> tuple[str, dict[str, AttributeValue]]:
    """Return a span's name and attributes."""
    name, attributes = convention_attributes(span, labels)
    attributes |= content_attributes(span)
    if labels.tags:
        attributes["cc_trace.tags"] = list(labels.tags)
    if (response := span.response) is not None and response.cost_usd is not None:
        attributes["gen_ai.usage.cost"] = response.cost_usd
    attributes |= other_metadata(span)
    return name, attributes


def other_metadata(span: Span) -> dict[str, AttributeValue]:
    """Return the metadata that the conventions have no name for."""
    return {
        f"cc_trace.{key}": attribute(value)
        for key, value in all_metadata(span).items()
        if value is not None and key not in _NAMED
    }


def convention_attributes(span: Span, labels: Labels) -> tuple[str, dict[str, AttributeValue]]:
    """Return a span's name and its attributes in the conventions, without content."""
    operation, agent = _OPERATIONS.get(span.kind, span.name), _agent(span, labels)
    attributes: dict[str, AttributeValue] = {
        "session.id": span.session_id,
        "gen_ai.conversation.id": span.session_id,
        "gen_ai.agent.name": agent,
        "gen_ai.operation.name": operation,
    }
    if labels.user_id is not None:
        attributes["user.id"] = labels.user_id
    if span.status != "ok":
        attributes["error.type"] = error_type(span)
    match span.kind:
        case "generation":
            return _generation_attributes(span, attributes)
        case "tool":
            return _tool_attributes(span, attributes)
        case "event":
            if span.name == "compaction":
                attributes["gen_ai.conversation.compacted"] = True
            return span.name, attributes
        case _:
            version = span.metadata.get("version")
            if span.kind == "turn" and isinstance(version, str):
                attributes["gen_ai.agent.version"] = version
            return f"{operation} {agent}", attributes


def content_attributes(span: Span) -> dict[str, AttributeValue]:
    """Return the content attributes of a span."""
    attributes: dict[str, AttributeValue] = {}
    if span.kind == "tool":
        if span.input is not None:
            attributes["gen_ai.tool.call.arguments"] = json_text(span.input)
        if span.output is not None:
            attributes["gen_ai.tool.call.result"] = plain(span.output)
        return attributes
    if system := system_prompt(span):
        attributes["gen_ai.system_instructions"] = json_text([_text(system)])
    if messages := _input_messages(span.input):
        attributes["gen_ai.input.messages"] = json_text(messages)
    if tools := offered_tools(span):
        attributes["gen_ai.tool.definitions"] = json_text(
            [{"type": "function", **definition} if (definition := function(tool)) else tool for tool in tools]
        )
    if span.kind == "event":  # a description of what happened, not a message
        if span.output:
            attributes["cc_trace.output"] = plain(span.output)
    elif parts := _output_parts(span.output):
        message: JsonValue = {"role": "assistant", "parts": parts, "finish_reason": finish_reason(span)}
        attributes["gen_ai.output.messages"] = json_text([message])
    return attributes


def _agent(span: Span, labels: Labels) -> str:
    return span.agent_name or labels.agent_name


def provider(response: Response | None) -> str:
    """Return the provider of a response, as far as its model and id show."""
    model, message_id = (response.model or "", response.message_id or "") if response is not None else ("", "")
    if message_id.startswith("msg_bdrk_") or _BEDROCK.match(model):
        return "aws.bedrock"
    if message_id.startswith("msg_vrtx_") or _VERTEX.match(model):
        return "gcp.vertex_ai"
    return "anthropic"


def requested_model(span: Span) -> str | None:
    """Return the requested model, or if that is not recorded, the one that responded."""
    requested = span.metadata.get("requested_model")
    if isinstance(requested, str):
        return requested
    return span.response.model if span.response is not None else None


def _generation_attributes(span: Span, attributes: dict[str, AttributeValue]) -> tuple[str, dict[str, AttributeValue]]:
    response, metadata = span.response, span.metadata
    attributes["gen_ai.provider.name"] = provider(response)
    if (model := requested_model(span)) is not None:
        attributes["gen_ai.request.model"] = model
    max_tokens, effort, reason = metadata.get("max_tokens"), metadata.get("effort"), metadata.get("stop_reason")
    if type(max_tokens) is int and max_tokens in INT64:
        attributes["gen_ai.request.max_tokens"] = max_tokens
    if isinstance(effort, str):
        attributes["gen_ai.request.reasoning.level"] = effort
    if isinstance(reason, str) or span.status != "ok":
        attributes["gen_ai.response.finish_reasons"] = [finish_reason(span)]
    if response is not None:
        if response.message_id is not None:
            attributes["gen_ai.response.id"] = response.message_id
        if response.model is not None and span.status != "error":  # a failed request has no response
            attributes["gen_ai.response.model"] = response.model
        if response.usage is not None:
            attributes |= _usage(response.usage)
    return "chat" if model is None else f"chat {model}", attributes


def _usage(usage: Usage) -> dict[str, AttributeValue]:
    """Return token counts. As in the convention, the input includes cache reads and writes."""
    cache_write = usage.cache_write_5m + usage.cache_write_1h
    attributes: dict[str, AttributeValue] = {
        "gen_ai.usage.input_tokens": usage.input + usage.cache_read + cache_write,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": cache_write,  # the old name, which most backends read
        "gen_ai.usage.cache_write.input_tokens": cache_write,
    }
    if usage.thinking:  # 0 if not recorded
        attributes["gen_ai.usage.reasoning.output_tokens"] = usage.thinking
    return attributes


def _tool_attributes(span: Span, attributes: dict[str, AttributeValue]) -> tuple[str, dict[str, AttributeValue]]:
    name = span.tool.name if span.tool is not None else span.name
    attributes["gen_ai.tool.name"] = name
    attributes["gen_ai.tool.type"] = "function"
    if span.tool is not None:
        attributes["gen_ai.tool.call.id"] = span.tool.id
    if name.startswith("mcp__"):
        attributes["mcp.method.name"] = "tools/call"
    match name, span.input:
        case "Skill", {"skill": str(skill)} | {"command": str(skill)}:
            attributes["gen_ai.skill.name"] = skill
    return f"execute_tool {name}", attributes


def _input_messages(input_: JsonValue) -> list[JsonValue]:
    """Return the input messages: of a generation its input, of others one text."""
    match input_:
        case str() if input_:
            return [{"role": "user", "parts": [_text(input_)]}]
        case list():
            return [_input_message(message) for message in input_]
        case _:
            return []


def _input_message(message: JsonValue) -> JsonValue:
    match message:
        case {"role": "assistant"}:
            return {"role": "assistant", "parts": _output_parts(message)}
        case {"role": "tool", "tool_call_id": str(id_), "content": result}:
            return {"role": "tool", "parts": [{"type": "tool_call_response", "id": id_, "response": result}]}
        case {"role": str(role), "content": text}:
            return {"role": role, "parts": [_text(text)]}
        case _:
            return {"role": "user", "parts": [_text(message)]}


def _output_parts(output: JsonValue) -> list[JsonValue]:
    """Return the parts of the output message: reasoning, text, tool calls."""
    if not isinstance(output, dict):
        return [_text(output)] if output else []
    thoughts = [thought for thought in _list(output.get("thinking")) if thought]  # often only a signature was kept
    parts: list[JsonValue] = [{"type": "reasoning", "content": plain(thought)} for thought in thoughts]
    if text := output.get("content"):
        parts.append(_text(text))
    for call in _list(output.get("tool_calls")):
        match call:
            case {"id": str(id_), "name": str(name), "input": arguments}:
                parts.append({"type": "tool_call", "id": id_, "name": name, "arguments": arguments})
    return parts


def finish_reason(span: Span) -> str:
    """Return a message's finish reason. Most lines of a transcript have none; then it is derived from the content."""
    reason = span.metadata.get("stop_reason")
    if isinstance(reason, str):
        return _FINISH.get(reason, reason)
    if span.status != "ok":
        return _UNFINISHED
    return "tool_call" if isinstance(span.output, dict) and span.output.get("tool_calls") else "stop"


def _text(value: JsonValue) -> JsonValue:
    return {"type": "text", "content": plain(value)}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
