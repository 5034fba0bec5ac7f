"""What a machine with many sessions costs: one Stop, with the look around it makes once a minute, and `status`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import stop
import transcripts
from table import Row, ratio
from timing import cost

from cc_trace.delivery.cursor import Cursor, SessionState, to_json
from cc_trace.delivery.state import StateFolder
from cc_trace.transcript import FINGERPRINT_BYTES, OpenTranscript

if TYPE_CHECKING:
    from table import Effort

MAX_STOP: Final = 20.0
MAX_STATUS: Final = 20.0
_LINE: Final = b'{"type":"user","sessionId":"%b","cwd":"/p","message":{"role":"user","content":"go"}}\n'


def rows(effort: Effort) -> list[Row]:
    """Return the CPU time of a Stop and that of `status` against an idle Python's."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        _fill(home, effort.sessions)
        _stop(home, 0)  # the first one indexes the sessions
        stops: list[float] = []
        statuses: list[float] = []
        floors: list[float] = []
        for round_ in range(1, effort.workers + 1):
            stops.append(_stop(home, round_))
            floors.append(cost([sys.executable, "-c", "pass"], os.environ).cpu_seconds)
            command = [sys.executable, "-m", "cc_trace", "status"]
            statuses.append(cost(command, _environment(home)).cpu_seconds)
    name, floor = f"{effort.sessions:,} sessions", min(floors)
    return [
        ratio(
            f"{name}: worker's CPU for a Stop that looks around / `python3 -c pass`",
            min(stops) / floor,
            MAX_STOP,
            f"{min(stops) * 1000:.0f} ms",
        ),
        ratio(
            f"{name}: CPU of `cc-trace status` / `python3 -c pass`",
            min(statuses) / floor,
            MAX_STATUS,
            f"{min(statuses) * 1000:.0f} ms",
        ),
    ]


def _fill(home: Path, number: int) -> None:
    """Make so many sessions that are delivered, in folders of 100."""
    states = StateFolder(home / ".claude" / "state" / "cc-trace")
    states.prepare()
    states.stamp_installed()
    for each in range(number):
        path = home / ".claude" / "projects" / f"-p{each // 100}" / f"{each:08}-0000-4000-8000-000000000001.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_LINE % path.stem.encode())
        status = path.stat()
        state = SessionState(path.stem, str(path), status.st_size, status.st_mtime_ns, cwd="/p")
        state.fingerprint_bytes = min(status.st_size, FINGERPRINT_BYTES)
        with OpenTranscript(path) as transcript:
            state.fingerprint = transcript.fingerprint(state.fingerprint_bytes)
        state.destinations["local"] = Cursor(delivered=2, turns_before=1, last_attempt_at=status.st_mtime)
        states.path(path.stem).write_bytes(to_json(state))


def _stop(home: Path, round_: int) -> float:
    path = home / ".claude" / "projects" / "-p0" / f"{transcripts.SESSION}.jsonl"
    stop.append_turn(path, round_)
    (home / ".claude" / "state" / "cc-trace" / "swept").unlink(missing_ok=True)
    return stop.work(home, path).cpu_seconds


def _environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": os.environ["PATH"], "CC_TRACE_DESTINATIONS": "local"}
