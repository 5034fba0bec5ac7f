"""The calls of our hook as Claude Code sees them, in every version and at both events."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_OURS: Final = "cc-trace-hook"
_RECORDER: Final = Path(__file__).with_name("hook_recorder.py")


@dataclass(frozen=True, slots=True)
class HookCall:
    """One call."""

    event: str
    code: int | None  # None: it was ended from outside
    stdout: str
    stderr: str
    ms: float


def watch(settings: Path, folder: Path) -> None:
    """Put a program that notes every call into a folder before our hook wherever it is registered."""
    folder.mkdir()
    said = json.loads(settings.read_text())
    for event, groups in said["hooks"].items():
        for hook in (hook for group in groups for hook in group["hooks"] if _OURS in hook.get("command", "")):
            recorder = (sys.executable, "-I", "-S", str(_RECORDER), str(folder), event)
            hook["command"] = shlex.join((*recorder, hook["command"]))
    settings.write_text(json.dumps(said))


def noted(folder: Path) -> list[HookCall]:
    """Return the calls in their order; none where no hook is registered in the settings."""
    return [HookCall(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]
