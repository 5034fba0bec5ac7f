"""Prompts that nobody typed: notifications of background tasks, and messages of other agents and sessions. Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_NOTIFICATION: Final = re.compile(r"<(?:task|bash|agent)-notification>")
_MESSAGE: Final = re.compile(
    r"(?:Another Claude session sent a message:\s*)?<((?:teammate|agent)-message)(?: ([^<>]{0,500}))?>"
)
_NAME: Final = re.compile(r"(?:teammate_id|from)=\"([^\"]{1,100})\"")


class Notice(NamedTuple):
    """Who sent it, and its text without the tags around it."""

    sender: str
    text: str


def notice(text: str) -> Notice | None:
    """Return what a prompt that nobody typed says, or None if it is another prompt."""
    text = text.strip()
    if _NOTIFICATION.match(text):
        parts = [_summary(part) for part in _NOTIFICATION.split(text)[1:]]
        return Notice("Notification", "\n\n".join(parts)) if all(parts) else None
    if opening := _MESSAGE.match(text):
        name = _NAME.search(opening[2] or "")
        body = text[opening.end() :].removesuffix(f"</{opening[1]}>").strip()
        return Notice(f"Agent {name[1]}" if name else "Another session", body)
    return None


def _summary(text: str) -> str:
    """Return the summary of a notification and the result of its task; empty if it has no summary."""
    summary, _, rest = text.partition("<summary>")[2].partition("</summary>")
    result = rest.partition("<result>")[2].rpartition("</result>")[0]
    return "\n\n".join(part for part in (summary.strip(), result.strip()) if part) if summary.strip() else ""
