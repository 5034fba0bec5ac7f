"""The real Claude Code, from its npm package, in a cache folder that outlives the tests.

Rule: a version's folder exists only when it is complete. It is filled under another name and renamed, so an
installation that was broken off is simply made anew; the lock keeps two from being made at once.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from filelock import FileLock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CACHE: Final = "CC_TRACE_E2E_CACHE"  # names another cache folder
_SCRIPT: Final = "claude-code"  # the package that runs on node
_SECONDS: Final = 600.0  # to fetch 366 MB
_NEEDED: Final = {
    "npm": "npm fetches Claude Code: install Node.js 18 or newer with npm",
    "node": "Claude Code 2.0 runs on it: install Node.js 18 or newer",
    "tmux": "interactive sessions run in it: install tmux",
}


class MissingError(Exception):
    """Something these tests need is not there; the text says what to install."""


def missing_programs() -> list[str]:
    """Say, a line each, what is to be installed before these tests can run."""
    return [f"{name} is missing; {why}" for name, why in _NEEDED.items() if shutil.which(name) is None]


def command(version: str) -> tuple[str, ...]:
    """Return the beginning of the command line that starts a version, installed first where it is missing."""
    installed = in_cache(version, lambda making: npm(making, f"@anthropic-ai/{_package(version)}@{version}"))
    package = installed / "node_modules" / "@anthropic-ai" / _package(version)
    if package.name != _SCRIPT:
        return (str(package / "claude"),)
    node = shutil.which("node")
    assert node is not None, _NEEDED["node"]
    return (node, str(package / "cli.js"))


def in_cache(name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; `make` is given an empty one to fill, where it is missing."""
    folder = _cache(os.environ)
    folder.mkdir(parents=True, exist_ok=True)
    installed = folder / name
    if not installed.is_dir():
        with FileLock(folder / f"{name}.lock", timeout=_SECONDS):
            if not installed.is_dir():
                making = installed.with_name(f"{name}.new")
                shutil.rmtree(making, ignore_errors=True)
                making.mkdir()
                make(making)
                making.rename(installed)
    return installed


def _cache(environment: Mapping[str, str]) -> Path:
    if chosen := environment.get(CACHE):
        return Path(chosen)
    caches = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "cc-trace" / "claude-code"


def _package(version: str) -> str:
    """Return the package that holds a version: since 2.1 a binary is in one for each platform.

    That one alone is installed, because the package around it asks for a newer node than it needs.
    """
    if version.startswith("2.0."):
        return _SCRIPT
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine().lower()]
    musl = "-musl" if Path("/etc/alpine-release").exists() else ""
    return f"{_SCRIPT}-{platform.system().lower()}-{machine}{musl}"


def npm(folder: Path, package: str, *more: str) -> None:
    """Install a package into a folder."""
    cache = folder / "cache"
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", f"--cache={cache}", *more)
    fetch(["npm", "install", *options, f"--prefix={folder}", package], package)
    shutil.rmtree(cache)


def fetch(command: list[str], what: str) -> None:
    """Run a command that fetches something."""
    fetched = subprocess.run(command, check=False, timeout=_SECONDS, capture_output=True, text=True)
    if fetched.returncode:
        message = f"{command[0]} could not fetch {what}: {fetched.stderr.strip().partition(chr(10))[0]}"
        raise MissingError(message)
