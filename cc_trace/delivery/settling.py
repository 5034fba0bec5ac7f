"""Waiting, off the user's path, until the last reply is in the file: Claude Code writes it up to 156 ms after Stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from cc_trace.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MAX_SECONDS: Final = 3.0
REST_SECONDS: Final = 0.3  # the writer drains every 100 ms
_POLL_SECONDS: Final = 0.03
_TAIL_BYTES: Final = 1 << 20


def wait_until_settled(
    path: Path,
    last_message: str | None,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    max_seconds: float = MAX_SECONDS,
) -> bool:
    """Wait until the reply is in the file and the file is at rest; return whether it came to that in time."""
    wanted = None if last_message is None else orjson.dumps(last_message.strip())[1:-1]
    begin = clock()
    size, since, found = -1, begin, wanted is None
    while True:
        now = clock()
        current = _size(path)
        if current != size:
            found = found or (wanted is not None and wanted in _tail(path, current))
            size, since = current, now
        if found and size > 0 and now - since >= REST_SECONDS and _ends_with_newline(path):
            return True
        if now - begin >= max_seconds:
            return False
        sleep(_POLL_SECONDS)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _tail(path: Path, size: int, length: int = _TAIL_BYTES) -> bytes:
    try:
        with open_regular(path) as file:
            file.seek(max(0, size - length))
            return file.read()
    except OSError:
        return b""


def _ends_with_newline(path: Path) -> bool:
    return _tail(path, _size(path), 1) == b"\n"
