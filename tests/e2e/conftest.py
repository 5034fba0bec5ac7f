"""Says what is missing before anything runs, plays the collected scenarios, and sums up what the hook cost."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import pytest

pytest.register_assert_rewrite("home", "scenarios", "stage", "terminal")

import claude_code  # noqa: E402
import scenarios  # noqa: E402, F401  (registers them)
from scenario import EVERY  # noqa: E402
from theatre import Theatre  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

_HELD_UP = pytest.StashKey[list[int]]()


def pytest_sessionstart() -> None:
    """Fail at once where a program is missing."""
    if missing := claude_code.missing_programs():
        pytest.exit("; ".join(missing), returncode=1)


@pytest.fixture(scope="session")
def theatre(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    """Yield the theatre in which the collected scenarios are played."""
    named = [item.callspec.params.get("scenario") for item in request.session.items if hasattr(item, "callspec")]
    chosen = [each for each in EVERY if each in named] or EVERY
    try:
        commands = {version: claude_code.command(version) for version in {each.version for each in chosen}}
    except claude_code.MissingError as error:
        pytest.exit(str(error), returncode=1)
    running = Theatre(chosen, commands, tmp_path_factory.mktemp("e2e"))
    yield running
    running.close()
    request.config.stash[_HELD_UP] = [
        held_up_ms for stage in running.all_played() for held_up_ms in stage.transcripts.held_up_ms()
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print how long the hook held sessions up."""
    if held_up := config.stash.get(_HELD_UP, []):
        middle, most = statistics.median(held_up), max(held_up)
        terminalreporter.write_line(
            f"hook: {len(held_up)} Stops held up for {middle:.0f} ms (median), {most} ms (most)"
        )
