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
    FailedCall,
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

    def again(self, head: Head, text: str) -> bool:
        """Remember a line; return whether exactly this line was seen before. The uuid alone is not enough."""
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
        self.waiting: list[Message] = [turn.start.message] if turn.start.text else []
        self.ready_ns = turn.start.head.time_ns
        self._seen = seen
        self._generations: dict[str, Generation] = {}
        self._newest: Generation | None = None
        self._uuids: set[str] = set()
        self._results_before_calls: dict[str, tuple[ToolResult, int | None]] = {}  # results whose calls come later
        self._attempts = attempts  # since the last response; the next one names its attempt
        self._data_call: str | None = None  # the call whose result ends the turn
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
    def may_go_on(self) -> bool:
        """Return whether the last response may be incomplete: nothing says that it is complete."""
        return self.answered and self.turn.last in ("reply", "input")

    def goes_on_with(self, entry: Entry) -> bool:
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
            if bare_call or (last.message_id is None and self.turn.last == "reply"):
                return last.key
        if entry.head.uuid is not None:
            return f"line:{entry.head.uuid}"
        text = next((block.text for block in entry.blocks if isinstance(block, Text)), "")
        return f"text:{self.turn.number}:{self.turn.start.text}:{len(self.turn.steps)}:{entry.head.time_ns}:{text}"

    def has(self, key: str) -> bool:
        """Return whether this turn has lines of this response."""
        return key in self._generations

    def reply(self, entry: Reply, key: str) -> None:
        """Add a line of a response."""
        head, turn = entry.head, self.turn
        uuid, time_ns = head.uuid, head.time_ns
        generation = self._generations.get(key)
        if generation is None:
            generation = self._begin(entry, key, time_ns)
        elif uuid in self._uuids:
            self._seen.repeated += 1
            return
        else:
            _join(generation, entry, time_ns)
        if uuid is not None:
            self._uuids.add(uuid)
        turn.last = "reply"
        turn.context = head.context
        turn.end_ns = latest_ns(turn.end_ns, time_ns)
        for block in entry.blocks:
            if not isinstance(block, ToolUse):
                generation.blocks.append(block)
            elif block.id not in self._seen.calls:
                generation.blocks.append(block)
                call = self._call(generation, block, time_ns)
                if block.file_path is not None and uuid is not None:
                    self._call_by_line[uuid] = call

    def _begin(self, entry: Reply, key: str, time_ns: int | None) -> Generation:
        # Unpacked at once: reading its fields one by one takes longer than creating the generation.
        head, id_, api_id, model, _, usage, stop_reason, aborted, _, _, effort, speed, tier, advisors, ref, *_ = entry
        ready_ns = self.ready_ns
        if self._newest is not None:
            ready_ns = latest_ns(ready_ns, self._newest.last_ns)
        made = Generation(
            key=key,
            head=head,
            message_id=id_,
            ready_ns=ready_ns,
            inputs=self.waiting,
            request_id=api_id,
            model=model,
            first_ns=time_ns,
            last_ns=time_ns,
        )
        made.usage, made.stop_reason, made.aborted = usage, stop_reason, aborted
        made.effort, made.speed, made.service_tier, made.advisors = effort, speed, tier, advisors
        self.waiting = []
        made.thinking_ms, made.tool_input_ms = entry.thinking_ms, entry.tool_input_ms
        made.request, made.attempts, rejected = self._attempts.answered(ref, key)
        self._generations[key] = self._newest = made
        self.turn.steps += rejected
        self.turn.steps.append(made)
        return made

    def _call(self, generation: Generation, block: ToolUse, time_ns: int | None) -> Call:
        call = Call(block.id or f"{generation.key}#{len(generation.calls)}", block, time_ns)
        self._seen.calls.add(call.id)
        generation.calls.append(call)
        self.turn.calls[call.id] = call
        if not block.id:
            self._unpaired.append(call)
        elif (result_before := self._results_before_calls.pop(call.id, None)) is not None:
            self._answer(call, *result_before)
        return call

    def results(self, entry: Results) -> None:
        """Add tool results, and the prompt sent along with them."""
        time_ns = entry.head.time_ns
        for result in entry.results:
            call = self.turn.calls.get(result.tool_use_id)
            if call is None and not result.tool_use_id and self._unpaired:
                call = self._unpaired.popleft()
            if call is None:
                self._results_before_calls[result.tool_use_id] = (result, time_ns)
            elif call.result is None:
                self._answer(call, result, time_ns)
            else:
                self._seen.repeated += 1
        if entry.prompt is not None:
            self.typed(entry.prompt, entry.head)
        elif entry.ends_turn:
            self.turn.last = "stop"

    def structured(self, entry: StructuredOutput) -> None:
        """Add structured output that the user requested; the result that follows belongs to its call."""
        self.turn.data, self._data_call = entry.data, entry.tool_use_id

    def _answer(self, call: Call, result: ToolResult, time_ns: int | None) -> None:
        call.result, call.end_ns = result, time_ns
        self.turn.end_ns = latest_ns(self.turn.end_ns, time_ns)
        self._received(Message("", TOOL, call), time_ns)
        if call.id == self._data_call and not result.is_error:
            self.turn.last = "stop"  # before 2.1.3 nothing else says that no further request follows
        if result.task_id is not None:
            self.turn.running[result.task_id] = call.id

    def typed(self, text: str, head: Head) -> None:
        """Add a prompt that was sent to the model within the turn."""
        if not self._is_repeated("prompt", text):
            origin = Origin(speaker(text, head))
            self.event(Event(kind="prompt", start_ns=head.time_ns, end_ns=head.time_ns, text=text, origin=origin))
            self._received(Message(text, origin), head.time_ns)

    def injected(self, entry: Injected) -> None:
        """Add a line injected by Claude Code. Feedback of a blocking Stop hook makes the model continue."""
        if entry.feedback:
            self._received(Message(entry.text, HOOK), entry.head.time_ns)
        else:
            self.ready_ns = latest_ns(self.ready_ns, entry.head.time_ns)

    def task_ended(self, entry: Notification, call: str | None) -> None:
        """Add the end of a background task."""
        if self._is_repeated("notification", entry.text):
            return
        known = {"task_id": entry.task_id, "status": entry.status, "summary": entry.summary}
        metadata: dict[str, JsonValue] = {name: value for name, value in known.items() if value is not None}
        time_ns = entry.head.time_ns
        self.event(
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
        self._received(Message(entry.text, AGENT), time_ns)
        if entry.waiting:
            return
        turn = self.turn
        turn.finished_tasks.update({name: entry.status for name in (entry.task_id, call) if name is not None})
        turn.running = {
            task: by for task, by in turn.running.items() if task != entry.task_id and (call is None or by != call)
        }

    def hook(self, entry: Hook) -> None:
        """Add a hook that has a message for the model, or is an event of the turn."""
        if (event := hook_event(entry)) is not None:
            self.event(event)
        if entry.message:
            self.waiting.append(Message(entry.message, HOOK))
            self.ready_ns = latest_ns(self.ready_ns, entry.head.time_ns)
        if entry.ends_turn:
            self.turn.last = "stop"

    def stop_hooks(self, entry: TurnEnd) -> None:
        """Add the hooks that ran at a Stop, except those that already had lines of their own.

        They start together, when the response has ended. One that blocked has no duration: it ended last.
        """
        end_ns, lasted = entry.head.time_ns, [hook.duration_ms for hook in entry.hooks]
        known_ms = [ms for ms in lasted if ms is not None]
        began_ns = self._newest.last_ns if self._newest is not None else None
        if end_ns is not None and known_ms and None not in lasted:
            began_ns = latest_ns(began_ns, max(0, end_ns - max(known_ms) * 1_000_000))
        name = "SubagentStop" if entry.head.sidechain else "Stop"
        for hook in entry.hooks:
            if _OWN_HOOK.search(hook.command) or self._has_come(hook.command):
                continue
            blocked = any(hook.command in message.text for message in self.waiting if message.origin is HOOK)
            known = {"hook_event": name, "command": hook.command, "duration_ms": hook.duration_ms, "blocked": blocked}
            metadata: dict[str, JsonValue] = {key: value for key, value in known.items() if value is not None}
            if hook.error and not blocked:
                metadata["failed"] = True
            if hook.duration_ms is None and began_ns is not None:
                metadata["time"] = "start derived"
            ended_ns = end_ns
            if began_ns is not None and end_ns is not None and hook.duration_ms is not None:
                ended_ns = min(end_ns, began_ns + hook.duration_ms * 1_000_000)
            self.event(
                Event(kind="hook", start_ns=began_ns, end_ns=ended_ns, text=hook.error, origin=HOOK, metadata=metadata)
            )

    def _has_come(self, command: str) -> bool:
        """Return whether a hook has had a line of its own since the last response."""
        for step in reversed(self.turn.steps):
            if isinstance(step, Generation):
                return False
            if step.kind == "hook" and step.metadata.get("command") == command:
                return True
        return False

    def mode(self, entry: ModeChange) -> None:
        """Record the permission mode if it changed. Its line has no time."""
        if self._mode not in (None, entry.mode):
            time_ns = self.turn.end_ns
            self.event(
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

    def file_change(self, entry: FileChange) -> None:
        """Record a file that is about to be modified: its call has been permitted by now."""
        self.turn.files[entry.path] = None
        call = self._call_by_line.get(entry.line_uuid or "")
        if call is not None and call.began_ns is None:
            call.began_ns = entry.head.time_ns

    def limited(self, entry: TurnLimit) -> None:
        """Record that the run ended because of `--max-turns`."""
        self.turn.last, self.turn.limit = "limit", entry.limit
        self.turn.end_ns = latest_ns(self.turn.end_ns, entry.head.time_ns)

    def printed(self, entry: CommandOutput) -> None:
        """Add the output of a command that an agent ran."""
        self.turn.result = _OUTPUT.sub("", entry.text).strip()
        self.turn.last = "stop"
        self.turn.end_ns = latest_ns(self.turn.end_ns, entry.head.time_ns)

    def _is_repeated(self, kind: EventKind, text: str) -> bool:
        """Return whether an event was added since the last response: the queue and an attachment both report it."""
        for step in reversed(self.turn.steps):
            if isinstance(step, Generation):
                return False
            if step.kind == kind and step.text == text:
                return True
        return False

    def _received(self, message: Message, time_ns: int | None) -> None:
        self.waiting.append(message)
        self.ready_ns = latest_ns(self.ready_ns, time_ns)
        self.turn.last = "input"

    def failed(self, entry: Reply, key: str) -> None:
        """Add an API error. It ends a turn like a response, but is not one."""
        time_ns, ready_ns = entry.head.time_ns, self.ready_ns
        sent, rejected = self._attempts.gave_up(key)
        self.turn.steps += rejected
        if sent and sent[0].head.time_ns is not None:
            ready_ns = sent[0].head.time_ns
        start_ns = time_ns if ready_ns is None or time_ns is None else min(ready_ns, time_ns)
        known = {
            "message_id": entry.message_id,
            "request_id": entry.request_id,
            "attempts": len(sent) or None,
            "status": entry.error_status,
            "error_type": entry.error_type,
        }
        metadata: dict[str, JsonValue] = {name: value for name, value in known.items() if value is not None}
        event = Event(
            kind="api_error",
            start_ns=start_ns,
            end_ns=time_ns,
            text=entry.api_error or "",
            origin=SYSTEM,
            metadata=metadata,
            tool_use_id=None,
            key=key,
        )
        event.call = FailedCall([*self.waiting], sent[-1]) if sent else None
        self.event(event, "error")

    def event(self, event: Event, last: Literal["interrupt", "error"] | None = None) -> None:
        """Add any other event."""
        self.turn.steps.append(event)
        self.turn.end_ns = latest_ns(self.turn.end_ns, event.end_ns)
        self.turn.last = last or self.turn.last


def hook_event(entry: Hook) -> Event | None:
    """Return a hook as an event; None for our own hook, and for a line that only has a message to the model."""
    if _OWN_HOOK.search(entry.command or "") or not (entry.command or entry.blocked or entry.failed):
        return None
    known = {
        "hook_event": entry.event,
        "command": entry.command,
        "duration_ms": entry.duration_ms,
        "exit_code": entry.exit_code,
        "blocked": entry.blocked,
        "failed": entry.failed or None,
        "tool_id": entry.tool_use_id if entry.event.startswith(("PreTool", "PostTool", "Permission")) else None,
    }
    metadata: dict[str, JsonValue] = {key: value for key, value in known.items() if value is not None}
    start_ns = end_ns = entry.head.time_ns
    if end_ns is not None and entry.duration_ms is not None:
        start_ns = max(0, end_ns - entry.duration_ms * 1_000_000)
    return Event(kind="hook", start_ns=start_ns, end_ns=end_ns, text=entry.output, origin=HOOK, metadata=metadata)


def compaction(steps: list[Event] | list[Generation | Event], entry: Compaction) -> Event | None:
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
    _, _, request_id, model, _, usage, stop_reason, aborted, *_ = entry
    if generation.first_ns is None:
        generation.first_ns = time_ns
    generation.last_ns = latest_ns(generation.last_ns, time_ns)
    generation.model = generation.model or model
    generation.request_id = generation.request_id or request_id
    generation.stop_reason = stop_reason or generation.stop_reason
    generation.aborted |= aborted
    if entry.thinking_ms is not None:
        generation.thinking_ms = (generation.thinking_ms or 0) + entry.thinking_ms
    if entry.tool_input_ms is not None:
        generation.tool_input_ms = (generation.tool_input_ms or 0) + entry.tool_input_ms
    if len(entry.advisors) >= len(generation.advisors):
        generation.advisors = entry.advisors  # every line of a response repeats them; a later one may have more
    if usage is not None:
        generation.usage = usage if generation.usage is None else generation.usage.maximum(usage)


def latest_ns(one: int | None, other: int | None) -> int | None:
    """Return the later of two times, either of which may be unknown."""
    if one is None or other is None:
        return other if one is None else one
    return one if one > other else other  # noqa: FURB136  (max would double the time)
