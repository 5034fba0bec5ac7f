"""Interprets a backend's response as an outcome. Pure.

A 2xx status alone does not mean acceptance: captive portals and wrong URLs return it, too. An OTLP backend accepts a
batch with an empty body, or an ExportTraceServiceResponse in protobuf or JSON (MLflow responds to protobuf in JSON).
Langfuse has its own format. If the connection breaks within a body of the right type, the batch was accepted; only the
number of rejected spans is unknown.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from cc_trace.export.endpoint import redacted
from cc_trace.export.outcomes import Accepted, Rejected, Retryable, Unclear
from cc_trace.export.protobuf import fields, signed
from cc_trace.text import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from cc_trace.export.outcomes import Outcome

MAX_MESSAGE_CHARS: Final = 300
MAX_AFTER_SECONDS: Final = 86_400.0  # a longer Retry-After is reduced to a day
Verdict: TypeAlias = Literal["rejected", "not stored", "unclear"]
# HTTP statuses and gRPC codes with the same meaning for a batch. Any others: HTTP statuses below 500 are "not stored",
# because the server saw the request and declined it; the rest are "unclear".
STATUSES: Final[Mapping[Verdict, frozenset[int | str]]] = {
    # The payload is at fault, permanently.
    "rejected": frozenset({400, 413, 422, "INVALID_ARGUMENT"}),
    # A wrong key or URL, overload, a conflict: the payload is fine.
    "not stored": frozenset(
        {
            *(401, "UNAUTHENTICATED"),
            *(403, "PERMISSION_DENIED"),
            *(404, "NOT_FOUND"),
            *(409, "ABORTED"),
            *(412, "FAILED_PRECONDITION", "OUT_OF_RANGE"),
            *(429, "RESOURCE_EXHAUSTED"),
            *(501, "UNIMPLEMENTED"),
            *(503, "UNAVAILABLE"),
            *(505, 507, 511),
        }
    ),
    # An internal error, perhaps after the batch was stored; or a gateway that does not know what happened.
    "unclear": frozenset(
        {
            *(500, "INTERNAL", "UNKNOWN", "DATA_LOSS"),
            *(502, 504, "DEADLINE_EXCEEDED"),
            *("CANCELLED", "ALREADY_EXISTS", "OK"),
        }
    ),
}
_SUCCESS: Final = range(200, 300)
_SERVER_ERROR: Final = 500
_REDIRECT: Final = range(300, 400)
_PORTAL: Final = "the URL is wrong, or a network sign-in page answered"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class HttpResponse(NamedTuple):
    """An HTTP response, possibly with a truncated body."""

    status: int
    content_type: str = ""
    body: bytes = b""
    retry_after: str | None = None
    location: str | None = None
    complete: bool = True  # the whole body arrived


Success: TypeAlias = "Callable[[HttpResponse, Iterable[str]], Accepted | Unclear | None]"


def verdict(status: int | str) -> Verdict:
    """Return what an HTTP status, or the name of a gRPC code, means for the batch.

    An internal server error (500, INTERNAL) is unclear with either transport: it may have happened after the batch was
    stored. Treating it as "not stored" would cause duplicates on backends that are not idempotent. Treating it as
    unclear costs a query if the backend is queryable; otherwise the batch is sent again in either case.
    """
    for candidate, statuses in STATUSES.items():
        if status in statuses:
            return candidate
    return "not stored" if isinstance(status, int) and status < _SERVER_ERROR else "unclear"


def http_outcome(
    response: HttpResponse, secret_values: Iterable[str], now: float, success: Success | None = None
) -> Outcome:
    """Return the outcome that a response means for the batch.

    `success` reads the body of a 2xx, by default OTLP's, and returns None if it is not such a backend's response.
    """
    status = response.status
    if status in _SUCCESS:
        outcome = (success or otlp_success)(response, secret_values)
        return outcome or Retryable(f"{status}, but {_kind(response)} instead of an OTLP response: {_PORTAL}")
    if status in _REDIRECT:
        target = _redirect_target(response.location, secret_values)
        return Retryable(f"{status} {phrase(status)}{target}: redirects are not followed")
    text = _text(response, secret_values)
    message = f"{status} {phrase(status)}" + (f": {text}" if text else "")
    match verdict(status):
        case "rejected":
            return Rejected(str(status), text or phrase(status))
        case "not stored":
            return Retryable(message, after_seconds(response.retry_after, now))
        case "unclear":
            return Unclear(message)


def otlp_success(response: HttpResponse, secret_values: Iterable[str]) -> Accepted | None:
    """Return the acceptance in an OTLP response's body, or None if the body is something else."""
    if not response.body and response.complete:
        return Accepted()
    if "protobuf" in response.content_type:
        partial = _partial_protobuf(response.body)
    elif "json" in response.content_type:
        partial = _partial_json(response.body)
    else:
        return None
    if partial is None:
        return None if response.complete else Accepted()
    count, message = partial
    return Accepted(max(0, count), cleaned(message, secret_values) or None)


def langfuse_success(response: HttpResponse, secret_values: Iterable[str]) -> Accepted | Unclear | None:
    """Return the outcome in Langfuse's response: the job that will store the batch, or a list from older servers.

    Any other JSON object without an error may be from a newer server: that is unclear, as Langfuse can be queried.
    """
    if (accepted := otlp_success(response, secret_values)) is not None:
        return accepted
    if "json" not in response.content_type:
        return None
    match _json(response.body):
        case {"error": _} | {"errors": [_, *_]}:
            return None
        case {"message": "OK"} | {"name": str(), "data": dict()} | {"successes": list()}:
            return Accepted()
        case dict():
            return Unclear(f"{response.status} with unexpected JSON")
        case _:
            return None


def grpc_outcome(body: bytes, secret_values: Iterable[str]) -> Outcome:
    """Return the outcome in the body of a successful gRPC call."""
    if (partial := _partial_protobuf(body)) is None:
        return Retryable(f"not an OTLP response: {_PORTAL}")
    return Accepted(max(0, partial[0]), cleaned(partial[1], secret_values) or None)


def cleaned(text: str, secret_values: Iterable[str]) -> str:
    """Return foreign text in a form fit for a log: one line, short, without secrets."""
    text = _CONTROL.sub(" ", redacted(text, secret_values)).strip()
    return shortened(text, MAX_MESSAGE_CHARS)


def after_seconds(text: str | None, now: float) -> float | None:
    """Return a Retry-After header, a number of seconds or a date, as seconds from now."""
    if text is None:
        return None
    if text.strip().isdecimal():
        return min(float(text), MAX_AFTER_SECONDS)
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  (few servers send a date)

    try:
        retry_at = parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return min(max(0.0, retry_at - now), MAX_AFTER_SECONDS)


def phrase(status: int) -> str:
    """Return the reason phrase of a status."""
    from http import HTTPStatus  # noqa: PLC0415  (only for errors)

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "unknown status"


def _text(response: HttpResponse, secret_values: Iterable[str]) -> str:
    if "protobuf" in response.content_type:
        return cleaned(_status_message(response.body), secret_values)
    if response.body[:200].lstrip().lower().startswith((b"<!doctype", b"<html")):
        return ""  # a web page is useless in a log
    return cleaned(response.body.decode("utf-8", "replace"), secret_values)


def _redirect_target(location: str | None, secret_values: Iterable[str]) -> str:
    """Return a redirect's target without the parts that may carry a key."""
    try:
        parts = urlsplit(location or "")
        host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or ""
    except ValueError:
        return ""
    target = cleaned(urlunsplit((parts.scheme, host, parts.path, "", "")), secret_values)
    return f" to {target}" if target else ""


def _kind(response: HttpResponse) -> str:
    """Describe a body without quoting it: it may be a whole page."""
    start, type_ = response.body[:200].lstrip().lower(), cleaned(response.content_type.partition(";")[0], ())
    suffix = f" ({type_})" if type_ else ""
    if start.startswith(b"<?xml"):
        return f"XML{suffix}"
    if start.startswith(b"<"):
        return f"a web page{suffix}"
    if start.startswith((b"{", b"[")):
        return f"other JSON{suffix}"
    return f"{len(response.body)} bytes of {type_ or 'no content type'}"


def _json(body: bytes) -> Any:  # noqa: ANN401  (raw JSON)
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _partial_json(body: bytes) -> tuple[int, str] | None:
    """Return rejected spans and message of an ExportTraceServiceResponse, or None if the object has other fields."""
    raw = _json(body)
    if not isinstance(raw, dict) or not raw.keys() <= {"partialSuccess", "partial_success"}:
        return None
    match raw:
        case {"partialSuccess": dict(partial)} | {"partial_success": dict(partial)}:
            count = partial.get("rejectedSpans", partial.get("rejected_spans", 0))
            message = partial.get("errorMessage", partial.get("error_message", ""))
            digits = str(count)[:20]  # JSON's form of a 64-bit number is a string
            return int(digits) if digits.isdecimal() else 0, str(message or "")
        case _:
            return 0, ""


def _partial_protobuf(body: bytes) -> tuple[int, str] | None:
    """Return rejected spans and message of an ExportTraceServiceResponse, or None if it is not one."""
    try:
        partial = b"".join(value for field, value in fields(body) if field == 1 and isinstance(value, bytes))
        return _count_and_message(partial)
    except ValueError:
        return None


def _status_message(body: bytes) -> str:
    """Return the message of a google.rpc.Status: field 2, like that of a partial success."""
    try:
        return _count_and_message(body)[1]
    except ValueError:
        return ""


def _count_and_message(data: bytes) -> tuple[int, str]:
    count, message = 0, ""
    for field, value in fields(data):
        match field, value:
            case 1, int():
                count = signed(value)
            case 2, bytes():
                message = value.decode()
    return count, message
