"""The versions of Claude Code these tests run. Raise them here and nowhere else.

The watch on the format then says what is new; `UPDATE_FORMAT=1 make test-e2e` puts it on the list.
"""

from __future__ import annotations

from typing import Final

CURRENT: Final = "2.1.325"
PREVIOUS: Final = ("2.1.197", "2.0.77")
EVERY: Final = (CURRENT, *PREVIOUS)

PYTHON_SDK: Final = "0.2.184"
TYPESCRIPT_SDK: Final = "0.3.327"
