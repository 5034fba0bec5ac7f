"""Totals and facts about a session as a whole."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cc_trace.transcript import ModelTotals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cc_trace.spans.model import Response, Span
    from cc_trace.transcript import JsonValue, ToolUse

_NOTHING: Final = ModelTotals()
_DIGITS: Final = 9  # decimals of a sum in USD; the rest is floating-point error
TITLE_CHARS: Final = 200  # of a title, and of the first prompt, which stands in for one
OUTPUT_CHARS: Final = 500
# Where worktrees are: those of Claude Code, by convention, and of git itself.
_WORKTREE: Final = re.compile(r"(?P<repository>.*[^/])/(?:\.claude/worktrees|\.worktrees|\.git/worktrees)/(?P<name>.+)")


@dataclass(slots=True)
class SessionSummary:
    """A session's summary. Agents' work is included unless stated otherwise."""

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
    repository: str | None = None  # the repository's name, if the session ran in one of its worktrees
    worktree: str | None = None
    title: str | None = None
    pr: dict[str, JsonValue] | None = None  # the last pull request created
    mode: str | None = None  # the last permission mode
    git_branch: str | None = None
    version: str | None = None
    slug: str | None = None
    first_prompt: str = ""  # its beginning
    first_prompt_typed: bool = False  # a human wrote it
    latest_output: str = ""
    predecessor: str | None = None
    lineage: str | None = None  # what became of the predecessor: "fork", "plan", "clear" or "copied lines"
    unanswered_prompts: list[str] = field(default_factory=list)  # at the end of the file, without a response
    aborted_cost_usd: float = 0.0  # part of `cost_usd`: aborted responses, which Claude Code's total omits
    reported_cost_usd: float | None = None  # Claude Code's own total
    reported_models: dict[str, ModelTotals] = field(default_factory=dict)  # the same by model
    compacted_models: dict[str, None] = field(default_factory=dict)  # whose conversations were compacted
    skipped: Counter[str] = field(default_factory=Counter)
    _traced: dict[str, list[float]] = field(default_factory=dict)  # what is traced of that, as in `ModelTotals`
    _last_model: str | None = None  # of the main thread

    @property
    def unseen_cost_usd(self) -> float | None:
        """Return what Claude Code reports beyond what is traced: compaction, titles and other calls of its own.

        None if there is no report or a response has no known price. The report does not cover aborted responses, and
        the report of a killed process is lost: then nothing is unseen.
        """
        if self.reported_cost_usd is None or self.unpriced:
            return None
        return max(0.0, round(self.reported_cost_usd - (self.cost_usd or 0.0) + self.aborted_cost_usd, _DIGITS))

    @property
    def reported_complete(self) -> bool | None:
        """Return whether Claude Code's total covers all traced responses, other than aborted ones.

        It does not if a process was killed before writing its total. None: there is no total.
        """
        if self.reported_cost_usd is None:
            return None
        return not any(
            traced > reported
            for model, counts in self._traced.items()
            for traced, reported in zip(counts[:-1], self.reported_models.get(model, _NOTHING)[:-1], strict=True)
        )

    @property
    def unseen(self) -> dict[str, ModelTotals]:
        """Return the tokens and cost, by model, that Claude Code counted beyond what is traced."""
        unseen_by_model: dict[str, ModelTotals] = {}
        for model, reported in self.reported_models.items():
            traced = self._traced.get(model, _NOTHING)
            *tokens, cost = (max(0.0, theirs - ours) for theirs, ours in zip(reported, traced, strict=True))
            unseen = ModelTotals._make([*map(int, tokens), round(cost, _DIGITS)])
            if any(unseen):
                unseen_by_model[model] = unseen
        return unseen_by_model

    @property
    def compaction_cost_usd(self) -> float | None:
        """Return what compactions cost: the unseen spend of the models whose conversations were compacted.

        Those models write the summaries; titles and the like come from another model. None: no compaction, or the cost
        is unknown.
        """
        if not self.compacted_models or self.unseen_cost_usd is None:
            return None
        unseen = self.unseen
        return round(sum(unseen[model].cost_usd for model in self.compacted_models if model in unseen), _DIGITS)

    @property
    def project(self) -> str | None:
        """Return the project's name: the repository's, else the last part of its directory."""
        return self.repository or (_name(self.cwd) if self.cwd else None)

    def note_worktree(self, path: str, name: str | None = None, repository: str | None = None) -> None:
        """Record a folder that may be a worktree, with its name and its repository's folder if known."""
        match = _WORKTREE.fullmatch(path.replace("\\", "/"))
        folder = repository or (match["repository"] if match else None)
        if folder is not None:
            self.repository = _name(folder)
            self.worktree = name or (match["name"].rstrip("/") if match else _name(path))

    def describe(self, metadata: Mapping[str, JsonValue]) -> None:
        """Record what a turn's metadata says about the session."""
        for name in ("cwd", "git_branch", "version", "slug"):
            if isinstance(value := metadata.get(name), str):
                setattr(self, name, value)

    def count(self, span: Span, *, main: bool) -> None:
        """Add one span. `main`: it is of the main thread, whose last response shows how full the context is."""
        if (tool := span.tool) is not None:
            self.tool_calls += 1
            if tool.file_path is not None and span.status == "ok":
                self.files_modified[tool.file_path] = None
            if "lines_added" in span.metadata:
                self._count_lines(span.metadata)
        elif (response := span.response) is not None and span.status != "error":  # a failed request costs nothing
            if response.model is not None:
                self.models[response.model] = None
            if response.cost_usd is not None:
                self.cost_usd = (self.cost_usd or 0.0) + response.cost_usd
            else:
                self.unpriced += 1
            if span.status == "interrupted":
                self.aborted_cost_usd += response.cost_usd or 0.0
            elif response.model is not None:
                self._count_model(response.model, response)
            if (usage := response.usage) is not None:
                self.output_tokens += usage.output
                self.cache_write_5m_tokens += usage.cache_write_5m
                self.cache_write_1h_tokens += usage.cache_write_1h
                if main:
                    self.context_tokens = usage.input + usage.cache_read + usage.cache_write_5m + usage.cache_write_1h
                    self._last_model = response.model
        elif span.name == "compaction" and span.kind == "event" and self._last_model is not None:
            self.compacted_models[self._last_model] = None

    def _count_lines(self, metadata: Mapping[str, JsonValue]) -> None:
        added, removed = metadata.get("lines_added"), metadata.get("lines_removed")
        if isinstance(added, int) and isinstance(removed, int):
            self.lines_added += added
            self.lines_removed += removed

    def _count_model(self, model: str, response: Response) -> None:
        totals = self._traced.get(model)
        if totals is None:
            totals = self._traced[model] = [*ModelTotals()]
        if (usage := response.usage) is not None:
            totals[0] += usage.input
            totals[1] += usage.output
            totals[2] += usage.cache_read
            totals[3] += usage.cache_write_5m
            totals[4] += usage.cache_write_1h
        totals[5] += response.cost_usd or 0.0


def _name(folder: str) -> str:
    """Return the last part of a path of any operating system."""
    return folder.replace("\\", "/").rstrip("/").rpartition("/")[2]
