"""Groups entries into turns: what starts a turn and what ends it.

Rules:
- File order and ids decide, never timestamps or adjacency.
- A turn is yielded only if it has a start and at least one response.
- A closed turn will not change, whatever is appended to the file. A turn closes when the next one gets its first
  response, or with the line that gives its duration, if no call and none of its background tasks is running.
- A prompt can be typed while a response is being written: the lines after it decide whether it belongs to that turn.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

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
from cc_trace.turns.open_turn import OpenTurn, compaction, hook_event

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from cc_trace.transcript import Entry, Head
    from cc_trace.turns.open_turn import Seen

_COMMAND: Final = re.compile(r"/[a-zA-Z][\w:-]*(?:\s|$)")
_AsideOfSteps: TypeAlias = ModeChange | FileChange | TurnLimit | RunFacts
_Within: TypeAlias = QueuedPrompt | Interrupt | StructuredOutput | Progress | _AsideOfSteps
# Together with those that `_take` handles, these are all of `Entry`: mypy rejects one that is in neither.
_OfNoTurn: TypeAlias = Totals | SessionNote | Skipped
_ClosesNothing: TypeAlias = _Within | Queue | CommandOutput | Compaction | Hook | Retry | Goal | RequestSent | _OfNoTurn


class PromptQueue:
    """The queue of prompts, as far as the transcript records it. An image is an item without content."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        # Sent to the model within the running turn. Some versions write a separate line for it later, some do not.
        self.handed_over: list[tuple[str, Head]] = []

    def operate(self, entry: Queue) -> None:
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
                    self.handed_over.append((text.strip(), entry.head))
            case "popAll":
                self._texts.clear()

    def forget(self, text: str) -> Head | None:
        """Remove a text that has a separate line: not every version records its removal from the queue.

        Return the head of the line that says when it was sent to the running turn, if there is one.
        """
        queued = next((each for each in self._texts if _is_or_holds(each, text)), None)
        if queued is not None:
            self._texts.remove(queued)
        heads = [head for said, head in self.handed_over if _is_or_holds(said, text)]
        self.handed_over = [each for each in self.handed_over if not _is_or_holds(each[0], text)]
        return heads[0] if heads else None

    def take(self, before_ns: int | None) -> list[tuple[str, Head]]:
        """Remove and return what was sent to the model up to a time, or everything if it is None."""
        if not self.handed_over:  # as nearly always
            return []

        def is_due(head: Head) -> bool:
            return before_ns is None or head.time_ns is None or head.time_ns <= before_ns

        due = [each for each in self.handed_over if is_due(each[1])]
        self.handed_over = [each for each in self.handed_over if not is_due(each[1])]
        return due


def assemble(
    entries: Iterable[Entry],
    seen: Seen,
    *,
    number: int = 1,
    main: bool = True,
    call_by_task: dict[str, str] | None = None,
    delegated: Collection[str] = (),
    unanswered: list[str] | None = None,
) -> Iterator[Turn]:
    """Yield the turns of one file; the last one may still be open.

    In a main file, sidechain lines belong to agents and are kept aside; in an agent's own file (`main` false) all lines
    are its own. `call_by_task` has the background tasks of earlier turns (id -> call); those of these turns are added.
    `delegated`: the prompt ids of commands that an agent ran, which no response of the main thread follows.
    `unanswered`: a list that receives the prompts without a response at the end of the file.
    """
    assembler = _Assembler(seen, number, {} if call_by_task is None else call_by_task, delegated, main=main)
    for entry in entries:
        if (turn := assembler.add(entry)) is not None:
            yield turn
    if unanswered is not None:
        unanswered += assembler.unanswered()
    if (turn := assembler.unfinished()) is not None:
        yield turn


class _Assembler:
    """The open turn, and the state kept between turns."""

    def __init__(
        self, seen: Seen, number: int, call_by_task: dict[str, str], delegated: Collection[str], *, main: bool
    ) -> None:
        self._open: OpenTurn | None = None
        self._begin: Position | None = None  # of the first line since the last turn was closed
        self._seen = seen
        self._number = number
        self._main = main
        self._command: Prompt | None = None  # a command that may turn out to be local, without a turn
        self._busy = False  # that command was typed while a call had no result
        self._printed: Prompt | None = None  # a command that printed something while Claude was idle
        self._injected: Injected | None = None
        self._between: list[Event] = []  # events after a turn was closed; they go to the next one
        self._hook_messages: list[Message] = []  # messages of hooks to the model since then
        self._goal = False  # a goal is set and not met
        self._queue = PromptQueue()
        self._call_by_task = call_by_task
        self._delegated = delegated
        self._attempts = Attempts()  # without a response; an attempt can precede its prompt's line
        self._held: list[Entry] = []  # a prompt typed while a turn may still continue, and the lines since

    def unanswered(self) -> list[str]:
        """Return the prompts at the end of the file that have no response."""
        texts = [each.text for each in self._held[:1] if isinstance(each, Prompt)]
        if self._open is not None and not self._open.answered and not self._open.copied:
            start = self._open.turn.start
            texts += [*(message.text for message in start.earlier), *([start.text] if start.text else [])]
        return texts

    def unfinished(self) -> Turn | None:
        """Return the turn that is still open at the end of the file, if it has a response."""
        if self._open is None or not self._open.answered:
            return None
        self._seen.unmatched += self._open.unmatched
        return self._open.turn

    def add(self, entry: Entry) -> Turn | None:
        """Process one entry; return the turn that it closed."""
        return self._decide(entry) if self._held else self._take(entry)

    def _decide(self, entry: Entry) -> Turn | None:
        """Decide whether the held prompt starts the next turn, or was typed while a response was being written.

        Another line of that response, or the result of one of its calls, shows that the turn continued.
        """
        head, open_ = entry.head, self._open
        assert open_ is not None  # noqa: S101  (a prompt is held only while a turn is open)
        aside = head is not None and head.sidechain and self._main
        if aside or not isinstance(entry, Reply | Results | Prompt | Notification | TurnEnd):
            self._held.append(entry)
            return None
        (prompt, *since), self._held = self._held, []
        assert isinstance(prompt, Prompt)  # noqa: S101
        closed: Turn | None = None
        if open_.goes_on_with(entry):
            open_.typed(prompt.text, prompt.head)
        else:
            closed = self._start(Start.by(prompt))
        for each in since:
            self._take(each)  # none of them closes a turn
        return self._take(entry) or closed

    def _take(self, entry: Entry) -> Turn | None:
        if (head := entry.head) is not None:
            if self._open is None and self._begin is None:
                self._begin = Position(head.offset, head.number)
            if head.sidechain and self._main:
                self._aside(entry, head)
                return None
        match entry:
            case Reply():
                return self._reply(entry)
            case Results():
                return self._results(entry)
            case Prompt():
                return self._prompt(entry)
            case TurnEnd():
                return self._turn_end(entry)
            case Notification():
                return self._notification(entry)
            case Injected():
                return self._inject(entry)
            case _:
                self._other(entry)
        return None

    def _other(self, entry: _ClosesNothing) -> None:
        """Process an entry that never closes a turn."""
        match entry:
            case QueuedPrompt() if self._open is None:
                self._start(_typed(entry.text, entry.head))
            case QueuedPrompt() | Interrupt() | StructuredOutput() | Progress():
                self._within(entry)
            case ModeChange() | FileChange() | TurnLimit() | RunFacts():
                self._within(entry)
            case Hook():
                self._hook(entry)
            case Queue():
                self._queue.operate(entry)
            case RequestSent() | Retry():
                self._attempt(entry)
            case CommandOutput():
                self._command_output(entry)
            case Compaction():
                self._compaction(entry)
            case Goal():
                self._set_goal(open_=not entry.met)
            case Totals() | SessionNote() | Skipped():
                pass  # not about turns
            case _:
                assert_never(entry)

    def _attempt(self, entry: RequestSent | Retry) -> None:
        """Process an attempt, or the failure of one."""
        if isinstance(entry, Retry):
            self._event(self._attempts.failed(entry))
        else:
            self._attempts.sent(entry)

    def _within(self, entry: _Within) -> None:
        """Process an entry that belongs to the open turn. Between turns it is ignored."""
        if self._open is None:
            return
        match entry:
            case QueuedPrompt():
                self._open.typed(entry.text, self._queue.forget(entry.text) or entry.head)
            case Interrupt(head=head):
                self._attempts.abandon()
                self._open.event(Event("interruption", head.time_ns, head.time_ns, entry.text), "interrupt")
            case StructuredOutput():
                self._open.structured(entry)
            case Progress():
                self._open.turn.progress.append(entry)
            case ModeChange():
                self._open.mode(entry)
            case FileChange():
                self._open.file_change(entry)
            case TurnLimit():
                self._open.limited(entry)
            case RunFacts():
                self._open.turn.run = entry.facts

    def _hook(self, entry: Hook) -> None:
        """Process a hook. One that ran between turns, such as at a session's start, belongs to the next turn."""
        if self._open is not None:
            self._open.hook(entry)
            return
        if (event := hook_event(entry)) is not None:
            self._between.append(event)
        if entry.message:
            self._hook_messages.append(Message(entry.message, HOOK))

    def _set_goal(self, *, open_: bool) -> None:
        self._goal = open_
        if self._open is not None:
            self._open.turn.goal = open_

    def _aside(self, entry: Entry, head: Head) -> None:
        """Keep an agent's line in the main file for that agent."""
        if self._open is None:
            self._open = self._new(Start(head, "injected", "", SYSTEM))
        self._open.turn.sidechain.append(entry)

    def _prompt(self, entry: Prompt) -> Turn | None:
        if self._seen.again(entry.head, entry.text):
            return None
        self._queue.forget(entry.text)
        self._printed = None
        if entry.head.prompt_id in self._delegated and entry.text.startswith("/"):
            return self._delegate(entry)
        if entry.trigger in ("command", "bash"):
            # Most commands are local: the lines after it decide. While Claude seems busy, only one that expands counts.
            self._command = entry
            self._busy = self._open is not None and self._open.at_work
            return None
        self._command = None
        if entry.trigger == "teammate" and self._open is not None and self._open.at_work:
            self._open.typed(entry.text, entry.head)
            return None
        if self._open is not None and self._open.may_go_on:
            self._held = [entry]
            return None
        return self._start(Start.by(entry))

    def _delegate(self, entry: Prompt) -> Turn | None:
        """Start the turn of a command that an agent runs. With `-p` its line has the text as typed."""
        self._command = None
        name = entry.command or entry.text.split()[0].removeprefix("/")
        origin = Origin(speaker(entry.text, entry.head))
        closed = self._start(
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

    def _start(self, start: Start, expansion: Message | None = None) -> Turn | None:
        if self._open is not None and self._open.answered:
            self._open.turn.rewound = replaces(start.head, self._open.turn.start.head)
        closed, unanswered = self._close(), self._open
        self._open = self._new(start)
        if expansion is not None:
            self._open.waiting.append(expansion)
        # A prompt without a response is kept: the model sees it along with the next one, so the trace shows both.
        if unanswered is not None and not unanswered.copied:
            before, turn = unanswered.turn, self._open.turn
            start.earlier = [*before.start.earlier, *([before.start.message] if before.start.text else [])]
            turn.begin = before.begin
            turn.steps = [*before.steps, *turn.steps]
            turn.sidechain, turn.progress = before.sidechain, before.progress
            if not replaces(start.head, before.start.head):  # otherwise it was edited, and the model never saw it
                self._open.waiting = [*unanswered.waiting, *self._open.waiting]
        return closed

    def _new(self, start: Start) -> OpenTurn:
        head = start.head
        self._attempts.abandon_before(head.time_ns)
        first = next((sent.head for sent in self._attempts.waiting if sent.head.offset < head.offset), head)
        begin = self._begin or Position(first.offset, first.number)
        turn = Turn(
            number=self._number,
            start=start,
            begin=begin,
            context=head.context,
            end_ns=head.time_ns,
            steps=[*self._between],
            goal=self._goal,
        )
        opened = OpenTurn(turn, self._seen, self._attempts)
        opened.waiting = [*self._hook_messages, *opened.waiting]
        self._between, self._hook_messages, self._injected, self._begin = [], [], None, None
        return opened

    def _close(self) -> Turn | None:
        """Close and return the open turn, if it has a response."""
        if self._open is None or not self._open.answered:
            return None
        self._hand_over(None)
        self._seen.unmatched += self._open.unmatched
        turn, self._open = self._open.turn, None
        turn.closed = True
        self._number += 1
        return turn

    def _notification(self, entry: Notification) -> Turn | None:
        """Continue the turn that launched the task or is still running; otherwise start a new turn."""
        if self._seen.again(entry.head, entry.text):
            return None
        self._queue.forget(entry.text)
        self._command = self._printed = None
        call = self._call_of(entry)
        if self._open is not None:
            turn = self._open.turn
            # An idle agent's run is complete: a notification that resumes the agent starts another run.
            own = self._main and (entry.task_id in turn.running or (call is not None and call in turn.calls))
            if not self._open.resting or own:
                self._open.task_ended(entry, call)
                return None
        return self._start(Start(entry.head, "notification", entry.text, AGENT, launched_by=call))

    def _call_of(self, entry: Notification) -> str | None:
        """Return the call that launched the finished task. Older notifications name only the task."""
        return entry.tool_use_id or self._call_by_task.get(entry.task_id or "")

    def _inject(self, entry: Injected) -> Turn | None:
        command, self._command = self._command, None
        if entry.feedback:
            self._printed = None
        if command is not None and command.trigger == "command":
            return self._start(Start.by(command), Message(entry.text, _origin(entry)))
        if self._open is None:
            self._injected = entry
        else:
            self._open.injected(entry)
        return None

    def _reply(self, entry: Reply) -> Turn | None:
        if entry.synthetic and entry.api_error is None:
            return None  # "No response requested.": the model was not called
        if self._taken(entry.message_id):
            return None
        closed: Turn | None = None
        if self._printed is not None:
            self._command, self._printed = self._command or self._printed, None
        if self._command is not None and not (self._open is not None and self._open.has(entry.message_id or "")):
            command, self._command = self._command, None
            closed = None if self._busy else self._start(Start.by(command))
        if self._open is None:
            injected = self._injected or Injected(entry.head, "")
            self._open = self._new(Start(injected.head, "injected", injected.text, _origin(injected)))
        key = self._open.key_of(entry)
        if self._taken(key):
            return closed
        if not self._open.has(key):
            self._hand_over(entry.head.time_ns)
        self._seen.responses.add(key)
        if entry.api_error is not None:
            self._open.failed(entry, key)
        else:
            self._open.reply(entry, key)
        return closed

    def _taken(self, message_id: str | None) -> bool:
        """Return whether an earlier turn already has this response: copied lines are skipped."""
        if message_id is None or message_id not in self._seen.responses:
            return False
        if self._open is not None:
            if self._open.has(message_id):
                return False
            self._open.copied = True
        self._seen.repeated += 1
        return True

    def _results(self, entry: Results) -> Turn | None:
        self._command = None if self._busy else self._command
        if self._open is None or (self._open.copied and not self._open.answered):
            self._seen.unmatched += len(entry.results)  # their turn is already closed
            if entry.prompt is None or self._seen.again(entry.head, entry.prompt):
                return None
            return self._start(_typed(entry.prompt, entry.head))
        self._open.results(entry)
        for result in entry.results:
            if result.task_id is not None:
                self._call_by_task[result.task_id] = result.tool_use_id
        return None

    def _event(self, event: Event) -> None:
        if self._open is None:
            self._between.append(event)
        else:
            self._open.event(event)

    def _compaction(self, entry: Compaction) -> None:
        steps = self._between if self._open is None else self._open.turn.steps
        if (event := compaction(steps, entry)) is not None:
            self._event(event)
        if self._open is None and entry.summary is not None:
            # Work can continue from a summary without a prompt, even at the very beginning of a file.
            self._injected = Injected(entry.head, entry.summary)

    def _command_output(self, entry: CommandOutput) -> None:
        command = self._command
        if command is not None and command.trigger == "bash":
            self._command = command._replace(text=f"{command.text}\n{entry.text}")
        elif self._open is not None and self._open.turn.delegated:
            self._open.printed(entry)
        elif not (self._goal and command is not None and command.command == "goal"):
            # `/goal` prints the goal and then expands. A command that sets a mode and has a prompt as its arguments is
            # answered right away.
            at_rest = self._open is None or (self._open.answered and self._open.resting)
            self._command, self._printed = None, command if at_rest and not self._busy else None

    def _hand_over(self, before_ns: int | None) -> None:
        """Add queued texts sent to the model up to a time, and without separate lines, to the open turn."""
        for text, head in self._queue.take(before_ns):
            if self._open is None:
                continue
            if "-notification>" in text[:40]:
                for ended in notifications(text, head):
                    if not self._is_of_an_agent(ended):
                        self._open.task_ended(ended, self._call_of(ended))
            elif not _COMMAND.match(text):  # Claude Code runs a command itself; the model is not told of it
                self._open.typed(text, head)

    def _is_of_an_agent(self, entry: Notification) -> bool:
        """Return whether an agent launched the finished task: then its notification was removed for that agent."""
        if entry.tool_use_id is None or entry.task_id in self._call_by_task or self._open is None:
            return False
        return entry.tool_use_id not in self._open.turn.calls and entry.tool_use_id not in self._call_by_task.values()

    def _turn_end(self, entry: TurnEnd) -> Turn | None:
        if self._open is None or not self._open.answered:
            return None
        turn = self._open.turn
        self._open.stop_hooks(entry)
        if turn.last == "reply":
            turn.last = "stop"
        if entry.duration_ms is None:
            return None
        turn.duration_ms = max(turn.duration_ms or 0, entry.duration_ms)  # cumulative over the rounds of a turn
        began_ns, ended_ns = turn.start.head.time_ns, entry.head.time_ns
        if began_ns is not None and ended_ns is not None:
            turn.paused_ms = max(0, (ended_ns - began_ns) // 1_000_000 - turn.duration_ms)
        return None if turn.running or turn.last == "input" else self._close()


def _is_or_holds(queued: str, text: str) -> bool:
    """Return whether a text is the queued item, or one of several notifications that were queued as one item."""
    return queued.strip() == text.strip() or ("-notification>" in queued[:40] and text.strip() in queued)


def _typed(text: str, head: Head) -> Start:
    return Start(head, "prompt", text, Origin(speaker(text, head)))


def _origin(entry: Injected) -> Origin:
    """Return the author of an injected text: Claude Code itself, unless the line names another."""
    if entry.feedback:
        return HOOK
    said_by = speaker(entry.text, entry.head)
    return SYSTEM if said_by == "human" else Origin(said_by)
