"""Computes costs from tokens. The table is generated from genai-prices; an unknown price is None, never 0."""

from __future__ import annotations

from cc_trace.pricing.prices import cost_usd, is_long_context

__all__ = [
    "cost_usd",
    "is_long_context",
]
