"""Claude Code's transcript format. Nothing outside this package looks inside the JSON.

The format is internal to Claude Code and changes with every release, so nothing here is assumed to be complete:
unknown types and fields are counted and stepped over, and no value is trusted to have its usual type.
"""

from cc_trace.entries.agent import agent_meta, journal_stages
from cc_trace.entries.kinds import (
    AgentMeta,
    Block,
    CommandOutput,
    Compaction,
    Context,
    Entry,
    Head,
    Injected,
    Interrupt,
    JsonValue,
    Notification,
    Other,
    Progress,
    Prompt,
    Queue,
    QueuedPrompt,
    Reply,
    Results,
    Retry,
    Skipped,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    Totals,
    Trigger,
    TurnEnd,
    Usage,
)
from cc_trace.entries.line import parse
from cc_trace.entries.user import notification

__all__ = [
    "AgentMeta",
    "Block",
    "CommandOutput",
    "Compaction",
    "Context",
    "Entry",
    "Head",
    "Injected",
    "Interrupt",
    "JsonValue",
    "Notification",
    "Other",
    "Progress",
    "Prompt",
    "Queue",
    "QueuedPrompt",
    "Reply",
    "Results",
    "Retry",
    "Skipped",
    "Text",
    "Thinking",
    "ToolResult",
    "ToolUse",
    "Totals",
    "Trigger",
    "TurnEnd",
    "Usage",
    "agent_meta",
    "journal_stages",
    "notification",
    "parse",
]
