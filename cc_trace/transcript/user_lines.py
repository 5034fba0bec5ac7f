"""Classifies the lines of type "user": only one in ten is something a person typed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from cc_trace.transcript.blocks import plain_text, text_field, tool_result
from cc_trace.transcript.entries import (
    CommandOutput,
    Compaction,
    Entry,
    Injected,
    Interrupt,
    Notification,
    Prompt,
    Results,
    Skipped,
    make_tuple,
)

if TYPE_CHECKING:
    from cc_trace.transcript.entries import Head, Speaker

_TAG = re.compile(r"\s*<([a-z][a-z-]*)[ >]")
_COMMAND_NAME = re.compile(r"<command-name>\s*/?(.*?)\s*</command-name>", re.DOTALL)
_COMMAND_ARGS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_BASH_INPUT = re.compile(r"<bash-input>(.*?)</bash-input>", re.DOTALL)
_REMINDERS = re.compile(r"(?:\s*<system-reminder>.*?</system-reminder>)+\s*", re.DOTALL)
_FIELD: Final = r"<{0}>\s*(.*?)\s*</{0}>"
_TASK_ID = re.compile(_FIELD.format("task-id") + "|" + _FIELD.format("shell-id"), re.DOTALL)
_TOOL_USE_ID = re.compile(_FIELD.format("tool-use-id"), re.DOTALL)
_NOTIFICATION = re.compile(r"<((?:task|bash|agent)-notification)>.*?</\1>", re.DOTALL)
_STATUS = re.compile(_FIELD.format("status"), re.DOTALL)
_SUMMARY = re.compile(_FIELD.format("summary"), re.DOTALL)
# A plan's first prompt names the transcript it came from.
_OTHER_TRANSCRIPT = re.compile(r"([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})\.jsonl")

_SUMMARY_START: Final = "This session is being continued from a previous conversation"
_WAITING: Final = "is waiting on its own background work"  # the agent has stopped and will be resumed
_FROM_PEER: Final = ("Another Claude session sent a message:", "<teammate-message", "<ci-monitor-event")
_FEEDBACK: Final = ("Stop hook feedback", "Stop hook blocking error")
_NOTIFICATIONS: Final = ("task-notification", "bash-notification", "agent-notification")
_SPEAKERS: Final[dict[str, Speaker]] = {
    "human": "human",
    "task-notification": "agent",
    "coordinator": "teammate",
    "peer": "teammate",
    "auto-continuation": "system",
}
_OUTPUTS: Final = ("local-command-stdout", "local-command-stderr", "bash-stdout", "bash-stderr", "user-memory-input")


def user_entry(raw: dict[str, Any], content: object, head: Head) -> Entry:
    """Return the entry for a user line: results, a prompt, or one of the many lines that look like a prompt."""
    if isinstance(content, list):
        if len(content) == 1 and _is_result(content[0]):  # as on nearly all lines
            ends_turn = raw.get("toolEndsTurn") is True
            return make_tuple(Results, (head, (tool_result(content[0], raw, alone=True),), None, ends_turn))
        items = [item for item in content if _is_result(item)]
        if items:
            results = tuple([tool_result(item, raw, alone=len(items) == 1) for item in items])
            typed = _typed_beside(raw, content, head) if len(content) > len(items) else None
            return make_tuple(Results, (head, results, typed, raw.get("toolEndsTurn") is True))
    return _text_entry(raw, plain_text(content), head)


def _is_result(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "tool_result"


def _typed_beside(raw: dict[str, Any], content: list[Any], head: Head) -> str | None:
    """Return what a person typed while Claude worked. Interrupts and reminders can accompany a result, too."""
    others = [item for item in content if not _is_result(item)]
    text = plain_text(others).strip()
    return text if text and isinstance(_text_entry(raw, text, head), Prompt) else None


def _text_entry(raw: dict[str, Any], text: str, head: Head) -> Entry:
    begin = text[:200].lstrip()
    tag = _TAG.match(begin)
    name = tag[1] if tag else ""
    kind = head.origin
    if raw.get("isCompactSummary") is True or begin.startswith(_SUMMARY_START):
        return Compaction(head, text, {})
    if name in _NOTIFICATIONS or kind == "task-notification":
        return notification(text, head)
    if name in _OUTPUTS:
        return CommandOutput(head, text)
    if kind in ("coordinator", "peer") or begin.startswith(_FROM_PEER):  # what another agent, or session, sent
        return Prompt(
            head=head, trigger="teammate", text=text, command=None, permission_mode=text_field(raw, "permissionMode")
        )
    if name == "local-command-caveat" or (raw.get("isMeta") is True and begin.startswith("Caveat:")):
        return Skipped(head, "local-command-caveat")
    if raw.get("isMeta") is True or (name == "system-reminder" and _REMINDERS.fullmatch(text)):
        return Injected(head, text, begin.startswith(_FEEDBACK))
    if begin.startswith("[Request interrupted by user"):
        return Interrupt(head, text.strip())
    if not text.strip():
        return Skipped(head, "empty user line")
    return _prompt(raw, text, name, kind, head)


def _prompt(raw: dict[str, Any], text: str, tag: str, kind: str | None, head: Head) -> Prompt:
    mode = text_field(raw, "permissionMode")
    if tag in ("command-name", "command-message") and (name := _COMMAND_NAME.search(text)):
        args = _COMMAND_ARGS.search(text)
        shown = f"/{name[1]} {args[1].strip() if args else ''}".rstrip()
        return Prompt(head=head, trigger="command", text=shown, command=name[1], permission_mode=mode)
    if tag == "bash-input" and (shell_command := _BASH_INPUT.search(text)):
        return Prompt(
            head=head, trigger="bash", text=f"!{shell_command[1]}", command=shell_command[1], permission_mode=mode
        )
    if kind == "auto-continuation" or text_field(raw, "planContent"):
        other = _OTHER_TRANSCRIPT.search(text)
        return Prompt(
            head=head,
            trigger="continuation",
            text=text,
            command=None,
            permission_mode=mode,
            predecessor=other[1] if other else None,
        )
    return Prompt(head=head, trigger="prompt", text=text, command=None, permission_mode=mode)


def speaker(text: str, head: Head) -> Speaker:
    """Return who wrote the text of a prompt, from its tag or its line's origin; a human if neither says so."""
    if head.sidechain:
        return "agent"  # in an agent's file prompts come from the model or another agent
    tag = _TAG.match(text[:200])
    name = tag[1] if tag else ""
    if text.lstrip().startswith(_FROM_PEER):
        return "teammate"
    if name in _NOTIFICATIONS:
        return "agent"
    if name in _OUTPUTS:
        return "tool"
    return "human" if head.origin is None else _SPEAKERS.get(head.origin, "other")


def notifications(text: str, head: Head) -> tuple[Notification, ...]:
    """Return the ends of background tasks that a text reports. One line can report several."""
    parts = [match[0] for match in _NOTIFICATION.finditer(text)]
    return tuple(notification(part, head) for part in (parts if len(parts) > 1 else [text]))


def notification(text: str, head: Head) -> Notification:
    """Parse the notification of a background task's end. Every field is optional."""
    task = _TASK_ID.search(text)
    tool, status, summary = _TOOL_USE_ID.search(text), _STATUS.search(text), _SUMMARY.search(text)
    return Notification(
        head=head,
        text=text,
        task_id=(task[1] or task[2]) if task else None,
        tool_use_id=tool[1] if tool else None,
        status=status[1] if status else None,
        summary=summary[1] if summary else None,
        waiting=summary is not None and _WAITING in summary[1],
    )
