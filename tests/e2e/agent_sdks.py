"""The Agent SDKs, from their registries, in the cache of Claude Code; without the copies of it that come with them."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from claude_code import fetch, in_cache, npm
from versions import PYTHON_SDK, TYPESCRIPT_SDK

if TYPE_CHECKING:
    from pathlib import Path


def python_sdk() -> Path:
    """Return a folder with the Python SDK and what it needs, for `sys.path`."""
    return in_cache(f"claude-agent-sdk-py-{PYTHON_SDK}-{sys.version_info.major}.{sys.version_info.minor}", _pip)


def typescript_sdk() -> Path:
    """Return a folder with the TypeScript SDK in its `node_modules`."""
    package = f"@anthropic-ai/claude-agent-sdk@{TYPESCRIPT_SDK}"
    return in_cache(f"claude-agent-sdk-ts-{TYPESCRIPT_SDK}", lambda folder: npm(folder, package, "--omit=optional"))


def _pip(folder: Path) -> None:
    # Its source: the wheels have Claude Code in them.
    what = ("--target", str(folder), "--no-binary", "claude-agent-sdk", f"claude-agent-sdk=={PYTHON_SDK}")
    uv = shutil.which("uv")
    pip = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
    fetch([*pip, "--quiet", *what], what[-1])
