"""The processes that sessions started, found by the home in their environment or the folder they are in (Linux)."""

from __future__ import annotations

import os
from pathlib import Path


def started_in(folder: Path) -> dict[int, str]:
    """Return the running processes whose home or working folder is this one, or lies below it; their commands."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and _belongs(entry, folder):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended, or is another user's
    return found


def _belongs(process: Path, folder: Path) -> bool:
    homes = [each[5:] for each in (process / "environ").read_bytes().split(b"\0") if each.startswith(b"HOME=")]
    return any(Path(os.fsdecode(home)).is_relative_to(folder) for home in homes) or (
        process / "cwd"
    ).readlink().is_relative_to(folder)
