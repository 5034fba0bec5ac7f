"""Waiting, in the background, until the last reply is in the file: Claude Code writes it up to 156 ms after Stop.

Quiet time counts from the last write or from the hook, whichever was later, so the time a worker takes to start counts.
It never counts from the last write alone: the reply may be about to follow a tool result that is minutes old, and an
equal text may be in the file already.
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


def wait_until_quiet(
    transcript: OpenTranscript, last_message: str | None, runtime: Runtime, hook_ns: int | None = None
) -> bool:
    """Wait until the reply is in the file and the file is quiet; return False if that took too long.

    `hook_ns`: when the hook ran; None means now.
    """
    reply = None if last_message is None else orjson.dumps(last_message.strip())[1:-1]
    start = runtime.clock()
    quiet_since = start if hook_ns is None else hook_ns / 1e9
    previous, has_reply, is_whole = (-1, 0), reply is None, False
    while True:
        now, current = runtime.clock(), _written(transcript)
        if current != previous:
            tail = _tail(transcript, 1 if has_reply else _TAIL_BYTES)
            has_reply = has_reply or (reply is not None and reply in tail)
            is_whole = tail.endswith(b"\n")
            # The first time comes from the file. Later writes count from when we see them, whatever the clock of a file
            # server says.
            quiet_since = max(quiet_since, current[1] / 1e9) if previous[0] < 0 else now
            previous = current
        quiet_since = min(quiet_since, now)  # a time in the future comes from another clock
        if has_reply and is_whole and now - quiet_since >= REST_SECONDS:
            return True
        if not 0 <= now - start < MAX_SECONDS:  # or the clock was set back
            return False
        runtime.sleep(_POLL_SECONDS)


def _written(transcript: OpenTranscript) -> tuple[int, int]:
    """Return the file's size and the time of its last write; zeros if there is no file yet."""
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
