"""Whether everything works: one check after another, each with a verdict and, unless all is well, with what to do.

Rules: a check changes nothing but the spans it sends to prove a destination; it runs nothing that only a project's own
files name; it never raises.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from cc_trace.settings import read_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from cc_trace.delivery import StateFolder
    from cc_trace.settings import Config, Settings, Sources

Verdict: TypeAlias = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check. Every result that is not ok says how to fix it."""

    name: str
    verdict: Verdict
    found: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """What is checked: a user's installation, as seen by a session started in `project`."""

    sources: Sources
    config_dir: Path  # Claude Code's
    states: StateFolder  # the folder may not exist
    project: Path
    now: float

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment of this process."""
        return self.sources.environment

    def settings(self) -> Settings:
        """Return the settings. Raises ConfigError if a file cannot be read."""
        return self.sources.settings(self.project)

    def config(self) -> Config:
        """Return the settings, checked and converted. Raises ConfigError."""
        return read_config(self.settings(), self.states.folder, self.sources.home)


def ok(name: str, found: str) -> Check:
    """Return a passed check."""
    return Check(name, "ok", found)


def warning(name: str, found: str, fix: str) -> Check:
    """Return a warning: something is odd, but traces arrive."""
    return Check(name, "warning", found, fix)


def failed(name: str, found: str, fix: str) -> Check:
    """Return a failure: traces do not arrive, or others can read them."""
    return Check(name, "failed", found, fix)


def run_check(check: Callable[[Subject], Iterable[Check]], subject: Subject) -> Iterator[Check]:
    """Run a check and yield its results. A bug in one check is reported and does not stop the others."""
    try:
        yield from check(subject)
    except Exception as error:  # noqa: BLE001  (whatever it is, it is named)
        name = check.__name__.replace("_", " ")
        found = f"the check failed with {type(error).__name__}: {error}"
        yield failed(name, found, "report this as a bug in cc-trace, with the output of `cc-trace doctor --json`")


def moment(seconds: float) -> str:
    """Format a time."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # a file's time can be anything
        return f"{seconds:g} seconds after 1970"


def listed(items: Iterable[object], most: int = 3) -> str:
    """Join the first few items, and say how many more there are."""
    texts = [str(item) for item in items]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def mtime(path: Path) -> float:
    """Return when a file was last written; 0 if there is none."""
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0
