"""Langfuse's own attributes.

Rules:
- What describes the trace stands on every span: Langfuse filters rows, and each span is one.
- Messages are in the form its UI shows as a conversation (ChatML); anything else is shown as a table of raw JSON.
- Any text is shown as Markdown, so what a tool gave back stands in a code fence. Answers and prompts are Markdown.
- A name tells what it is, and is one of few: Langfuse filters and groups by it. What started a turn stands in the
  trace's name beside its number, and among the tags, which are the same for all turns that a command started.
- Usage has one bucket per price and no sum beside its parts: every bucket is priced and added. Any key of cost_details
  turns the server's pricing off, so a cost is either `total`, from us, or the server's own.
- An image is shown where its reference stands in an `image_url` part; in a text the reference stays a text.
- Nothing is sent that Langfuse does not read: all else ends in metadata that cannot be filtered.

Source: packages/shared/src/server/otel/OtelIngestionProcessor.ts in github.com/langfuse/langfuse.
"""

from __future__ import annotations

import base64
import re
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from cc_trace.export.profiles.chat import answered, asked, request
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

_ENVIRONMENT: Final = re.compile(r"(?!langfuse)[a-z0-9_-]{1,40}")  # Langfuse refuses any other, and its own prefix
_LONG_CONTEXT: Final = "[1m]"  # Claude Code's mark for a context of a million tokens; no price is known by that name
_PARAMETERS: Final = ("effort", "speed", "service_tier")
_MAX_DESCRIPTION: Final = 80  # characters of an agent's task that stand in its name
_CI: Final = "claude-code-github-action"  # the entrypoint of Anthropic's own action
_LEVELS: Final = {"error": "ERROR", "interrupted": "WARNING", "incomplete": "WARNING"}


class Additions(NamedTuple):
    """What a span is sent with that it does not have itself."""

    cost_usd: float | None = None  # in place of the server's own
    media: Mapping[str, Media] = MappingProxyType({})  # what is uploaded, by the digest that its text has


_NOTHING: Final = Additions()


def attributes(span: Span, labels: Labels, additions: Additions = _NOTHING) -> tuple[str, dict[str, AttributeValue]]:
    """Return a span's name and attributes."""
    trace = _trace_attributes(span)
    found = _everywhere(span, labels, trace)
    if (level := _LEVELS.get(span.status)) is not None:
        found["langfuse.observation.level"] = level
        if span.error:
            found["langfuse.observation.status_message"] = span.error
    if (given := _input(span, additions.media)) is not None:
        found["langfuse.observation.input"] = given
    if (result := _output(span, additions.media)) is not None:
        found["langfuse.observation.output"] = result
    if span.response is not None:
        found |= _generation(span, span.response)
    if additions.cost_usd is not None:
        found["langfuse.observation.cost_details"] = json_text({"total": additions.cost_usd})
    for key, value in all_metadata(span).items():
        if value is None or (key in trace and trace[key] == value):
            continue
        # Langfuse merges both kinds of metadata into one, and there the trace's wins.
        own = f"{span.kind}_{key}" if key in trace else key
        found[f"langfuse.observation.metadata.{own}"] = attribute(value)
    return _name(span, trace), found


def environment(labels: Labels) -> str | None:
    """Return the environment, if Langfuse takes it."""
    given = labels.environment
    return given if given is not None and _ENVIRONMENT.fullmatch(given) else None


def _trace_attributes(span: Span) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {
        "source": "claude-code",
        "turn_number": span.turn,
        "session_id": span.session_id,
    }
    return found | (span.about or {})


def _everywhere(span: Span, labels: Labels, trace: dict[str, JsonValue]) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {
        "langfuse.session.id": span.session_id,
        "langfuse.trace.name": _trace_name(span, trace),
        "langfuse.trace.tags": _tags(labels, trace),
        "langfuse.observation.type": _type(span),
    }
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


def _trace_name(span: Span, trace: dict[str, JsonValue]) -> str:
    """Return the turn's number, and what started it where that was no prompt."""
    return _started(f"Turn {span.turn}", trace)


def _started(name: str, trace: dict[str, JsonValue]) -> str:
    started_by = trace.get("started_by", "prompt")
    return name if started_by == "prompt" else f"{name} · {plain(started_by)}"


def _tags(labels: Labels, trace: dict[str, JsonValue]) -> list[str]:
    """Return what traces are filtered by: the program, the command that started the turn, who was there, the user's."""
    found, started_by, entrypoint = ["claude-code"], trace.get("started_by"), trace.get("entrypoint")
    if isinstance(started_by, str) and started_by.startswith("/"):
        found.append(started_by)
    if isinstance(entrypoint, str):
        headless = "ci" if entrypoint == _CI else "headless"
        found.append(headless if entrypoint == _CI or entrypoint.startswith("sdk") else "interactive")
    return [*dict.fromkeys((*found, *labels.tags))]


def _name(span: Span, trace: dict[str, JsonValue]) -> str:
    """Return what an observation is called: an agent with its task, an MCP tool by its server and its own name."""
    match span.kind, span.metadata.get("description"):
        case "turn", _:
            return _started(span.name, trace)
        case "subagent", str(description) if words := " ".join(description.split()):
            return f"{span.name} · {shortened(words, _MAX_DESCRIPTION)}"
        case "tool", _ if span.name.startswith("mcp__"):
            server, _, tool = span.name.removeprefix("mcp__").partition("__")
            return f"{server} · {tool}" if server and tool else span.name
        case _:
            return span.name


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
        found["langfuse.observation.model.name"] = model_name(response.model)
    if response.usage is not None:
        found["langfuse.observation.usage_details"] = json_text({**usage_buckets(response.usage)})
    if (first_ns := _first_token(span, response)) is not None:
        found["langfuse.observation.completion_start_time"] = rfc3339(first_ns)
    if parameters := {key: span.metadata[key] for key in _PARAMETERS if span.metadata.get(key) is not None}:
        found["langfuse.observation.model.parameters"] = json_text(parameters)
    return found


def _first_token(span: Span, response: Response) -> int | None:
    """Return when the first token came, None where that is not known.

    A response's first line is written when its first block is complete. Only of thinking is it told how long it took.
    """
    took_ms, first_ns, start_ns = span.metadata.get("thinking_ms"), response.first_token_ns, span.start_ns
    thinking = span.output.get("thinking") if isinstance(span.output, dict) else None
    if not isinstance(took_ms, int | float) or first_ns is None or start_ns is None:
        return None
    if not isinstance(thinking, list) or len(thinking) != 1:
        return None  # the sum of several says nothing of the first
    began_ns = first_ns - int(took_ms * 1_000_000)
    return began_ns if start_ns <= began_ns <= first_ns else None


def model_name(model: str) -> str:
    """Return a model by the name that prices are found by."""
    return model.removesuffix(_LONG_CONTEXT)


def media_id(media: Media) -> str:
    """Return the id that Langfuse gives to a content: it follows from its SHA-256, so it is known before the upload."""
    return base64.urlsafe_b64encode(media.sha256).decode()[:22]


def usage_buckets(usage: Usage) -> dict[str, int]:
    """Return tokens by price: `input` excludes cache, writes for five minutes and for an hour are apart."""
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
        case "tool", given:
            return json_text(given)
        case _, []:
            return None
        case _, list():
            made = request(span, partial(_asked, media=media))
            return json_text(made if "tools" in made else made["messages"])
        case _, given:
            return json_text([{"role": "user", "content": _content(plain(given), media)}])


def _output(span: Span, media: Mapping[str, Media]) -> str | None:
    match span.kind, span.output:
        case _, None | "":
            return None
        case "tool", str(given) if media and isinstance(parts := _content(given, media, _shown(span.name)), list):
            return json_text([{"role": "tool", "name": span.name, "content": parts}])
        case "tool", str(given):
            failed = span.status != "ok"  # then it is no longer what the file holds
            language = "" if failed else file_language(span.name, span.input)
            return fenced(given, language) if is_verbatim(span.name) else given
        case "event", str(given) if "hook_event" in span.metadata:  # what a program printed
            return fenced(given)
        case (("tool" | "event"), given):
            return plain(given)
        case _, dict() as message:
            return json_text([answered(message, _thoughts)])
        case _, given:
            return json_text([{"role": "assistant", "content": plain(given)}])


def _asked(message: JsonValue, media: Mapping[str, Media]) -> JsonValue:
    made = asked(message, _thoughts)
    if not isinstance(made, dict) or not isinstance(text := made.get("content"), str) or not text:
        return made
    match made:
        case {"role": "user"}:
            return {**made, "content": _content(text, media)}
        case {"role": "tool"}:
            name = made.get("name")
            return {**made, "content": _content(text, media, _shown(name if isinstance(name, str) else None))}
        case _:
            return made


def _shown(tool: str | None) -> Callable[[str], str]:
    """Return how a text is written that a tool gave back."""
    return fenced if is_verbatim(tool) else str


def _content(text: str, media: Mapping[str, Media], shown: Callable[[str], str] = str) -> JsonValue:
    """Return a text as it is shown, in parts where it names images or documents that are uploaded."""
    parts: list[JsonValue] = []
    at = 0
    for mark in MEDIA_MARK.finditer(text) if media else ():
        if (found := media.get(mark[1])) is not None:
            parts += [*_text_part(text[at : mark.start()], shown), _media_part(found)]
            at = mark.end()
    return [*parts, *_text_part(text[at:], shown)] if parts else shown(text)


def _text_part(text: str, shown: Callable[[str], str]) -> list[JsonValue]:
    return [{"type": "text", "text": shown(text.strip("\n"))}] if text.strip() else []


def _media_part(media: Media) -> JsonValue:
    url = f"@@@langfuseMedia:type={media.content_type}|id={media_id(media)}|source=base64_data_uri@@@"
    return {"type": "image_url", "image_url": {"url": url}}


def _thoughts(thoughts: list[str]) -> dict[str, JsonValue]:
    return {"thinking": [{"type": "thinking", "content": thought} for thought in thoughts]}
