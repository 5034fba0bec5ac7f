"""Changes to JSON, to lines of it, and to bytes. Each is a function of a random generator and of what it changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

Slot: TypeAlias = tuple[Any, Any]  # a container and one of its keys

MAX_CONTAINERS: Final = 300
# Texts that json.dumps cannot write: they stand for themselves as strings until the line is written.
RAW: Final = {
    "(deep list)": "[" * 300 + "]" * 300,
    "(deep object)": '{"a":' * 300 + "1" + "}" * 300,
    "(deeper list)": "[" * 1020 + "]" * 1020,
    "(deepest list)": "[" * 5000 + "]" * 5000,
    "(longest number)": "7" * 5000,
}
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 1.5, -0.0, 1e308, 2**63 - 1, 2**64 - 1, 2**64, 10**30, -(10**30)),
    *(float("nan"), float("inf"), [], {}, [[]], [None], [1, "a"], {"type": None}, {"": ""}, {"a": [1, {"b": None}]}),
    *("", " ", "\n", "\x00", "\ud800", "\udfff\ud800", "\ufeff", "\u2028", "../../etc", "~", "~nobody/x", "a"),
    *("true", "0", "1e999", "٣", "2026-01-02", "2026-01-02T03:04:05Z", "9999-12-31T23:59:59+00:00", "x" * 5000),
    *RAW,
)
_BYTES: Final = (
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\r\n", b"\\ud800", b'"', b"{", b"}", b"[", b"]", b",", b":"),
    *(b"\\", b"\xc3", b" ", b"//", b"null", b"=", b"'"),
)


def slots(value: Any) -> list[Slot]:
    """The places in a value, at any depth; not all in one that is already nested deeply, lest it grow on and on."""
    found: list[Slot] = []
    inner: list[Any] = [value]
    for container in inner:
        if len(inner) > MAX_CONTAINERS:
            break
        for key in container if isinstance(container, dict) else range(len(container)):
            found.append((container, key))
            if isinstance(container[key], dict | list):
                inner.append(container[key])
    return found


def parsed(data: bytes) -> list[Slot]:
    """The places of a JSON object; none where it is not one."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return []
    return slots(value) if isinstance(value, dict) else []


def written(value: Any, *, spaced: bool = False, indent: int | None = None) -> bytes:
    """A value as JSON."""
    separators = (", ", ": ") if spaced else (",", ": ") if indent else (",", ":")
    found = json.dumps(value, separators=separators, indent=indent)
    for name, raw in RAW.items():
        found = found.replace(f'"{name}"', raw)
    return found.encode()


def _delete(rng: random.Random, places: list[Slot], _: Sequence[Any]) -> None:
    container, key = rng.choice(places)
    del container[key]


def _retype(rng: random.Random, places: list[Slot], values: Sequence[Any]) -> None:
    container, key = rng.choice(places)
    container[key] = _own(rng.choice(values))


def _swap(rng: random.Random, places: list[Slot], _: Sequence[Any]) -> None:
    (one, first), (other, second) = rng.choice(places), rng.choice(places)
    one[first], other[second] = other[second], one[first]


def _rename(rng: random.Random, places: list[Slot], values: Sequence[Any]) -> None:
    container, key = rng.choice(places)
    if isinstance(container, dict):
        name = rng.choice(places)[1] if rng.random() < 0.8 else rng.choice(values)
        container[str(name)] = container.pop(key)


def _add(rng: random.Random, places: list[Slot], values: Sequence[Any]) -> None:
    container, _ = rng.choice(places)
    if isinstance(container, dict):
        container[str(rng.choice(values))] = _own(rng.choice(values))
    else:
        container.append(_own(rng.choice(values)))


def _reorder(rng: random.Random, places: list[Slot], _: Sequence[Any]) -> None:
    """The same object with its keys in another order: what is found by a prefix must be found without it."""
    container = places[0][0]
    for key in rng.sample(list(container), len(container)):
        container[key] = container.pop(key)


# As often as it pays: other types find the most.
_IN_JSON: Final[Sequence[Callable[[random.Random, list[Slot], Sequence[Any]], None]]] = (
    *(_delete, _swap, _rename, _add, _reorder),
    *(_retype,) * 3,
)


def _own(value: Any) -> Any:
    """A container to be changed later must not be the list's own."""
    return json.loads(json.dumps(value)) if isinstance(value, dict | list) else value


def change_json(rng: random.Random, data: bytes, values: Sequence[Any] = VALUES) -> bytes:
    """Change one place of a JSON object; bytes that are none come back as they are."""
    if not (places := parsed(data)):
        return data
    whole = places[0][0]
    rng.choice(_IN_JSON)(rng, places, values)
    return written(whole, spaced=rng.random() < 0.1)


def change_bytes(rng: random.Random, data: bytes) -> bytes:
    """Cut bytes off, change one, put some in, or repeat some."""
    at, until = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    match rng.randrange(6):
        case 0:
            return data[:at]
        case 1:
            return rng.choice(_BYTES) + data
        case 2:
            return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        case 3:
            return data[:at] + data[until:]
        case 4:
            return data[:until] + data[at:until][:1000] * rng.choice((1, 2, 50)) + data[until:]
        case _:
            return data[:at] + rng.choice(_BYTES) + data[at:]


def change(rng: random.Random, data: bytes, values: Sequence[Any] = VALUES) -> bytes:
    """Change a file that holds one JSON object: mostly as JSON, at times as bytes."""
    return change_json(rng, data, values) if rng.random() < 0.85 else change_bytes(rng, data)


def smaller(data: bytes) -> Iterator[bytes]:
    """The same bytes without one part: a place of the JSON object they are, a line, a place of one.

    Where nothing in them is JSON, without some of the bytes: cutting into names and ids would hide what was found.
    """
    yield from _without_places(data)
    part = data.splitlines(keepends=True)
    if len(part) > 1:
        for at in range(len(part)):
            yield b"".join(part[:at] + part[at + 1 :])
        for at, line in enumerate(part):
            for less in _without_places(line):
                yield b"".join([*part[:at], less, b"\n", *part[at + 1 :]])
    size = 0 if any(map(parsed, (data, *part))) else len(data) // 2
    while size:
        for at in range(0, len(data), size):
            yield data[:at] + data[at + size :]
        size //= 2


def _without_places(data: bytes) -> Iterator[bytes]:
    for place in range(len(parsed(data))):
        places = parsed(data)
        container, key = places[place]
        del container[key]
        yield written(places[0][0])
