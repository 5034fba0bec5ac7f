"""How long a worker waits for the last reply to be written, with a simulated clock."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cc_trace.delivery.quiet import MAX_SECONDS, REST_SECONDS, wait_until_quiet
from cc_trace.delivery.runtime import Runtime
from cc_trace.transcript import OpenTranscript

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOOK = 1_800_000_000.0  # when the hook ran
REPLY = b'{"text":"Done."}\n'


class Worker:
    """A worker that reads a transcript so many seconds after its hook; writes have the time of the hook's clock."""

    def __init__(self, folder: Path, *, started: float) -> None:
        self.path = folder / "a.jsonl"
        self.now = HOOK + started
        self._begin = self.now
        self._later: list[tuple[float, Callable[[], None]]] = []
        self.clock_set_back = 0.0

    def write(self, data: bytes, at: float) -> None:
        """Append something, so many seconds after the hook, which may be before or while the worker waits."""
        if HOOK + at > self.now:
            self._later.append((HOOK + at, lambda: self.write(data, at)))
            return
        with self.path.open("ab") as file:
            file.write(data)
        os.utime(self.path, (HOOK + at, HOOK + at))

    def wait(self, last_message: str | None = "Done.", hook: float = 0.0) -> tuple[bool, float]:
        """Return whether it settled, and after how many seconds."""
        with OpenTranscript(self.path) as transcript:
            settled = wait_until_quiet(
                transcript, last_message, Runtime(lambda: self.now, self._sleep), int((HOOK + hook) * 1e9)
            )
        return settled, round(self.now - self._begin, 2)

    def _sleep(self, seconds: float) -> None:
        self.now += -self.clock_set_back or seconds
        for each in [each for each in self._later if each[0] <= self.now]:
            self._later.remove(each)
            each[1]()


def test_quiet_file_needs_no_wait(tmp_path: Path) -> None:
    worker = Worker(tmp_path, started=0.4)
    worker.write(REPLY, at=-0.1)
    assert worker.wait() == (True, 0.0)


def test_worker_start_time_counts_as_quiet(tmp_path: Path) -> None:
    worker = Worker(tmp_path, started=0.2)
    worker.write(REPLY, at=0.0)
    settled, waited = worker.wait()
    assert settled
    assert REST_SECONDS - 0.2 <= waited < REST_SECONDS - 0.1


@pytest.mark.parametrize("last_message", ["Done.", None], ids=["said before", "not told"])
def test_old_equal_text_does_not_end_the_wait(tmp_path: Path, last_message: str | None) -> None:
    """The file has been quiet for a minute, and an earlier turn has the same text; the reply is written after Stop."""
    worker = Worker(tmp_path, started=0.05)
    worker.write(REPLY, at=-60.0)
    worker.write(REPLY, at=0.156)
    settled, waited = worker.wait(last_message)
    assert settled
    assert waited >= 0.1 + REST_SECONDS
    assert worker.path.read_bytes() == REPLY * 2


def test_torn_line_extends_the_wait(tmp_path: Path) -> None:
    worker = Worker(tmp_path, started=2.0)
    worker.write(REPLY + b'{"to', at=-5.0)
    worker.write(b'rn":1}\n', at=3.0)
    settled, waited = worker.wait()
    assert settled
    assert waited >= 1.0 + REST_SECONDS
    assert not Worker(tmp_path, started=60.0).wait("never said")[0]


def test_wait_ends_after_max_seconds(tmp_path: Path) -> None:
    worker = Worker(tmp_path, started=5.0)
    worker.write(b'{"text":"Else."}\n', at=-5.0)
    settled, waited = worker.wait()
    assert not settled
    assert MAX_SECONDS <= waited < MAX_SECONDS + 0.1


def test_future_mtime_does_not_extend_the_wait(tmp_path: Path) -> None:
    """The clock was set back, or a file server's clock is ahead."""
    worker = Worker(tmp_path, started=0.0)
    worker.write(REPLY, at=-1.0)
    os.utime(worker.path, (HOOK + 3600, HOOK + 3600))
    settled, waited = worker.wait(hook=1800.0)
    assert settled
    assert REST_SECONDS <= waited < REST_SECONDS + 0.1


def test_clock_set_back_ends_the_wait(tmp_path: Path) -> None:
    worker = Worker(tmp_path, started=5.0)
    worker.write(b'{"text":"Else."}\n', at=-5.0)
    worker.clock_set_back = 3600.0
    assert worker.wait() == (False, -3600.0)
