"""What would be sent of a span, for reading: names and values, indented, instead of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

_INDENT: Final = "  "
_MAX_DEPTH: Final = 20  # deeper values are shown as JSON
_OTLP_SCALARS: Final = ("stringValue", "intValue", "doubleValue", "boolValue", "bytesValue")


def readable(row: bytes) -> list[str]:
    """Return the lines for one span, given the JSON that would be sent. What is null or empty is left out.

    OTLP's lists of attributes become names and values; a text that is JSON is shown as names and values, too.
    """
    try:
        value = orjson.loads(row)
        match value:  # what differs from span to span comes first
            case {"resourceSpans": [{"scopeSpans": [{"spans": [{**span}], **scope}], **resource}]}:
                value = {**span, "resourceSpans": resource, "scopeSpans": scope}
        return [*_lines(_plain(value), 0)]
    except (orjson.JSONDecodeError, TypeError):  # it is not JSON, or has more levels than orjson writes
        return [row.decode("utf-8", "replace")]


def _lines(value: Any, depth: int) -> Iterator[str]:  # noqa: ANN401  (any JSON)
    pad = _INDENT * depth
    if depth >= _MAX_DEPTH:
        yield pad + orjson.dumps(value).decode()
    elif isinstance(value, dict):
        for name, item in value.items():
            if item in (None, "", [], {}):
                continue
            lines = [*_lines(item, depth + 1)]
            if isinstance(item, dict | list) or len(lines) > 1:
                yield f"{pad}{name}:"
                yield from lines
            else:
                yield f"{pad}{name}: {lines[0].lstrip()}"
    elif isinstance(value, list):
        for item in value:
            first, *others = [*_lines(item, depth + 1)] or [""]
            yield f"{pad}- {first.lstrip()}"
            yield from others
    else:
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
        yield from (pad + line for line in text.splitlines() or [""])


def _plain(value: Any, depth: int = 0) -> Any:  # noqa: ANN401  (any JSON)
    """Return a value without OTLP's wrappings, and with JSON in place of texts that are JSON."""
    if depth >= _MAX_DEPTH:
        return value
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return _plain(orjson.loads(value), depth + 1)
        except orjson.JSONDecodeError:
            return value
    if isinstance(value, list):
        if value and all(isinstance(item, dict) and item.keys() == {"key", "value"} for item in value):
            return {str(item["key"]): _plain(item["value"], depth + 1) for item in value}
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, dict):
        if len(value) == 1:
            ((kind, item),) = value.items()
            if kind in _OTLP_SCALARS:
                return _plain(item, depth + 1)
            if kind in ("arrayValue", "kvlistValue") and isinstance(item, dict):
                return _plain(item.get("values", []), depth + 1)
        return {name: _plain(item, depth + 1) for name, item in value.items()}
    return value
