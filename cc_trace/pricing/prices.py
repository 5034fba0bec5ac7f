"""What one Claude response costs in USD.

Rule: every rate comes from the generated `price_table`, which has Anthropic's list prices. If a rate is missing, the
cost is None, never 0 and never the price of a similar model.
"""

from __future__ import annotations

import re
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from cc_trace.pricing.price_table import MATCHES, PRICES

if TYPE_CHECKING:
    from cc_trace.transcript import Usage

_TOKENS_PER_RATE = 1_000_000
_SEARCHES_PER_RATE = 1_000
_NS_PER_DAY = 86_400 * 1_000_000_000
_EPOCH = date(1970, 1, 1).toordinal()
_BEFORE_ANY_CALL = -(2**63)

# The region before the name and Bedrock's version after it are optional. `claude-` consumes its hyphen first, so that
# names of the oldest models (anthropic.claude-v1) are not mistaken for such a version.
_BEDROCK = r"(?:arn:.+/)?(?:[a-z-]+\.)?anthropic\.(claude-.+?)(?:-v\d+(?::\w+)*)?"


class _Rates(NamedTuple):
    """USD per million tokens and per thousand searches, valid from a time and a context size on."""

    since_ns: int
    min_context: int
    input: float
    output: float
    cache_read: float
    cache_write_5m: float
    cache_write_1h: float
    web_search: float | None


def cost_usd(model: str, usage: Usage, at_ns: int | None) -> float | None:
    """Return the cost of one response at Anthropic's list price, or None if it is unknown.

    `at_ns` is the time of the call in unix nanoseconds; None means the newest price.
    The cost of a response in fast mode is unknown: the table has no prices for it.
    If a model has no price for web searches, the result is the cost of the tokens alone.
    Bedrock and Vertex names have the model's price at Anthropic, without regional premiums.
    """
    input_, output, read, write_5m, write_1h, searches, fast, *_ = usage
    rates = _rates_of(model, usage, at_ns)
    if fast or rates is None:
        return None
    tokens = (
        input_ * rates.input
        + output * rates.output
        + read * rates.cache_read
        + write_5m * rates.cache_write_5m
        + write_1h * rates.cache_write_1h
    )
    return tokens / _TOKENS_PER_RATE + searches * (rates.web_search or 0.0) / _SEARCHES_PER_RATE


def is_long_context(model: str, usage: Usage, at_ns: int | None) -> bool:
    """Return whether a response's context was long enough for the long-context rates."""
    rates = _rates_of(model, usage, at_ns)
    return rates is not None and rates.min_context > 0


def _rates_of(model: str, usage: Usage, at_ns: int | None) -> _Rates | None:
    """Return the rates of one response, or None if the model or its price at that time is unknown."""
    context = usage.input + usage.cache_read + usage.cache_write_5m + usage.cache_write_1h
    for rates in _rates(model):
        if (at_ns is None or at_ns >= rates.since_ns) and context >= rates.min_context:
            return rates
    return None


@cache
def _rates(model: str) -> tuple[_Rates, ...]:
    """Return the rates of a model, newest and largest context first; empty if the model is unknown."""
    name = model.lower().removesuffix("[1m]")
    # Gateways mark fast mode like this; the prefixes in the table would match it as standard speed.
    if name.endswith("-fast"):
        return ()
    model_id = _model_id(name) or _model_id(_anthropic_name(name))
    if model_id is None:
        return ()
    return tuple(_Rates(_midnight_ns(row[0]), *row[1:]) for row in reversed(PRICES[model_id]))


def _model_id(name: str) -> str | None:
    """Return the id of the first model in the table that matches a name."""
    for kind, text, model_id in MATCHES:
        match kind:
            case "starts_with":
                matches = name.startswith(text)
            case "contains":
                matches = text in name
            case "equals":
                matches = name == text
            case _:
                matches = re.search(text, name) is not None
        if matches:
            return model_id
    return None


def _anthropic_name(name: str) -> str:
    """Return Anthropic's form of a Bedrock or Vertex name, and any other name unchanged."""
    if bedrock := re.fullmatch(_BEDROCK, name):
        return bedrock[1]
    base, at, version = name.partition("@")
    return f"{base}-{version}" if at and version != "default" else base


def _midnight_ns(day: str | None) -> int:
    """Return the unix nanosecond at which a UTC day begins, and for None a time before any call."""
    if day is None:
        return _BEFORE_ANY_CALL
    return (date.fromisoformat(day).toordinal() - _EPOCH) * _NS_PER_DAY
