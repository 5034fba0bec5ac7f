"""The mailbox between hooks and workers: one folder, in which every file is a request on its way.

| file | what it is | who goes on with it |
|---|---|---|
| `PID-N.tmp`, `PID-N.json` | the payload that a hook found on stdin | that hook's worker; any, if that one is dead |
| `.PID-N.json.PID` | a payload that a worker is reading | any worker, a minute later |
| `SESSION.request` | the newest request of a session | whoever holds the session's lock |
| `SESSION.taken` | the request that is being handled | whoever gets the lock, if that is free |

Rules:
- Only the payload names the session, and only the hook's own worker knows the hook's environment: it reads the
  payload, once, and writes both down as the session's request. So the request can be handled by any worker.
- Of two requests of a session the one whose hook ran later stays.
- A request goes when its work is done. One whose worker died is handled once more by another, which removes it first:
  a session that kills every worker kills two, not all.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Final

from cc_trace.delivery.payload import parse_payload
from cc_trace.delivery.requests import (
    NO_CONTEXT,
    SyncRequest,
    earlier_request,
    request_from_json,
    request_to_json,
)
from cc_trace.files import open_private, read_regular, write_private
from cc_trace.paths import is_session_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.delivery.requests import HookContext

_MAX_PAYLOAD_BYTES: Final = 16 << 20
_MAX_REQUEST_BYTES: Final = 64 << 20  # a payload's last message, with every character escaped
_WORKER_SECONDS: Final = 5.0  # a worker takes what its hook left within a tenth of a second
_ABANDONED_SECONDS: Final = 60.0


class Spool:
    """The folder. `earlier` is where the versions before kept requests; those are still taken."""

    def __init__(self, folder: Path, earlier: Path) -> None:
        self.folder = folder
        self.earlier = earlier

    def take_payloads(
        self, own: Path | None, context: HookContext, config_dir: Path
    ) -> Iterator[tuple[str, SyncRequest | str]]:
        """Yield what hooks left, by its name: a request, or why it is none. It is removed when the next is asked for.

        `own` is what our own hook left, and `context` what is known of that hook.
        """
        for path in self._payloads(own):
            mine = path.with_name(f".{path.name.lstrip('.')}.{os.getpid()}")
            try:
                path.rename(mine)  # whoever renames it has it; a hook may use its name again at once
                hook_ns = mine.stat().st_mtime_ns  # when the hook ran; renaming keeps it
            except OSError:
                continue  # another worker took it
            yield path.name, self._read_payload(mine, hook_ns, context if path == own else NO_CONTEXT, config_dir)
            with contextlib.suppress(OSError):
                mine.unlink()

    def _payloads(self, own: Path | None) -> list[Path]:
        """Return what waits for us: our own payload, and what has waited so long that its own worker must be dead.

        What another hook left just now is for its own worker, which has that session's environment.
        """
        waiting = [path for path in self.folder.glob("*.json") if path == own or _age_seconds(path) > _WORKER_SECONDS]
        left = {*self.folder.glob("*.tmp"), *self.folder.glob(".*")}
        left = {path for path in left if ".request." not in path.name and _age_seconds(path) > _ABANDONED_SECONDS}
        return [*sorted(waiting), *sorted(left), *sorted(self.earlier.glob("*.json"))]

    def _read_payload(self, path: Path, hook_ns: int, context: HookContext, config_dir: Path) -> SyncRequest | str:
        try:
            data = read_regular(path, _MAX_PAYLOAD_BYTES, follow=False)
        except OSError as error:  # no hook of ours has left it
            return error.strerror or str(error)
        if path.parent == self.earlier:
            return earlier_request(data, hook_ns, config_dir)
        payload = parse_payload(data, config_dir)
        return payload if isinstance(payload, str) else SyncRequest(payload, hook_ns, context)

    def post_request(self, request: SyncRequest) -> None:
        """Leave a request to sync a session; a later one replaces an earlier one."""
        path = self._request(request.session_id)
        known = _read_request(path, request.session_id)
        if known is None or known.hook_ns < request.hook_ns:
            write_private(path, request_to_json(request))

    def pending(self) -> list[str]:
        """Return the sessions that requests were left for."""
        return self._sessions("*.request")

    def taken(self) -> list[str]:
        """Return the sessions with a request that a worker has taken, whether it lives or not."""
        return self._sessions("*.taken")

    def pending_request(self, session_id: str) -> bool:
        """Tell whether a request was left since the last one was taken."""
        return self._request(session_id).exists()

    def unfinished_request(self, session_id: str) -> bool:
        """Tell whether a request was left, or taken and not finished."""
        return self.pending_request(session_id) or self._taken(session_id).exists()

    def take_request(self, session_id: str) -> SyncRequest | None:
        """Return a session's request; `finish_request` when its work is done. Only who holds the session's lock may."""
        path, died = self._taken(session_id), False
        try:
            self._request(session_id).replace(path)  # one that is left from now on is not this one
        except OSError:
            died = True  # none was left; what was taken before has lost its worker
        request = _read_request(path, session_id)
        if died or request is None:
            self.finish_request(session_id)
        return request

    def finish_request(self, session_id: str) -> None:
        """Remove the request that was taken. Only who holds the session's lock may."""
        with contextlib.suppress(OSError):
            self._taken(session_id).unlink()

    def put_back(self, request: SyncRequest) -> None:
        """Leave a request again that was taken, unless there is a later one. Only who holds the session's lock may.

        On a full disk it stays where it is, as that of a worker that died.
        """
        try:
            descriptor = open_private(self._request(request.session_id), os.O_WRONLY | os.O_EXCL)
            with os.fdopen(descriptor, "wb") as file:  # nobody else takes requests of this session while it is written
                file.write(request_to_json(request))
        except FileExistsError:
            pass
        except OSError:
            return
        self.finish_request(request.session_id)

    def _request(self, session_id: str) -> Path:
        return self.folder / f"{session_id}.request"

    def _taken(self, session_id: str) -> Path:
        return self.folder / f"{session_id}.taken"

    def _sessions(self, pattern: str) -> list[str]:
        return sorted(path.stem for path in self.folder.glob(pattern) if is_session_id(path.stem))


def _read_request(path: Path, session_id: str) -> SyncRequest | None:
    try:
        data = read_regular(path, _MAX_REQUEST_BYTES, follow=False)
    except OSError:  # there is none, or it is no worker's of ours
        return None
    return request_from_json(data, session_id)


def _age_seconds(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
