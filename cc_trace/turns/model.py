"""Turns: what set Claude going, its responses, their tool calls, and what happened in between. Plain data.

`boundaries` and `builder` make them from entries; a turn and its parts change only there, while the turn is open.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from cc_trace.transcript import Reply, Text, speaker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cc_trace.transcript import (
        Advice,
        Block,
        Context,
        Entry,
        Head,
        JsonValue,
        Position,
        Progress,
        Prompt,
        RequestSent,
        Speaker,
        ToolResult,
        ToolUse,
        Trigger,
        Usage,
    )

_IDE_CONTEXT: Final = re.compile(r"<(ide_opened_file|ide_selection|ide_diagnostics)>.*?</\1>", re.DOTALL)
EventKind: TypeAlias = Literal[
    "compaction", "api_retry", "api_error", "interruption", "prompt", "notification", "hook", "mode"
]


class Origin(NamedTuple):
    """Who said a text. Its first `typed` characters are a human's all the same: a `!` command before its output."""

    speaker: Speaker
    typed: int = 0


MODEL: Final = Origin("model")
TOOL: Final = Origin("tool")
AGENT: Final = Origin("agent")
HOOK: Final = Origin("hook")
SYSTEM: Final = Origin("system")


@dataclass(slots=True)
class Message:
    """A piece of what a response answers: words, or (with `call`) the result of a tool call."""

    text: str
    origin: Origin
    call: Call | None = None


@dataclass(slots=True)
class Call:
    """A tool call and, once it is there, its result."""

    id: str  # the block's; where that has none, made from the response's
    use: ToolUse
    start_ns: int | None
    result: ToolResult | None = None
    end_ns: int | None = None
    began_ns: int | None = None  # when its work began, where a line tells: after a permission, and hooks

    @property
    def waited_ms(self) -> int | None:
        """Return how long it waited for a human's permission; None: nobody was asked, or it is not known."""
        result, start_ns, end_ns = self.result, self.start_ns, self.end_ns
        if result is None or start_ns is None or end_ns is None:
            return None
        permission, taken_ms = result.permission, result.metadata.get("durationMs")
        if permission is None or not permission.asked:
            return None
        if permission.source == "user_reject" or self.use.name == "ExitPlanMode":
            waited_ns = end_ns - start_ns  # the dialog is all that there was
        elif self.began_ns is not None:
            waited_ns = self.began_ns - start_ns
        elif type(taken_ms) is int:
            waited_ns = end_ns - start_ns - taken_ms * 1_000_000
        else:
            return None
        return max(0, waited_ns) // 1_000_000


@dataclass(slots=True)
class Generation:
    """One model response: all lines of one message.id."""

    key: str  # its message.id; where a line has none, what else names it
    head: Head  # of its first line
    message_id: str | None
    ready_ns: int | None  # when its request could start
    inputs: list[Message]
    request_id: str | None = None
    model: str | None = None
    first_ns: int | None = None
    last_ns: int | None = None
    blocks: list[Block] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    usage: Usage | None = None
    stop_reason: str | None = None
    aborted: bool = False
    effort: str | None = None
    speed: str | None = None
    service_tier: str | None = None
    advisors: tuple[Advice, ...] = ()
    request: RequestSent | None = None  # the attempt that was answered, where it is recorded
    attempts: int = 0  # how many are recorded
    thinking_ms: float | None = None
    tool_input_ms: float | None = None

    @property
    def text(self) -> str:
        """Return the visible text."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text) and block.text.strip())


class FailedCall(NamedTuple):
    """A call that got no response, and the last of its requests."""

    inputs: list[Message]
    request: RequestSent


@dataclass(slots=True)
class Event:
    """Something that happened in a turn besides responses and tools."""

    kind: EventKind
    start_ns: int | None
    end_ns: int | None
    text: str = ""
    origin: Origin = SYSTEM
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    tool_use_id: str | None = None
    key: str | None = None  # of an API error: the id of the line that tells it; of a retry no line tells: the attempt's
    call: FailedCall | None = None  # of an API error, where its requests are recorded
    answer_key: str | None = None  # of a retry: the key of the response, or API error, that its call came to


@dataclass(slots=True)
class Start:
    """What set a turn going."""

    head: Head
    trigger: Trigger
    text: str
    origin: Origin
    command: str | None = None
    permission_mode: str | None = None
    launched_by: str | None = None  # the call whose background task ended
    earlier: list[Message] = field(default_factory=list)  # prompts before it that got no answer of their own

    @property
    def goal(self) -> str:
        """Return what was asked for, without what an IDE added on its own; all of it where there is nothing else."""
        return _IDE_CONTEXT.sub("", self.text).strip() or self.text

    @classmethod
    def by(cls, entry: Prompt) -> Start:
        """Start with a line of the transcript."""
        printed = entry.trigger == "bash"  # what the command printed follows what was typed
        origin = Origin("tool", typed=len(f"!{entry.command}")) if printed else Origin(speaker(entry.text, entry.head))
        return cls(entry.head, entry.trigger, entry.text, origin, entry.command, entry.permission_mode)

    @property
    def message(self) -> Message:
        """Return what it says to the model."""
        return Message(self.text, self.origin)


@dataclass(slots=True)
class Turn:
    """One turn. `steps` are its responses and events in the order they happened."""

    number: int
    start: Start
    begin: Position  # reading from here on gives this turn again
    context: Context
    end_ns: int | None
    steps: list[Generation | Event] = field(default_factory=list)
    calls: dict[str, Call] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)  # background tasks: id -> the call that launched it
    finished_tasks: dict[str, str | None] = field(
        default_factory=dict
    )  # tasks, and calls with tasks, that ended: id -> status
    last: Literal["input", "reply", "interrupt", "error", "stop", "limit"] = "input"
    duration_ms: int | None = None
    paused_ms: int | None = None  # by its end, as far as its duration leaves this out: waiting for a human, mostly
    limit: int | None = None  # of rounds, which ended it
    run: Mapping[str, JsonValue] | None = None  # what its output says of the run that it ended
    files: dict[str, None] = field(default_factory=dict)  # that were about to be modified
    rewound: bool = False  # a later prompt took the place of this one
    goal: bool = False  # one is set and not met: Claude Code makes the model go on until it is
    data: str | None = None  # the data that was asked for with `--json-schema`
    sidechain: list[Entry] = field(default_factory=list)  # lines of agents inside this file
    progress: list[Progress] = field(default_factory=list)
    closed: bool = False
    delegated: bool = False  # a command that an agent ran instead of the main thread
    result: str = ""  # what such a command printed

    @property
    def key(self) -> str | None:
        """Name the turn by its first response, which copying a session keeps; None: there is none yet."""
        if self.delegated:
            return f"command:{self.start.head.uuid}"
        for step in self.steps:
            if isinstance(step, Generation):
                return step.key
            if step.kind == "api_error":
                return step.key
        for entry in self.sidechain:
            if isinstance(entry, Reply) and entry.message_id is not None:
                return f"agent:{self.number}:{entry.message_id}"  # only an agent's lines are left of it
        return None

    @property
    def resting(self) -> bool:
        """Tell whether Claude had nothing left to do: no open call, nothing sent to it since its last response."""
        if self.last == "interrupt":
            return True
        return self.last != "input" and all(call.result is not None for call in self.calls.values())

    @property
    def generations(self) -> list[Generation]:
        """Return its responses in order."""
        return [step for step in self.steps if isinstance(step, Generation)]

    @property
    def output(self) -> str:
        """Return the turn's result: the data that was asked for (`--json-schema`), else its last text."""
        if self.data is not None:
            return self.data
        for step in reversed(self.steps):
            text = step.text if isinstance(step, Generation) or step.kind == "api_error" else ""
            if text:
                return text
        return self.result
