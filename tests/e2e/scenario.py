"""What a scenario is, and all there are: a function that plays it on a stage, and the version it is played with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from versions import CURRENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from stage import Stage

    Play = Callable[[Stage], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run of a scenario."""

    name: str
    version: str
    play: Play


EVERY: Final[list[Scenario]] = []


def scenario(*versions: str) -> Callable[[Play], Play]:
    """Register a function as a scenario, played with each of these versions."""

    def register(play: Play) -> Play:
        EVERY.extend(Scenario(play.__name__, version, play) for version in versions or (CURRENT,))
        return play

    return register
