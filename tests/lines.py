"""Transcript lines written by hand, and spans as an outline, so that a test shows a session and its tree side by side.

Times are seconds after `NOON`. A line's uuid follows from its content, so equal lines are copies of each other, as
they are in real files; any field can be given by its own name and replaces the usual one.
"""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cc_trace.spans.session import Session
from cc_trace.transcript.lines import Line as RawLine
from cc_trace.transcript.parse import parse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cc_trace.spans.model import Span
    from cc_trace.transcript.entries import Entry

Line: TypeAlias = dict[str, Any]
Block: TypeAlias = dict[str, Any]

SESSION: Final = "11111111-0000-4000-8000-000000000001"
MODEL: Final = "claude-sonnet-4-5-20250929"
VERSION: Final = "2.1.200"
NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
# 12 in, 400 out, 50,000 read, 1,000 written for 5 minutes and 2,000 for an hour cost 0.036786 USD on MODEL.
USAGE: Final = {
    "input_tokens": 12,
    "output_tokens": 400,
    "cache_read_input_tokens": 50_000,
    "cache_creation_input_tokens": 3_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 1_000, "ephemeral_1h_input_tokens": 2_000},
}


# Lines


def line(kind: str, at: float | None, **fields: Any) -> Line:
    """A line of any type, with what all lines have."""
    made = {"type": kind, "sessionId": SESSION, "version": VERSION, "isSidechain": False, "parentUuid": None}
    if at is not None:
        made["timestamp"] = stamp(at)
    made |= fields
    if "uuid" not in made:
        made["uuid"] = str(uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(made)))
    return made


def prompt(content: Any, at: float | None = 0, **fields: Any) -> Line:
    """A user line: a string or blocks that a person typed, or one of the texts that only look so."""
    return line("user", at, message={"role": "user", "content": content}, **fields)


def reply(message_id: str, *blocks: Block | str, at: float | None, usage: Any = None, **fields: Any) -> Line:
    """A line of a response; strings are text blocks. `message` adds to the message or replaces parts of it."""
    message: Line = {"id": message_id, "type": "message", "role": "assistant", "model": MODEL, "stop_reason": None}
    message["content"] = [text(block) if isinstance(block, str) else block for block in blocks]
    message["usage"] = USAGE if usage is None else usage
    message |= fields.pop("message", {})
    return line("assistant", at, message=message, requestId=f"req_{message_id}", **fields)


def result(
    tool_use_id: str, content: Any = "done", *, at: float | None, error: bool = False, told: Any = None, **fields: Any
) -> Line:
    """A tool's result; `told` is the structured toolUseResult."""
    block = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content, "is_error": error}
    if told is not None:
        fields["toolUseResult"] = told
    return line("user", at, message={"role": "user", "content": [block]}, **fields)


def launched(tool_use_id: str, agent_id: str, *, at: float) -> Line:
    """The result of a call that only started an agent."""
    told = {"isAsync": True, "status": "async_launched", "agentId": agent_id}
    return result(tool_use_id, "Async agent launched successfully.", at=at, told=told)


def notification(task_id: str, *, at: float, tool_use_id: str | None = None, status: str = "completed") -> Line:
    """The end of a background task."""
    call = f"<tool-use-id>{tool_use_id}</tool-use-id>\n" if tool_use_id is not None else ""
    told = f"<task-id>{task_id}</task-id>\n{call}<status>{status}</status>\n<summary>Agent ended</summary>"
    return prompt(f"<task-notification>\n{told}\n</task-notification>", at, origin={"kind": "task-notification"})


def progress(agent_id: str | None, tool_use_id: str | None, repeated: Line) -> Line:
    """A subagent's line repeated in its parent's file."""
    data = {"type": "agent_progress", "agentId": agent_id, "message": repeated, "prompt": ""}
    return line("progress", None, data=data, parentToolUseID=tool_use_id, timestamp=repeated["timestamp"])


def turn_duration(milliseconds: int, *, at: float) -> Line:
    """Written in an interactive session after the Stop hooks."""
    return line("system", at, subtype="turn_duration", durationMs=milliseconds)


def stop_hook_summary(*, at: float) -> Line:
    """Written when all Stop hooks have ended."""
    return line("system", at, subtype="stop_hook_summary", hookCount=1, preventedContinuation=False)


def compact_boundary(*, at: float) -> Line:
    """The context was compacted here."""
    return line("system", at, subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 167_731})


def compact_summary(*, at: float) -> Line:
    """What replaces the compacted context."""
    return prompt("This session is being continued from a previous conversation.", at, isCompactSummary=True)


def retry(*, at: float) -> Line:
    """A request failed and is tried again."""
    return line("system", at, subtype="api_error", error={"status": 529}, retryAttempt=1, maxRetries=10)


def api_error(message_id: str, words: str, *, at: float) -> Line:
    """A request failed for good: Claude Code writes the error as if the model had said it."""
    return reply(message_id, words, at=at, isApiErrorMessage=True, message={"model": "<synthetic>"})


def interrupt(*, at: float) -> Line:
    """The user pressed Esc."""
    return prompt([text("[Request interrupted by user]")], at)


# Blocks


def text(words: str) -> Block:
    """A text block."""
    return {"type": "text", "text": words}


def thinking(words: str = "") -> Block:
    """A thinking block."""
    return {"type": "thinking", "thinking": words, "signature": "c2lnbmF0dXJl"}


def tool_use(tool_use_id: str, name: str = "Bash", /, **given: Any) -> Block:
    """A tool call."""
    return {"type": "tool_use", "id": tool_use_id, "name": name, "input": given}


def task(tool_use_id: str, told: str = "look", name: str = "Agent") -> Block:
    """A call that starts an agent."""
    return tool_use(tool_use_id, name, prompt=told, description="a task", subagent_type="Explore")


# Files


def write(path: Path, lines: Iterable[Line | str | bytes]) -> Path:
    """Write lines to a file: objects as compact JSON, as Claude Code does; strings and bytes as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(encoded(item) + b"\n" for item in lines))
    return path


def encoded(item: Line | str | bytes) -> bytes:
    """The bytes of one line, without its newline."""
    if isinstance(item, bytes):
        return item
    made = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, separators=(",", ":"))
    return made.encode()


def session(directory: Path, *lines: Line | str | bytes) -> Path:
    """Write a session's main file."""
    return write(directory / f"{SESSION}.jsonl", lines)


def agent(main: Path, agent_id: str, *lines: Line, folder: str = "", **meta: Any) -> Path:
    """Write an agent's file in the directory of its session and, where anything is given for it, its meta file."""
    path = main.with_suffix("") / "subagents" / folder / f"agent-{agent_id}.jsonl"
    if meta:
        write(path.with_suffix(".meta.json"), [meta])
    return write(path, [{**item, "isSidechain": True, "agentId": agent_id} for item in lines])


# What comes out


def stamp(at: float) -> str:
    """A time as transcripts write it."""
    return f"{(NOON + timedelta(seconds=at)):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"


def ns(at: float) -> int:
    """A time as spans carry it."""
    return int(NOON.timestamp()) * 1_000_000_000 + round(at * 1000) * 1_000_000


def entries(item: Line | str | bytes) -> list[Entry]:
    """What one line is read as."""
    return list(parse(RawLine(0, 0, encoded(item) + b"\n")))


def spans(path: Path) -> list[Span]:
    """All spans of a session."""
    return list(Session(path).spans())


def tree(found: Iterable[Span]) -> str:
    """Spans as an outline: kind, name, its id in the transcript, how it ended, and the agent whose work it is."""
    depth: dict[str | None, int] = {None: -1}
    rows: list[str] = []
    for span in found:
        depth[span.span_id] = level = depth[span.parent_id] + 1
        name = span.name
        if span.response is not None:
            name = f"{span.response.message_id}"
        elif span.tool is not None:
            name = f"{span.name} {span.tool.id}"
        owner = f" [{span.agent_id}]" if span.agent_id is not None else ""
        rows.append(f"{'  ' * level}{span.kind} {name} {span.status}{owner}")
    return "\n".join(rows)
