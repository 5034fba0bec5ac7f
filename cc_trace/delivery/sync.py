"""From a hook's payload, or a user's wish, to delivered turns: wait, lock, read on, send, save, look once more.

Rules:
- One process works on a session at a time. Who finds it locked leaves word and goes; the holder takes the word before
  it begins and looks for new word after it has let go, so none is missed.
- One destination never holds up another, and one session's failure none of the others.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace.delivery.agent_deliveries import AgentDeliveries
from cc_trace.delivery.cursor import SessionState
from cc_trace.delivery.deliver import REQUEST_SECONDS, UNCLEAR_SECONDS, Delivery, Surroundings
from cc_trace.delivery.forks import suppressed_by
from cc_trace.delivery.ledger import Ledger, is_damaged, put_aside
from cc_trace.delivery.liveness import Process, changed_since, from_files, from_hook, liveness
from cc_trace.delivery.payload import Payload, parse_payload
from cc_trace.delivery.settling import wait_until_settled
from cc_trace.delivery.state import FINGERPRINT_BYTES, fingerprint, fingerprint_before, is_line_start
from cc_trace.errors import CcTraceError, StateError
from cc_trace.export import Retryable
from cc_trace.paths import is_session_id
from cc_trace.spans import TraceLink
from cc_trace.transcript import BEGINNING, first_cwd, first_session_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cc_trace.delivery.cursor import Cursor
    from cc_trace.delivery.deliver import Advance
    from cc_trace.delivery.liveness import Liveness
    from cc_trace.delivery.requests import SyncRequest
    from cc_trace.delivery.state import States
    from cc_trace.export import Destination
    from cc_trace.log import Log
    from cc_trace.settings import HookEnvironment
    from cc_trace.spans import Ending, Session, Span


@dataclass(slots=True)
class Runtime:
    """Clock, sleep and what else a test replaces."""

    clock: Callable[[], float]
    sleep: Callable[[float], None]
    reached: Callable[[str], None] = lambda _: None
    patient: bool = True  # leave a backend alone that asked for it; a user who calls by hand need not wait
    advanced: Callable[[Advance], None] = lambda _: None  # told after every batch
    # Whether Stop hooks besides ours may make the model go on, in the sessions of a project; in doubt they may.
    may_be_blocked: Callable[[str | None], bool] = lambda _: True
    jitter: Callable[[], float] = random.random  # the random part of a wait
    interrupted: Callable[[], bool] = lambda: False  # asked before every batch


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done with the sessions of one project."""

    destinations: tuple[Destination, ...] = ()
    outgoing: Callable[[Span, Sequence[Span]], Span] = lambda span, _: span  # what of it may leave, given its turn
    off: str | None = None  # why nothing is
    rest_seconds: float = 300.0  # a session that has not been written to for so long is over
    unclear_seconds: float = UNCLEAR_SECONDS  # after an attempt without an answer, before "not there" is believed
    addresses: Mapping[str, str] = field(default_factory=dict)  # destination -> what it shares with other projects
    request_seconds: float = REQUEST_SECONDS  # the longest that one request can take


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks for one certain session, and what is known from that."""

    claude_pid: int | None = None
    link: TraceLink | None = None  # what the turns since the last sync are tied to; None: this caller does not know
    named: bool = False  # a user asks for just this session
    project: str | None = None  # whose hook it is, which knows better than the transcript
    environment: HookEnvironment | None = None  # of the hook, to be remembered with its session
    hook_ns: int | None = None  # when a hook told how the session ends; what began later is not meant


NO_CALLER: Final = Caller()
WRITTEN_WHILE_OFF: Final = "it was written to while tracing was off"  # and so the session stays out
SENT_BY_ANOTHER: Final = "another session is sending the same spans"  # a fork, or what it was forked from


@dataclass(slots=True)
class Report:
    """What one sync of a session came to."""

    session_id: str
    sent: dict[str, int] = field(default_factory=dict)
    pending: dict[str, str] = field(default_factory=dict)  # destination -> why
    busy: bool = False
    off: str | None = None  # why it is left out
    turns: dict[str, int] = field(default_factory=dict)  # destination -> turns whose root was sent
    refused: Counter[str] = field(default_factory=Counter)  # why -> spans that a backend will never take

    def after(self, before: Report) -> Report:
        """Return this and what an earlier sync of the session came to, of which this is the rest."""
        sent, turns = Counter(before.sent), Counter(before.turns)
        sent.update(self.sent)
        turns.update(self.turns)
        return replace(self, sent=sent, turns=turns, refused=before.refused + self.refused)

    @property
    def waits(self) -> bool:
        """Tell whether all that stayed behind is what another session is sending just now."""
        return bool(self.pending) and set(self.pending.values()) == {SENT_BY_ANOTHER}

    @property
    def complete(self) -> bool:
        """Tell whether nothing stayed behind."""
        return not self.pending and not self.busy


_PASSES: Final = 3
_LONGEST_WAIT_SECONDS: Final = 86_400.0  # beyond that the clock was set, not a backend's wish
_HOOKS_SECONDS: Final = 60.0  # that other Stop hooks may take before the end of a turn is left to another worker
_GOES_ON_SECONDS: Final = 1.0  # after the last Stop hook's lines a turn is over at once, or goes on
_POLL_SECONDS: Final = 0.05
_LOCK_SECONDS: Final = 1.0  # a lock that is only tried, to see whether a session is at work, is free again at once


class Sync:
    """Delivers sessions to the destinations of their projects. Of a session nobody asks for, its project decides."""

    def __init__(
        self,
        states: States,
        plan_of: Callable[[SessionState], Plan],
        log: Log,
        world: Runtime,
        config_dir: Path,
    ) -> None:
        self._states = states
        self._config_dir = config_dir
        self._plan_of = plan_of
        self._log = log
        self._world = world
        self._failed: dict[str, str] = {}  # addresses that failed us, and why: who is patient tries each once
        self._ledger = self._open_ledger()
        self._gave_way = False

    def _open_ledger(self) -> Ledger:
        path = self._states.folder / "ledger.db"
        try:
            return Ledger(path, self._states.is_locked, self._states.not_in_ledger)
        except (OSError, sqlite3.DatabaseError) as error:
            if not isinstance(error, sqlite3.DatabaseError) or not is_damaged(error):
                message = f"cannot use {path}: {error}"
                raise StateError(message) from error
            return self._new_ledger(path, error)

    def _new_ledger(self, path: Path, error: sqlite3.DatabaseError) -> Ledger:
        """Begin again with an empty ledger: each session's state still knows what it has sent."""
        self._log.write(f"ledger kept aside as {put_aside(path)}: {error}")
        return Ledger(path, self._states.is_locked, self._states.not_in_ledger)

    def close(self) -> None:
        """Let go of the ledger."""
        self._ledger.close()

    def wanted(self, session_id: str, deadline: float | None = None) -> None:
        """Serve the word that hooks left for a session, until none is left or another process serves it."""
        while self._states.wanted(session_id) and not self._world.interrupted():
            with self._states.locked(session_id, _LOCK_SECONDS) as held:
                if not held:
                    return
                self._world.reached("locked")
                while not self._world.interrupted() and (word := self._states.take_request(session_id)) is not None:
                    payload = parse_payload(word.payload, self._config_dir)
                    if isinstance(payload, Payload):
                        self._serve(payload, deadline, _caller(word))
                    if self._gave_way:  # to the requests of others, after which ours goes on
                        self._gave_way = False
                        self._states.put_back(session_id, word)
                        return
            self._world.reached("unlocked")

    def _serve(self, payload: Payload, deadline: float | None, caller: Caller) -> None:
        """Do what a hook asks for; what goes wrong with it must not keep others from being served."""
        try:
            self._handle_request(payload, deadline, caller)
        except (OSError, CcTraceError) as error:  # the transcript was removed while we waited
            self._log.write(f"{payload.session_id}: {error}")

    def _handle_request(self, payload: Payload, deadline: float | None, caller: Caller) -> None:
        settled = wait_until_settled(payload.transcript, payload.last_message, self._world.clock, self._world.sleep)
        self._world.reached("settled")
        self._predecessor(payload.transcript, deadline, caller.claude_pid)
        if payload.transcript.is_file():
            ending = self._told(payload, deadline, caller) if settled else "growing"
            self._sync_safely(payload.transcript, ending, deadline, caller)
        else:
            self._log.write(f"{payload.session_id}: no transcript (sessions without persistence write none)")

    def _told(self, payload: Payload, deadline: float | None, caller: Caller) -> Ending:
        """Return how a session stands that a hook spoke of; wait where Stop hooks of others are still running.

        With a deadline the hook waits for us, and Claude Code is at work because of that: then a turn ends with our
        own Stop only where nobody else can make it go on. Else its root is left to SessionEnd, or a later worker.
        """
        if deadline is not None:
            blocked = payload.event == "Stop" and self._world.may_be_blocked(caller.project)
            return "growing" if blocked else from_hook(payload, "unknown")
        known = None if caller.claude_pid is None else Process.running(caller.claude_pid)
        alive = liveness(self._config_dir, payload.session_id, known)
        if payload.event == "Stop" and not payload.busy and alive == "working":
            self._sync_safely(payload.transcript, "growing", deadline, caller)  # all but the root can go now
            alive = self._after_other_hooks(payload, known, caller.hook_ns)
        return from_hook(payload, alive)

    def _after_other_hooks(self, payload: Payload, known: Process | None, hook_ns: int | None) -> Liveness:
        """Wait, within bounds, until Claude Code is no longer at work; return how it is then.

        A turn that goes on stops again, and that Stop's worker looks after it; so does the worker of a later word. The
        bound counts from the hook, at `hook_ns`: sessions that make way for each other are served many times.
        """
        world, transcript = self._world, payload.transcript
        begin = grown_at = world.clock()
        begin = begin if hook_ns is None else min(begin, hook_ns / 1e9)
        size = transcript.stat().st_size
        while (alive := liveness(self._config_dir, payload.session_id, known)) == "working":
            now = world.clock()
            if transcript.stat().st_size == size:
                grown_at = now
            late = now - begin >= _HOOKS_SECONDS or now - grown_at >= _GOES_ON_SECONDS
            next_turn = hook_ns is not None and changed_since(self._config_dir, payload.session_id, hook_ns)
            waiting = self._states.pending()
            if late or next_turn or world.interrupted() or payload.session_id in waiting:
                return "working"
            if waiting:  # there are only a few workers: others are not to wait for somebody else's hooks
                self._gave_way = True
                return "working"
            world.sleep(_POLL_SECONDS)
        settled = wait_until_settled(transcript, None, world.clock, world.sleep)
        return alive if settled else "working"

    def _predecessor(self, transcript: Path, deadline: float | None, claude_pid: int | None) -> None:
        """Deliver first what the session before left behind; its failure is its own.

        The same process goes on with another session: then the one before is over. A fork's origin may still run.
        """
        previous = first_session_id(transcript)
        if previous is None or previous == transcript.stem or not is_session_id(previous):
            return
        path = transcript.with_name(f"{previous}.jsonl")
        if path.is_file():
            state = self._states.peek(previous)
            same = state is not None and claude_pid is not None and state.claude_pid == claude_pid
            self.session(path, "over" if same else None, deadline=deadline)

    def session(
        self,
        transcript: Path,
        ending: Ending | None = None,
        *,
        deadline: float | None = None,
        caller: Caller = NO_CALLER,
    ) -> Report:
        """Sync one session, unless another process is at it. Without an `ending`, its time at rest tells."""
        session_id = transcript.stem
        with self._states.locked(session_id, _LOCK_SECONDS) as held:
            if not held:
                return Report(session_id, busy=True)
            report = self._sync_safely(transcript, ending, deadline, caller)
        self.wanted(session_id, deadline)  # a hook that found us at work has left word
        return report

    def _sync_safely(self, transcript: Path, ending: Ending | None, deadline: float | None, caller: Caller) -> Report:
        """Sync a session whose lock we hold; what goes wrong with it must not keep others from being served."""
        try:
            return self._sync_session(transcript, ending, deadline, caller)
        except (OSError, CcTraceError) as error:  # the transcript is gone, the disk is full, a setting is wrong
            self._log.write(f"{transcript.stem}: {error}")
            return Report(transcript.stem, pending={"*": getattr(error, "strerror", None) or str(error)})

    def _sync_session(self, transcript: Path, ending: Ending | None, deadline: float | None, caller: Caller) -> Report:
        state, report = self._state(transcript), Report(transcript.stem)
        state.cwd = caller.project or state.cwd or first_cwd(transcript)
        if caller.environment is not None:
            state.environment = {who: dict(variables) for who, variables in caller.environment.items()}
        plan = self._plan_of(state)
        if (off := self._off(plan, transcript, state, caller)) is not None:
            return Report(transcript.stem, off=off)
        if caller.claude_pid is not None:
            process = Process.running(caller.claude_pid)
            state.claude_pid, state.claude_start = process.pid, process.start
        _remember_link(state, caller.link)
        agents = AgentDeliveries(self._states, transcript)
        for _ in range(_PASSES):
            before, agent_bytes = transcript.stat(), agents.look()
            known = {each.name: len(state.cursor(each.name).finished_tasks) for each in plan.destinations}
            now = ending or from_files(transcript, state, self._world.clock(), plan.rest_seconds, self._config_dir)
            for destination in plan.destinations:
                if destination.name in report.pending:
                    continue  # it failed just now; asking again at once is no use
                hook_ns = caller.hook_ns if ending else None
                rest_ns = int((self._world.clock() - plan.rest_seconds) * 1e9)
                name, cursor = destination.name, state.cursor(destination.name)
                files = agents.to_read(name, cursor)
                session = state.read_on(transcript, name, now, rest_ns=rest_ns, hook_ns=hook_ns, agents=files)
                unsettled = self._deliver(session, state, destination, plan, report, deadline)
                if unsettled is not None and session.finished:
                    agents.note(name, cursor, session, files, unsettled)
                if session.went_on and state.claude_pid is not None:
                    process = Process(state.claude_pid, state.claude_start)
                    if process.is_alive is False:
                        state.claude_pid = state.claude_start = None  # another process goes on with it
            state.size, state.mtime_ns, state.agent_bytes = before.st_size, before.st_mtime_ns, agent_bytes
            self._states.save(state)
            grown = transcript.stat().st_size != before.st_size
            learned = any(len(state.cursor(name).finished_tasks) > count for name, count in known.items())
            if not grown and not learned and not agents.is_misplaced:
                break
            ending = None if grown else ending
        return report

    def _off(self, plan: Plan, transcript: Path, state: SessionState, caller: Caller) -> str | None:
        """Tell why a session is left out. One that was written to while tracing was off stays out, unless asked for.

        That is noted when a hook speaks of it, or when a worker finds it grown since its project was first seen to be
        off; not when a user looks at history.
        """
        session_id, states = transcript.stem, self._states
        if plan.off is not None:
            grown = self._world.patient and self._grown_since(states.disabled_since_ns(state.cwd), transcript, state)
            if caller.hook_ns is not None or grown:
                states.suppress(session_id)
            return plan.off
        if self._world.patient:
            states.mark_enabled(state.cwd)
        if caller.named:
            states.unsuppress(session_id)
        elif (origin := suppressed_by(transcript, states, new=not state.size)) is not None:
            how = "," if origin == session_id else f" as {origin}, whose turns it has:"
            self._log.write(f"{session_id}: left out{how} {WRITTEN_WHILE_OFF}")
            states.suppress(session_id)
            return WRITTEN_WHILE_OFF
        return None

    @staticmethod
    def _grown_since(since_ns: int, transcript: Path, state: SessionState) -> bool:
        status = transcript.stat()
        return status.st_size != state.size and status.st_mtime_ns > since_ns

    def _state(self, transcript: Path) -> SessionState:
        """Return what is known of a session; a transcript that shrank or begins otherwise is read again."""
        state, trouble = self._states.load(transcript.stem)
        if trouble is not None:
            self._log.write(f"{transcript.stem}: {trouble}")
        size = transcript.stat().st_size
        if state is None:
            state = SessionState(transcript.stem, str(transcript))
        elif self._rewritten(transcript, size, state):
            self._log.write(f"{transcript.stem}: the transcript was rewritten; reading it again")
            for cursor in state.destinations.values():
                cursor.offset, cursor.line, cursor.turns = BEGINNING.offset, BEGINNING.number, 0
                cursor.fingerprint = ""
            self._states.save_agents(transcript.stem, {})  # their places have moved
        state.transcript = str(transcript)
        state.fingerprint_bytes = min(size, FINGERPRINT_BYTES)
        state.fingerprint = fingerprint(transcript, state.fingerprint_bytes)
        return state

    @staticmethod
    def _rewritten(transcript: Path, size: int, state: SessionState) -> bool:
        """Tell whether the offsets of a state do not fit its transcript any more.

        What stands before each of them is looked at, not only the beginning: text taken out of an earlier turn moves
        all that follows, and the file may have outgrown its old size since.
        """
        if size < max(state.size, state.furthest):
            return True
        if fingerprint(transcript, state.fingerprint_bytes) != state.fingerprint:
            return True
        marks = {(cursor.offset, cursor.fingerprint) for cursor in state.destinations.values()}
        return not all(
            fingerprint_before(transcript, offset) == known if known else is_line_start(transcript, offset)
            for offset, known in marks
        )

    def _stopped(self, deadline: float | None) -> str | None:
        if self._world.interrupted():
            return "interrupted"
        return "the time allowed was over" if deadline is not None and self._world.clock() >= deadline else None

    def _deliver(
        self,
        session: Session,
        state: SessionState,
        destination: Destination,
        plan: Plan,
        report: Report,
        deadline: float | None,
    ) -> set[str] | None:
        """Deliver to one destination; return the agents with work that is not there, None if that is not known."""
        name, cursor = destination.name, state.cursor(destination.name)
        world = self._world
        address = plan.addresses.get(name, name)
        if world.patient and (why := self._left_alone(address, cursor)) is not None:
            # Noted, for what was written meanwhile is not looked at, though the state has its size.
            cursor.error, cursor.error_at = cursor.error or why, cursor.error_at or world.clock()
            report.pending[name] = why
            return None
        save = partial(self._states.save, state)
        around = Surroundings(
            clock=world.clock,
            save=save,
            reached=world.reached,
            stopped=partial(self._stopped, deadline),
            unclear_seconds=plan.unclear_seconds,
            request_seconds=plan.request_seconds,
            answered=partial(self._mark_answered, state.session_id),
            fingerprint=partial(fingerprint_before, Path(state.transcript)),
            outgoing=plan.outgoing,
            advanced=world.advanced,
        )
        state.sending = name
        delivery = Delivery(session, destination, cursor, self._ledger, around)
        unsettled: set[str] | None = None
        try:
            complete = delivery.run()
            unsettled = delivery.unsettled_agents
        except sqlite3.DatabaseError as error:
            complete, cursor.error, cursor.error_at = False, f"ledger: {error}", world.clock()
            if is_damaged(error):
                self._ledger.close()
                self._ledger = self._new_ledger(self._states.folder / "ledger.db", error)
        except Exception as error:  # noqa: BLE001  (a fault of ours in one destination must not hold up the others)
            complete, cursor.error = False, f"{type(error).__name__}: {error}"
            cursor.error_at = world.clock()
        finally:
            state.sending = None
        self._note_health(address, delivery)
        report.sent[name] = report.sent.get(name, 0) + delivery.sent
        report.turns[name] = report.turns.get(name, 0) + delivery.turns
        report.refused.update({f"{name}: {why}": spans for why, spans in delivery.refused.items()})
        if not complete:
            report.pending[name] = cursor.error or SENT_BY_ANOTHER
        if delivery.sent or not complete:
            why = f", {cursor.pending_spans} pending: {cursor.error}" if not complete else ""
            self._log.write(f"{state.session_id} {name}: {delivery.sent} spans sent{why}")
        return unsettled

    def _left_alone(self, address: str, cursor: Cursor) -> str | None:
        """Return why a destination is not to be tried now by who is patient."""
        now = self._world.clock()
        if 0 < (cursor.not_before or 0.0) - now <= _LONGEST_WAIT_SECONDS:
            return cursor.error or "the backend asked to wait"
        if (known := self._states.backoff.waiting(address, now)) is not None:
            return f"not retried yet, after {known.failures} failures: {known.error}"
        return self._failed.get(address)

    def _note_health(self, address: str, delivery: Delivery) -> None:
        """Tell all sessions of this machine whether the destination was there."""
        failure, world = delivery.failure, self._world
        if failure is not None:
            self._failed[address] = failure.message
        with contextlib.suppress(OSError):  # a full disk; then each session finds out by itself
            if failure is not None:
                after = failure.after_seconds if isinstance(failure, Retryable) else None
                self._states.backoff.failed(address, world.clock(), failure.message, after, world.jitter())
            elif delivery.answered:
                self._states.backoff.recovered(address)

    def _mark_answered(self, session_id: str) -> None:
        """Record an acceptance in place. Where that fails, the ledger and the next state still can."""
        with contextlib.suppress(OSError):
            self._states.mark_answered(session_id)


def _caller(request: SyncRequest) -> Caller:
    """Return who left a request."""
    return Caller(
        request.claude_pid,
        request.link,
        project=request.project,
        environment=request.environment,
        hook_ns=request.hook_ns,
    )


def _remember_link(state: SessionState, link: TraceLink | None) -> None:
    """Note what the turns are tied to of which nothing has been sent yet: a later sync may not know it any more."""
    last = state.links[max(state.links, key=int)] if state.links else [*TraceLink()]
    if link is not None and last != [*link]:
        state.links[str(state.untouched())] = [*link]
