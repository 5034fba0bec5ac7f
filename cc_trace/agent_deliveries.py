"""What of a session's agents' files each destination has, so that only what is new has to be read.

Rules:
- A file counts as delivered, at its length, when all that hangs in a trace of it is. It is not opened again until it
  has grown.
- One that has grown is read from the turn on that its work hangs below first, though that turn was delivered long ago:
  an agent can go on at any time. What was delivered of it is known by its ids.
- What is noted here is never more than what has been delivered; without it all is read again, and nothing sent twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cc_trace.agent_files import Delivered, agent_id, select
from cc_trace.agent_listing import AgentListing
from cc_trace.state import fingerprint_before
from cc_trace.transcript import BEGINNING, Position

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from cc_trace.agent_files import AgentFile, Selection
    from cc_trace.progress import Progress
    from cc_trace.sessions import Placed, Session
    from cc_trace.state import States


class AgentDeliveries:
    """The agents' files of one session, while it is synced; or, without `remember`, while somebody only looks."""

    def __init__(self, states: States, transcript: Path, *, remember: bool = True) -> None:
        self._states = states
        self._remember = remember
        self._transcript = transcript
        self._delivered = states.agents(transcript.stem)
        self._files: list[AgentFile] = []
        self.is_misplaced = False  # an agent belongs below a turn before those that were read: read again

    def look(self) -> int:
        """Look at the files as they are now; return how long they are, all together."""
        self._files = AgentListing(self._states, remember=self._remember).files(self._transcript)
        self.is_misplaced = False
        return sum(file.size for file in self._files)

    def to_read(self, to: str, progress: Progress) -> Selection:
        """Return which files a destination needs read, and take its progress back to where they hang."""
        if progress.time is None and self._delivered.pop(to, None) is not None:
            # It begins anew, whatever was delivered to it once; this attempt may fail, and the next must know that.
            self._save()
        selection = select(self._files, self._delivered.get(to, {}))
        if (place := selection.earliest) is not None:
            self._go_back(progress, place.turn, Position(place.offset, place.line))
        return selection

    def note(
        self, to: str, progress: Progress, session: Session, selection: Selection, unsettled: Collection[str]
    ) -> None:
        """Note what was delivered of the files that were read; `unsettled` are the agents of which something was not.

        Work that has no place in any turn counts as delivered when all turns were read; else that is done next.
        """
        whole = session.resume.position == BEGINNING
        delivered = self._delivered.setdefault(to, {})
        changed = False
        for file in selection.files:
            past = delivered.get(file.name)
            if file.name not in session.looked_at or (past is not None and past.size == file.size):
                continue
            if file.name in session.left_over and not (whole and session.facts.turns):
                self.is_misplaced |= not whole
            elif agent_id(file.name) not in unsettled:
                delivered[file.name] = _delivered(file, past, session.placed.get(file.name))
                changed = True
        if changed:
            self._save()
        if self.is_misplaced:
            self._go_back(progress, 1, BEGINNING)

    def _go_back(self, progress: Progress, turn: int, position: Position) -> None:
        """Read again from an earlier turn on. It may not come to a delivery now: the place is remembered as any is."""
        if position.offset < progress.offset:
            progress.go_back_to(turn, position)
            progress.fingerprint = fingerprint_before(self._transcript, position.offset)

    def _save(self) -> None:
        if self._remember:
            self._states.save_agents(self._transcript.stem, self._delivered)


def _delivered(file: AgentFile, past: Delivered | None, place: Placed | None) -> Delivered:
    """Return that a file is delivered as long as it is. Its first place stays, wherever reading began this time."""
    if place is None:
        return Delivered(file.size)
    begin = place.begin
    if past is not None and 0 < past.turn < place.turn:
        return past._replace(size=file.size, waiting=place.waiting)
    return Delivered(file.size, place.turn, begin.offset, begin.number, place.parent, place.command, place.waiting)
