"""From a hook's payload, or a user's wish, to delivered turns: wait, lock, read on, send, save, look once more.

Rules:
- One process works on a session at a time. Who finds it locked leaves word and goes; the holder takes the word before
  it begins and looks for new word after it has let go, so none is missed.
- One destination never holds up another, and one session's failure none of the others.
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cc_trace.delivery import Delivery, Surroundings
from cc_trace.ledger import Ledger
from cc_trace.payload import Payload, parse_payload
from cc_trace.sessions import Resume, Session, first_session_id
from cc_trace.settling import wait_until_settled
from cc_trace.state import FINGERPRINT_BYTES, SessionState, fingerprint
from cc_trace.transcript import BEGINNING, is_session_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cc_trace.destinations.outcomes import Destination
    from cc_trace.log import Log
    from cc_trace.sessions import Ending
    from cc_trace.state import Progress, States

_PASSES: Final = 3
_QUIET_SECONDS: Final = 2.0
_LOCK_SECONDS: Final = 1.0  # a lock that is only tried, to see whether a session is at work, is free again at once


@dataclass(slots=True)
class World:
    """Clock, sleep and what else a test replaces."""

    clock: Callable[[], float]
    sleep: Callable[[float], None]
    reached: Callable[[str], None] = lambda _: None
    unclear_seconds: float | None = None
    rest_seconds: float = 300.0  # a session that has not been written to for so long is over
    patient: bool = True  # leave a backend alone that asked for it; a user who calls by hand need not wait


@dataclass(slots=True)
class Report:
    """What one sync of a session came to."""

    session_id: str
    sent: dict[str, int] = field(default_factory=dict)
    behind: dict[str, str] = field(default_factory=dict)  # destination -> why
    busy: bool = False

    @property
    def complete(self) -> bool:
        """Tell whether nothing stayed behind."""
        return not self.behind and not self.busy


class Sync:
    """Delivers sessions to all destinations."""

    def __init__(self, states: States, destinations: Sequence[Destination], log: Log, world: World) -> None:
        self._states = states
        self._destinations = destinations
        self._log = log
        self._world = world
        self._ledger = self._open_ledger()

    def _open_ledger(self) -> Ledger:
        path = self._states.folder / "ledger.db"
        try:
            return Ledger(path, self._states.is_locked)
        except sqlite3.DatabaseError as error:
            aside = path.with_name(f"ledger.db.aside-{int(self._world.clock())}")
            path.replace(aside)
            self._log.write(f"ledger kept aside as {aside.name}: {error}")
            return Ledger(path, self._states.is_locked)

    def close(self) -> None:
        """Let go of everything."""
        self._ledger.close()
        for destination in self._destinations:
            destination.close()

    def wanted(
        self, session_id: str, config_dir: Path, deadline: float | None = None, claude_pid: int | None = None
    ) -> list[Report]:
        """Serve the word that hooks left for a session, until none is left or another process serves it."""
        reports: list[Report] = []
        while self._states.wanted(session_id):
            with self._states.locked(session_id, _LOCK_SECONDS) as held:
                if not held:
                    return reports
                self._world.reached("locked")
                while (data := self._states.take_word(session_id)) is not None:
                    payload = parse_payload(data, config_dir)
                    if isinstance(payload, Payload):
                        reports += self._served(payload, deadline, claude_pid)
            self._world.reached("unlocked")
        return reports

    def _served(self, payload: Payload, deadline: float | None, claude_pid: int | None) -> list[Report]:
        settled = wait_until_settled(payload.transcript, payload.last_message, self._world.clock, self._world.sleep)
        self._world.reached("settled")
        reports = self._predecessor(payload.transcript, deadline, claude_pid)
        if payload.transcript.is_file():
            ending = _ending(payload) if settled else "growing"
            reports.append(self._locked(payload.transcript, ending, deadline=deadline, claude_pid=claude_pid))
        else:
            self._log.write(f"{payload.session_id}: no transcript (sessions without persistence write none)")
        return reports

    def _predecessor(self, transcript: Path, deadline: float | None, claude_pid: int | None) -> list[Report]:
        """Deliver first what the session before left behind; its failure is its own.

        The same process goes on with another session: then the one before is over. A fork's origin may still run.
        """
        previous = first_session_id(transcript)
        if previous is None or previous == transcript.stem or not is_session_id(previous):
            return []
        path = transcript.with_name(f"{previous}.jsonl")
        if not path.is_file():
            return []
        state, _ = self._states.load(previous)
        same = state is not None and claude_pid is not None and state.claude_pid == claude_pid
        return [self.session(path, "over" if same else None, deadline=deadline)]

    def session(self, transcript: Path, ending: Ending | None = None, *, deadline: float | None = None) -> Report:
        """Sync one session, unless another process is at it. Without an `ending`, its time at rest tells."""
        session_id = transcript.stem
        try:
            with self._states.locked(session_id, _LOCK_SECONDS) as held:
                if not held:
                    return Report(session_id, busy=True)
                return self._locked(transcript, ending, deadline=deadline)
        except OSError as error:
            self._log.write(f"{session_id}: {error}")
            return Report(session_id, behind={"*": f"{error.strerror or error}"})

    def _locked(
        self, transcript: Path, ending: Ending | None, *, deadline: float | None, claude_pid: int | None = None
    ) -> Report:
        state, report = self._state(transcript), Report(transcript.stem)
        state.claude_pid = claude_pid or state.claude_pid
        for _ in range(_PASSES):
            before = transcript.stat()
            known = {name: len(progress.ended) for name, progress in state.destinations.items()}
            now = ending or self._ending_of(state, before.st_mtime)
            for destination in self._destinations:
                session = self._session(transcript, state.progress(destination.name), now)
                self._deliver(session, state, destination, report, deadline)
            state.size, state.mtime_ns = before.st_size, before.st_mtime_ns
            self._states.save(state)
            grown = transcript.stat().st_size != before.st_size
            learned = any(len(state.progress(name).ended) > count for name, count in known.items())
            if not grown and not learned:
                break
            ending = None if grown else ending
        return report

    def _ending_of(self, state: SessionState, mtime: float) -> Ending:
        """Tell how a session stands that nobody told us about: by its time at rest, and whether its process is gone."""
        rest = self._world.clock() - mtime
        gone = state.claude_pid is not None and not _is_alive(state.claude_pid)
        if gone or rest >= self._world.rest_seconds:
            return "over"
        return "quiet" if rest >= _QUIET_SECONDS else "growing"

    def _state(self, transcript: Path) -> SessionState:
        """Return what is known of a session; a transcript that shrank or begins otherwise is read again."""
        state, trouble = self._states.load(transcript.stem)
        if trouble is not None:
            self._log.write(f"{transcript.stem}: {trouble}")
        size = transcript.stat().st_size
        if state is None:
            state = SessionState(transcript.stem, str(transcript))
        elif size < state.size or fingerprint(transcript, state.fingerprint_bytes) != state.fingerprint:
            self._log.write(f"{transcript.stem}: the transcript was rewritten; reading it again")
            for progress in state.destinations.values():
                progress.offset, progress.line, progress.turns = BEGINNING.offset, BEGINNING.number, 0
        state.transcript = str(transcript)
        state.fingerprint_bytes = min(size, FINGERPRINT_BYTES)
        state.fingerprint = fingerprint(transcript, state.fingerprint_bytes)
        return state

    def _session(self, transcript: Path, progress: Progress, ending: Ending) -> Session:
        rest_ns = int((self._world.clock() - self._world.rest_seconds) * 1e9)
        resume = Resume(
            progress.position, progress.turns, dict(progress.launched), dict(progress.launches), set(progress.ended)
        )
        return Session(transcript, resume, ending=ending, rest_ns=rest_ns)

    def _deliver(
        self, session: Session, state: SessionState, destination: Destination, report: Report, deadline: float | None
    ) -> None:
        name, progress = destination.name, state.progress(destination.name)
        world = self._world
        if world.patient and progress.not_before is not None and world.clock() < progress.not_before:
            report.behind[name] = progress.error or "asked to wait"
            return
        around = Surroundings(world.clock, lambda: self._states.save(state), world.reached, deadline)
        if world.unclear_seconds is not None:
            around.unclear_seconds = world.unclear_seconds
        delivery = Delivery(session, destination, progress, self._ledger, around)
        try:
            complete = delivery.run()
        except Exception as error:  # noqa: BLE001  (a fault of ours in one destination must not hold up the others)
            complete, progress.error = False, f"{type(error).__name__}: {error}"
            progress.error_at = world.clock()
        report.sent[name] = report.sent.get(name, 0) + delivery.sent
        report.behind.pop(name, None)
        if not complete:
            report.behind[name] = progress.error or "another session is sending the same spans"
        if delivery.sent or not complete:
            why = f", {progress.behind} behind: {progress.error}" if not complete else ""
            self._log.write(f"{state.session_id} {name}: {delivery.sent} spans sent{why}")


def _ending(payload: Payload) -> Ending:
    """Tell what a hook says of a session whose file is at rest."""
    if payload.event == "SessionEnd" or payload.busy is False:
        return "over"
    return "stopped" if payload.busy is None else "growing"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
