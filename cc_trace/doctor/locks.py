"""Which sessions are being worked on now, by which process, since when."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace.doctor.check import counted, listed, moment, mtime, ok, warning
from cc_trace.paths import is_session_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cc_trace.doctor.check import Check, Subject

_LONG_SECONDS: Final = 300.0
_KERNEL_LOCKS: Final = Path("/proc/locks")


def locks(subject: Subject) -> Iterator[Check]:
    """Report which processes hold a session's lock, and for how long: a worker that hangs blocks all others."""
    folder = subject.states.folder / "locks"
    if not folder.is_dir():
        return
    held = [path for path in folder.glob("*.lock") if is_session_id(path.stem) and subject.states.is_locked(path.stem)]
    holders = _holders() if held else {}
    long: list[tuple[str, int | None, float]] = []
    shown: list[str] = []
    for path in held:
        pid = holders.get(path.stat().st_ino)
        since = _since(path, pid)
        who = f"process {pid}" if pid is not None else "an unknown process"
        shown.append(f"{path.stem} by {who}" + (f" since {moment(since)}" if since is not None else ""))
        if since is not None and subject.now - since > _LONG_SECONDS:
            long.append((path.stem, pid, since))
    if long:
        session, pid, _ = long[0]
        end = f"check it with `ps -fp {pid}`, then end it: kill {pid}" if pid is not None else f"lsof {folder}/*.lock"
        yield warning("locks", f"held for more than 5 minutes: {listed(shown)}", f"{end} (session {session})")
    elif held:
        yield ok("locks", f"{counted(len(held), 'session')} being worked on: {listed(shown)}")
    else:
        yield ok("locks", "none held")


def _holders() -> dict[int, int]:
    """Return the process that holds a file's lock, by the file's inode; empty where the system does not tell."""
    try:
        rows = [line.split() for line in _KERNEL_LOCKS.read_text().splitlines()]
    except OSError:
        return {}
    # 1: FLOCK ADVISORY WRITE 1234 fe:01:5678 0 EOF. Who waits has an arrow; a process of another container has no id.
    found = [(row[5].rpartition(":")[2], row[4]) for row in rows if len(row) > 5 and row[1] == "FLOCK"]  # noqa: PLR2004
    return {int(inode): int(pid) for inode, pid in found if inode.isdecimal() and pid.isdecimal() and pid != "0"}


def _since(path: Path, pid: int | None) -> float | None:
    """Return since when at most a lock is held: not before its process began, nor before its file was last touched."""
    began = _began(pid) if pid is not None else None
    return None if began is None else max(began, mtime(path))


def _began(pid: int) -> float | None:
    """Return when a process began, as Linux tells it: in ticks after the start of the system."""
    try:
        booted = next(line.split()[1] for line in Path("/proc/stat").read_text().splitlines() if line[:6] == "btime ")
        # The second field is the program's name, in parentheses, and can hold anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(booted) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, StopIteration, ValueError, IndexError):
        return None


CHECKS: Final = (locks,)
