"""An interrupt as a request to stop after the current batch: what was sent is always recorded and reported."""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class StopFlag(Protocol):
    """Whether the user has asked to stop."""

    value: bool


@contextlib.contextmanager
def stop_on_interrupt(stop_flag: StopFlag) -> Iterator[None]:
    """Take the first interrupt as a request to stop after the current batch; a second one ends the process."""

    def request_stop(*_: object) -> None:
        stop_flag.value = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, request_stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def block_interrupts() -> Iterator[None]:
    """Defer interrupts until the end of the block. Processes started in it never get any."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
