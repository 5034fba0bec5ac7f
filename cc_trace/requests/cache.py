"""Why the prompt cache was missed: compares a request with the previous one of the same thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from cc_trace.pricing import cost_usd
from cc_trace.transcript import text_field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cc_trace.requests.records import Attempt, JsonObject, Response
    from cc_trace.transcript import JsonValue, Usage

_NS_PER_SECOND: Final = 1_000_000_000
_LIFETIME_SECONDS: Final = {"5m": 300, "1h": 3600}
_DEFAULT_TTL: Final = "5m"


class Sent(NamedTuple):
    """An answered request, with everything that decides whether the next one hits the cache."""

    attempt: Attempt
    response: Response
    shape: JsonObject | None
    message_names: tuple[str, ...] | None  # None: not all are known, so messages are not compared


class Cause(NamedTuple):
    """A reason why a request could not use the cache that the previous one filled."""

    kind: str
    detail: str = ""


class CacheMiss(NamedTuple):
    """Tokens that were processed again although they had been cached, or for the first time, and all causes.

    `cost_usd` is the extra cost compared with reading them from the cache; None: the model has no known price.
    """

    causes: tuple[Cause, ...]
    tokens: int
    cost_usd: float | None


def cache_miss(previous: Sent | None, current: Sent) -> CacheMiss | None:
    """Return a request's cache miss, or None if it read everything that the previous one cached."""
    usage, tokens = current.response.usage, missed_tokens(previous.response if previous else None, current.response)
    if usage is None or tokens <= 0:
        return None
    causes = [Cause("first request")] if previous is None else _causes(previous, current) or [Cause("unknown")]
    model = current.response.model or current.attempt.model
    return CacheMiss(tuple(causes), tokens, miss_cost_usd(model, usage, tokens, current.attempt.sent_ns))


def missed_tokens(previous: Response | None, current: Response) -> int:
    """Count the cached tokens that a request processed again; for a first request, the tokens it wrote to the cache."""
    usage = current.usage
    if usage is None:
        return 0
    cache_write = usage.cache_write_5m + usage.cache_write_1h
    if previous is None:
        return cache_write
    previous_usage = previous.usage
    cached = (
        previous_usage.cache_read + previous_usage.cache_write_5m + previous_usage.cache_write_1h
        if previous_usage is not None
        else 0
    )
    return max(0, min(cached - usage.cache_read, usage.input + cache_write))


def _causes(previous: Sent, current: Sent) -> list[Cause]:
    """List the causes, those with the largest effect first: model, tools, system prompt, messages."""
    causes: list[Cause] = []
    before, now = previous.attempt, current.attempt
    if before.model != now.model:
        causes.append(Cause("model changed", f"{before.model} to {now.model}"))
    if previous.shape is not None and current.shape is not None:
        if changes := _tool_changes(previous.shape.get("tools"), current.shape.get("tools")):
            causes.append(Cause("tools changed", changes))
        if previous.shape.get("system") != current.shape.get("system"):
            causes.append(Cause("system prompt changed", _changed_block_range(previous.shape, current.shape)))
    elif before.shape_hash != now.shape_hash:
        causes.append(Cause("system prompt or tools changed"))
    if _thinking(before) != _thinking(now):
        causes.append(Cause("thinking changed", f"{_describe_thinking(before)} to {_describe_thinking(now)}"))
    if (index := _first_rewritten_message(previous, current)) is not None:
        causes.append(Cause("messages rewritten", f"from message {index} on"))
    if (expiry := _expiry(previous, current)) is not None:
        causes.append(expiry)
    return causes


def _tool_changes(before: JsonValue, now: JsonValue) -> str:
    """Name the tools that were added, removed or changed; empty if there are none."""
    if before == now:
        return ""
    old, new = _by_name(before), _by_name(now)
    differences = [
        *(f"{name} added" for name in new if name not in old),
        *(f"{name} removed" for name in old if name not in new),
        *(f"{name} changed" for name in new if name in old and new[name] != old[name]),
    ]
    return ", ".join(differences) or "order changed"


def _by_name(tools: JsonValue) -> dict[str, JsonValue]:
    tool_list = tools if isinstance(tools, list) else []
    return {text_field(tool, "name") or "unnamed": tool for tool in tool_list if isinstance(tool, dict)}


def _changed_block_range(before: JsonObject, now: JsonObject) -> str:
    old, new = before.get("system"), now.get("system")
    if not (isinstance(old, list) and isinstance(new, list)):
        return ""
    return f"from block {common_start(old, new)} on"


def _thinking(attempt: Attempt) -> JsonObject:
    """Return the thinking settings that the cache depends on: all but how thinking is displayed."""
    return {key: value for key, value in attempt.thinking.items() if key != "display"}


def _describe_thinking(attempt: Attempt) -> str:
    kind = text_field(attempt.thinking, "type") or "off"
    return kind if attempt.thinking_budget is None else f"{kind} with {attempt.thinking_budget:,} tokens"


def _first_rewritten_message(previous: Sent, current: Sent) -> int | None:
    """Return the index of the first message that differs, if it is not after the previous request's last breakpoint."""
    points = [
        point.path[1]
        for point in previous.attempt.breakpoints
        if len(point.path) > 1 and point.path[0] == "messages" and isinstance(point.path[1], int)
    ]
    if previous.message_names is None or current.message_names is None:
        return None
    common = common_start(previous.message_names, current.message_names)
    return common if points and common <= max(points) else None


def common_start(old: Sequence[JsonValue], new: Sequence[JsonValue]) -> int:
    """Return the length of the common prefix."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(old), len(new)))


def _expiry(previous: Sent, current: Sent) -> Cause | None:
    """Return a cause if the cache had expired. Its lifetime counts from the last request that used it."""
    before, now = previous.attempt.sent_ns, current.attempt.sent_ns
    if before is None or now is None:
        return None
    ttl = previous.response.cache_ttl or _DEFAULT_TTL
    lifetime, seconds = _LIFETIME_SECONDS.get(ttl), (now - before) // _NS_PER_SECOND
    if lifetime is None or seconds <= lifetime:
        return None
    return Cause("expired", f"{seconds:,} s after the request before, kept for {ttl}")


def miss_cost_usd(model: str | None, usage: Usage, tokens: int, at_ns: int | None) -> float | None:
    """Return how much less a response would have cost if these tokens had been read from the cache."""
    if not model:
        return None
    remaining, fields = tokens, {}
    for name in ("cache_write_1h", "cache_write_5m", "input"):
        count = min(remaining, getattr(usage, name))
        fields[name], remaining = getattr(usage, name) - count, remaining - count
    cached_usage = usage._replace(cache_read=usage.cache_read + tokens, **fields)
    paid, possible = (cost_usd(model, variant, at_ns) for variant in (usage, cached_usage))
    return paid - possible if paid is not None and possible is not None else None
