"""The log in the state folder: what was sent, and what failed and why. Never content, never a key."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from cc_trace.escapes import escaped
from cc_trace.files import open_private

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES: Final = 1_000_000


class Log:
    """Appends lines. A full file is renamed to `cc-trace.log.1`, replacing an earlier one."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "cc-trace.log"

    def write(self, message: str) -> None:
        """Append one line. Errors are ignored: a log that cannot be written must not stop deliveries."""
        line = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ} {os.getpid()} {escaped(' '.join(message.split()))}\n"
        with contextlib.suppress(OSError):
            self._rotate()
            descriptor = open_private(self._path, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(descriptor, line.encode("utf-8", "replace"))
            finally:
                os.close(descriptor)

    def _rotate(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._path.stat(follow_symlinks=False).st_size > MAX_BYTES:
                self._path.replace(self._path.with_name("cc-trace.log.1"))
