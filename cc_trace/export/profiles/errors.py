"""The kind of error that a span ended with: `error.type` of the conventions, one of few values.

| value | of |
|---|---|
| `400`, `529`, … | an API error: its HTTP status |
| `overloaded_error`, … | an API error without a status: Anthropic's name for it |
| `exit_code_1`, … | a command: its exit code |
| `InputValidationError`, `ENOENT`, … | a tool: the class at the start of its message |
| `-32602`, … | an MCP tool: its JSON-RPC code |
| `user-rejected`, … | a denied tool call: the kind of denial |
| `tool_error`, `turn_error`, … | an error without further details |
| `interrupted`, `incomplete` | anything that did not finish |
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cc_trace.spans import Span

_HTTP_ERRORS: Final = range(400, 600)
_EXIT_CODES: Final = range(-255, 256)
_API_STATUS: Final = re.compile(r"API Error: (?:Request rejected \()?([45]\d\d)\b")
_API_NAME: Final = re.compile(r"[a-z]+(?:_[a-z]+)*")
_MAX_NAME_CHARS: Final = 60
_MCP_CODE: Final = re.compile(r"(?:<tool_use_error>)?MCP error (-\d{1,6})\b")
# Claude Code puts a tool's own errors into a tag. System errors look like ENOENT.
_CLASS: Final = re.compile(
    r"(?:<tool_use_error>)?(?:Error: )?((?:[A-Z][A-Za-z]{0,40})?(?:Error|Exception)|E[A-Z]{3,12})(?=: )"
)


def error_type(span: Span) -> str:
    """Return the kind of error of a span that is not ok."""
    if span.status != "error":
        return span.status
    if span.kind == "tool":
        return _tool_error(span)
    fallback = span.name if span.kind == "event" else f"{span.kind}_error"
    return _api_error(span) or fallback


def _api_error(span: Span) -> str | None:
    status, name = span.metadata.get("status"), span.metadata.get("error_type")
    if isinstance(status, int) and status in _HTTP_ERRORS:
        return str(status)
    if match := _API_STATUS.match(span.error or ""):
        return match[1]
    if isinstance(name, str) and len(name) <= _MAX_NAME_CHARS and _API_NAME.fullmatch(name):
        return name
    return None


def _tool_error(span: Span) -> str:
    denial, text = span.metadata.get("denial"), span.error or ""
    if isinstance(denial, str):
        return denial
    for name in ("exitCode", "code"):
        code = span.metadata.get(name)
        if type(code) is int and code and code in _EXIT_CODES:
            return f"exit_code_{code}"
    match = _MCP_CODE.match(text) or _CLASS.match(text)
    return match[1] if match and match[1].upper() != "ERROR" else "tool_error"
