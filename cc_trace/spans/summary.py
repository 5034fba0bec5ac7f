"""What is known of a session as a whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cc_trace.spans.model import Span
    from cc_trace.transcript import JsonValue

GOAL_CHARS: Final = 200
OUTPUT_CHARS: Final = 500


@dataclass(slots=True)
class SessionSummary:
    """Its agents' work included, where it is not said otherwise."""

    session_id: str
    turns: int = 0
    tool_calls: int = 0
    files_modified: dict[str, None] = field(default_factory=dict)
    context_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    unpriced: int = 0  # responses without a known price
    models: dict[str, None] = field(default_factory=dict)
    first_ns: int | None = None
    last_ns: int | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    slug: str | None = None
    goal: str = ""
    latest_output: str = ""
    predecessor: str | None = None
    unanswered_prompts: list[str] = field(default_factory=list)  # at the end of the file: nothing came back
    reported_cost_usd: float | None = None  # Claude Code's own count
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def unseen_cost_usd(self) -> float | None:
        """Return what Claude Code says it spent beyond what is traced: compaction, titles and other calls of its own.

        None where it says nothing or a response has no known price. Its total does not cover aborted responses, and
        that of a process that was killed is lost: then nothing is unseen.
        """
        if self.reported_cost_usd is None or self.unpriced:
            return None
        return max(0.0, round(self.reported_cost_usd - (self.cost_usd or 0.0), 9))

    @property
    def project(self) -> str | None:
        """Return the project's name: the last part of its directory, whichever system it is from."""
        return self.cwd.replace("\\", "/").rstrip("/").rpartition("/")[2] if self.cwd else None

    def describe(self, metadata: Mapping[str, JsonValue]) -> None:
        """Take what a turn's metadata says of its session."""
        for name in ("cwd", "git_branch", "version", "slug"):
            if isinstance(value := metadata.get(name), str):
                setattr(self, name, value)

    def count(self, span: Span, *, main: bool) -> None:
        """Add one span; `main`: of the main thread, whose last response tells how full the context is."""
        if (tool := span.tool) is not None:
            self.tool_calls += 1
            if tool.file_path is not None and span.status == "ok":
                self.files_modified[tool.file_path] = None
        elif (response := span.response) is not None:
            if response.model is not None:
                self.models[response.model] = None
            if response.cost_usd is not None:
                self.cost_usd = (self.cost_usd or 0.0) + response.cost_usd
            else:
                self.unpriced += 1
            if (usage := response.usage) is not None:
                self.output_tokens += usage.output
                if main:
                    self.context_tokens = usage.input + usage.cache_read + usage.cache_write_5m + usage.cache_write_1h
