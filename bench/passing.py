"""What `cc-trace run` adds to the command that it runs: its start, and what is printed passing through it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from table import MB, Row, ratio
from timing import waits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from table import Effort

MAX_START_RATIO: Final = 4.0
MAX_PASSING_RATIO: Final = 3.0
_LINE: Final = b"what a command prints, line by line, which is no stream of Claude Code's\n"
_READ_BYTES: Final = 1 << 20


def rows(effort: Effort) -> list[Row]:
    """Return what a command that does nothing takes, and how long much output is on its way."""
    run = [str(Path(sys.executable).with_name("cc-trace")), "run", "--"]
    starts = {"bare": [sys.executable, "-c", "pass"], "run": [*run, "true"]}
    seconds = waits(starts, effort.starts, os.environ, of=min)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "output")
        path.write_bytes(_LINE * (effort.passed_bytes // len(_LINE)))
        size = path.stat().st_size
        # They take turns, as all that is compared does.
        taken = [(_arrival(["cat", path], size), _arrival([*run, "cat", path], size)) for _ in range(effort.rounds)]
    bare, passed = (min(each) for each in zip(*taken, strict=True))
    return [
        ratio("`cc-trace run -- true` / `python3 -c pass`", seconds["run"] / seconds["bare"], MAX_START_RATIO),
        ratio(
            f"`cc-trace run -- cat` of {effort.passed_bytes // MB} MB / `cat`",
            passed / bare,
            MAX_PASSING_RATIO,
            f"{size / MB / passed:.0f} MB/s",
        ),
    ]


def _arrival(command: Sequence[str | Path], size: int) -> float:
    """Return the time from the start of a command until so many bytes of its output are here."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ, bufsize=0) as process:
        assert process.stdout is not None  # noqa: S101
        left = size
        while left and (data := process.stdout.read(_READ_BYTES)):
            left -= len(data)
        taken = time.perf_counter() - began
    if left or process.returncode:
        message = f"{left} bytes did not arrive; it ended with {process.returncode}"
        raise RuntimeError(message)
    return taken
