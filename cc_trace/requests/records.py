"""Records of the lines about requests: attempts, retries, responses, failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from cc_trace.transcript import count_field, object_field, parse_time, plain_text, text_field, usage

if TYPE_CHECKING:
    from cc_trace.transcript import JsonValue, Usage

JsonObject: TypeAlias = "dict[str, JsonValue]"


class Breakpoint(NamedTuple):
    """The path of a block up to which the API should cache, and how: `{"type": "ephemeral", "ttl": "1h"}`."""

    path: tuple[str | int, ...]
    value: JsonValue


class Attempt(NamedTuple):
    """One request as sent. Its messages are the first `keep` of request `base`, then those with hashes in `tail`."""

    id: str
    sent_ns: int | None
    agent_id: str | None
    query_source: str | None
    params: JsonObject
    shape_hash: str | None
    base: str | None
    keep: int
    tail: tuple[str, ...]
    breakpoints: tuple[Breakpoint, ...]
    digest: str | None

    @property
    def model(self) -> str | None:
        """The requested model."""
        return text_field(self.params, "model")

    @property
    def max_tokens(self) -> int | None:
        """The maximum number of tokens in the response."""
        return count_field(self.params, "max_tokens") or None

    @property
    def thinking(self) -> JsonObject:
        """The thinking settings, empty if there are none."""
        return object_field(self.params, "thinking")

    @property
    def thinking_budget(self) -> int | None:
        """The maximum number of thinking tokens."""
        return count_field(self.thinking, "budget_tokens") or None

    @property
    def effort(self) -> str | None:
        """The requested effort."""
        return text_field(object_field(self.params, "output_config"), "effort")

    @property
    def betas(self) -> tuple[str, ...]:
        """The beta features, which are sent in a header."""
        betas = self.params.get("betas")
        return tuple(beta for beta in betas if isinstance(beta, str)) if isinstance(betas, list) else ()


class Retry(NamedTuple):
    """A failed attempt that was going to be retried."""

    attempt_id: str
    time_ns: int | None
    status: int | None
    number: int
    wait_ms: float | None
    request_id: str | None
    error: str


class Failure(NamedTuple):
    """The error that Claude Code wrote in place of a response when it gave up."""

    message_id: str
    time_ns: int | None
    status: int | None
    kind: str | None
    request_id: str | None
    error: str


class Response(NamedTuple):
    """A response without its content. `attempt_id` is None if its request is not recorded."""

    message_id: str
    attempt_id: str | None
    request_id: str | None
    model: str | None
    usage: Usage | None
    first_ns: int | None
    last_ns: int | None
    thinking_ms: float | None
    tool_input_ms: float | None
    cache_ttl: str | None

    def merge(self, other: Response) -> Response:
        """Merge two lines of one response. Each block has its own line."""
        tokens = self.usage.maximum(other.usage) if self.usage and other.usage else self.usage or other.usage
        times = [time for time in (self.first_ns, self.last_ns, other.first_ns, other.last_ns) if time is not None]
        return self._replace(
            attempt_id=self.attempt_id or other.attempt_id,
            request_id=self.request_id or other.request_id,
            usage=tokens,
            first_ns=min(times, default=None),
            last_ns=max(times, default=None),
            thinking_ms=_sum(self.thinking_ms, other.thinking_ms),
            tool_input_ms=_sum(self.tool_input_ms, other.tool_input_ms),
            cache_ttl=self.cache_ttl or other.cache_ttl,
        )


class Call(NamedTuple):
    """All attempts for one response, in order, and the outcome. Neither: it was abandoned, or is still running."""

    attempts: tuple[Attempt, ...]
    retries: tuple[Retry, ...]
    response: Response | None
    failure: Failure | None

    @property
    def answered(self) -> Attempt | None:
        """The attempt that got the response, or the last attempt if there is no response."""
        attempt_id = self.response.attempt_id if self.response is not None else None
        last = self.attempts[-1] if self.attempts else None
        return next((attempt for attempt in self.attempts if attempt.id == attempt_id), None if attempt_id else last)


def attempt(raw: dict[str, Any]) -> Attempt | None:
    """Return the attempt in an `api-request` line, or None if it has no id."""
    id_, tail, points = text_field(raw, "id"), raw.get("tail"), raw.get("cacheControl")
    if id_ is None:
        return None
    return Attempt(
        id=id_,
        sent_ns=_time(raw),
        agent_id=text_field(raw, "agentId"),
        query_source=text_field(raw, "querySource"),
        params=object_field(raw, "params"),
        shape_hash=text_field(raw, "shapeHash"),
        base=text_field(raw, "base"),
        keep=count_field(raw, "keep"),
        # An invalid hash keeps its position, and will not be found.
        tail=tuple(name if isinstance(name, str) else "" for name in tail) if isinstance(tail, list) else (),
        breakpoints=tuple(map(_breakpoint, points)) if isinstance(points, list) else (),
        digest=text_field(raw, "requestDigest"),
    )


def _breakpoint(raw: object) -> Breakpoint:
    match raw:
        case {"path": list(path), "value": value} if all(type(step) in (str, int) for step in path):
            return Breakpoint(tuple(path), value)
        case _:
            return Breakpoint((), None)


def retry(raw: dict[str, Any], attempt_id: str) -> Retry:
    """Return the retry in a `system/api_error` line. `attempt_id`: the attempt that failed."""
    error = object_field(raw, "error")
    message = (
        text_field(error, "formatted") or text_field(error, "message") or text_field(raw, "error") or "request failed"
    )
    return Retry(
        attempt_id=attempt_id,
        time_ns=_time(raw),
        status=count_field(error, "status") or None,
        number=count_field(raw, "retryAttempt"),
        wait_ms=_number(raw, "retryInMs"),
        request_id=text_field(error, "requestId"),
        error=message,
    )


def failure(raw: dict[str, Any]) -> Failure | None:
    """Return the failure in an `assistant` line that reports an API error, or None if it is a response."""
    message = object_field(raw, "message")
    id_ = text_field(message, "id")
    if raw.get("isApiErrorMessage") is not True or id_ is None:
        return None
    return Failure(
        message_id=id_,
        time_ns=_time(raw),
        status=count_field(raw, "apiErrorStatus") or None,
        kind=text_field(raw, "apiErrorType"),
        request_id=text_field(raw, "requestId"),
        error=plain_text(message.get("content")) or "API error",
    )


def response(raw: dict[str, Any]) -> Response | None:
    """Return the response in one `assistant` line, or None if it is not from a model."""
    message = object_field(raw, "message")
    id_, model = text_field(message, "id"), text_field(message, "model")
    if id_ is None or model == "<synthetic>":
        return None
    time_ns = _time(raw)
    return Response(
        message_id=id_,
        attempt_id=text_field(raw, "requestRef"),
        request_id=text_field(raw, "requestId"),
        model=model,
        usage=usage(message.get("usage")),
        first_ns=time_ns,
        last_ns=time_ns,
        thinking_ms=_number(raw, "thinkingDurationMs"),
        tool_input_ms=_number(raw, "toolInputStreamMs"),
        cache_ttl=text_field(raw, "promptCacheRequested"),
    )


def _time(raw: dict[str, Any]) -> int | None:
    text = text_field(raw, "timestamp")
    return None if text is None else parse_time(text)


def _number(raw: dict[str, Any], key: str) -> float | None:
    value = raw.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None


def _sum(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other
