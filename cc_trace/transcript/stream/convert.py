"""Converts the messages of a stream to the lines of a transcript and of its agents' files.

Rule: message, tool and line ids are kept, so that spans have the same ids from either source. What a stream lacks is
not invented; docs/streams.md lists it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from cc_trace.paths import is_session_id
from cc_trace.text import rfc3339
from cc_trace.transcript.parse import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cc_trace.transcript.stream.messages import Message, Messages

Line = dict[str, Any]

_LIMIT: Final = re.compile(r"maximum number of turns \((\d+)\)")
# Looks like a line that requires another response, which makes the turn of a run that was cut off incomplete.
_ENDED_EARLY: Final = "Stop hook feedback: the stream ended before its result."
_MAX_MS: Final = 1 << 40


@dataclass(slots=True)
class StreamTranscript:
    """A run: its session, the lines of the main thread, and those of each agent by the call that started it."""

    session_id: str
    lines: list[Line] = field(default_factory=list)
    agents: dict[str, list[Line]] = field(default_factory=dict)
    agent_meta: dict[str, Line] = field(default_factory=dict)
    agent_ids: dict[str, str] = field(default_factory=dict)  # by call id
    cwd: str | None = None
    complete: bool = False  # its result has been seen
    from_result: bool = False  # only the result is known

    @property
    def last_response(self) -> str | None:
        """Return the id of the main thread's last response, or None if none has an id."""
        for line in reversed(self.lines):
            match line:
                case {"type": "assistant", "message": {"id": str(id_)}} if not self.from_result:
                    return id_
        return None


def convert_stream(
    messages: Messages, *, prompt: str | None = None, began_ns: int | None = None, ended_ns: int | None = None
) -> list[StreamTranscript]:
    """Return the sessions in an output as transcripts; none if it has no message of Claude Code.

    `prompt`: the first prompt, if the caller knows it. `began_ns`: when the run began, if the caller watched the
    messages arrive. `ended_ns`: when the output ended, for a stream with neither times of its own nor arrival times.
    """
    transcripts: list[StreamTranscript] = []
    for session in messages.by_session():
        if any(message["type"] in ("system", "assistant", "user", "result") for message in session.items):
            first = (None, None) if transcripts else (prompt, began_ns)
            transcripts.append(_Conversion(session, *first, ended_ns, live=began_ns is not None).run())
    return transcripts


class _Conversion:
    """The state of one stream's conversion."""

    def __init__(
        self, messages: Messages, prompt: str | None, began_ns: int | None, ended_ns: int | None, *, live: bool
    ) -> None:
        self._messages = messages
        self._prompt = prompt
        self._transcript = StreamTranscript(_session_id(messages.items))
        self._common: Line = {"sessionId": self._transcript.session_id}
        self._mode: str | None = None
        self._has_prompt = False
        self._began_at = None if began_ns is None else rfc3339(began_ns)  # when the prompt was sent
        self._previous_result: Message | None = None  # the result of the previous turn, until the next one begins
        self._init_message: Line = {}
        self._limit: object = None  # the latest rate limit info
        self._background: set[str] = set()  # calls that launched a task
        self._task_started: dict[str, Message] = {}  # the `task_started` messages of agents, by call id
        self._usage = _final_usage(messages.items)
        self._times, self._source = _times(messages, ended_ns, live=live)

    def run(self) -> StreamTranscript:
        transcript = self._transcript
        for index, message in enumerate(self._messages.items):
            self._now = self._times[index]
            if self._began_at is None:
                self._began_at = self._now
            self._take(message)
        if not any(line["type"] == "assistant" for line in transcript.lines):
            self._add_result_as_response()
        if not transcript.complete and self._init_message:
            self._add_run_facts({})
        if not transcript.complete and any(line["type"] == "assistant" for line in transcript.lines):
            self._add({"type": "user", "isMeta": True, "message": {"role": "user", "content": _ENDED_EARLY}})
        for call in transcript.agents:
            transcript.agent_ids.setdefault(call, _agent_id(call))
        for call, lines in transcript.agents.items():
            for line in lines:
                line["agentId"] = transcript.agent_ids[call]
        return transcript

    def _take(self, message: Message) -> None:
        match message:
            case {"type": "system", "subtype": "init"}:
                self._init(message)
            case {"type": "system"}:
                self._system(message)
            case {"type": "assistant"}:
                self._assistant(message)
            case {"type": "user"}:
                self._user(message)
            case {"type": "result"}:
                self._result(message)
            case {"type": "rate_limit_event"}:
                self._limit = message.get("rate_limit_info")
            case _:
                pass  # partial messages are read by `_final_usage`, others have nothing for a trace

    def _init(self, message: Message) -> None:
        self._init_message = {name: message.get(name) for name in ("model", "tools", "mcp_servers")}
        match message:
            case {"cwd": str(cwd)} if "\0" not in cwd:
                self._common["cwd"] = cwd
                self._transcript.cwd = self._transcript.cwd or cwd
        match message:
            case {"claude_code_version": str(version)}:
                self._common["version"] = version
        match message:
            case {"permissionMode": str(mode)}:
                self._mode = mode

    def _system(self, message: Message) -> None:
        match message:
            case {"subtype": "api_retry"}:
                error = {"status": message.get("error_status"), "message": message.get("error")}
                retry = {"retryAttempt": message.get("attempt"), "retryInMs": message.get("retry_delay_ms")}
                self._add({"type": "system", "subtype": "api_error", "error": error, **retry}, message)
            case {"subtype": "compact_boundary", "compact_metadata": dict(details)}:
                metadata = {"trigger": details.get("trigger"), "preTokens": details.get("pre_tokens")}
                self._add({"type": "system", "subtype": "compact_boundary", "compactMetadata": metadata}, message)
            case {"subtype": "task_started", "tool_use_id": str(call), "task_id": str(task)}:
                if is_session_id(task):
                    self._transcript.agent_ids[call] = task
                if message.get("is_backgrounded") is True:
                    self._background.add(call)
                self._task_started.setdefault(call, message)
            case {"subtype": "task_notification", "tool_use_id": str(call)} if call in self._background:
                self._notification(message, call)

    def _notification(self, message: Message, call: str) -> None:
        """Add the end of a background task as a transcript's notification line."""
        fields = {"task-id": message.get("task_id"), "tool-use-id": call}
        fields |= {"status": message.get("status"), "summary": message.get("summary")}
        elements = "\n".join(f"<{name}>{value}</{name}>" for name, value in fields.items() if isinstance(value, str))
        content = f"<task-notification>\n{elements}\n</task-notification>"
        line = {"type": "user", "message": {"role": "user", "content": content}}
        self._add({**line, "origin": {"kind": "task-notification"}}, message)
        self._has_prompt, self._transcript.complete = True, False

    def _assistant(self, message: Message) -> None:
        inner = message.get("message")
        line: Line = {"type": "assistant", "message": inner, "requestId": message.get("request_id")}
        line["thinkingDurationMs"] = message.get("thinking_duration_ms")
        if isinstance(inner, dict):
            failed = message.get("is_api_error_message") is True or "error" in message
            if failed and inner.get("model") == "<synthetic>":
                line |= {"isApiErrorMessage": True, "apiErrorStatus": message.get("api_error_status")}
                line["apiErrorType"] = message.get("api_error_type")
            line["message"] = {**inner, "usage": self._with_final_counts(inner, line)}
        if not message.get("parent_tool_use_id"):
            self._add_prompt()
            self._transcript.complete = False
        self._add_to_thread(line, message)

    def _with_final_counts(self, inner: Line, line: Line) -> object:
        """Return a message's usage with its final counts, or mark the line as partial if they are unknown."""
        usage, id_ = inner.get("usage"), inner.get("id")
        if not isinstance(usage, dict) or not isinstance(id_, str):
            return usage
        if (final := self._usage.get(id_)) is not None:
            return {**usage, **final}
        # Counts written before the end of a response, when it has no stop reason yet, are placeholders.
        if inner.get("stop_reason") is None and id_ not in self._usage.counted:
            line["partialUsage"] = "output"
        return usage

    def _user(self, message: Message) -> None:
        inner, result = message.get("message"), message.get("tool_use_result")
        if isinstance(inner, str):
            inner = {"role": "user", "content": inner}
        line: Line = {"type": "user", "message": inner, "toolUseResult": result, "isMeta": message.get("isSynthetic")}
        call, agent = _call_and_agent(inner, result)
        if call is not None and agent is not None and is_session_id(agent):
            self._transcript.agent_ids[call] = agent
        if call is not None and isinstance(result, dict) and result.get("isAsync") is True:
            self._background.add(call)
        match message.get("tool_result_meta"):
            case [{"permission_decision": dict(decision)}]:
                names = {"decision": "decision", "source": "source", "reason_type": "reasonType"}
                line["permissionDecision"] = {names[name]: decision[name] for name in names if name in decision}
        if not message.get("parent_tool_use_id"):
            if call is None:
                self._has_prompt = True
                line["permissionMode"] = self._mode
            else:
                self._add_prompt()
        self._add_to_thread(line, message)

    def _add_prompt(self) -> None:
        """Add the prompt given by the caller before the first response.

        After a result another turn begins, even if its prompt is unknown.
        """
        if not self._has_prompt and self._prompt:
            content = {"role": "user", "content": self._prompt}
            self._now, now = self._began_at or self._now, self._now
            self._add({"type": "user", "message": content, "permissionMode": self._mode})
            self._now = now
        elif not self._has_prompt and self._previous_result is not None:
            turn_end = {
                "type": "system",
                "subtype": "turn_duration",
                "durationMs": self._previous_result.get("duration_ms"),
            }
            self._add(turn_end)
        self._has_prompt, self._prompt = True, None

    def _add_to_thread(self, line: Line, message: Message) -> None:
        match message:
            case {"parent_tool_use_id": str(call)} if call:
                transcript = self._transcript
                line["isSidechain"] = True
                agent_lines = transcript.agents.setdefault(call, [])
                task = self._task_started.get(call, {})
                if not agent_lines and line["type"] != "user" and isinstance(prompt := task.get("prompt"), str):
                    first = {"type": "user", "isSidechain": True, "message": {"role": "user", "content": prompt}}
                    agent_lines.append(self._with_head(first, task))
                agent_lines.append(self._with_head(line, message))
                meta = transcript.agent_meta.setdefault(call, {"toolUseId": call})
                for name, field_ in (("subagent_type", "agentType"), ("task_description", "description")):
                    if isinstance(message.get(name), str):
                        meta[field_] = message[name]
                if isinstance(agent := message.get("agent_id"), str) and is_session_id(agent):
                    transcript.agent_ids[call] = agent
            case _:
                self._add(line, message)

    def _result(self, message: Message) -> None:
        transcript = self._transcript
        transcript.complete, self._has_prompt, self._previous_result = True, False, message
        match message:
            case {"structured_output": data} if data is not None:
                self._add_structured_output(data)
        if message.get("subtype") == "error_max_turns":
            match = _LIMIT.search(str(message.get("errors")))
            limit = int(match[1]) if match else message.get("num_turns")
            self._add({"type": "attachment", "attachment": {"type": "max_turns_reached", "maxTurns": limit}}, message)
        if isinstance(cost := message.get("total_cost_usd"), int | float):
            self._add({"type": "cost-state", "totalCostUSD": cost}, message)
        self._add_run_facts(message)

    def _add_run_facts(self, result: Message) -> None:
        """Add a line with the facts about the whole run from its init and result messages."""
        facts = {name: value for name, value in result.items() if name not in ("result", "structured_output", "usage")}
        init = {**self._init_message, "rate_limit_info": self._limit}
        self._add({"type": "system", "subtype": "run", "init": init, "result": facts})

    def _add_structured_output(self, data: object) -> None:
        """Add a run's structured output if no response followed its call, and let the call's result end the turn."""
        last = next((line for line in reversed(self._transcript.lines) if line["type"] in ("assistant", "user")), None)
        if last is not None and last["type"] == "user":
            last["toolEndsTurn"] = True
            self._add({"type": "attachment", "attachment": {"type": "structured_output", "data": data}})

    def _add_result_as_response(self) -> None:
        """Add the run's result as its response, for an output without responses."""
        result = next((message for message in reversed(self._messages.items) if message["type"] == "result"), None)
        if result is None:
            return
        self._transcript.from_result = True
        models = result.get("modelUsage")
        names = [name for name in models if isinstance(name, str)] if isinstance(models, dict) else []
        text, uuid = result.get("result"), result.get("uuid")
        inner: Line = {
            "id": f"result_{uuid if isinstance(uuid, str) else self._transcript.session_id}",
            "role": "assistant",
            "model": names[0] if len(names) == 1 else None,
            "content": [{"type": "text", "text": text}] if isinstance(text, str) else [],
            "usage": result.get("usage"),
            "stop_reason": result.get("stop_reason"),
        }
        self._add_prompt()
        line: Line = {"type": "assistant", "message": inner, "partialUsage": "result"}
        if result.get("is_error") is True:
            line |= {"isApiErrorMessage": True, "apiErrorStatus": result.get("api_error_status")}
        self._add(line, result)
        self._add_run_facts(result)

    def _add(self, line: Line, message: Message | None = None) -> None:
        self._transcript.lines.append(self._with_head(line, message or {}))

    def _with_head(self, line: Line, message: Message) -> Line:
        uuid = message.get("uuid")
        if not isinstance(uuid, str):
            seed = f"{self._transcript.session_id}:{line['type']}:{len(self._transcript.lines)}"
            uuid = hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()[:32]
        head = {**self._common, "uuid": uuid, "timestamp": self._now, "streamTimes": self._source}
        return {name: value for name, value in {**line, **head}.items() if value is not None}


class _Usage(dict[str, Line]):
    """Final counts by message id. `counted` has the messages whose own lines carry final counts."""

    counted: set[str]


def _final_usage(messages: list[Message]) -> _Usage:
    """Return the final counts of responses: from `message_delta`, or from the result if there was only one response."""
    final, current = _Usage(), dict[str | None, str]()
    final.counted = set()
    main_responses: dict[str, None] = {}
    for message in messages:
        parent = message.get("parent_tool_use_id")
        parent = parent if isinstance(parent, str) else None
        match message:
            case {"type": "stream_event", "event": {"type": "message_start", "message": {"id": str(id_)}}}:
                current[parent] = id_
            case {"type": "stream_event", "event": {"type": "message_delta", "usage": dict(usage)}}:
                message_id = message.get("api_message_id") or current.get(parent)
                if isinstance(message_id, str):
                    final[message_id] = {
                        name: value for name, value in usage.items() if isinstance(value, int) and value
                    }
            case {"type": "assistant", "message": {"id": str(id_), "stop_reason": str()}}:
                final.counted.add(id_)
            case {"type": "assistant", "message": {"id": str(id_), "model": str(model)}} if parent is None:
                if model != "<synthetic>":
                    main_responses[id_] = None
            case _:
                pass
    results = [
        message["usage"]
        for message in messages
        if message["type"] == "result" and isinstance(message.get("usage"), dict)
    ]
    unknown = [id_ for id_ in main_responses if id_ not in final and id_ not in final.counted]
    if len(unknown) == len(main_responses) == len(results) == 1 and isinstance(results[0].get("output_tokens"), int):
        final[unknown[0]] = {"output_tokens": results[0]["output_tokens"]}
    return final


def _session_id(messages: list[Message]) -> str:
    for message in messages:
        if isinstance(id_ := message.get("session_id"), str) and is_session_id(id_):
            return id_
    return hashlib.sha256(repr(messages[:8]).encode("utf-8", "replace")).hexdigest()[:32]


def _agent_id(call: str) -> str:
    """Return a call's id as an agent id. It becomes a file name, so one that is unsafe is replaced by a digest."""
    return call if is_session_id(call) else hashlib.sha256(call.encode("utf-8", "replace")).hexdigest()[:32]


def _call_and_agent(inner: object, result: object) -> tuple[str | None, str | None]:
    """Return the call that a user message is the result of, and the agent that ran it."""
    agent = result.get("agentId") if isinstance(result, dict) else None
    match inner:
        case {"content": [*items]}:
            calls = [item["tool_use_id"] for item in items if _is_result(item)]
            return (calls[0] if calls else None), agent if isinstance(agent, str) else None
        case _:
            return None, None


def _is_result(item: object) -> bool:
    match item:
        case {"type": "tool_result", "tool_use_id": str()}:
            return True
        case _:
            return False


def _times(messages: Messages, ended_ns: int | None, *, live: bool) -> tuple[list[str | None], str]:
    """Return when each message was written, and where the times come from.

    If the stream has times, those are used: a message without one takes the previous message's, and messages before the
    first time get the run's start, computed from the last time and the run's duration. If it has none, arrival times
    are used, provided they were observed live or span about the run's duration; a shorter span means that a recording
    was replayed. Otherwise only the start and the end are known, from the run's duration and the end of the output.
    """
    items = messages.items
    stream_times = [item["timestamp"] if isinstance(item.get("timestamp"), str) else None for item in items]
    durations_ms = [item["duration_ms"] for item in items if isinstance(item.get("duration_ms"), int)]
    if any(stream_times):
        return list(_fill_gaps(stream_times, durations_ms[:1])), "stream"
    duration_ns = min(max(0, durations_ms[-1]), _MAX_MS) * 1_000_000 if durations_ms else 0
    arrivals_ns = [time_ns for time_ns in messages.arrived_ns if time_ns is not None]
    arrival_span_ns = arrivals_ns[-1] - arrivals_ns[0] if arrivals_ns else 0  # 0 if all came as one array
    if len(arrivals_ns) == len(messages.items) and (2 * arrival_span_ns >= duration_ns or (live and arrival_span_ns)):
        return [rfc3339(time_ns) for time_ns in arrivals_ns], "arrival"
    end_ns = arrivals_ns[-1] if arrivals_ns else ended_ns
    if end_ns is None:
        return [None] * len(stream_times), "unknown"
    times: list[str | None] = [rfc3339(max(0, end_ns - duration_ns))] * len(stream_times)
    times[-1:] = [rfc3339(end_ns)]
    return times, "result"


def _fill_gaps(times: list[str | None], durations_ms: list[int]) -> Iterator[str | None]:
    """Yield each time, or the previous one if it is missing. `took_ms`: the duration of the first run."""
    present = [time for time in times if time is not None]
    latest, first_ns, last_ns = present[0], parse_time(present[0]), parse_time(present[-1])
    if durations_ms and first_ns is not None and last_ns is not None:
        latest = rfc3339(max(0, min(first_ns, last_ns - min(max(0, durations_ms[0]), _MAX_MS) * 1_000_000)))
    for time in times:
        latest = time or latest
        yield latest
