"""The mailbox between hooks and workers: a folder in which every file is a request that is not handled yet.

| file | what it is | who handles it |
|---|---|---|
| `PID-N.tmp`, `PID-N.json` | a payload that a hook read from stdin | that hook's worker; any, if that one is dead |
| `.PID-N.json.PID` | a payload that a worker is reading | any worker, a minute later |
| `SESSION.request` | the newest request of a session | whoever holds the session's lock |
| `SESSION.taken` | the request that is being handled | the holder of the lock; any worker, if nobody holds it |

Rules:
- The payload names the session, and only the hook's own worker knows the hook's environment. That worker parses the
  payload once and writes both down as the session's request, so that any worker can handle it.
- Of two requests for a session, the one whose hook ran later stays.
- A request is removed when its work is done. If its worker dies, another one handles it once more and removes it
  beforehand, so a session that crashes its worker crashes two of them, not all.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Final

from cc_trace.delivery.payload import parse_payload
from cc_trace.delivery.sync_requests import (
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

    from cc_trace.delivery.sync_requests import HookContext

_MAX_PAYLOAD_BYTES: Final = 16 << 20
_MAX_REQUEST_BYTES: Final = 64 << 20  # a payload's last message, with every character escaped
_WORKER_SECONDS: Final = 5.0  # a worker normally takes its hook's payload within a tenth of a second
_ABANDONED_SECONDS: Final = 60.0


class Spool:
    """The folder of payloads that hooks left, and of the requests made of them.

    `earlier`: where earlier versions kept requests, which are still taken.
    """

    def __init__(self, folder: Path, earlier: Path) -> None:
        self.folder = folder
        self.earlier = earlier

    def take_payloads(
        self, own_payload: Path | None, context: HookContext, config_dir: Path
    ) -> Iterator[tuple[str, SyncRequest | str]]:
        """Take the payloads that hooks left; yield the name of each, and its request or why it cannot be used.

        Each is removed when the next one is requested. `own_payload` is our own hook's, and `context` belongs to it.
        """
        for path in self._payloads(own_payload):
            claimed = path.with_name(f".{path.name.lstrip('.')}.{os.getpid()}")
            try:
                path.rename(claimed)  # whoever renames it owns it; a hook may reuse the name at once
                hook_ns = claimed.stat().st_mtime_ns  # when the hook ran; renaming does not change it
            except OSError:
                continue  # another worker took it
            yield (
                path.name,
                self._read_payload(claimed, hook_ns, context if path == own_payload else NO_CONTEXT, config_dir),
            )
            with contextlib.suppress(OSError):
                claimed.unlink()

    def _payloads(self, own_payload: Path | None) -> list[Path]:
        """Return our own payload, and those that have waited so long that their own worker must be dead.

        A fresh payload of another hook is left to its own worker, which knows that hook's environment.
        """
        waiting = [
            path for path in self.folder.glob("*.json") if path == own_payload or _age_seconds(path) > _WORKER_SECONDS
        ]
        abandoned = {*self.folder.glob("*.tmp"), *self.folder.glob(".*")}
        abandoned = {
            path for path in abandoned if ".request." not in path.name and _age_seconds(path) > _ABANDONED_SECONDS
        }
        return [*sorted(waiting), *sorted(abandoned), *sorted(self.earlier.glob("*.json"))]

    def _read_payload(self, path: Path, hook_ns: int, context: HookContext, config_dir: Path) -> SyncRequest | str:
        try:
            data = read_regular(path, _MAX_PAYLOAD_BYTES, follow=False)
        except OSError as error:  # not written by our hook
            return error.strerror or str(error)
        if path.parent == self.earlier:
            return earlier_request(data, hook_ns, config_dir)
        payload = parse_payload(data, config_dir)
        return payload if isinstance(payload, str) else SyncRequest(payload, hook_ns, context)

    def post_request(self, request: SyncRequest) -> None:
        """Post a request to sync a session; a later one replaces an earlier one."""
        path = self._request(request.session_id)
        posted = _read_request(path, request.session_id)
        if posted is None or posted.hook_ns < request.hook_ns:
            write_private(path, request_to_json(request))

    def pending(self) -> list[str]:
        """Return the sessions with a request that nobody has taken."""
        return self._sessions("*.request")

    def taken(self) -> list[str]:
        """Return the sessions with a request that a worker has taken, whether that worker is alive or not."""
        return self._sessions("*.taken")

    def pending_request(self, session_id: str) -> bool:
        """Return whether a request was posted since the last one was taken."""
        return self._request(session_id).exists()

    def unfinished_request(self, session_id: str) -> bool:
        """Return whether there is a request that was not taken, or was taken and not finished."""
        return self.pending_request(session_id) or self._taken(session_id).exists()

    def peek_request(self, session_id: str) -> SyncRequest | None:
        """Return a session's request without taking it, or the one that a worker took which has died.

        Requires the session's lock.
        """
        return _read_request(self._request(session_id), session_id) or _read_request(
            self._taken(session_id), session_id
        )

    def take_request(self, session_id: str) -> SyncRequest | None:
        """Take a session's request; call `finish_request` when it is done. Requires the session's lock.

        Raises OSError if there is one that cannot be taken: some full disks cannot even rename.
        """
        path, is_retry = self._taken(session_id), False
        try:
            self._request(session_id).replace(path)  # a request posted from now on is another one
        except FileNotFoundError:
            is_retry = True  # none was posted: if one was taken, its worker has died
        request = _read_request(path, session_id)
        if is_retry or request is None:
            self.finish_request(session_id)
        return request

    def finish_request(self, session_id: str) -> None:
        """Remove the request that was taken. Requires the session's lock."""
        with contextlib.suppress(OSError):
            self._taken(session_id).unlink()

    def put_back(self, request: SyncRequest) -> None:
        """Post a request again that was taken, unless there is a later one. Requires the session's lock.

        On a full disk it stays taken, as if its worker had died.
        """
        path = self._request(request.session_id)
        try:
            descriptor = open_private(path, os.O_WRONLY | os.O_EXCL)
        except FileExistsError:
            self.finish_request(request.session_id)
            return
        except OSError:
            return
        try:
            with os.fdopen(descriptor, "wb") as file:  # nobody takes it half written: we hold the session's lock
                file.write(request_to_json(request))
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()  # else the half would be taken in place of the whole
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
    except OSError:  # there is none, or it was not written by our worker
        return None
    return request_from_json(data, session_id)


def _age_seconds(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
