"""What Claude Code asked the scripted API, and what it was served: the truth that traces are compared with.

Nothing here knows of transcripts or of cc_trace.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from script import TAG, Message

if TYPE_CHECKING:
    from collections.abc import Iterable

_SESSION: Final = re.compile(r'session_(?:id":")?([0-9a-f-]{36})')
_SUMMARY: Final = "Your task is to create a detailed summary"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave, as the model was told."""

    text: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a message."""

    session_id: str
    model: str
    tools: tuple[str, ...]
    messages: tuple[dict[str, Any], ...]
    structured: bool  # the answer is to have a given form
    streamed: bool

    @property
    def internal_purpose(self) -> str | None:
        """What Claude Code asks for itself and writes to no transcript as a response; None: the user's or an agent's.

        Every conversation offers tools. Without any, Claude Code wants a name for a session, the prefix of a
        command, or whether a stopping condition is met. A compaction's request goes out with the tools of its
        conversation, to use the same cache; so does the warmup of an agent that nobody launched.
        """
        if not self.tools:
            return "question"
        match self._last_texts:
            case ["Warmup"]:
                return "warmup"
            case [*_, last] if _SUMMARY in last:
                return "summary"
            case _:
                return None

    @property
    def prompt(self) -> tuple[str, str, int] | None:
        """The last prompt with a tag: the tag, its text, and how many responses came after it."""
        for index in range(len(self.messages) - 1, -1, -1):
            tagged = [(found[-1], text) for text in _texts(self.messages[index]) if (found := TAG.findall(text))]
            if tagged:
                after = self.messages[index + 1 :]
                return *tagged[-1], sum(message.get("role") == "assistant" for message in after)
        return None

    @property
    def results(self) -> dict[str, ToolResult]:
        """The results of tools that came with it, by the call's id."""
        return _results(self.messages)

    @property
    def new_results(self) -> dict[str, ToolResult]:
        """Those of them that no response has answered yet."""
        answered = [at for at, message in enumerate(self.messages) if message.get("role") == "assistant"]
        return _results(self.messages[answered[-1] :] if answered else ())

    @property
    def last_text(self) -> str:
        """What was asked last."""
        return "\n".join(self._last_texts)

    @property
    def _last_texts(self) -> list[str]:
        asked = [message for message in self.messages if message.get("role") == "user"]
        return _texts(asked[-1]) if asked else []


@dataclass(slots=True)
class ApiCall:
    """A request and how it was answered. `cut`: the client left before it had all of the message."""

    request: Request
    message: Message | None = None
    outcome: Literal["open", "whole", "cut", "failed"] = "open"
    asked_ns: int = field(default_factory=time.time_ns)


def read_request(body: bytes) -> Request:
    """Return what a request for a message asks."""
    raw = json.loads(body)
    session = _SESSION.search(raw.get("metadata", {}).get("user_id", ""))
    return Request(
        session.group(1) if session else "",
        raw["model"],
        tuple(tool.get("name", "") for tool in raw.get("tools", ())),
        tuple(raw["messages"]),
        "output_config" in raw,
        bool(raw.get("stream")),
    )


def _results(messages: Iterable[dict[str, Any]]) -> dict[str, ToolResult]:
    return {
        block["tool_use_id"]: ToolResult(_plain(block.get("content")), block.get("is_error", False))
        for message in messages
        for block in _blocks(message)
        if block.get("type") == "tool_result"
    }


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _texts(message: dict[str, Any]) -> list[str]:
    if message.get("role") != "user":
        return []
    return [block["text"] for block in _blocks(message) if block.get("type") == "text"]


def _plain(content: str | list[dict[str, Any]] | None) -> str:
    if isinstance(content, list):
        content = "\n".join(block.get("text", "") for block in content)
    return content or ""
