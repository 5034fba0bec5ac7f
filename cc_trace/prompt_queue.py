"""Prompts typed while Claude works: what Claude Code writes of its queue.

Some versions hand a queued prompt to the model inside the turn and write nothing of it but these operations.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cc_trace.entries import Queue


class PromptQueue:
    """The queue as far as the transcript tells it. An image has no content here, only its place."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque()

    def operate(self, entry: Queue) -> str | None:
        """Follow one operation; return the text that it handed over inside the running turn."""
        match entry.operation:
            case "enqueue":
                self._texts.append(entry.content or "")
            case "dequeue" if self._texts:
                self._texts.popleft()  # comes as a line of its own
            case "remove" if self._texts:
                return self._texts.popleft().strip() or None
            case "popAll":
                self._texts.clear()
        return None

    def forget(self, text: str) -> None:
        """Take out what has come as a line of its own: not every version writes that it was taken."""
        if text in self._texts:
            self._texts.remove(text)
