"""The history to a collector: how fast, in how much memory, and against parsing the same lines.

A run whose spans did not all arrive, each once, is no figure: then this raises.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from spans import parse_lines
from table import MB, Row, ratio
from timing import Cost, cost, cpu_seconds, far, listening, near, received
from transcripts import MIXES, SESSION, write

from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from table import Effort
    from transcripts import Mix

COMMAND: Final = ("backfill", "{path}", "--to", "otlp")
AGE_SECONDS: Final = 86_400  # since it was last written to: the session is over
MAX_MEMORY: Final = 150 * MB
# What is sent of 60 MB: of the older mix twenty times the spans of the current one, whose requests are not traced.
MAX_RATIO: Final[Mapping[Mix, float | None]] = MappingProxyType({"current": None, "older": 15.0})
MAX_FAR_RATIO: Final[Mapping[Mix, float | None]] = MappingProxyType({"current": None, "older": 16.0})


def rows(effort: Effort) -> list[Row]:
    """Return time and memory for each mix of lines."""
    return [row for mix in MIXES for row in _rows(mix, effort)]


def _rows(mix: Mix, effort: Effort) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder, listening() as url:
        home = Path(folder)
        path = home / ".claude" / "projects" / "-p" / f"{SESSION}.jsonl"
        path.parent.mkdir(parents=True)
        write(path, mix, effort.speed_bytes)
        past = time.time() - AGE_SECONDS
        os.utime(path, (past, past))
        rounds = [[_delivered(home, path, url, way(url)) for way in (near, far)] for _ in range(effort.backfills)]
        costs, costs_far = zip(*rounds, strict=True)
        floor = cpu_seconds(effort.backfills, partial(parse_lines, path))[0]
        size = path.stat().st_size
    least, quickest = min(each.cpu_seconds for each in costs), min(each.seconds for each in costs)
    peak = max(each.peak_bytes for each in costs)
    name = f"{mix}, {effort.speed_bytes // MB} MB: backfill"
    speed = f"{size / MB / quickest:.0f} MB/s"
    floor_name = "`orjson.loads` of every line"
    yield ratio(f"{name} to a collector on this machine / {floor_name}", least / floor, MAX_RATIO[mix], speed)
    least_far = min(each.cpu_seconds for each in costs_far)
    yield ratio(f"{name} to a collector elsewhere, compressed / {floor_name}", least_far / floor, MAX_FAR_RATIO[mix])
    measured = f"{peak / size:.2f} x ({peak / MB:.0f} MB)"
    yield Row(f"{name}, peak memory / size of the file", measured, f"{MAX_MEMORY // MB} MB", peak <= MAX_MEMORY)


def _delivered(home: Path, path: Path, url: str, settings: Mapping[str, str]) -> Cost:
    """Run it with nothing delivered before, and see that all arrived."""
    shutil.rmtree(home / ".claude" / "state", ignore_errors=True)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], **settings}
    command = [part.format(path=path) for part in COMMAND]
    taken = cost([sys.executable, "-m", "cc_trace", *command], environment)
    got, count = received(url), _count(path)
    if (got["spans"], got["distinct"]) != (count, count):
        message = f"{count} spans were to arrive, {got['spans']} did, {got['distinct']} of them distinct"
        raise RuntimeError(message)
    return taken


def _count(path: Path) -> int:
    """Return how many spans there are; counted in another process, so that this one stays small."""
    counted = subprocess.run([sys.executable, __file__, path], check=True, capture_output=True, text=True)
    return int(counted.stdout)


if __name__ == "__main__":
    print(sum(1 for _ in Session(Path(sys.argv[1])).spans()))
