"""Waiting, off the user's path, until the last reply is in the file: Claude Code writes it up to 156 ms after Stop.

Quiet counts from the last write or from the hook, whichever was later: a worker that took a while to start has waited
already. It never counts from the last write alone, since the reply may be about to follow a tool result that is minutes
old, and its text may have stood in the file before.
"""

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


def wait_until_settled(
    transcript: OpenTranscript, last_message: str | None, runtime: Runtime, hook_ns: int | None = None
) -> bool:
    """Wait until the reply is in the file and the file is at rest; return whether it came to that in time.

    `hook_ns`: when the hook ran; None counts from now.
    """
    reply = None if last_message is None else orjson.dumps(last_message.strip())[1:-1]
    begin = runtime.clock()
    since = begin if hook_ns is None else hook_ns / 1e9
    seen, found, whole = (-1, 0), reply is None, False
    while True:
        now, current = runtime.clock(), _written(transcript)
        if current != seen:
            tail = _tail(transcript, 1 if found else _TAIL_BYTES)
            found = found or (reply is not None and reply in tail)
            whole = tail.endswith(b"\n")
            # Of what was there already its time tells; what comes while we look on was written now, whatever the clock
            # of a file server says.
            since = max(since, current[1] / 1e9) if seen[0] < 0 else now
            seen = current
        since = min(since, now)  # a time that is still to come is of another clock
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
