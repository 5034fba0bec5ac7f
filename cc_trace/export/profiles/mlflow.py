"""MLflow: the GenAI conventions, with content in MLflow's own attributes and usage in both.

Rules:
- Content is sent once, as a chat completion's request and response: MLflow's lists shorten this form to a text, and its
  UI shows it as a conversation. GenAI messages appear in lists as JSON, and with reasoning as YAML.
- The type is in `mlflow.spanType`: MLflow also derives one from the conventions, but searches and counts by this.
- Usage has 1-hour cache writes separately, for which the conventions have no name. Cost is not sent: MLflow has its own
  prices.

Source: mlflow/tracing/otel/translation, mlflow/tracing/utils/truncation.py in github.com/mlflow/mlflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cc_trace.export.profiles.chat import input_message, output_message, request
from cc_trace.export.profiles.otel import convention_attributes, other_metadata
from cc_trace.export.profiles.text import plain
from cc_trace.values import json_text

if TYPE_CHECKING:
    from cc_trace.export.profiles.labels import AttributeValue, Labels
    from cc_trace.spans import Span
    from cc_trace.transcript import JsonValue, Usage

_TYPES: Final = {"turn": "AGENT", "subagent": "AGENT", "generation": "CHAT_MODEL", "tool": "TOOL", "event": "TASK"}


def attributes(span: Span, labels: Labels) -> tuple[str, dict[str, AttributeValue]]:
    """Return a span's name and attributes."""
    _, attributes = convention_attributes(span, labels)
    attributes["mlflow.spanType"] = _TYPES[span.kind]
    if (text := _input(span)) is not None:
        attributes["mlflow.spanInputs"] = text
    if (text := _output(span)) is not None:
        attributes["mlflow.spanOutputs"] = text
    if (response := span.response) is not None and response.usage is not None:
        attributes["mlflow.chat.tokenUsage"] = json_text(_usage(response.usage))
    if span.kind == "turn":
        attributes["mlflow.traceTag.mlflow.traceName"] = span.name
        if labels.tags:
            attributes["mlflow.traceTag.tags"] = ", ".join(labels.tags)
    return span.name, attributes | other_metadata(span)


def _usage(usage: Usage) -> JsonValue:
    """Return token counts. The input includes cache reads and writes."""
    cache_write = usage.cache_write_5m + usage.cache_write_1h
    input_tokens = usage.input + usage.cache_read + cache_write
    return {
        "input_tokens": input_tokens,
        "output_tokens": usage.output,
        "total_tokens": input_tokens + usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": cache_write,
        "cache_creation_input_tokens_above_1hr": usage.cache_write_1h,
    }


def _input(span: Span) -> str | None:
    match span.kind, span.input:
        case _, None | "" | []:
            return None
        case (("tool" | "event"), value):
            return plain(value)
        case _, list():
            return json_text(request(span, lambda message: input_message(message, _thoughts)))
        case _, value:
            return json_text({"messages": [{"role": "user", "content": plain(value)}]})


def _output(span: Span) -> str | None:
    match span.kind, span.output:
        case _, None | "":
            return None
        case (("tool" | "event"), value):
            return plain(value)
        case _, dict() as message:
            return json_text({"choices": [{"message": output_message(message, _thoughts)}]})
        case _, value:
            return json_text({"choices": [{"message": {"role": "assistant", "content": plain(value)}}]})


def _thoughts(thoughts: list[str]) -> dict[str, JsonValue]:
    return {"reasoning": "\n\n".join(thoughts)}
