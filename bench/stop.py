"""What a Stop costs: the worker's CPU time and memory for one more turn, on a short and on a long transcript.

The cost must not grow with the transcript: the worker reads on from where it was.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import orjson
import transcripts

MEGABYTE: Final = 1_000_000
ROUNDS: Final = 5
Row = tuple[str, float, float | None]

_PROMPT: Final = {"type": "user", "message": {"role": "user", "content": "one more"}}
_IDLE: Final = "import cc_trace.cli.sync, cc_trace.destinations.local, filelock"


def rows() -> list[Row]:
    """Return the ratios of CPU time, and of memory against an idle worker in multiples of 80 MB."""
    costs = {size: _cost(size) for size in (1, 30, 300)}
    short = costs[1][0]
    idle = _memory_of(_IDLE)
    found: list[Row] = [
        (f"worker's CPU for one more turn, {size} MB against 1 MB", costs[size][0] / short, 1.2) for size in (30, 300)
    ]
    above = (costs[300][1] - idle) / (80 * MEGABYTE)
    found.append(("worker's memory above an idle one on 300 MB, against 80 MB", max(0.0, above), 1.0))
    return found


def _cost(megabytes: int) -> tuple[float, float]:
    """Return the median CPU seconds and the peak memory of a worker that delivers one more turn."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        path = home / ".claude" / "projects" / "-p" / f"{transcripts.SESSION}.jsonl"
        path.parent.mkdir(parents=True)
        transcripts.write(path, "current", megabytes * MEGABYTE)
        _append_turn(path, 0)
        _work(home, path)
        seconds, peak = [], 0.0
        for number in range(1, ROUNDS + 1):
            _append_turn(path, number)
            cpu, memory = _work(home, path)
            seconds.append(cpu)
            peak = max(peak, memory)
        return statistics.median(seconds), peak


def _append_turn(path: Path, number: int) -> None:
    stamp = f"2027-01-01T00:{number:02d}:00.000Z"
    answer = {"id": f"msg_more_{number}", "role": "assistant", "model": "claude-sonnet-4-5", "content": "done"}
    lines = [
        {**_PROMPT, "uuid": f"p{number}", "timestamp": stamp},
        {"type": "assistant", "uuid": f"a{number}", "timestamp": stamp, "message": answer},
        {"type": "system", "subtype": "turn_duration", "durationMs": 1, "timestamp": stamp},
    ]
    with path.open("ab") as file:
        file.writelines(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)


def _work(home: Path, transcript: Path) -> tuple[float, float]:
    spool = home / ".claude" / "state" / "cc-trace" / "spool"
    spool.mkdir(parents=True, exist_ok=True)
    spooled = spool / "1.json"
    spooled.write_bytes(orjson.dumps({"transcript_path": str(transcript), "hook_event_name": "Stop"}))
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "CC_TRACE_DESTINATIONS": "local"}
    command = [sys.executable, "-m", "cc_trace", "sync", "--spooled", str(spooled)]
    return _measured(command, environment)


def _memory_of(program: str) -> float:
    return _measured([sys.executable, "-c", program], dict(os.environ))[1]


def _measured(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Return CPU seconds and peak memory of one process."""
    process = subprocess.Popen(command, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        message = f"{command} ended with {process.returncode}"
        raise RuntimeError(message)
    kilobyte = 1 if sys.platform == "darwin" else 1024
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * kilobyte


if __name__ == "__main__":
    for name, ratio, limit in rows():
        print(f"{name}: {ratio:.2f} (limit {limit})")
