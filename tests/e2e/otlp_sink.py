"""The backend that traces are sent to."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from backend import HttpBackend
from waiting import LONG_SECONDS

if TYPE_CHECKING:
    from backend import Behaviour, Request


class Sink(HttpBackend):
    """Answers at once, unless it is told to hold its answers: until then it stores nothing."""

    def __init__(self) -> None:
        self.delay_seconds = 0.0  # before every answer
        self._free = threading.Event()
        self._free.set()
        super().__init__()

    def hold(self) -> None:
        """Answer nobody any more."""
        self._free.clear()

    def release(self) -> None:
        """Answer those who wait, and whoever comes."""
        self._free.set()

    def close(self) -> None:
        """Let nobody wait who would keep it from closing."""
        self.release()
        super().close()

    def _answer(self, request: Request, doing: Behaviour) -> bytes:
        self._free.wait(LONG_SECONDS)
        time.sleep(self.delay_seconds)
        return super()._answer(request, doing)
