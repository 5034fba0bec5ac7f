"""Langfuse's own attributes.

Rules:
- The trace's attributes are on every span: Langfuse filters rows, and each span is a row.
- Messages have the form that its UI shows as a conversation (ChatML); anything else is shown as a table of raw JSON.
- Every text is shown as Markdown, so a tool's output is put in a code fence. Answers and prompts are Markdown.
- Names are descriptive and few: Langfuse filters and groups by them. What started a turn is in the trace's name beside
  its number, and among the tags, which are the same for all turns started by a command.
- Usage has one bucket per price and no sums: every bucket is priced and added. Any key of cost_details turns the
  server's pricing off, so a cost is either `total`, from us, or the server's own.
- An image is shown if its reference is in an `image_url` part; within a text the reference remains text.
- Nothing is sent that Langfuse does not read: it would end up in metadata that cannot be filtered.

Source: packages/shared/src/server/otel/OtelIngestionProcessor.ts in github.com/langfuse/langfuse.
"""

from __future__ import annotations

import base64
import re
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from cc_trace.export.profiles.chat import input_message, output_message, request
from cc_trace.export.profiles.fences import fenced, file_language, is_verbatim
from cc_trace.export.profiles.metadata import all_metadata
from cc_trace.export.profiles.text import attribute, plain
from cc_trace.text import rfc3339, shortened
from cc_trace.transcript import MEDIA_MARK
from cc_trace.values import json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cc_trace.export.profiles.labels import AttributeValue, Labels
    from cc_trace.spans import Response, Span
    from cc_trace.transcript import JsonValue, Media, Usage

_ENVIRONMENT: Final = re.compile(r"(?!langfuse)[a-z0-9_-]{1,40}")  # Langfuse rejects any other, and its own prefix
_LONG_CONTEXT: Final = "[1m]"  # Claude Code's suffix for a context of a million tokens; price lists do not have it
_PARAMETERS: Final = ("effort", "speed", "service_tier")
_MAX_DESCRIPTION: Final = 80  # characters of an agent's task in its name
_CI: Final = "claude-code-github-action"  # the entrypoint of Anthropic's own action
_LEVELS: Final = {"error": "ERROR", "interrupted": "WARNING", "incomplete": "WARNING"}


class Additions(NamedTuple):
    """What is sent with a span in addition to its own data."""

    cost_usd: float | None = None  # replaces the server's own
    media: Mapping[str, Media] = MappingProxyType({})  # uploads, by the digest in the text


_NOTHING: Final = Additions()


def attributes(span: Span, labels: Labels, additions: Additions = _NOTHING) -> tuple[str, dict[str, AttributeValue]]:
    """Return a span's name and attributes."""
    trace = _trace_attributes(span)
    attributes = _common_attributes(span, labels, trace)
    if (level := _LEVELS.get(span.status)) is not None:
        attributes["langfuse.observation.level"] = level
        if span.error:
            attributes["langfuse.observation.status_message"] = span.error
    if (text := _input(span, additions.media)) is not None:
        attributes["langfuse.observation.input"] = text
    if (text := _output(span, additions.media)) is not None:
        attributes["langfuse.observation.output"] = text
    if span.response is not None:
        attributes |= _generation(span, span.response)
    if additions.cost_usd is not None:
        attributes["langfuse.observation.cost_details"] = json_text({"total": additions.cost_usd})
    for key, value in all_metadata(span).items():
        if value is None or (key in trace and trace[key] == value):
            continue
        # Langfuse merges both kinds of metadata into one, and there the trace's wins.
        name = f"{span.kind}_{key}" if key in trace else key
        attributes[f"langfuse.observation.metadata.{name}"] = attribute(value)
    return _name(span, trace), attributes


def environment(labels: Labels) -> str | None:
    """Return the environment if Langfuse accepts it."""
    name = labels.environment
    return name if name is not None and _ENVIRONMENT.fullmatch(name) else None


def _trace_attributes(span: Span) -> dict[str, JsonValue]:
    attributes: dict[str, JsonValue] = {
        "source": "claude-code",
        "turn_number": span.turn,
        "session_id": span.session_id,
    }
    return attributes | (span.about or {})


def _common_attributes(span: Span, labels: Labels, trace: dict[str, JsonValue]) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "langfuse.session.id": span.session_id,
        "langfuse.trace.name": _trace_name(span, trace),
        "langfuse.trace.tags": _tags(labels, trace),
        "langfuse.observation.type": _type(span),
    }
    if labels.user_id is not None:
        attributes["langfuse.user.id"] = labels.user_id
    if labels.release is not None:
        attributes["langfuse.release"] = labels.release
    if (environment_name := environment(labels)) is not None:
        attributes["langfuse.environment"] = environment_name
    if isinstance(version := trace.get("version"), str):
        attributes["langfuse.version"] = version
    for key, value in trace.items():
        attributes[f"langfuse.trace.metadata.{key}"] = attribute(value)
    return attributes


def _trace_name(span: Span, trace: dict[str, JsonValue]) -> str:
    return _with_trigger(f"Turn {span.turn}", trace)


def _with_trigger(name: str, trace: dict[str, JsonValue]) -> str:
    """Return a name, followed by what started the turn unless that was a prompt."""
    trigger = trace.get("started_by", "prompt")
    return name if trigger == "prompt" else f"{name} · {plain(trigger)}"


def _tags(labels: Labels, trace: dict[str, JsonValue]) -> list[str]:
    """Return the tags: the program, the command that started the turn, interactive or not, and the user's."""
    tags, started_by, entrypoint = ["claude-code"], trace.get("started_by"), trace.get("entrypoint")
    if isinstance(started_by, str) and started_by.startswith("/"):
        tags.append(started_by)
    if isinstance(entrypoint, str):
        headless = "ci" if entrypoint == _CI else "headless"
        tags.append(headless if entrypoint == _CI or entrypoint.startswith("sdk") else "interactive")
    return [*dict.fromkeys((*tags, *labels.tags))]


def _name(span: Span, trace: dict[str, JsonValue]) -> str:
    """Return an observation's name: an agent with its task, an MCP tool with its server."""
    match span.kind, span.metadata.get("description"):
        case "turn", _:
            return _with_trigger(span.name, trace)
        case "subagent", str(description) if words := " ".join(description.split()):
            return f"{span.name} · {shortened(words, _MAX_DESCRIPTION)}"
        case "tool", _ if span.name.startswith("mcp__"):
            server, _, tool = span.name.removeprefix("mcp__").partition("__")
            return f"{server} · {tool}" if server and tool else span.name
        case _:
            return span.name


def _type(span: Span) -> str:
    """Return Langfuse's type. Its events are points in time, so an event with a duration is a span."""
    match span.kind:
        case "turn" | "subagent":
            return "agent"
        case "event":
            return "event" if span.start_ns == span.end_ns else "span"
        case _:
            return span.kind


def _generation(span: Span, response: Response) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {}
    if response.model is not None:
        attributes["langfuse.observation.model.name"] = model_name(response.model)
    if response.usage is not None:
        attributes["langfuse.observation.usage_details"] = json_text({**usage_buckets(response.usage)})
    if (first_token_ns := _first_token(span, response)) is not None:
        attributes["langfuse.observation.completion_start_time"] = rfc3339(first_token_ns)
    if parameters := {key: span.metadata[key] for key in _PARAMETERS if span.metadata.get(key) is not None}:
        attributes["langfuse.observation.model.parameters"] = json_text(parameters)
    return attributes


def _first_token(span: Span, response: Response) -> int | None:
    """Return when the first token arrived, or None if that is not known.

    A response's first line is written when its first block is complete. Only thinking has a recorded duration.
    """
    thinking_ms, first_block_ns, start_ns = span.metadata.get("thinking_ms"), response.first_token_ns, span.start_ns
    thinking = span.output.get("thinking") if isinstance(span.output, dict) else None
    if not isinstance(thinking_ms, int | float) or first_block_ns is None or start_ns is None:
        return None
    if not isinstance(thinking, list) or len(thinking) != 1:
        return None  # a sum of several says nothing about the first
    first_token_ns = first_block_ns - int(thinking_ms * 1_000_000)
    return first_token_ns if start_ns <= first_token_ns <= first_block_ns else None


def model_name(model: str) -> str:
    """Return a model's name as in price lists."""
    return model.removesuffix(_LONG_CONTEXT)


def media_id(media: Media) -> str:
    """Return Langfuse's id for some content. It is derived from the SHA-256, so it is known before the upload."""
    return base64.urlsafe_b64encode(media.sha256).decode()[:22]


def usage_buckets(usage: Usage) -> dict[str, int]:
    """Return tokens by price: `input` excludes cache; 5-minute and 1-hour writes are separate."""
    buckets = {"input": usage.input, "output": usage.output}
    cache = {"cache_read_input_tokens": usage.cache_read}
    if usage.split:
        cache["input_cache_creation_5m"] = usage.cache_write_5m
        cache["input_cache_creation_1h"] = usage.cache_write_1h
    else:
        cache["input_cache_creation"] = usage.cache_write_5m + usage.cache_write_1h
    return buckets | {name: tokens for name, tokens in cache.items() if tokens}


def _input(span: Span, media: Mapping[str, Media]) -> str | None:
    match span.kind, span.input:
        case _, None | "":
            return None
        case "tool", arguments:
            return json_text(arguments)
        case _, []:
            return None
        case _, list():
            body = request(span, partial(_input_message, media=media))
            return json_text(body if "tools" in body else body["messages"])
        case _, value:
            return json_text([{"role": "user", "content": _content(plain(value), media)}])


def _output(span: Span, media: Mapping[str, Media]) -> str | None:
    match span.kind, span.output:
        case _, None | "":
            return None
        case "tool", str(output) if media and isinstance(parts := _content(output, media, _formatter(span.name)), list):
            return json_text([{"role": "tool", "name": span.name, "content": parts}])
        case "tool", str(output):
            failed = span.status != "ok"  # then it is not the file's content
            language = "" if failed else file_language(span.name, span.input)
            return fenced(output, language) if is_verbatim(span.name) else output
        case "event", str(output) if "hook_event" in span.metadata:  # what a program printed
            return fenced(output)
        case (("tool" | "event"), output):
            return plain(output)
        case _, dict() as message:
            return json_text([output_message(message, _thoughts)])
        case _, output:
            return json_text([{"role": "assistant", "content": plain(output)}])


def _input_message(message: JsonValue, media: Mapping[str, Media]) -> JsonValue:
    chat_message = input_message(message, _thoughts)
    if not isinstance(chat_message, dict) or not isinstance(text := chat_message.get("content"), str) or not text:
        return chat_message
    match chat_message:
        case {"role": "user"}:
            return {**chat_message, "content": _content(text, media)}
        case {"role": "tool"}:
            name = chat_message.get("name")
            return {
                **chat_message,
                "content": _content(text, media, _formatter(name if isinstance(name, str) else None)),
            }
        case _:
            return chat_message


def _formatter(tool: str | None) -> Callable[[str], str]:
    """Return the function that formats a tool's output."""
    return fenced if is_verbatim(tool) else str


def _content(text: str, media: Mapping[str, Media], format_text: Callable[[str], str] = str) -> JsonValue:
    """Return a formatted text, split into parts if it mentions uploaded images or documents."""
    parts: list[JsonValue] = []
    at = 0
    for mark in MEDIA_MARK.finditer(text) if media else ():
        if (upload := media.get(mark[1])) is not None:
            parts += [*_text_part(text[at : mark.start()], format_text), _media_part(upload)]
            at = mark.end()
    return [*parts, *_text_part(text[at:], format_text)] if parts else format_text(text)


def _text_part(text: str, format_text: Callable[[str], str]) -> list[JsonValue]:
    return [{"type": "text", "text": format_text(text.strip("\n"))}] if text.strip() else []


def _media_part(media: Media) -> JsonValue:
    url = f"@@@langfuseMedia:type={media.content_type}|id={media_id(media)}|source=base64_data_uri@@@"
    return {"type": "image_url", "image_url": {"url": url}}


def _thoughts(thoughts: list[str]) -> dict[str, JsonValue]:
    return {"thinking": [{"type": "thinking", "content": thought} for thought in thoughts]}
