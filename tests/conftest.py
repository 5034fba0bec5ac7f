"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# No test depends on how fast the machine is.
settings.register_profile("any speed")
settings.load_profile("any speed")
