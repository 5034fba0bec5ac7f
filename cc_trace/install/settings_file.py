"""settings.json on disk: adding and removing our hooks, with a backup.

A backup is named after the settings file and after the text that we wrote to it. So it is found again only while nobody
else has changed the file, and then `uninstall` restores it byte for byte; otherwise our hooks alone are removed.

A file is written beside its old version and renamed over it, with its mode and owner; a symlink stays, and the file it
leads to is replaced. If the process dies, the old file stays. Claude Code writes to this file, too: what it writes
meanwhile is never overwritten. Only the standard library is used, so `uninstall` works when the environment is broken.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from cc_trace.errors import InstallError, JsonTextError
from cc_trace.files import MAX_SMALL_BYTES, read_regular, replace_file, write_private
from cc_trace.install.hooks import registered, with_hooks, without_hooks
from cc_trace.install.settings_text import parse_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRIES: Final = 5  # for a file that others keep writing to
# What to do about an error. The first is for a file of another user, too.
_FIXES: Final = {
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS), "check the owner and permissions of the file and its folder"
    ),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some disk space"),
    errno.EFBIG: "make it smaller",
}

Removal: TypeAlias = Literal["not registered", "hooks removed", "restored", "file removed"]


class Change(NamedTuple):
    """What registering our hooks does to a settings file."""

    before: str | None  # None: there is no file
    after: str
    original: str | None  # its text before our first change; None: not known, or there was no file
    backup: Path  # the file that keeps it

    @property
    def needed(self) -> bool:
        """Tell whether the file has to change."""
        return self.before != self.after


def plan(path: Path, command: str, backups: Path) -> Change:
    """Return the change that registers a command, without making it. Raises InstallError."""
    before = read_settings(path)
    with _naming_file(path, "install"):
        after = with_hooks(before or "", command)
        is_ours = before is not None and bool(registered(before))
    original = _read_backup(_backup(backups, path, before)) if is_ours and before is not None else before
    if before != after:
        _check_writable(path)
        if len(after.encode()) > MAX_SMALL_BYTES:  # then nobody here would read it again
            message = f"{path} is too large: at most {MAX_SMALL_BYTES:,} bytes are read; nothing was changed"
            raise InstallError(message)
    return Change(before, after, original, _backup(backups, path, after))


def register(path: Path, command: str, backups: Path) -> Change:
    """Register a command, wholly or not at all; return what was changed. Raises InstallError."""
    for _ in range(_TRIES):
        change = plan(path, command, backups)
        if change.needed and change.original is not None:
            with attempt("write", change.backup):
                write_private(change.backup, change.original.encode())
        if not change.needed or _replace(path, change.before, change.after):
            _remove_stale(backups, path)
            return change
    raise _kept_changing(path)


def unregister(path: Path, backups: Path) -> Removal:
    """Remove our hooks from a settings file. Raises InstallError.

    If nobody else has changed the file since they were added, it is restored byte for byte.
    """
    for _ in range(_TRIES):
        text = read_settings(path)
        outcome = "not registered" if text is None else _unregister(path, text, backups)
        if outcome is not None:
            _remove_stale(backups, path)
            return outcome
    raise _kept_changing(path)


def _unregister(path: Path, text: str, backups: Path) -> Removal | None:
    """Remove our hooks from a file with this text; None if the text has changed meanwhile."""
    with _naming_file(path, "uninstall"):
        rest = without_hooks(text)
        if rest == text:
            return "not registered"
        is_ours_alone = parse_settings(rest) == {} and not any(_backups(backups, path))
    _check_writable(path)
    if is_ours_alone:
        return "file removed" if _remove(path, text) else None
    original = _read_backup(_backup(backups, path, text))
    if not _replace(path, text, rest if original is None else original):
        return None
    return "hooks removed" if original is None else "restored"


def _replace(path: Path, before: str | None, after: str) -> bool:
    """Replace a settings file if it has not changed since it was read; return whether that was done."""
    with attempt("write", path):
        return replace_file(_target(path), after.encode(), like=path, confirm=lambda: read_settings(path) == before)


def _remove(path: Path, text: str) -> bool:
    """Remove a settings file if it still has this text; return whether that was done."""
    if read_settings(path) != text:
        return False
    with attempt("remove", path):
        _target(path).unlink()
    return True


def _kept_changing(path: Path) -> InstallError:
    return InstallError(f"{path} kept changing while it was being edited; quit Claude Code and try again")


def _backup(backups: Path, path: Path, text: str) -> Path:
    """Return the backup for a file to which this text was written."""
    return backups / f"{_prefix(path)}{hashlib.sha256(text.encode()).hexdigest()}.json"


def _backups(backups: Path, path: Path) -> Iterator[Path]:
    return backups.glob(f"{_prefix(path)}*.json")


def _prefix(path: Path) -> str:
    return f"settings-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}-"


def _read_backup(path: Path) -> str | None:
    try:
        return read_regular(path).decode()
    except (OSError, UnicodeDecodeError):
        return None


def _remove_stale(backups: Path, path: Path) -> None:
    """Remove the backups of a file that no longer has the text that we wrote. If that fails, a copy too many stays."""
    with contextlib.suppress(OSError, InstallError):
        text = read_settings(path)
        valid = None if text is None else _backup(backups, path, text)
        for backup in _backups(backups, path):
            if backup != valid:
                backup.unlink()
        backups.rmdir()  # which fails unless it is empty


def read_settings(path: Path) -> str | None:
    """Return a settings file's text, None where there is no file. Raises InstallError."""
    with attempt("read", path):
        try:
            data = read_regular(_target(path))
        except FileNotFoundError:
            return None
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"{path}: line {line} is not UTF-8; nothing was changed. Fix that line and try again"
        raise InstallError(message) from error


def _target(path: Path) -> Path:
    """Return the file itself: managers of dotfiles put a symlink in its place, which is to stay."""
    return Path(os.path.realpath(path))


def _check_writable(path: Path) -> None:
    """Respect a read-only file, which a rename would replace. Its folder must be writable, too. Raises InstallError."""
    target = _target(path)
    with attempt("write", path):
        if path.is_symlink() and not target.parent.is_dir():  # which nobody makes
            raise FileNotFoundError(errno.ENOENT, f"it links to {target}, whose folder does not exist", str(path))
        for needed in (target, target.parent):
            if needed.exists() and not os.access(needed, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(needed))


@contextlib.contextmanager
def attempt(verb: str, path: Path) -> Iterator[None]:
    """Convert an OSError into an InstallError that says what was attempted and what to do."""
    try:
        yield
    except OSError as error:
        fix = _FIXES.get(error.errno or 0, "fix that")
        message = f"cannot {verb} {path}: {error.strerror or error}; {fix}, then try again"
        raise InstallError(message) from error


@contextlib.contextmanager
def _naming_file(path: Path, command: str) -> Iterator[None]:
    try:
        yield
    except JsonTextError as error:
        message = f"{path}: {error}; nothing was changed. Fix the file and run `cc-trace {command}` again"
        raise InstallError(message) from error
