"""A trace as a plain value, in which what was served and what arrived are compared.

`span` is a span's name. A status is `ok`, or how it ended and the message that says why: `error: no such file`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_REMINDERS: Final = re.compile(r"(?s)(?:\s*<system-reminder>.*?</system-reminder>)+\s*$")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the conventions count them: the input includes what was read from and written to the cache."""

    input: int
    output: int
    cache_read: int
    cache_write: int


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call, its result as the model was told, and the agent it launched."""

    span: str
    id: str
    name: str
    arguments: str  # as JSON, its keys sorted
    result: str | None
    status: str
    agents: tuple[AgentRun, ...] = ()


@dataclass(frozen=True, slots=True)
class Generation:
    """One response. `prompts` and `results` are what it answers: prompts with a tag, and by the call's id."""

    span: str
    id: str
    model: str
    usage: Usage | None
    prompts: tuple[str, ...]
    results: tuple[tuple[str, str], ...]
    thinking: str
    text: str
    finish: str
    status: str
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class AgentRun:
    """An agent's work below the call that launched it."""

    span: str
    kind: str
    prompt: str
    output: str
    status: str
    generations: tuple[Generation, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """One trace. An event is something that happened in it besides responses: its name, and its status if not ok."""

    span: str
    prompt: str
    output: str
    status: str
    events: tuple[str, ...]
    generations: tuple[Generation, ...]


def plain_result(text: str) -> str:
    """Return a tool's result without what Claude Code adds for the model: some of it is in the request alone."""
    return _REMINDERS.sub("", text).rstrip()
