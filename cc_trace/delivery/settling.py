"""Waiting, off the user's path, until the last reply is in the file: Claude Code writes it up to 156 ms after Stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

if TYPE_CHECKING:
    from cc_trace.delivery.runtime import Runtime
    from cc_trace.transcript import OpenTranscript

MAX_SECONDS: Final = 3.0
REST_SECONDS: Final = 0.3  # the writer drains every 100 ms
_POLL_SECONDS: Final = 0.03
_TAIL_BYTES: Final = 1 << 20


def wait_until_settled(transcript: OpenTranscript, last_message: str | None, runtime: Runtime) -> bool:
    """Wait until the reply is in the file and the file is at rest; return whether it came to that in time."""
    reply = None if last_message is None else orjson.dumps(last_message.strip())[1:-1]
    begin = runtime.clock()
    since, seen, found, whole = begin, (-1, 0), reply is None, False
    while True:
        now, current = runtime.clock(), _written(transcript)
        if current != seen:
            tail = _tail(transcript, 1 if found else _TAIL_BYTES)
            found = found or (reply is not None and reply in tail)
            whole = tail.endswith(b"\n")
            seen, since = current, now
        if found and whole and now - since >= REST_SECONDS:
            return True
        if now - begin >= MAX_SECONDS:
            return False
        runtime.sleep(_POLL_SECONDS)


def _written(transcript: OpenTranscript) -> tuple[int, int]:
    """Return the size and the time of the last write; zeros where there is no file yet."""
    try:
        status = transcript.stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


def _tail(transcript: OpenTranscript, length: int) -> bytes:
    try:
        return transcript.tail(length)
    except OSError:
        return b""
