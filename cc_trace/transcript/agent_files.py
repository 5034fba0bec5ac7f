"""The agents' files of a session: their names and sizes.

A session can have tens of thousands, so nothing here opens a file: each folder is listed once, and name and size show
whether a file has anything new. Only files beside the transcript (2.0.x), which all sessions of a project share,
must be opened to find out which session they belong to.
"""

from __future__ import annotations

import os
import stat
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from cc_trace.transcript.blocks import text_field
from cc_trace.transcript.entries import AgentMeta

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


def agent_meta(data: bytes) -> AgentMeta:
    """Parse agent-<id>.meta.json. Missing or malformed fields are None."""
    raw = _object(data)
    return AgentMeta(
        kind=text_field(raw, "agentType") or text_field(raw, "subagent_type"),
        description=text_field(raw, "description"),
        tool_use_id=text_field(raw, "toolUseId"),
        parent_id=text_field(raw, "parentAgentId"),
        name=text_field(raw, "name") or text_field(raw, "agentName"),
    )


def journal_stages(data: bytes) -> dict[str, str]:
    """Parse a workflow's journal.jsonl into agent id -> name of its stage, where it is known."""
    stages: dict[str, str] = {}
    for line in data.splitlines():
        raw = _object(line)
        agent_id = text_field(raw, "agentId") or text_field(raw, "agent_id")
        stage = (
            text_field(raw, "label") or text_field(raw, "stage") or text_field(raw, "phase") or text_field(raw, "name")
        )
        if agent_id is not None and stage is not None:
            stages.setdefault(agent_id, stage)
    return stages


def _object(data: bytes) -> dict[str, Any]:
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return raw if isinstance(raw, dict) else {}


_PREFIX: Final = "agent-"
_SUFFIX: Final = ".jsonl"


class AgentFile(NamedTuple):
    """One agent's file, as listed. `name` is its path relative to the session's own folder of agents."""

    name: str
    path: str
    size: int
    written_ns: int
    shared: bool  # its folder also has other sessions' files


class Delivered(NamedTuple):
    """What was delivered of an agent's file, up to `size` bytes, and its place in the session's spans."""

    size: int
    turn: int = 0  # the first turn of the session that its work belongs to; 0: none
    offset: int = 0
    line: int = 0
    parent: str | None = None  # the file of its parent agent
    command: str | None = None  # the prompt's id, if the agent ran a slash command for the main thread
    waiting: bool = False  # it had running tasks of its own, and will continue


class Selection(NamedTuple):
    """Which files to read, and where the earliest changed one belongs. Those in `unread` need not be read."""

    files: list[AgentFile]
    unread: dict[str, Delivered]
    earliest: Delivered | None


def select(files: Sequence[AgentFile], delivered: Mapping[str, Delivered]) -> Selection:
    """Choose the files that changed, and those of their parent agents, without which they could not be placed.

    A file that has grown may continue a run of an early turn, so reading starts there.
    """
    changed = [file for file in files if (before := delivered.get(file.name)) is None or before.size != file.size]
    if len(changed) == len(files):
        return Selection(in_order(changed), {}, _earliest(changed, delivered))
    needed = {file.name for file in changed}
    for file in changed:
        before = delivered.get(file.name)
        while before is not None and before.parent is not None and before.parent not in needed:
            needed.add(before.parent)
            before = delivered.get(before.parent)
    reading = in_order(file for file in files if file.name in needed)
    unread = {name: before for name, before in delivered.items() if name not in needed}
    return Selection(reading, unread, _earliest(changed, delivered))


def _earliest(changed: Sequence[AgentFile], delivered: Mapping[str, Delivered]) -> Delivered | None:
    places = [before for file in changed if (before := delivered.get(file.name)) is not None and before.turn]
    return min(places, key=lambda before: before.offset, default=None)


def scan(transcript: Path) -> list[AgentFile]:
    """List the agents' files that may belong to a session, in the layouts of all versions, by name."""
    folder, session = transcript.parent, transcript.stem
    files = [*own_files(transcript), *shared_files(folder)]
    return in_order(file for file in files if file.name != f"../../{session}{_SUFFIX}")


def in_order(files: Iterable[AgentFile]) -> list[AgentFile]:
    """Return files sorted by name, so that every reader sees the same order."""
    return sorted(files, key=itemgetter(0))


def agent_paths(transcript: Path) -> list[Path]:
    """Return the paths of the agents' files that may belong to a session."""
    return [Path(file.path) for file in scan(transcript)]


def agent_id(name: str) -> str:
    """Return the agent id in a file's name."""
    return name.rpartition("/")[2].removeprefix(_PREFIX).removesuffix(_SUFFIX)


def own_files(transcript: Path) -> Iterator[AgentFile]:
    """Yield the agents' files in a session's own folder, including those of workflows."""
    return _below(os.path.join(transcript.parent, transcript.stem, "subagents"), "")  # noqa: PTH118


def shared_files(folder: Path) -> Iterator[AgentFile]:
    """Yield the agents' files beside the transcripts of a project, as in 2.0.x and in the specification's layout."""
    yield from _listed(os.fspath(folder), "../../", shared=True)
    yield from _listed(os.path.join(folder, "subagents"), "../../subagents/", shared=True)  # noqa: PTH118


def _below(folder: str, prefix: str) -> Iterator[AgentFile]:
    folders: list[tuple[str, str]] = []
    yield from _listed(folder, prefix, folders=folders)
    for path, name in folders:
        yield from _below(path, f"{prefix}{name}/")


def _listed(
    folder: str, prefix: str, *, shared: bool = False, folders: list[tuple[str, str]] | None = None
) -> Iterator[AgentFile]:
    """Yield the agents' files in one folder, and collect its subfolders."""
    try:
        entries = os.scandir(folder)
    except OSError:  # the folder does not exist
        return
    with entries:
        for entry in entries:
            name = entry.name
            if name.endswith(_SUFFIX):
                if name.startswith(_PREFIX) and name.isprintable():  # Claude Code writes no other names
                    try:
                        status = entry.stat()
                    except OSError:
                        continue
                    if not stat.S_ISREG(status.st_mode):
                        continue
                    row = prefix + name, entry.path, status.st_size, status.st_mtime_ns, shared
                    yield tuple.__new__(AgentFile, row)  # half the time of calling it
            elif folders is not None and not name.endswith(".json") and entry.is_dir(follow_symlinks=False):
                folders.append((entry.path, name))
