"""Builds the spans of one trace from a turn: the tree, names, times, status, usage and cost.

Rules:
- Times come from the transcript. An unknown time is None, and the span's metadata says so.
- A span that is `final` will not change, whatever is appended to the files.
"""

from __future__ import annotations

import posixpath
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from cc_trace.pricing import cost_usd
from cc_trace.spans.as_sent import as_sent, assistant_message
from cc_trace.spans.model import Origins, Response, Span, Tool, TraceLink, span_id, tool_span_id
from cc_trace.spans.time_spent import turn_time
from cc_trace.text import rfc3339
from cc_trace.transcript import make_tuple, plain_text
from cc_trace.turns import (
    AGENT,
    MODEL,
    Event,
    Generation,
    agent_status,
    latest_ns,
    shortened_error,
    tool_status,
    turn_status,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cc_trace.requests import SessionRequests
    from cc_trace.transcript import Advice, Context, JsonValue, Permission, RequestSent
    from cc_trace.turns import Call, FailedRequest, Message, Origin, Run, Runs, Status, Turn


def turn_start(turn: Turn) -> int | None:
    """Return when a turn started: its prompt's time, or the first request's if that is earlier (clocks disagree)."""
    times = [turn.start.head.time_ns, *(request_start(step) for step in turn.generations)]
    return min((time for time in times if time is not None), default=None)


def request_start(step: Generation) -> int | None:
    """Return when a response's request was sent, or if that is not recorded, the earliest time it could be sent.

    If clocks disagree, the time of the response's first line is used.
    """
    sent_ns = step.request.head.time_ns if step.request is not None else None
    if sent_ns is not None:
        return sent_ns if step.first_ns is None or sent_ns < step.first_ns else step.first_ns
    if step.first_ns is None or step.earliest_request_ns is None:
        return step.first_ns
    return step.earliest_request_ns if step.earliest_request_ns < step.first_ns else step.first_ns  # noqa: FURB136  (min takes twice as long)


def _generation_times(step: Generation) -> tuple[int | None, int | None, str | None]:
    """Return a response's times, and a note if one of them is unknown or was derived."""
    sent_ns = request_start(step)
    start_ns, end_ns, note = known_times(sent_ns, step.last_ns, step.earliest_request_ns)
    if note is None and step.request is None and sent_ns is not None:
        derived = step.earliest_request_ns is not None and step.earliest_request_ns <= sent_ns
        note = "start derived" if derived else "start unknown"
    return start_ns, end_ns, note


def known_times(
    start_ns: int | None, end_ns: int | None, near_ns: int | None
) -> tuple[int | None, int | None, str | None]:
    """Return a span's times, and a note if one of them is unknown."""
    if start_ns is not None and end_ns is not None:
        return (start_ns, end_ns, None) if start_ns <= end_ns else (end_ns, end_ns, "start unknown")
    if start_ns is not None:
        return start_ns, start_ns, "end unknown"
    if end_ns is not None:
        return end_ns, end_ns, "start unknown"
    return near_ns, near_ns, "unknown" if near_ns is None else "inherited"


def input_message(message: Message) -> JsonValue:
    """Return one piece of a response's input as a message."""
    call = message.call
    if call is None:
        return {"role": "user", "content": message.text}
    output = call.result.output if call.result is not None else None
    return {"role": "tool", "tool_call_id": call.id, "name": call.use.name, "content": output}


def output_message(step: Generation) -> JsonValue:
    """Return a response as one message."""
    # Calls have ids even if their blocks have none.
    calls: list[JsonValue] = [{"id": call.id, "name": call.use.name, "input": call.use.input} for call in step.calls]
    return assistant_message(step.blocks, calls)


def response_metadata(step: Generation) -> dict[str, JsonValue]:
    """Return a response's metadata: what is known besides its content, tokens and times."""
    metadata: dict[str, JsonValue] = {"tool_count": len(step.calls)}
    if step.stop_reason is not None:
        metadata["stop_reason"] = step.stop_reason
    if step.effort is not None:
        metadata["effort"] = step.effort
    if step.speed is not None:
        metadata["speed"] = step.speed
    if step.service_tier is not None:
        metadata["service_tier"] = step.service_tier
    if step.thinking_ms is not None:
        metadata["thinking_ms"] = step.thinking_ms
    if step.tool_input_ms is not None:
        metadata["tool_input_ms"] = step.tool_input_ms
    if step.usage is not None and step.usage.web_searches:
        metadata["web_searches"] = step.usage.web_searches
    return metadata


# Versions whose transcripts are known to undercount output tokens.
_LOW_OUTPUT: Final = ((1, 0, 11), (2, 1, 52))


def from_turn(
    turn: Turn,
    runs: Runs,
    session_id: str,
    trace_by_call: dict[str, str],
    link: TraceLink | None = None,
    requests: SessionRequests | None = None,
) -> list[Span]:
    """Return a turn's spans in tree order.

    `trace_by_call` has the session's calls that launched background tasks, with their trace ids: a turn started by a
    task's end links to its call, and this turn's own calls are added. `requests` adds what filled the context.
    """
    link = link or TraceLink()
    trace = link.trace(turn.key, turn.number)
    for call in turn.calls.values():
        if call.result is not None and call.result.task_id is not None:
            trace_by_call[call.id] = trace
    builder = _TraceBuilder(trace, session_id, turn.number, trace_by_call, requests)
    builder.add_turn(turn, runs, link.parent_id)
    return builder.spans


class _TraceBuilder:
    """Collects the spans of one trace, in tree order."""

    def __init__(
        self,
        trace: str,
        session_id: str,
        number: int,
        trace_by_call: dict[str, str],
        requests: SessionRequests | None,
    ) -> None:
        self.spans: list[Span] = []
        self._requests = requests
        self._trace_id = trace
        self._session_id = session_id
        self._number = number
        self._trace_by_call = trace_by_call
        self._agent_id: str | None = None
        self._agent_name: str | None = None
        self._about: dict[str, JsonValue] = {}

    def add_turn(self, turn: Turn, runs: Runs, parent_id: str | None) -> None:
        """Add the spans of a turn of the main thread. `parent_id` may be a span of the user's own trace."""
        start = turn.start
        # Every span carries these, so they must not change while the turn is running.
        self._about = {"source": "claude-code", "turn_number": turn.number, "session_id": self._session_id}
        self._about |= _circumstances(start.head.context)
        if start.permission_mode is not None:
            self._about["permission_mode"] = start.permission_mode
        metadata: dict[str, JsonValue] = {
            **_circumstances(turn.context),  # a later line may have what the prompt's line lacks
            **self._about,
            "trigger": start.trigger,
            "command": start.command,
            "duration_ms": turn.duration_ms,
            "unanswered_prompts": [message.text for message in start.earlier] or None,
            "launched_by": self._link(start.launched_by),
            "time_ms": _time_ms(turn),
            "max_turns_reached": turn.limit is not None or None,
            "run": None if turn.run_facts is None else {**turn.run_facts},
            "rewound": turn.rewound or None,
        }
        self._about |= {"started_by": f"/{start.command}" if start.trigger == "command" else start.trigger}
        root, final, name = span_id("turn", turn.key or ""), turn.closed, f"Turn {turn.number}"
        self.spans.append(self._root(turn, root, parent_id, "turn", name, turn_status(turn), final, metadata))
        self._add_steps(turn, root, runs, final=final)

    def _link(self, tool_use_id: str | None) -> JsonValue:
        if tool_use_id is None:
            return None
        link: dict[str, JsonValue] = {"tool_use_id": tool_use_id, "span_id": tool_span_id(tool_use_id)}
        if (trace := self._trace_by_call.get(tool_use_id)) is not None:
            link["trace_id"] = trace
        return link

    def _add_run(self, run: Run, parent_id: str, call: Call | None) -> None:
        agent, turn, outer = run.agent, run.turn, (self._agent_id, self._agent_name)
        root = span_id("agent", turn.key or "")
        background = call is not None and call.result is not None and call.result.task_id is not None
        kind = agent.kind or (call.use.agent_kind if call is not None else None)
        metadata: dict[str, JsonValue] = {
            "agent_type": kind,
            "description": agent.description,
            "name": agent.name,
            "stage": agent.stage,
            "workflow_run": agent.workflow_run_id,
            "background": background or None,
            "source": agent.source,
        }
        self._agent_id, self._agent_name = agent.id, kind or agent.stage or "agent"
        status, output = agent_status(run), None
        lacks_answer = agent.source == "progress" and status[0] == "incomplete" and not background
        if lacks_answer and call is not None and call.result is not None:  # the call got it
            status, output = tool_status(call, turn), call.result.output
        span = self._root(turn, root, parent_id, "subagent", self._agent_name, status, run.ended, metadata)
        self.spans.append(span if output is None else span._replace(output=output))
        self._add_steps(turn, root, run.below, final=run.ended, complete=agent.source != "progress")
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
        metadata: dict[str, JsonValue],
    ) -> Span:
        """Return the span of a turn, or of an agent's run. Metadata that is None is left out."""
        start_ns = turn_start(turn)
        metadata = _without_none(metadata) | _changes(turn)
        if turn.start.head.time_ns is None:
            metadata["time"] = "unknown" if start_ns is None else "start unknown"
        return Span(
            trace_id=self._trace_id,
            span_id=root,
            parent_id=parent_id,
            kind=kind,
            name=name,
            start_ns=start_ns,
            end_ns=latest_ns(start_ns, turn.end_ns),
            session_id=self._session_id,
            turn=self._number,
            agent_id=self._agent_id,
            final=final,
            status=status[0],
            error=status[1],
            input=turn.start.text,
            output=turn.output,
            metadata=metadata,
            agent_name=self._agent_name,
            about=self._about,
            origins=_origins(turn),
        )

    def _add_steps(self, turn: Turn, parent_id: str, runs: Runs, *, final: bool, complete: bool = True) -> None:
        last = len(turn.steps) - 1
        seeds, retries = _event_seeds(turn), _retries_by_outcome(turn)
        generations = (index for index in range(last, -1, -1) if isinstance(turn.steps[index], Generation))
        last_generation = next(generations, -1)
        for index, step in enumerate(turn.steps):
            if isinstance(step, Generation):
                is_final = final or (index != last_generation and all(call.result is not None for call in step.calls))
                generation_id = span_id("generation", step.key)
                self.spans.append(self._generation(step, generation_id, parent_id, final=is_final, complete=complete))
                self._add_retries(turn, retries.get(step.key, ()), seeds, generation_id)
                for number, advice in enumerate(step.advisors):
                    self._add_advice(advice, step, number, generation_id, final=is_final)
                for call in step.calls:
                    self._add_tool(call, step, generation_id, turn, runs, final=final)
            elif step.failed_request is not None:
                failed_id = span_id("event", seeds[index])  # the id it was sent with before it became a generation
                self.spans.append(
                    self._failed_request(step, step.failed_request, failed_id, parent_id, turn, final or index != last)
                )
                self._add_retries(turn, retries.get(step.key or "", ()), seeds, failed_id)
            elif step.outcome_key is None:
                # A retry's parent is known once its request has ended or been abandoned.
                is_final = final or (index != last and step.kind != "api_retry")
                self.spans.append(self._event(step, seeds[index], parent_id, turn, final=is_final))
        for run in runs.without_call:
            self._add_run(run, parent_id, None)

    def _generation(self, step: Generation, own_id: str, parent_id: str, *, final: bool, complete: bool) -> Span:
        usage, model, context = step.usage, step.model, step.head.context
        start_ns, end_ns, time_note = _generation_times(step)
        metadata = response_metadata(step)
        if step.request is not None:
            metadata |= step.request.metadata
            metadata["attempts"] = step.attempts
            if self._requests is not None and usage is not None:
                metadata |= self._requests.metadata(step.request.id, usage)
        if time_note is not None:
            metadata["time"] = time_note
        input_, origins = self._input(step.inputs, step.request, metadata)
        counted = context.partial_usage is None and _counts_all(context.version)
        response = Response(
            message_id=step.message_id,
            request_id=step.request_id,
            model=model,
            first_token_ns=step.first_ns,
            usage=usage,
            usage_complete=complete and usage is not None and not step.aborted and counted,
            cost_usd=cost_usd(model, usage, step.first_ns) if model is not None and usage is not None else None,
        )
        return make_tuple(  # by position, in a fifth of the time; tests/spans/test_span_fields.py compares each field
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
                input_,
                output_message(step),
                metadata,
                response,
                None,
                self._agent_name,
                self._about,
                Origins(origins, AGENT if step.head.sidechain else MODEL),
            ),
        )

    def _failed_request(
        self,
        step: Event,
        failed: FailedRequest,
        own_id: str,
        parent_id: str,
        turn: Turn,
        final: bool,  # noqa: FBT001
    ) -> Span:
        """Return the span of a request that failed for good: its input and model, without a response."""
        began_ns = turn_start(turn)
        start_ns, end_ns, note = known_times(latest_ns(began_ns, step.start_ns), step.end_ns, began_ns)
        metadata = {**failed.last_attempt.metadata, **step.metadata}
        input_, origins = self._input(failed.inputs, failed.last_attempt, metadata)
        if note is not None:
            metadata["time"] = note
        model, request_id = metadata.get("requested_model"), step.metadata.get("request_id")
        return Span(
            trace_id=self._trace_id,
            span_id=own_id,
            parent_id=parent_id,
            kind="generation",
            name=model if isinstance(model, str) else step.kind,
            start_ns=start_ns,
            end_ns=end_ns,
            session_id=self._session_id,
            turn=self._number,
            agent_id=self._agent_id,
            final=final,
            status="error",
            error=shortened_error(step.text),
            input=input_,
            output=None,
            metadata=metadata,
            response=Response(
                message_id=None,
                request_id=request_id if isinstance(request_id, str) else None,
                model=model if isinstance(model, str) else None,
                first_token_ns=None,
                usage=None,
                usage_complete=True,
                cost_usd=None,
            ),
            agent_name=self._agent_name,
            about=self._about,
            origins=Origins(origins, step.origin),
        )

    def _input(
        self, inputs: Sequence[Message], request: RequestSent | None, metadata: dict[str, JsonValue]
    ) -> tuple[list[JsonValue], tuple[Origin, ...]]:
        """Return a response's input and its origins. If configured, add system prompt and tools to the metadata.

        If more than the new messages of the request is included, the origins are unknown, so the texts are private.
        """
        parts = self._requests.parts(request.id) if self._requests is not None and request is not None else None
        if parts is None:
            return [input_message(message) for message in inputs], tuple([message.origin for message in inputs])
        if parts.system is not None:
            metadata["system_prompt"] = plain_text(parts.system)
        if parts.tools is not None:
            metadata["tools"] = parts.tools
        return as_sent(parts.messages), ()

    def _add_retries(self, turn: Turn, places: Sequence[int], seeds: dict[int, str], parent_id: str) -> None:
        """Add a request's failed attempts below the response, or error, that it ended with."""
        for place in places:
            step = turn.steps[place]
            assert isinstance(step, Event)  # noqa: S101  (`places` are indexes of events)
            self.spans.append(self._event(step, seeds[place], parent_id, turn, final=True))

    def _add_advice(self, advice: Advice, step: Generation, number: int, parent_id: str, *, final: bool) -> None:
        """Add the use of an advisor model during a response. Its times are not recorded."""
        model, usage = advice.model, advice.usage
        start_ns, end_ns, _ = known_times(request_start(step), step.last_ns, step.earliest_request_ns)
        cost = cost_usd(model, usage, step.first_ns) if model is not None else None
        self.spans.append(
            Span(
                trace_id=self._trace_id,
                span_id=span_id("generation", f"{step.key}:advisor:{number}"),
                parent_id=parent_id,
                kind="generation",
                name=model or "unknown model",
                start_ns=start_ns,
                end_ns=end_ns,
                session_id=self._session_id,
                turn=self._number,
                agent_id=self._agent_id,
                final=final,
                status="ok",
                error=None,
                input=None,
                output=None,
                metadata={"advisor": True, "time": "inherited"},
                response=Response(None, None, model, None, usage, usage_complete=True, cost_usd=cost),
                tool=None,
                agent_name=self._agent_name,
                about=self._about,
            )
        )

    def _add_tool(self, call: Call, step: Generation, parent_id: str, turn: Turn, runs: Runs, *, final: bool) -> None:
        result, use, own_id = call.result, call.use, tool_span_id(call.id)
        start_ns, end_ns, note = known_times(call.start_ns, call.end_ns, step.last_ns)
        status, error = tool_status(call, turn)
        metadata: dict[str, JsonValue] = {"tool_name": use.name, "tool_id": call.id}
        if result is not None:
            metadata.update(result.metadata)
            if result.denial is not None:
                metadata["denial"] = result.denial
            if result.permission is not None:
                metadata["permission"] = _permission(result.permission, call.waited_ms)
            if result.lines is not None:
                metadata["lines_added"], metadata["lines_removed"] = result.lines
        if note is not None:
            metadata["time"] = note
        span = Span(
            trace_id=self._trace_id,
            span_id=own_id,
            parent_id=parent_id,
            kind="tool",
            name=use.name,
            start_ns=start_ns,
            end_ns=end_ns,
            session_id=self._session_id,
            turn=self._number,
            agent_id=self._agent_id,
            final=final or result is not None,
            status=status,
            error=error,
            input=use.input,
            output=result.output if result is not None else None,
            metadata=metadata,
            tool=Tool(call.id, use.name, use.file_path),
            agent_name=self._agent_name,
            about=self._about,
        )
        self.spans.append(span)
        if runs.by_call:
            for run in runs.by_call.get(call.id, ()):
                self._add_run(run, own_id, call)

    def _event(self, step: Event, seed: str, parent_id: str, turn: Turn, *, final: bool) -> Span:
        start_ns, end_ns, note = known_times(step.start_ns, step.end_ns, turn.start.head.time_ns)
        metadata: dict[str, JsonValue] = dict(step.metadata)
        began_ns = turn_start(turn)
        if start_ns is not None and began_ns is not None and start_ns < began_ns:
            # What happened between turns, such as a compaction hours before the prompt, must not stretch the trace.
            metadata["happened_at"] = rfc3339(start_ns)
            start_ns, end_ns = began_ns, latest_ns(began_ns, end_ns)
        if note is not None:
            metadata["time"] = note
        if (link := self._link(step.tool_use_id)) is not None:
            metadata["launched_by"] = link
        is_input = step.kind in ("prompt", "notification")
        status: Status = "error" if step.kind == "api_error" or metadata.pop("failed", False) else "ok"
        if step.kind == "interruption":
            status = "interrupted"
        return Span(
            trace_id=self._trace_id,
            span_id=span_id("event", seed),
            parent_id=parent_id,
            kind="event",
            name=step.kind,
            start_ns=start_ns,
            end_ns=end_ns,
            session_id=self._session_id,
            turn=self._number,
            agent_id=self._agent_id,
            final=final,
            status=status,
            error=shortened_error(step.text) if status != "ok" else None,
            input=step.text if is_input else None,
            output=None if is_input else step.text,
            metadata=metadata,
            agent_name=self._agent_name,
            about=self._about,
            origins=Origins((step.origin,), step.origin),
        )


def _event_seeds(turn: Turn) -> dict[int, str]:
    """Return the id seed of each event of a turn, by its index: kind and number, or the attempt that failed."""
    seeds: dict[int, str] = {}
    counts: dict[str, int] = {}
    for place, step in enumerate(turn.steps):
        if isinstance(step, Generation):
            continue
        if step.kind == "api_retry" and step.key is not None:
            seeds[place] = f"{turn.key}:attempt:{step.key}"
        else:
            ordinal = counts[step.kind] = counts.get(step.kind, -1) + 1
            seeds[place] = f"{turn.key}:{step.kind}:{ordinal}"
    return seeds


def _retries_by_outcome(turn: Turn) -> dict[str, list[int]]:
    """Return the indexes of a turn's retries, by the key of the response or error that their request ended with."""
    places: dict[str, list[int]] = {}
    for place, step in enumerate(turn.steps):
        if isinstance(step, Event) and step.outcome_key is not None:
            places.setdefault(step.outcome_key, []).append(place)
    return places


def _time_ms(turn: Turn) -> JsonValue:
    """Return how a turn's time was spent, or None if its times are unknown or cannot be right."""
    start_ns, responses = turn_start(turn), [(request_start(step), step.last_ns) for step in turn.generations]
    end_ns = latest_ns(start_ns, turn.end_ns)
    spent = turn_time(turn, start_ns, end_ns, responses) if start_ns is not None and end_ns is not None else None
    return None if spent is None else {**spent}


def _changes(turn: Turn) -> dict[str, JsonValue]:
    """Return how many lines and files a turn's own calls changed. Those of agents are on the agents' spans."""
    calls = [call for call in turn.calls.values() if call.use.file_path is not None]
    lines = [call.result.lines for call in calls if call.result is not None and call.result.lines is not None]
    paths = [call.use.file_path for call in calls if tool_status(call, turn)[0] == "ok"]
    cwd = turn.context.cwd or ""
    files = {posixpath.join(cwd, path) for path in (*turn.files, *paths) if path is not None}
    changes: dict[str, JsonValue] = {}
    if lines:
        changes |= {"lines_added": sum(added for added, _ in lines), "lines_removed": sum(gone for _, gone in lines)}
    return changes | ({"files_changed": len(files)} if files else {})


def _permission(permission: Permission, waited_ms: int | None) -> dict[str, JsonValue]:
    return _without_none(
        {
            "decision": permission.decision,
            "source": permission.source,
            "reason": permission.reason,
            "wait_ms": waited_ms,
        }
    )


def _origins(turn: Turn) -> Origins:
    """Return who wrote a turn's input and output. The output of a command that an agent ran is the agent's."""
    start = turn.start
    earlier = tuple([message.origin for message in start.earlier])
    return Origins((start.origin,), AGENT if turn.delegated or start.head.sidechain else MODEL, earlier)


def _circumstances(context: Context) -> dict[str, JsonValue]:
    return _without_none(
        {
            "version": context.version,
            "cwd": context.cwd,
            "git_branch": context.git_branch,
            "slug": context.slug,
            "entrypoint": context.entrypoint,
            "stream_times": context.stream_times,
        }
    )


def _without_none(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in values.items() if value is not None}


@lru_cache(maxsize=64)
def _counts_all(version: str | None) -> bool:
    """Return whether a version of Claude Code records final output counts. Unknown versions are assumed to."""
    parts = (version or "").split("-")[0].split(".")
    if not all(part.isdecimal() and part.isascii() for part in parts):
        return True
    low, high = _LOW_OUTPUT
    return not low <= tuple(map(int, parts)) <= high
