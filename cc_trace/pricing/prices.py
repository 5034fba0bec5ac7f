"""What one Claude response costs in USD.

The rule here: every rate comes from the generated `price_table`, which holds Anthropic's list prices; where
it has none, the cost is not known, and that is None, never 0 and never the price of something similar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import TYPE_CHECKING

from cc_trace.pricing.price_table import MATCHES, PRICES

if TYPE_CHECKING:
    from cc_trace.transcript import Usage

_TOKENS_PER_RATE = 1_000_000
_SEARCHES_PER_RATE = 1_000
_NS_PER_DAY = 86_400 * 1_000_000_000
_EPOCH = date(1970, 1, 1).toordinal()
_BEFORE_ANY_CALL = -(2**63)

# The region in front and the version of Bedrock's offer behind may be absent. `claude-` takes its hyphen
# first, so that the names of the oldest models (anthropic.claude-v1) are not taken for such a version.
_BEDROCK = r"(?:arn:.+/)?(?:[a-z-]+\.)?anthropic\.(claude-.+?)(?:-v\d+(?::\w+)*)?"


@dataclass(frozen=True, slots=True)
class _Rates:
    """USD per million tokens and per thousand searches, from a time and a context size on."""

    since_ns: int
    min_context: int
    input: float
    output: float
    cache_read: float
    cache_write_5m: float
    cache_write_1h: float
    web_search: float | None


def cost_usd(model: str, usage: Usage, at_ns: int | None) -> float | None:
    """Give the cost of one response at Anthropic's list price, or None if it is not known.

    `at_ns` is the time of the call in unix nanoseconds; None means the newest price.
    The cost of a response in fast mode is not known: the table has no fast prices.
    Web searches of a model without a search price add nothing: the result is then the cost of the tokens.
    Bedrock and Vertex names cost what the model costs at Anthropic, without the sellers' regional premiums.
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
    """Tell whether a response has a context so long that its tokens had other rates than usual."""
    rates = _rates_of(model, usage, at_ns)
    return rates is not None and rates.min_context > 0


def _rates_of(model: str, usage: Usage, at_ns: int | None) -> _Rates | None:
    """Give the rates of one response, None where the model, or its price at that time, is not known."""
    context = usage.input + usage.cache_read + usage.cache_write_5m + usage.cache_write_1h
    for rates in _rates(model):
        if (at_ns is None or at_ns >= rates.since_ns) and context >= rates.min_context:
            return rates
    return None


@cache
def _rates(model: str) -> tuple[_Rates, ...]:
    """Give the rates of a model, newest and largest context first; none if the model is not known."""
    name = model.lower().removesuffix("[1m]")
    # Gateways name fast mode so, and the prefixes in the table would take it for the standard speed.
    if name.endswith("-fast"):
        return ()
    model_id = _model_id(name) or _model_id(_anthropic_name(name))
    if model_id is None:
        return ()
    return tuple(_Rates(_midnight_ns(row[0]), *row[1:]) for row in reversed(PRICES[model_id]))


def _model_id(name: str) -> str | None:
    """Give the id of the first model in the table whose names include this one."""
    for kind, text, model_id in MATCHES:
        match kind:
            case "starts_with":
                found = name.startswith(text)
            case "contains":
                found = text in name
            case "equals":
                found = name == text
            case _:
                found = re.search(text, name) is not None
        if found:
            return model_id
    return None


def _anthropic_name(name: str) -> str:
    """Give Anthropic's form of a Bedrock or Vertex name; any other name stays as it is."""
    if bedrock := re.fullmatch(_BEDROCK, name):
        return bedrock[1]
    base, at, version = name.partition("@")
    return f"{base}-{version}" if at and version != "default" else base


def _midnight_ns(day: str | None) -> int:
    """Give the unix nanosecond at which a UTC day begins; None is a day before any call."""
    if day is None:
        return _BEFORE_ANY_CALL
    return (date.fromisoformat(day).toordinal() - _EPOCH) * _NS_PER_DAY
