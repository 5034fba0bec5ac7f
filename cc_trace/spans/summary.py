"""What is known of a session as a whole."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cc_trace.spans.model import Span
    from cc_trace.transcript import JsonValue, ToolUse

GOAL_CHARS: Final = 200
OUTPUT_CHARS: Final = 500
# Where worktrees are put: by Claude Code, by convention, and by git itself.
_WORKTREE: Final = re.compile(r"(?P<repository>.*[^/])/(?:\.claude/worktrees|\.worktrees|\.git/worktrees)/(?P<name>.+)")


@dataclass(slots=True)
class SessionSummary:
    """Its agents' work included, where it is not said otherwise."""

    session_id: str
    turns: int = 0
    tool_calls: int = 0
    files_modified: dict[str, None] = field(default_factory=dict)
    context_tokens: int = 0
    output_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    lines_added: int = 0
    lines_removed: int = 0
    pending_tool_use: ToolUse | None = None  # the last call of the main thread, if it has no result
    max_turns_reached: bool = False
    cost_usd: float | None = None
    unpriced: int = 0  # responses without a known price
    models: dict[str, None] = field(default_factory=dict)
    first_ns: int | None = None
    last_ns: int | None = None
    cwd: str | None = None
    is_subagent: bool = False  # it is an agent's own file
    repository: str | None = None  # its name, where the session ran in a worktree of it
    worktree: str | None = None
    title: str | None = None
    pr: dict[str, JsonValue] | None = None  # the pull request that was made last
    mode: str | None = None  # the permission mode it was in last
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
        """Return the project's name: the repository's, else the last part of its directory."""
        return self.repository or (_name(self.cwd) if self.cwd else None)

    def note_worktree(self, path: str, name: str | None = None, repository: str | None = None) -> None:
        """Take a folder that may be a worktree, with its name and its repository's folder where they are known."""
        found = _WORKTREE.fullmatch(path.replace("\\", "/"))
        folder = repository or (found["repository"] if found else None)
        if folder is not None:
            self.repository = _name(folder)
            self.worktree = name or (found["name"].rstrip("/") if found else _name(path))

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
            added, removed = span.metadata.get("lines_added"), span.metadata.get("lines_removed")
            if isinstance(added, int) and isinstance(removed, int):
                self.lines_added += added
                self.lines_removed += removed
        elif (response := span.response) is not None and span.status != "error":  # a failed call costs nothing
            if response.model is not None:
                self.models[response.model] = None
            if response.cost_usd is not None:
                self.cost_usd = (self.cost_usd or 0.0) + response.cost_usd
            else:
                self.unpriced += 1
            if (usage := response.usage) is not None:
                self.output_tokens += usage.output
                self.cache_write_5m_tokens += usage.cache_write_5m
                self.cache_write_1h_tokens += usage.cache_write_1h
                if main:
                    self.context_tokens = usage.input + usage.cache_read + usage.cache_write_5m + usage.cache_write_1h


def _name(folder: str) -> str:
    """Return the last part of a path, whichever system it is from."""
    return folder.replace("\\", "/").rstrip("/").rpartition("/")[2]
