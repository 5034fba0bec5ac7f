"""Langfuse's own attributes.

Rules:
- What describes the trace stands on every span: Langfuse filters rows, and each span is one.
- Messages are in the form its UI shows as a conversation (ChatML); anything else is shown as a table of raw JSON.
- Usage has one bucket per price and no sum beside its parts: every bucket is priced and added. There is no cost: any
  key of cost_details turns the server's pricing off.
- Nothing is sent that Langfuse does not read: all else ends in metadata that cannot be filtered.

Source: packages/shared/src/server/otel/OtelIngestionProcessor.ts in github.com/langfuse/langfuse.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from cc_trace.export.profiles.chat import answered, asked
from cc_trace.export.profiles.metadata import all_metadata
from cc_trace.export.profiles.text import attribute, json_text, plain

if TYPE_CHECKING:
    from cc_trace.export.profiles.labels import AttributeValue, Labels
    from cc_trace.spans import Response, Span
    from cc_trace.transcript import JsonValue, Usage

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ENVIRONMENT: Final = re.compile(r"(?!langfuse)[a-z0-9_-]{1,40}")  # Langfuse refuses any other, and its own prefix
_LONG_CONTEXT: Final = "[1m]"  # Claude Code's mark for a context of a million tokens; no price is known by that name
_PARAMETERS: Final = ("effort", "speed", "service_tier")
# Of a turn's metadata, what describes the trace; the rest describes the root span.
_LEVELS: Final = {"error": "ERROR", "interrupted": "WARNING", "incomplete": "WARNING"}


def attributes(span: Span, labels: Labels) -> tuple[str, dict[str, AttributeValue]]:
    """Return a span's name and attributes."""
    trace = _trace_facts(span)
    found = _everywhere(span, labels, trace)
    if (level := _LEVELS.get(span.status)) is not None:
        found["langfuse.observation.level"] = level
        if span.error:
            found["langfuse.observation.status_message"] = span.error
    if (given := _input(span)) is not None:
        found["langfuse.observation.input"] = given
    if (result := _output(span)) is not None:
        found["langfuse.observation.output"] = result
    if span.response is not None:
        found |= _generation(span, span.response)
    for key, value in all_metadata(span).items():
        if value is None or (key in trace and trace[key] == value):
            continue
        # Langfuse merges both kinds of metadata into one, and there the trace's wins.
        own = f"{span.kind}_{key}" if key in trace else key
        found[f"langfuse.observation.metadata.{own}"] = attribute(value)
    return span.name, found


def environment(labels: Labels) -> str | None:
    """Return the environment, if Langfuse takes it."""
    given = labels.environment
    return given if given is not None and _ENVIRONMENT.fullmatch(given) else None


def _trace_facts(span: Span) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {
        "source": "claude-code",
        "turn_number": span.turn,
        "session_id": span.session_id,
    }
    return found | (span.about or {})


def _everywhere(span: Span, labels: Labels, trace: dict[str, JsonValue]) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {
        "langfuse.session.id": span.session_id,
        "langfuse.trace.name": f"Turn {span.turn}",
        "langfuse.observation.type": _type(span),
    }
    if labels.tags:
        found["langfuse.trace.tags"] = list(labels.tags)
    if labels.user_id is not None:
        found["langfuse.user.id"] = labels.user_id
    if labels.release is not None:
        found["langfuse.release"] = labels.release
    if (named := environment(labels)) is not None:
        found["langfuse.environment"] = named
    if isinstance(version := trace.get("version"), str):
        found["langfuse.version"] = version
    for key, value in trace.items():
        found[f"langfuse.trace.metadata.{key}"] = attribute(value)
    return found


def _type(span: Span) -> str:
    """Return Langfuse's type; its events are points in time, so an event that lasted is a span."""
    match span.kind:
        case "turn" | "subagent":
            return "agent"
        case "event":
            return "event" if span.start_ns == span.end_ns else "span"
        case _:
            return span.kind


def _generation(span: Span, response: Response) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    if response.model is not None:
        found["langfuse.observation.model.name"] = response.model.removesuffix(_LONG_CONTEXT)
    if response.usage is not None:
        found["langfuse.observation.usage_details"] = json_text(_usage(response.usage))
    if response.first_token_ns is not None:
        found["langfuse.observation.completion_start_time"] = _iso(response.first_token_ns)
    if parameters := {key: span.metadata[key] for key in _PARAMETERS if span.metadata.get(key) is not None}:
        found["langfuse.observation.model.parameters"] = json_text(parameters)
    return found


def _usage(usage: Usage) -> JsonValue:
    """Return tokens by price: `input` excludes cache, writes for five minutes and for an hour are apart."""
    buckets: dict[str, JsonValue] = {"input": usage.input, "output": usage.output}
    cache = {"cache_read_input_tokens": usage.cache_read}
    if usage.split:
        cache["input_cache_creation_5m"] = usage.cache_write_5m
        cache["input_cache_creation_1h"] = usage.cache_write_1h
    else:
        cache["input_cache_creation"] = usage.cache_write_5m + usage.cache_write_1h
    return buckets | {name: tokens for name, tokens in cache.items() if tokens}


def _input(span: Span) -> str | None:
    match span.kind, span.input:
        case _, None | "":
            return None
        case "tool", given:
            return json_text(given)
        case _, list() as messages:
            return json_text([asked(message) for message in messages]) if messages else None
        case _, given:
            return json_text([{"role": "user", "content": plain(given)}])


def _output(span: Span) -> str | None:
    match span.kind, span.output:
        case _, None | "":
            return None
        case (("tool" | "event"), given):
            return plain(given)
        case _, dict() as message:
            return json_text([answered(message, _thoughts)])
        case _, given:
            return json_text([{"role": "assistant", "content": plain(given)}])


def _thoughts(thoughts: list[str]) -> dict[str, JsonValue]:
    return {"thinking": [{"type": "thinking", "content": thought} for thought in thoughts]}


def _iso(time_ns: int) -> str:
    """Return a time in UTC, cut to the milliseconds Langfuse keeps."""
    moment = _EPOCH + timedelta(milliseconds=time_ns // 1_000_000)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
