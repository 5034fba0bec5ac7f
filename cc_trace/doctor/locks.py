"""Which sessions are being synced now, by which process, since when."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace.doctor.check import listed, moment, mtime, ok, warning
from cc_trace.paths import is_session_id
from cc_trace.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cc_trace.doctor.check import Check, Subject

_LONG_SECONDS: Final = 300.0
_KERNEL_LOCKS: Final = Path("/proc/locks")


def locks(subject: Subject) -> Iterator[Check]:
    """Report which processes hold a session's lock, and since when: a worker that hangs blocks all others."""
    folder = subject.states.folder / "locks"
    if not folder.is_dir():
        return
    held = [path for path in folder.glob("*.lock") if is_session_id(path.stem) and subject.states.is_locked(path.stem)]
    if not held:
        yield ok("locks", "none held")
        return
    holders = _holders()
    pids = {path: holders.get(path.stat().st_ino) for path in held}
    # Whoever takes a lock updates its file's time.
    found = listed(f"{path.stem} by process {pids[path] or '(unknown)'} since {moment(mtime(path))}" for path in held)
    long = next((path for path in held if mtime(path) < subject.now - _LONG_SECONDS), None)
    if long is None:
        yield ok("locks", f"{plural(len(held), 'session')} being synced: {found}")
    else:
        pid = pids[long]
        fix = f"lsof {folder}/*.lock" if pid is None else f"check it with `ps -fp {pid}`, then end it: kill {pid}"
        yield warning("locks", f"held for more than 5 minutes: {found}", f"{fix} (session {long.stem})")


def _holders() -> dict[int, int]:
    """Return the process that holds a file's lock, by the file's inode; empty where the system does not tell."""
    try:
        rows = [line.split() for line in _KERNEL_LOCKS.read_text().splitlines()]
    except OSError:
        return {}
    # 1: FLOCK ADVISORY WRITE 1234 fe:01:5678 0 EOF. Who waits has an arrow; a process of another container has no id.
    found = [(row[5].rpartition(":")[2], row[4]) for row in rows if len(row) > 5 and row[1] == "FLOCK"]  # noqa: PLR2004
    return {int(inode): int(pid) for inode, pid in found if inode.isdecimal() and pid.isdecimal() and pid != "0"}


CHECKS: Final = (locks,)
