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
from cc_trace.spans.model import NOBODY, Origins, Response, Span, Tool, TraceLink, span_id, tool_span_id
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
    from cc_trace.spans.model import Kind
    from cc_trace.transcript import Advice, Context, JsonValue, Permission, RequestSent
    from cc_trace.turns import Call, FailedRequest, Message, Origin, Run, Runs, Status, Turn


def turn_start(turn: Turn) -> int | None:
    """Return when a turn started: its prompt's time, or the first request's if that is earlier (clocks disagree)."""
    times = [turn.start.head.time_ns, *[request_start(step) for step in turn.generations]]
    return min([time for time in times if time is not None], default=None)


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
        start_ns = turn_start(turn)
        metadata: dict[str, JsonValue] = {
            **_circumstances(turn.context),  # a later line may have what the prompt's line lacks
            **self._about,
            "trigger": start.trigger,
            "command": start.command,
            "duration_ms": turn.duration_ms,
            "unanswered_prompts": [message.text for message in start.earlier] or None,
            "launched_by": self._link(start.launched_by),
            "time_ms": _time_ms(turn, start_ns),
            "max_turns_reached": turn.limit is not None or None,
            "run": None if turn.run_facts is None else {**turn.run_facts},
            "rewound": turn.rewound or None,
        }
        self._about |= {"started_by": f"/{start.command}" if start.trigger == "command" else start.trigger}
        root = self._add_root(
            turn,
            start_ns,
            span_id("turn", turn.key or ""),
            parent_id,
            "turn",
            f"Turn {turn.number}",
            status=turn_status(turn),
            final=turn.closed,
            output=turn.output,
            metadata=metadata,
        )
        self._add_steps(turn, root, runs)

    def _link(self, tool_use_id: str | None) -> JsonValue:
        if tool_use_id is None:
            return None
        link: dict[str, JsonValue] = {"tool_use_id": tool_use_id, "span_id": tool_span_id(tool_use_id)}
        if (trace := self._trace_by_call.get(tool_use_id)) is not None:
            link["trace_id"] = trace
        return link

    def _add_run(self, run: Run, parent_id: str, call: Call | None) -> None:
        agent, turn, outer = run.agent, run.turn, (self._agent_id, self._agent_name)
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
        root = self._add_root(
            turn,
            turn_start(turn),
            span_id("agent", turn.key or ""),
            parent_id,
            "subagent",
            self._agent_name,
            status=status,
            final=run.ended,
            output=turn.output if output is None else output,
            metadata=metadata,
        )
        self._add_steps(turn, root, run.below, complete=agent.source != "progress")
        self._agent_id, self._agent_name = outer

    def _add_span(
        self,
        kind: Kind,
        own_id: str,
        parent_id: str | None,
        name: str,
        start_ns: int | None,
        end_ns: int | None,
        *,
        final: bool,
        status: Status = "ok",
        error: str | None = None,
        input_: JsonValue,
        output: JsonValue,
        metadata: dict[str, JsonValue],
        response: Response | None = None,
        tool: Tool | None = None,
        origins: Origins = NOBODY,
    ) -> Span:
        """Add a span to the trace, and return it."""
        span = make_tuple(  # by position, in a fifth of the time; tests/spans/test_span_fields.py compares each field
            Span,
            (
                self._trace_id,
                own_id,
                parent_id,
                kind,
                name,
                start_ns,
                end_ns,
                self._session_id,
                self._number,
                self._agent_id,
                final,
                status,
                error,
                input_,
                output,
                metadata,
                response,
                tool,
                self._agent_name,
                self._about,
                origins,
            ),
        )
        self.spans.append(span)
        return span

    def _add_root(
        self,
        turn: Turn,
        start_ns: int | None,
        own_id: str,
        parent_id: str | None,
        kind: Literal["turn", "subagent"],
        name: str,
        *,
        status: tuple[Status, str | None],
        final: bool,
        output: JsonValue,
        metadata: dict[str, JsonValue],
    ) -> Span:
        """Add the span of a turn, or of an agent's run. Metadata that is None is left out."""
        metadata = _without_none(metadata) | _changes(turn)
        if turn.start.head.time_ns is None:
            metadata["time"] = "unknown" if start_ns is None else "start unknown"
        return self._add_span(
            kind,
            own_id,
            parent_id,
            name,
            start_ns,
            latest_ns(start_ns, turn.end_ns),
            final=final,
            status=status[0],
            error=status[1],
            input_=turn.start.text,
            output=output,
            metadata=metadata,
            origins=_origins(turn),
        )

    def _add_steps(self, turn: Turn, root: Span, runs: Runs, *, complete: bool = True) -> None:
        """Add what belongs below the root of a turn, or of an agent's run. `complete`: no usage is missing."""
        parent_id, began_ns, final, last = root.span_id, root.start_ns, root.final, len(turn.steps) - 1
        events = [(index, step) for index, step in enumerate(turn.steps) if not isinstance(step, Generation)]
        event_ids, retries = _event_ids(turn, events), _retries_by_outcome(events)
        generations = (index for index in range(last, -1, -1) if isinstance(turn.steps[index], Generation))
        last_generation = next(generations, -1)

        def add_retries(outcome_key: str | None, outcome_id: str) -> None:
            for index, retry in retries.get(outcome_key, ()):
                self._add_event(retry, event_ids[index], outcome_id, turn, began_ns, final=True)

        for index, step in enumerate(turn.steps):
            if isinstance(step, Generation):
                is_final = final or (index != last_generation and all(call.result is not None for call in step.calls))
                own_id = span_id("generation", step.key)
                self._add_generation(step, own_id, parent_id, final=is_final, complete=complete)
                add_retries(step.key, own_id)
                for number, advice in enumerate(step.advisors):
                    self._add_advice(advice, step, number, own_id, final=is_final)
                for call in step.calls:
                    self._add_tool(call, step, own_id, turn, runs, final=final)
            elif step.failed_request is not None:
                own_id = event_ids[index]  # it was sent as an event before it became a generation
                is_final = final or index != last
                self._add_failed_request(step, step.failed_request, own_id, parent_id, began_ns, final=is_final)
                add_retries(step.key, own_id)
            elif step.outcome_key is None:
                # A retry's parent is known once its request has ended or been abandoned.
                is_final = final or (index != last and step.kind != "api_retry")
                self._add_event(step, event_ids[index], parent_id, turn, began_ns, final=is_final)
        for run in runs.without_call:
            self._add_run(run, parent_id, None)

    def _add_generation(self, step: Generation, own_id: str, parent_id: str, *, final: bool, complete: bool) -> None:
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
        usage_complete = complete and usage is not None and not step.aborted and counted
        cost = cost_usd(model, usage, step.first_ns) if model is not None and usage is not None else None
        response = make_tuple(
            Response, (step.message_id, step.request_id, model, step.first_ns, usage, usage_complete, cost)
        )
        self._add_span(
            "generation",
            own_id,
            parent_id,
            model or "unknown model",
            start_ns,
            end_ns,
            final=final,
            status="interrupted" if step.aborted else "ok",
            error="interrupted while answering" if step.aborted else None,
            input_=input_,
            output=output_message(step),
            metadata=metadata,
            response=response,
            origins=Origins(origins, AGENT if step.head.sidechain else MODEL),
        )

    def _add_failed_request(
        self,
        step: Event,
        failed: FailedRequest,
        own_id: str,
        parent_id: str,
        began_ns: int | None,
        *,
        final: bool,
    ) -> None:
        """Add a request that failed for good, as a generation: its input and model, without a response."""
        start_ns, end_ns, note = known_times(latest_ns(began_ns, step.start_ns), step.end_ns, began_ns)
        metadata = {**failed.last_attempt.metadata, **step.metadata}
        input_, origins = self._input(failed.inputs, failed.last_attempt, metadata)
        if note is not None:
            metadata["time"] = note
        requested, request_id = metadata.get("requested_model"), step.metadata.get("request_id")
        model = requested if isinstance(requested, str) else None
        response = Response(
            message_id=None,
            request_id=request_id if isinstance(request_id, str) else None,
            model=model,
            first_token_ns=None,
            usage=None,
            usage_complete=True,
            cost_usd=None,
        )
        self._add_span(
            "generation",
            own_id,
            parent_id,
            step.kind if model is None else model,
            start_ns,
            end_ns,
            final=final,
            status="error",
            error=shortened_error(step.text),
            input_=input_,
            output=None,
            metadata=metadata,
            response=response,
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

    def _add_advice(self, advice: Advice, step: Generation, number: int, parent_id: str, *, final: bool) -> None:
        """Add the use of an advisor model during a response. Its times are not recorded."""
        model, usage = advice.model, advice.usage
        start_ns, end_ns, _ = known_times(request_start(step), step.last_ns, step.earliest_request_ns)
        cost = cost_usd(model, usage, step.first_ns) if model is not None else None
        self._add_span(
            "generation",
            span_id("generation", f"{step.key}:advisor:{number}"),
            parent_id,
            model or "unknown model",
            start_ns,
            end_ns,
            final=final,
            input_=None,
            output=None,
            metadata={"advisor": True, "time": "inherited"},
            response=Response(None, None, model, None, usage, usage_complete=True, cost_usd=cost),
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
        self._add_span(
            "tool",
            own_id,
            parent_id,
            use.name,
            start_ns,
            end_ns,
            final=final or result is not None,
            status=status,
            error=error,
            input_=use.input,
            output=result.output if result is not None else None,
            metadata=metadata,
            tool=make_tuple(Tool, (call.id, use.name, use.file_path)),
        )
        if runs.by_call:
            for run in runs.by_call.get(call.id, ()):
                self._add_run(run, own_id, call)

    def _add_event(
        self, step: Event, own_id: str, parent_id: str, turn: Turn, began_ns: int | None, *, final: bool
    ) -> None:
        """Add an event. `began_ns`: when the turn began, as its root has it."""
        start_ns, end_ns, note = known_times(step.start_ns, step.end_ns, turn.start.head.time_ns)
        metadata: dict[str, JsonValue] = dict(step.metadata)
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
        self._add_span(
            "event",
            own_id,
            parent_id,
            step.kind,
            start_ns,
            end_ns,
            final=final,
            status=status,
            error=shortened_error(step.text) if status != "ok" else None,
            input_=step.text if is_input else None,
            output=None if is_input else step.text,
            metadata=metadata,
            origins=Origins((step.origin,), step.origin),
        )


def _event_ids(turn: Turn, events: list[tuple[int, Event]]) -> dict[int, str]:
    """Return the span ids of a turn's events, by index: made from kind and number, or the attempt that failed."""
    ids: dict[int, str] = {}
    counts: dict[str, int] = {}
    for index, event in events:
        if event.kind == "api_retry" and event.key is not None:
            name = f"attempt:{event.key}"
        else:
            ordinal = counts[event.kind] = counts.get(event.kind, -1) + 1
            name = f"{event.kind}:{ordinal}"
        ids[index] = span_id("event", f"{turn.key}:{name}")
    return ids


def _retries_by_outcome(events: list[tuple[int, Event]]) -> dict[str | None, list[tuple[int, Event]]]:
    """Return a turn's retries by the key of the response or error that their request ended with."""
    retries: dict[str | None, list[tuple[int, Event]]] = {}
    for index, event in events:
        if event.outcome_key is not None:
            retries.setdefault(event.outcome_key, []).append((index, event))
    return retries


def _time_ms(turn: Turn, start_ns: int | None) -> JsonValue:
    """Return how a turn's time was spent, or None if its times are unknown or cannot be right."""
    end_ns, responses = (
        latest_ns(start_ns, turn.end_ns),
        [(request_start(step), step.last_ns) for step in turn.generations],
    )
    spent = turn_time(turn, start_ns, end_ns, responses) if start_ns is not None and end_ns is not None else None
    return None if spent is None else {**spent}


def _changes(turn: Turn) -> dict[str, JsonValue]:
    """Return how many lines and files a turn's own calls changed. Those of agents are on the agents' spans."""
    calls = [call for call in turn.calls.values() if call.use.file_path is not None]
    lines = [call.result.lines for call in calls if call.result is not None and call.result.lines is not None]
    paths = [call.use.file_path for call in calls if tool_status(call, turn)[0] == "ok"]
    cwd = turn.context.cwd or ""
    files = {posixpath.join(cwd, path) for path in {*turn.files, *paths} if path is not None}
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
