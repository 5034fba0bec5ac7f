"""The state of a session, with a cursor per destination, and its file format. Pure.

Rule: a file's content is validated once, when it is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import orjson

from cc_trace.delivery.process import Process
from cc_trace.spans import Resume, Session, TraceLink
from cc_trace.transcript import Delivered, Position, make_tuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cc_trace.requests import RequestContent
    from cc_trace.spans import Ending
    from cc_trace.transcript import OpenTranscript, Selection

VERSION: Final = 2
_AGENTS_VERSION: Final = 1  # of the file that records what was delivered of the agents' files
# Fields with another key in the file than here. An earlier version of cc-trace may read the file, too.
_SESSION_KEYS: Final = {"intent_accepted": "answered"}
_CURSOR_KEYS: Final = {
    "turns_before": "turns",
    "unfinished_spans": "unfinished",
    "last_attempt_at": "time",
    "last_turn_sent": "reached",
}
_METRICS_KEYS: Final = {"unreported": "untold"}
# The names that version 1 of the file used.
_SESSION_NAMES_1: Final = {"anchors": "links"}
_CURSOR_NAMES_1: Final = {
    "behind": "pending_spans",
    "launched": "call_by_task",
    "launches": "trace_by_call",
    "ended": "finished_tasks",
}
# An acceptance is recorded by overwriting the one with the other in place. Both are equally long, so this needs no disk
# space, and the file is valid before and after. The key is as old as the format.
NOT_ACCEPTED_MARK: Final = b'"answered": false'
ACCEPTED_MARK: Final = b'"answered": true '
DAMAGE: Final = (orjson.JSONDecodeError, TypeError, ValueError, KeyError, AttributeError)
MAX_NOTES: Final = 100  # of refused spans, for the report
_MOST: Final = 1e18  # that is counted
_LATEST: Final = 1e11  # unix seconds; later dates cannot be formatted


@dataclass(slots=True)
class Metrics:
    """Counts of the spans that a destination accepted, kept until they are reported to it.

    `in_intent`: the counts of the batch being sent, added to `counts` when the batch is accepted. A delta that was
    being sent when the process died may have been taken, and is not sent again: counting twice is the worse error.
    """

    temporality: str = ""  # of the reports; if it changes, counting starts over
    start_ns: int = 0  # when counting began
    counts: dict[str, list[float]] = field(default_factory=dict)
    in_intent: dict[str, list[float]] = field(default_factory=dict)
    unreported: bool = False
    in_flight: bool = False  # a delta is being sent; if a sync finds this set, the delta may have been taken

    def begin(self, temporality: str, now_ns: int) -> None:
        """Resume the counts; drop them if the temporality changed, or a delta may have been taken."""
        if self.temporality != temporality or self.in_flight:
            self.counts, self.start_ns, self.unreported = {}, now_ns if self.temporality else 0, False
        self.temporality, self.in_flight, self.in_intent = temporality, False, {}

    def accept(self) -> None:
        """Add the counts of the batch, which was accepted."""
        add_counts(self.counts, self.in_intent)
        self.unreported |= bool(self.in_intent)
        self.in_intent = {}

    def record_report(self, until_ns: int, *, settled: bool) -> None:
        """Record that the counts were sent. `settled`: they are not sent again."""
        if settled and self.in_flight:
            self.counts, self.start_ns = {}, until_ns
        self.unreported, self.in_flight = not settled, False


def add_counts(total: dict[str, list[float]], counts: Mapping[str, list[float]]) -> None:
    """Add counts number by number; a series of another form, as of another version, is replaced."""
    for series, numbers in counts.items():
        previous = total.get(series, ())
        same_form = len(previous) == len(numbers)
        sums = (
            [min(one + other, _MOST) for one, other in zip(previous, numbers, strict=True)] if same_form else [*numbers]
        )
        total[series] = sums


@dataclass(slots=True)
class Cursor:
    """How far one destination has got. `offset` and `line` are where its oldest turn with undelivered spans begins.

    `call_by_task`, `trace_by_call` and `finished_tasks` keep what later turns need to know about background tasks of
    turns that are not read again. Say the call `toolu_1` of turn 3 starts a shell in the background, with the task id
    `b1`. Then `call_by_task` is `{"b1": "toolu_1"}`, and `trace_by_call` maps `toolu_1` to turn 3's trace. When Claude
    Code reports in turn 5 that `b1` has ended, turn 5 can name the call and the trace that launched it
    (`metadata.launched_by`), and `finished_tasks` gets `b1` and `toolu_1`: a turn is not kept open for them any more.
    """

    offset: int = 0
    line: int = 0
    turns_before: int = 0  # the number of turns before that, all completely delivered
    accepted: list[str] = field(default_factory=list)  # spans after that which the destination has
    rejected: list[str] = field(default_factory=list)  # spans after that which it refuses for good
    intent: list[str] = field(default_factory=list)  # spans being sent; if a sync finds some, they are unclear
    intent_at: float | None = None
    unclear: list[str] = field(default_factory=list)  # spans of earlier attempts that may or may not be stored
    unclear_at: float | None = None  # when the last of those attempts ended
    not_in_ledger: list[str] = field(default_factory=list)  # accepted spans that the ledger could not record yet
    fingerprint: str = ""  # of the bytes before `offset`
    delivered: int = 0  # all spans ever accepted
    pending_spans: int = 0  # spans that were final at the last sync, and not accepted
    unfinished_spans: int = 0  # spans that were not final yet
    notes: list[dict[str, Any]] = field(default_factory=list)  # spans refused for good, and why
    error: str | None = None
    error_at: float | None = None
    not_before: float | None = None  # do not retry before then
    refusing_since: float | None = None  # the backend has refused everything since then
    last_attempt_at: float | None = None
    call_by_task: dict[str, str] = field(default_factory=dict)  # background task -> the call that launched it
    trace_by_call: dict[str, str] = field(default_factory=dict)  # such a call -> its trace
    finished_tasks: list[str] = field(default_factory=list)  # those tasks and calls that have ended
    metrics: Metrics = field(default_factory=Metrics)
    last_turn_sent: int = 0  # the last turn of which a span was sent; `offset` can move back to before it

    @property
    def position(self) -> Position:
        """Return where to read on."""
        return Position(self.offset, self.line)

    @property
    def last_turn_begun(self) -> int:
        """Return the number of the last turn of which a span was sent, or may have been."""
        has_started = self.accepted or self.rejected or self.intent or self.unclear
        return max(self.turns_before + bool(has_started), self.last_turn_sent)

    @property
    def pending(self) -> bool:
        """Return whether there is known to be something left for this destination."""
        remaining = self.pending_spans or self.unfinished_spans or self.intent or self.unclear or self.error is not None
        return bool(remaining) or self.last_attempt_at is None  # no delivery has ever completed

    def go_back_to(self, turn: int, position: Position) -> None:
        """Move back to the beginning of an earlier turn, to which an agent has added work."""
        if position.offset < self.offset:
            self.offset, self.line, self.turns_before = position.offset, position.number, max(turn - 1, 0)
            self.fingerprint = ""  # that of another offset


@dataclass(slots=True)
class SessionState:
    """Everything stored about a session."""

    session_id: str
    transcript: str
    size: int = 0  # the transcript's size when it was last read
    mtime_ns: int = 0
    fingerprint: str = ""
    fingerprint_bytes: int = 0
    claude_pid: int | None = None
    cwd: str | None = None  # the folder it was started in: its project
    links: dict[str, list[str | None]] = field(default_factory=dict)  # turn -> TraceLink of it and later turns
    destinations: dict[str, Cursor] = field(default_factory=dict)
    # The environment of its own hook, by author; None replaces a secret's value. None: its hook has not run yet.
    environment: dict[str, dict[str, str | None]] | None = None
    sending: str | None = None  # the destination whose intent is being sent
    intent_accepted: bool = False  # only set in the file: the destination being sent to has accepted its intent
    agent_bytes: int = 0  # the total size of its agents' files when they were last read
    claude_start: str | None = None  # when the process `claude_pid` began, since process ids are reused

    @property
    def process(self) -> Process | None:
        """Return the process whose hook ran last; None if it is unknown, or another one has resumed the session."""
        return None if self.claude_pid is None else Process(self.claude_pid, self.claude_start)

    def cursor(self, destination: str) -> Cursor:
        """Return a destination's cursor; a new destination gets one at the beginning."""
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
        open_transcript: OpenTranscript | None = None,
        request_content: RequestContent = "none",
    ) -> Session:
        """Return the session as read from a destination's cursor on; `open_transcript`: if it is open already."""
        cursor = self.destinations.get(to, Cursor())
        resume = Resume(
            position=cursor.position,
            turns=cursor.turns_before,
            call_by_task=dict(cursor.call_by_task),
            trace_by_call=dict(cursor.trace_by_call),
            finished_tasks=set(cursor.finished_tasks),
        )
        files, delivered = (agents.files, agents.unread) if agents is not None else (None, {})
        return Session(
            transcript,
            resume,
            ending=ending,
            hook_ns=hook_ns,
            rest_ns=rest_ns,
            links=self.trace_links,
            files=files,
            delivered=delivered,
            transcript=open_transcript,
            request_content=request_content,
        )

    @property
    def furthest(self) -> int:
        """Return the furthest offset of any cursor."""
        return max((cursor.offset for cursor in self.destinations.values()), default=0)

    @property
    def trace_links(self) -> dict[int, TraceLink]:
        """Return the trace links, each by the number of the first turn it applies to."""
        return {int(first): TraceLink(*link) for first, link in self.links.items()}

    def first_unsent_turn(self) -> int:
        """Return the number of the first turn of which nothing has been sent to any destination."""
        return 1 + max((cursor.last_turn_begun for cursor in self.destinations.values()), default=0)


def to_json(state: SessionState) -> bytes:
    """Serialize a state."""
    # Paths need not be UTF-8. The transcript's is only displayed, and Claude Code does not run in such folders.
    paths = {"transcript": _as_utf8(state.transcript), "cwd": None if state.cwd is None else _as_utf8(state.cwd)}
    # `answered` comes before any text that a user can control: see `ACCEPTED_MARK`.
    cursors = {name: _to_file_keys(cursor, _CURSOR_KEYS) for name, cursor in state.destinations.items()}
    for cursor in cursors.values():
        cursor["metrics"] = _to_file_keys(cursor["metrics"], _METRICS_KEYS)
    fields = {**_to_file_keys(state, _SESSION_KEYS), **paths, "destinations": cursors}
    raw = {"version": VERSION, "answered": False, **fields}
    return orjson.dumps(raw, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _as_utf8(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode()


def from_json(data: bytes, session_id: str) -> SessionState:
    """Parse and validate the state of a session; raises one of DAMAGE."""
    raw = orjson.loads(data)
    version = raw.pop("version")
    if version not in (1, VERSION):
        message = "written by another version"
        raise ValueError(message)
    cursors = raw.pop("destinations")
    if version == 1:
        raw = _renamed(raw, _SESSION_NAMES_1)
        cursors = {name: _renamed(cursor, _CURSOR_NAMES_1) for name, cursor in cursors.items()}
    destinations = {name: _cursor(cursor) for name, cursor in cursors.items()}
    state = SessionState(**_from_file_keys(raw, _SESSION_KEYS), destinations=destinations)
    if state.session_id != session_id:
        message = "belongs to another session"
        raise ValueError(message)
    for record in (state, *destinations.values(), *(cursor.metrics for cursor in destinations.values())):
        for name, is_valid in _FORMS.items():
            if hasattr(record, name) and not is_valid(getattr(record, name)):
                message = f"{_KEYS.get(name, name)} is out of range"
                raise ValueError(message)
    _apply_accepted_mark(state)
    return state


def _cursor(raw: dict[str, Any]) -> Cursor:
    metrics = Metrics(**_from_file_keys(raw.get("metrics", {}), _METRICS_KEYS))
    return Cursor(**{**_from_file_keys(raw, _CURSOR_KEYS), "metrics": metrics})


def _to_file_keys(record: SessionState | Cursor | Metrics, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a record by their keys in the file."""
    return {keys.get(name, name): getattr(record, name) for name in record.__slots__}


def _from_file_keys(raw: dict[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """Rename what was read from the file, in place, as the fields of a record are named."""
    for name, key in keys.items():
        if key in raw:
            raw[name] = raw.pop(key)
    return raw


def _renamed(raw: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in raw.items()}


def _apply_accepted_mark(state: SessionState) -> None:
    """Apply an acceptance that was recorded in place, after which the process died or could write nothing else."""
    cursor = state.destinations.get(state.sending or "")
    if state.intent_accepted and cursor is not None:
        cursor.accepted += cursor.intent
        cursor.delivered += len(cursor.intent)
        cursor.not_in_ledger += cursor.intent
        cursor.intent = []
        cursor.metrics.accept()
    state.intent_accepted, state.sending = False, None


def agents_to_json(agents: Mapping[str, Mapping[str, Delivered]]) -> bytes:
    """Serialize the delivery records of the agents' files."""
    return orjson.dumps({"version": _AGENTS_VERSION, "destinations": agents}, default=tuple)


def agents_from_json(data: bytes) -> dict[str, dict[str, Delivered]]:
    """Parse and validate what `agents_to_json` wrote; raises one of DAMAGE."""
    raw = orjson.loads(data)
    if raw.pop("version") != _AGENTS_VERSION:
        message = "written by another version"
        raise ValueError(message)
    return {to: _rows(files) for to, files in raw["destinations"].items()}


def _rows(files: dict[str, list[Any]]) -> dict[str, Delivered]:
    """Validate the records of one destination. There can be tens of thousands, so this goes column by column."""
    columns = [*zip(*files.values(), strict=True)] or [()] * len(Delivered._fields)
    *counts, parents, commands, waiting = columns
    valid = all({*map(type, column)} <= {int} and min(column, default=0) >= 0 for column in counts)
    valid = valid and {*map(type, (*parents, *commands))} <= {str, type(None)} and {*map(type, waiting)} <= {bool}
    if not valid or len(columns) != len(Delivered._fields):
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


def _are_counts(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(numbers, list) and all(type(number) in (int, float) and 0 <= number <= _MOST for number in numbers)
        for numbers in value.values()
    )


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
    """Return whether a value is a hook's environment, or None."""
    return value is None or (isinstance(value, dict) and all(map(_are_variables, value.values())))


def _are_variables(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


_KEYS: Final = {**_SESSION_KEYS, **_CURSOR_KEYS, **_METRICS_KEYS}
_FORMS: Final[Mapping[str, Callable[[object], bool]]] = {
    **dict.fromkeys(("size", "mtime_ns", "fingerprint_bytes", "offset", "line", "turns_before"), _is_count),
    **dict.fromkeys(("agent_bytes", "last_turn_sent"), _is_count),
    **dict.fromkeys(("delivered", "pending_spans", "unfinished_spans"), _is_count),
    **dict.fromkeys(
        ("intent_at", "unclear_at", "error_at", "not_before", "refusing_since", "last_attempt_at"), _is_time
    ),
    **dict.fromkeys(("accepted", "rejected", "intent", "unclear", "not_in_ledger", "finished_tasks"), _are_texts),
    **dict.fromkeys(("call_by_task", "trace_by_call"), _is_map),
    **dict.fromkeys(("cwd", "error", "sending", "claude_start"), _is_text),
    **dict.fromkeys(
        ("session_id", "transcript", "fingerprint"), lambda value: isinstance(value, str) and "\0" not in value
    ),
    "claude_pid": lambda value: value is None or Process.parse(value, None) is not None,
    "intent_accepted": lambda value: isinstance(value, bool),
    **dict.fromkeys(("counts", "in_intent"), _are_counts),
    **dict.fromkeys(("unreported", "in_flight"), lambda value: isinstance(value, bool)),
    "start_ns": _is_count,
    "temporality": _is_text,
    "notes": _are_notes,
    "environment": is_environment,
    "links": _are_links,
}
