"""How long to leave a destination alone that failed: one small file each, shared by all sessions of this machine.

So 50 pending sessions do not each try a backend that is down, and many machines do not come back at one moment: every
wait has a random part. A wait holds for hooks and sweeps; a command that a user types tries at once.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from cc_trace.files import read_regular, write_private

if TYPE_CHECKING:
    from pathlib import Path

_STEP_SECONDS: Final = 5.0
_MAX_SECONDS: Final = 300.0
_MAX_STEPS: Final = 10
_LONGEST_SECONDS: Final = 86_400.0 * 1.1  # a time further ahead was written before the clock was set back


@dataclass(frozen=True, slots=True)
class Wait:
    """Why and until when a destination is left alone."""

    failures: int  # in a row
    not_before: float  # unix seconds
    error: str


def wait_seconds(failures: int, after_seconds: float | None, jitter: float) -> float:
    """Return how long to wait after so many failures: 0, then 5, 15, 35 … 300 seconds, half of it random.

    What a backend asks for itself is waited for, and up to a tenth more. `jitter` is a random number from 0 to 1.
    """
    if after_seconds:
        return after_seconds * (1 + jitter / 10)
    doubled = _STEP_SECONDS * ((1 << min(failures - 1, _MAX_STEPS)) - 1)
    return min(doubled, _MAX_SECONDS) * (1 + jitter) / 2


class Backoff:
    """The folder of those files. A destination goes by its address: one name can stand for several."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def waiting(self, address: str, now: float) -> Wait | None:
        """Return why a destination is to be left alone now, None where it is not."""
        wait = self._read(address)
        return wait if wait is not None and 0 < wait.not_before - now <= _LONGEST_SECONDS else None

    def failed(self, address: str, now: float, error: str, after_seconds: float | None, jitter: float) -> None:
        """Note one more failure."""
        before = self._read(address)
        failures = 1 + (before.failures if before is not None else 0)
        wait = Wait(failures, now + wait_seconds(failures, after_seconds, jitter), error)
        write_private(self._path(address), json.dumps(asdict(wait)).encode())

    def recovered(self, address: str) -> None:
        """Forget its failures: it answered."""
        self._path(address).unlink(missing_ok=True)

    def _path(self, address: str) -> Path:
        return self._folder / hashlib.sha256(address.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def _read(self, address: str) -> Wait | None:
        try:
            raw = json.loads(read_regular(self._path(address), follow=False))
            return Wait(int(raw["failures"]), float(raw["not_before"]), str(raw["error"]))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
