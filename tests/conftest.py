"""What holds for all tests, and a home for those that need one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pathlib import Path

# No test depends on how fast the machine is.
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


@pytest.fixture
def projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for a project's transcripts in a home of the test's own, seen on a wide terminal."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / ".claude"))
    monkeypatch.setenv("COLUMNS", "200")
    folder = tmp_path / ".claude" / "projects" / "-home-dev-project"
    folder.mkdir(parents=True)
    return folder
