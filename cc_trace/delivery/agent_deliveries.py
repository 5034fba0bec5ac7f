"""How much of each agent's file every destination has, so that only new work is read.

Rules:
- A file is recorded as delivered, at its size, once all its spans are. It is not opened again until it grows.
- A file that has grown is read again from the first turn that its work belongs to, even if that turn was delivered long
  ago: an agent can continue at any time. The span ids tell what was delivered already.
- Never more is recorded than was delivered. If the record is lost, everything is read again and nothing is sent twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cc_trace.transcript import (
    BEGINNING,
    Delivered,
    OpenTranscript,
    Position,
    agent_id,
    identify,
    own_files,
    select,
    shared_files,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from cc_trace.delivery.cursor import Cursor
    from cc_trace.delivery.state import StateFolder
    from cc_trace.spans import Placed, Session
    from cc_trace.transcript import AgentFile, Selection


class AgentListing:
    """The current agents' files of sessions. The files that a project's sessions share are listed only once.

    `remember`: store in the state folder which session owns which shared file. False for commands that only read.
    """

    def __init__(self, states: StateFolder, *, remember: bool = True) -> None:
        self._states = states
        self._remember = remember
        self._shared: dict[Path, dict[str, list[AgentFile]]] = {}  # project -> session -> files

    def files(self, transcript: Path) -> list[AgentFile]:
        """Return a session's files."""
        return [*own_files(transcript), *self._shared_in(transcript.parent).get(transcript.stem, ())]

    def total_bytes(self, transcript: Path) -> int:
        """Return the total size of a session's files. Files only grow, so an equal total means that nothing is new."""
        return sum(file.size for file in self.files(transcript))

    def _shared_in(self, folder: Path) -> dict[str, list[AgentFile]]:
        if folder not in self._shared:
            self._shared[folder] = self._by_session(folder)
        return self._shared[folder]

    def _by_session(self, folder: Path) -> dict[str, list[AgentFile]]:
        files = [*shared_files(folder)]
        by_session: dict[str, list[AgentFile]] = {}
        if not files:
            return by_session
        owners = self._states.owners(folder)
        known_count = len(owners)
        for file in files:
            owner = owners.get(file.name) or _owner(Path(file.path))
            if owner is not None:
                owners[file.name] = owner
                by_session.setdefault(owner, []).append(file)
        if len(owners) > known_count and self._remember:
            self._states.save_owners(folder, owners)
        return by_session


def _owner(path: Path) -> str | None:
    """Return the session that a file's lines name; None if they name none yet."""
    try:
        session_id, _ = identify(path)
    except OSError:
        return None
    return session_id if session_id != path.stem else None


class AgentDeliveries:
    """The agents' files of one session during a sync. Without `remember`, nothing is written to the state folder."""

    def __init__(self, states: StateFolder, transcript: Path, *, remember: bool = True) -> None:
        self._states = states
        self._remember = remember
        self._transcript = transcript
        self._delivered = states.agents(transcript.stem)
        self._files: list[AgentFile] = []

    def refresh(self) -> int:
        """List the files again; return their total size."""
        self._files = AgentListing(self._states, remember=self._remember).files(self._transcript)
        return sum(file.size for file in self._files)

    def to_read(self, to: str, cursor: Cursor) -> Selection:
        """Return the files to read for a destination; move its cursor back to the first turn they belong to."""
        if cursor.last_attempt_at is None and self._delivered.pop(to, None) is not None:
            # The destination starts over. Save that now, since this attempt may fail.
            self._save()
        selection = select(self._files, self._delivered.get(to, {}))
        if (place := selection.earliest) is not None:
            self._go_back(cursor, place.turn, Position(place.offset, place.line))
        return selection

    def record(
        self, to: str, cursor: Cursor, session: Session, selection: Selection, unsettled: Collection[str]
    ) -> bool:
        """Record what was delivered of the files that were read; `unsettled` agents have undelivered work.

        Work that belongs to no turn counts as delivered if all turns were read. Otherwise it belongs to an earlier
        turn: then move the cursor to the beginning, and return True, since the session must be read again.
        """
        from_beginning = session.resume.position == BEGINNING
        delivered = self._delivered.setdefault(to, {})
        changed = needs_rereading = False
        for file in selection.files:
            previous = delivered.get(file.name)
            if file.name not in session.agent_files_read or (previous is not None and previous.size == file.size):
                continue
            if file.name in session.agent_files_unplaced and not (from_beginning and session.summary.turns):
                needs_rereading |= not from_beginning
            elif agent_id(file.name) not in unsettled:
                delivered[file.name] = _record_of(file, previous, session.placed.get(file.name))
                changed = True
        if changed:
            self._save()
        if needs_rereading:
            self._go_back(cursor, 1, BEGINNING)
        return needs_rereading

    def _go_back(self, cursor: Cursor, turn: int, position: Position) -> None:
        """Move a cursor back to an earlier turn. Its fingerprint must be right, as the delivery may not happen now."""
        if position.offset < cursor.offset:
            cursor.go_back_to(turn, position)
            with OpenTranscript(self._transcript) as transcript:
                cursor.fingerprint = transcript.fingerprint_before(position.offset)

    def _save(self) -> None:
        if self._remember:
            self._states.save_agents(self._transcript.stem, self._delivered)


def _record_of(file: AgentFile, previous: Delivered | None, place: Placed | None) -> Delivered:
    """Return the record of a file delivered at its current size. It keeps the earliest turn known."""
    if place is None:
        return Delivered(file.size)
    begin = place.begin
    if previous is not None and 0 < previous.turn < place.turn:
        return previous._replace(size=file.size, waiting=place.waiting)
    return Delivered(
        size=file.size,
        turn=place.turn,
        offset=begin.offset,
        line=begin.number,
        parent=place.parent,
        command=place.command,
        waiting=place.waiting,
    )
