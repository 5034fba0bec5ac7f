"""Private files on systems with other means than ours."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from cc_trace.files import open_private, write_private

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_an_open_file_is_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch(mode=0o644)
    os.close(open_private(path, os.O_WRONLY))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_system_without_fchmod_writes_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Windows before Python 3.13, where every file seems to have another mode than it was made with."""
    monkeypatch.delattr(os, "fchmod")
    path = tmp_path / "log"
    path.touch(mode=0o666)
    os.close(open_private(path, os.O_WRONLY))
    write_private(path, b"text")
    assert path.read_bytes() == b"text"
