"""What Claude Code writes of its own process into `<config>/sessions/<pid>.json`, for tests that play one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from cc_trace.delivery.process import Process

if TYPE_CHECKING:
    from pathlib import Path


def write_record(config_dir: Path, session_id: str, status: str | None, **fields: Any) -> Path:
    """Write the record of this very process, which is alive; fields can be given by their own names."""
    pid = fields.get("pid", os.getpid())
    record: dict[str, Any] = {"pid": pid, "sessionId": session_id, "procStart": Process.running(os.getpid()).start}
    if status is not None:
        record["status"] = status
    path = config_dir / "sessions" / f"{pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record | fields))
    return path


def ended_pid() -> int:
    """Return the id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid
