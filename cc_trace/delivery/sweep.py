"""Finding sessions with undelivered turns: killed, interrupted, or finished while the backend was down.

They are found by comparing the sizes and times of files with the index of states, without reading a transcript or a
state. Sessions without a state from before the installation are left alone; sessions with one count, however old.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import orjson

from cc_trace.delivery.agent_deliveries import AgentListing
from cc_trace.delivery.index import INVALID
from cc_trace.paths import is_session_id
from cc_trace.transcript import first_cwd

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

    from cc_trace.delivery.cursor import SessionState
    from cc_trace.delivery.index import IndexRow
    from cc_trace.delivery.state import StateFolder
    from cc_trace.settings import HookEnvironment

MAX_SESSIONS: Final = 20  # sessions that a worker tries per sweep
_AGENTS_NS: Final = 2 * 86_400 * 10**9  # how long after a session's last line a worker still checks its agents' files
MAX_UNKNOWN: Final = 200  # sessions without a state of which a worker looks up the project


# Returns a session's destinations, given its project and its hook's environment.
DestinationsOf: TypeAlias = "Callable[[str | None, HookEnvironment | None], Sequence[str] | None]"


class ListedTranscript(NamedTuple):
    """A transcript as a listing of its folder shows it. There are thousands."""

    path: str
    size: int
    mtime_ns: int
    may_have_agents: bool  # there are folders or files beside it that may be its agents'


def pending_sessions(
    states: StateFolder,
    config_dir: Path,
    destinations_of: DestinationsOf,
    since_ns: int | None,
    *,
    include_misconfigured: bool = False,
    max_unknown: int | None = None,
    transcripts: Mapping[str, ListedTranscript] | None = None,
    rows: Mapping[str, IndexRow] | None = None,
) -> Iterator[Path]:
    """Yield the transcripts that may have undelivered turns; those that have waited longest come first.

    So a backend that is down does not starve the sessions of another one. `destinations_of` returns no names if tracing
    is off for a session, and None if its settings are wrong; the latter are only yielded if `include_misconfigured`.
    Sessions without a state count if they were written to after `since_ns`; none does if that is None. At most
    `max_unknown` of them are considered: the newest, and a random choice of the others. `transcripts` and `rows`: those
    to look at, and the index, if the caller has read them.
    """
    names_of = _DestinationCache(destinations_of)
    agents_since_ns = 0 if max_unknown is None else time.time_ns() - _AGENTS_NS
    listed = transcripts_by_session(config_dir, states.streams) if transcripts is None else transcripts
    with_state, without_state = _candidates(
        listed,
        states.index.rows() if rows is None else rows,
        AgentListing(states),
        names_of,
        since_ns,
        agents_since_ns,
        include_misconfigured=include_misconfigured,
    )
    without_destinations: list[Path] = []
    for path in map(Path, _sample(without_state, max_unknown)):
        if not is_main_transcript(path) or states.is_suppressed(path.stem):
            continue
        names = names_of(first_cwd(path), None)
        if names:
            yield path
        elif names is not None or include_misconfigured:
            without_destinations.append(path)
    for _, _, path in sorted(with_state):
        if is_main_transcript(path) and not states.is_suppressed(path.stem):
            yield path
    yield from without_destinations


def _candidates(
    transcripts: Mapping[str, ListedTranscript],
    rows: Mapping[str, IndexRow],
    agents: AgentListing,
    names_of: _DestinationCache,
    since_ns: int | None,
    agents_since_ns: int,
    *,
    include_misconfigured: bool,
) -> tuple[list[tuple[float, int, Path]], list[tuple[int, str]]]:
    """Compare each transcript with its row in the index. One pass: a call for each would take as long again.

    Return the sessions that may have undelivered turns: those with a state, each with the time it has waited since and
    its negated modification time, for sorting; and those without one, each with its modification time.
    """
    with_state: list[tuple[float, int, Path]] = []
    without_state: list[tuple[int, str]] = []
    # (project, environment, complete destinations) -> whether these include all that are configured, and any of them.
    coverage: dict[tuple[str | None, str | None, frozenset[str]], tuple[bool, bool]] = {}
    for id_, (name, size, mtime_ns, may_have_agents) in transcripts.items():
        row, recent = rows.get(id_), since_ns is not None and mtime_ns >= since_ns
        if row is None:
            if recent:
                without_state.append((mtime_ns, name))
            continue
        if size == row.size and not row.pending:  # true for most
            key = row.cwd, row.environment, row.complete
            if key not in coverage:
                destinations = names_of(row.cwd, row.environment) or frozenset([""])
                coverage[key] = destinations <= row.complete, bool(destinations & row.complete)
            has_all, has_some = coverage[key]
            check_agents = may_have_agents and mtime_ns >= agents_since_ns and has_some
            if check_agents and agents.total_bytes(Path(name)) != row.agent_bytes:
                with_state.append((row.waiting_since, -mtime_ns, Path(name)))
                continue
            if has_all:
                continue
        if row.size == INVALID or _row_is_pending(
            row, size, names_of, recent=recent, include_misconfigured=include_misconfigured
        ):
            with_state.append((row.waiting_since, -mtime_ns, Path(name)))
    return with_state, without_state


def _sample(candidates: list[tuple[int, str]], limit: int | None) -> list[str]:
    paths = [path for _, path in sorted(candidates, reverse=True)]
    if limit is None or len(paths) <= limit:
        return paths
    import random  # noqa: PLC0415  (few machines have so many)

    half = limit // 2
    return [*paths[:half], *random.sample(paths[half:], limit - half)]


class _DestinationCache:
    """Caches the destinations by project and hook's environment."""

    def __init__(self, destinations_of: DestinationsOf) -> None:
        self._destinations_of = destinations_of
        self._cache: dict[tuple[str | None, str | None], frozenset[str] | None] = {}

    def __call__(self, project: str | None, environment: str | None) -> frozenset[str] | None:
        key = project, environment
        if key not in self._cache:
            names = self._destinations_of(project, None if environment is None else orjson.loads(environment))
            self._cache[key] = None if names is None else frozenset(names)
        return self._cache[key]


def _row_is_pending(
    row: IndexRow, size: int, names_of: _DestinationCache, *, recent: bool, include_misconfigured: bool
) -> bool:
    """Return whether a session may have something new for its project's destinations.

    For a destination that never got anything of the session, it counts only if it is recent.
    """
    grown = size != row.size
    if not grown and not row.pending and not recent:
        return False
    names = names_of(row.cwd, row.environment)
    if names is None:
        return include_misconfigured
    if not names:
        return False
    if names & row.pending or (recent and not names <= row.complete):
        return True
    return grown and bool(recent or names & row.complete)


def transcripts_by_session(
    config_dir: Path, streams: Path | None = None, *, skip: Container[str] = ()
) -> dict[str, ListedTranscript]:
    """Return each session's transcript, with `streams` also those that were made from the output of runs.

    If two folders have the same id, the newer file counts, and Claude Code's own before one of ours. `skip`: sessions
    whose files need not be looked at.

    This looks at each of 10,000 files once a minute, so names are not checked here; callers use `is_main_transcript`
    for the few files that they read.
    """
    newest: dict[str, ListedTranscript] = {}
    for folder in (*_folders(config_dir), *([] if streams is None else [str(streams)])):
        is_from_claude_code = streams is None or folder != str(streams)
        with contextlib.suppress(OSError), os.scandir(folder) as entries:  # missing, or not a folder
            listed, others = [], set()
            for entry in entries:
                name = entry.name
                if name[-6:] != ".jsonl" or name[:6] == "agent-":
                    others.add(name[:6] if name[-6:] == ".jsonl" else name)
                    continue
                if name[:-6] in skip:
                    continue
                try:
                    status = entry.stat()
                except OSError:
                    continue
                listed.append((name[:-6], entry.path, status.st_size, status.st_mtime_ns))
            shared = "agent-" in others or "subagents" in others
            for id_, path, size, mtime_ns in listed:
                if id_ not in newest or (is_from_claude_code and mtime_ns > newest[id_].mtime_ns):
                    newest[id_] = ListedTranscript(path, size, mtime_ns, shared or id_ in others)
    return newest


def _folders(config_dir: Path) -> Iterator[str]:
    """Yield the folders where Claude Code keeps transcripts, in all layouts."""
    projects = os.path.join(config_dir, "projects")  # noqa: PTH118  (as above)
    yield projects
    with contextlib.suppress(OSError), os.scandir(projects) as entries:
        yield from [entry.path for entry in entries if not entry.name.endswith(".jsonl")]
    yield os.path.join(config_dir, "sessions")  # noqa: PTH118


def state_is_pending(
    state: SessionState | None,
    size: int,
    destinations: Sequence[str],
    agent_bytes: Callable[[], int] | None = None,
) -> bool:
    """Return whether a session of this size may have something that one of these destinations does not have.

    `agent_bytes` returns the total size of its agents' files; with None they are not checked.
    """
    if state is None or size != state.size:
        return True
    for name in destinations:
        cursor = state.destinations.get(name)
        if cursor is None or cursor.pending:
            return True
    return bool(destinations) and agent_bytes is not None and agent_bytes() != state.agent_bytes


def main_transcripts(config_dir: Path, streams: Path | None = None) -> Iterator[Path]:
    """Yield the main transcripts in Claude Code's folder, in all layouts, then those made from the output of runs."""
    for pattern in ("projects/*/*.jsonl", "projects/*.jsonl", "sessions/*.jsonl"):
        yield from filter(is_main_transcript, config_dir.glob(pattern))
    if streams is not None:
        yield from filter(is_main_transcript, streams.glob("*.jsonl"))


def is_main_transcript(path: Path) -> bool:
    """Return whether a file is a session's main transcript, not an agent's."""
    has_session_name = path.suffix == ".jsonl" and not path.name.startswith("agent-") and is_session_id(path.stem)
    return has_session_name and path.is_file()
