"""Content blocks, tool results and token counts inside a line."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Final

import orjson

from cc_trace.transcript.entries import (
    Advice,
    Block,
    JsonValue,
    Other,
    Permission,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    Usage,
    make_tuple,
)

# The fields of toolUseResult that become metadata: status, place, duration. The content is in the result itself.
_METADATA_KEYS: Final = frozenset(
    {
        "status",
        "interrupted",
        "exitCode",
        "code",
        "returnCodeInterpretation",
        "filePath",
        "userModified",
        "type",
        "durationMs",
        "durationSeconds",
        "numFiles",
        "numLines",
        "bytes",
        "truncated",
        "isAsync",
        "backgroundTaskId",
        "agentId",
        "agentType",
        "resolvedModel",
        "totalDurationMs",
        "totalTokens",
        "totalToolUseCount",
    }
)
# A result with none of these has nothing to do with agents or background tasks; most have none.
_LAUNCH: Final = frozenset(
    {
        "agentId",
        "agent_id",
        "teammate_id",
        "resumedAgentId",
        "isAsync",
        "backgroundTaskId",
        "taskId",
        "runId",
        "workflowRunId",
    }
)
# With `-p` the results inside an agent's file have no structured part: only this text marks a background task.
_IN_BACKGROUND: Final = "Command running in background with ID: "
_COMMAND_ID = re.compile(re.escape(_IN_BACKGROUND) + r"([0-9A-Za-z_-]{1,64})")
_CONTAINERS: Final = frozenset({dict, list})
_SCALAR: Final = (str, int, float)
_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (-?\d{1,10})\b")
_WORKFLOW_RUN_ID = re.compile(r"\bwf_[0-9A-Za-z_-]+")
_MEDIA: Final = ("image", "document", "file")
_NONE: Final[dict[str, Any]] = {}
_MAX_PATH: Final = 4096
_MAX_COUNT: Final = 1 << 48
_MAX_WORD: Final = 64
_REJECTED: Final = "user-rejected"
_INTERRUPTED: Final = "[Request interrupted by user"


def text_field(raw: dict[str, Any], key: str) -> str | None:
    """Return a field that is a non-empty string, else None."""
    value = raw.get(key)
    return value if value and isinstance(value, str) else None


def count_field(raw: dict[str, Any], key: str) -> int:
    """Return a field that is a count, else 0. Bools do not count, nor do numbers too large to be summed."""
    value = raw.get(key)
    return value if type(value) is int and 0 < value < _MAX_COUNT else 0


def object_field(raw: dict[str, Any], key: str) -> dict[str, Any]:
    """Return a field that is an object, else an empty one."""
    value = raw.get(key)
    return value if value and isinstance(value, dict) else _NONE


def plain_text(content: object) -> str:
    """Return the readable part of some content: its text, and a line for each image or document."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ""
    texts = [text for item in content if (text := _part_text(item))]
    return "\n".join(texts)


def _part_text(part: Any) -> str:
    match part:
        case str(text):
            return text
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": str(kind)} if kind in _MEDIA:
            return media(part)
        case {"type": "tool_reference", "tool_name": str(name)}:
            return name
        case {"text": str(text)}:
            return text
        case _:
            return ""


def media(block: dict[str, Any]) -> str:
    """Describe an image or document by type, size and digest: base64 is of no use to someone reading a trace."""
    source = object_field(block, "source") or object_field(block, "file")
    kind = text_field(source, "media_type") or text_field(source, "type") or "unknown type"
    data = text_field(source, "data") or text_field(source, "base64")
    if data is None:
        where = text_field(source, "url") or text_field(source, "file_id") or text_field(block, "title") or ""
        return f"[{block['type']} {kind} {where}".rstrip() + "]"
    size = len(data) * 3 // 4 - data[-2:].count("=")
    digest = hashlib.sha256(data.encode("utf-8", "replace")).hexdigest()[:16]
    return f"[{block['type']} {kind}, {size} bytes, sha256 of base64 {digest}]"


def blocks(content: object) -> tuple[Block, ...]:
    """Return a response's blocks. A response can also be a plain string."""
    if isinstance(content, list):
        if len(content) == 1:  # as on nearly all lines
            block = _block(content[0])
            return () if block is None else (block,)
        return tuple([block for item in content if (block := _block(item)) is not None])
    return (Text(content),) if isinstance(content, str) else ()


def _block(item: Any) -> Block | None:
    if not isinstance(item, dict):
        return Text(item) if isinstance(item, str) else None
    kind = item.get("type")
    if kind == "tool_use":
        return tool_use(item)
    if kind == "text":
        return Text(text_field(item, "text") or "")
    if kind == "thinking":
        return Thinking(text_field(item, "thinking") or "")
    if kind == "redacted_thinking":
        return Thinking("", redacted=True)
    if kind in _MEDIA:
        return Other(kind, media(item))
    if not isinstance(kind, str):
        return None
    name = text_field(item, "name") or text_field(item, "tool_use_id")
    return Other(kind, f"[{kind} {name}]" if name else f"[{kind}]")


def tool_use(raw: dict[str, Any]) -> ToolUse:
    """Return a tool call from a block, or from a line of the simplest format."""
    id_, name = text_field(raw, "id") or text_field(raw, "tool_use_id") or "", text_field(raw, "name")
    input_ = _writable(raw.get("input"))
    if isinstance(input_, dict):
        match name:
            case "Agent" | "Task":
                prompt, resumed = text_field(input_, "prompt"), text_field(input_, "resume")
                return ToolUse(
                    id=id_,
                    name=name,
                    input=input_,
                    prompt=prompt,
                    agent_id=resumed,
                    agent_kind=text_field(input_, "subagent_type"),
                )
            case "SendMessage":
                return ToolUse(
                    id=id_,
                    name=name,
                    input=input_,
                    prompt=None,
                    agent_id=text_field(input_, "to") or text_field(input_, "recipient"),
                )
            case "Write" | "Edit" | "MultiEdit":
                return ToolUse(id_, name, input_, file_path=text_field(input_, "file_path"))
            case "NotebookEdit":
                return ToolUse(id_, name, input_, file_path=text_field(input_, "notebook_path"))
    return make_tuple(ToolUse, (id_, name or "unknown", input_, None, None, None, None))


def _writable(value: Any) -> Any:
    """Return a value unchanged, or as text if it is nested deeper than orjson can write (254 levels)."""
    if isinstance(value, dict) and _CONTAINERS.isdisjoint(map(type, value.values())):
        return value  # true of nearly all inputs of tools
    try:
        orjson.dumps([[[[[[[[value]]]]]]]])  # a span nests it a few levels deeper
    except TypeError:
        try:
            return json.dumps(value, ensure_ascii=False)
        except RecursionError:
            return "[nested too deeply to keep]"
    return value


def compact_json(value: Any) -> str:
    """Return a value as compact JSON, or as `_writable` makes it if it is nested too deeply for orjson."""
    written = _writable(value)
    return written if isinstance(written, str) and written is not value else orjson.dumps(written).decode()


def tool_result(raw: dict[str, Any], line: dict[str, Any], *, alone: bool) -> ToolResult:
    """Return a result block. The line's own fields about it apply only if it is `alone` on its line."""
    extra = line.get("toolUseResult") if alone else None
    details: dict[str, Any] = extra if isinstance(extra, dict) else _NONE
    output, is_error = _output(raw.get("content")), raw.get("is_error") is True
    text = output if isinstance(output, str) else ""
    denial = text_field(line, "toolDenialKind")
    metadata: dict[str, JsonValue] = {
        key: value
        for key, value in details.items()
        if key in _METADATA_KEYS and isinstance(value, _SCALAR) and value != ""
    }
    if "file" in details and (path := text_field(object_field(details, "file"), "filePath")):
        metadata["filePath"] = path
    if is_error and (exit_code := _EXIT_CODE.match(text)):
        metadata["exitCode"] = int(exit_code[1])
    agent_id = task_id = workflow_run_id = None
    if not _LAUNCH.isdisjoint(details):
        agent_id = text_field(details, "agentId") or text_field(details, "agent_id")
        agent_id = agent_id or text_field(details, "teammate_id") or text_field(details, "resumedAgentId")
        task_id = _task_id(details, agent_id)
        workflow_run_id = _workflow_run_id(details)
    elif not details and text.startswith(_IN_BACKGROUND) and (command := _COMMAND_ID.match(text)):
        task_id = command[1]
    return make_tuple(
        ToolResult,
        (
            text_field(raw, "tool_use_id") or "",
            output,
            is_error,
            denial,
            denial == "interrupted" or text.startswith(_INTERRUPTED) or details.get("interrupted") is True,
            agent_id,
            task_id,
            workflow_run_id,
            metadata,
            _permission(line, denial) if alone and (denial or "permissionDecision" in line) else None,
            _changed_lines(details) if "structuredPatch" in details else None,
        ),
    )


def _permission(line: dict[str, Any], denial: str | None) -> Permission | None:
    """Return who decided. Before 2.1.3xx only refusals are recorded. An interrupt is not a decision."""
    permission = object_field(line, "permissionDecision")
    decision, source = text_field(permission, "decision"), text_field(permission, "source")
    reason = text_field(permission, "reasonCode"), text_field(permission, "reasonType")
    if decision is None:
        if denial in (None, "interrupted"):
            return None
        # The line does not say whether a dialog was answered or the tool was already running.
        return Permission("reject", None, denial and denial[:_MAX_WORD], denial == _REJECTED)
    why = next((text for text in reason if text not in (None, "unknown")), None)
    asked = source is not None and source.startswith("user_") and reason[1] is None
    return Permission(decision[:_MAX_WORD], source and source[:_MAX_WORD], why and why[:_MAX_WORD], asked)


def _changed_lines(details: dict[str, Any]) -> tuple[int, int]:
    """Return how many lines an edit added and removed. A new file has no patch: all its lines were added."""
    added = removed = 0
    patch, content = details.get("structuredPatch"), details.get("content")
    for hunk in patch if isinstance(patch, list) else ():
        lines = hunk.get("lines") if isinstance(hunk, dict) else None
        for line in lines if isinstance(lines, list) else ():
            if isinstance(line, str):
                added += line.startswith("+")
                removed += line.startswith("-")
    if not patch and details.get("type") == "create" and isinstance(content, str):
        added = content.count("\n") + (not content.endswith("\n") and content != "")
    return added, removed


def _task_id(details: dict[str, Any], agent_id: str | None) -> str | None:
    """Return the id of the background task that a result says was launched."""
    launched = details.get("isAsync") is True or details.get("status") in ("async_launched", "teammate_spawned")
    launched = launched or text_field(details, "resumedAgentId") is not None  # an agent that a message woke
    return text_field(details, "backgroundTaskId") or (
        (agent_id or text_field(details, "taskId")) if launched else None
    )


def _workflow_run_id(details: dict[str, Any]) -> str | None:
    """Return the id of the workflow run in a result: from its field, else from any text that contains one."""
    values = (details.get("runId"), details.get("workflowRunId"), *details.values())
    for value in values:
        if isinstance(value, str) and len(value) < _MAX_PATH and (match := _WORKFLOW_RUN_ID.search(value)):
            return match[0]
    return None


def _output(content: object) -> JsonValue:
    """Return a result as the model saw it, with images replaced by their descriptions."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return plain_text(content)
    return None if content is None else str(content)


def advisors(raw: object) -> tuple[Advice, ...]:
    """Return the token counts of advisors, which are listed in `iterations` beside the response's own."""
    iterations = raw.get("iterations") if isinstance(raw, dict) else None
    if not isinstance(iterations, list):
        return ()
    messages = [each for each in iterations if isinstance(each, dict) and each.get("type") == "advisor_message"]
    return tuple(Advice(text_field(each, "model"), usage(each) or Usage()) for each in messages)


def usage(raw: object) -> Usage | None:
    """Return a response's token counts, or None if the line has none."""
    if not isinstance(raw, dict):
        return None
    writes = object_field(raw, "cache_creation")
    total, five, hour = count_field(raw, "cache_creation_input_tokens"), 0, 0
    if writes:
        five, hour = count_field(writes, "ephemeral_5m_input_tokens"), count_field(writes, "ephemeral_1h_input_tokens")
    return make_tuple(
        Usage,
        (
            count_field(raw, "input_tokens"),
            count_field(raw, "output_tokens"),
            count_field(raw, "cache_read_input_tokens"),
            max(five, total - hour),
            hour,
            count_field(object_field(raw, "server_tool_use"), "web_search_requests") if "server_tool_use" in raw else 0,
            raw.get("speed") == "fast",
            bool(writes) or not total,
            count_field(object_field(raw, "output_tokens_details"), "thinking_tokens")
            if "output_tokens_details" in raw
            else 0,
        ),
    )
