"""What a Stop costs: the worker's CPU time and memory for one more turn, and the time until a collector has it.

The cost must not grow with the transcript: the worker reads on from where it was.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson
import transcripts
from table import MB, Row, ratio
from timing import Cost, cost, listening, received

if TYPE_CHECKING:
    from collections.abc import Mapping

    from table import Effort

MAX_RATIO: Final = 1.2
MAX_START_RATIO: Final = 12.0
MAX_MEMORY: Final = 80 * MB

_PROMPT: Final = {"type": "user", "message": {"role": "user", "content": "one more"}}
_LOCAL: Final = {"CC_TRACE_DESTINATIONS": "local"}
_IDLE: Final = "import cc_trace.cli.sync, cc_trace.export.local"


def rows(effort: Effort) -> list[Row]:
    """Return CPU time against that on the shortest transcript, and memory on the longest against an idle worker's."""
    costs = {size: _cost(size, effort) for size in effort.stop_megabytes}
    shortest, longest = min(costs), max(costs)
    idle = cost([sys.executable, "-c", _IDLE], os.environ).peak_bytes
    peak = costs[longest].peak_bytes
    times = [
        ratio(
            f"worker's CPU for one more turn, {size} MB / {shortest} MB",
            taken.cpu_seconds / costs[shortest].cpu_seconds,
            None if size == shortest else MAX_RATIO,
            f"{taken.cpu_seconds * 1000:.0f} ms",
        )
        for size, taken in costs.items()
    ]
    name = f"worker's memory for one more turn, {longest} MB / an idle worker's"
    measured = f"{peak / idle:.2f} x ({peak / MB:.0f} MB)"
    return [
        *_to_collector(effort),
        *times,
        Row(name, measured, f"{MAX_MEMORY // MB} MB above it", peak - idle <= MAX_MEMORY),
    ]


def _to_collector(effort: Effort) -> list[Row]:
    """Return what one Stop costs that goes to a collector on this machine, and how long it takes to get there."""
    bare, workers, waits, langfuse = [], [], [], []
    with tempfile.TemporaryDirectory() as folder, listening() as url:
        home, path = _session(folder, 1)
        settings = {"CC_TRACE_DESTINATIONS": "otlp", "CC_TRACE_OTLP_ENDPOINT": url}
        keys = {"LANGFUSE_HOST": url, "LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-1"}
        append_turn(path, 0)
        work(home, path, settings)
        work(home, path, {"CC_TRACE_DESTINATIONS": "langfuse", **keys})
        for number in range(1, effort.workers + 1):
            append_turn(path, number)
            received(url)
            began = time.time()
            workers.append(work(home, path, settings))
            waits.append(received(url)["last"] - began)
            langfuse.append(work(home, path, {"CC_TRACE_DESTINATIONS": "langfuse", **keys}))
            if not received(url)["spans"]:
                message = "nothing was sent to Langfuse"
                raise RuntimeError(message)
            bare.append(cost([sys.executable, "-c", "pass"], os.environ))
    cpu, least = min(each.cpu_seconds for each in workers), min(each.cpu_seconds for each in bare)
    other = min(each.cpu_seconds for each in langfuse)
    wait, start = statistics.median(waits), statistics.median(each.seconds for each in bare)
    return [
        ratio("worker's CPU for one Stop / `python3 -c pass`", cpu / least, MAX_START_RATIO, f"{cpu * 1000:.0f} ms"),
        ratio("worker's CPU for one Stop to Langfuse / to a collector", other / cpu, MAX_RATIO),
        ratio("from Stop to the collector / `python3 -c pass`", wait / start, None, f"{wait * 1000:.0f} ms"),
    ]


def _session(folder: str, megabytes: int) -> tuple[Path, Path]:
    """Return a home and a transcript in it."""
    home = Path(folder)
    path = home / ".claude" / "projects" / "-p" / f"{transcripts.SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    transcripts.write(path, "current", megabytes * MB)
    return home, path


def _cost(megabytes: int, effort: Effort) -> Cost:
    """Return the least that a worker took which delivered one more turn, and the most memory any of them had."""
    with tempfile.TemporaryDirectory() as folder:
        home, path = _session(folder, megabytes)
        append_turn(path, 0)
        work(home, path)
        costs = []
        for number in range(1, effort.workers + 1):
            append_turn(path, number)
            costs.append(work(home, path))
    least = min(costs, key=lambda each: each.cpu_seconds)
    return Cost(least.seconds, least.cpu_seconds, max(each.peak_bytes for each in costs))


def append_turn(path: Path, number: int) -> None:
    """Let a session have one more turn."""
    stamp = f"2027-01-01T00:{number:02d}:00.000Z"
    answer = {"id": f"msg_more_{number}", "role": "assistant", "model": "claude-sonnet-4-5", "content": "done"}
    lines = [
        {**_PROMPT, "uuid": f"p{number}", "timestamp": stamp},
        {"type": "assistant", "uuid": f"a{number}", "timestamp": stamp, "message": answer},
        {"type": "system", "subtype": "turn_duration", "durationMs": 1, "timestamp": stamp},
    ]
    with path.open("ab") as file:
        file.writelines(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)


def work(home: Path, transcript: Path, settings: Mapping[str, str] = _LOCAL) -> Cost:
    """Be the worker of one Stop."""
    spool = home / ".claude" / "state" / "cc-trace" / "spool"
    spool.mkdir(parents=True, exist_ok=True)
    spooled = spool / "1.json"
    spooled.write_bytes(orjson.dumps({"transcript_path": str(transcript), "hook_event_name": "Stop"}))
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], **settings}
    return cost([sys.executable, "-m", "cc_trace", "sync", "--spooled", str(spooled)], environment)
