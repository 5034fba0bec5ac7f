"""The processes that sessions started (Linux): found by descent, by the home in their environment, by their folder."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_PR_SET_CHILD_SUBREAPER: Final = 36  # linux/prctl.h


def adopt_orphans() -> None:
    """Become the parent of every process below this one whose own parent ends, so that none gets out of sight."""
    assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def descendants() -> dict[int, str]:
    """Return the processes below this one that have not ended; their commands."""
    parents = dict(_parents())
    found: dict[int, str] = {}
    below = {os.getpid()}
    while below := {pid for pid, parent in parents.items() if parent in below}:
        found |= {pid: _command(pid) for pid in below}
    return found


def started_in(folder: Path) -> dict[int, str]:
    """Return the running processes whose home or working folder is this one, or lies below it; their commands."""
    found = {}
    for process in _processes():
        try:
            if _belongs(process, folder):
                found[int(process.name)] = _command(int(process.name))
        except OSError:
            continue  # it has ended, or is another user's
    return found


def _processes() -> Iterator[Path]:
    return (entry for entry in Path("/proc").iterdir() if entry.name.isdecimal())


def _parents() -> Iterator[tuple[int, int]]:
    """Yield every process that has not ended, with its parent."""
    for process in _processes():
        try:
            state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state not in "ZX":
            yield int(process.name), int(parent)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _belongs(process: Path, folder: Path) -> bool:
    homes = [each[5:] for each in (process / "environ").read_bytes().split(b"\0") if each.startswith(b"HOME=")]
    return any(Path(os.fsdecode(home)).is_relative_to(folder) for home in homes) or (
        process / "cwd"
    ).readlink().is_relative_to(folder)
