"""Masking secrets in all that a transcript holds, against parsing it. It holds none: then all of it is searched."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import orjson
from table import MB, Row, ratio
from timing import cpu_seconds
from transcripts import MIXES, write
from worst import LEAST_SPEED, WORST, speed

from cc_trace.privacy.redactor import Redactor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from table import Effort
    from transcripts import Mix

    from cc_trace.transcript.entries import JsonValue

# More would mean that a hint was given that is common in texts, or that each short text is searched by itself.
MAX_RATIO: Final[Mapping[Mix, float]] = MappingProxyType({"current": 6.0, "older": 4.0})
# Of a text made to be slow; it is parsed so often, because once is too short for the clock.
_SLOW_CHARS: Final = 200_000
_PARSED: Final = 50


def rows(effort: Effort) -> list[Row]:
    """Return CPU time for the values of all lines, of each mix."""
    with tempfile.TemporaryDirectory() as folder:
        return [*(_speed(Path(folder, "transcript.jsonl"), mix, effort) for mix in MIXES), _slowest(effort)]


def _speed(path: Path, mix: Mix, effort: Effort) -> Row:
    write(path, mix, effort.speed_bytes)
    lines = path.read_bytes().splitlines()
    values: list[JsonValue] = [orjson.loads(line) for line in lines]
    rounds = max(1, effort.rounds // 3)  # a round takes long, and its times differ little
    ours, floor = cpu_seconds(rounds, partial(_mask, values), partial(_parse, lines))
    name = f"{mix}, {effort.speed_bytes // MB} MB: masking every value / `orjson.loads` of every line"
    return ratio(name, ours / floor, MAX_RATIO[mix], f"{path.stat().st_size / MB / ours:.0f} MB/s")


def _slowest(effort: Effort) -> Row:
    """Return the speed of the slowest text that is known, and what parsing it as a text of JSON takes of that time."""
    rounds = max(1, effort.rounds // 3)
    _, piece = min((max(speed(piece) for _ in range(rounds)), piece) for piece in WORST)
    text = piece * (_SLOW_CHARS // len(piece))
    encoded = orjson.dumps(text)
    ours, floor = cpu_seconds(rounds, lambda: Redactor().text(text), partial(_parse, [encoded] * _PARSED))
    measured = len(text) / MB / ours
    return Row(
        f"masking the slowest of {len(WORST)} texts made to be slow",
        f"{measured:.1f} MB/s ({ours / floor * _PARSED:.0f} x `orjson.loads`)",
        f"at least {LEAST_SPEED:.0f} MB/s",
        measured >= LEAST_SPEED,
    )


def _mask(values: Sequence[JsonValue]) -> None:
    redactor = Redactor()
    for value in values:
        if redactor.value(value) is not value:
            message = f"something was masked where no secret is: {redactor.counts}"
            raise RuntimeError(message)


def _parse(lines: Sequence[bytes]) -> None:
    for line in lines:
        orjson.loads(line)
