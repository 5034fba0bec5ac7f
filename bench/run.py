"""How fast and how large cc-trace is, as ratios to something measured in the same run: one table.

Rule: times of one run on one machine mean little elsewhere, so each stands against a floor that the same bytes or the
same interpreter set, taken in turns with it. A figure beyond its limit is marked; it does not fail.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import hook
import orjson
import stop
from transcripts import MIXES, write

from cc_trace.cli import GC_THRESHOLD
from cc_trace.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from transcripts import Mix

HERE: Final = Path(__file__).resolve().parent
MB: Final = 1_000_000
SPEED_BYTES: Final = 60 * MB
MEMORY_BYTES: Final = 300 * MB
ROUNDS: Final = 15
STARTS: Final = 15
MAX_RATIO: Final = 3.0
MAX_MEMORY_MB: Final = 150

NOTES: Final = f"""\
Times are CPU seconds of the process, medians of {ROUNDS} rounds in which the two sides take turns; garbage is collected
before each, and during each as the command line does it, on both sides. Starts are wall time, medians of {STARTS}.
Memory is the peak resident size of a fresh process. `bench/transcripts.py` makes the transcripts: `current` as 2.1.325
writes them, `older` as 2.1.39 did.
"""

CONSUME: Final = """
import collections, pathlib, resource, sys
from cc_trace.sessions import Session
collections.deque(Session(pathlib.Path(sys.argv[1])).spans(), maxlen=0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    name: str
    measured: str
    limit: str
    within: bool = True


def main() -> int:
    """Measure everything, print the table and, with `--write`, keep it."""
    gc.set_threshold(GC_THRESHOLD)  # as the command line does; the same for both sides of each ratio
    parser = argparse.ArgumentParser(description="Measure cc-trace.")
    parser.add_argument("--write", action="store_true", help="also write the table to bench/RESULTS.md")
    options = parser.parse_args()
    data = HERE / "data"
    data.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=data) as folder:
        table = "\n".join(_table(Path(folder)))
    if not any(data.iterdir()):
        data.rmdir()
    report = f"{_machine()}\n\n{table}\n\n{NOTES}"
    print(report, end="")
    if options.write:
        (HERE / "RESULTS.md").write_text(f"# What `make bench` measured\n\n{report}", encoding="utf-8")
    return 0


def _table(folder: Path) -> Iterator[str]:
    yield "| figure | measured | limit | |"
    yield "|---|---|---|---|"
    # Starts and memory first: a child's peak can include what its parent held when it was started.
    rows = [*_others(), _start(), *(_memory(folder, mix) for mix in MIXES), *(_speed(folder, mix) for mix in MIXES)]
    for row in reversed(rows):
        yield f"| {row.name} | {row.measured} | {row.limit} | {'' if row.within else '**beyond**'} |"


def _others() -> list[Row]:
    """Return what the modules beside this one measure: the user's wait, and what a Stop costs."""
    return [
        Row(name, f"{ratio:.2f} x", "" if limit is None else f"{limit} x", limit is None or ratio <= limit)
        for name, ratio, limit in reversed([*hook.rows(), *stop.rows()])
    ]


def _speed(folder: Path, mix: Mix) -> Row:
    """Set a transcript's way to spans against parsing each of its lines, which no reader of all lines can avoid."""
    path = folder / "transcript.jsonl"
    write(path, mix, SPEED_BYTES)
    spans, floor = [], []
    for number in range(ROUNDS + 1):
        times = _seconds(_to_spans, path), _seconds(_parse_lines, path)
        if number:  # the first round fills caches
            spans.append(times[0])
            floor.append(times[1])
    ratio = statistics.median(spans) / statistics.median(floor)
    name = f"{mix}, {SPEED_BYTES // MB} MB: all spans / `orjson.loads` of every line"
    return Row(name, f"{ratio:.2f} x", f"{MAX_RATIO:.0f} x", ratio <= MAX_RATIO)


def _seconds(work: Callable[[Path], None], path: Path) -> float:
    gc.collect()
    began = time.process_time()
    work(path)
    return time.process_time() - began


def _to_spans(path: Path) -> None:
    deque(Session(path).spans(), maxlen=0)


def _parse_lines(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            orjson.loads(line)


def _memory(folder: Path, mix: Mix) -> Row:
    path = folder / "transcript.jsonl"
    write(path, mix, MEMORY_BYTES)
    size = path.stat().st_size / MB
    told = subprocess.run([sys.executable, "-c", CONSUME, path], check=True, capture_output=True, text=True)
    peak = int(told.stdout) * (1 if sys.platform == "darwin" else 1024) / MB  # macOS tells bytes, Linux KiB
    name = f"{mix}, {MEMORY_BYTES // MB} MB: peak memory, all spans / size of the file"
    return Row(name, f"{peak / size:.2f} x ({peak:.0f} MB)", f"{MAX_MEMORY_MB} MB", peak <= MAX_MEMORY_MB)


def _start() -> Row:
    command = Path(sys.executable).with_name("cc-trace")
    ours, bare = [], []
    for _ in range(STARTS):
        ours.append(_started(str(command), "--help"))
        bare.append(_started(sys.executable, "-c", "pass"))
    ratio = statistics.median(ours) / statistics.median(bare)
    return Row("`cc-trace --help` / `python3 -c pass`", f"{ratio:.2f} x", "")


def _started(*command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _machine() -> str:
    """Name what was measured on, without a word that tells one such machine from another."""
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        told = ""
    models = [line.partition(":")[2].strip() for line in told.splitlines() if line.startswith("model name")]
    model = models[0] if models else platform.processor() or platform.machine()
    system = f"{platform.system()} {platform.machine()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {system}, {python}, orjson {orjson.__version__}"


if __name__ == "__main__":
    sys.exit(main())
