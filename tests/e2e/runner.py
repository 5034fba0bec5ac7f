"""Runs the scenarios, a few at a time: they wait more than they work. Tests ask for the sandbox a scenario left."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from home import real_homes_names
from sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from hook_calls import HookCall
    from scenario import Scenario

_PARALLEL: Final = 3


class ScenarioRunner:
    """Starts on all scenarios at once, as far as there is room."""

    def __init__(self, scenarios: Iterable[Scenario], commands: Mapping[str, tuple[str, ...]], folder: Path) -> None:
        """`commands`: how each version is started."""
        self.folder = folder
        self._names = real_homes_names()
        self._commands = commands
        self._pool = ThreadPoolExecutor(_PARALLEL)
        self._results: dict[Scenario, Future[Sandbox]] = {
            scenario: self._pool.submit(self._run, scenario) for scenario in scenarios
        }

    def result(self, scenario: Scenario) -> Sandbox:
        """Wait until a scenario is over; return what it left, or fail as it failed."""
        return self._results[scenario].result()

    def finished(self) -> list[Sandbox]:
        """Wait for all; return the sandboxes of those that ran to their end."""
        futures = self._results.values()
        return [future.result() for future in futures if not future.cancelled() and future.exception() is None]

    def hook_calls(self) -> list[HookCall]:
        """Return the calls of our hook in all of them."""
        return [call for sandbox in self.finished() for call in sandbox.home.hook_calls()]

    def leftovers(self) -> set[Path]:
        """Return what has come to be in the home of whoever runs the tests."""
        self.finished()
        return real_homes_names() - self._names

    def close(self) -> None:
        """Start no more, and wait for those that are running."""
        self._pool.shutdown(cancel_futures=True)

    def _run(self, scenario: Scenario) -> Sandbox:
        folder = self.folder / f"{scenario.name}-{scenario.version}"
        with Sandbox(scenario.name, folder, scenario.version, self._commands[scenario.version]) as sandbox:
            scenario.run(sandbox)
            sandbox.settle()
        return sandbox
