"""Taking an installation out: just what was put in, and with `purge` also what was recorded since.

Nothing is removed as a tree that may hold something of somebody else: folders go when they are empty, the environment
when it is one, the state by its known names. Only the standard library is used, as in `settings_file`.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from typing import TYPE_CHECKING, Final

from cc_trace.install.installation import noted
from cc_trace.install.settings_file import attempt

if TYPE_CHECKING:
    from pathlib import Path

    from cc_trace.install.installation import InstallPaths

_STATE_FOLDERS: Final = ("sessions", "locks", "pending", "spool", "off", "off-since", "agents", "workers", "backoff")
_STAMPS: Final = ("installed", "hooked", "swept", "cleaned")
# With what SQLite puts beside its files, a ledger that was put aside, and a file that was being written.
_STATE_FILES: Final = re.compile(
    r"(?:installed|hooked|swept|cleaned|traces\.jsonl|cc-trace\.log(?:\.1)?|\.installed\.\d+\.tmp)"
    r"|index\.db\.stale|(?:traces\.db|index\.db|ledger\.db(?:\.aside-\d+)?)(?:-wal|-shm|-journal)?"
)


def remove_files(places: InstallPaths) -> list[str]:
    """Remove the hook, the link, the environment and the folders made for them; return what went. Raises InstallError.

    The environment may be the one this runs in: nothing may be imported afterwards.
    """
    folders = noted(places, "folder")
    removed = [f"hook {places.hook}"] if _removed(places.hook) else []
    removed += [f"command {places.command}"] if _is_ours(places.command, places) and _removed(places.command) else []
    with attempt("remove", places.state):
        _forget(places.state)
    if (places.environment / "pyvenv.cfg").is_file():
        with attempt("remove", places.environment):
            shutil.rmtree(places.environment)
        removed.append(f"environment {places.environment}")
    _removed(places.record)
    made_here = [places.hook.parent, places.data]
    for folder in sorted({*folders, *made_here}, key=lambda path: len(path.parts), reverse=True):
        _remove_if_empty(folder)
    return removed


def purge(places: InstallPaths) -> tuple[list[str], list[str]]:
    """Remove the state and the configuration; return what went and what was left because it is not known as ours."""
    removed, left = [], []
    state = places.state
    if all((state / name).is_dir() for name in ("sessions", "locks", "spool")):
        with attempt("remove", state):
            for path in state.iterdir():
                if path.name in _STATE_FOLDERS and not path.is_symlink():
                    shutil.rmtree(path)
                elif _STATE_FILES.fullmatch(path.name) and not path.is_dir():
                    path.unlink()
            left = [str(path) for path in state.iterdir()]
        _remove_if_empty(state)
        if state.parent == places.settings.parent / "state":  # made for it, by whichever installation
            _remove_if_empty(state.parent)
        removed.append(f"state {state}")
    elif state.exists():
        left.append(f"{state}, which does not look like a state folder")
    if _removed(places.config):
        removed.append(f"configuration {places.config}")
        _remove_if_empty(places.config.parent)
    return removed, left


def _forget(state: Path) -> None:
    """Remove the notes of when what was done, and folders that were never used: the next one starts anew."""
    for stamp in (state / name for name in _STAMPS):
        if stamp.is_file() and stamp.stat().st_size == 0:
            stamp.unlink()
    for name in _STATE_FOLDERS:
        _remove_if_empty(state / name)
    _remove_if_empty(state)


def _is_ours(command: Path, places: InstallPaths) -> bool:
    """Tell whether the command on the PATH is the link to our environment, whose file may be gone already."""
    return command.is_symlink() and command.readlink() == places.environment / "bin" / "cc-trace"


def _removed(path: Path) -> bool:
    with attempt("remove", path):
        try:
            path.unlink()
        except FileNotFoundError:
            return False
    return True


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()
