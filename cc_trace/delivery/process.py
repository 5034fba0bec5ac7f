"""A process of this machine: whether it is still the same one, and still runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final, NamedTuple

MAX_PID: Final = (1 << 31) - 1
_ENDED: Final = ("Z", "X")  # zombies: the process has ended, and its parent has not collected it


class Process(NamedTuple):
    """A process: its id and, since ids are reused, its start time; None if that is unknown."""

    pid: int
    start: str | None = None

    @classmethod
    def parse(cls, pid: object, start: object) -> Process | None:
        """Return the process that untrusted values name; None if they name none."""
        if type(pid) is not int or not 0 < pid <= MAX_PID:
            return None
        return cls(pid, start if isinstance(start, str) else None)

    @classmethod
    def running(cls, pid: int) -> Process:
        """Return the process that has an id now. If there is none, no later process with this id will equal it."""
        stat = _stat(pid)
        return cls(pid, stat[1] if stat is not None else "" if cls(pid).is_alive is False else None)

    @property
    def is_alive(self) -> bool | None:
        """Return whether the process still runs; None if the system cannot tell."""
        if sys.platform.startswith("linux") and (stat := _stat(self.pid)) is not None:
            state, start = stat
            return state not in _ENDED and self.start in (None, start)
        if self.start == "":
            return False
        if sys.platform == "win32":  # os.kill(pid, 0) would interrupt or end the process there
            return None
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except OSError:  # it exists and belongs to another user
            return True
        return True


def _stat(pid: int) -> tuple[str, str] | None:
    """Return the state and the start time of a process, in ticks since boot (proc(5)); None if unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return fields[0], fields[19]
    except (OSError, IndexError):
        return None
