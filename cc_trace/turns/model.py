"""Turns: what started each, its responses, their tool calls, and other events. Plain data.

`assembler` and `open_turn` create them from entries. Only they modify a turn, and only while it is open.
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
    """Who wrote a text. Of a `!` command with its output, the first `typed` characters are the human's."""

    speaker: Speaker
    typed: int = 0


MODEL: Final = Origin("model")
TOOL: Final = Origin("tool")
AGENT: Final = Origin("agent")
HOOK: Final = Origin("hook")
SYSTEM: Final = Origin("system")


@dataclass(slots=True)
class Message:
    """A piece of a response's input: text, or (with `call`) the result of a tool call."""

    text: str
    origin: Origin
    call: Call | None = None


@dataclass(slots=True)
class Call:
    """A tool call and its result, if there is one yet."""

    id: str  # the block's; if it has none, derived from the response's
    use: ToolUse
    start_ns: int | None
    result: ToolResult | None = None
    end_ns: int | None = None
    execution_start_ns: int | None = None  # after permission and hooks, if a line says so

    @property
    def waited_ms(self) -> int | None:
        """Return how long it waited for a human's permission; None if nobody was asked, or the time is unknown."""
        result, start_ns, end_ns = self.result, self.start_ns, self.end_ns
        if result is None or start_ns is None or end_ns is None:
            return None
        permission, taken_ms = result.permission, result.metadata.get("durationMs")
        if permission is None or not permission.asked:
            return None
        if permission.source == "user_reject" or self.use.name == "ExitPlanMode":
            waited_ns = end_ns - start_ns  # the dialog was all there was
        elif self.execution_start_ns is not None:
            waited_ns = self.execution_start_ns - start_ns
        elif type(taken_ms) is int:
            waited_ns = end_ns - start_ns - taken_ms * 1_000_000
        else:
            return None
        return max(0, waited_ns) // 1_000_000


@dataclass(slots=True)
class Generation:
    """One model response: all lines of one message.id."""

    key: str  # its message.id, or another key if its lines have none
    head: Head  # of its first line
    message_id: str | None
    earliest_request_ns: int | None  # when its request could be sent at the earliest
    inputs: list[Message]
    request_id: str | None = None
    model: str | None = None
    first_ns: int | None = None  # the time of its first line
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
    request: RequestSent | None = None  # the attempt that got the response, if recorded
    attempts: int = 0  # number of recorded attempts
    thinking_ms: float | None = None
    tool_input_ms: float | None = None

    @property
    def text(self) -> str:
        """Return the visible text."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text) and block.text.strip())


class FailedRequest(NamedTuple):
    """A request that got no response, and the last of its attempts."""

    inputs: list[Message]
    last_attempt: RequestSent


@dataclass(slots=True)
class Event:
    """Something that happened in a turn, other than responses and tool calls."""

    kind: EventKind
    start_ns: int | None
    end_ns: int | None
    text: str = ""
    origin: Origin = SYSTEM
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    tool_use_id: str | None = None
    key: str | None = None  # of an API error: as a response's; of a retry without a line: the attempt's id
    failed_request: FailedRequest | None = None  # of an API error, if its attempts are recorded
    outcome_key: str | None = None  # of a retry: the key of the response, or API error, that its request ended with


@dataclass(slots=True)
class Start:
    """What started a turn."""

    head: Head
    trigger: Trigger
    text: str
    origin: Origin
    command: str | None = None
    permission_mode: str | None = None
    launched_by: str | None = None  # the call whose background task ended
    earlier: list[Message] = field(default_factory=list)  # prompts before it that got no response of their own

    @property
    def text_without_ide_tags(self) -> str:
        """Return the text without an IDE's additions, or all of it if nothing else remains."""
        return _IDE_CONTEXT.sub("", self.text).strip() or self.text

    @classmethod
    def from_prompt(cls, entry: Prompt) -> Start:
        """Return the start of a turn that begins with this prompt."""
        printed = entry.trigger == "bash"  # the command's output follows the typed text
        origin = Origin("tool", typed=len(f"!{entry.command}")) if printed else Origin(speaker(entry.text, entry.head))
        return cls(entry.head, entry.trigger, entry.text, origin, entry.command, entry.permission_mode)

    @property
    def message(self) -> Message:
        """Return it as a message to the model."""
        return Message(self.text, self.origin)


@dataclass(slots=True)
class Turn:
    """One turn. `steps` are its responses and events in the order they happened."""

    number: int
    start: Start
    begin: Position  # reading from here yields this turn again
    context: Context
    end_ns: int | None
    steps: list[Generation | Event] = field(default_factory=list)
    calls: dict[str, Call] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)  # background tasks: id -> the call that launched it
    # Finished tasks, and the calls that launched them: id -> status.
    finished_tasks: dict[str, str | None] = field(default_factory=dict)
    last_activity: Literal["input", "reply", "interrupt", "error", "stop", "limit"] = "input"
    duration_ms: int | None = None
    paused_ms: int | None = None  # elapsed time that its duration does not include: mostly waiting for a human
    limit: int | None = None  # the `--max-turns` that ended it
    run_facts: Mapping[str, JsonValue] | None = None  # about the run of `claude -p` that ended with this turn
    files: dict[str, None] = field(default_factory=dict)  # files that it was about to modify
    rewound: bool = False  # a later prompt replaced this turn's
    goal_unmet: bool = False  # a goal is set and not met: Claude Code makes the model continue until it is
    structured_output: str | None = None  # of `--json-schema`
    sidechain: list[Entry] = field(default_factory=list)  # lines of agents inside this file
    progress: list[Progress] = field(default_factory=list)
    closed: bool = False
    delegated: bool = False  # a command that an agent ran instead of the main thread
    command_output: str = ""  # what such a command printed
    prompt_key: str | None = None  # its key if the file ends without a response

    @property
    def key(self) -> str | None:
        """Return the key of the first response, which copying a session preserves; None if there is none yet."""
        if self.delegated:
            return f"command:{self.start.head.uuid}"
        for step in self.steps:
            if isinstance(step, Generation):
                return step.key
            if step.kind == "api_error":
                return step.key
        for entry in self.sidechain:
            if isinstance(entry, Reply) and entry.message_id is not None:
                return f"agent:{self.number}:{entry.message_id}"  # only an agent's lines remain
        return self.prompt_key

    @property
    def resting(self) -> bool:
        """Return whether Claude had nothing left to do: no open call, nothing sent to it since its last response."""
        if self.last_activity == "interrupt":
            return True
        return self.last_activity != "input" and all(call.result is not None for call in self.calls.values())

    @property
    def generations(self) -> list[Generation]:
        """Return its responses in order."""
        return [step for step in self.steps if isinstance(step, Generation)]

    @property
    def output(self) -> str:
        """Return the turn's result: structured output (`--json-schema`), else its last text."""
        if self.structured_output is not None:
            return self.structured_output
        for step in reversed(self.steps):
            text = step.text if isinstance(step, Generation) or step.kind == "api_error" else ""
            if text:
                return text
        return self.command_output
