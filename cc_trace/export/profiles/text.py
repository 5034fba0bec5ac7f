"""Values as text, and as attributes that every backend accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cc_trace.values import INT64, json_text

if TYPE_CHECKING:
    from cc_trace.export.profiles.labels import AttributeValue
    from cc_trace.transcript import JsonValue

_SCALARS: Final = (str, bool, int, float)


def plain(value: JsonValue) -> str:
    """Return a text unchanged, and anything else as JSON."""
    return value if isinstance(value, str) else json_text(value)


def attribute(value: JsonValue) -> AttributeValue:
    """Return a value as an attribute: scalars unchanged, anything else as JSON."""
    if isinstance(value, int) and value not in INT64:
        return str(value)
    return value if isinstance(value, _SCALARS) else json_text(value)
