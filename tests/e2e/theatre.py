"""Plays the scenarios, some at a time: they wait more than they work. Tests ask for the stage a scenario left."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from home import real_homes_names
from stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from hook_calls import HookCall
    from scenario import Scenario

_AT_ONCE: Final = 3


class Theatre:
    """Begins with all scenarios at once, as far as there is room."""

    def __init__(self, scenarios: Iterable[Scenario], commands: Mapping[str, tuple[str, ...]], folder: Path) -> None:
        """`commands`: how each version is started."""
        self.folder = folder
        self._names = real_homes_names()
        self._commands = commands
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        self._played: dict[Scenario, Future[Stage]] = {
            scenario: self._pool.submit(self._play, scenario) for scenario in scenarios
        }

    def played(self, scenario: Scenario) -> Stage:
        """Wait until a scenario is over; return what it left, or fail as it failed."""
        return self._played[scenario].result()

    def all_played(self) -> list[Stage]:
        """Wait for all; return what those left that were played to their end."""
        futures = self._played.values()
        return [future.result() for future in futures if not future.cancelled() and future.exception() is None]

    def hook_calls(self) -> list[HookCall]:
        """Return the calls of our hook in all of them."""
        return [call for stage in self.all_played() for call in stage.home.hook_calls()]

    def litter(self) -> set[Path]:
        """Return what has come to be in the home of whoever runs the tests."""
        self.all_played()
        return real_homes_names() - self._names

    def close(self) -> None:
        """Begin no more, and wait for those that are being played."""
        self._pool.shutdown(cancel_futures=True)

    def _play(self, scenario: Scenario) -> Stage:
        folder = self.folder / f"{scenario.name}-{scenario.version}"
        with Stage(scenario.name, folder, scenario.version, self._commands[scenario.version]) as stage:
            scenario.play(stage)
            stage.settle()
        return stage
