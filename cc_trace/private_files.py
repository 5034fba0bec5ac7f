"""Files and folders that only their owner can read, whatever the umask; a symlink is never written through."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_MODE: Final = 0o600
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)  # opening a named pipe must not wait for its reader


def open_private(path: Path, flags: int) -> int:
    """Return a descriptor of a regular file of mode 0600, made if it is not there. Raises OSError.

    A folder that is missing is made with 0700; one that is there may be the user's own and is left as it is.
    """
    _make_folders(path.parent)
    descriptor = os.open(path, flags | os.O_CREAT | _NOFOLLOW | _NONBLOCK, _MODE)
    try:
        _close_to_others(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _close_to_others(descriptor: int, path: Path) -> None:
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        message = f"{path} is not a regular file"
        raise OSError(message)
    if stat.S_IMODE(mode) != _MODE:  # made by another, or under a umask that takes more than others' bits
        os.fchmod(descriptor, _MODE)


def _make_folders(folder: Path) -> None:
    """Make a folder and those above it; `Path.mkdir` would leave the ones above it to the umask."""
    if folder.is_dir():
        return
    _make_folders(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def private_folder(folder: Path) -> None:
    """Make a folder that only its owner can look into."""
    _make_folders(folder)
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        folder.chmod(0o700)


def write_private(path: Path, data: bytes) -> None:
    """Replace a file as a whole; readers see the old one or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    descriptor = open_private(temporary, os.O_WRONLY | os.O_EXCL)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
