"""The local store: bringing it up to date with a history, and asking it when nothing is new."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from spans import parse_lines
from table import MB, Row, ratio
from timing import cost, cpu_seconds
from transcripts import MIXES, SESSION, write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from table import Effort
    from timing import Cost
    from transcripts import Mix

AGE_SECONDS: Final = 86_400  # since it was last written to: the session is over
# What a backfill of the same lines took when the store was added: whoever looks shall not wait longer for it.
MAX_UPDATE: Final[Mapping[Mix, float]] = MappingProxyType({"current": 3.8, "older": 19.8})
MAX_USAGE: Final = 20.0
_SESSIONS: Final = 50  # that the history is divided into


def rows(effort: Effort) -> list[Row]:
    """Return how long it takes to read each mix of lines, and to ask for usage."""
    return [*(_update(mix, effort) for mix in MIXES), *_usage(effort)]


def _update(mix: Mix, effort: Effort) -> Row:
    """Measure the store made from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        path = _path(home, SESSION)
        write(path, mix, effort.speed_bytes)
        _age(path)
        size, updates = path.stat().st_size, list[float]()
        for _ in range(effort.backfills):
            shutil.rmtree(home / ".claude" / "state", ignore_errors=True)
            updates.append(_run(home, "usage").cpu_seconds)
        floor = cpu_seconds(effort.backfills, partial(parse_lines, path))[0]
    name = f"{mix}, {effort.speed_bytes // MB} MB: bringing the store up to date / `orjson.loads` of every line"
    return ratio(name, min(updates) / floor, MAX_UPDATE[mix], f"{size / MB / min(updates):.0f} MB per CPU second")


def _usage(effort: Effort) -> Iterator[Row]:
    """Ask for usage when all of a large history is known."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        first = _path(home, SESSION)
        write(first, "older", effort.history_bytes // _SESSIONS)
        data = first.read_bytes()
        first.unlink()
        for number in range(_SESSIONS):  # each with ids of its own, else they would be copies
            session_id = f"{SESSION[:-4]}{number:04d}"
            path = _path(home, session_id)
            made = data.replace(SESSION.encode(), session_id.encode())
            for kind in (b"msg_", b"toolu_"):
                made = made.replace(kind + b"0000", kind + b"%04d" % number)
            path.write_bytes(made)
            _age(path)
        _run(home, "usage")
        usages, floors = list[float](), list[float]()
        for _ in range(effort.starts):
            usages.append(_run(home, "usage").cpu_seconds)
            floors.append(cost([sys.executable, "-c", "pass"], os.environ).cpu_seconds)
    name = f"CPU of `cc-trace usage` over {effort.history_bytes // MB:,} MB of known history / `python3 -c pass`"
    yield ratio(name, min(usages) / min(floors), MAX_USAGE, f"{min(usages) * 1000:.0f} ms")


def _run(home: Path, *arguments: str) -> Cost:
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    return cost([sys.executable, "-m", "cc_trace", *arguments], environment)


def _path(home: Path, session_id: str) -> Path:
    path = home / ".claude" / "projects" / "-p" / f"{session_id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _age(path: Path) -> None:
    past = time.time() - AGE_SECONDS
    os.utime(path, (past, past))
