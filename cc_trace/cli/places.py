"""Where the user is and lives, or one line on why that cannot be told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cc_trace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


def home(environment: Mapping[str, str]) -> Path:
    """Return the user's home folder."""
    named = environment.get("HOME")
    if named == "":
        message = "HOME is empty; set it to the folder of the user that runs Claude Code"
        raise ConfigError(message)
    try:
        return Path(named) if named else Path.home()
    except RuntimeError as error:
        message = "HOME is not set, and this user has no home folder"
        raise ConfigError(message) from error


def here() -> Path:
    """Return the current folder."""
    try:
        return Path.cwd()
    except OSError as error:
        message = f"the current folder cannot be used: {error.strerror}"
        raise ConfigError(message) from error
