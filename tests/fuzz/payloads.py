"""What a hook finds on stdin: it is kept byte for byte, it leads nowhere outside, and a worker can serve it.

`@ROOT@` in the bytes stands for Claude Code's folder, which is another one in every run.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sink import Sink

from cc_trace import hook
from cc_trace.delivery.payload import Payload, parse_payload
from cc_trace.delivery.runtime import Plan, Runtime
from cc_trace.delivery.state import StateFolder
from cc_trace.delivery.sync import Sync
from cc_trace.delivery.sync_requests import SyncRequest
from cc_trace.log import Log
from cc_trace.paths import is_session_id
from fuzz.mutations import VALUES, change, written
from fuzz.target import BrokenError, Target
from fuzz.transcripts import MAIN, OTHER, SEEDS, SESSION

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT: Final = b"@ROOT@"
_PATH: Final = f"@ROOT@/projects/-p/{MAIN}"
_VALUES: Final[tuple[Any, ...]] = (
    *VALUES,
    *(_PATH, f"@ROOT@/sessions/{OTHER}.jsonl", f"@ROOT@/projects/../{MAIN}", f"@ROOT@/projects/-p/link/{MAIN}"),
    *(f"@ROOT@/projects/-p/{SESSION}.JSONL", f"@ROOT@/projects/-p/{'9' * 300}.jsonl", "@ROOT@/projects/-p/.jsonl"),
    *("Stop", "SessionEnd", "running", "pending", "completed", "Done.", [{"status": "running"}], [{"status": []}]),
)


def _seeds() -> Iterator[bytes]:
    common = {"session_id": SESSION, "transcript_path": _PATH, "cwd": "/home/dev/project", "permission_mode": "default"}
    stop = {"hook_event_name": "Stop", "stop_hook_active": False, "last_assistant_message": "Done."}
    task = {"id": "b1", "type": "shell", "status": "running", "description": "sleep", "command": "sleep 9"}
    yield written(common | stop)
    yield written(common | stop | {"background_tasks": [task], "session_crons": []})
    yield written(common | stop | {"background_tasks": [], "agent_id": "a1"})
    yield written(common | {"hook_event_name": "SessionEnd", "reason": "clear"})
    yield b""


class _Checker:
    """One machine with one session, whose state is taken away before each payload."""

    def __init__(self, folder: Path) -> None:
        self._root = folder.resolve() / "claude"
        self._transcript = self._root / "projects" / "-p" / MAIN
        self._transcript.parent.mkdir(parents=True)
        self._transcript.write_bytes(b"\n".join([*SEEDS[0][MAIN], b""]))
        (self._transcript.parent / "link").symlink_to("/")
        self._states = StateFolder(folder / "state")
        self._states.prepare()
        self._log = Log(folder / "state")
        self._stdin = folder / "stdin"

    def __call__(self, data: bytes) -> None:
        data = data.replace(_ROOT, str(self._root).encode())
        self._check_kept(data)
        payload = parse_payload(data, self._root)
        if isinstance(payload, str):
            return
        roots = (self._root / "projects", self._root / "sessions")
        if not any(payload.transcript.is_relative_to(root) for root in roots) or ".." in payload.transcript.parts:
            message = f"a payload leads outside: {payload.transcript}"
            raise BrokenError(message)
        if not is_session_id(payload.session_id):
            message = f"a payload names what is no session: {payload.session_id}"
            raise BrokenError(message)
        self._serve(payload)

    def _check_kept(self, data: bytes) -> None:
        self._stdin.write_bytes(data)
        with _as_stdin(self._stdin), _umask_restored():
            name = hook._keep_stdin(str(self._states.spool.folder))
        if name is None:
            message = "a payload was not kept"
            raise BrokenError(message)
        kept = Path(name)
        found, mode = kept.read_bytes(), kept.stat().st_mode & 0o777
        kept.unlink()
        if found != data[: hook.MAX_BYTES] or mode != 0o600:
            message = f"a payload was kept as another: {found!r} with mode {mode:o}"
            raise BrokenError(message)

    def _serve(self, payload: Payload) -> None:
        self._states.path(SESSION).unlink(missing_ok=True)
        sink = Sink()
        sink.idempotent = True  # no ledger: it would remember the payload before
        runtime = Runtime(_Clock().read, lambda _: None)
        sync = Sync(self._states, lambda _: Plan((sink,)), self._log, runtime, self._root)
        try:
            self._states.spool.post_request(SyncRequest(payload, 1))
            sync.handle_requests(payload.session_id)
        finally:
            sync.close()
        if self._states.spool.unfinished_request(payload.session_id):
            message = "a request was left and not handled"
            raise BrokenError(message)
        if payload.transcript == self._transcript and not sink.stored:
            message = "a session was named and nothing of it delivered"
            raise BrokenError(message)


class _Clock:
    """Goes on by a tenth of a second whenever it is looked at: waiting for a reply ends without any time."""

    def __init__(self) -> None:
        self._now = 1_800_000_000.0

    def read(self) -> float:
        self._now += 0.1
        return self._now


@contextlib.contextmanager
def _as_stdin(path: Path) -> Iterator[None]:
    before = os.dup(0)
    with path.open("rb") as file:
        os.dup2(file.fileno(), 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


@contextlib.contextmanager
def _umask_restored() -> Iterator[None]:
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


TARGET: Final = Target(tuple(_seeds()), partial(change, values=_VALUES), _Checker)
