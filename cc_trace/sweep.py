"""Sessions that were left behind: killed, interrupted, or the backend was down at their end.

Found by size and time against the state, without reading a transcript. Bounded in number; what was before the
installation is history and not touched.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from cc_trace.openings import first_cwd
from cc_trace.transcript import is_session_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from cc_trace.progress import SessionState
    from cc_trace.state import States

MAX_SESSIONS: Final = 20  # that a worker tries
MAX_FILES: Final = 5000


def left_behind(
    states: States,
    config_dir: Path,
    destinations_of: Callable[[str | None], Sequence[str] | None],
    since_ns: int,
    *,
    wrong: bool = False,
) -> list[Path]:
    """Return the transcripts that may hold undelivered turns, those first that have waited longest.

    So a backend that is down does not keep the sessions of another from their turn. `destinations_of` a project: none
    where it is off, None where its settings are wrong; the latter are returned if `wrong`.
    """
    found: list[tuple[float, int, Path]] = []
    for changed_ns, size, path in sorted(_newest(config_dir, since_ns), reverse=True)[:MAX_FILES]:
        if states.left_out(path.stem):
            continue
        state = states.peek(path.stem)
        names = destinations_of(state.cwd if state is not None else first_cwd(path))
        if wrong if names is None else is_behind(state, size, names):
            found.append((_next_turn(state, names), -changed_ns, path))
    return [path for _, _, path in sorted(found)]


def _newest(config_dir: Path, since_ns: int) -> Iterable[tuple[int, int, Path]]:
    """Return time, size and path of each session. An id can stand in two folders; the newer file is the session."""
    newest: dict[str, tuple[int, int, Path]] = {}
    for path in main_transcripts(config_dir):
        try:
            status = path.stat()
        except OSError:
            continue
        if status.st_mtime_ns >= since_ns and status.st_mtime_ns > newest.get(path.stem, (-1, 0, path))[0]:
            newest[path.stem] = (status.st_mtime_ns, status.st_size, path)
    return newest.values()


def _next_turn(state: SessionState | None, destinations: Sequence[str] | None) -> float:
    """Return when a session was tried last, or may be next: who waits longest is first, who need not be tried last."""
    if not destinations:
        return math.inf
    tried = state.destinations.values() if state is not None else ()
    return max((max(progress.time or 0.0, progress.not_before or 0.0) for progress in tried), default=0.0)


def is_behind(state: SessionState | None, size: int, destinations: Sequence[str]) -> bool:
    """Tell whether a session of this size may hold something that one of these destinations does not have."""
    if state is None or size != state.size:
        return True
    for name in destinations:
        progress = state.destinations.get(name)
        if progress is None or progress.time is None:  # none of its deliveries came to an end
            return True
        if progress.behind or progress.unfinished or progress.error is not None or progress.intent:
            return True
    return False


def main_transcripts(config_dir: Path) -> Iterator[Path]:
    """Yield the main transcripts below Claude Code's folder, in all layouts."""
    for pattern in ("projects/*/*.jsonl", "projects/*.jsonl", "sessions/*.jsonl"):
        yield from filter(is_main, config_dir.glob(pattern))


def is_main(path: Path) -> bool:
    """Tell a session's own transcript from those of its agents."""
    named = path.suffix == ".jsonl" and not path.name.startswith("agent-") and is_session_id(path.stem)
    return named and path.is_file()
