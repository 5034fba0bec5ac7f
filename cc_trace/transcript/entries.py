"""What a line of a transcript can be. Plain data; the other modules of this room read it from JSON.

Types created for every line are named tuples: creating a frozen dataclass takes five times as long.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, Union

if TYPE_CHECKING:
    from collections.abc import Mapping

JsonValue: TypeAlias = Union[bool, int, float, str, "list[JsonValue]", "dict[str, JsonValue]", None]

# What starts a turn: a human's prompt, a slash command, a `!` command, the end of a background task, a message from
# another agent of a team, a plan carried over into a new session, or text injected by Claude Code itself.
Trigger: TypeAlias = Literal["prompt", "command", "bash", "notification", "teammate", "continuation", "injected"]

# Who wrote a text. `agent` includes background tasks that ended, `system` is Claude Code itself, `other` is any origin
# that a later version of Claude Code may add.
Speaker: TypeAlias = Literal["human", "model", "tool", "agent", "teammate", "hook", "system", "other"]


class Context(NamedTuple):
    """The session, folder and version a line was written in. Lines with equal contexts share one object."""

    session_id: str | None = None
    process_session_id: str | None = None  # the process's first session id; differs after /clear
    forked_from: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    slug: str | None = None
    entrypoint: str | None = None
    stream_times: str | None = None  # only on lines converted from a stream: where their time comes from
    partial_usage: str | None = None  # likewise: what their token counts leave out


# Creates a named tuple from all its fields in half the time of calling its type. Used where every line creates one.
make_tuple: Final = tuple.__new__


class Head(NamedTuple):
    """What all lines have in common. Times are unix nanoseconds; None if the line has no usable time."""

    offset: int
    number: int
    time_ns: int | None
    uuid: str | None
    parent_uuid: str | None
    sidechain: bool
    agent_id: str | None
    prompt_id: str | None
    context: Context
    origin: str | None = None  # where the line says its text comes from


class Usage(NamedTuple):
    """Tokens of one response. `input` excludes cache, as Anthropic counts it."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    web_searches: int = 0
    fast: bool = False
    split: bool = True  # False: the transcript does not separate 5m and 1h writes; all are counted as 5m
    thinking: int = 0  # thinking tokens, included in `output`; 0 if not recorded

    def maximum(self, other: Usage) -> Usage:
        """Merge the counts of two lines of one response. Early lines carry placeholders, so the maximum is right."""
        if self == other:
            return self
        if self.split != other.split:
            # One line separates 5m and 1h writes and the other does not: they are the same writes.
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
    """A tool call as the model wrote it. With an empty id (simplest format) it is matched to its result by order."""

    id: str
    name: str
    input: JsonValue
    prompt: str | None = None  # the prompt of a new agent
    agent_id: str | None = None  # the agent to resume
    agent_kind: str | None = None
    file_path: str | None = None  # the file to modify


class Other(NamedTuple):
    """Any other block (server tool, image, document), described in one line."""

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
    """A background task ended; or, with `waiting`, an agent paused until its own tasks end."""

    head: Head
    text: str
    task_id: str | None
    tool_use_id: str | None
    status: str | None
    summary: str | None
    waiting: bool = False


class Advice(NamedTuple):
    """The use of another model during a response. Its tokens are not in the response's own usage."""

    model: str | None
    usage: Usage


class RequestSent(NamedTuple):
    """One attempt to get a response, as Claude Code 2.1.3xx records it when it is sent."""

    head: Head
    id: str
    metadata: dict[str, JsonValue]  # the parameters and the source of the request; never a message
    messages: int = 0  # number of messages


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
    request_ref: str | None = None  # the id of the attempt that got this response
    thinking_ms: float | None = None  # duration of a thinking block
    tool_input_ms: float | None = None  # duration of writing a call's input
    error_status: int | None = None  # of an API error: the HTTP status
    error_type: str | None = None  # and the API's name for it


class Permission(NamedTuple):
    """Who decided whether a call may run, in Claude Code's own words. `asked`: a human was asked in a dialog."""

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
    workflow_run_id: str | None = None  # the workflow run it launched
    metadata: Mapping[str, JsonValue] = MappingProxyType({})
    permission: Permission | None = None
    lines: tuple[int, int] | None = None  # of a file: lines added and removed


class Results(NamedTuple):
    """A line of tool results. `prompt` is text a human sent along with them."""

    head: Head
    results: tuple[ToolResult, ...]
    prompt: str | None
    ends_turn: bool = False  # no further request follows


class StructuredOutput(NamedTuple):
    """Structured output that the user requested with `--json-schema`, as JSON, with the call that returned it."""

    head: Head
    data: str
    tool_use_id: str | None


class Goal(NamedTuple):
    """Whether the user's goal is met. Until it is, Claude Code makes the model continue."""

    head: Head
    met: bool


class QueuedPrompt(NamedTuple):
    """A prompt typed during a turn and sent to the model within it."""

    head: Head
    text: str


class Queue(NamedTuple):
    """An operation on the queue of prompts: enqueue, dequeue or remove."""

    head: Head
    operation: str
    content: str | None


class Injected(NamedTuple):
    """A line Claude Code added for the model: a command's expansion, a hook's feedback, a reminder."""

    head: Head
    text: str
    feedback: bool = False  # from a Stop hook that blocked, or an unmet goal: the model continues


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
    """Written after a turn when all Stop hooks have ended (`duration_ms` None), or with the turn's working time."""

    head: Head
    duration_ms: int | None
    hooks: tuple[StopHook, ...] = ()


class Hook(NamedTuple):
    """A hook that printed, failed or decided something. A silent one leaves no line."""

    head: Head
    event: str
    command: str | None
    output: str  # what it printed, or why it blocked
    message: str  # what Claude Code passed on to the model; empty if nothing
    duration_ms: int | None = None
    exit_code: int | None = None
    blocked: bool = False
    failed: bool = False
    ends_turn: bool = False
    tool_use_id: str | None = None


class ModeChange(NamedTuple):
    """The permission mode. Claude Code writes it from time to time, changed or not."""

    head: Head
    mode: str


class FileChange(NamedTuple):
    """A file that is about to be modified by a call in the response line with this uuid."""

    head: Head
    path: str
    line_uuid: str | None


class TurnLimit(NamedTuple):
    """The run ended because it reached `--max-turns`."""

    head: Head
    limit: int


class RunFacts(NamedTuple):
    """What a run's output says about the run as a whole: its settings and its result, without any conversation text."""

    head: Head
    facts: Mapping[str, JsonValue]


class SessionNote(NamedTuple):
    """A line about the session as a whole. `name` is its type."""

    head: Head
    name: Literal["custom-title", "ai-title", "summary", "pr-link", "worktree-state"]
    value: JsonValue
    leaf: str | None = None  # of a summary: the line it was made for, possibly in another session


class Progress(NamedTuple):
    """A subagent's line repeated in its parent's file."""

    head: Head
    agent_id: str | None
    tool_use_id: str | None
    entry: Entry


class AgentMeta(NamedTuple):
    """The contents of the `.meta.json` file beside an agent's transcript."""

    kind: str | None = None
    description: str | None = None
    tool_use_id: str | None = None
    parent_id: str | None = None
    name: str | None = None  # a teammate's


class ModelTotals(NamedTuple):
    """One model's token counts and cost in a session."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cost_usd: float = 0.0


class Totals(NamedTuple):
    """Claude Code's own totals for the session so far. They do not include aborted responses."""

    head: Head
    cost_usd: float | None
    models: dict[str, ModelTotals]


class Skipped(NamedTuple):
    """A line with nothing for a trace. `reason` is the name it is counted under."""

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
