"""How long to wait before retrying a destination that failed: one small file each, shared by all sessions.

So 50 pending sessions do not each try a backend that is down. Every wait has a random part, so that many machines do
not return at the same moment. Hooks and sweeps wait; commands that a user runs do not.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final, NamedTuple

from cc_trace.files import read_regular, write_private

if TYPE_CHECKING:
    from pathlib import Path

_STEP_SECONDS: Final = 5.0
_MAX_SECONDS: Final = 300.0
_MAX_STEPS: Final = 10
MAX_PLAUSIBLE_WAIT_SECONDS: Final = 86_400.0 * 1.1  # the longest Retry-After, and a tenth; else the clock was changed


class Wait(NamedTuple):
    """Why, and until when, a destination is not retried."""

    failures: int  # in a row
    not_before: float  # unix seconds
    error: str


def wait_seconds(failures: int, after_seconds: float | None, jitter: float) -> float:
    """Return how long to wait after a number of failures: 0, then 5, 15, 35 … 300 seconds, half of it random.

    With Retry-After: that long, and up to a tenth more. `jitter` is a random number from 0 to 1.
    """
    if after_seconds:
        return after_seconds * (1 + jitter / 10)
    doubled = _STEP_SECONDS * ((1 << min(failures - 1, _MAX_STEPS)) - 1)
    return min(doubled, _MAX_SECONDS) * (1 + jitter) / 2


class Backoff:
    """The folder of those files. The key is a destination's address, as projects can share a name but not a backend."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def current_wait(self, address: str, now: float) -> Wait | None:
        """Return how long not to retry a destination, and why; None if it may be tried."""
        wait = self._read(address)
        return wait if wait is not None and 0 < wait.not_before - now <= MAX_PLAUSIBLE_WAIT_SECONDS else None

    def record_failure(self, address: str, now: float, error: str, after_seconds: float | None, jitter: float) -> None:
        """Record one more failure."""
        before = self._read(address)
        failures = 1 + (before.failures if before is not None else 0)
        wait = Wait(failures, now + wait_seconds(failures, after_seconds, jitter), error)
        write_private(self._path(address), json.dumps(wait._asdict()).encode())

    def clear(self, address: str) -> None:
        """Forget the failures of a destination that responded."""
        self._path(address).unlink(missing_ok=True)

    def _path(self, address: str) -> Path:
        return self._folder / hashlib.sha256(address.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def _read(self, address: str) -> Wait | None:
        try:
            raw = json.loads(read_regular(self._path(address), follow=False))
            return Wait(max(0, int(raw["failures"])), float(raw["not_before"]), str(raw["error"]))
        except (OSError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
            return None
