"""From a hook's payload, or a user's wish, to delivered turns: wait, lock, read on, send, save, look once more.

Rules:
- One process works on a session at a time. Who finds it locked leaves word and goes; the holder takes the word before
  it begins and looks for new word after it has let go, so none is missed.
- One destination never holds up another, and one session's failure none of the others.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from cc_trace.delivery import UNCLEAR_SECONDS, Delivery, Surroundings
from cc_trace.errors import StateError
from cc_trace.ledger import Ledger, is_damaged, put_aside
from cc_trace.openings import first_session_id
from cc_trace.payload import Payload, parse_payload
from cc_trace.sessions import Resume, Session
from cc_trace.settling import wait_until_settled
from cc_trace.state import FINGERPRINT_BYTES, SessionState, fingerprint
from cc_trace.transcript import BEGINNING, agent_paths, is_session_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cc_trace.destinations.outcomes import Destination
    from cc_trace.log import Log
    from cc_trace.sessions import Ending
    from cc_trace.state import Progress, States

_PASSES: Final = 3
_QUIET_SECONDS: Final = 2.0
_LONGEST_WAIT_SECONDS: Final = 86_400.0  # beyond that the clock was set, not a backend's wish
_LOCK_SECONDS: Final = 1.0  # a lock that is only tried, to see whether a session is at work, is free again at once


@dataclass(slots=True)
class World:
    """Clock, sleep and what else a test replaces."""

    clock: Callable[[], float]
    sleep: Callable[[float], None]
    reached: Callable[[str], None] = lambda _: None
    unclear_seconds: float = UNCLEAR_SECONDS
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

    def __init__(
        self, states: States, destinations: Sequence[Destination], log: Log, world: World, config_dir: Path
    ) -> None:
        self._states = states
        self._config_dir = config_dir
        self._destinations = destinations
        self._log = log
        self._world = world
        self._ledger = self._open_ledger()

    def _open_ledger(self) -> Ledger:
        path = self._states.folder / "ledger.db"
        try:
            return Ledger(path, self._states.is_locked)
        except (OSError, sqlite3.DatabaseError) as error:
            if not isinstance(error, sqlite3.DatabaseError) or not is_damaged(error):
                message = f"cannot use {path}: {error}"
                raise StateError(message) from error
            return self._new_ledger(path, error)

    def _new_ledger(self, path: Path, error: sqlite3.DatabaseError) -> Ledger:
        """Begin again with an empty ledger: each session's state still knows what it has sent."""
        self._log.write(f"ledger kept aside as {put_aside(path)}: {error}")
        return Ledger(path, self._states.is_locked)

    def close(self) -> None:
        """Let go of everything."""
        self._ledger.close()
        for destination in self._destinations:
            destination.close()

    def wanted(self, session_id: str, deadline: float | None = None, claude_pid: int | None = None) -> None:
        """Serve the word that hooks left for a session, until none is left or another process serves it."""
        while self._states.wanted(session_id):
            with self._states.locked(session_id, _LOCK_SECONDS) as held:
                if not held:
                    return
                self._world.reached("locked")
                while (data := self._states.take_word(session_id)) is not None:
                    payload = parse_payload(data, self._config_dir)
                    if isinstance(payload, Payload):
                        self._served(payload, deadline, claude_pid)
            self._world.reached("unlocked")

    def _served(self, payload: Payload, deadline: float | None, claude_pid: int | None) -> None:
        settled = wait_until_settled(payload.transcript, payload.last_message, self._world.clock, self._world.sleep)
        self._world.reached("settled")
        self._predecessor(payload.transcript, deadline, claude_pid)
        if payload.transcript.is_file():
            ending = _ending(payload) if settled else "growing"
            self._guarded(payload.transcript, ending, deadline, claude_pid)
        else:
            self._log.write(f"{payload.session_id}: no transcript (sessions without persistence write none)")

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

    def session(self, transcript: Path, ending: Ending | None = None, *, deadline: float | None = None) -> Report:
        """Sync one session, unless another process is at it. Without an `ending`, its time at rest tells."""
        session_id = transcript.stem
        with self._states.locked(session_id, _LOCK_SECONDS) as held:
            if not held:
                return Report(session_id, busy=True)
            report = self._guarded(transcript, ending, deadline, None)
        self.wanted(session_id, deadline)  # a hook that found us at work has left word
        return report

    def _guarded(
        self, transcript: Path, ending: Ending | None, deadline: float | None, claude_pid: int | None
    ) -> Report:
        """Sync a session whose lock we hold; what goes wrong with it must not keep others from being served."""
        try:
            return self._locked(transcript, ending, deadline=deadline, claude_pid=claude_pid)
        except OSError as error:  # the transcript is gone, the disk is full: all of it is there next time
            self._log.write(f"{transcript.stem}: {error}")
            return Report(transcript.stem, behind={"*": error.strerror or str(error)})

    def _locked(
        self, transcript: Path, ending: Ending | None, *, deadline: float | None, claude_pid: int | None = None
    ) -> Report:
        state, report = self._state(transcript), Report(transcript.stem)
        state.claude_pid = claude_pid or state.claude_pid
        for _ in range(_PASSES):
            before = transcript.stat()
            known = {each.name: len(state.progress(each.name).ended) for each in self._destinations}
            now = ending or self._ending_of(transcript, state)
            for destination in self._destinations:
                if destination.name in report.behind:
                    continue  # it failed just now; asking again at once is no use
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

    def _ending_of(self, transcript: Path, state: SessionState) -> Ending:
        """Tell how a session stands that nobody told us about: by its time at rest, and whether its process is gone.

        While a foreground agent works only its own file is written to. A process id tells only of the time since its
        hook ran: a session that has grown since may have been resumed by another process.
        """
        status = transcript.stat()
        written = [status.st_mtime]
        for path in agent_paths(transcript):
            with contextlib.suppress(OSError):
                written.append(path.stat().st_mtime)
        rest = self._world.clock() - max(written)
        alive = state.claude_pid is not None and _is_alive(state.claude_pid)
        same = status.st_size == state.size
        if same and state.claude_pid is not None and not alive:
            return "over"
        if rest >= self._world.rest_seconds and not (same and alive):
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
        wait = (progress.not_before or 0.0) - world.clock()
        if world.patient and 0 < wait <= _LONGEST_WAIT_SECONDS:
            report.behind[name] = progress.error or "asked to wait"
            return
        save = partial(self._states.save, state)
        around = Surroundings(world.clock, save, world.reached, deadline, world.unclear_seconds)
        delivery = Delivery(session, destination, progress, self._ledger, around)
        try:
            complete = delivery.run()
        except sqlite3.DatabaseError as error:
            complete, progress.error, progress.error_at = False, f"ledger: {error}", world.clock()
            if is_damaged(error):
                self._ledger.close()
                self._ledger = self._new_ledger(self._states.folder / "ledger.db", error)
        except Exception as error:  # noqa: BLE001  (a fault of ours in one destination must not hold up the others)
            complete, progress.error = False, f"{type(error).__name__}: {error}"
            progress.error_at = world.clock()
        report.sent[name] = report.sent.get(name, 0) + delivery.sent
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
    except OSError:  # it is there, and not ours
        return True
    return True
