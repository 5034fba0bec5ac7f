"""Images of a transcript, found by the digest that stands in their place in a trace."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import TYPE_CHECKING, Any, Final

import orjson

from cc_trace.transcript.lines import read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_DEPTH: Final = 30
_MIN_CHARS: Final = 16


def find_media(path: Path, digest: str) -> bytes | None:
    """Return the content of the image or document with this digest (see `blocks.media`), None if it is not there."""
    for line in read_lines(path):
        if line.data is None or b'"base64"' not in line.data:
            continue
        try:
            raw = orjson.loads(line.data)
        except orjson.JSONDecodeError:
            continue
        for data in _encoded(raw, 0):
            if hashlib.sha256(data.encode("utf-8", "replace")).hexdigest()[: len(digest)] == digest:
                try:
                    return base64.b64decode(data, validate=True)
                except (binascii.Error, ValueError):
                    return None
    return None


def _encoded(value: Any, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        return
    match value:
        case dict():
            for name in ("data", "base64"):
                if isinstance(data := value.get(name), str) and len(data) >= _MIN_CHARS:
                    yield data
            for item in value.values():
                if isinstance(item, dict | list):
                    yield from _encoded(item, depth + 1)
        case list():
            for item in value:
                if isinstance(item, dict | list):
                    yield from _encoded(item, depth + 1)
