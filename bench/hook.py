"""How long the user waits for the hook, as ratios: they hold on a slow machine as well as on a fast one.

Run in turns, so that what slows the machine down slows all of them down.
"""

from __future__ import annotations

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

HOOK = Path(__file__).resolve().parent.parent / "hooks" / "cc-trace-hook"
ROUNDS = 30
# As long as a usual Stop payload with a reply of some paragraphs.
PAYLOAD = b'{"hook_event_name":"Stop","session_id":"0","last_assistant_message":"' + b"word " * 400 + b'"}'
# What a hook leaves running is over by then, and not part of the next measurement.
PAUSE_SECONDS = 0.02
TRANSCRIPT = (
    b'{"type":"user","uuid":"1","message":{"role":"user","content":"x"}}\n'
    b'{"type":"assistant","uuid":"2","message":{"id":"m","role":"assistant","model":"claude-sonnet-4-5","content":"y"}}\n'
    b'{"type":"system","subtype":"turn_duration","durationMs":1}\n'
)


def rows() -> list[tuple[str, float, float | None]]:
    """Name, ratio and, where there is one, the limit it has to keep."""
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder, "empty")
        empty.write_text("#!/bin/sh\n")
        empty.chmod(0o700)
        # This interpreter: the python3 on the PATH may be a wrapper that takes several times as long.
        medians = _medians(
            {
                "python": [sys.executable, "-c", "pass"],
                "empty": [str(empty)],
                "hook": [str(HOOK)],
                "hook.py": [sys.executable, "-m", "cc_trace.hook"],
            },
            _environment(folder),
        )
        time.sleep(1)  # the last hooks' renames, before the folder goes
    return [
        ("hook (sh) / python3 -c pass", medians["hook"] / medians["python"], 0.6),
        *(_with_backend(state) for state in ("refuses", "hangs")),
        ("hook (sh) / empty sh script", medians["hook"] / medians["empty"], None),
        ("python -m cc_trace.hook / python3 -c pass", medians["hook.py"] / medians["python"], None),
    ]


def _with_backend(state: Literal["refuses", "hangs"]) -> tuple[str, float, float | None]:
    """Measure with real workers at work on a backend in trouble: the user's wait must be the same."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as server:
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
        medians = _medians(commands, environment, payload, pause_seconds=0.3)
        time.sleep(3)  # the last workers end, before the folder goes
    return f"hook (sh) while the backend {state} / python3 -c pass", medians["hook"] / medians["python"], 0.6


def _environment(home: str) -> dict[str, str]:
    """Take the user's own, with a worker that ends at once: what the worker does is no part of the wait."""
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "CLAUDE_CODE_REMOTE")}
    kept = {name: value for name, value in kept.items() if not name.startswith("CC_TRACE_")}
    return {**kept, "CC_TRACE_HOME": home, "CC_TRACE_PYTHON": shutil.which("true") or sys.executable}


def _medians(
    commands: dict[str, list[str]],
    environment: dict[str, str],
    payload: bytes = PAYLOAD,
    pause_seconds: float = PAUSE_SECONDS,
) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for round_ in range(ROUNDS + 1):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, input=payload, env=environment, check=True, stdout=subprocess.DEVNULL)
            took = time.perf_counter() - start
            # The first round makes the spool folder and fills the caches.
            if round_:
                seconds[name].append(took)
            time.sleep(pause_seconds)
    return {name: statistics.median(values) for name, values in seconds.items()}


if __name__ == "__main__":
    for name, ratio, limit in rows():
        print(f"{name}: {ratio:.2f}" + (f" (at most {limit})" if limit else ""))
