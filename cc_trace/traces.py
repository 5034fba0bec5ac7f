"""A turn as the spans of one trace: the tree, names, times, status, usage and cost.

Rules:
- Times come from the transcript. A time that is not known is None, and the span's metadata says so.
- A span that is `final` will not change, whatever is appended to the files.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from cc_trace.entries import new
from cc_trace.messages import answered, asked, response_facts
from cc_trace.open_turn import later
from cc_trace.prices import cost_usd
from cc_trace.spans import Anchor, Response, Span, Tool, span_id, tool_span_id
from cc_trace.status import agent_status, clipped, tool_status, turn_status
from cc_trace.times import known_times, request_start, turn_start
from cc_trace.turns import Generation

if TYPE_CHECKING:
    from cc_trace.agents import Run, Runs
    from cc_trace.entries import Context, JsonValue
    from cc_trace.status import Status
    from cc_trace.turns import Call, Event, Turn

# Versions whose transcripts are known to count too little output.
_LOW_OUTPUT: Final = ((1, 0, 11), (2, 1, 52))


def from_turn(
    turn: Turn, runs: Runs, session_id: str, launches: dict[str, str], anchor: Anchor | None = None
) -> list[Span]:
    """Return a turn's spans in tree order.

    `launches` is the session's memory of calls that launched background tasks, with their trace ids: the turn that a
    task's end starts links to the call, and this turn's own launches are added.
    """
    anchor = anchor or Anchor()
    trace = anchor.trace(turn.key, turn.number)
    for call in turn.calls.values():
        if call.result is not None and call.result.task_id is not None:
            launches[call.id] = trace
    made = _Trace(trace, session_id, turn.number, launches)
    made.main(turn, runs, anchor.parent_id)
    return made.spans


class _Trace:
    """Builds the spans of one trace."""

    def __init__(self, trace: str, session_id: str, number: int, launches: dict[str, str]) -> None:
        self.spans: list[Span] = []
        self._trace_id = trace
        self._session_id = session_id
        self._number = number
        self._launches = launches
        self._agent_id: str | None = None
        self._agent_name: str | None = None
        self._about: dict[str, JsonValue] = {}

    def main(self, turn: Turn, runs: Runs, parent_id: str | None) -> None:
        """Add the spans of a turn of the main thread, which may hang under a span of the user's."""
        start = turn.start
        # Every span carries these, so they must not change while the turn goes on.
        self._about = {"source": "claude-code", "turn_number": turn.number, "session_id": self._session_id}
        self._about |= _circumstances(start.head.context)
        if start.permission_mode is not None:
            self._about["permission_mode"] = start.permission_mode
        known: dict[str, JsonValue] = {
            **_circumstances(turn.context),  # what the prompt's line does not tell, a later one may
            **self._about,
            "trigger": start.trigger,
            "command": start.command,
            "duration_ms": turn.duration_ms,
            "unanswered_prompts": [*start.earlier] or None,
            "launched_by": self._link(start.launched_by),
        }
        root, final, name = span_id("turn", turn.key or ""), turn.closed, f"Turn {turn.number}"
        self.spans.append(self._root(turn, root, parent_id, "turn", name, turn_status(turn), final, known))
        self._steps(turn, root, runs, final=final)

    def _link(self, tool_use_id: str | None) -> JsonValue:
        if tool_use_id is None:
            return None
        link: dict[str, JsonValue] = {"tool_use_id": tool_use_id, "span_id": tool_span_id(tool_use_id)}
        if (trace := self._launches.get(tool_use_id)) is not None:
            link["trace_id"] = trace
        return link

    def _agent(self, run: Run, parent_id: str, call: Call | None) -> None:
        agent, turn, outer = run.agent, run.turn, (self._agent_id, self._agent_name)
        root = span_id("agent", turn.key or "")
        background = call is not None and call.result is not None and call.result.task_id is not None
        kind = agent.kind or (call.use.agent_kind if call is not None else None)
        known: dict[str, JsonValue] = {
            "agent_type": kind,
            "description": agent.description,
            "name": agent.name,
            "stage": agent.stage,
            "workflow_run": agent.run_id,
            "background": background or None,
            "source": agent.source,
        }
        self._agent_id, self._agent_name = agent.id, kind or agent.stage or "agent"
        status = agent_status(run)
        self.spans.append(self._root(turn, root, parent_id, "subagent", self._agent_name, status, run.ended, known))
        self._steps(turn, root, run.below, final=run.ended, complete=agent.source != "progress")
        self._agent_id, self._agent_name = outer

    def _root(
        self,
        turn: Turn,
        root: str,
        parent_id: str | None,
        kind: Literal["turn", "subagent"],
        name: str,
        status: tuple[Status, str | None],
        final: bool,  # noqa: FBT001
        known: dict[str, JsonValue],
    ) -> Span:
        start_ns = turn_start(turn)
        metadata = _known(known)
        if turn.start.head.time_ns is None:
            metadata["time"] = "unknown" if start_ns is None else "start unknown"
        return Span(
            self._trace_id,
            root,
            parent_id,
            kind,
            name,
            start_ns,
            later(start_ns, turn.end_ns),
            self._session_id,
            self._number,
            self._agent_id,
            final,
            *status,
            turn.start.text,
            turn.output,
            metadata,
            None,
            None,
            self._agent_name,
            self._about,
        )

    def _steps(self, turn: Turn, parent_id: str, runs: Runs, *, final: bool, complete: bool = True) -> None:
        last = len(turn.steps) - 1
        counts: dict[str, int] = {}
        ends_with = next((index for index in range(last, -1, -1) if isinstance(turn.steps[index], Generation)), -1)
        for index, step in enumerate(turn.steps):
            if isinstance(step, Generation):
                settled = final or (index != ends_with and all(call.result is not None for call in step.calls))
                generation_id = span_id("generation", step.key)
                self.spans.append(self._generation(step, generation_id, parent_id, final=settled, complete=complete))
                for call in step.calls:
                    self._tool(call, step, generation_id, turn, runs, final=final)
            else:
                ordinal = counts[step.kind] = counts.get(step.kind, -1) + 1
                seed = f"{turn.key}:{step.kind}:{ordinal}"
                self.spans.append(self._event(step, seed, parent_id, turn, final=final or index != last))
        for run in runs.loose:
            self._agent(run, parent_id, None)

    def _generation(self, step: Generation, own_id: str, parent_id: str, *, final: bool, complete: bool) -> Span:
        usage, model, asked_ns = step.usage, step.model, request_start(step)
        start_ns, end_ns, note = known_times(asked_ns, step.last_ns, step.ready_ns)
        if asked_ns is not None and (step.ready_ns is None or step.ready_ns > asked_ns):
            note = note or "start unknown"
        metadata = response_facts(step)
        if note is not None:
            metadata["time"] = note
        known_output = complete and usage is not None and not step.aborted and _counts_all(step.head.context.version)
        cost = cost_usd(model, usage, step.first_ns) if model is not None and usage is not None else None
        return new(
            Span,
            (
                self._trace_id,
                own_id,
                parent_id,
                "generation",
                model or "unknown model",
                start_ns,
                end_ns,
                self._session_id,
                self._number,
                self._agent_id,
                final,
                "interrupted" if step.aborted else "ok",
                "interrupted while answering" if step.aborted else None,
                [asked(message) for message in step.inputs],
                answered(step),
                metadata,
                Response(step.message_id, step.request_id, model, step.first_ns, usage, known_output, cost),
                None,
                self._agent_name,
                self._about,
            ),
        )

    def _tool(self, call: Call, step: Generation, parent_id: str, turn: Turn, runs: Runs, *, final: bool) -> None:
        result, use, span = call.result, call.use, tool_span_id(call.id)
        name = use.name
        start_ns, end_ns, note = known_times(call.start_ns, call.end_ns, step.last_ns)
        status, error = tool_status(call, turn)
        metadata: dict[str, JsonValue] = {"tool_name": name, "tool_id": call.id}
        if result is not None:
            metadata.update(result.facts)
            if result.denial is not None:
                metadata["denial"] = result.denial
        if note is not None:
            metadata["time"] = note
        made = Span(
            self._trace_id,
            span,
            parent_id,
            "tool",
            name,
            start_ns,
            end_ns,
            self._session_id,
            self._number,
            self._agent_id,
            final or result is not None,
            status,
            error,
            use.input,
            result.output if result is not None else None,
            metadata,
            None,
            Tool(call.id, name, use.file_path),
            self._agent_name,
            self._about,
        )
        self.spans.append(made)
        if runs.by_call:
            for run in runs.by_call.get(call.id, ()):
                self._agent(run, span, call)

    def _event(self, step: Event, seed: str, parent_id: str, turn: Turn, *, final: bool) -> Span:
        start_ns, end_ns, note = known_times(step.start_ns, step.end_ns, turn.start.head.time_ns)
        metadata: dict[str, JsonValue] = dict(step.facts)
        if note is not None:
            metadata["time"] = note
        if (link := self._link(step.tool_use_id)) is not None:
            metadata["launched_by"] = link
        told = step.kind in ("prompt", "notification")
        status: Status = "error" if step.kind == "api_error" else "ok"
        if step.kind == "interruption":
            status = "interrupted"
        return Span(
            self._trace_id,
            span_id("event", seed),
            parent_id,
            "event",
            step.kind,
            start_ns,
            end_ns,
            self._session_id,
            self._number,
            self._agent_id,
            final,
            status,
            clipped(step.text) if status != "ok" else None,
            step.text if told else None,
            None if told else step.text,
            metadata,
            None,
            None,
            self._agent_name,
            self._about,
        )


def _circumstances(context: Context) -> dict[str, JsonValue]:
    return _known(
        {
            "version": context.version,
            "cwd": context.cwd,
            "git_branch": context.git_branch,
            "slug": context.slug,
            "entrypoint": context.entrypoint,
        }
    )


def _known(facts: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in facts.items() if value is not None}


@lru_cache(maxsize=64)
def _counts_all(version: str | None) -> bool:
    """Tell whether a version of Claude Code writes final output counts; unknown versions are trusted."""
    parts = (version or "").split("-")[0].split(".")
    if not all(part.isdecimal() and part.isascii() for part in parts):
        return True
    low, high = _LOW_OUTPUT
    return not low <= tuple(map(int, parts)) <= high
