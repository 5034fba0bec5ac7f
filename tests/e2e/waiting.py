"""Waiting for something that can be seen, never for an amount of time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LONG_SECONDS: Final = 60.0  # for what takes a second on an idle machine
_POLL_SECONDS: Final = 0.05


def until(
    seen: Callable[[], object], what: str, seconds: float = LONG_SECONDS, describe: Callable[[], str] = str
) -> None:
    """Wait until something is so; fail with what it was, and with a description of how things stand."""
    if not within(seen, seconds):
        message = f"{seconds:.0f} s passed, and not yet: {what}\n{describe()}"
        raise TimeoutError(message)


def within(seen: Callable[[], object], seconds: float) -> bool:
    """Tell whether something came to be so in time."""
    deadline = time.monotonic() + seconds
    while not seen():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
