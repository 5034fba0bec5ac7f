"""The requests of a session. Its files are scanned once; then lookups read only the lines they need."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from cc_trace.files import open_regular
from cc_trace.requests.rebuild import Request, message_hash, message_names, rebuild
from cc_trace.requests.records import Attempt, Call, Failure, Response, Retry, attempt, failure, response, retry
from cc_trace.transcript import object_field, read_lines, text_field

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.requests.records import JsonObject

_BEGINNING_BYTES: Final = 4096
_MAX_NAME_BYTES: Final = 128
_HASH_FIELDS: Final = {"api-request-shape": "shapeHash", "api-request-blob": "hash"}


class _Place(NamedTuple):
    """The position of a line."""

    path: Path
    offset: int
    length: int


@dataclass(slots=True)
class _OpenCall:
    """A call whose file is still being read."""

    path: Path
    before: _OpenCall | None = None  # the previous call in its file
    attempts: list[Attempt] = field(default_factory=list)
    retries: list[Retry] = field(default_factory=list)
    message_id: str | None = None
    failure: Failure | None = None

    @property
    def waiting(self) -> bool:
        return self.message_id is None and self.failure is None


class RequestLog:
    """The requests in transcripts. `read` each file of a session, including its agents', then look up.

    Other lines, and fields of the wrong type, are skipped; `malformed` counts the lines that are not JSON.
    """

    def __init__(self) -> None:
        """Create an empty log."""
        self.malformed = 0
        self._attempts: dict[str, Attempt] = {}
        self._calls: list[_OpenCall] = []
        self._latest: dict[Path, _OpenCall] = {}
        self._last: dict[Path, _OpenCall] = {}
        self._call_of: dict[str, _OpenCall] = {}
        self._answer_to: dict[str, _OpenCall] = {}
        self._responses: dict[str, Response] = {}
        self._heavy: dict[tuple[str, str], _Place] = {}
        self._answers: dict[tuple[Path, str], list[_Place]] = {}
        self._users: list[_Place] = []
        self._seen: set[str] = set()
        self._answer_names: dict[str, tuple[Path, str]] | None = None
        self._user_names: dict[str, _Place] | None = None

    def read(self, path: Path) -> None:
        """Scan a transcript. One file holds one thread of requests."""
        self._answer_names = self._user_names = None
        for line in read_lines(path, torn=True):
            if line.data is None:
                self.malformed += 1
                continue
            place = _Place(path, line.offset, len(line.data))
            kind = _kind(line.data)
            if kind is None or not self._take_unparsed(kind, line.data, place):
                for raw in self._objects(line.data):
                    self._take(raw, place)

    @property
    def calls(self) -> list[Call]:
        """Every call, file by file, in the order in which the first attempts were written."""
        return [self._call(open_call) for open_call in self._calls]

    @property
    def recorded(self) -> bool:
        """Whether any request is recorded. Claude Code before 2.1.3xx records none."""
        return bool(self._attempts)

    def response(self, message_id: str) -> Response | None:
        """Return a response, whether or not its request is recorded."""
        return self._responses.get(message_id)

    def find(self, name: str) -> tuple[Call, Attempt] | None:
        """Return the call and attempt with the given message id, attempt id or API request id."""
        for open_call in self._calls:
            call = self._call(open_call)
            if match := _find_attempt(call, name):
                return call, match
        return None

    def previous(self, sent: Attempt) -> Call | None:
        """Return the previous answered call in this attempt's thread."""
        call = self._call_of.get(sent.id)
        before = call.before if call is not None else None
        while before is not None and before.message_id is None:
            before = before.before
        return None if before is None else self._call(before)

    def call(self, attempt_id: str) -> Call | None:
        """Return the call that an attempt belongs to."""
        open_call = self._call_of.get(attempt_id)
        return None if open_call is None else self._call(open_call)

    def request(self, sent: Attempt) -> Request:
        """Return a request's body, rebuilt as far as possible."""
        return rebuild(sent, self)

    def message_names(self, sent: Attempt) -> tuple[str, ...] | None:
        """Return the hashes of a request's messages, or None if some are unknown."""
        names, missing = message_names(sent, self)
        return None if missing else tuple(names)

    def attempt(self, id_: str) -> Attempt | None:
        """Return the attempt with this id."""
        return self._attempts.get(id_)

    def shape(self, name: str) -> JsonObject | None:
        """Return the system prompt and the tools with this hash."""
        raw = self._parsed(self._heavy.get(("api-request-shape", name)))
        shape = raw.get("shape")
        return shape if isinstance(shape, dict) else None

    def message(self, name: str) -> JsonObject | None:
        """Return the message with this hash: from its own line, else from a response or user line with that content.

        A response whose text was changed since, for example by anonymizing the transcript, is found by its position
        after the messages that it answered. The digest of the request then does not match.
        """
        message = self._parsed(self._heavy.get(("api-request-blob", name))).get("message")
        if isinstance(message, dict):
            return message
        if self._answer_names is None:
            self._answer_names = {hash_: key for key in self._answers if (hash_ := message_hash(self._answer(key)))}
        if name in self._answer_names:
            return self._answer(self._answer_names[name])
        if self._user_names is None:
            self._user_names = {hash_: place for place in self._users if (hash_ := message_hash(self._user(place)))}
        if (place := self._user_names.get(name)) is not None:
            return self._user(place)
        return self._answer_by_place(name)

    def message_by_place(self, name: str) -> JsonObject | None:
        """Return the message with this hash by its position, without scanning the others; None if not possible."""
        message = self._parsed(self._heavy.get(("api-request-blob", name))).get("message")
        return message if isinstance(message, dict) else self._answer_by_place(name)

    def _answer_by_place(self, name: str) -> JsonObject | None:
        call = self._answer_to.get(name)
        key = (call.path, call.message_id) if call is not None and call.message_id is not None else None
        return self._answer(key) if key is not None and key in self._answers else None

    def _call(self, open_call: _OpenCall) -> Call:
        answer = self._responses.get(open_call.message_id) if open_call.message_id is not None else None
        return Call(tuple(open_call.attempts), tuple(open_call.retries), answer, open_call.failure)

    def _take_unparsed(self, kind: str, data: bytes, place: _Place) -> bool:
        """Record a line from its first bytes. False: it must be parsed."""
        match kind:
            case "api-request-shape" | "api-request-blob":
                name = _early_string(data, _HASH_FIELDS[kind])
                if name is None:
                    return False
                self._heavy.setdefault((kind, name), place)
            case "user":
                self._take_user(place)
            case "system":
                return b'"api_error"' not in data
            case "api-request" | "assistant":
                return False
        return True

    def _take(self, raw: dict[str, Any], place: _Place) -> None:
        kind = raw.get("type")
        match kind:
            case "api-request":
                self._take_attempt(raw, place.path)
            case "assistant":
                self._take_answer(raw, place)
            case "system" if raw.get("subtype") == "api_error":
                call = self._latest.get(place.path)  # part of a response may have arrived before it failed
                if call is not None:
                    call.retries.append(retry(raw, call.attempts[-1].id))
            case "user":
                self._take_user(place)
            case "api-request-shape" | "api-request-blob":
                if name := text_field(raw, _HASH_FIELDS[kind]):
                    self._heavy.setdefault((kind, name), place)

    def _take_attempt(self, raw: dict[str, Any], path: Path) -> None:
        sent = attempt(raw)
        if sent is None or sent.id in self._attempts:
            return
        call = self._latest.get(path)
        if call is None or not call.waiting:
            call = self._latest[path] = self._last[path] = _OpenCall(path, self._last.get(path))
            self._calls.append(call)
        call.attempts.append(sent)
        base = self._attempts.get(sent.base or "")
        if base is not None and sent.tail and sent.keep == base.keep + len(base.tail):
            self._answer_to.setdefault(sent.tail[0], self._call_of[base.id])
        self._attempts[sent.id] = sent
        self._call_of[sent.id] = call

    def _take_answer(self, raw: dict[str, Any], place: _Place) -> None:
        uuid, id_ = text_field(raw, "uuid"), text_field(object_field(raw, "message"), "id")
        if id_ is None or uuid in self._seen:
            return
        if uuid is not None:
            self._seen.add(uuid)
        self._answers.setdefault((place.path, id_), []).append(place)
        if (api_failure := failure(raw)) is not None:
            call = self._latest.get(place.path)
            if call is not None and call.waiting:
                call.failure = api_failure
        elif (line_response := response(raw)) is not None:
            earlier = self._responses.get(id_)
            self._responses[id_] = line_response if earlier is None else earlier.merge(line_response)
            answered_call = self._call_of.get(line_response.attempt_id or "")
            if answered_call is not None and answered_call.message_id is None:
                answered_call.message_id = id_
                self._split(answered_call, line_response.attempt_id or "")

    def _split(self, call: _OpenCall, attempt_id: str) -> None:
        """Make the attempts sent after the answered one a separate call.

        A request can be written before the response that precedes it, and so looked like another attempt for that one.
        """
        ids = [sent.id for sent in call.attempts]
        end = ids.index(attempt_id) + 1
        if end == len(ids):
            return
        later = _OpenCall(call.path, call, call.attempts[end:])
        later.retries = [failed for failed in call.retries if failed.attempt_id in ids[end:]]
        call.retries = [failed for failed in call.retries if failed.attempt_id not in ids[end:]]
        del call.attempts[end:]
        for other in self._calls:
            if other.before is call:
                other.before = later
        self._calls.insert(self._calls.index(call) + 1, later)
        self._call_of |= dict.fromkeys(ids[end:], later)
        for current in (self._latest, self._last):
            if current.get(call.path) is call:
                current[call.path] = later

    def _take_user(self, place: _Place) -> None:
        """Record a user line. It ends the wait for the previous request: the next request is another call."""
        self._users.append(place)
        call = self._latest.get(place.path)
        if call is not None and call.waiting:
            del self._latest[place.path]

    def _answer(self, key: tuple[Path, str]) -> JsonObject:
        """Return a response as later requests contain it: with the blocks of all its lines."""
        content: list[Any] = []
        for place in self._answers[key]:
            part = object_field(self._parsed(place), "message").get("content")
            content += part if isinstance(part, list) else [part]
        return {"role": "assistant", "content": content}

    def _user(self, place: _Place) -> JsonObject:
        message = object_field(self._parsed(place), "message")
        return {"role": message.get("role"), "content": message.get("content")}

    def _parsed(self, place: _Place | None) -> dict[str, Any]:
        """Parse a recorded line; empty if it is no longer there."""
        if place is None:
            return {}
        try:
            with open_regular(place.path) as file:
                file.seek(place.offset)
                data = file.read(place.length)
        except OSError:
            return {}
        return next(_objects(data), {})

    def _objects(self, data: bytes) -> Iterator[dict[str, Any]]:
        objects = list(_objects(data))
        if not objects and data.strip():
            self.malformed += 1
        yield from objects


def _find_attempt(call: Call, name: str) -> Attempt | None:
    answer, failed = call.response, call.failure
    if answer is not None and name in (answer.message_id, answer.request_id):
        return call.answered
    if failed is not None and name in (failed.message_id, failed.request_id):
        return call.attempts[-1]
    attempt_id = next((failed.attempt_id for failed in call.retries if failed.request_id == name), name)
    return next((sent for sent in call.attempts if sent.id == attempt_id), None)


def _kind(data: bytes) -> str | None:
    """Return a line's type from its first bytes, or None if it must be parsed.

    The first `"type":"` is the line's own if only one brace is open before it. In responses it comes after the message,
    where the text could otherwise only be escaped or part of a line of another type.
    """
    at = data.find(b'"type":"', 0, _BEGINNING_BYTES)
    if at < 0:
        return None
    if data.count(b"{", 0, at) != 1:
        if data.endswith(b'"attachment":{', 0, at):
            return "attachment"
        return "assistant" if b'"type":"assistant"' in data else None
    end = data.find(b'"', at + 8, at + 8 + _MAX_NAME_BYTES)
    return data[at + 8 : end].decode("utf-8", "replace") if end > 0 else None


def _early_string(data: bytes, key: str) -> str | None:
    """Return a field near the beginning of a line without parsing it."""
    mark = f'"{key}":"'.encode()
    at = data.find(mark, 0, _BEGINNING_BYTES)
    if at < 0 or data.count(b"{", 0, at) != 1:
        return None
    start = at + len(mark)
    end = data.find(b'"', start, start + _MAX_NAME_BYTES)
    return data[start:end].decode("ascii", "replace") if end > 0 else None


def _objects(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the objects on a line: one, or, if it is malformed, the complete ones at its beginning."""
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        yield from _repair(data)
    else:
        if isinstance(raw, dict):
            yield raw


def _repair(data: bytes) -> Iterator[dict[str, Any]]:
    text, at = data.decode("utf-8", "replace").strip("\ufeff\x00 \r\n\t"), 0
    decoder = json.JSONDecoder(strict=False)
    while at < len(text):
        try:
            raw, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        while at < len(text) and text[at].isspace():
            at += 1
        if isinstance(raw, dict):
            yield raw
