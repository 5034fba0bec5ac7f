"""What of a session's agents' files each destination has, so that only what is new has to be read.

Rules:
- A file counts as delivered, at its length, when all that hangs in a trace of it is. It is not opened again until it
  has grown.
- One that has grown is read from the turn on that its work hangs below first, though that turn was delivered long ago:
  an agent can go on at any time. What was delivered of it is known by its ids.
- What is noted here is never more than what has been delivered; without it all is read again, and nothing sent twice.
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
    from cc_trace.delivery.state import States
    from cc_trace.spans import Placed, Session
    from cc_trace.transcript import AgentFile, Selection


class AgentListing:
    """The agents' files as they are now. A project's shared files are listed once in the life of this object.

    `remember`: whose files they are is written to the state folder, which not everybody may change.
    """

    def __init__(self, states: States, *, remember: bool = True) -> None:
        self._states = states
        self._remember = remember
        self._shared: dict[Path, dict[str, list[AgentFile]]] = {}  # project -> session -> files

    def files(self, transcript: Path) -> list[AgentFile]:
        """Return a session's files."""
        return [*own_files(transcript), *self._shared_in(transcript.parent).get(transcript.stem, ())]

    def total_bytes(self, transcript: Path) -> int:
        """Return how long they are, all together: files only grow, so that an equal sum means that nothing is new."""
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
        known = len(owners)
        for file in files:
            owner = owners.get(file.name) or _owner(Path(file.path))
            if owner is not None:
                owners[file.name] = owner
                by_session.setdefault(owner, []).append(file)
        if len(owners) > known and self._remember:
            self._states.save_owners(folder, owners)
        return by_session


def _owner(path: Path) -> str | None:
    """Return the session that a file's lines name; None where there is none yet."""
    try:
        named, _ = identify(path)
    except OSError:
        return None
    return named if named != path.stem else None


class AgentDeliveries:
    """The agents' files of one session, while it is synced; or, without `remember`, while somebody only looks."""

    def __init__(self, states: States, transcript: Path, *, remember: bool = True) -> None:
        self._states = states
        self._remember = remember
        self._transcript = transcript
        self._delivered = states.agents(transcript.stem)
        self._files: list[AgentFile] = []
        self.is_misplaced = False  # an agent belongs below a turn before those that were read: read again

    def refresh(self) -> int:
        """Look at the files as they are now; return how long they are, all together."""
        self._files = AgentListing(self._states, remember=self._remember).files(self._transcript)
        self.is_misplaced = False
        return sum(file.size for file in self._files)

    def to_read(self, to: str, cursor: Cursor) -> Selection:
        """Return which files a destination needs read, and take its cursor back to where they hang."""
        if cursor.time is None and self._delivered.pop(to, None) is not None:
            # It begins anew, whatever was delivered to it once; this attempt may fail, and the next must know that.
            self._save()
        selection = select(self._files, self._delivered.get(to, {}))
        if (place := selection.earliest) is not None:
            self._go_back(cursor, place.turn, Position(place.offset, place.line))
        return selection

    def record(
        self, to: str, cursor: Cursor, session: Session, selection: Selection, unsettled: Collection[str]
    ) -> None:
        """Note what was delivered of the files that were read; `unsettled` are the agents of which something was not.

        Work that has no place in any turn counts as delivered when all turns were read; else that is done next.
        """
        whole = session.resume.position == BEGINNING
        delivered = self._delivered.setdefault(to, {})
        changed = False
        for file in selection.files:
            before = delivered.get(file.name)
            if file.name not in session.looked_at or (before is not None and before.size == file.size):
                continue
            if file.name in session.left_over and not (whole and session.summary.turns):
                self.is_misplaced |= not whole
            elif agent_id(file.name) not in unsettled:
                delivered[file.name] = _delivered(file, before, session.placed.get(file.name))
                changed = True
        if changed:
            self._save()
        if self.is_misplaced:
            self._go_back(cursor, 1, BEGINNING)

    def _go_back(self, cursor: Cursor, turn: int, position: Position) -> None:
        """Read again from an earlier turn on. It may not come to a delivery now: the place is remembered as any is."""
        if position.offset < cursor.offset:
            cursor.go_back_to(turn, position)
            with OpenTranscript(self._transcript) as transcript:
                cursor.fingerprint = transcript.fingerprint_before(position.offset)

    def _save(self) -> None:
        if self._remember:
            self._states.save_agents(self._transcript.stem, self._delivered)


def _delivered(file: AgentFile, before: Delivered | None, place: Placed | None) -> Delivered:
    """Return that a file is delivered as long as it is. Its first place stays, wherever reading began this time."""
    if place is None:
        return Delivered(file.size)
    begin = place.begin
    if before is not None and 0 < before.turn < place.turn:
        return before._replace(size=file.size, waiting=place.waiting)
    return Delivered(
        size=file.size,
        turn=place.turn,
        offset=begin.offset,
        line=begin.number,
        parent=place.parent,
        command=place.command,
        waiting=place.waiting,
    )
