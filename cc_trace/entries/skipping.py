"""Which lines are stepped over, most of them before they are parsed."""

from __future__ import annotations

from typing import Final

# Line types that are read. All others are stepped over by a look at their first bytes: in 2.1.325 one word's answer
# writes 250 KB of request bodies and prompt snapshots.
_READ: Final = frozenset(
    {b"user", b"assistant", b"system", b"progress", b"queue-operation", b"cost-state", b"attachment"}
)
_READ_SIMPLE: Final = frozenset({b"tool_use", b"tool_result"})
_READ_ATTACHMENTS: Final = frozenset({b"queued_command", b"structured_output", b"goal_status"})
_MAX_TYPE: Final = 64
_ENDS: Final = 16_384
KNOWN_IGNORED: Final = frozenset(
    {
        "agent-name",
        "agent-color",
        "agent-setting",
        "ai-title",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "attribution-snapshot",
        "content-replacement",
        "custom-title",
        "file-history-delta",
        "file-history-snapshot",
        "last-prompt",
        "marble-origami-commit",
        "marble-origami-snapshot",
        "mode",
        "permission-mode",
        "pr-link",
        "result",
        "speculation-accept",
        "summary",
        "tag",
        "task-summary",
        "tools-used",
        "worktree-state",
    }
)


def skippable(data: bytes) -> str | None:
    """Name a line that can be stepped over without parsing it; None: it must be parsed.

    What looks like two objects on one line is parsed: the second one may be a prompt.
    """
    reason = _reason(data)
    return None if reason is None or _several(data) else reason


def _several(data: bytes) -> bool:
    """Look for a second object near both ends: looking through all of a request body takes as long as parsing it."""
    return data.find(b'}{"', 0, _ENDS) >= 0 or data.find(b'}{"', max(_ENDS, len(data) - _ENDS) - 2) >= 0


def _reason(data: bytes) -> str | None:
    """Name a line of a type that is not read by its first bytes.

    The first `"type":"` is the line's own when only one brace is open before it; quotes inside strings are escaped.
    """
    at = data.find(b'"type":"', 0, 4096)
    if at < 0:
        return None
    depth = data.count(b"{", 0, at)
    inside = depth == 2 and data.endswith(b'"attachment":{', 0, at)  # noqa: PLR2004
    end = data.find(b'"', at + 8, at + 8 + _MAX_TYPE) if depth == 1 or inside else -1
    if end < 0:
        return None
    kind = data[at + 8 : end]
    if depth == 1:
        if kind in _READ:
            if kind != b"progress" or b'"type":"agent_progress"' in data:
                return None
            return "progress"
        return None if kind in _READ_SIMPLE else ignored(kind.decode("ascii", "replace"))
    return None if kind in _READ_ATTACHMENTS else f"attachment/{kind.decode('ascii', 'replace')}"


def ignored(kind: str) -> str:
    """Return what a line of a type that is not read is counted under."""
    return kind if kind in KNOWN_IGNORED else f"unknown type {kind[:_MAX_TYPE]}"
