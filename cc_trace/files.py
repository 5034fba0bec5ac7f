"""Files and folders that only their owner can read, whatever the umask; a symlink is never written through.

Only regular files are opened for reading, so that no pipe, device or loop of links can block us. Files that decide
something are also checked for their owner and size.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from typing import TYPE_CHECKING, BinaryIO, Final

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MAX_SMALL_BYTES: Final = 1 << 20  # for settings and other small files, which are nowhere near it
_MODE: Final = 0o600
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)  # opening a named pipe must not wait for its other end
_CLOEXEC: Final = getattr(os, "O_CLOEXEC", 0)
_BINARY: Final = getattr(os, "O_BINARY", 0)
_LOCK_POLL_SECONDS: Final = 0.05


def open_regular(path: Path, *, follow: bool = True, buffering: int = -1) -> BinaryIO:
    """Open a regular file for reading; raises OSError for anything else. `follow`: a symlink to one is fine."""
    flags = os.O_RDONLY | _NONBLOCK | _CLOEXEC | _BINARY | (0 if follow else _NOFOLLOW)
    descriptor = os.open(path, flags)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb", buffering)


def read_regular(
    path: Path, max_bytes: int = MAX_SMALL_BYTES, *, follow: bool = True, any_owner: bool = False
) -> bytes:
    """Return the content of a regular file that belongs to this user or to root. Raises OSError.

    A file larger than `max_bytes`, or of another user unless `any_owner`, is refused.
    """
    with open_regular(path, follow=follow) as file:
        owner = os.fstat(file.fileno()).st_uid
        if not any_owner and hasattr(os, "geteuid") and owner not in (os.geteuid(), 0):
            raise PermissionError(errno.EPERM, f"it belongs to another user (uid {owner})", str(path))
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"larger than {max_bytes:,} bytes", str(path))
    return data


def open_private(path: Path, flags: int) -> int:
    """Open a regular file with mode 0600, creating it if needed; return its descriptor. Raises OSError.

    A missing folder is created with mode 0700; an existing one may be the user's own and is left as it is.
    """
    _make_folders(path.parent)
    descriptor = os.open(path, flags | os.O_CREAT | _NOFOLLOW | _NONBLOCK, _MODE)
    try:
        _close_to_others(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def prepare_database(path: Path) -> None:
    """Create a database's file with mode 0600, which SQLite copies to the files beside it. Raises OSError.

    An existing file is never opened: closing its descriptor would end the locks that SQLite holds in this process.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        os.close(open_private(path, os.O_RDWR))
    else:
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if stat.S_IMODE(mode) != _MODE:
            path.chmod(_MODE)
    check_beside_database(path)


def check_beside_database(path: Path) -> None:
    """Raise OSError if a file that SQLite keeps beside a database is not regular: it would block on a pipe."""
    for suffix in ("-journal", "-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(beside.lstat().st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(beside))


def _close_to_others(descriptor: int, path: Path) -> None:
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        message = f"{path} is not a regular file"
        raise OSError(message)
    # Made by another, or under a umask that takes more than others' bits. Windows has no such modes, and before Python
    # 3.13 no fchmod: there the permissions of the folder decide.
    if stat.S_IMODE(mode) != _MODE and hasattr(os, "fchmod"):
        os.fchmod(descriptor, _MODE)


def _make_folders(folder: Path) -> None:
    """Create a folder and its parents; `Path.mkdir` would leave the parents' modes to the umask."""
    if folder.is_dir():
        return
    _make_folders(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def private_folder(folder: Path) -> None:
    """Create a folder that only its owner can read."""
    _make_folders(folder)
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        folder.chmod(0o700)


def write_private(path: Path, data: bytes) -> None:
    """Replace a file atomically, with mode 0600; missing folders are created."""
    _make_folders(path.parent)
    replace_file(path, data)


def replace_file(
    path: Path,
    data: bytes,
    *,
    like: Path | None = None,
    mode: int = _MODE,
    confirm: Callable[[], bool] = lambda: True,
) -> bool:
    """Replace a file atomically in an existing folder: readers see the old one or the new one. Raises OSError.

    It gets the mode and the owner of `like` if that exists. `confirm` is called last, when everything is written and
    synced: if it returns False, the old file stays. Return what it returned.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _BINARY, _MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, _MODE)  # whatever the umask took away
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if like is not None and like.exists():
            status = like.stat()
            mode = stat.S_IMODE(status.st_mode)
            if hasattr(os, "chown"):
                with contextlib.suppress(PermissionError):  # only root can edit another user's file and keep its owner
                    os.chown(temporary, status.st_uid, status.st_gid)
        if mode != _MODE:
            temporary.chmod(mode)
        if confirmed := confirm():
            temporary.replace(path)
        else:
            temporary.unlink()
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return confirmed


@contextlib.contextmanager
def locked_file(path: Path, wait_seconds: float = 0.0) -> Iterator[bool]:
    """Hold a lock on a file, which is created if needed and stays; yield False if another process holds it.

    The system releases it when the process dies. Raises OSError if the file system has no locks.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        descriptor = open_private(path, os.O_RDWR)
        try:
            acquired = lock(descriptor, max(0.0, deadline - time.monotonic()))
            if acquired and not os.fstat(descriptor).st_nlink:
                continue  # its last holder removed the file, so a lock on it would protect nothing
            yield acquired
            return
        finally:
            os.close(descriptor)


def lock(descriptor: int, wait_seconds: float) -> bool:
    """Wait up to `wait_seconds` for the lock on an open file. Closing the file releases it."""
    deadline = time.monotonic() + wait_seconds
    while True:
        with contextlib.suppress(BlockingIOError, PermissionError):  # another process has it
            _lock_now(descriptor)
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOCK_POLL_SECONDS)


def _lock_now(descriptor: int) -> None:
    if sys.platform == "win32":
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
