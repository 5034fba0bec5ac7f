"""Messages of the Python Agent SDK as those of the stream that it read them from.

The SDK is not imported: its classes are told by their names, and a field that a version of it lacks is left out. What
it hides is lost: times, request ids, and in versions that have no `message_id` the ids of responses.
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
    """Return what the SDK read, in the form of the stream; None for what is no message."""
    if isinstance(value, dict):  # as the TypeScript SDK, and the stream itself, have it
        return value if isinstance(value.get("type"), str) else None
    if isinstance(data := getattr(value, "data", None), dict):  # a SystemMessage keeps all of it
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
    found = {_RENAMED.get(name, name): getattr(value, name, None) for name in names}
    return {name: field for name, field in found.items() if field is not None}


def _content(value: object) -> object:
    content = getattr(value, "content", None)
    return [_block(each) for each in content] if isinstance(content, list) else content


def _block(block: object) -> object:
    kind = _BLOCKS.get(type(block).__name__)
    return block if kind is None else {"type": kind, **{k: v for k, v in vars(block).items() if v is not None}}
