"""Says what is missing before anything runs, runs the collected scenarios, and sums up what the hook cost."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import pytest

pytest.register_assert_rewrite("home", "sandbox", "scenarios", "terminal")

import claude_code  # noqa: E402
import processes  # noqa: E402
import scenarios  # noqa: E402, F401  (registers them)
from hook_calls import HookCall  # noqa: E402
from runner import ScenarioRunner  # noqa: E402
from scenario import EVERY  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

_CALLS = pytest.StashKey[list[HookCall]]()


def pytest_sessionstart() -> None:
    """Fail at once where a program is missing."""
    if missing := claude_code.missing_programs():
        pytest.exit("; ".join(missing), returncode=1)


@pytest.fixture(scope="session")
def runner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScenarioRunner]:
    """Yield the runner of the collected scenarios."""
    named = [item.callspec.params.get("scenario") for item in request.session.items if hasattr(item, "callspec")]
    chosen = [each for each in EVERY if each in named] or EVERY
    try:
        commands = {version: claude_code.command(version) for version in {each.version for each in chosen}}
    except claude_code.MissingError as error:
        pytest.exit(str(error), returncode=1)
    processes.adopt_orphans()
    running = ScenarioRunner(chosen, commands, tmp_path_factory.mktemp("e2e"))
    yield running
    running.close()
    request.config.stash[_CALLS] = running.hook_calls()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print how long the hook held sessions up."""
    calls = config.stash.get(_CALLS, [])
    for event in sorted({call.event for call in calls}):
        taken = [call.ms for call in calls if call.event == event]
        middle, most = statistics.median(taken), max(taken)
        terminalreporter.write_line(
            f"hook: {len(taken)} {event}s held up for {middle:.0f} ms (median), {most:.0f} ms (most)"
        )
