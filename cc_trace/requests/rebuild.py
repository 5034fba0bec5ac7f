"""Rebuilds a request's body, and verifies that it is the one that was sent.

Claude Code identifies every message, and the system prompt with the tools, by the SHA-256 of its canonical JSON: keys
sorted, no spaces, UTF-8, plain text as a text block. The digest of a request covers its parameters, system prompt,
tools and messages with the cache breakpoints in place. So a body with a matching digest is the one that was sent, apart
from what is not recorded: the `metadata` and `stream` fields, and a first system block that begins with
`x-anthropic-billing-header`.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple, Protocol

import orjson

if TYPE_CHECKING:
    from cc_trace.requests.records import Attempt, Breakpoint, JsonObject
    from cc_trace.transcript import JsonValue


class Parts(Protocol):
    """Looks up the parts of requests. Each call returns a new value, which the caller may modify."""

    def attempt(self, id_: str) -> Attempt | None:
        """Return the request with this id."""

    def shape(self, name: str) -> JsonObject | None:
        """Return the system prompt and tools with this hash."""

    def message(self, name: str) -> JsonObject | None:
        """Return the message with this hash."""


class Request(NamedTuple):
    """A request's body. A message that was not found is None, and `missing` lists it.

    `verified`: whether the digest recorded by Claude Code matches this body; None: no digest was recorded.
    """

    attempt: Attempt
    system: JsonValue
    tools: JsonValue
    messages: list[JsonValue]
    missing: tuple[str, ...]
    verified: bool | None

    @property
    def body(self) -> JsonObject:
        """The body as sent. Betas are sent in a header."""
        params = {key: value for key, value in self.attempt.params.items() if key != "betas"}
        return {**params, "system": self.system, "tools": self.tools, "messages": self.messages}


def rebuild(attempt: Attempt, parts: Parts) -> Request:
    """Rebuild a request from the parts that are available."""
    names, missing = message_names(attempt, parts)
    shape = parts.shape(attempt.shape_hash) if attempt.shape_hash is not None else None
    if shape is None:
        missing.append("the system prompt and the tools")
    messages: list[JsonValue] = [parts.message(name) for name in names]
    missing += [f"message {index}" for index, message in enumerate(messages) if message is None]
    body: JsonObject = {**attempt.params, **(shape or {}), "messages": messages}
    for point in attempt.breakpoints:
        if not _insert_breakpoint(point, body):
            missing.append(f"the place of the cache breakpoint {list(point.path)}")
    digest = content_hash({**body, "messages": [_in_blocks(message) for message in messages]})
    return Request(
        attempt=attempt,
        system=body.get("system"),
        tools=body.get("tools"),
        messages=messages,
        missing=tuple(missing),
        verified=None if attempt.digest is None else digest == attempt.digest,
    )


def message_names(attempt: Attempt, parts: Parts) -> tuple[list[str], list[str]]:
    """Return the hashes of a request's messages in order, and descriptions of what is missing.

    Walks back from request to request, taking from each only the messages that later ones kept: time and memory are
    proportional to the result and the number of requests, and a cycle of requests terminates.
    """
    expected = attempt.keep + len(attempt.tail)
    pieces: list[tuple[str, ...]] = [attempt.tail]
    remaining, missing, seen = attempt.keep, list[str](), {attempt.id}
    current: Attempt | None = attempt
    while remaining and current is not None:
        base = current.base
        current = None if base is None or base in seen else parts.attempt(base)
        if current is None:
            missing.append(f"request {base}, from which it took {remaining} messages")
        else:
            seen.add(current.id)
            pieces.append(current.tail[: max(0, remaining - current.keep)])
            remaining = min(remaining, current.keep)
    names = [name for piece in reversed(pieces) for name in piece]
    if len(names) != expected and not missing:
        missing.append(f"{expected - len(names)} of its {expected} messages")
    return names, missing


def message_hash(message: JsonValue) -> str | None:
    """Return the hash that Claude Code uses for a message."""
    return content_hash(_in_blocks(message))


def _in_blocks(message: JsonValue) -> JsonValue:
    if isinstance(message, dict) and isinstance(text := message.get("content"), str):
        return {**message, "content": _blocks(text)}
    return message


def _blocks(text: str) -> list[JsonValue]:
    return [{"type": "text", "text": text}]


def content_hash(value: JsonValue) -> str | None:
    """Return the hash that Claude Code uses for a value, or None if it is nested too deeply to serialize."""
    data = _canonical(value)
    return None if data is None else hashlib.sha256(data).hexdigest()


def _canonical(value: JsonValue) -> bytes | None:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a lone surrogate, which JavaScript writes as an escape, or too deep nesting
        pass
    try:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        return None
    return text.encode("utf-8", "backslashreplace")


def _insert_breakpoint(point: Breakpoint, body: JsonObject) -> bool:
    """Insert a breakpoint at its path; return False if the body has no such path."""
    if point.path[:1] not in (("system",), ("tools",), ("messages",)):
        return False
    node: JsonValue = body
    for step in point.path:
        if step == "content" and isinstance(node, dict) and isinstance(text := node.get(step), str):
            node[step] = _blocks(text)  # plain text cannot carry a breakpoint: it was sent as a block
        match node, step:
            case dict(), str():
                node = node.get(step)
            case list(), int() if 0 <= step < len(node):
                node = node[step]
            case _:
                return False
    if not isinstance(node, dict):
        return False
    node["cache_control"] = point.value
    return True
