"""The transcripts Claude Code wrote, read line by line, without any of cc_trace's code."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_COUNTED: Final = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cache_read": "cacheReadInputTokens",
    "cache_write": "cacheCreationInputTokens",
}


@dataclass(frozen=True, slots=True)
class Transcripts:
    """All transcripts below a configuration folder."""

    config: Path

    @property
    def files(self) -> list[Path]:
        """Every file of lines, agents' too."""
        return sorted((self.config / "projects").rglob("*.jsonl"))

    def path(self, session_id: str) -> Path:
        """Return the transcript of a session."""
        (found,) = (path for path in self.files if path.stem == session_id)
        return found

    def lines(self, path: Path) -> Iterator[dict[str, Any]]:
        """Yield the complete lines of a file."""
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield json.loads(line)

    def every_line(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of all files."""
        for path in self.files:
            yield from self.lines(path)

    def count(self, **fields: str) -> int:
        """Count the lines that have these fields."""
        return sum(fields.items() <= line.items() for line in self.every_line())

    def contain(self, text: str) -> bool:
        """Tell whether a text stands in any of them."""
        return any(text.encode() in path.read_bytes() for path in self.files)

    def stops(self) -> int:
        """Count the turns whose Stop hooks have ended."""
        return self.count(subtype="stop_hook_summary")

    def rested_seconds(self) -> float:
        """Return how long nothing has been written."""
        return time.time() - max(path.stat().st_mtime for path in self.files)

    def hook_output(self, *, ours: bool) -> list[dict[str, Any]]:
        """Return the lines that show that a hook printed something, failed, or made the model go on.

        `ours`: only those that name our hook, where the scenario has others.
        """
        counting = [line for line in self.every_line() if _tells_of_output(line)]
        return [
            line
            for line in counting
            if not ours or "cc-trace" in json.dumps([line.get("hookErrors"), line.get("attachment")])
        ]

    def reported_tokens(self) -> dict[str, dict[str, Counter[str]]]:
        """Return Claude Code's own totals: session -> model -> tokens."""
        return {
            session: {
                model: Counter({ours: used[theirs] for ours, theirs in _COUNTED.items()})
                for model, used in line["modelUsage"].items()
            }
            for session, line in self._totals().items()
        }

    def reported_cost_usd(self) -> dict[str, float]:
        """Return Claude Code's own price of each session."""
        return {session: line["totalCostUSD"] for session, line in self._totals().items()}

    def _totals(self) -> dict[str, dict[str, Any]]:
        """Return the last line of each session that has them."""
        return {line["sessionId"]: line for line in self.every_line() if line.get("type") == "cost-state"}

    def responses(self, session_id: str) -> set[str]:
        """Return the ids of the responses in a session's files, copied ones and its agents' included."""
        own = [path for path in self.files if session_id in (path.stem, path.parent.parent.name)]
        lines = (line for path in own for line in self.lines(path) if line.get("type") == "assistant")
        return {line["message"]["id"] for line in lines}


def _tells_of_output(line: dict[str, Any]) -> bool:
    match line:
        case {"subtype": "stop_hook_summary"}:
            return bool(line["hookErrors"] or line["hasOutput"] or line["preventedContinuation"])
        case {"type": "attachment", "attachment": {"type": str(kind)}}:
            return kind.startswith("hook_")
        case _:
            return False
