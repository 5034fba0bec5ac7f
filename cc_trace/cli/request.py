"""Finding a request for `cc-trace show --request`: in one session, or in all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from cc_trace.errors import NotFoundError
from cc_trace.files import open_regular
from cc_trace.requests import RequestLog, Sent, cache_miss, context_by_origin
from cc_trace.transcript import agent_paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cc_trace.requests import Attempt, CacheMiss, Call, Context, Request

_CHUNK_BYTES: Final = 1 << 20


class FoundRequest(NamedTuple):
    """A request, with its call, context and cache miss."""

    session_id: str
    call: Call
    attempt: Attempt
    request: Request
    context: Context | None
    miss: CacheMiss | None


def find_request(name: str, transcript: Path) -> FoundRequest:
    """Find a request in a session by the id of its response, of its record or of the API. Raises NotFoundError."""
    log = RequestLog()
    if (request := _find(name, transcript, log)) is None:
        raise NotFoundError(_not_found_message(name, transcript, log))
    return request


def search_request(name: str, transcripts: Iterable[Path]) -> FoundRequest:
    """Find a request in the first of several sessions that has it. Raises NotFoundError."""
    message = f"no transcript has a response or request {name}; if its transcript is elsewhere, pass its path"
    for path in mentioning(name, transcripts):
        log = RequestLog()
        if (request := _find(name, path, log)) is not None:
            return request
        if log.response(name) is not None:
            message = (
                f"{path.name} has response {name}, but no transcript has its request"
                if log.recorded
                else _no_records_message(path)
            )
    raise NotFoundError(message)


def mentioning(name: str, transcripts: Iterable[Path]) -> Iterator[Path]:
    """Yield the sessions whose transcript, or an agent's, has this id in it."""
    for path in transcripts:
        if _mentions(path, name) or any(_mentions(agent, name) for agent in agent_paths(path)):
            yield path


def _find(name: str, transcript: Path, log: RequestLog) -> FoundRequest | None:
    """Read a session's transcript, and its agents' until the request is found."""
    log.read(transcript)
    match = log.find(name)
    for agent in () if match else agent_paths(transcript):
        if _mentions(agent, name):
            log.read(agent)
            match = log.find(name)
            if match:
                break
    return _details(transcript.stem, log, *match) if match else None


def _mentions(path: Path, name: str) -> bool:
    needle, tail = name.encode("utf-8", "replace"), b""
    try:
        with open_regular(path) as file:
            while piece := file.read(_CHUNK_BYTES):
                if needle in tail + piece:
                    return True
                tail = piece[-len(needle) :]
    except OSError:
        pass
    return False


def _not_found_message(name: str, path: Path, log: RequestLog) -> str:
    response = log.response(name)
    if response is not None and response.attempt_id is not None:
        return (
            f"the request for {name} is not in {path.name}: the response was copied there from another session; "
            f"`cc-trace show --request {name}` searches all sessions"
        )
    if not log.recorded:
        return _no_records_message(path)
    if response is not None:
        return f"{path.name} has no record of the request for {name}"
    return f"{path.name} has no response or request {name}; `cc-trace show --json {path.stem}` lists each `message_id`"


def _no_records_message(path: Path) -> str:
    return f"{path.name} has no request records: Claude Code 2.1.325 writes them, 2.1.197 does not"


def _details(session_id: str, log: RequestLog, call: Call, attempt: Attempt) -> FoundRequest:
    request = log.request(attempt)
    response = call.response if call.answered is attempt else None
    shares = context_by_origin(request, response.usage) if response is not None and response.usage is not None else None
    previous, current = log.previous(attempt), _sent(log, call) if response is not None else None
    miss = cache_miss(_sent(log, previous), current) if current is not None else None
    return FoundRequest(session_id, call, attempt, request, shares, miss)


def _sent(log: RequestLog, call: Call | None) -> Sent | None:
    if call is None or call.response is None or call.answered is None:
        return None
    attempt, response = call.answered, call.response
    shape = log.shape(attempt.shape_hash) if attempt.shape_hash is not None else None
    return Sent(attempt, response, shape, log.message_names(attempt))
