"""OpenInference, for Phoenix and Arize.

Rules:
- Everything they read uses OpenInference's own names; nothing relies on their conversion of gen_ai.*. The GenAI names
  of identifying attributes are also there, for a collector in between.
- Content is sent once. A generation's messages are `llm.*_messages`, and its `input.value` and `output.value` are short
  texts for lists; for all other spans these two are the content itself.
- Token counts of the prompt include the cache.

Source: openinference-semantic-conventions, and spec/ in github.com/Arize-ai/openinference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cc_trace.export.profiles.metadata import all_metadata, messages, offered_tools
from cc_trace.export.profiles.otel import convention_attributes, finish_reason, provider, requested_model
from cc_trace.export.profiles.text import plain
from cc_trace.pricing import cost_usd
from cc_trace.values import json_text

if TYPE_CHECKING:
    from cc_trace.export.profiles.labels import AttributeValue, Labels
    from cc_trace.spans import Response, Span
    from cc_trace.transcript import JsonValue

_KINDS: Final = {"turn": "AGENT", "subagent": "AGENT", "generation": "LLM", "tool": "TOOL", "event": "CHAIN"}
_PROVIDERS: Final = {"aws.bedrock": "aws", "gcp.vertex_ai": "google", "anthropic": "anthropic"}
_PARAMETERS: Final = ("max_tokens", "effort", "thinking", "thinking_budget", "speed", "service_tier")
_SHORT_CHARS: Final = 500
_DIGITS: Final = 12  # decimals of a cost in USD; the rest is floating-point error


def attributes(span: Span, labels: Labels) -> tuple[str, dict[str, AttributeValue]]:
    """Return a span's name and attributes."""
    name, attributes = convention_attributes(span, labels)
    attributes["openinference.span.kind"] = _KINDS[span.kind]
    attributes["agent.name"] = attributes["gen_ai.agent.name"]
    attributes["metadata"] = json_text(all_metadata(span))
    if labels.tags:
        attributes["tag.tags"] = list(labels.tags)
    if span.kind == "generation":
        attributes |= _input_attributes(messages(span))
        if span.output:
            attributes |= _response_attributes(span.output, "llm.output_messages.0.message")
        for number, tool in enumerate(offered_tools(span)):
            attributes[f"llm.tools.{number}.tool.json_schema"] = json_text(tool)
        attributes |= _values(_short(_last_input_text(span.input)), _short(_output_summary(span.output)))
        attributes |= _generation(span)
    else:
        attributes |= _values(span.input, span.output)
    if span.kind == "tool":
        attributes["tool.name"] = attributes["gen_ai.tool.name"]
        if span.tool is not None:
            attributes["tool.id"] = span.tool.id
    return name, attributes


def _generation(span: Span) -> dict[str, AttributeValue]:
    """Return model, parameters, tokens and cost."""
    attributes: dict[str, AttributeValue] = {
        "llm.system": "anthropic",
        "llm.provider": _PROVIDERS[provider(span.response)],
    }
    if isinstance(span.metadata.get("stop_reason"), str) or span.status != "ok":
        attributes["llm.finish_reason"] = finish_reason(span)
    if parameters := {key: span.metadata[key] for key in _PARAMETERS if span.metadata.get(key) is not None}:
        attributes["llm.invocation_parameters"] = json_text(parameters)
    if (model := requested_model(span)) is not None:
        attributes["llm.request.model_name"] = attributes["llm.model_name"] = model
    if (response := span.response) is None:
        return attributes
    if response.model is not None and span.status != "error":  # a failed request has no response
        attributes["llm.response.model_name"] = attributes["llm.model_name"] = response.model
    return attributes | _token_counts(response) | _costs(response)


def _token_counts(response: Response) -> dict[str, AttributeValue]:
    if (usage := response.usage) is None:
        return {}
    cache_write = usage.cache_write_5m + usage.cache_write_1h
    prompt = usage.input + usage.cache_read + cache_write
    attributes: dict[str, AttributeValue] = {
        "llm.token_count.prompt": prompt,
        "llm.token_count.completion": usage.output,
        "llm.token_count.total": prompt + usage.output,
        "llm.token_count.prompt_details.cache_read": usage.cache_read,
        "llm.token_count.prompt_details.cache_write": cache_write,
    }
    if usage.thinking:
        attributes["llm.token_count.completion_details.reasoning"] = usage.thinking
    return attributes


def _costs(response: Response) -> dict[str, AttributeValue]:
    """Return the cost, and its prompt and completion parts. Web searches belong to neither."""
    if response.cost_usd is None:
        return {}
    attributes: dict[str, AttributeValue] = {"llm.cost.total": response.cost_usd}
    model, usage, at_ns = response.model, response.usage, response.first_token_ns
    if model is None or usage is None or at_ns is None:
        return attributes
    prompt_usd = cost_usd(model, usage._replace(output=0, web_searches=0), at_ns)
    tokens_usd = cost_usd(model, usage._replace(web_searches=0), at_ns)
    if prompt_usd is not None and tokens_usd is not None:
        attributes["llm.cost.prompt"] = round(prompt_usd, _DIGITS)
        attributes["llm.cost.completion"] = round(tokens_usd - prompt_usd, _DIGITS)
    return attributes


def _input_attributes(conversation: list[JsonValue]) -> dict[str, AttributeValue]:
    """Return a response's input, message by message."""
    attributes: dict[str, AttributeValue] = {}
    for number, message in enumerate(conversation):
        prefix = f"llm.input_messages.{number}.message"
        match message:
            case {"role": "assistant"}:
                attributes |= _response_attributes(message, prefix)
                continue
            case {"role": str(role), "content": text}:
                attributes[f"{prefix}.role"] = role
            case _:
                attributes[f"{prefix}.role"], text = "user", message
        if text is not None:
            attributes[f"{prefix}.content"] = plain(text)
        if isinstance(message, dict):
            for key in ("tool_call_id", "name"):
                if isinstance(value := message.get(key), str):
                    attributes[f"{prefix}.{key}"] = value
    return attributes


def _response_attributes(output: JsonValue, prefix: str) -> dict[str, AttributeValue]:
    """Return a response: a lone text as content, thinking and text as parts."""
    attributes: dict[str, AttributeValue] = {f"{prefix}.role": "assistant"}
    message = output if isinstance(output, dict) else {"content": output}
    text, thoughts = message.get("content"), [plain(thought) for thought in _list(message.get("thinking")) if thought]
    if thoughts:
        parts = [("reasoning", thought) for thought in thoughts] + ([("text", plain(text))] if text else [])
        for number, (kind, part) in enumerate(parts):
            attributes[f"{prefix}.contents.{number}.message_content.type"] = kind
            attributes[f"{prefix}.contents.{number}.message_content.text"] = part
    elif text:
        attributes[f"{prefix}.content"] = plain(text)
    for number, call in enumerate(_list(message.get("tool_calls"))):
        match call:
            case {"id": str(id_), "name": str(name), "input": arguments}:
                call_prefix = f"{prefix}.tool_calls.{number}.tool_call"
                attributes[f"{call_prefix}.id"] = id_
                attributes[f"{call_prefix}.function.name"] = name
                attributes[f"{call_prefix}.function.arguments"] = json_text(arguments)
    return attributes


def _values(input_: JsonValue, output: JsonValue) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {}
    for side, value in (("input", input_), ("output", output)):
        if value is None or value == "":
            continue
        attributes[f"{side}.value"] = plain(value)
        # Always set: otherwise Phoenix takes a response for JSON.
        attributes[f"{side}.mime_type"] = "text/plain" if isinstance(value, str) else "application/json"
    return attributes


def _last_input_text(input_: JsonValue) -> str:
    match input_:
        case [*_, {"content": str(text)}]:
            return text
        case _:
            return ""


def _output_summary(output: JsonValue) -> str:
    """Return a response's text, or else the tools it called."""
    match output:
        case {"content": str(text)} if text:
            return text
        case {"tool_calls": list(calls)}:
            return ", ".join(str(call["name"]) for call in calls if isinstance(call, dict) and "name" in call)
        case _:
            return ""


def _short(text: str) -> str:
    return text if len(text) <= _SHORT_CHARS else text[:_SHORT_CHARS] + "…"


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
