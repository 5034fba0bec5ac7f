"""What many agents cost: an idle Stop of a session with their files.

The cost must not be that of opening them: what has been delivered of a file is known by its size.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson
import stop
from table import Row, ratio
from timing import cost

if TYPE_CHECKING:
    from collections.abc import Iterable

    from table import Effort
    from timing import Cost

MAX_RATIO: Final = 20.0
_SESSION: Final = "11111111-0000-4000-8000-000000000001"
_MODEL: Final = "claude-sonnet-4-5"
_LAYOUTS: Final = {"in the session's folder": f"{_SESSION}/subagents", "beside the transcript": "."}
_PER_TURN: Final = 10


def rows(effort: Effort) -> list[Row]:
    """Return the CPU time of a worker that finds nothing new, for each place where agents' files lie."""
    count = effort.agent_files
    with tempfile.TemporaryDirectory() as folder:
        homes = {place: _home(Path(folder) / str(number), count, place) for number, place in enumerate(_LAYOUTS)}
        costs: dict[Path, list[float]] = {home: [] for home in homes.values()}
        floors: list[float] = []
        for home in costs:
            _stop(home)  # delivers all
        for _ in range(effort.workers):
            floors.append(cost([sys.executable, "-c", "pass"], os.environ).cpu_seconds)
            for home, taken in costs.items():
                taken.append(_stop(home).cpu_seconds)
    return [
        ratio(
            f"worker's CPU for an idle Stop, {count:,} agents' files {place} / `python3 -c pass`",
            min(costs[home]) / min(floors),
            MAX_RATIO,
            f"{min(costs[home]) * 1000:.0f} ms",
        )
        for place, home in homes.items()
    ]


def _home(home: Path, count: int, place: str) -> Path:
    """Make a session whose calls have launched so many agents."""
    project = home / ".claude" / "projects" / "-p"
    project.mkdir(parents=True)
    lines: list[object] = []
    for first in range(0, count, _PER_TURN):
        agents = range(first, min(first + _PER_TURN, count))
        lines += _turn(first, agents)
        for number in agents:
            _write(project / _LAYOUTS[place] / f"agent-{_name(number)}.jsonl", _work(first, number))
    _write(project / f"{_SESSION}.jsonl", lines)
    return home


def _turn(second: int, agents: Iterable[int]) -> Iterable[object]:
    calls = [{"type": "tool_use", "id": f"call_{each}", "name": "Task", "input": {"prompt": "go"}} for each in agents]
    yield _line("user", f"p{second}", second, {"role": "user", "content": "go"})
    yield _line("assistant", f"a{second}", second, _message(f"m{second}", calls))
    for each in agents:
        block = {"type": "tool_result", "tool_use_id": f"call_{each}", "content": "done"}
        result = {"status": "completed", "agentId": _name(each)}
        yield {**_line("user", f"r{each}", second + 3, {"role": "user", "content": [block]}), "toolUseResult": result}
    yield _line("assistant", f"e{second}", second + 4, _message(f"n{second}", [{"type": "text", "text": "done"}]))


def _work(second: int, number: int) -> Iterable[object]:
    own = {"isSidechain": True, "agentId": _name(number)}
    answer = _message(f"s{number}", [{"type": "text", "text": "done"}])
    yield {**_line("user", f"sp{number}", second + 1, {"role": "user", "content": "go"}), **own}
    yield {**_line("assistant", f"sa{number}", second + 2, answer), **own}


def _name(number: int) -> str:
    return f"a{number:016x}"


def _message(name: str, content: object) -> object:
    return {"id": name, "role": "assistant", "model": _MODEL, "content": content}


def _line(kind: str, uuid: str, second: int, message: object) -> dict[str, object]:
    minutes, seconds = divmod(second, 60)
    hours, minutes = divmod(minutes, 60)
    stamp = f"2026-01-01T{hours:02d}:{minutes:02d}:{seconds:02d}.000Z"
    return {"type": kind, "uuid": uuid, "sessionId": _SESSION, "timestamp": stamp, "message": message}


def _write(path: Path, lines: Iterable[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines))


def _stop(home: Path) -> Cost:
    return stop.work(home, home / ".claude" / "projects" / "-p" / f"{_SESSION}.jsonl")
