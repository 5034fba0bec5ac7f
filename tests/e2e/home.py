"""A home of its own for Claude Code: folders, settings, an environment made from nothing, and our hook in it."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import hook_calls
from waiting import LONG_SECONDS

if TYPE_CHECKING:
    from hook_calls import HookCall

MODEL: Final = "claude-sonnet-4-5-20250929"
_KEY: Final = "sk-ant-" + "made-up-" + "0" * 28  # the scripted API does not look at it
_TEMPORARY: Final = re.compile(r"claude-.+|cc-socks")  # what Claude Code leaves in its folder for temporary files
_AT_HOME: Final = re.compile(
    r"\.local/share/(?:cc-trace/(?:hooks/cc-trace-hook|backups/.+|installed)|applications/.+)|\.config/.+"
)
_ALLOWED: Final = ("Bash", "Read", "Write", "Edit", "Agent", "Task", "Glob", "Grep")


def real_homes_names() -> set[Path]:
    """Return what is named after us in the home of whoever runs the tests, which is none of our business."""
    home = Path.home()
    folders = (home, *(home / name for name in (".cache", ".config", ".local/share", ".local/state")))
    return {path for folder in folders for path in folder.glob("*") if re.search("cc[-_]trace", path.name)}


class Home:
    """The folders of one user on one machine, below `folder`."""

    def __init__(self, folder: Path, api_url: str, sink_url: str) -> None:
        self.folder = folder
        self.user, self.config, self.project = folder / "home", folder / "config", folder / "project"
        self._temporary = folder / "tmp"
        for each in (self.user, self.config, self.project, self._temporary):
            each.mkdir(parents=True)
        self.settings: dict[str, Any] = {
            "permissions": {"allow": list(_ALLOWED)},
            "env": {"CC_TRACE_DESTINATIONS": "otlp", "CC_TRACE_OTLP_ENDPOINT": sink_url},
        }
        self.variables: dict[str, str] = {}  # of the environment, besides those every session has
        self._api_url = api_url
        self._calls = folder / "hook-calls"

    @property
    def environment(self) -> dict[str, str]:
        """All that Claude Code finds in its environment."""
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.user),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "SHELL": "/bin/bash",
            "USER": "tester",
            "TERM": "xterm-256color",
            "TMPDIR": str(self._temporary),
            "CLAUDE_CONFIG_DIR": str(self.config),
            "CLAUDE_CODE_TMPDIR": str(self._temporary),
            "ANTHROPIC_BASE_URL": self._api_url,
            "ANTHROPIC_API_KEY": _KEY,
            "ANTHROPIC_MODEL": MODEL,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
            "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
            "HTTP_PROXY": self._api_url,
            "HTTPS_PROXY": self._api_url,
            "NO_PROXY": "127.0.0.1,localhost",
            **self.variables,
        }

    @property
    def state(self) -> Path:
        """The folder where cc-trace keeps its state."""
        return self.config / "state" / "cc-trace"

    def write(self, name: str, text: str) -> Path:
        """Put a file into the project."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def write_config(self, name: str, text: str) -> Path:
        """Put a file into Claude Code's folder."""
        path = self.config / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def prepare(self, version: str, *, hook: bool = True) -> None:
        """Write the settings as a user would have them who has used Claude Code before; then install our hook."""
        (self.config / "settings.json").write_text(json.dumps(self.settings))
        known = {
            "hasTrustDialogAccepted": True,
            "hasCompletedProjectOnboarding": True,
            "projectOnboardingSeenCount": 5,
        }
        answered = {
            "hasCompletedOnboarding": True,
            "lastOnboardingVersion": version,
            "theme": "dark",
            "numStartups": 5,
            "customApiKeyResponses": {"approved": [_KEY[-20:]], "rejected": []},
            "projects": {str(self.project): known},
        }
        (self.config / ".claude.json").write_text(json.dumps(answered))
        if hook:
            self.cc_trace("install")
            hook_calls.watch(self.config / "settings.json", self._calls)

    @property
    def watched(self) -> bool:
        """Tell whether the hook was installed, so that its calls are noted; a plugin's are not."""
        return self._calls.is_dir()

    def hook_calls(self) -> list[HookCall]:
        """Return the calls of the hook that `install` registered."""
        return hook_calls.noted(self._calls)

    def log(self) -> list[str]:
        """Return the lines of our log, without time and process."""
        path = self.state / "cc-trace.log"
        return [line.split(" ", 2)[2] for line in path.read_text().splitlines()] if path.exists() else []

    def leftovers(self) -> list[str]:
        """Return what nobody knows of among the temporary files and in the user's home."""
        temporary = [path.name for path in self._temporary.iterdir() if not _TEMPORARY.fullmatch(path.name)]
        files = [str(path.relative_to(self.user)) for path in self.user.rglob("*") if not path.is_dir()]
        return temporary + [name for name in files if not _AT_HOME.fullmatch(name)]

    def leave(self) -> None:
        """Take away what Claude Code puts elsewhere: 2.0 knows no other place for the output of tasks."""
        elsewhere = Path("/tmp/claude")  # noqa: S108
        shutil.rmtree(elsewhere / re.sub("[^0-9A-Za-z]", "-", str(self.project)), ignore_errors=True)
        with contextlib.suppress(OSError):
            elsewhere.rmdir()  # unless another session is using it

    def cc_trace(self, *arguments: str) -> None:
        """Run one of our commands as the user of this home."""
        ran = subprocess.run(
            [sys.executable, "-m", "cc_trace", *arguments],
            env=self.environment,
            cwd=self.project,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONG_SECONDS,
        )
        assert (ran.returncode, ran.stderr) == (0, ""), ran
