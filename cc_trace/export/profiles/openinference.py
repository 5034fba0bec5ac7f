"""OpenInference, for Phoenix and Arize: the GenAI conventions, and what Phoenix does not derive from them.

Rule: content is sent once. A generation's messages stay in gen_ai.*, from which Phoenix takes them, and its
`input.value` and `output.value` are what a row of a list needs; of all other spans these two are the content itself,
without which Phoenix shows bare attributes.

Source: openinference-semantic-conventions; src/phoenix/trace/gen_ai/conversion.py in github.com/Arize-ai/phoenix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cc_trace.export.profiles.facts import facts
from cc_trace.export.profiles.otel import content, named
from cc_trace.export.profiles.text import json_text, plain

if TYPE_CHECKING:
    from cc_trace.export.profiles.labels import AttributeValue, Labels
    from cc_trace.spans import Span
    from cc_trace.transcript import JsonValue

_KINDS: Final = {"turn": "AGENT", "subagent": "AGENT", "generation": "LLM", "tool": "TOOL", "event": "CHAIN"}
_SHORT_CHARS: Final = 500


def attributes(span: Span, labels: Labels) -> tuple[str, dict[str, AttributeValue]]:
    """Return a span's name and attributes."""
    name, found = named(span, labels)
    found["openinference.span.kind"] = _KINDS[span.kind]
    found["metadata"] = json_text(facts(span))
    if labels.tags:
        found["tag.tags"] = list(labels.tags)
    if span.kind == "generation":
        found |= content(span)
        found |= _values(_short(_last_asked(span.input)), _short(_answered(span.output)))
    else:
        found |= _values(span.input, span.output)
    if (response := span.response) is not None and response.cost_usd is not None:
        found["llm.cost.total"] = response.cost_usd
    return name, found


def _values(given: JsonValue, result: JsonValue) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    for side, value in (("input", given), ("output", result)):
        if value is None or value == "":
            continue
        found[f"{side}.value"] = plain(value)
        # Always said: of a response Phoenix takes it for JSON otherwise.
        found[f"{side}.mime_type"] = "text/plain" if isinstance(value, str) else "application/json"
    return found


def _last_asked(given: JsonValue) -> str:
    match given:
        case [*_, {"content": str(text)}]:
            return text
        case _:
            return ""


def _answered(given: JsonValue) -> str:
    """Return what a response said, or else which tools it called."""
    match given:
        case {"content": str(text)} if text:
            return text
        case {"tool_calls": list(calls)}:
            return ", ".join(str(call["name"]) for call in calls if isinstance(call, dict) and "name" in call)
        case _:
            return ""


def _short(text: str) -> str:
    return text if len(text) <= _SHORT_CHARS else text[:_SHORT_CHARS] + "…"
