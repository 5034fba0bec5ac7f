"""Files and folders that only their owner can read, whatever the umask; a symlink is never written through.

And the one way to read a file: nothing but a regular file is opened for reading, so that no pipe, device or endless
link holds anybody up, and of a file that decides something the owner and the size are looked at, too.
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

MAX_SMALL_BYTES: Final = 1 << 20  # settings, configuration, notes: none of them comes near it
_MODE: Final = 0o600
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)  # opening a named pipe must not wait for its other end
_CLOEXEC: Final = getattr(os, "O_CLOEXEC", 0)
_BINARY: Final = getattr(os, "O_BINARY", 0)
_LOCK_POLL_SECONDS: Final = 0.05


def open_regular(path: Path, *, follow: bool = True, buffering: int = -1) -> BinaryIO:
    """Open a regular file for reading; anything else in its place is an OSError. `follow`: a link to one will do."""
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

    A file with more than so many bytes, or of another user unless `any_owner`, is refused.
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


def prepare_database(path: Path) -> None:
    """Make the file of a database, mode 0600, which SQLite gives the files beside it, too. Raises OSError.

    One that is there is looked at, never opened: closing a descriptor of it would end the locks that SQLite holds on it
    in this process.
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
    """Raise OSError where a file that SQLite keeps beside a database is none: it would open a pipe, and wait."""
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
    """Replace a file as a whole, for its owner alone; a folder that is missing is made."""
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
    """Replace a file as a whole in a folder that is there: readers see the old one or the new one. Raises OSError.

    It gets the mode and the owner of `like` if that is there. `confirm` is called last, when all is written and synced:
    if it returns False, the old file stays. Return what it returned.
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
                with contextlib.suppress(PermissionError):  # only root changes files of others, and gives them back
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
    """Hold the lock of a file, which is made if it is not there and stays; False where another process keeps it.

    The system lets go of it when the process dies, however it does. Raises OSError where locks cannot be had at all.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        descriptor = open_private(path, os.O_RDWR)
        try:
            held = lock(descriptor, max(0.0, deadline - time.monotonic()))
            if held and not os.fstat(descriptor).st_nlink:
                continue  # whoever had it removed the file: a lock on it would keep nobody off
            yield held
            return
        finally:
            os.close(descriptor)


def lock(descriptor: int, wait_seconds: float) -> bool:
    """Wait for the lock of an open file, as long as is allowed. Closing the file lets go of it."""
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
