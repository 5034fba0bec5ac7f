"""Deliver a session's turns, for a hook or a command: wait, lock, read on, send, save, check once more.

Rules:
- One process works on a session at a time. A process that finds it locked leaves its request and moves on. The holder
  takes the request before it begins and checks for new ones after releasing the lock, so none is missed.
- A destination never holds up another one, and a session that fails never holds up the others.
"""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Final, NamedTuple

from cc_trace.delivery.agent_deliveries import AgentDeliveries
from cc_trace.delivery.backoff import MAX_PLAUSIBLE_WAIT_SECONDS
from cc_trace.delivery.cursor import SessionState
from cc_trace.delivery.destination_delivery import Delivery
from cc_trace.delivery.forks import suppressed_by
from cc_trace.delivery.ledger import Ledger, is_damaged, put_aside
from cc_trace.delivery.liveness import ending_from_hook, ending_from_process, liveness
from cc_trace.delivery.other_hooks import wait_for_other_hooks
from cc_trace.delivery.quiet import wait_until_quiet
from cc_trace.delivery.report import SENT_BY_ANOTHER, WRITTEN_WHILE_OFF, Report
from cc_trace.delivery.sync_requests import NO_CONTEXT
from cc_trace.errors import CcTraceError, ConfigError, StateError
from cc_trace.export import Retryable
from cc_trace.paths import is_session_id
from cc_trace.spans import TraceLink
from cc_trace.transcript import BEGINNING, FINGERPRINT_BYTES, OpenTranscript

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cc_trace.delivery.cursor import Cursor
    from cc_trace.delivery.liveness import Liveness
    from cc_trace.delivery.runtime import Plan, Runtime
    from cc_trace.delivery.state import StateFolder
    from cc_trace.delivery.sync_requests import HookContext, SyncRequest
    from cc_trace.export import Destination
    from cc_trace.log import Log
    from cc_trace.spans import Ending, Session


class _Caller(NamedTuple):
    """What asked for a session to be synced. A sweep asks for no session in particular and has none of this."""

    context: HookContext = NO_CONTEXT
    requested: bool = False  # a user asked for this session
    hook_ns: int | None = None  # when the hook ran; turns that began later are not covered by what it said
    deadline: float | None = None  # no batch is sent after this time, in unix seconds


class _Work(NamedTuple):
    """One session while it is synced."""

    transcript: OpenTranscript
    state: SessionState
    plan: Plan
    report: Report
    agents: AgentDeliveries
    deadline: float | None
    first_unlinked_turn: int | None  # see Delivery


_PASSES: Final = 3
_LOCK_SECONDS: Final = 1.0  # enough to outlast a process that only checks whether the lock is held


class Sync:
    """Delivers sessions to the destinations that their projects are configured for."""

    def __init__(
        self,
        states: StateFolder,
        plan_of: Callable[[SessionState], Plan],
        log: Log,
        runtime: Runtime,
        config_dir: Path,
    ) -> None:
        self._states = states
        self._config_dir = config_dir
        self._plan_of = plan_of
        self._log = log
        self._runtime = runtime
        self._failed: dict[str, str] = {}  # backoff key -> error; a background runtime tries each only once
        self._ledger = self._open_ledger()

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
        """Start over with an empty ledger: each session's state still knows what that session has sent."""
        self._log.write(f"ledger kept aside as {put_aside(path)}: {error}")
        return Ledger(path, self._states.is_locked, self._states.not_in_ledger)

    def close(self) -> None:
        """Close the ledger."""
        self._ledger.close()

    def handle_requests(self, session_id: str, deadline: float | None = None) -> None:
        """Handle the requests that hooks left for a session, until none is left or another process handles them."""
        spool = self._states.spool
        has_request = spool.unfinished_request(session_id)
        while has_request and not self._runtime.interrupted():
            with self._states.locked(session_id, _LOCK_SECONDS) as acquired:
                if not acquired:
                    return
                self._runtime.mark_step("locked")
                while (request := self._next_request(session_id)) is not None:
                    if not self._handle_safely(request, deadline):
                        spool.put_back(request)  # requests of other sessions go first, then this one again
                        return
                    spool.finish_request(session_id)
            self._runtime.mark_step("unlocked")
            has_request = spool.pending_request(session_id)

    def _next_request(self, session_id: str) -> SyncRequest | None:
        return None if self._runtime.interrupted() else self._states.spool.take_request(session_id)

    def _handle_safely(self, request: SyncRequest, deadline: float | None) -> bool:
        """Handle a hook's request; an error is logged, so that it does not hold up the requests of other sessions.

        Return False if the request must be handled again, as others came in while we waited for other Stop hooks.
        """
        try:
            with OpenTranscript(request.payload.transcript) as transcript:
                return self._handle_request(request, transcript, deadline)
        except (OSError, CcTraceError) as error:  # the transcript was removed while we waited
            self._log.write(f"{request.session_id}: {error}")
            return True

    def _handle_request(self, request: SyncRequest, transcript: OpenTranscript, deadline: float | None) -> bool:
        payload, caller = request.payload, _Caller(request.context, hook_ns=request.hook_ns, deadline=deadline)
        is_quiet = wait_until_quiet(transcript, payload.last_message, self._runtime, request.hook_ns)
        self._runtime.mark_step("transcript quiet")
        if not transcript.path.is_file():
            self._log.write(f"{request.session_id}: no transcript (sessions without persistence write none)")
            return True
        self._sync_predecessor(transcript, caller)
        if not is_quiet or (deadline is not None and self._may_be_blocked(request)):
            self._sync_safely(transcript, "growing", caller)
            return True
        process_state, is_done = self._process_state(request, deadline), True
        if payload.event == "Stop" and not payload.has_background_tasks and process_state == "working":
            self._sync_safely(transcript, "growing", caller)  # send everything but the root
            transcript.close()  # waiting can take a minute
            process_state, is_done = wait_for_other_hooks(
                request, transcript, self._states.spool, self._runtime, self._config_dir
            )
        self._sync_safely(transcript, ending_from_hook(payload, process_state), caller)
        return is_done

    def _may_be_blocked(self, request: SyncRequest) -> bool:
        """Return whether another hook may make the model go on after a Stop whose hook waits for us.

        Then its root is left to SessionEnd, or to a later worker.
        """
        return request.payload.event == "Stop" and self._runtime.may_be_blocked(request.context.project)

    def _process_state(self, request: SyncRequest, deadline: float | None) -> Liveness:
        """Return the liveness of a request's process. A hook that waits for us keeps it busy, which says nothing."""
        if deadline is not None:
            return "unknown"
        return liveness(self._config_dir, request.session_id, request.context.process)

    def _sync_predecessor(self, transcript: OpenTranscript, caller: _Caller) -> None:
        """Deliver first what is pending of the session that this one continues or was forked from.

        If the same process ran both, the earlier session is over. The origin of a fork may still be running.
        """
        previous = transcript.head.first_session_id
        if previous is None or previous == transcript.session_id or not is_session_id(previous):
            return
        path = transcript.path.with_name(f"{previous}.jsonl")
        if path.is_file():
            state, process = self._states.peek(previous), caller.context.process
            is_same_process = state is not None and process is not None and state.process == process
            self.sync_session(path, "over" if is_same_process else None, deadline=caller.deadline)

    def sync_session(
        self,
        transcript: Path,
        ending: Ending | None = None,
        *,
        deadline: float | None = None,
        requested: bool = False,
        context: HookContext = NO_CONTEXT,
    ) -> Report:
        """Sync one session, unless another process is syncing it.

        Without an `ending`, the session's process and the time since its last line decide whether it is over.
        `requested`: a user asked for this session. `context`: what is known of the process that ran it; without it,
        that of a request that is still to be handled.
        """
        session_id = transcript.stem
        if transcript.parent == self._states.streams:
            ending = "over"  # it is written when its run has ended
        with self._states.locked(session_id, _LOCK_SECONDS) as acquired:
            if not acquired:
                return Report(session_id, locked=True)
            if context is NO_CONTEXT and (request := self._states.spool.peek_request(session_id)) is not None:
                context = request.context
            with OpenTranscript(transcript) as open_transcript:
                report = self._sync_safely(open_transcript, ending, _Caller(context, requested, deadline=deadline))
        self.handle_requests(session_id, deadline)  # a hook that found the session locked has left one
        return report

    def _sync_safely(self, transcript: OpenTranscript, ending: Ending | None, caller: _Caller) -> Report:
        """Sync a session whose lock we hold; an error goes into its report, so that it does not hold up the others."""
        try:
            return self._sync_transcript(transcript, ending, caller)
        except (OSError, CcTraceError) as error:  # the transcript is gone, the disk is full, a setting is wrong
            self._log.write(f"{transcript.session_id}: {error}")
            return Report(transcript.session_id, pending={"*": getattr(error, "strerror", None) or str(error)})

    def _sync_transcript(self, transcript: OpenTranscript, ending: Ending | None, caller: _Caller) -> Report:
        state, report = self._load_state(transcript), Report(transcript.session_id)
        state.cwd = caller.context.project or state.cwd or transcript.head.cwd
        if caller.context.environment is not None:
            state.environment = {author: dict(variables) for author, variables in caller.context.environment.items()}
        plan = self._find_plan(state)
        if (off := self._check_off(plan, transcript, state, caller)) is not None:
            return Report(transcript.session_id, why_off=off)
        if caller.context.process is not None:
            state.claude_pid, state.claude_start = caller.context.process
        _remember_link(state, caller.context.link)
        work = _Work(
            transcript=transcript,
            state=state,
            plan=plan,
            report=report,
            agents=AgentDeliveries(self._states, transcript.path),
            deadline=caller.deadline,
            first_unlinked_turn=state.first_unsent_turn() if ending is None and not caller.requested else None,
        )
        for _ in range(_PASSES):
            has_grown, needs_another_pass = self._read_and_deliver(work, ending, caller.hook_ns if ending else None)
            if not has_grown and not needs_another_pass:
                break
            ending = None if has_grown else ending
        return report

    def _find_plan(self, state: SessionState) -> Plan:
        """Return the plan for a session. If its settings are wrong, save its environment, so that no others apply."""
        try:
            return self._plan_of(state)
        except ConfigError:
            if state.environment is not None:
                self._states.save(state)
            raise

    def _read_and_deliver(self, work: _Work, ending: Ending | None, hook_ns: int | None) -> tuple[bool, bool]:
        """Read on and deliver to each destination, once, and save the state.

        Return whether the transcript has grown meanwhile, and whether what was learned makes it worth another pass.
        """
        transcript, state, plan, report = work.transcript, work.state, work.plan, work.report
        before, agent_bytes = transcript.stat(), work.agents.refresh()
        finished = {
            destination.name: len(state.cursor(destination.name).finished_tasks) for destination in plan.destinations
        }
        if ending is None:
            now = self._runtime.clock()
            ending = ending_from_process(transcript.path, state, now, plan.rest_seconds, self._config_dir)
        needs_rereading = False
        for destination in plan.destinations:
            if destination.name not in report.pending:  # no use retrying what failed a moment ago
                needs_rereading |= self._sync_destination(work, destination, ending, hook_ns)
        state.size, state.agent_bytes = before.st_size, agent_bytes
        state.mtime_ns = max(0, before.st_mtime_ns)  # a file can be dated before 1970
        self._states.save(state)
        learned = any(len(state.cursor(name).finished_tasks) > count for name, count in finished.items())
        return transcript.stat().st_size != before.st_size, learned or needs_rereading

    def _sync_destination(self, work: _Work, destination: Destination, ending: Ending, hook_ns: int | None) -> bool:
        """Read on from a destination's cursor and deliver what the destination does not have.

        Return whether the session must be read again, from an earlier turn: an agent's work belongs there.
        """
        name, state, agents = destination.name, work.state, work.agents
        cursor = state.cursor(name)
        files = agents.to_read(name, cursor)
        session = state.read_on(
            work.transcript.path,
            name,
            ending,
            rest_ns=int((self._runtime.clock() - work.plan.rest_seconds) * 1e9),
            hook_ns=hook_ns,
            agents=files,
            open_transcript=work.transcript,
            request_content=work.plan.request_content,
        )
        unsettled, needs_rereading = self._deliver(work, session, destination), False
        if unsettled is not None and session.finished:
            needs_rereading = agents.record(name, cursor, session, files, unsettled)
        if session.last_turn_began_after_hook and state.process is not None and state.process.is_alive is False:
            state.claude_pid = state.claude_start = None  # another process has resumed the session
        return needs_rereading

    def _check_off(self, plan: Plan, transcript: OpenTranscript, state: SessionState, caller: _Caller) -> str | None:
        """Return why a session is not traced, None if it is; suppress sessions written to while tracing was off.

        - A suppressed session stays untraced until a user names it. A fork of one is suppressed, too.
        - While tracing is off, a session is suppressed when its hook runs, or when a worker finds that it has grown
          since its project was first found to be off.
        - A command that a user runs on old sessions suppresses none of them.
        """
        session_id, states = transcript.session_id, self._states
        if plan.why_off is not None:
            grown = self._runtime.in_background and self._grown_since(
                states.disabled_since_ns(state.cwd), transcript, state
            )
            if caller.hook_ns is not None or grown:
                states.suppress(session_id)
            return plan.why_off
        if self._runtime.in_background:
            states.mark_enabled(state.cwd)
        if caller.requested:
            states.unsuppress(session_id)
        elif (origin := suppressed_by(transcript, states, new=not state.size)) is not None:
            relation = "," if origin == session_id else f" as {origin}, whose turns it has:"
            self._log.write(f"{session_id}: not traced{relation} {WRITTEN_WHILE_OFF}")
            states.suppress(session_id)
            return WRITTEN_WHILE_OFF
        return None

    @staticmethod
    def _grown_since(since_ns: int, transcript: OpenTranscript, state: SessionState) -> bool:
        status = transcript.stat()
        return status.st_size != state.size and status.st_mtime_ns > since_ns

    def _load_state(self, transcript: OpenTranscript) -> SessionState:
        """Load the state of a session; if its transcript was rewritten, take all cursors back to the beginning."""
        session_id = transcript.session_id
        state, problem = self._states.load(session_id)
        if problem is not None:
            self._log.write(f"{session_id}: {problem}")
        size = transcript.stat().st_size
        if state is None:
            state = SessionState(session_id, str(transcript.path))
        elif self._was_rewritten(transcript, size, state):
            self._log.write(f"{session_id}: the transcript was rewritten; reading it again")
            for cursor in state.destinations.values():
                cursor.offset, cursor.line, cursor.turns_before = BEGINNING.offset, BEGINNING.number, 0
                cursor.fingerprint = ""
            self._states.save_agents(session_id, {})  # their positions have changed
        state.transcript = str(transcript.path)
        state.fingerprint_bytes = min(size, FINGERPRINT_BYTES)
        state.fingerprint = transcript.fingerprint(state.fingerprint_bytes)
        return state

    @staticmethod
    def _was_rewritten(transcript: OpenTranscript, size: int, state: SessionState) -> bool:
        """Return whether the offsets of a state no longer fit its transcript.

        The bytes before each offset are compared, not only the first ones: removing text from an earlier turn moves
        everything after it, and the file may have grown beyond its old size since.
        """
        if size < max(state.size, state.furthest):
            return True
        if transcript.fingerprint(state.fingerprint_bytes) != state.fingerprint:
            return True
        marks = {(cursor.offset, cursor.fingerprint) for cursor in state.destinations.values()}
        return not all(
            transcript.fingerprint_before(offset) == fingerprint if fingerprint else transcript.is_line_start(offset)
            for offset, fingerprint in marks
        )

    def _deliver(self, work: _Work, session: Session, destination: Destination) -> set[str] | None:
        """Deliver to one destination; return the agents with undelivered work, None if nothing was tried."""
        name, state, plan, report = destination.name, work.state, work.plan, work.report
        cursor, runtime = state.cursor(name), self._runtime
        backoff_key = plan.backoff_keys.get(name, name)
        if runtime.in_background and (reason := self._reason_to_wait(backoff_key, cursor)) is not None:
            # The state will have the transcript's new size, so the error marks the session as pending.
            cursor.error, cursor.error_at = cursor.error or reason, cursor.error_at or runtime.clock()
            report.pending[name] = reason
            return None
        delivery = Delivery(
            session,
            destination,
            state=state,
            states=self._states,
            ledger=self._ledger,
            plan=plan,
            runtime=runtime,
            transcript=work.transcript,
            deadline=work.deadline,
            first_unlinked_turn=work.first_unlinked_turn,
        )
        complete, unsettled = self._run_delivery(delivery, state, name)
        self._note_health(backoff_key, delivery)
        self._add_to_report(report, delivery, state, name, complete=complete)
        return unsettled

    def _run_delivery(self, delivery: Delivery, state: SessionState, name: str) -> tuple[bool, set[str] | None]:
        """Return whether the destination has everything, and the agents with undelivered work; None after an error."""
        cursor = state.cursor(name)
        state.sending = name
        try:
            return delivery.run(), delivery.unsettled_agents
        except sqlite3.DatabaseError as error:
            cursor.error, cursor.error_at = f"ledger: {error}", self._runtime.clock()
            if is_damaged(error):
                self._ledger.close()
                self._ledger = self._new_ledger(self._states.folder / "ledger.db", error)
        except Exception as error:  # noqa: BLE001  (a bug in one destination must not hold up the others)
            cursor.error, cursor.error_at = f"{type(error).__name__}: {error}", self._runtime.clock()
        finally:
            state.sending = None
        return False, None

    def _add_to_report(
        self, report: Report, delivery: Delivery, state: SessionState, name: str, *, complete: bool
    ) -> None:
        """Add what a delivery did to the report and to the log."""
        cursor = state.cursor(name)
        report.sent[name] = report.sent.get(name, 0) + delivery.sent
        report.turns[name] = report.turns.get(name, 0) + delivery.turns
        report.refused.update({f"{name}: {reason}": spans for reason, spans in delivery.refused.items()})
        if delivery.metrics_failure is not None:
            self._log.write(f"{state.session_id} {name}: metrics not accepted: {delivery.metrics_failure}")
        if not complete:
            report.pending[name] = cursor.error or SENT_BY_ANOTHER
        if delivery.sent or not complete:
            reason = f", {cursor.pending_spans} pending: {cursor.error}" if not complete else ""
            self._log.write(f"{state.session_id} {name}: {delivery.sent} spans sent{reason}")

    def _reason_to_wait(self, backoff_key: str, cursor: Cursor) -> str | None:
        """Return why a background runtime leaves a destination alone for now; None if it may be tried."""
        now = self._runtime.clock()
        if 0 < (cursor.not_before or 0.0) - now <= MAX_PLAUSIBLE_WAIT_SECONDS:
            return cursor.error or "the backend asked to wait"
        if (wait := self._states.backoff.current_wait(backoff_key, now)) is not None:
            return f"waiting to retry after {wait.failures} failures: {wait.error}"
        return self._failed.get(backoff_key)

    def _note_health(self, backoff_key: str, delivery: Delivery) -> None:
        """Record for all sessions of this machine whether the destination could be reached."""
        failure, runtime = delivery.failure, self._runtime
        if failure is not None:
            self._failed[backoff_key] = failure.message
        with contextlib.suppress(OSError):  # the disk is full: then each session finds out for itself
            if failure is not None:
                after = failure.after_seconds if isinstance(failure, Retryable) else None
                self._states.backoff.record_failure(
                    backoff_key, runtime.clock(), failure.message, after, runtime.jitter()
                )
            elif delivery.responded:
                self._states.backoff.clear(backoff_key)


def _remember_link(state: SessionState, link: TraceLink | None) -> None:
    """Store the link for turns of which nothing has been sent yet: a later sync will not know it."""
    last = state.links[max(state.links, key=int)] if state.links else [*TraceLink()]
    if link is not None and last != [*link]:
        state.links[str(state.first_unsent_turn())] = [*link]
