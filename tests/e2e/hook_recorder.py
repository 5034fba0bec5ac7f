"""Runs our hook for Claude Code and records the call: what it printed, how it ended, how long it took.

Called as `python hook_recorder.py FOLDER EVENT COMMAND`. The record is written before the hook runs, so that a call
which is killed is known, too. The pipes are read to their end, as Claude Code does: a child that keeps them open holds
it up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def main(folder: str, event: str, command: str) -> int:
    """Run the hook."""
    path = Path(folder) / f"{time.time_ns()}-{os.getpid()}.json"
    note = {"event": event, "code": None, "stdout": "", "stderr": "", "ms": 0.0}
    path.write_text(json.dumps(note))
    began = time.monotonic()
    ended = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)
    note |= {"code": ended.returncode, "ms": (time.monotonic() - began) * 1000}
    note |= {"stdout": ended.stdout.decode(errors="replace"), "stderr": ended.stderr.decode(errors="replace")}
    path.write_text(json.dumps(note))
    sys.stdout.buffer.write(ended.stdout)
    sys.stderr.buffer.write(ended.stderr)
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
