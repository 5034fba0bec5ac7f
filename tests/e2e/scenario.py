"""What a scenario is, and all there are: a function that runs in a sandbox, and the version of Claude Code it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from versions import CURRENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox import Sandbox

    Run = Callable[[Sandbox], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run of a scenario."""

    name: str
    version: str
    run: Run


EVERY: Final[list[Scenario]] = []


def scenario(*versions: str) -> Callable[[Run], Run]:
    """Register a function as a scenario, to be run with each of these versions."""

    def register(run: Run) -> Run:
        EVERY.extend(Scenario(run.__name__, version, run) for version in versions or (CURRENT,))
        return run

    return register
