"""Converts messages of the Python Agent SDK back to those of the stream it read.

The SDK is not imported: its classes are recognized by name, and fields that a version lacks are left out. What the SDK
drops is lost: times, request ids, and, in versions without `message_id`, the ids of responses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cc_trace.transcript.stream.messages import Message

_BLOCKS: Final = {
    "TextBlock": "text",
    "ThinkingBlock": "thinking",
    "ToolUseBlock": "tool_use",
    "ToolResultBlock": "tool_result",
    "ServerToolUseBlock": "server_tool_use",
    "ServerToolResultBlock": "advisor_tool_result",
}
_RENAMED: Final = {"model_usage": "modelUsage"}
_COMMON: Final = ("uuid", "session_id", "parent_tool_use_id")
_RESULT: Final = (
    *("subtype", "is_error", "duration_ms", "duration_api_ms", "num_turns", "stop_reason", "total_cost_usd", "usage"),
    *("result", "structured_output", "model_usage", "permission_denials", "errors", "api_error_status"),
    "terminal_reason",
)


def sdk_message(value: object) -> Message | None:
    """Return the stream message that the SDK read, or None if `value` is not a message."""
    if isinstance(value, dict):  # a message of the TypeScript SDK, or of the stream itself
        return value if isinstance(value.get("type"), str) else None
    if isinstance(data := getattr(value, "data", None), dict):  # a SystemMessage keeps the whole message
        return {"type": "system", **data}
    match type(value).__name__:
        case "AssistantMessage":
            inner = {"id": getattr(value, "message_id", None), "role": "assistant", "content": _content(value)}
            inner |= _fields(value, "model", "usage", "stop_reason")
            return {"type": "assistant", "message": inner, **_fields(value, *_COMMON, "error")}
        case "UserMessage":
            inner = {"role": "user", "content": _content(value)}
            return {"type": "user", "message": inner, **_fields(value, *_COMMON, "tool_use_result", "origin")}
        case "ResultMessage":
            return {"type": "result", **_fields(value, *_COMMON, *_RESULT)}
        case "StreamEvent":
            return {"type": "stream_event", **_fields(value, *_COMMON, "event")}
        case "RateLimitEvent":
            info = getattr(getattr(value, "rate_limit_info", None), "raw", None)
            return {"type": "rate_limit_event", "rate_limit_info": info, **_fields(value, *_COMMON)}
        case _:
            return None


def _fields(value: object, *names: str) -> dict[str, Any]:
    fields = {_RENAMED.get(name, name): getattr(value, name, None) for name in names}
    return {name: field for name, field in fields.items() if field is not None}


def _content(value: object) -> object:
    content = getattr(value, "content", None)
    return [_block(block) for block in content] if isinstance(content, list) else content


def _block(block: object) -> object:
    kind = _BLOCKS.get(type(block).__name__)
    return block if kind is None else {"type": kind, **{k: v for k, v in vars(block).items() if v is not None}}
