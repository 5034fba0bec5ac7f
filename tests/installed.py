"""A home folder to install into, and what it holds; shared by the tests of installation and of the plugin."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from shared import ROOT

from cc_trace.install.self_check import SAMPLE, SESSION_ID

if TYPE_CHECKING:
    from pathlib import Path

# All that a shell or JSON could stumble over.
AWKWARD = 'it\'s a "höme" $HOME `x` \\y * ☃'
# How pip and uv find their packages here.
NETWORK = ("PIP_", "UV_", "HTTP_", "HTTPS_", "NO_PROXY", "http_", "https_", "no_proxy", "SSL_", "REQUESTS_")
# What install.sh makes an environment by here: by uv only where Python has no venv, as Debian's without python3-venv.
MADE_BY = "venv" if find_spec("ensurepip") is not None else "uv"
# What our tests must not inherit, so that they are the same everywhere.
_BASE = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


@dataclass(frozen=True, slots=True)
class Home:
    """A home folder of its own; `environment` is all that commands see."""

    path: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> Path:
        """The user's settings file."""
        return self.path / ".claude" / "settings.json"

    @property
    def hook(self) -> Path:
        """The copy of the hook."""
        return self.path / ".local" / "share" / "cc-trace" / "hooks" / "cc-trace-hook"

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.path / ".claude" / "state" / "cc-trace"

    def variables(self, **changes: str | None) -> dict[str, str]:
        """The environment with changes; None takes a variable out."""
        merged = {**_BASE, "HOME": str(self.path), **self.environment, **changes}
        return {name: value for name, value in merged.items() if value is not None}

    def cc_trace(
        self, *arguments: str, cwd: Path | None = None, **changes: str | None
    ) -> subprocess.CompletedProcess[str]:
        """Run the command of the checkout."""
        command = [sys.executable, "-m", "cc_trace", *arguments]
        return run(command, self.variables(**changes), cwd or self.path)

    def write_settings(self, data: str | bytes, mode: int = 0o644) -> bytes:
        """The user's settings as they were before; their bytes."""
        raw = data.encode() if isinstance(data, str) else data
        self.settings.parent.mkdir(exist_ok=True)
        self.settings.write_bytes(raw)
        self.settings.chmod(mode)
        return raw

    def commands(self, settings: Path | None = None) -> dict[str, list[str]]:
        """The registered commands of each event."""
        hooks = json.loads((settings or self.settings).read_text())["hooks"]
        return {
            event: [hook["command"] for group in groups for hook in group["hooks"]] for event, groups in hooks.items()
        }

    def sample_payload(self) -> bytes:
        """What Claude Code says at the end of the sample's turn, which is copied to its place for it."""
        project = self.path / ".claude" / "projects" / "-home-dev-project"
        if not project.exists():
            shutil.copytree(SAMPLE, project)
        payload = {"hook_event_name": "Stop", "transcript_path": str(project / f"{SESSION_ID}.jsonl")}
        return json.dumps(payload).encode()

    def claude_runs(
        self, command: str, event: str = "Stop", **changes: str | None
    ) -> subprocess.CompletedProcess[bytes]:
        """A hook as Claude Code runs it, waiting for its worker."""
        return subprocess.run(
            ["/bin/sh", "-c", command],
            input=self.sample_payload().replace(b'"Stop"', f'"{event}"'.encode()),
            env=self.variables(**{"CC_TRACE_WAIT": "1", "CC_TRACE_WAIT_SECONDS": "30", **changes}),
            cwd=self.path,
            capture_output=True,
            timeout=60,
            check=False,
        )

    def stored(self) -> list[dict[str, Any]]:
        """The rows of the local store of this home."""
        shutil.rmtree(self.path / ".claude" / "projects")  # so that there is only the store to look into
        shown = self.cc_trace("show", SESSION_ID, "--json")
        assert (shown.returncode, shown.stderr) == (0, "")
        return [json.loads(line) for line in shown.stdout.splitlines()]


def for_install_sh(folder: Path) -> dict[str, str]:
    """The variables that install.sh needs here besides HOME; caches and temporary files are put into a folder."""
    network = {name: value for name, value in os.environ.items() if name.startswith(NETWORK)}
    folders = {"TMPDIR": str(folder), "UV_CACHE_DIR": str(folder / "uv")}
    uv = shutil.which("uv")
    path = _BASE["PATH"] if MADE_BY == "venv" or uv is None else f"{_BASE['PATH']}:{os.path.dirname(uv)}"  # noqa: PTH120  (a text)
    return {**network, **folders, "PYTHON": sys.executable, "PATH": path}


def run(command: list[str], environment: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """A process with nothing on stdin, bounded in time."""
    return subprocess.run(
        command,
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def snapshot(folder: Path, without: Path | None = None) -> dict[str, tuple[str, bytes | str]]:
    """All that is in a folder, but for one below it: modes, contents, links, and when files were changed."""
    found: dict[str, tuple[str, bytes | str]] = {}
    for path in sorted(folder.rglob("*")):
        if without is not None and path.is_relative_to(without):
            continue
        status = path.lstat()
        name, mode = str(path.relative_to(folder)), stat.filemode(status.st_mode)
        if path.is_symlink():
            found[name] = (mode, str(path.readlink()))
        elif path.is_dir():
            found[name] = (mode, "")
        else:
            found[name] = (f"{mode} {status.st_mtime_ns}", path.read_bytes())
    return found


def without_privileges(command: list[str]) -> list[str]:
    """The same command; for root without the capability to pass over modes."""
    if os.geteuid() != 0:
        return command
    program = (
        "import ctypes, os, sys; prctl = ctypes.CDLL(None).prctl; "
        "sys.exit(9) if prctl(24, 1, 0, 0, 0) or prctl(24, 2, 0, 0, 0) else os.execv(sys.argv[1], sys.argv[1:])"
    )
    return [sys.executable, "-c", program, *command]


def copy_of_project(folder: Path) -> Path:
    """The project as a user would have it: no environment, nothing that is built."""
    names = ("cc_trace", "hooks", ".claude-plugin", "install.sh", "pyproject.toml", "README.md", "LICENSE")
    folder.mkdir(parents=True)
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, folder / name)
    return folder
