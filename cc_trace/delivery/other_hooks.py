"""Waiting, after a Stop, until the Stop hooks of others have ended: one of them may make the model go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cc_trace.delivery.liveness import changed_since, liveness
from cc_trace.delivery.quiet import wait_until_quiet

if TYPE_CHECKING:
    from pathlib import Path

    from cc_trace.delivery.liveness import Liveness
    from cc_trace.delivery.runtime import Runtime
    from cc_trace.delivery.spool import Spool
    from cc_trace.delivery.sync_requests import SyncRequest
    from cc_trace.transcript import OpenTranscript

_HOOKS_SECONDS: Final = 60.0  # how long to wait for other Stop hooks before leaving the root to a later worker
_GOES_ON_SECONDS: Final = 1.0  # once Stop hooks have written their lines, a turn ends or goes on within this time
_POLL_SECONDS: Final = 0.05


def wait_for_other_hooks(
    request: SyncRequest, transcript: OpenTranscript, spool: Spool, runtime: Runtime, config_dir: Path
) -> tuple[Liveness, bool]:
    """Wait, within bounds, until Claude Code has stopped working; return its liveness then.

    Waiting ends early if the turn goes on, since it will stop again and have another worker, and if a later request
    comes; if that is for another session, also return False: this request must be handled again. The limit counts from
    when the hook ran, as a request that is put back is taken many times.
    """
    session_id, process = request.session_id, request.context.process
    unchanged_at = runtime.clock()
    start = min(unchanged_at, request.hook_ns / 1e9)
    size = transcript.stat().st_size
    while (process_state := liveness(config_dir, session_id, process)) == "working":
        now = runtime.clock()
        if transcript.stat().st_size == size:
            unchanged_at = now
        timed_out = not 0 <= now - start < _HOOKS_SECONDS or not 0 <= now - unchanged_at < _GOES_ON_SECONDS
        pending = spool.pending()
        if timed_out or changed_since(config_dir, session_id, request.hook_ns) or runtime.interrupted():
            return "working", True
        if pending:  # there are few workers: no session should wait for the hooks of another
            return "working", session_id in pending
        runtime.sleep(_POLL_SECONDS)
    return process_state if wait_until_quiet(transcript, None, runtime) else "working", True
