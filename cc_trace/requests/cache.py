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
    """Return what a request processed again and why, or None if it read everything the previous one cached."""
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
    written = usage.cache_write_5m + usage.cache_write_1h
    if previous is None:
        return written
    left = previous.usage
    cached = left.cache_read + left.cache_write_5m + left.cache_write_1h if left is not None else 0
    return max(0, min(cached - usage.cache_read, usage.input + written))


def _causes(previous: Sent, current: Sent) -> list[Cause]:
    """List the causes, those with the largest effect first: model, tools, system prompt, messages."""
    found: list[Cause] = []
    before, now = previous.attempt, current.attempt
    if before.model != now.model:
        found.append(Cause("model changed", f"{before.model} to {now.model}"))
    if previous.shape is not None and current.shape is not None:
        if changed := _changed_tools(previous.shape.get("tools"), current.shape.get("tools")):
            found.append(Cause("tools changed", changed))
        if previous.shape.get("system") != current.shape.get("system"):
            found.append(Cause("system prompt changed", _changed_blocks(previous.shape, current.shape)))
    elif before.shape_hash != now.shape_hash:
        found.append(Cause("system prompt or tools changed"))
    if _thinking(before) != _thinking(now):
        found.append(Cause("thinking changed", f"{_described(before)} to {_described(now)}"))
    if (rewritten := _rewritten(previous, current)) is not None:
        found.append(Cause("messages rewritten", f"from message {rewritten} on"))
    if (expired := _expired(previous, current)) is not None:
        found.append(expired)
    return found


def _changed_tools(before: JsonValue, now: JsonValue) -> str:
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
    listed = tools if isinstance(tools, list) else []
    return {text_field(tool, "name") or "unnamed": tool for tool in listed if isinstance(tool, dict)}


def _changed_blocks(before: JsonObject, now: JsonObject) -> str:
    old, new = before.get("system"), now.get("system")
    if not (isinstance(old, list) and isinstance(new, list)):
        return ""
    return f"from block {common_start(old, new)} on"


def _thinking(attempt: Attempt) -> JsonObject:
    """Return the part of the thinking settings that the cache depends on. How thinking is displayed is not."""
    return {key: value for key, value in attempt.thinking.items() if key != "display"}


def _described(attempt: Attempt) -> str:
    kind = text_field(attempt.thinking, "type") or "off"
    return kind if attempt.thinking_budget is None else f"{kind} with {attempt.thinking_budget:,} tokens"


def _rewritten(previous: Sent, current: Sent) -> int | None:
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
    return next((place for place, (one, other) in pairs if one != other), min(len(old), len(new)))


def _expired(previous: Sent, current: Sent) -> Cause | None:
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
    """Return how much less a response would have cost with these tokens read from the cache."""
    if not model:
        return None
    left, fields = tokens, {}
    for name in ("cache_write_1h", "cache_write_5m", "input"):
        taken = min(left, getattr(usage, name))
        fields[name], left = getattr(usage, name) - taken, left - taken
    better = usage._replace(cache_read=usage.cache_read + tokens, **fields)
    paid, possible = (cost_usd(model, each, at_ns) for each in (usage, better))
    return paid - possible if paid is not None and possible is not None else None
