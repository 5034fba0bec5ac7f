"""Spans: one tree per turn, the same for every destination, and the ids they carry. Plain data.

Rule: ids are made only here, from what copying a session preserves: message.id and tool_use.id. So a turn copied into
another file has the same ids there, and building it twice gives the same bytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from cc_trace.transcript import JsonValue, Usage
    from cc_trace.turns import Origin, Status

Kind: TypeAlias = Literal["turn", "generation", "tool", "subagent", "event"]


class Response(NamedTuple):
    """Fields of generations. `usage_complete` False: the transcript is known to undercount tokens."""

    message_id: str | None
    request_id: str | None
    model: str | None
    first_token_ns: int | None
    usage: Usage | None
    usage_complete: bool
    cost_usd: float | None


class Tool(NamedTuple):
    """Fields of tool calls."""

    id: str
    name: str
    file_path: str | None


@dataclass(slots=True)
class Origins:
    """Who wrote the texts of a span. A text without an origin here is private.

    This is for deciding what may leave; it is not part of the span's data: spans that differ only in it are equal, and
    no destination writes it.
    """

    input: tuple[Origin, ...] = field(default=(), compare=False)  # one per message, or one for a text
    output: Origin | None = field(default=None, compare=False)
    unanswered: tuple[Origin, ...] = field(default=(), compare=False)  # of `unanswered_prompts`


NOBODY: Final = Origins()


class Span(NamedTuple):
    """One span, independent of destinations. Times are unix nanoseconds. A named tuple: sessions have up to 100,000."""

    trace_id: str
    span_id: str
    parent_id: str | None
    kind: Kind
    name: str
    start_ns: int | None
    end_ns: int | None
    session_id: str
    turn: int
    agent_id: str | None
    final: bool
    status: Status
    error: str | None
    input: JsonValue
    output: JsonValue
    metadata: dict[str, JsonValue]
    response: Response | None = None
    tool: Tool | None = None
    agent_name: str | None = None  # the kind of agent it belongs to; None: the main thread
    about: dict[str, JsonValue] | None = None  # metadata of the whole trace, known when it began
    origins: Origins = NOBODY


class TraceLink(NamedTuple):
    """Links traces to the user's own: a seed that makes trace ids predictable, or a span that becomes the parent."""

    seed: str | None = None
    trace_id: str | None = None
    parent_id: str | None = None

    def trace(self, key: str | None, number: int) -> str:
        """Return the trace id of a turn."""
        if self.trace_id is not None:
            return self.trace_id
        return trace_id(f"turn:{key}" if self.seed is None else f"{self.seed}:{number}")


def trace_id(seed: str) -> str:
    """Return the trace id for a seed, computed like Langfuse's create_trace_id, so that users can predict it."""
    return hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()[:32]


def span_id(kind: str, seed: str) -> str:
    """Return the span id of one item of a transcript."""
    return hashlib.sha256(f"{kind}:{seed}".encode("utf-8", "replace")).hexdigest()[:16]


def tool_span_id(tool_use_id: str) -> str:
    """Return the span id of a tool call."""
    return span_id("tool", tool_use_id)
