"""A machine with sessions of the past, and `cc-trace backfill` on it, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

from lines import prompt, reply, write
from shared import CASES

from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from backend import HttpBackend

RECORDED: Final = [
    "2.1.325--c6_sync_subagent",
    "2.1.325--g1_two_turns_exit",
    "2.1.325--b_tools",
    "2.1.325--d_resume_fork",
]


# A small process between: who starts a program passes its own peak on to it.
_PEAK: Final = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""


class History:
    """A machine with sessions of the past."""

    def __init__(self, home: Path, backend: HttpBackend) -> None:
        self.home = home
        self.folder = home / ".claude" / "projects" / "-p"
        self.folder.mkdir(parents=True)
        self.environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "CC_TRACE_OTLP_ENDPOINT": backend.url,
            "CC_TRACE_TIMEOUT_SECONDS": "20",
        }

    def add(self, *cases: str, days: float = 1) -> list[Path]:
        """Add recorded sessions that were written to so many days ago."""
        for case in cases:
            shutil.copytree(CASES / case, self.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.spans"))
        paths = [path for case in cases for path in self.folder.glob("*.jsonl") if (CASES / case / path.name).exists()]
        past = time.time() - days * 86_400
        for path in paths:
            for file in [path, *path.with_suffix("").rglob("*.jsonl")]:
                os.utime(file, (past, past))
        return paths

    def start(self, *arguments: str, group: bool = False, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "cc_trace", "backfill", *arguments],
            env=self.environment | environment,
            cwd=self.home,
            start_new_session=group,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        process = self.start(*arguments, group=False, **environment)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def peak_kb(self) -> int:
        """Run it, and return the most memory it had."""
        command = [sys.executable, "-c", _PEAK, sys.executable, "-m", "cc_trace", "backfill"]
        done = subprocess.run(command, env=self.environment, cwd=self.home, capture_output=True, text=True, check=True)
        return int(done.stderr)

    def write(
        self, number: int, *, turns: int = 1, days: float = 1, first: float = 0, project: Path | None = None
    ) -> Path:
        """Add a session with so many turns of two spans, the first at `first` seconds after noon."""
        path = self.folder / f"{number:08}-0000-4000-8000-000000000001.jsonl"
        about = {"sessionId": path.stem, "cwd": str(project or self.home)}
        made = []
        for turn in range(turns):
            at = first + turn * 10
            made += [prompt(f"{number} {turn}", at, **about), reply(f"m{number}-{turn}", "b", at=at + 1, **about)]
        write(path, made)
        os.utime(path, (time.time() - days * 86_400,) * 2)
        return path

    def project(self, name: str, **environment: str) -> Path:
        """Add a project with settings of its own."""
        folder = self.home / name
        (folder / ".claude").mkdir(parents=True)
        (folder / ".claude" / "settings.json").write_text(json.dumps({"env": environment}))
        return folder

    def configure(self, project: Path, **settings: str) -> None:
        """Set something for a project in the user's own configuration."""
        for name, value in settings.items():
            command = [sys.executable, "-m", "cc_trace", "config", "set", "--project", str(project), name, value]
            subprocess.run(command, env=self.environment, cwd=self.home, capture_output=True, check=True)

    @property
    def state(self) -> Path:
        return self.home / ".claude" / "state" / "cc-trace"


def expected(paths: list[Path], kind: str | None = None) -> set[str]:
    spans = [span for path in paths for span in Session(path, ending="over").spans()]
    return {span.span_id for span in spans if kind in (None, span.kind)}


def lines(out: str) -> list[str]:
    """What was printed but for the first line, which has the time it took."""
    return out.splitlines()[1:]


def counted(out: str, destination: str = "otlp") -> tuple[int, int]:
    """How many turns and spans it says went to a destination, or would."""
    found = re.search(rf"([\d,]+) turns?, ([\d,]+) spans? (?:sent|would go) to {destination}", out)
    assert found, out
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))
