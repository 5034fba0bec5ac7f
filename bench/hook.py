"""How long the user waits for the hook."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from table import Row, ratio
from timing import waits

if TYPE_CHECKING:
    from table import Effort

HOOK: Final = Path(__file__).resolve().parent.parent / "hooks" / "cc-trace-hook"
MAX_RATIO: Final = 0.6
# As long as a usual Stop payload with a reply of some paragraphs.
PAYLOAD: Final = b'{"hook_event_name":"Stop","session_id":"0","last_assistant_message":"' + b"word " * 400 + b'"}'
# What a hook leaves running is over by then, and not part of the next measurement.
PAUSE_SECONDS: Final = 0.02
WORKER_SECONDS: Final = 0.3
REST_SECONDS: Final = 1.2  # more than any worker here waits for anything
MAX_SECONDS: Final = 30.0
TRANSCRIPT: Final = (
    b'{"type":"user","uuid":"1","message":{"role":"user","content":"x"}}\n'
    b'{"type":"assistant","uuid":"2","message":{"id":"m","role":"assistant","model":"claude-sonnet-4-5","content":"y"}}\n'
    b'{"type":"system","subtype":"turn_duration","durationMs":1}\n'
)


def rows(effort: Effort) -> list[Row]:
    """Return the wait in multiples of the least there is: a Python, and a shell script, that do nothing."""
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder, "empty")
        empty.write_text("#!/bin/sh\n")
        empty.chmod(0o700)
        # This interpreter: the python3 on the PATH may be a wrapper that takes several times as long.
        commands = {
            "python": [sys.executable, "-c", "pass"],
            "empty": [str(empty)],
            "hook": [str(HOOK)],
            "hook.py": [sys.executable, "-m", "cc_trace.hook"],
        }
        seconds = waits(commands, effort.hooks, _environment(folder), PAYLOAD, PAUSE_SECONDS)
        time.sleep(0.5)  # the last hooks' renames, before the folder goes
    return [
        ratio("hook (sh) / `python3 -c pass`", seconds["hook"] / seconds["python"], MAX_RATIO),
        *(_with_backend(state, effort) for state in ("refuses", "hangs")),
        ratio("hook (sh) / empty sh script", seconds["hook"] / seconds["empty"]),
        ratio("`python3 -m cc_trace.hook` / `python3 -c pass`", seconds["hook.py"] / seconds["python"]),
    ]


def _with_backend(state: Literal["refuses", "hangs"], effort: Effort) -> Row:
    """Measure with real workers at work on a backend in trouble: the user's wait must be the same."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if state == "hangs":
            server.listen()  # takes connections and never answers
        transcript = Path(folder, "projects", "-p", "00000000-0000-4000-8000-000000000001.jsonl")
        transcript.parent.mkdir(parents=True)
        transcript.write_bytes(TRANSCRIPT)
        environment = _environment(folder) | {
            "CC_TRACE_PYTHON": sys.executable,
            "CLAUDE_CONFIG_DIR": folder,
            "CC_TRACE_OTLP_ENDPOINT": f"http://127.0.0.1:{server.getsockname()[1]}",
            "CC_TRACE_TIMEOUT_SECONDS": "0.5",
        }
        commands = {"python": [sys.executable, "-c", "pass"], "hook": [str(HOOK)]}
        payload = b'{"hook_event_name":"Stop","transcript_path":"%b"}' % str(transcript).encode()
        seconds = waits(commands, effort.hooks, environment, payload, WORKER_SECONDS)
        _wait_for_workers(Path(folder))
    name = f"hook (sh) while the backend {state} / `python3 -c pass`"
    return ratio(name, seconds["hook"] / seconds["python"], MAX_RATIO)


def _wait_for_workers(folder: Path) -> None:
    """Wait, before the folder goes, until every payload was taken and nothing has changed for a while."""
    end = time.monotonic() + MAX_SECONDS
    before, since = [""], time.monotonic()
    while time.monotonic() < end:
        there = sorted(str(path) for path in folder.rglob("*"))
        waiting = any(Path(name).parent.name == "spool" for name in there)
        if there != before or waiting:
            before, since = there, time.monotonic()
        elif time.monotonic() - since >= REST_SECONDS:
            return
        time.sleep(0.1)


def _environment(home: str) -> dict[str, str]:
    """Take the user's own, with a worker that ends at once: what the worker does is no part of the wait."""
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "CLAUDE_CODE_REMOTE")}
    kept = {name: value for name, value in kept.items() if not name.startswith("CC_TRACE_")}
    return {**kept, "CC_TRACE_HOME": home, "CC_TRACE_PYTHON": shutil.which("true") or sys.executable}
