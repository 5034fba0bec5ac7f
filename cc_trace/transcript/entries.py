"""What a line of a transcript can be. Plain data; how it is read from JSON is said in the modules beside this one.

What every line makes is a named tuple: a frozen dataclass takes five times as long to make.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, Union

if TYPE_CHECKING:
    from collections.abc import Mapping

JsonValue: TypeAlias = Union[bool, int, float, str, "list[JsonValue]", "dict[str, JsonValue]", None]

# What sets a turn going: a human's prompt, a slash command, a `!` command, the end of a background task, a message of
# another agent of a team, a plan carried over into a new session, or a text injected by Claude Code itself.
Trigger: TypeAlias = Literal["prompt", "command", "bash", "notification", "teammate", "continuation", "injected"]

# Who said a text. `agent` is also a background task that ended, `system` Claude Code itself, `other` whoever a later
# version of Claude Code may name.
Speaker: TypeAlias = Literal["human", "model", "tool", "agent", "teammate", "hook", "system", "other"]


@dataclass(frozen=True, slots=True)
class Context:
    """The circumstances a line was written in; equal ones are shared between lines."""

    session_id: str | None = None
    process_session_id: str | None = None  # `session_id`: the id the process started with, differs after /clear
    forked_from: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    slug: str | None = None
    entrypoint: str | None = None
    stream_times: str | None = None  # of a line made from a stream: how its time is known
    partial_usage: str | None = None  # and what its count of tokens leaves out


# Makes a named tuple from all its fields in half the time that calling its type takes; for what every line makes.
make_tuple: Final = tuple.__new__


class Head(NamedTuple):
    """What lines have in common. Times are unix nanoseconds, None where the line has no usable time."""

    offset: int
    number: int
    time_ns: int | None
    uuid: str | None
    parent_uuid: str | None
    sidechain: bool
    agent_id: str | None
    prompt_id: str | None
    context: Context
    origin: str | None = None  # whom the line says its text is from


class Usage(NamedTuple):
    """Tokens of one response. `input` excludes cache, as Anthropic counts it."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    web_searches: int = 0
    fast: bool = False
    split: bool = True  # False: the transcript did not tell 5m and 1h writes apart, all are counted as 5m
    thinking: int = 0  # how many of the output tokens; 0 where it is not recorded

    def maximum(self, other: Usage) -> Usage:
        """Join two lines of one response: early lines carry placeholders, so the maximum is the truth."""
        if self == other:
            return self
        if self.split != other.split:
            # One line tells 5m and 1h writes apart and the other does not: they are the same writes.
            split, unsplit = (self, other) if self.split else (other, self)
            if split.cache_write_5m + split.cache_write_1h:
                return split.maximum(unsplit._replace(cache_write_5m=0, cache_write_1h=0, split=True))
        return Usage(
            max(self.input, other.input),
            max(self.output, other.output),
            max(self.cache_read, other.cache_read),
            max(self.cache_write_5m, other.cache_write_5m),
            max(self.cache_write_1h, other.cache_write_1h),
            max(self.web_searches, other.web_searches),
            self.fast or other.fast,
            self.split and other.split,
            max(self.thinking, other.thinking),
        )


class Text(NamedTuple):
    """Visible text of a response."""

    text: str


class Thinking(NamedTuple):
    """A thinking block; its text is often empty because only the signature is kept."""

    text: str
    redacted: bool = False


class ToolUse(NamedTuple):
    """A tool call as the model wrote it. An empty id (simplest format) is paired by order."""

    id: str
    name: str
    input: JsonValue
    prompt: str | None = None  # what a new agent is told
    agent_id: str | None = None  # the agent that is to go on
    agent_kind: str | None = None
    file_path: str | None = None  # the file to be modified


class Other(NamedTuple):
    """Any other block (server tools, images, documents), described in one line."""

    kind: str
    text: str


Block: TypeAlias = Text | Thinking | ToolUse | Other


class Prompt(NamedTuple):
    """A line that can start a turn. `command` is the slash command's name, or the shell command."""

    head: Head
    trigger: Trigger
    text: str
    command: str | None = None
    permission_mode: str | None = None
    predecessor: str | None = None


class Notification(NamedTuple):
    """A background task ended; or (`waiting`) an agent stopped that goes on when its own tasks end."""

    head: Head
    text: str
    task_id: str | None
    tool_use_id: str | None
    status: str | None
    summary: str | None
    waiting: bool = False


class Advice(NamedTuple):
    """What another model was asked for while a response was made: its tokens are not in the response's own usage."""

    model: str | None
    usage: Usage


class RequestSent(NamedTuple):
    """One attempt to get a response, as Claude Code 2.1.3xx records it when it is sent."""

    head: Head
    id: str
    metadata: dict[str, JsonValue]  # the parameters, and who asked; never a message
    messages: int = 0  # how many it has


class Reply(NamedTuple):
    """One line of a model response; lines of one response share `message_id`."""

    head: Head
    message_id: str | None
    request_id: str | None
    model: str | None
    blocks: tuple[Block, ...]
    usage: Usage | None
    stop_reason: str | None
    aborted: bool = False
    synthetic: bool = False
    api_error: str | None = None
    effort: str | None = None
    speed: str | None = None
    service_tier: str | None = None
    advisors: tuple[Advice, ...] = ()
    request_ref: str | None = None  # the attempt that was answered
    thinking_ms: float | None = None  # how long this block took, where it is thinking
    tool_input_ms: float | None = None  # or the input of a call
    error_status: int | None = None  # of an API error: the HTTP status
    error_type: str | None = None  # and the API's name for it


class Permission(NamedTuple):
    """Who decided whether a call may run, in Claude Code's own words; `asked`: a human was, in a dialog."""

    decision: str
    source: str | None
    reason: str | None
    asked: bool = False


class ToolResult(NamedTuple):
    """How a tool call ended. `metadata` has the short fields of `toolUseResult`, never its content."""

    tool_use_id: str
    output: JsonValue
    is_error: bool = False
    denial: str | None = None
    interrupted: bool = False
    agent_id: str | None = None
    task_id: str | None = None  # the background task it launched
    run_id: str | None = None  # the workflow run it launched
    metadata: Mapping[str, JsonValue] = MappingProxyType({})
    permission: Permission | None = None
    lines: tuple[int, int] | None = None  # of a file, added and removed


class Results(NamedTuple):
    """A line of tool results; `prompt` is a human's text that was sent along with them."""

    head: Head
    results: tuple[ToolResult, ...]
    prompt: str | None
    ends_turn: bool = False  # the model is not asked again


class StructuredOutput(NamedTuple):
    """What the model gave in the form that the user asked for (`--json-schema`), as JSON, by the call that did."""

    head: Head
    data: str
    tool_use_id: str | None


class Goal(NamedTuple):
    """Whether the user's goal is met: until then Claude Code makes the model go on."""

    head: Head
    met: bool


class QueuedPrompt(NamedTuple):
    """A prompt typed during a turn and handed to the model inside it."""

    head: Head
    text: str


class Queue(NamedTuple):
    """Something was put into, taken from or removed from the queue of prompts."""

    head: Head
    operation: str
    content: str | None


class Injected(NamedTuple):
    """A line Claude Code added for the model: a command's expansion, a hook's feedback, a reminder."""

    head: Head
    text: str
    feedback: bool = False  # of a Stop hook that blocked, or a goal that is not met: the model goes on


class CommandOutput(NamedTuple):
    """What a local command printed."""

    head: Head
    text: str


class Interrupt(NamedTuple):
    """The user stopped the turn."""

    head: Head
    text: str


class Compaction(NamedTuple):
    """The context was compacted: the boundary, or (with `summary`) the text that replaces what was dropped."""

    head: Head
    summary: str | None
    metadata: dict[str, JsonValue]


class Retry(NamedTuple):
    """A request failed and is tried again."""

    head: Head
    message: str
    metadata: dict[str, JsonValue]
    status: int | None = None  # the HTTP status
    request_id: str | None = None


class StopHook(NamedTuple):
    """One of the hooks that ran at a Stop. A hook that blocked has no duration."""

    command: str
    duration_ms: int | None = None
    error: str = ""


class TurnEnd(NamedTuple):
    """Written after a turn: all Stop hooks ended (`duration_ms` None), or the turn's working time is known."""

    head: Head
    duration_ms: int | None
    hooks: tuple[StopHook, ...] = ()


class Hook(NamedTuple):
    """A hook ran, and printed, failed or decided something: one that is silent leaves no line."""

    head: Head
    event: str
    command: str | None
    output: str  # what it printed, or why it blocked
    message: str  # what the model was told because of it; empty: nothing
    duration_ms: int | None = None
    exit_code: int | None = None
    blocked: bool = False
    failed: bool = False
    ends_turn: bool = False
    tool_use_id: str | None = None


class ModeChange(NamedTuple):
    """The permission mode, written now and then, changed or not."""

    head: Head
    mode: str


class FileChange(NamedTuple):
    """A file is about to be modified by a call of the response that has this line."""

    head: Head
    path: str
    line_uuid: str | None


class TurnLimit(NamedTuple):
    """The run ended because it had as many rounds as `--max-turns` allows."""

    head: Head
    limit: int


class RunFacts(NamedTuple):
    """What a run's output says of it as a whole: what it was given, and what it came to. No words of anybody."""

    head: Head
    facts: Mapping[str, JsonValue]


class SessionNote(NamedTuple):
    """What a line says of the session as a whole, under the name of its type."""

    head: Head
    name: Literal["custom-title", "ai-title", "summary", "pr-link", "worktree-state"]
    value: JsonValue
    leaf: str | None = None  # of a summary: the line it was made for, which can be another session's


class Progress(NamedTuple):
    """A subagent's line repeated in its parent's file."""

    head: Head
    agent_id: str | None
    tool_use_id: str | None
    entry: Entry


@dataclass(frozen=True, slots=True)
class AgentMeta:
    """What the file beside an agent's transcript says of it."""

    kind: str | None = None
    description: str | None = None
    tool_use_id: str | None = None
    parent_id: str | None = None
    name: str | None = None  # a teammate's


class ModelTotals(NamedTuple):
    """What a model was used for in a session, and its price."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cost_usd: float = 0.0


class Totals(NamedTuple):
    """Claude Code's own count of the session so far. It leaves out responses that were aborted."""

    head: Head
    cost_usd: float | None
    models: dict[str, ModelTotals]


class Skipped(NamedTuple):
    """A line that says nothing for a trace; `reason` is what it is counted under."""

    head: Head | None
    reason: str


Entry: TypeAlias = (
    Prompt
    | Notification
    | RequestSent
    | Reply
    | Results
    | StructuredOutput
    | Goal
    | QueuedPrompt
    | Queue
    | Injected
    | CommandOutput
    | Interrupt
    | Compaction
    | Retry
    | TurnEnd
    | Hook
    | ModeChange
    | FileChange
    | TurnLimit
    | RunFacts
    | SessionNote
    | Progress
    | Totals
    | Skipped
)
