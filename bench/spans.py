"""From a transcript to its spans, against parsing each of its lines: what no reader of all lines can avoid."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import deque
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import orjson
from table import MB, Row, ratio
from timing import cost, cpu_seconds
from transcripts import MIXES, write

from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from table import Effort
    from transcripts import Mix

# Of the current mix nearly all is bodies of requests, which are not parsed unless somebody asks for them.
MAX_RATIO: Final[Mapping[Mix, float]] = MappingProxyType({"current": 0.7, "older": 3.1})
MAX_MEMORY: Final = 150 * MB

_CONSUME: Final = """
import collections, pathlib, sys
from cc_trace.spans.session import Session
collections.deque(Session(pathlib.Path(sys.argv[1])).spans(), maxlen=0)
"""


def rows(effort: Effort) -> list[Row]:
    """Return speed and memory for each mix of lines."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "transcript.jsonl")
        return [*(_speed(path, mix, effort) for mix in MIXES), *(_memory(path, mix, effort) for mix in MIXES)]


def parse_lines(path: Path) -> None:
    """Parse every line and keep none."""
    with path.open("rb") as file:
        for line in file:
            orjson.loads(line)


def _speed(path: Path, mix: Mix, effort: Effort) -> Row:
    write(path, mix, effort.speed_bytes)
    ours, floor = cpu_seconds(effort.rounds, partial(_consume, path), partial(parse_lines, path))
    name = f"{mix}, {effort.speed_bytes // MB} MB: all spans / `orjson.loads` of every line"
    return ratio(name, ours / floor, MAX_RATIO[mix])


def _consume(path: Path) -> None:
    deque(Session(path).spans(), maxlen=0)


def _memory(path: Path, mix: Mix, effort: Effort) -> Row:
    write(path, mix, effort.memory_bytes)
    peak = cost([sys.executable, "-c", _CONSUME, str(path)], os.environ).peak_bytes
    name = f"{mix}, {effort.memory_bytes // MB} MB: peak memory, all spans / size of the file"
    measured = f"{peak / path.stat().st_size:.2f} x ({peak / MB:.0f} MB)"
    return Row(name, measured, f"{MAX_MEMORY // MB} MB", peak <= MAX_MEMORY)
