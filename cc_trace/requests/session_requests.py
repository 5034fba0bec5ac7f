"""What each request of a session contained, what filled its context, and why the cache was missed.

The work per request is proportional to what it added: the sizes of messages and of the base request are cached. The
results for a request depend only on lines before its response, wherever reading began.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from cc_trace.requests.cache import Sent, cache_miss, common_start, missed_tokens
from cc_trace.requests.context import divide, input_tokens, message_sizes, shape_sizes, tokens_by_origin
from cc_trace.requests.log import RequestLog
from cc_trace.requests.rebuild import message_names

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cc_trace.requests.records import Attempt, Call, JsonObject
    from cc_trace.transcript import JsonValue, Usage

# How much of a request its span carries. `none`: only what the response answers; `new`: the messages that the previous
# request did not have; `full`: all messages, the system prompt and the tools.
RequestContent: TypeAlias = Literal["none", "new", "full"]

_USUAL_LIMIT: Final = 200_000
_LONG_LIMIT: Final = 1_000_000
_LONG_BETA: Final = "context-1m"
_MAX_SHAPES: Final = 2  # those of a request and of the one before


class _Messages(NamedTuple):
    """The number of a request's messages and their sizes by origin. `complete` False: some were not found."""

    number: int
    sizes: dict[str, int]
    complete: bool


class RequestParts(NamedTuple):
    """The content of a request, as far as it is configured. A message that was not found is None."""

    system: JsonValue
    tools: JsonValue
    messages: list[JsonValue]


class SessionRequests:
    """Answers questions about requests. The added files are read when the first question is asked."""

    def __init__(self, content: RequestContent = "none") -> None:
        """Begin with no file. `content`: how much of each request `parts` returns."""
        self.content: Final = content
        self._log = RequestLog()
        self._unread: list[Path] = []
        self._messages: dict[str, _Messages] = {}  # by attempt
        self._message_sizes: dict[str, dict[str, int] | None] = {}
        self._shape_sizes: dict[str, dict[str, int] | None] = {}
        self._shapes: dict[str, JsonObject | None] = {}

    def add(self, path: Path) -> None:
        """Add a transcript of the session."""
        self._unread.append(path)

    def metadata(self, attempt_id: str, usage: Usage) -> dict[str, JsonValue]:
        """Return `context` and `cache_miss` of an answered request, as far as they are known."""
        self._read()
        attempt, call = self._log.attempt(attempt_id), self._log.call(attempt_id)
        if attempt is None or call is None:
            return {}
        metadata: dict[str, JsonValue] = {"context": self._context(attempt, usage)}
        if (miss := self._cache_miss(attempt, call, usage)) is not None:
            metadata["cache_miss"] = miss
        return metadata

    def parts(self, attempt_id: str) -> RequestParts | None:
        """Return the content of a request, or None if it is not configured or not known."""
        if self.content == "none":
            return None
        self._read()
        attempt = self._log.attempt(attempt_id)
        names = self._log.message_names(attempt) if attempt is not None else None
        if attempt is None or names is None:
            return None
        if self.content == "new":
            new_names = names[self._shared_message_count(attempt, names) :]
            return RequestParts(None, None, [self._message(name) for name in new_names])
        shape = self._shape(attempt.shape_hash) or {}
        return RequestParts(shape.get("system"), shape.get("tools"), [self._message(name) for name in names])

    def _shared_message_count(self, attempt: Attempt, names: tuple[str, ...]) -> int:
        """Return how many messages at the start of a request are those of the previous answered one."""
        previous = self._log.previous(attempt)
        previous_attempt = previous.answered if previous is not None else None
        previous_names = self._log.message_names(previous_attempt) if previous_attempt is not None else None
        return common_start(previous_names or (), names)

    def _message(self, name: str) -> JsonObject | None:
        return self._log.message_by_place(name) or self._log.message(name)

    def _read(self) -> None:
        for path in self._unread:
            with suppress(OSError):  # gone or unreadable
                self._log.read(path)
        self._unread = []

    def _context(self, attempt: Attempt, usage: Usage) -> JsonValue:
        messages, shape = self._messages_of(attempt), self._sizes_of_shape(attempt.shape_hash)
        sizes = _sum(shape or {}, messages.sizes)
        tokens = input_tokens(usage)
        context: dict[str, JsonValue] = {
            "tokens": tokens,
            "limit": _limit(attempt, tokens),
            "by_origin": {**tokens_by_origin(tokens, sizes)},
            "estimated": True,
            "complete": messages.complete and shape is not None,
        }
        if dropped := self._dropped(attempt):
            context["dropped"] = {**dropped}
        return context

    def _dropped(self, attempt: Attempt) -> dict[str, int]:
        """Return the tokens, by origin, of messages that the previous request had and this one does not.

        A compaction drops most of them. A request that only adds to its base drops nothing, which is checked first.
        """
        base = self._log.attempt(attempt.base or "")
        if base is not None and attempt.keep == base.keep + len(base.tail):
            return {}
        call = self._log.previous(attempt)
        before = call.answered if call is not None else None
        if call is None or before is None or call.response is None or call.response.usage is None:
            return {}
        names, previous_names = self._log.message_names(attempt), self._log.message_names(before)
        if names is None or previous_names is None:
            return {}
        kept = set(names)
        dropped = self._extend(
            _Messages(0, {}, complete=True), [name for name in previous_names if name not in kept]
        ).sizes
        previous_sizes = _sum(self._sizes_of_shape(before.shape_hash) or {}, self._messages_of(before).sizes)
        rest = sum(previous_sizes.values()) - sum(dropped.values())
        tokens = divide(input_tokens(call.response.usage), [*dropped.values(), max(0, rest)])
        return {origin: count for origin, count in zip(dropped, tokens, strict=False) if count}

    def _cache_miss(self, attempt: Attempt, call: Call, usage: Usage) -> JsonValue:
        if call.response is None:
            return None
        response, previous = call.response._replace(usage=usage), self._log.previous(attempt)
        if missed_tokens(previous.response if previous is not None else None, response) <= 0:
            return None
        before = None
        if previous is not None and previous.response is not None and previous.answered is not None:
            before = Sent(
                previous.answered,
                previous.response,
                self._shape(previous.answered.shape_hash),
                self._log.message_names(previous.answered),
            )
        names = self._log.message_names(attempt)
        miss = cache_miss(before, Sent(attempt, response, self._shape(attempt.shape_hash), names))
        if miss is None:
            return None
        return {
            "causes": [{"kind": cause.kind, "detail": cause.detail} for cause in miss.causes],
            "tokens": miss.tokens,
            "cost_usd": None if miss.cost_usd is None else round(miss.cost_usd, 9),
        }

    def _messages_of(self, attempt: Attempt) -> _Messages:
        """Return a request's messages. Those of its base requests are computed first."""
        chain, seen, current = list[str](), set[str](), attempt
        while current.id not in self._messages and current.id not in seen:
            seen.add(current.id)
            chain.append(current.id)
            base = self._log.attempt(current.base or "") if current.keep else None
            current = base or current
        for id_ in reversed(chain):
            if (ancestor := self._log.attempt(id_)) is not None:
                self._messages[id_] = self._with_base(ancestor)
        return self._messages[attempt.id]

    def _with_base(self, attempt: Attempt) -> _Messages:
        base = self._messages.get(attempt.base or "")
        if not attempt.keep:
            prefix = _Messages(0, {}, complete=True)
        elif base is not None and base.number == attempt.keep:
            prefix = base
        else:
            names, missing = message_names(attempt, self._log)
            prefix = self._extend(_Messages(0, {}, not missing), names[: max(0, len(names) - len(attempt.tail))])
        messages = self._extend(prefix, attempt.tail)
        return messages._replace(number=attempt.keep + len(attempt.tail))

    def _extend(self, messages: _Messages, names: Iterable[str]) -> _Messages:
        count, sizes, complete = messages.number, messages.sizes, messages.complete
        for name in names:
            if name not in self._message_sizes:
                message = self._message(name)
                self._message_sizes[name] = None if message is None else message_sizes(message)
            added_sizes = self._message_sizes[name]
            count, complete = count + 1, complete and added_sizes is not None
            sizes = _sum(sizes, added_sizes or {})
        return _Messages(count, sizes, complete)

    def _sizes_of_shape(self, name: str | None) -> dict[str, int] | None:
        if name is None:
            return None
        if name not in self._shape_sizes:
            shape = self._shape(name)
            self._shape_sizes[name] = None if shape is None else shape_sizes(shape)
        return self._shape_sizes[name]

    def _shape(self, name: str | None) -> JsonObject | None:
        if name is None:
            return None
        if name not in self._shapes:
            if len(self._shapes) >= _MAX_SHAPES:
                del self._shapes[next(iter(self._shapes))]
            self._shapes[name] = self._log.shape(name)
        return self._shapes[name]


def _limit(attempt: Attempt, tokens: int) -> int | None:
    """Return the maximum number of tokens in the context, or None if it is unknown."""
    if any(beta.startswith(_LONG_BETA) for beta in attempt.betas):
        return _LONG_LIMIT
    usual = (attempt.model or "").startswith("claude-") and tokens <= _USUAL_LIMIT
    return _USUAL_LIMIT if usual else None


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {**one, **{key: one.get(key, 0) + size for key, size in other.items()}}
