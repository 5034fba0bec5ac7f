"""How long a command takes that does nothing: the interpreter's own start, and what is ours on top of it.

And what importing the Langfuse package takes, which only those pay that need it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from table import Row, ratio
from timing import cost, waits

if TYPE_CHECKING:
    from table import Effort


def rows(effort: Effort) -> list[Row]:
    """Return what `--help` takes, through the script that pip writes and without it."""
    commands = {
        "bare": [sys.executable, "-c", "pass"],
        "script": [str(Path(sys.executable).with_name("cc-trace")), "--help"],
        "module": [sys.executable, "-m", "cc_trace", "--help"],
    }
    seconds = waits(commands, effort.starts, os.environ, of=min)
    imports = [sys.executable, "-c", "import cc_trace.export.langfuse_api"]
    package = min(cost(imports, os.environ).cpu_seconds for _ in range(effort.workers))
    bare = min(cost(commands["bare"], os.environ).cpu_seconds for _ in range(effort.workers))
    return [
        ratio("`cc-trace --help` / `python3 -c pass`", seconds["script"] / seconds["bare"]),
        ratio("`python3 -m cc_trace --help` / `python3 -c pass`", seconds["module"] / seconds["bare"]),
        ratio(
            "CPU of importing the Langfuse package, where something is asked / `python3 -c pass`",
            package / bare,
            also=f"{package * 1000:.0f} ms",
        ),
    ]
