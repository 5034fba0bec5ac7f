"""Removing an installation: exactly what was installed, and with `purge` also what was recorded since.

No folder that may contain other files is removed as a tree: folders are removed if they are empty, the environment if
it is one, the state by its known names. Only the standard library is used, as in `settings_file`.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from typing import TYPE_CHECKING, Final

from cc_trace.files import read_regular
from cc_trace.install.installation import recorded_paths
from cc_trace.install.settings_file import attempt

if TYPE_CHECKING:
    from pathlib import Path

    from cc_trace.install.installation import InstallPaths

_STATE_FOLDERS: Final = (
    *("sessions", "locks", "pending", "spool", "off", "off-since", "agents", "workers", "backoff"),
    "streams",
)
_LAUNCHER: Final = b"# The command cc-trace, made by install.sh."  # its second line
_STAMPS: Final = ("installed", "hooked", "swept", "cleaned", "stored", "stopped")
# With what SQLite puts beside its files, a ledger that was put aside, and a file that was being written.
_STATE_FILES: Final = re.compile(
    r"(?:installed|hooked|swept|cleaned|stored|stopped|store-error|traces\.jsonl|cc-trace\.log(?:\.1)?)"
    r"|langfuse-prices-[0-9a-f]{16}\.json|\.(?:installed|store-error|langfuse-prices-[0-9a-f]{16}\.json)\.\d+\.tmp"
    r"|index\.db\.stale|(?:traces\.db|index\.db|ledger\.db(?:\.aside-\d+)?)(?:-wal|-shm|-journal)?"
)


def remove_files(paths: InstallPaths) -> list[str]:
    """Remove the hook, the link, the environment and the folders made for them; return what was removed.

    Raises InstallError. The environment may be the one this runs in: nothing may be imported afterwards.
    """
    folders = recorded_paths(paths, "folder")
    removed = [f"hook {paths.hook}"] if _unlink(paths.hook) else []
    removed += [f"command {paths.command}"] if _is_ours(paths.command, paths) and _unlink(paths.command) else []
    with attempt("remove", paths.state):
        _remove_stamps(paths.state)
    if (paths.environment / "pyvenv.cfg").is_file():
        with attempt("remove", paths.environment):
            shutil.rmtree(paths.environment)
        removed.append(f"environment {paths.environment}")
    _unlink(paths.record)
    for backup in paths.backups.glob("settings-*.json"):  # of files that are gone
        _unlink(backup)
    made_here = [paths.hook.parent, paths.backups, paths.data]
    for folder in sorted({*folders, *made_here}, key=lambda path: len(path.parts), reverse=True):
        _remove_if_empty(folder)
    return removed


def purge(paths: InstallPaths) -> tuple[list[str], list[str]]:
    """Remove the state and the configuration; return what was removed, and what was left because it may not be ours."""
    removed, remaining = [], []
    state = paths.state
    if _is_state(state):
        with attempt("remove", state):
            for path in state.iterdir():
                if path.name in _STATE_FOLDERS and not path.is_symlink():
                    shutil.rmtree(path)
                elif _STATE_FILES.fullmatch(path.name) and not path.is_dir():
                    path.unlink()
            remaining = [str(path) for path in state.iterdir()]
        _remove_if_empty(state)
        if state.parent == paths.settings.parent / "state":  # made for it, by whichever installation
            _remove_if_empty(state.parent)
        removed.append(f"state {state}")
    elif state.exists():
        remaining.append(f"{state}, which does not look like a state folder")
    if _unlink(paths.config):
        removed.append(f"configuration {paths.config}")
        _remove_if_empty(paths.config.parent)
    return removed, remaining


def _is_state(state: Path) -> bool:
    """Tell whether this is a state folder, also after an earlier uninstall has removed what was empty."""
    if not state.is_dir():
        return False
    by_name = (state.parent.name, state.name) == ("state", "cc-trace")  # not one that CC_TRACE_HOME chose
    has_folders = all((state / name).is_dir() for name in ("sessions", "locks", "spool"))
    return by_name or has_folders or (state / "ledger.db").is_file()


def _remove_stamps(state: Path) -> None:
    """Remove empty stamp files and folders: the next installation starts afresh."""
    for stamp in (state / name for name in _STAMPS):
        if stamp.is_file() and stamp.stat().st_size == 0:
            stamp.unlink()
    for name in _STATE_FOLDERS:
        _remove_if_empty(state / name)
    _remove_if_empty(state)


def _is_ours(command: Path, paths: InstallPaths) -> bool:
    """Tell whether the command on the PATH is the launcher that install.sh makes, or the link of earlier versions."""
    if command.is_symlink():
        return command.readlink() == paths.environment / "bin" / "cc-trace"
    with contextlib.suppress(OSError):
        return read_regular(command).split(b"\n", 2)[1:2] == [_LAUNCHER]
    return False


def _unlink(path: Path) -> bool:
    with attempt("remove", path):
        try:
            path.unlink()
        except FileNotFoundError:
            return False
    return True


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()
