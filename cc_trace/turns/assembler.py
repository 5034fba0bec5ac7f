"""Groups entries into turns: what starts a turn and what ends it.

Rules:
- File order and ids decide, never timestamps or adjacency.
- A turn is yielded only if it has a start and at least one response.
- A closed turn will not change, whatever is appended to the file. A turn closes when the next one starts, or
  with the line that gives its duration, if no call and none of its background tasks is running.
- A prompt can be typed while a response is being written: the lines after it decide whether it belongs to that turn.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, assert_never

from cc_trace.transcript import (
    CommandOutput,
    Compaction,
    FileChange,
    Goal,
    Hook,
    Injected,
    Interrupt,
    ModeChange,
    Notification,
    Position,
    Progress,
    Prompt,
    Queue,
    QueuedPrompt,
    Reply,
    RequestSent,
    Results,
    Retry,
    RunFacts,
    SessionNote,
    Skipped,
    StructuredOutput,
    Totals,
    TurnEnd,
    TurnLimit,
    notifications,
    replaces,
    speaker,
)
from cc_trace.turns.attempts import Attempts
from cc_trace.turns.model import AGENT, HOOK, SYSTEM, Event, Message, Origin, Start, Turn
from cc_trace.turns.open_turn import OpenTurn, event_of_compaction, event_of_hook

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from cc_trace.transcript import Entry, Head
    from cc_trace.turns.open_turn import Seen

_COMMAND: Final = re.compile(r"/[a-zA-Z][\w:-]*(?:\s|$)")
_PartOfTurn: TypeAlias = (
    QueuedPrompt | Interrupt | StructuredOutput | Progress | ModeChange | FileChange | TurnLimit | RunFacts
)
_OfNoTurn: TypeAlias = Totals | SessionNote | Skipped
# Together with those that `_process` handles, these are all of `Entry`: mypy rejects one that is in neither.
_NonClosing: TypeAlias = (
    _PartOfTurn | Queue | CommandOutput | Compaction | Hook | Retry | Goal | RequestSent | _OfNoTurn
)


class PromptQueue:
    """The queue of prompts, as far as the transcript records it. An image is an item without content."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        # Texts sent within the running turn. Some versions write a separate line for one later, some do not.
        self.sent_to_model: list[tuple[str, Head]] = []

    def apply(self, entry: Queue) -> None:
        """Apply one recorded operation."""
        match entry.operation:
            case "enqueue":
                self._texts.append(entry.content or "")
            case "dequeue" if self._texts:
                self._texts.popleft()  # a separate line will follow
            case "remove" if entry.content and entry.content not in self._texts:
                pass  # it already had a separate line
            case "remove" if self._texts:
                text = entry.content or self._texts[0]
                self._texts.remove(text)
                if text.strip():
                    self.sent_to_model.append((text.strip(), entry.head))
            case "popAll":
                self._texts.clear()

    def forget(self, text: str) -> Head | None:
        """Remove a text that has a separate line: not every version records its removal from the queue.

        Return the head of the line that says when it was sent to the running turn, if there is one.
        """
        queued = next((each for each in self._texts if _is_or_holds(each, text)), None)
        if queued is not None:
            self._texts.remove(queued)
        heads = [head for sent_text, head in self.sent_to_model if _is_or_holds(sent_text, text)]
        self.sent_to_model = [each for each in self.sent_to_model if not _is_or_holds(each[0], text)]
        return heads[0] if heads else None

    def take_sent(self, before_ns: int | None) -> list[tuple[str, Head]]:
        """Remove and return what was sent to the model up to a time, or everything if it is None."""

        def is_due(head: Head) -> bool:
            return before_ns is None or head.time_ns is None or head.time_ns <= before_ns

        due = [each for each in self.sent_to_model if is_due(each[1])]
        self.sent_to_model = [each for each in self.sent_to_model if not is_due(each[1])]
        return due


def assemble(
    entries: Iterable[Entry],
    seen: Seen,
    *,
    number: int = 1,
    main: bool = True,
    call_by_task: dict[str, str] | None = None,
    delegated: Collection[str] = (),
    unanswered: list[Turn] | None = None,
) -> Iterator[Turn]:
    """Yield the turns of one file; the last one may still be open.

    In a main file, sidechain lines belong to agents and are kept aside; in an agent's own file (`main` false) all lines
    are its own. `call_by_task` has the background tasks of earlier turns (id -> call); those of these turns are added.
    `delegated`: the prompt ids of commands that an agent ran, which no response of the main thread follows.
    `unanswered`: a list that receives the turn without a response at the end of the file, if there is one.
    """
    assembler = _Assembler(seen, number, {} if call_by_task is None else call_by_task, delegated, main=main)
    for entry in entries:
        if (turn := assembler.add(entry)) is not None:
            yield turn
    turn = assembler.unfinished()
    if unanswered is not None and (last := assembler.unanswered()) is not None:
        unanswered.append(last)
    if turn is not None:
        yield turn


class _PendingCommand(NamedTuple):
    """A slash or `!` command. The lines after it show whether it starts a turn: most are local and start none.

    One that was typed while Claude was busy starts a turn only if it expands.
    """

    prompt: Prompt
    typed_while_busy: bool


@dataclass(slots=True)
class _BetweenTurns:
    """What was read since a turn was closed; it goes to the next one."""

    begin: Position | None = None  # of the first line
    events: list[Event] = field(default_factory=list)
    hook_messages: list[Message] = field(default_factory=list)  # for the model
    injected: Injected | None = None  # the next turn starts with it if a response comes without a prompt


class _Assembler:
    """The open turn, what was read between turns, and what may start the next one.

    `_between` is empty while a turn is open. `_command`, `_printed_command` and `_held` wait for the lines that show
    whether they start a turn.
    """

    def __init__(
        self, seen: Seen, number: int, call_by_task: dict[str, str], delegated: Collection[str], *, main: bool
    ) -> None:
        self._open: OpenTurn | None = None
        self._between = _BetweenTurns()
        self._command: _PendingCommand | None = None
        self._printed_command: _PendingCommand | None = None  # it printed something while Claude was idle
        self._held: list[Entry] = []  # a prompt typed while a turn may still continue, and the lines since
        self._goal_unmet = False
        self._queue = PromptQueue()
        self._attempts = Attempts()  # without a response; an attempt can precede its prompt's line
        self._seen = seen
        self._number = number
        self._main = main
        self._call_by_task = call_by_task
        self._delegated = delegated

    def unfinished(self) -> Turn | None:
        """Return the turn that is still open at the end of the file, if it has a response."""
        if self._open is None or not self._open.answered:
            return None
        self._seen.unmatched += self._open.unmatched
        return self._open.turn

    def unanswered(self) -> Turn | None:
        """Return the turn at the end of the file that has a prompt and no response. Nothing can be added any more."""
        if self._held:
            (prompt, *since), self._held = self._held, []
            assert isinstance(prompt, Prompt)  # noqa: S101
            self._number += 1  # the open turn stays as it is
            self._open = self._new_turn(Start.from_prompt(prompt))
            for each in since:
                self._process(each)  # none of them closes a turn
        if self._open is None or self._open.answered or self._open.copied:
            return None
        turn = self._open.turn
        if not (turn.start.text or turn.start.earlier):
            return None
        turn.prompt_key = f"prompt:{turn.start.head.uuid or turn.start.head.offset}"
        return turn

    def add(self, entry: Entry) -> Turn | None:
        """Process one entry; return the turn that it closed."""
        return self._resolve_held_prompt(entry) if self._held else self._process(entry)

    def _resolve_held_prompt(self, entry: Entry) -> Turn | None:
        """Decide whether the held prompt starts the next turn, or was typed while a response was being written.

        Another line of that response, or the result of one of its calls, shows that the turn continued.
        """
        head, open_ = entry.head, self._open
        assert open_ is not None  # noqa: S101  (a prompt is held only while a turn is open)
        of_agent = head is not None and head.sidechain and self._main
        if of_agent or not isinstance(entry, Reply | Results | Prompt | Notification | TurnEnd):
            self._held.append(entry)
            return None
        (prompt, *since), self._held = self._held, []
        assert isinstance(prompt, Prompt)  # noqa: S101
        closed: Turn | None = None
        if open_.is_continued_by(entry):
            open_.add_prompt(prompt.text, prompt.head)
        else:
            closed = self._start_turn(Start.from_prompt(prompt))
        for each in since:
            self._process(each)  # none of them closes a turn
        return self._process(entry) or closed

    def _process(self, entry: Entry) -> Turn | None:
        if (head := entry.head) is not None:
            if self._open is None and self._between.begin is None:
                self._between.begin = Position(head.offset, head.number)
            if head.sidechain and self._main:
                self._keep_for_agent(entry, head)
                return None
        match entry:
            case Reply():
                return self._on_reply(entry)
            case Results():
                return self._on_results(entry)
            case Prompt():
                return self._on_prompt(entry)
            case TurnEnd():
                return self._on_turn_end(entry)
            case Notification():
                return self._on_notification(entry)
            case Injected():
                return self._on_injected(entry)
            case _:
                self._process_non_closing(entry)
        return None

    def _process_non_closing(self, entry: _NonClosing) -> None:
        """Process an entry that never closes a turn."""
        match entry:
            case QueuedPrompt() if self._open is None:
                self._start_turn(_start_of_prompt(entry.text, entry.head))
            case QueuedPrompt() | Interrupt() | StructuredOutput() | Progress():
                self._add_to_turn(entry)
            case ModeChange() | FileChange() | TurnLimit() | RunFacts():
                self._add_to_turn(entry)
            case Hook():
                self._on_hook(entry)
            case Queue():
                self._queue.apply(entry)
            case RequestSent() | Retry():
                self._on_attempt(entry)
            case CommandOutput():
                self._on_command_output(entry)
            case Compaction():
                self._on_compaction(entry)
            case Goal():
                self._set_goal(open_=not entry.met)
            case Totals() | SessionNote() | Skipped():
                pass  # not about turns
            case _:
                assert_never(entry)

    def _on_attempt(self, entry: RequestSent | Retry) -> None:
        """Record an attempt, or the failure of one."""
        if isinstance(entry, Retry):
            self._add_event(self._attempts.add_failure(entry))
        else:
            self._attempts.add_sent(entry)

    def _add_to_turn(self, entry: _PartOfTurn) -> None:
        """Add an entry that belongs to the open turn. Between turns it is ignored."""
        if self._open is None:
            return
        match entry:
            case QueuedPrompt():
                self._open.add_prompt(entry.text, self._queue.forget(entry.text) or entry.head)
            case Interrupt(head=head):
                self._attempts.abandon()
                self._open.add_event(Event("interruption", head.time_ns, head.time_ns, entry.text), "interrupt")
            case StructuredOutput():
                self._open.set_structured_output(entry)
            case Progress():
                self._open.turn.progress.append(entry)
            case ModeChange():
                self._open.change_mode(entry)
            case FileChange():
                self._open.add_file_change(entry)
            case TurnLimit():
                self._open.end_at_limit(entry)
            case RunFacts():
                self._open.turn.run_facts = entry.facts
            case _:
                assert_never(entry)

    def _on_hook(self, entry: Hook) -> None:
        """Add a hook. One that ran between turns, such as at a session's start, belongs to the next turn."""
        if self._open is not None:
            self._open.add_hook(entry)
            return
        if (event := event_of_hook(entry)) is not None:
            self._between.events.append(event)
        if entry.message:
            self._between.hook_messages.append(Message(entry.message, HOOK))

    def _set_goal(self, *, open_: bool) -> None:
        self._goal_unmet = open_
        if self._open is not None:
            self._open.turn.goal_unmet = open_

    def _keep_for_agent(self, entry: Entry, head: Head) -> None:
        """Keep an agent's line in the main file for that agent."""
        if self._open is None:
            self._open = self._new_turn(Start(head, "injected", "", SYSTEM))
        self._open.turn.sidechain.append(entry)

    def _on_prompt(self, entry: Prompt) -> Turn | None:
        if self._seen.is_repeat(entry.head, entry.text):
            return None
        self._queue.forget(entry.text)
        self._printed_command = None
        if entry.head.prompt_id in self._delegated and entry.text.startswith("/"):
            return self._start_delegated(entry)
        if entry.trigger in ("command", "bash"):
            self._command = _PendingCommand(entry, self._open is not None and self._open.at_work)
            return None
        self._command = None
        if entry.trigger == "teammate" and self._open is not None and self._open.at_work:
            self._open.add_prompt(entry.text, entry.head)
            return None
        if self._open is not None and self._open.response_may_continue:
            self._held = [entry]
            return None
        return self._start_turn(Start.from_prompt(entry))

    def _start_delegated(self, entry: Prompt) -> Turn | None:
        """Start the turn of a command that an agent runs. With `-p` its line has the text as the user typed it."""
        self._command = None
        name = entry.command or entry.text.split()[0].removeprefix("/")
        origin = Origin(speaker(entry.text, entry.head))
        closed = self._start_turn(
            Start(
                head=entry.head,
                trigger="command",
                text=entry.text,
                origin=origin,
                command=name,
                permission_mode=entry.permission_mode,
            )
        )
        assert self._open is not None  # noqa: S101  (just started)
        self._open.turn.delegated = True
        return closed

    def _start_turn(self, start: Start, expansion: Message | None = None) -> Turn | None:
        if self._open is not None and self._open.answered:
            self._open.turn.rewound = replaces(start.head, self._open.turn.start.head)
        closed, unanswered = self._close_turn(), self._open
        self._open = self._new_turn(start)
        if expansion is not None:
            self._open.next_inputs.append(expansion)
        # A prompt without a response is kept: the model sees it along with the next one, so the trace shows both.
        if unanswered is not None and not unanswered.copied:
            before, turn = unanswered.turn, self._open.turn
            start.earlier = [*before.start.earlier, *([before.start.message] if before.start.text else [])]
            turn.begin = before.begin
            turn.steps = [*before.steps, *turn.steps]
            turn.sidechain, turn.progress = before.sidechain, before.progress
            if not replaces(start.head, before.start.head):  # otherwise it was edited, and the model never saw it
                self._open.next_inputs = [*unanswered.next_inputs, *self._open.next_inputs]
        return closed

    def _new_turn(self, start: Start) -> OpenTurn:
        head = start.head
        self._attempts.abandon_before(head.time_ns)
        first = next((sent.head for sent in self._attempts.waiting if sent.head.offset < head.offset), head)
        between, self._between = self._between, _BetweenTurns()
        turn = Turn(
            number=self._number,
            start=start,
            begin=between.begin or Position(first.offset, first.number),
            context=head.context,
            end_ns=head.time_ns,
            steps=[*between.events],
            goal_unmet=self._goal_unmet,
        )
        opened = OpenTurn(turn, self._seen, self._attempts)
        opened.next_inputs = [*between.hook_messages, *opened.next_inputs]
        return opened

    def _close_turn(self) -> Turn | None:
        """Close and return the open turn, if it has a response."""
        if self._open is None or not self._open.answered:
            return None
        self._add_queued(None)
        self._seen.unmatched += self._open.unmatched
        turn, self._open = self._open.turn, None
        turn.closed = True
        self._number += 1
        return turn

    def _on_notification(self, entry: Notification) -> Turn | None:
        """Continue the turn that launched the task or is still running; otherwise start a new turn."""
        if self._seen.is_repeat(entry.head, entry.text):
            return None
        self._queue.forget(entry.text)
        self._command = self._printed_command = None
        call = self._call_of(entry)
        if self._open is not None:
            turn = self._open.turn
            # An idle agent's run is complete: a notification that resumes the agent starts another run.
            own = self._main and (entry.task_id in turn.running or (call is not None and call in turn.calls))
            if not self._open.resting or own:
                self._open.add_task_end(entry, call)
                return None
        return self._start_turn(Start(entry.head, "notification", entry.text, AGENT, launched_by=call))

    def _call_of(self, entry: Notification) -> str | None:
        """Return the call that launched the finished task. Older notifications name only the task."""
        return entry.tool_use_id or self._call_by_task.get(entry.task_id or "")

    def _on_injected(self, entry: Injected) -> Turn | None:
        command, self._command = self._command, None
        if entry.feedback:
            self._printed_command = None
        if command is not None and command.prompt.trigger == "command":
            return self._start_turn(Start.from_prompt(command.prompt), Message(entry.text, _origin_of(entry)))
        if self._open is None:
            self._between.injected = entry
        else:
            self._open.add_injected(entry)
        return None

    def _on_reply(self, entry: Reply) -> Turn | None:
        if entry.synthetic and entry.api_error is None:
            return None  # "No response requested.": the model was not called
        if self._is_copied(entry.message_id):
            return None
        waits = self._command is not None or self._printed_command is not None
        closed = self._start_answered_command(entry) if waits else None
        if self._open is None:
            injected = self._between.injected or Injected(entry.head, "")
            self._open = self._new_turn(Start(injected.head, "injected", injected.text, _origin_of(injected)))
        key = self._open.key_of(entry)
        if entry.message_id is None and self._is_copied(key):
            return closed
        if not self._open.has_generation(key):
            self._seen.responses.add(key)
            if self._queue.sent_to_model:
                self._add_queued(entry.head.time_ns)
        if entry.api_error is not None:
            self._open.add_api_error(entry, key)
        else:
            self._open.add_reply(entry, key)
        return closed

    def _start_answered_command(self, entry: Reply) -> Turn | None:
        """Start the turn of the pending command if this response answers it; return the turn that this closes."""
        if self._printed_command is not None:
            self._command, self._printed_command = self._command or self._printed_command, None
        if self._command is None or (self._open is not None and self._open.has_generation(entry.message_id or "")):
            return None
        command, self._command = self._command, None
        return None if command.typed_while_busy else self._start_turn(Start.from_prompt(command.prompt))

    def _is_copied(self, message_id: str | None) -> bool:
        """Return whether an earlier turn already has this response, and count it: copied lines are skipped."""
        if message_id is None or message_id not in self._seen.responses:
            return False
        if self._open is not None:
            if self._open.has_generation(message_id):
                return False
            self._open.copied = True
        self._seen.repeated += 1
        return True

    def _on_results(self, entry: Results) -> Turn | None:
        if self._command is not None and self._command.typed_while_busy:
            self._command = None
        if self._open is None or (self._open.copied and not self._open.answered):
            self._seen.unmatched += len(entry.results)  # their turn is already closed
            if entry.prompt is None or self._seen.is_repeat(entry.head, entry.prompt):
                return None
            return self._start_turn(_start_of_prompt(entry.prompt, entry.head))
        self._open.add_results(entry)
        for result in entry.results:
            if result.task_id is not None:
                self._call_by_task[result.task_id] = result.tool_use_id
        return None

    def _add_event(self, event: Event) -> None:
        if self._open is None:
            self._between.events.append(event)
        else:
            self._open.add_event(event)

    def _on_compaction(self, entry: Compaction) -> None:
        steps = self._between.events if self._open is None else self._open.turn.steps
        if (event := event_of_compaction(steps, entry)) is not None:
            self._add_event(event)
        if self._open is None and entry.summary is not None:
            # Work can continue from a summary without a prompt, even at the very beginning of a file.
            self._between.injected = Injected(entry.head, entry.summary)

    def _on_command_output(self, entry: CommandOutput) -> None:
        command = self._command
        if command is not None and command.prompt.trigger == "bash":
            prompt = command.prompt._replace(text=f"{command.prompt.text}\n{entry.text}")
            self._command = command._replace(prompt=prompt)
        elif self._open is not None and self._open.turn.delegated:
            self._open.set_command_output(entry)
        elif not (self._goal_unmet and command is not None and command.prompt.command == "goal"):
            # `/goal` prints the goal and then expands. A command that sets a mode and has a prompt as its arguments is
            # answered right away.
            at_rest = self._open is None or (self._open.answered and self._open.resting)
            was_idle = at_rest and command is not None and not command.typed_while_busy
            self._command, self._printed_command = None, command if was_idle else None

    def _add_queued(self, before_ns: int | None) -> None:
        """Add the queued texts that were sent to the model up to a time and have no lines of their own."""
        for text, head in self._queue.take_sent(before_ns):
            if self._open is None:
                continue
            if "-notification>" in text[:40]:
                for notification in notifications(text, head):
                    if not self._is_for_agent(notification):
                        self._open.add_task_end(notification, self._call_of(notification))
            elif not _COMMAND.match(text):  # Claude Code runs a command itself; the model is not told of it
                self._open.add_prompt(text, head)

    def _is_for_agent(self, entry: Notification) -> bool:
        """Return whether an agent launched the finished task, and its notification left the queue for that agent."""
        if entry.tool_use_id is None or entry.task_id in self._call_by_task or self._open is None:
            return False
        return entry.tool_use_id not in self._open.turn.calls and entry.tool_use_id not in self._call_by_task.values()

    def _on_turn_end(self, entry: TurnEnd) -> Turn | None:
        if self._open is None or not self._open.answered:
            return None
        turn = self._open.turn
        self._open.add_stop_hooks(entry)
        if turn.last_activity == "reply":
            turn.last_activity = "stop"
        if entry.duration_ms is None:
            return None
        turn.duration_ms = max(turn.duration_ms or 0, entry.duration_ms)  # cumulative over the rounds of a turn
        began_ns, ended_ns = turn.start.head.time_ns, entry.head.time_ns
        if began_ns is not None and ended_ns is not None:
            turn.paused_ms = max(0, (ended_ns - began_ns) // 1_000_000 - turn.duration_ms)
        return None if turn.running or turn.last_activity == "input" else self._close_turn()


def _is_or_holds(queued: str, text: str) -> bool:
    """Return whether a text is the queued item, or one of several notifications that were queued as one item."""
    return queued.strip() == text.strip() or ("-notification>" in queued[:40] and text.strip() in queued)


def _start_of_prompt(text: str, head: Head) -> Start:
    return Start(head, "prompt", text, Origin(speaker(text, head)))


def _origin_of(entry: Injected) -> Origin:
    """Return the author of an injected text: Claude Code itself, unless the line names another."""
    if entry.feedback:
        return HOOK
    author = speaker(entry.text, entry.head)
    return SYSTEM if author == "human" else Origin(author)
