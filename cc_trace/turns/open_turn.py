"""The turn under assembly, built line by line.

Rules: lines of one response are joined by message.id over the whole turn; results are matched to calls by id and may
precede them; no response, call or line counts twice in a session.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from cc_trace.transcript import Reply, Results, Text, ToolUse, speaker
from cc_trace.turns.model import (
    AGENT,
    HOOK,
    MODEL,
    SYSTEM,
    TOOL,
    Call,
    Event,
    FailedRequest,
    Generation,
    Message,
    Origin,
    Turn,
)

if TYPE_CHECKING:
    from cc_trace.transcript import (
        CommandOutput,
        Compaction,
        Entry,
        FileChange,
        Head,
        Hook,
        Injected,
        JsonValue,
        ModeChange,
        Notification,
        StopHook,
        StructuredOutput,
        ToolResult,
        TurnEnd,
        TurnLimit,
    )
    from cc_trace.turns.attempts import Attempts
    from cc_trace.turns.model import EventKind


_OUTPUT = re.compile(r"</?local-command-std(?:out|err)>")
# Our own hook runs in every turn and is not part of the user's work.
_OWN_HOOK = re.compile("cc[-_]trace")


@dataclass(slots=True)
class Seen:
    """What has been seen in a session so far, in its main file and its agents' files."""

    responses: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    lines: set[int] = field(default_factory=set)
    repeated: int = 0
    unmatched: int = 0  # results without a call

    def is_repeat(self, head: Head, text: str) -> bool:
        """Return whether exactly this line was seen before, and remember it. The uuid alone is not enough."""
        if head.uuid is None:
            return False
        line = hash((head.uuid, text))
        if line in self.lines:
            self.repeated += 1
            return True
        self.lines.add(line)
        return False


class OpenTurn:
    """A turn under assembly, with the state that only assembly needs."""

    def __init__(self, turn: Turn, seen: Seen, attempts: Attempts) -> None:
        self.turn = turn
        self.copied = False  # its responses were seen before: it is a copy of an earlier turn
        self.next_inputs: list[Message] = [turn.start.message] if turn.start.text else []
        self.earliest_request_ns = turn.start.head.time_ns
        self._seen = seen
        self._generations: dict[str, Generation] = {}
        self._newest: Generation | None = None
        self._uuids: set[str] = set()
        self._results_before_calls: dict[str, tuple[ToolResult, int | None]] = {}  # results whose calls come later
        self._attempts = attempts  # since the last response; the next one names its attempt
        self._output_call: str | None = None  # the call whose result ends the turn
        self._unpaired: deque[Call] = deque()  # calls without an id, for results without one
        self._call_by_line: dict[str, Call] = {}  # the uuid of a line -> its call
        self._mode = turn.start.permission_mode

    @property
    def answered(self) -> bool:
        """Return whether the turn has a response. Without one it is not yielded."""
        return self.turn.key is not None

    @property
    def resting(self) -> bool:
        """Return whether Claude had nothing left to do."""
        return self.turn.resting

    @property
    def at_work(self) -> bool:
        """Return whether Claude has started to respond and has not finished."""
        return self.answered and not self.resting

    @property
    def response_may_continue(self) -> bool:
        """Return whether the last response may be incomplete: nothing says that it is complete."""
        return self.answered and self.turn.last_activity in ("reply", "input")

    def is_continued_by(self, entry: Entry) -> bool:
        """Return whether an entry is another line of this turn's responses, or the result of one of its calls."""
        if isinstance(entry, Reply):
            return entry.message_id in self._generations and entry.head.uuid not in self._uuids
        if isinstance(entry, Results):
            calls = (self.turn.calls.get(result.tool_use_id) for result in entry.results)
            return any(call is not None and call.result is None for call in calls)
        return False

    @property
    def unmatched(self) -> int:
        """Return the number of results without a call."""
        return len(self._results_before_calls)

    def key_of(self, entry: Reply) -> str:
        """Return the key of the response that a line belongs to. Copying a session preserves it."""
        if entry.message_id is not None:
            return entry.message_id
        last = self._newest
        if last is not None:
            # The simplest formats have no ids: calls have separate lines, and parts of a response are adjacent.
            bare_call = entry.model is None and all(isinstance(block, ToolUse) for block in entry.blocks)
            if bare_call or (last.message_id is None and self.turn.last_activity == "reply"):
                return last.key
        if entry.head.uuid is not None:
            return f"line:{entry.head.uuid}"
        text = next((block.text for block in entry.blocks if isinstance(block, Text)), "")
        return f"text:{self.turn.number}:{self.turn.start.text}:{len(self.turn.steps)}:{entry.head.time_ns}:{text}"

    def has_generation(self, key: str) -> bool:
        """Return whether this turn has lines of this response."""
        return key in self._generations

    def add_reply(self, entry: Reply, key: str) -> None:
        """Add a line of a response."""
        head, turn = entry.head, self.turn
        uuid, time_ns = head.uuid, head.time_ns
        generation = self._generations.get(key)
        if generation is None:
            generation = self._begin_generation(entry, key, time_ns)
        elif uuid in self._uuids:
            self._seen.repeated += 1
            return
        else:
            _join(generation, entry, time_ns)
        if uuid is not None:
            self._uuids.add(uuid)
        turn.last_activity = "reply"
        turn.context = head.context
        turn.end_ns = latest_ns(turn.end_ns, time_ns)
        for block in entry.blocks:
            if not isinstance(block, ToolUse):
                generation.blocks.append(block)
            elif block.id not in self._seen.calls:
                generation.blocks.append(block)
                call = self._add_call(generation, block, time_ns)
                if block.file_path is not None and uuid is not None:
                    self._call_by_line[uuid] = call

    def _begin_generation(self, entry: Reply, key: str, time_ns: int | None) -> Generation:
        earliest_request_ns = self.earliest_request_ns
        if self._newest is not None:
            earliest_request_ns = latest_ns(earliest_request_ns, self._newest.last_ns)
        # Field by field: twenty keyword arguments take three times as long.
        generation = Generation(key, entry.head, entry.message_id, earliest_request_ns, self.next_inputs)
        generation.request_id = entry.request_id
        generation.model = entry.model
        generation.first_ns = generation.last_ns = time_ns
        generation.usage = entry.usage
        generation.stop_reason = entry.stop_reason
        generation.aborted = entry.aborted
        generation.effort = entry.effort
        generation.speed = entry.speed
        generation.service_tier = entry.service_tier
        generation.advisors = entry.advisors
        generation.thinking_ms = entry.thinking_ms
        generation.tool_input_ms = entry.tool_input_ms
        generation.request, generation.attempts, failures = self._attempts.end_with_response(entry.request_ref, key)
        self.next_inputs = []
        self._generations[key] = self._newest = generation
        self.turn.steps += failures
        self.turn.steps.append(generation)
        return generation

    def _add_call(self, generation: Generation, block: ToolUse, time_ns: int | None) -> Call:
        call = Call(block.id or f"{generation.key}#{len(generation.calls)}", block, time_ns)
        self._seen.calls.add(call.id)
        generation.calls.append(call)
        self.turn.calls[call.id] = call
        if not block.id:
            self._unpaired.append(call)
        elif (result_before := self._results_before_calls.pop(call.id, None)) is not None:
            self._attach_result(call, *result_before)
        return call

    def add_results(self, entry: Results) -> None:
        """Add tool results, and the prompt sent along with them."""
        time_ns = entry.head.time_ns
        for result in entry.results:
            call = self.turn.calls.get(result.tool_use_id)
            if call is None and not result.tool_use_id and self._unpaired:
                call = self._unpaired.popleft()
            if call is None:
                self._results_before_calls[result.tool_use_id] = (result, time_ns)
            elif call.result is None:
                self._attach_result(call, result, time_ns)
            else:
                self._seen.repeated += 1
        if entry.prompt is not None:
            self.add_prompt(entry.prompt, entry.head)
        elif entry.ends_turn:
            self.turn.last_activity = "stop"

    def set_structured_output(self, entry: StructuredOutput) -> None:
        """Add structured output that the user requested; the result that follows belongs to its call."""
        self.turn.structured_output, self._output_call = entry.data, entry.tool_use_id

    def _attach_result(self, call: Call, result: ToolResult, time_ns: int | None) -> None:
        call.result, call.end_ns = result, time_ns
        self.turn.end_ns = latest_ns(self.turn.end_ns, time_ns)
        self._add_model_input(Message("", TOOL, call), time_ns)
        if call.id == self._output_call and not result.is_error:
            self.turn.last_activity = "stop"  # before 2.1.3 nothing else says that no further request follows
        if result.task_id is not None:
            self.turn.running[result.task_id] = call.id

    def add_prompt(self, text: str, head: Head) -> None:
        """Add a prompt that was sent to the model within the turn."""
        if not self._event_was_recorded("prompt", text):
            origin = Origin(speaker(text, head))
            self.add_event(Event(kind="prompt", start_ns=head.time_ns, end_ns=head.time_ns, text=text, origin=origin))
            self._add_model_input(Message(text, origin), head.time_ns)

    def add_injected(self, entry: Injected) -> None:
        """Add a line injected by Claude Code. Feedback of a blocking Stop hook makes the model continue."""
        if entry.feedback:
            self._add_model_input(Message(entry.text, HOOK), entry.head.time_ns)
        else:
            self.earliest_request_ns = latest_ns(self.earliest_request_ns, entry.head.time_ns)

    def add_task_end(self, entry: Notification, call: str | None) -> None:
        """Add the end of a background task."""
        if self._event_was_recorded("notification", entry.text):
            return
        fields = {"task_id": entry.task_id, "status": entry.status, "summary": entry.summary}
        metadata: dict[str, JsonValue] = {name: value for name, value in fields.items() if value is not None}
        time_ns = entry.head.time_ns
        self.add_event(
            Event(
                kind="notification",
                start_ns=time_ns,
                end_ns=time_ns,
                text=entry.text,
                origin=AGENT,
                metadata=metadata,
                tool_use_id=call,
            )
        )
        self._add_model_input(Message(entry.text, AGENT), time_ns)
        if entry.waiting:
            return
        turn = self.turn
        turn.finished_tasks.update({name: entry.status for name in (entry.task_id, call) if name is not None})
        turn.running = {
            task: launching_call
            for task, launching_call in turn.running.items()
            if task != entry.task_id and (call is None or launching_call != call)
        }

    def add_hook(self, entry: Hook) -> None:
        """Add a hook that has a message for the model, or is an event of the turn."""
        if (event := event_of_hook(entry)) is not None:
            self.add_event(event)
        if entry.message:
            self.next_inputs.append(Message(entry.message, HOOK))
            self.earliest_request_ns = latest_ns(self.earliest_request_ns, entry.head.time_ns)
        if entry.ends_turn:
            self.turn.last_activity = "stop"

    def add_stop_hooks(self, entry: TurnEnd) -> None:
        """Add the hooks that ran at a Stop, except those that already had lines of their own.

        They start together, when the response has ended. One that blocked has no duration: it ended last.
        """
        start_ns = self._stop_hooks_start(entry)
        for hook in entry.hooks:
            if _OWN_HOOK.search(hook.command) or self._hook_was_recorded(hook.command):
                continue
            blocked = any(hook.command in message.text for message in self.next_inputs if message.origin is HOOK)
            self.add_event(_event_of_stop_hook(hook, entry.head, start_ns, blocked=blocked))

    def _stop_hooks_start(self, entry: TurnEnd) -> int | None:
        """Return when the Stop hooks started: not before the last response ended, nor before the longest began."""
        end_ns, durations_ms = entry.head.time_ns, [hook.duration_ms for hook in entry.hooks]
        known_ms = [duration_ms for duration_ms in durations_ms if duration_ms is not None]
        start_ns = self._newest.last_ns if self._newest is not None else None
        if end_ns is None or not known_ms or len(known_ms) < len(durations_ms):
            return start_ns
        return latest_ns(start_ns, max(0, end_ns - max(known_ms) * 1_000_000))

    def _hook_was_recorded(self, command: str) -> bool:
        """Return whether a hook has had a line of its own since the last response."""
        for step in reversed(self.turn.steps):
            if isinstance(step, Generation):
                return False
            if step.kind == "hook" and step.metadata.get("command") == command:
                return True
        return False

    def change_mode(self, entry: ModeChange) -> None:
        """Record the permission mode if it changed. Its line has no time."""
        if self._mode not in (None, entry.mode):
            time_ns = self.turn.end_ns
            self.add_event(
                Event(
                    kind="mode",
                    start_ns=time_ns,
                    end_ns=time_ns,
                    text="",
                    origin=SYSTEM,
                    metadata={"mode": entry.mode, "time": "inherited"},
                )
            )
        self._mode = entry.mode

    def add_file_change(self, entry: FileChange) -> None:
        """Record a file that is about to be modified: its call has been permitted by now."""
        self.turn.files[entry.path] = None
        call = self._call_by_line.get(entry.line_uuid or "")
        if call is not None and call.execution_start_ns is None:
            call.execution_start_ns = entry.head.time_ns

    def end_at_limit(self, entry: TurnLimit) -> None:
        """Record that the run ended because of `--max-turns`."""
        self.turn.last_activity, self.turn.limit = "limit", entry.limit
        self.turn.end_ns = latest_ns(self.turn.end_ns, entry.head.time_ns)

    def set_command_output(self, entry: CommandOutput) -> None:
        """Add the output of a command that an agent ran."""
        self.turn.command_output = _OUTPUT.sub("", entry.text).strip()
        self.turn.last_activity = "stop"
        self.turn.end_ns = latest_ns(self.turn.end_ns, entry.head.time_ns)

    def _event_was_recorded(self, kind: EventKind, text: str) -> bool:
        """Return whether an event was added since the last response: the queue and an attachment both report it."""
        for step in reversed(self.turn.steps):
            if isinstance(step, Generation):
                return False
            if step.kind == kind and step.text == text:
                return True
        return False

    def _add_model_input(self, message: Message, time_ns: int | None) -> None:
        self.next_inputs.append(message)
        self.earliest_request_ns = latest_ns(self.earliest_request_ns, time_ns)
        self.turn.last_activity = "input"

    def add_api_error(self, entry: Reply, key: str) -> None:
        """Add an API error. It ends a turn like a response, but is not one."""
        time_ns, earliest_request_ns = entry.head.time_ns, self.earliest_request_ns
        attempts, failures = self._attempts.end_with_error(key)
        self.turn.steps += failures
        if attempts and attempts[0].head.time_ns is not None:
            earliest_request_ns = attempts[0].head.time_ns
        start_ns = time_ns if earliest_request_ns is None or time_ns is None else min(earliest_request_ns, time_ns)
        fields = {
            "message_id": entry.message_id,
            "request_id": entry.request_id,
            "attempts": len(attempts) or None,
            "status": entry.error_status,
            "error_type": entry.error_type,
        }
        metadata: dict[str, JsonValue] = {name: value for name, value in fields.items() if value is not None}
        event = Event(
            kind="api_error",
            start_ns=start_ns,
            end_ns=time_ns,
            text=entry.api_error or "",
            origin=SYSTEM,
            metadata=metadata,
            key=key,
            failed_request=FailedRequest([*self.next_inputs], attempts[-1]) if attempts else None,
        )
        self.add_event(event, "error")

    def add_event(self, event: Event, activity: Literal["interrupt", "error"] | None = None) -> None:
        """Add an event. `activity`: what the turn's last activity is from now on, if it changes."""
        self.turn.steps.append(event)
        self.turn.end_ns = latest_ns(self.turn.end_ns, event.end_ns)
        self.turn.last_activity = activity or self.turn.last_activity


def event_of_hook(entry: Hook) -> Event | None:
    """Return a hook as an event; None for our own hook, and for a line that only has a message to the model."""
    if _OWN_HOOK.search(entry.command or "") or not (entry.command or entry.blocked or entry.failed):
        return None
    fields = {
        "hook_event": entry.event,
        "command": entry.command,
        "duration_ms": entry.duration_ms,
        "exit_code": entry.exit_code,
        "blocked": entry.blocked,
        "failed": entry.failed or None,
        "tool_id": entry.tool_use_id if entry.event.startswith(("PreTool", "PostTool", "Permission")) else None,
    }
    metadata: dict[str, JsonValue] = {key: value for key, value in fields.items() if value is not None}
    start_ns = end_ns = entry.head.time_ns
    if end_ns is not None and entry.duration_ms is not None:
        start_ns = max(0, end_ns - entry.duration_ms * 1_000_000)
    return Event(kind="hook", start_ns=start_ns, end_ns=end_ns, text=entry.output, origin=HOOK, metadata=metadata)


def _event_of_stop_hook(hook: StopHook, head: Head, start_ns: int | None, *, blocked: bool) -> Event:
    fields = {
        "hook_event": "SubagentStop" if head.sidechain else "Stop",
        "command": hook.command,
        "duration_ms": hook.duration_ms,
        "blocked": blocked,
    }
    metadata: dict[str, JsonValue] = {key: value for key, value in fields.items() if value is not None}
    if hook.error and not blocked:
        metadata["failed"] = True
    if hook.duration_ms is None and start_ns is not None:
        metadata["time"] = "start derived"
    end_ns = head.time_ns
    if start_ns is not None and end_ns is not None and hook.duration_ms is not None:
        end_ns = min(end_ns, start_ns + hook.duration_ms * 1_000_000)
    return Event(kind="hook", start_ns=start_ns, end_ns=end_ns, text=hook.error, origin=HOOK, metadata=metadata)


def event_of_compaction(steps: list[Event] | list[Generation | Event], entry: Compaction) -> Event | None:
    """Return a compaction as an event. A summary after its boundary is added to the boundary's event instead."""
    if entry.summary is not None and steps and isinstance(last := steps[-1], Event) and last.kind == "compaction":
        last.text = last.text or entry.summary
        return None
    return Event(
        kind="compaction",
        start_ns=entry.head.time_ns,
        end_ns=entry.head.time_ns,
        text=entry.summary or "",
        origin=MODEL,
        metadata=entry.metadata,
    )


def _join(generation: Generation, entry: Reply, time_ns: int | None) -> None:
    """Add another line of a response. Only these fields differ between its lines."""
    if generation.first_ns is None:
        generation.first_ns = time_ns
    generation.last_ns = latest_ns(generation.last_ns, time_ns)
    generation.model = generation.model or entry.model
    generation.request_id = generation.request_id or entry.request_id
    generation.stop_reason = entry.stop_reason or generation.stop_reason
    generation.aborted |= entry.aborted
    if entry.thinking_ms is not None:
        generation.thinking_ms = (generation.thinking_ms or 0) + entry.thinking_ms
    if entry.tool_input_ms is not None:
        generation.tool_input_ms = (generation.tool_input_ms or 0) + entry.tool_input_ms
    if len(entry.advisors) >= len(generation.advisors):
        generation.advisors = entry.advisors  # every line of a response repeats them; a later one may have more
    if (usage := entry.usage) is not None:
        generation.usage = usage if generation.usage is None else generation.usage.maximum(usage)


def latest_ns(one: int | None, other: int | None) -> int | None:
    """Return the later of two times, either of which may be unknown."""
    if one is None or other is None:
        return other if one is None else one
    return one if one > other else other  # noqa: FURB136  (max would double the time)
