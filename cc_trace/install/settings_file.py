"""settings.json on disk: our hooks go in and out, and what it was before is kept beside it.

A file is written beside its old version and renamed over it, with its mode, its owner and through its symlink; whoever
dies in between leaves the old one. The copy of before is made first, and goes last. Only the standard library is used:
`uninstall` works when the environment is broken.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from cc_trace.errors import InstallError, JsonTextError
from cc_trace.files import read_regular
from cc_trace.install.hooks import meaning, registered, with_hooks, without_hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NEW_MODE: Final = 0o600
_TRIES: Final = 5  # at a file that others keep writing to

Removal: TypeAlias = Literal["not there", "taken out", "restored", "removed"]


@dataclass(frozen=True, slots=True)
class Change:
    """What registering our hooks will do to a file."""

    path: Path
    command: str
    before: str | None  # None: there is no file
    after: str
    backup: Path | None  # None: nothing to keep

    @property
    def needed(self) -> bool:
        """Tell whether anything is to be done."""
        return self.before != self.after


def backup_of(path: Path) -> Path:
    """Return where a settings file is kept as it was before."""
    return path.with_name(f"{path.name}.before-cc-trace")


def planned(path: Path, command: str) -> Change:
    """Return what registering a command takes; nothing is touched. Raises InstallError."""
    before = read_settings(path)
    with _named(path, "install"):
        after = with_hooks(before or "", command)
        # With our hooks in it, the file is not what it was before; that was kept by an earlier installation.
        fresh = before is not None and not registered(before)
    change = Change(path, command, before, after, backup_of(path) if fresh else None)
    with attempt("write", path):
        if change.needed:
            _allowed(path)
    return change


def carry_out(change: Change) -> Change:
    """Make a planned change, wholly or not at all; return it as it was made. Raises InstallError.

    Claude Code writes this file, too: if it is no longer what the plan was made for, the plan is made anew.
    """
    kept: Path | None = None
    try:
        for _ in range(_TRIES):
            if not change.needed:
                return change
            with attempt("write", change.path):
                if change.backup is not None:
                    replace_file(change.backup, (change.before or "").encode(), like=change.path)
                    kept = change.backup
                if _replace(change.path, change.before, change.after):
                    return change
            change = planned(change.path, change.command)
            if change.before is not None and change.backup is None:
                kept = None  # another installation was quicker; it needs the copy
            elif kept is not None:
                _drop(kept)
        raise _restless(change.path)
    except InstallError:
        if kept is not None:
            _drop(kept)
        raise


def _drop(backup: Path) -> None:
    """Take away the copy of a file that is not changed after all. If that fails, it is a copy too many."""
    with contextlib.suppress(OSError):
        backup.unlink()


def _replace(path: Path, before: str | None, after: str, like: Path | None = None) -> bool:
    """Replace a settings file that still says what it did; return whether it does."""
    return replace_file(_target(path), after.encode(), like=like or path, wanted=lambda: read_settings(path) == before)


def _restless(path: Path) -> InstallError:
    return InstallError(f"{path} was changed by others again and again; end them and try again")


def unregister(path: Path) -> Removal:
    """Take our hooks out of a settings file. Raises InstallError.

    If what remains says the same as the file of before, that comes back byte for byte.
    """
    for _ in range(_TRIES):
        text = read_settings(path)
        if text is None:
            return "not there"
        outcome = _unregister(path, text)
        if outcome is not None:
            return outcome
    raise _restless(path)


def _unregister(path: Path, text: str) -> Removal | None:
    """Take our hooks out of a file that says this; None if it no longer does."""
    with _named(path, "uninstall"):
        rest = without_hooks(text)
        backup, kept = backup_of(path), _kept(path)
        empty, restored = meaning(rest) == {}, kept is not None and _says(kept, rest)
    with attempt("write", path):
        if rest != text:
            _allowed(path)
        if rest == text:
            outcome: Removal = "not there"
        elif kept is None and empty:
            if read_settings(path) != text:
                return None
            _target(path).unlink()
            outcome = "removed"
        elif _replace(path, text, kept or "" if restored else rest, like=backup if restored else path):
            outcome = "restored" if restored else "taken out"
        else:
            return None
        backup.unlink(missing_ok=True)
    return outcome


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
        message = f"{path}, line {line}: no UTF-8; it was left as it is. Mend that line and try again"
        raise InstallError(message) from error


def _kept(path: Path) -> str | None:
    try:
        return read_regular(backup_of(path)).decode()
    except (OSError, UnicodeDecodeError):
        return None


def _says(kept: str, rest: str) -> bool:
    try:
        return meaning(kept) == meaning(rest)
    except JsonTextError:  # somebody has changed it
        return False


def _target(path: Path) -> Path:
    """Return the file itself: managers of dotfiles put a symlink in its place, which is to stay."""
    return Path(os.path.realpath(path))


def _allowed(path: Path) -> None:
    """Take a file that is read-only for what it says: a rename would not ask. Its folder must let us, too."""
    target = _target(path)
    for needed in (target, target.parent):
        if needed.exists() and not os.access(needed, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(needed))


def replace_file(
    path: Path,
    data: bytes,
    *,
    like: Path | None = None,
    mode: int = _NEW_MODE,
    wanted: Callable[[], bool] = lambda: True,
) -> bool:
    """Replace a file as a whole, with the mode and owner of another one if that is there. Raises OSError.

    `wanted` is asked last, when all is written and synced; return what it says.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, _NEW_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if like is not None and like.exists():
            status = like.stat()
            mode = stat.S_IMODE(status.st_mode)
            if hasattr(os, "chown"):
                with contextlib.suppress(PermissionError):  # only root changes files of others, and gives them back
                    os.chown(temporary, status.st_uid, status.st_gid)
        temporary.chmod(mode)
        if not (is_wanted := wanted()):
            temporary.unlink()
            return is_wanted
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return is_wanted


@contextlib.contextmanager
def attempt(verb: str, path: Path) -> Iterator[None]:
    """Say what was attempted, and what to do, where the system refuses."""
    try:
        yield
    except OSError as error:
        message = f"cannot {verb} {path}: {error.strerror or error}; make it and its folder accessible and try again"
        raise InstallError(message) from error


@contextlib.contextmanager
def _named(path: Path, command: str) -> Iterator[None]:
    try:
        yield
    except JsonTextError as error:
        message = f"{path}, {error}; the file was left as it is. Mend it and run `cc-trace {command}` again"
        raise InstallError(message) from error
