"""Which agents' files a session has, over all layouts: the shared ones are told apart, each opened once ever."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cc_trace.agent_files import own_files, shared_files
from cc_trace.openings import identify

if TYPE_CHECKING:
    from cc_trace.agent_files import AgentFile
    from cc_trace.state import States


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
