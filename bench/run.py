"""How fast and how large cc-trace is, as ratios to something measured in the same run: one table.

Rule: times of one run on one machine mean little elsewhere, so each stands against a floor that the same bytes or the
same interpreter set, taken in turns with it. A figure beyond its limit is marked; it does not fail.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from table import SMALL, Effort, machine, rendered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from table import Row

RESULTS: Final = Path(__file__).with_name("RESULTS.md")
PARTS: Final = (
    "hook",
    "start",
    "passing",
    "stop",
    "many",
    "agents",
    "spans",
    "redaction",
    "recall",
    "wire",
    "backfill",
    "store",
    "view",
)

NOTES: Final = """\
What is compared takes turns. Of work on a transcript the CPU time is taken, the least of {backfills} to {rounds}
rounds, of a start the time from start to end, the least of {starts}, of the hook the median of {hooks}. MB/s is by the
clock, of masking by CPU time. Memory is the peak resident size of a fresh process. `bench/transcripts.py` makes the
transcripts: `current` as 2.1.325 writes them, with every request's body, `older` as 2.1.39 did, with twenty times the
spans in as many bytes.
"""


def main() -> int:
    """Measure everything, print the table and, with `--write`, keep it."""
    parser = argparse.ArgumentParser(description="Measure cc-trace.")
    parser.add_argument("--write", action="store_true", help="also write the table to bench/RESULTS.md")
    parser.add_argument("--small", action="store_true", help="see in seconds that it works; the figures mean nothing")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these, out of {', '.join(PARTS)}")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    effort = SMALL if options.small else Effort()
    table = rendered(_rows(options.parts or PARTS, effort))
    notes = NOTES.format_map(asdict(effort))
    report = f"{machine()}\n\n{table}\n\n{notes}"
    print(report, end="")
    if options.write:
        RESULTS.write_text(f"# What `make bench` measured\n\n{report}", encoding="utf-8")
    return 0


def _rows(parts: tuple[str, ...], effort: Effort) -> Iterator[Row]:
    """Yield the rows of each part, measured in a process of its own: what one leaves in memory, no other finds."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
        for part in parts:
            began = time.perf_counter()
            yield from pool.submit(_part, part, effort).result()
            print(f"{part}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


def _part(name: str, effort: Effort) -> list[Row]:
    rows: list[Row] = importlib.import_module(name).rows(effort)
    return rows


if __name__ == "__main__":
    sys.exit(main())
