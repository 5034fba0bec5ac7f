"""Values as text that every backend takes: valid UTF-8, valid JSON.

Rule: nothing here raises, whatever a transcript holds. Transcripts hold halves of surrogate pairs, integers of any
size, and JSON that is nested deeper than encoders go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

if TYPE_CHECKING:
    from cc_trace.export.profiles.labels import AttributeValue
    from cc_trace.transcript import JsonValue

MAX_DEPTH: Final = 200  # orjson writes 254 levels and reads 1024; what a profile puts around a value needs some
TOO_DEEP: Final = "[nested too deeply]"
INT64: Final = range(-(1 << 63), 1 << 63)  # what an OTLP attribute can hold


def readable(text: str) -> str:
    """Return a text with halves of surrogate pairs replaced, and whole pairs joined."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def json_text(value: JsonValue) -> str:
    """Return a value as compact JSON."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # orjson's word for all it cannot write
        return orjson.dumps(_writable(value, MAX_DEPTH)).decode()


def plain(value: JsonValue) -> str:
    """Return a text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else json_text(value)


def attribute(value: JsonValue) -> AttributeValue:
    """Return a value as an attribute: scalars as they are, anything else as JSON."""
    if isinstance(value, int) and value not in INT64:
        return str(value)
    return value if isinstance(value, str | bool | int | float) else json_text(value)


def _writable(value: JsonValue, depth: int) -> JsonValue:
    match value:
        case str():
            return readable(value)
        case int() if value not in INT64:
            return str(value)
        case list() | dict() if not depth:
            return TOO_DEEP
        case list():
            return [_writable(item, depth - 1) for item in value]
        case dict():
            return {readable(key): _writable(item, depth - 1) for key, item in value.items()}
        case _:
            return value
