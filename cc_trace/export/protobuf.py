"""Protobuf's wire format: writes and reads fields by number.

OTLP's messages are few and small, and importing their generated classes takes longer than sending a turn. Fields are
written in the order of their numbers, so the bytes are the same as protobuf's own. Pure.

Source: protobuf.dev, "Encoding".
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_UINT64: Final = Struct("<Q").pack
_DOUBLE: Final = Struct("<d").pack
_WIDEST: Final = 70  # bits: ten bytes of seven
_MASK: Final = (1 << 64) - 1


def varint(number: int) -> bytes:
    """Return a number of up to 64 bits: seven bits a byte, the lowest first, the high bit set on all but the last."""
    if 0 <= number < 0x80:  # noqa: PLR2004  (fits in one byte, like most lengths)
        return _SHORT[number]
    number &= _MASK  # a negative number is written in two's complement
    groups: list[int] = []
    while number > 0x7F:  # noqa: PLR2004
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


_SHORT: Final = [bytes([number]) for number in range(0x80)]


def integer(field: int, number: int) -> bytes:
    """Return a field with an integer, an enum or a boolean."""
    return varint(field << 3 | _VARINT) + varint(number)


def fixed64(field: int, number: int) -> bytes:
    """Return a field with an unsigned integer of eight bytes."""
    return varint(field << 3 | _FIXED64) + _UINT64(number)


def double(field: int, number: float) -> bytes:
    """Return a field with a floating-point number."""
    return varint(field << 3 | _FIXED64) + _DOUBLE(number)


def chunk(field: int, data: bytes) -> bytes:
    """Return a field with bytes, a text in UTF-8, or a message."""
    return chunk_head(field, len(data)) + data


@lru_cache(4096)  # most are short, so they recur
def chunk_head(field: int, size: int) -> bytes:
    """Return the tag and length before `size` bytes in a field with bytes, a text or a message."""
    return varint(field << 3 | _BYTES) + varint(size)


def chunks(field: int, values: Iterable[bytes]) -> bytes:
    """Return a repeated field."""
    return b"".join(chunk_pieces(field, values))


def chunk_pieces(field: int, values: Iterable[bytes]) -> list[bytes]:
    """Return the pieces of a repeated field, for callers that join them with others."""
    return [piece for value in values for piece in (chunk_head(field, len(value)), value)]


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message: integers, and anything else as bytes. Raises ValueError if it is malformed."""
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        field, form = tag >> 3, tag & 7
        if not field:
            message = "field 0"
            raise ValueError(message)
        if form == _VARINT:
            number, position = _read_varint(data, position)
            yield field, number
            continue
        if form == _BYTES:
            size, position = _read_varint(data, position)
        elif form in _FIXED_SIZES:
            size = _FIXED_SIZES[form]
        else:
            message = f"wire type {form}"
            raise ValueError(message)
        if position + size > len(data):
            message = "it is truncated"
            raise ValueError(message)
        yield field, data[position : position + size]
        position += size


def signed(number: int) -> int:
    """Convert an integer that was read as unsigned to signed."""
    return number - (1 << 64) if number >> 63 else number


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, _WIDEST, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004  (the high bit)
            return number & _MASK, position
    message = "not an integer"
    raise ValueError(message)
