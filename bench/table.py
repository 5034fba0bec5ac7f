"""The table of figures, and what they were measured on."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MB: Final = 1_000_000
_PACKAGES: Final = ("orjson", "protobuf", "opentelemetry-sdk")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    figure: str
    measured: str
    limit: str = ""
    within: bool = True


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured. Small ones show that the measuring itself works, and their figures mean nothing."""

    rounds: int = 15  # of work in this process
    starts: int = 40  # of a command that is over at once
    hooks: int = 30  # of a hook, with a pause after each
    workers: int = 5  # of a worker, for one more turn
    backfills: int = 3
    speed_bytes: int = 60 * MB
    memory_bytes: int = 300 * MB
    stop_megabytes: tuple[int, ...] = (1, 30, 300)
    sessions: int = 10_000
    agent_files: int = 16_000
    passed_bytes: int = 100 * MB
    history_bytes: int = 1000 * MB


SMALL: Final = Effort(1, 1, 1, 1, 1, 400_000, 400_000, (1, 2), 30, 40, MB, 2 * MB)


def ratio(figure: str, value: float, limit: float | None = None, also: str = "") -> Row:
    """Return the line of one thing measured in multiples of another."""
    measured = f"{value:.2f} x" + (f" ({also})" if also else "")
    return Row(figure, measured, "" if limit is None else f"{limit:g} x", limit is None or value <= limit)


def rendered(rows: Iterable[Row]) -> str:
    """Return the table in Markdown."""
    head = ("| figure | measured | limit | |", "|---|---|---|---|")
    lines = (f"| {row.figure} | {row.measured} | {row.limit} | {'' if row.within else '**beyond**'} |" for row in rows)
    return "\n".join((*head, *lines))


def machine() -> str:
    """Name what was measured on, without a word that tells one such machine from another."""
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        cpuinfo = ""
    models = [line.partition(":")[2].strip() for line in cpuinfo.splitlines() if line.startswith("model name")]
    model = models[0] if models else platform.processor() or platform.machine()
    system = f"{platform.system()} {platform.machine()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return f"{model}, {os.cpu_count()} cores, {system}, {python}, {packages}"
