"""What is remembered of a session: how far each destination has got; and its form in a file. Pure.

Rule: what a file holds is looked at once, when it is read; all else trusts it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import orjson

from cc_trace.spans import Resume, Session, TraceLink
from cc_trace.transcript import Delivered, Position, make_tuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cc_trace.requests import RequestContent
    from cc_trace.spans import Ending
    from cc_trace.transcript import OpenTranscript, Selection

VERSION: Final = 2
_AGENTS_VERSION: Final = 1  # of the file that tells what was delivered of the agents' files
# What version 1 called the same things.
_SESSION_NAMES_1: Final = {"anchors": "links"}
_CURSOR_NAMES_1: Final = {
    "behind": "pending_spans",
    "launched": "call_by_task",
    "launches": "trace_by_call",
    "ended": "finished_tasks",
}
# An answer is recorded by writing the one over the other in the file, in place: that needs no room on the disk, and the
# file is whole before and after.
NOT_ACCEPTED_MARK: Final = b'"answered": false'
ACCEPTED_MARK: Final = b'"answered": true '
DAMAGE: Final = (orjson.JSONDecodeError, TypeError, ValueError, KeyError, AttributeError)
MAX_NOTES: Final = 100  # of refused spans, for the report
_LATEST: Final = 1e11  # unix seconds; beyond that no date can be shown


@dataclass(slots=True)
class Cursor:
    """How far one destination has got. `offset` and `line` are where its oldest undelivered turn begins.

    `call_by_task`, `trace_by_call` and `finished_tasks` keep what is needed of background tasks in turns that are not
    read again. Say turn 3 starts a shell in the background: its call `toolu_1` gets the task id `b1`. `call_by_task` is
    then `{"b1": "toolu_1"}`, and `trace_by_call` maps `toolu_1` to turn 3's trace. When Claude Code reports in turn 5
    that `b1` has ended, turn 5 can say which call in which trace launched it (`metadata.launched_by`), and
    `finished_tasks` gets `b1` and `toolu_1`, so that nobody waits for them any more.
    """

    offset: int = 0
    line: int = 0
    turns: int = 0  # completely delivered before that
    accepted: list[str] = field(default_factory=list)  # spans from there on that the destination has
    rejected: list[str] = field(default_factory=list)  # spans from there on that it will never take
    intent: list[str] = field(default_factory=list)  # spans being sent; found at the start: they got no response
    intent_at: float | None = None
    unclear: list[str] = field(default_factory=list)  # spans that earlier attempts sent and got no answer for
    unclear_at: float | None = None  # when the last of those attempts had ended
    not_in_ledger: list[str] = field(default_factory=list)  # spans accepted that could not be written there yet
    fingerprint: str = ""  # of what stands before `offset`
    delivered: int = 0  # spans in all
    pending_spans: int = 0  # spans that were final and not taken at the last sync
    unfinished: int = 0  # spans that were not final yet
    notes: list[dict[str, Any]] = field(default_factory=list)  # what was refused for good, and why
    error: str | None = None
    error_at: float | None = None
    not_before: float | None = None  # the backend asked to be left alone until then
    refusing_since: float | None = None  # it has refused everything since then
    time: float | None = None
    call_by_task: dict[str, str] = field(default_factory=dict)  # background task -> the call that launched it
    trace_by_call: dict[str, str] = field(default_factory=dict)  # such a call -> the trace it is in
    finished_tasks: list[str] = field(default_factory=list)  # of those tasks and calls, the ones that have ended
    reached: int = 0  # the last turn something was sent of; the position may go back to before it

    @property
    def position(self) -> Position:
        """Return where reading goes on."""
        return Position(self.offset, self.line)

    @property
    def begun(self) -> int:
        """Return how many turns something was sent of."""
        started = self.accepted or self.rejected or self.intent or self.unclear
        return max(self.turns + bool(started), self.reached)

    @property
    def pending(self) -> bool:
        """Tell whether something is known to be left for this destination."""
        left = self.pending_spans or self.unfinished or self.intent or self.unclear or self.error is not None
        return bool(left) or self.time is None  # none of its deliveries came to an end

    def go_back_to(self, turn: int, position: Position) -> None:
        """Read again from the beginning of an earlier turn on: something was added below it."""
        if position.offset < self.offset:
            self.offset, self.line, self.turns = position.offset, position.number, max(turn - 1, 0)
            self.fingerprint = ""  # of another place


@dataclass(slots=True)
class SessionState:
    """All that is remembered of a session."""

    session_id: str
    transcript: str
    size: int = 0  # of the transcript when it was last read
    mtime_ns: int = 0
    fingerprint: str = ""
    fingerprint_bytes: int = 0
    claude_pid: int | None = None
    cwd: str | None = None  # where it was started: its project
    links: dict[str, list[str | None]] = field(default_factory=dict)  # turn -> what it and later ones are linked to
    destinations: dict[str, Cursor] = field(default_factory=dict)
    # The variables of its own hook, by who set them; None in place of a secret. None: no hook of its own has run yet.
    environment: dict[str, dict[str, str | None]] | None = None
    sending: str | None = None  # the destination whose intent is being sent
    answered: bool = False  # in the file alone: that destination has accepted its intent
    agent_bytes: int = 0  # of its agents' files, all together, when they were last looked at
    claude_start: str | None = None  # when the process of `claude_pid` began: its id alone is used again

    def cursor(self, destination: str) -> Cursor:
        """Return the cursor of one destination, at the beginning if it is new."""
        return self.destinations.setdefault(destination, Cursor())

    def read_on(
        self,
        transcript: Path,
        to: str,
        ending: Ending,
        *,
        rest_ns: int,
        hook_ns: int | None = None,
        agents: Selection | None = None,
        opened: OpenTranscript | None = None,
        request_content: RequestContent = "none",
    ) -> Session:
        """Return the session from where a destination has got to; `opened` is its transcript, if it is open."""
        cursor = self.destinations.get(to, Cursor())
        resume = Resume(
            position=cursor.position,
            turns=cursor.turns,
            call_by_task=dict(cursor.call_by_task),
            trace_by_call=dict(cursor.trace_by_call),
            finished_tasks=set(cursor.finished_tasks),
        )
        files, delivered = (agents.files, agents.known) if agents is not None else (None, {})
        return Session(
            transcript,
            resume,
            ending=ending,
            hook_ns=hook_ns,
            rest_ns=rest_ns,
            links=self.trace_links,
            files=files,
            delivered=delivered,
            transcript=opened,
            request_content=request_content,
        )

    @property
    def furthest(self) -> int:
        """Return how far the transcript has been read."""
        return max((cursor.offset for cursor in self.destinations.values()), default=0)

    @property
    def trace_links(self) -> dict[int, TraceLink]:
        """Return what traces are linked to, by the number of the turn from which on it holds."""
        return {int(first): TraceLink(*link) for first, link in self.links.items()}

    def untouched(self) -> int:
        """Return the number of the first turn of which nothing has been sent anywhere."""
        return 1 + max((cursor.begun for cursor in self.destinations.values()), default=0)


def to_json(state: SessionState) -> bytes:
    """Return the form of the file."""
    # A path need not be UTF-8; it is only shown.
    shown = state.transcript.encode("utf-8", "backslashreplace").decode()
    # `answered` stands before any text of others: see `ACCEPTED_MARK`.
    raw = {"version": VERSION, "answered": False, **asdict(state), "transcript": shown}
    return orjson.dumps(raw, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def from_json(data: bytes, session_id: str) -> SessionState:
    """Return the state that was written for a session; raises one of DAMAGE for anything else."""
    raw = orjson.loads(data)
    version = raw.pop("version")
    if version not in (1, VERSION):
        message = "another version's"
        raise ValueError(message)
    cursors = raw.pop("destinations")
    if version == 1:
        raw = _renamed(raw, _SESSION_NAMES_1)
        cursors = {name: _renamed(cursor, _CURSOR_NAMES_1) for name, cursor in cursors.items()}
    destinations = {name: Cursor(**cursor) for name, cursor in cursors.items()}
    state = SessionState(**raw, destinations=destinations)
    if state.session_id != session_id:
        message = "another session's"
        raise ValueError(message)
    for part in (state, *destinations.values()):
        for name, fits in _FORMS.items():
            if hasattr(part, name) and not fits(getattr(part, name)):
                message = f"{name} is out of range"
                raise ValueError(message)
    _apply_accepted_mark(state)
    return state


def _renamed(raw: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in raw.items()}


def _apply_accepted_mark(state: SessionState) -> None:
    """Count an intent as accepted whose answer was recorded, though nothing else could be after it."""
    cursor = state.destinations.get(state.sending or "")
    if state.answered and cursor is not None:
        cursor.accepted += cursor.intent
        cursor.delivered += len(cursor.intent)
        cursor.not_in_ledger += cursor.intent
        cursor.intent = []
    state.answered, state.sending = False, None


def agents_to_json(agents: Mapping[str, Mapping[str, Delivered]]) -> bytes:
    """Return the form of the file that tells what of the agents' files each destination has."""
    return orjson.dumps({"version": _AGENTS_VERSION, "destinations": agents}, default=tuple)


def agents_from_json(data: bytes) -> dict[str, dict[str, Delivered]]:
    """Return what was written so; raises one of DAMAGE for anything else."""
    raw = orjson.loads(data)
    if raw.pop("version") != _AGENTS_VERSION:
        message = "another version's"
        raise ValueError(message)
    return {to: _rows(files) for to, files in raw["destinations"].items()}


def _rows(files: dict[str, list[Any]]) -> dict[str, Delivered]:
    """Return what a destination has. There can be tens of thousands, so that they are looked at column by column."""
    columns = [*zip(*files.values(), strict=True)] or [()] * len(Delivered._fields)
    *counts, parents, commands, waiting = columns
    fits = all({*map(type, column)} <= {int} and min(column, default=0) >= 0 for column in counts)
    fits = fits and {*map(type, (*parents, *commands))} <= {str, type(None)} and {*map(type, waiting)} <= {bool}
    if not fits or len(columns) != len(Delivered._fields):
        message = "what was delivered of an agent is out of range"
        raise ValueError(message)
    return {name: make_tuple(Delivered, row) for name, row in files.items()}


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _is_time(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and 0 <= value < _LATEST)


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _are_notes(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(note, dict) and _is_flat(note) for note in value)


def _is_flat(note: dict[str, object]) -> bool:
    return all(value is None or isinstance(value, str | int | float) for value in note.values())


def _are_links(value: object) -> bool:
    return isinstance(value, dict) and all(
        first.isascii() and first.isdecimal() and len(first) < len(str(1 << 62)) and _is_link(link)
        for first, link in value.items()
    )


def _is_link(value: object) -> bool:
    return isinstance(value, list) and len(value) == len(TraceLink._fields) and all(map(_is_text, value))


def is_environment(value: object) -> TypeGuard[dict[str, dict[str, str | None]] | None]:
    """Tell whether a value has the form of a hook's environment, or is None."""
    return value is None or (isinstance(value, dict) and all(map(_are_variables, value.values())))


def _are_variables(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


_FORMS: Final[Mapping[str, Callable[[object], bool]]] = {
    **dict.fromkeys(("size", "mtime_ns", "fingerprint_bytes", "offset", "line", "turns"), _is_count),
    **dict.fromkeys(("agent_bytes", "reached"), _is_count),
    **dict.fromkeys(("delivered", "pending_spans", "unfinished"), _is_count),
    **dict.fromkeys(("intent_at", "unclear_at", "error_at", "not_before", "refusing_since", "time"), _is_time),
    **dict.fromkeys(("accepted", "rejected", "intent", "unclear", "not_in_ledger", "finished_tasks"), _are_texts),
    **dict.fromkeys(("call_by_task", "trace_by_call"), _is_map),
    **dict.fromkeys(("cwd", "error", "sending", "claude_start"), _is_text),
    **dict.fromkeys(
        ("session_id", "transcript", "fingerprint"), lambda value: isinstance(value, str) and "\0" not in value
    ),
    "claude_pid": lambda value: value is None or (type(value) is int and 0 < value < 1 << 31),
    "answered": lambda value: isinstance(value, bool),
    "notes": _are_notes,
    "environment": is_environment,
    "links": _are_links,
}
