"""What fills a request's context: tokens by origin.

The API reports one number for the whole request. Each part's share is estimated from its size, and the shares are
rounded to whole numbers that add up to the total (largest remainder method).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from cc_trace.transcript import object_field, text_field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cc_trace.requests.rebuild import Request
    from cc_trace.transcript import JsonValue, Usage

# An image costs width x height / 750 tokens, at most about 1,600; a token is about four bytes of text.
_IMAGE_BYTES: Final = 6400
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
# How Claude Code introduces the contents of CLAUDE.md, of the files it imports and of those in subfolders.
_MEMORY = re.compile(
    r"(?:\A|<system-reminder>)\s*(?:Codebase and user instructions are shown|Contents of (?:/|[A-Za-z]:\\))"
    r"|^# claudeMd$",
    re.MULTILINE,
)
_SKILLS: Final = "The following skills are available"
ORIGINS: Final = (
    "system prompt",
    "tools",
    "memory files",
    "skills",
    "reminders",
    "prompts",
    "tool results",
    "thinking",
    "answers",
    "tool calls",
    "other",
)


class Part(NamedTuple):
    """One origin's share. For tool calls and results `name` is the tool."""

    origin: str
    name: str | None
    size_bytes: int
    tokens: int


class Context(NamedTuple):
    """A request's context. The total is what the API reported; the shares are estimates."""

    total_tokens: int
    parts: tuple[Part, ...]
    complete: bool  # False: parts of the request are not in the transcript; their share went to the others


def context_by_origin(request: Request, usage: Usage) -> Context:
    """Divide the input tokens that a response reports among the parts of its request."""
    total = input_tokens(usage)
    sizes: dict[tuple[str, str | None], int] = {}
    for origin, name, size in _sizes(request):
        sizes[origin, name] = sizes.get((origin, name), 0) + size
    weights = {key: size for key, size in sizes.items() if size}
    if total and not weights:
        weights = {("other", None): 1}
    tokens = divide(total, list(weights.values()))
    parts = [Part(*key, size, share) for (key, size), share in zip(weights.items(), tokens, strict=True)]
    parts.sort(key=lambda part: (ORIGINS.index(part.origin), -part.tokens, part.name or ""))
    return Context(total, tuple(parts), complete=not request.missing)


def input_tokens(usage: Usage) -> int:
    """Return the input tokens of a request, cached or not."""
    return usage.input + usage.cache_read + usage.cache_write_5m + usage.cache_write_1h


def shape_sizes(shape: dict[str, JsonValue]) -> dict[str, int]:
    """Return the sizes of the system prompt and the tools, by origin."""
    return _by_origin([*_system_sizes(shape.get("system")), *_tools_sizes(shape.get("tools"))])


def message_sizes(message: dict[str, JsonValue]) -> dict[str, int]:
    """Return the sizes of a message's parts, by origin."""
    return _by_origin(_message_sizes(message, {}))


def tokens_by_origin(total: int, sizes: dict[str, int]) -> dict[str, int]:
    """Divide the tokens of a request among the origins of its parts."""
    weights = {origin: sizes[origin] for origin in ORIGINS if sizes.get(origin)}
    if total and not weights:
        weights = {"other": 1}
    return dict(zip(weights, divide(total, list(weights.values())), strict=True))


def _by_origin(sizes: Iterable[tuple[str, str | None, int]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for origin, _, size in sizes:
        totals[origin] = totals.get(origin, 0) + size
    return totals


def divide(total: int, weights: list[int]) -> list[int]:
    """Divide a whole number in proportion to the weights, into whole numbers that add up to it."""
    total_weight = sum(weights)
    if not total_weight:
        return [0] * len(weights)
    shares = [total * weight // total_weight for weight in weights]
    remainders = [total * weight % total_weight for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda index: -remainders[index])
    for index in by_remainder[: total - sum(shares)]:
        shares[index] += 1
    return shares


def _sizes(request: Request) -> Iterator[tuple[str, str | None, int]]:
    yield from _system_sizes(request.system)
    yield from _tools_sizes(request.tools)
    tools: dict[str, str] = {}
    for message in request.messages:
        if isinstance(message, dict):
            yield from _message_sizes(message, tools)


def _system_sizes(system: JsonValue) -> Iterator[tuple[str, str | None, int]]:
    for block in _blocks(system):
        yield "system prompt", None, _text_bytes(block)


def _tools_sizes(tools: JsonValue) -> Iterator[tuple[str, str | None, int]]:
    yield "tools", None, sum(map(_json_bytes, tools)) if isinstance(tools, list) else 0


def _message_sizes(message: dict[str, JsonValue], tools: dict[str, str]) -> Iterator[tuple[str, str | None, int]]:
    role = message.get("role")
    for block in _blocks(message.get("content")):
        match role:
            case "assistant":
                yield from _answer_sizes(block, tools)
            case "system":  # some versions use this for what others put into reminders
                yield _reminder_origin(text_field(block, "text") or ""), None, _text_bytes(block)
            case _:
                yield from _user_sizes(block, tools)


def _answer_sizes(block: dict[str, Any], tools: dict[str, str]) -> Iterator[tuple[str, str | None, int]]:
    match block.get("type"):
        case "thinking" | "redacted_thinking":
            # If the text is missing, the signature carries it, encrypted.
            text = text_field(block, "thinking") or text_field(block, "signature") or text_field(block, "data") or ""
            yield "thinking", None, _bytes(text)
        case "tool_use" | "server_tool_use":
            name = text_field(block, "name") or "unknown"
            tools[text_field(block, "id") or ""] = name
            yield "tool calls", name, _json_bytes(block.get("input"))
        case _:
            yield "answers", None, _text_bytes(block)


def _user_sizes(block: dict[str, Any], tools: dict[str, str]) -> Iterator[tuple[str, str | None, int]]:
    if block.get("type") != "tool_result":
        yield from _text_sizes(block, "prompts", None)
        return
    name = tools.get(text_field(block, "tool_use_id") or "", "unknown")
    for part in _blocks(block.get("content")):
        yield from _text_sizes(part, "tool results", name)


def _text_sizes(block: dict[str, Any], origin: str, name: str | None) -> Iterator[tuple[str, str | None, int]]:
    """Yield a block's size, with separate sizes for the reminders that Claude Code put into its text."""
    text = text_field(block, "text")
    if text is None:
        yield origin, name, _text_bytes(block)
        return
    reminders = _REMINDER.findall(text)
    for reminder in reminders:
        yield _reminder_origin(reminder), None, _bytes(reminder)
    yield origin, name, _bytes(text) - sum(map(_bytes, reminders))


def _reminder_origin(reminder: str) -> str:
    if _MEMORY.search(reminder):
        return "memory files"
    return "skills" if _SKILLS in reminder else "reminders"


def _blocks(content: JsonValue) -> Iterator[dict[str, Any]]:
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        for block in content:
            if isinstance(block, dict):
                yield block
            elif isinstance(block, str):
                yield {"type": "text", "text": block}


def _text_bytes(block: dict[str, Any]) -> int:
    if (text := text_field(block, "text")) is not None:
        return _bytes(text)
    return _IMAGE_BYTES if "data" in object_field(block, "source") else _json_bytes(block)


def _json_bytes(value: JsonValue) -> int:
    try:
        return len(orjson.dumps(value))
    except TypeError:  # nested too deeply, or with lone surrogates
        return _bytes(str(value))


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
