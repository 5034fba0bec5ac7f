"""What `system/init` and `result` say about a run as a whole: names and numbers, no conversation text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from cc_trace.transcript.blocks import object_field, text_field

if TYPE_CHECKING:
    from cc_trace.transcript.entries import JsonValue

_MAX_CHARS: Final = 128
_MAX_ITEMS: Final = 1000
_NAMES: Final = {"subtype": "result", "terminal_reason": "terminal_reason", "stop_reason": "stop_reason"}
_FIGURES: Final = ("num_turns", "duration_ms", "duration_api_ms", "total_cost_usd")
_MODEL_FIGURES: Final = (
    *("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "webSearchRequests"),
    "costUSD",
)


def run_facts(init: dict[str, Any], result: dict[str, Any]) -> dict[str, JsonValue]:
    """Return the known fields. A field of an unexpected type is left out."""
    facts: dict[str, JsonValue] = {"model": _name(init, "model")}
    facts["tools"] = _names(init.get("tools"))
    facts["mcp_servers"] = _pairs(init.get("mcp_servers"), "name", "status")
    facts |= {fact: _name(result, name) for name, fact in _NAMES.items()}
    facts["is_error"] = result["is_error"] if isinstance(result.get("is_error"), bool) else None
    facts |= {name: _figure(result.get(name)) for name in _FIGURES}
    facts["model_usage"] = {
        model[:_MAX_CHARS]: {
            name: figure for name in _MODEL_FIGURES if (figure := _figure(spent.get(name))) is not None
        }
        for model, spent in list(object_field(result, "modelUsage").items())[:_MAX_ITEMS]
        if isinstance(spent, dict)
    }
    facts["permission_denials"] = _pairs(result.get("permission_denials"), "tool_name", "tool_use_id")
    facts["rate_limit"] = _rate_limit(object_field(init, "rate_limit_info"))
    return {name: value for name, value in facts.items() if value not in (None, [], {})}


def _rate_limit(info: dict[str, Any]) -> JsonValue:
    names = {"status": _name(info, "status"), "type": _name(info, "rateLimitType")}
    names |= {"overage_status": _name(info, "overageStatus")}
    figures = {"resets_at": _figure(info.get("resetsAt")), "utilization": _figure(info.get("utilization"))}
    return {name: value for name, value in {**names, **figures}.items() if value is not None}


def _name(raw: dict[str, Any], key: str) -> str | None:
    text = text_field(raw, key)
    return None if text is None else text[:_MAX_CHARS]


def _names(values: object) -> list[JsonValue]:
    items = values[:_MAX_ITEMS] if isinstance(values, list) else []
    return [item[:_MAX_CHARS] for item in items if isinstance(item, str)]


def _pairs(values: object, *keys: str) -> list[JsonValue]:
    items = [item for item in values[:_MAX_ITEMS] if isinstance(item, dict)] if isinstance(values, list) else []
    return [{key: name for key in keys if (name := _name(item, key)) is not None} for item in items]


def _figure(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) and 0 <= value < 1 << 53 else None
