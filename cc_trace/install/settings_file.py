"""settings.json on disk: adding and removing our hooks, with a backup.

A backup is named after the settings file and after the text that we wrote to it. So it is found again only while nobody
else has changed the file, and then `uninstall` restores it byte for byte; otherwise our hooks alone are removed.

A file is written beside its old version and renamed over it, with its mode and owner; a symlink stays, and the file it
leads to is replaced. If the process dies, the old file stays. Only the standard library is used, so `uninstall` works
when the environment is broken.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from cc_trace.errors import InstallError, JsonTextError
from cc_trace.files import read_regular, replace_file, write_private
from cc_trace.install.hooks import meaning, registered, with_hooks, without_hooks

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRIES: Final = 5  # for a file that others keep writing to

Removal: TypeAlias = Literal["not registered", "hooks removed", "restored", "file removed"]


@dataclass(frozen=True, slots=True)
class Change:
    """What registering our hooks will do to a file."""

    path: Path
    command: str
    before: str | None  # None: there is no file
    after: str
    original: str | None  # what it said before our first change to it; None: not known, or there was no file
    backups: Path

    @property
    def needed(self) -> bool:
        """Tell whether the file has to change."""
        return self.before != self.after

    @property
    def backup(self) -> Path | None:
        """Return where the original is kept; None if there is none."""
        return None if self.original is None else _backup(self.backups, self.path, self.after)


def plan(path: Path, command: str, backups: Path) -> Change:
    """Return the change that registers a command, without making it. Raises InstallError."""
    before = read_settings(path)
    with _named(path, "install"):
        after = with_hooks(before or "", command)
        is_original = before is None or not registered(before)
    original = before if is_original else _read_backup(_backup(backups, path, before or ""))
    change = Change(path=path, command=command, before=before, after=after, original=original, backups=backups)
    with attempt("write", path):
        if change.needed:
            _check_writable(path)
    return change


def apply(change: Change) -> Change:
    """Make a planned change, wholly or not at all; return it as it was made. Raises InstallError.

    Claude Code also writes this file: if it has changed since it was read, the change is planned again.
    """
    try:
        for _ in range(_TRIES):
            if not change.needed or _apply(change):
                return change
            change = plan(change.path, change.command, change.backups)
        raise _restless(change.path)
    finally:
        _remove_stale(change.backups, change.path)


def _apply(change: Change) -> bool:
    """Back up and change the file if it has not changed since it was read; return whether that was done."""
    if change.backup is not None and change.original is not None:
        with attempt("write", change.backup):
            write_private(change.backup, change.original.encode())
    with attempt("write", change.path):
        return _replace(change.path, change.before, change.after)


def _replace(path: Path, before: str | None, after: str) -> bool:
    """Replace a settings file if it has not changed since it was read; return whether that was done."""
    return replace_file(_target(path), after.encode(), like=path, confirm=lambda: read_settings(path) == before)


def _restless(path: Path) -> InstallError:
    return InstallError(f"{path} kept changing while it was being edited; quit Claude Code and try again")


def unregister(path: Path, backups: Path) -> Removal:
    """Remove our hooks from a settings file. Raises InstallError.

    If nobody else has changed the file since they were added, it becomes again what it was, byte for byte.
    """
    for _ in range(_TRIES):
        text = read_settings(path)
        outcome = "not registered" if text is None else _unregister(path, text, backups)
        if outcome is not None:
            with attempt("remove", _old_backup(path)):
                _old_backup(path).unlink(missing_ok=True)
            _remove_stale(backups, path)
            return outcome
    raise _restless(path)


def _unregister(path: Path, text: str, backups: Path) -> Removal | None:
    """Remove our hooks from a file with this text; None if the text has changed meanwhile."""
    with _named(path, "uninstall"):
        rest = without_hooks(text)
        original = _original(path, text, rest, backups)
        is_ours_alone = meaning(rest) == {} and not _old_backup(path).exists() and not any(_backups(backups, path))
    if rest == text:
        return "not registered"
    with attempt("write", path):
        _check_writable(path)
        if is_ours_alone:
            if read_settings(path) != text:
                return None
            _target(path).unlink()
            return "file removed"
        if not _replace(path, text, rest if original is None else original):
            return None
    return "hooks removed" if original is None else "restored"


def _original(path: Path, text: str, rest: str, backups: Path) -> str | None:
    """Return what a file said before our hooks were added, if nothing else has changed since."""
    kept = _read_backup(_backup(backups, path, text))
    if kept is not None:
        return kept
    old = _read_backup(_old_backup(path))
    with contextlib.suppress(JsonTextError):  # somebody has changed it
        if old is not None and meaning(old) == meaning(rest):
            return old
    return None


def _backup(backups: Path, path: Path, written: str) -> Path:
    """Return where what a file said before we wrote this to it is kept."""
    return backups / f"{_prefix(path)}{hashlib.sha256(written.encode()).hexdigest()}.json"


def _backups(backups: Path, path: Path) -> Iterator[Path]:
    return backups.glob(f"{_prefix(path)}*.json")


def _prefix(path: Path) -> str:
    return f"settings-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}-"


def _old_backup(path: Path) -> Path:
    """Return where the first versions kept a file as it was: beside it, whatever was written to it later."""
    return path.with_name(f"{path.name}.before-cc-trace")


def _read_backup(path: Path) -> str | None:
    try:
        return read_regular(path).decode()
    except (OSError, UnicodeDecodeError):
        return None


def _remove_stale(backups: Path, path: Path) -> None:
    """Remove the backups of a file that no longer says what we wrote. If that fails, there is a copy too many."""
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
    """Take a file that is read-only for what it says: a rename would not ask. Its folder must let us, too."""
    target = _target(path)
    for needed in (target, target.parent):
        if needed.exists() and not os.access(needed, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(needed))


@contextlib.contextmanager
def attempt(verb: str, path: Path) -> Iterator[None]:
    """Convert an OSError into an InstallError that says what was attempted and what to do."""
    try:
        yield
    except OSError as error:
        fix = "fix the permissions of the file or its folder and try again"
        message = f"cannot {verb} {path}: {error.strerror or error}; {fix}"
        raise InstallError(message) from error


@contextlib.contextmanager
def _named(path: Path, command: str) -> Iterator[None]:
    try:
        yield
    except JsonTextError as error:
        message = f"{path}: {error}; nothing was changed. Fix the file and run `cc-trace {command}` again"
        raise InstallError(message) from error
