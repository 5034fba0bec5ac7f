"""What a backend's answer means. Pure: an answer in, an outcome out.

OTLP says that a 2xx status is the acceptance. So an answer with such a status counts as accepted even if its body did
not arrive completely: then it is only not known whether it named rejected spans.
"""

from __future__ import annotations

import email.utils
import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from cc_trace.destinations.endpoint import redacted
from cc_trace.destinations.outcomes import Accepted, Rejected, Retryable, Unclear

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cc_trace.destinations.outcomes import Outcome

MAX_MESSAGE_CHARS: Final = 300
MAX_AFTER_SECONDS: Final = 86_400.0  # a backend that wants to be left alone for longer is asked once a day
_SUCCESS: Final = range(200, 300)
_REDIRECT: Final = range(300, 400)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response, its body perhaps cut off."""

    status: int
    content_type: str = ""
    body: bytes = b""
    retry_after: str | None = None
    location: str | None = None


def outcome(answer: Answer, unspoken: Iterable[str], now: float) -> Outcome:
    """Return what an answer says about the batch that was sent."""
    status, text = answer.status, _text(answer, unspoken)
    said = f"{status} {_phrase(status)}" + (f": {text}" if text else "")
    match status:
        case 400 | 413 | 422:
            return Rejected(str(status), text or _phrase(status))
        case 502 | 504:  # a gateway that saw no answer does not know what became of the request behind it
            return Unclear(said)
        case _ if status in _SUCCESS:
            if "html" in answer.content_type and answer.body.lstrip().startswith(b"<"):
                return Retryable(f"{status} with a web page for an answer: the URL is not one that takes traces")
            return accepted(answer.body, unspoken)
        case _ if status in _REDIRECT:
            place = _place(answer.location, unspoken)
            return Retryable(f"{status} {_phrase(status)}{place}: redirects are not followed")
        case _:
            return Retryable(said, after_seconds(answer.retry_after, now))


def accepted(body: bytes, unspoken: Iterable[str]) -> Accepted:
    """Return an acceptance with what its body says of rejected spans, in OTLP's protobuf or JSON or something else."""
    count, message = _partial_json(body) if body.lstrip().startswith(b"{") else _partial_protobuf(body)
    return Accepted(max(0, count), cleaned(message, unspoken) or None)


def cleaned(text: str, unspoken: Iterable[str]) -> str:
    """Return a foreign text fit for a log: one line, short, without secrets."""
    text = _CONTROL.sub(" ", redacted(text, unspoken)).strip()
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"


def after_seconds(text: str | None, now: float) -> float | None:
    """Return what Retry-After says, a number of seconds or a date, as seconds from now."""
    if text is None:
        return None
    if text.strip().isdecimal():
        return min(float(text), MAX_AFTER_SECONDS)
    try:
        then = email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return min(max(0.0, then - now), MAX_AFTER_SECONDS)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "unknown status"


def _text(answer: Answer, unspoken: Iterable[str]) -> str:
    if "protobuf" in answer.content_type:
        return cleaned(_status_message(answer.body), unspoken)
    return cleaned(answer.body.decode("utf-8", "replace"), unspoken)


def _place(location: str | None, unspoken: Iterable[str]) -> str:
    """Return a redirect's target without what could carry a key."""
    try:
        parts = urlsplit(location or "")
        host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or ""
    except ValueError:
        return ""
    target = cleaned(urlunsplit((parts.scheme, host, parts.path, "", "")), unspoken)
    return f" to {target}" if target else ""


def _partial_json(body: bytes) -> tuple[int, str]:
    try:
        raw: Any = json.loads(body)
    except (ValueError, RecursionError):
        return 0, ""
    match raw:
        case {"partialSuccess": dict(partial)} | {"partial_success": dict(partial)}:
            count = partial.get("rejectedSpans", partial.get("rejected_spans", 0))
            message = partial.get("errorMessage", partial.get("error_message", ""))
            digits = str(count)[:20]  # JSON's form of a 64-bit number is a string
            return int(digits) if digits.isdecimal() else 0, str(message or "")
        case _:
            return 0, ""


def _partial_protobuf(body: bytes) -> tuple[int, str]:
    try:
        partial = ExportTraceServiceResponse.FromString(body).partial_success
    except DecodeError:
        return 0, ""
    return partial.rejected_spans, partial.error_message


def _status_message(body: bytes) -> str:
    """Return the message of a google.rpc.Status: it stands where a partial success has its own, as field 2."""
    try:
        return ExportTracePartialSuccess.FromString(body).error_message
    except DecodeError:
        return ""
