"""Values of a transcript as valid UTF-8 and valid JSON.

Rule: nothing here raises, whatever a transcript holds. Transcripts hold halves of surrogate pairs, integers of any
size, and JSON that is nested deeper than encoders go.
"""

from __future__ import annotations

from typing import Final

import orjson

MAX_DEPTH: Final = 200  # orjson writes 254 levels and reads 1024; what is put around a value needs some
TOO_DEEP: Final = "[nested too deeply]"
INT64: Final = range(-(1 << 63), 1 << 63)  # what SQLite and an OTLP attribute can hold


def readable(text: str) -> str:
    """Return a text with halves of surrogate pairs replaced, and whole pairs joined."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def json_text(value: object) -> str:
    """Return a value as compact JSON."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # orjson's word for all it cannot write
        return orjson.dumps(_writable(value, MAX_DEPTH)).decode()


def _writable(value: object, depth: int) -> object:
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
