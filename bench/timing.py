"""Time and memory, of work in this process and of other processes.

Rule: what is compared takes turns, so that what slows the machine down slows all of it down. Of the same work on the
same bytes the least time is taken: it takes longer only where something else was in its way. Of the user's waiting the
median is taken: what else goes on belongs to it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace.cli import GC_THRESHOLD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

LAUNCHER: Final = Path(__file__).with_name("launcher.py")
LISTENER: Final = Path(__file__).with_name("listener.py")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process took from start to end."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


def cpu_seconds(rounds: int, *works: Callable[[], object]) -> list[float]:
    """Return the least CPU time of each; garbage is looked for before each, and then as the command line does it."""
    gc.set_threshold(GC_THRESHOLD)
    found: list[list[float]] = [[] for _ in works]
    for round_ in range(rounds + 1):
        for work, seconds in zip(works, found, strict=True):
            gc.collect()
            began = time.process_time()
            work()
            took = time.process_time() - began
            if round_:  # the first fills caches
                seconds.append(took)
    return [min(seconds) for seconds in found]


def waits(
    commands: Mapping[str, Sequence[str]],
    rounds: int,
    environment: Mapping[str, str],
    given: bytes = b"",
    pause_seconds: float = 0.0,
    of: Callable[[Sequence[float]], float] = statistics.median,
) -> dict[str, float]:
    """Return the time from the start of each command to its end, one `of` all rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for round_ in range(rounds + 1):
        for name, command in commands.items():
            began = time.perf_counter()
            subprocess.run(command, input=given, env=environment, check=True, stdout=subprocess.DEVNULL)
            took = time.perf_counter() - began
            if round_:  # the first makes folders and fills caches
                seconds[name].append(took)
            time.sleep(pause_seconds)
    return {name: of(values) for name, values in seconds.items()}


def cost(command: Sequence[str], environment: Mapping[str, str]) -> Cost:
    """Run a command, whose program is a path, and return what it took."""
    launch = [sys.executable, "-I", "-S", str(LAUNCHER), *command]
    told = subprocess.run(launch, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    status, seconds, cpu, peak = told.stdout.split()
    if (code := os.waitstatus_to_exitcode(int(status))) != 0:
        message = f"{' '.join(command)} ended with {code}"
        raise RuntimeError(message)
    unit = 1 if sys.platform == "darwin" else 1024  # macOS tells bytes, Linux KiB
    return Cost(float(seconds), float(cpu), int(peak) * unit)


@contextlib.contextmanager
def listening() -> Iterator[str]:
    """Run a collector of our own in another process and yield its URL."""
    listener = subprocess.Popen([sys.executable, LISTENER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with listener:  # closes its stdin, on which it ends
        assert listener.stdout is not None  # noqa: S101
        yield f"http://127.0.0.1:{int(listener.stdout.readline())}"


def near(url: str) -> dict[str, str]:
    """Return the settings with which that collector is one on this machine."""
    return {"CC_TRACE_OTLP_ENDPOINT": url}


def far(url: str) -> dict[str, str]:
    """Return the settings with which it is one elsewhere, to which a proxy leads: what it gets is compressed."""
    return {"CC_TRACE_OTLP_ENDPOINT": "http://collector.test", "HTTP_PROXY": url}


def received(url: str) -> dict[str, float]:
    """Return what that collector got since it was last asked."""
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310  (our own listener)
        found: dict[str, float] = json.load(answer)
    return found
