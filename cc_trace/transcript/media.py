"""Images and documents of a transcript, found by the digest that replaces them in a trace.

Rule: the first bytes decide the media type, never what the transcript says.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from cc_trace.transcript.lines import BEGINNING, Position, read_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

# What `blocks.media` writes in place of an image or a document.
MEDIA_MARK: Final = re.compile(
    r"\[(?:image|document|file) [^\[\],]{1,80}, \d{1,12} bytes, sha256 of base64 ([0-9a-f]{16})\]"
)
_MARKED: Final = ", sha256 of base64 "
_MAX_DEPTH: Final = 30
_MIN_CHARS: Final = 16
_BEGINNINGS: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
}


class Media(NamedTuple):
    """An image or document, and where its content is. The content is read only when needed."""

    digest: str  # of the base64, as in its mark
    content_type: str
    size: int
    sha256: bytes  # of the content
    path: Path
    position: Position

    def read(self) -> bytes | None:
        """Return the content, or None if it is no longer there."""
        try:
            line = next(read_lines(self.path, self.position), None)
        except OSError:
            return None
        for data in _encoded_in(line.data if line is not None else None):
            content = _content(data) if _digest(data) == self.digest else None
            if content is not None and hashlib.sha256(content).digest() == self.sha256:
                return content
        return None


class MediaFinder:
    """Finds the images and documents of a session. Its files are read once, and only as far as needed.

    `files` returns the files to search, each with the position to start at; it is called on first use.
    """

    def __init__(self, files: Callable[[], Iterable[tuple[Path, Position]]]) -> None:
        self._all = (media for path, start in files() for media in _media_of(path, start))
        self._known: dict[str, Media] = {}

    def find(self, digest: str) -> Media | None:
        """Return the image or document with this digest, or None if there is none or its media type is unknown."""
        while digest not in self._known and (media := next(self._all, None)) is not None:
            self._known.setdefault(media.digest, media)
        return self._known.get(digest)


def media_digests(text: str) -> list[str]:
    """Return the digests in a text's marks of images and documents."""
    return MEDIA_MARK.findall(text) if _MARKED in text else []


def media_type(content: bytes) -> str | None:
    """Return the media type of an image or document, or None if it is not a type that Claude accepts."""
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for beginning, kind in _BEGINNINGS.items() if content.startswith(beginning)), None)


def find_media(path: Path, digest: str) -> bytes | None:
    """Return the content of the image or document with this digest (see `blocks.media`), or None if there is none."""
    for line in read_lines(path):
        for data in _encoded_in(line.data):
            if _digest(data) == digest:
                return _content(data)
    return None


def _media_of(path: Path, start: Position = BEGINNING) -> Iterator[Media]:
    """Yield the images and documents in a file from a position on; none if it cannot be read."""
    try:
        for line in read_lines(path, start):
            for data in _encoded_in(line.data):
                content = _content(data)
                kind = media_type(content) if content is not None else None
                if content is not None and kind is not None:
                    sha256 = hashlib.sha256(content).digest()
                    at = Position(line.offset, line.number)
                    yield Media(_digest(data), kind, len(content), sha256, path, at)
    except OSError:
        return


def _digest(data: str) -> str:
    return hashlib.sha256(data.encode("utf-8", "replace")).hexdigest()[:16]


def _content(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def _encoded_in(line: bytes | None) -> Iterator[str]:
    """Yield the strings in a line that may be a base64 image or document."""
    if line is None or b'"base64"' not in line:
        return
    try:
        raw = orjson.loads(line)
    except orjson.JSONDecodeError:
        return
    yield from _encoded(raw, 0)


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
