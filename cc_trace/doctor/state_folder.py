"""Whether the state folder can be used, and only by its owner; and what has been left lying in it."""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
from datetime import datetime
from typing import TYPE_CHECKING, Final

from cc_trace.delivery import ERROR_NOTE
from cc_trace.doctor.check import counted, failed, listed, moment, mtime, ok, warning
from cc_trace.errors import ConfigError
from cc_trace.files import open_regular, read_regular
from cc_trace.log import MAX_BYTES
from cc_trace.store import store_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.doctor.check import Check, Subject

_FOLDERS: Final = ("sessions", "locks", "pending", "off", "off-since", "agents", "spool", "workers", "backoff")
_MAX_FILES: Final = 20_000
_WORKER_SECONDS: Final = 120.0  # a worker takes what its hook spooled within a tenth of a second
_POSIX: Final = os.name == "posix"
_ENDED: Final = "the worker ended: "


def state_folder(subject: Subject) -> Iterator[Check]:
    """Tell whether the folder is there, ours, closed to others and writable."""
    folder = subject.states.folder
    if not os.path.lexists(folder):
        yield _missing(folder)
        return
    quoted = shlex.quote(str(folder))
    if not folder.is_dir():
        yield failed("state folder", f"{folder} is not a folder", f"mv {quoted} {shlex.quote(f'{folder}.old')}")
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield failed("state folder", f"{folder} cannot be written to", f"chmod u+rwx {quoted}")
    elif (problem := _owned_by_others(folder)) is not None:
        yield failed("state folder", problem, f"chown -R $(id -u) {quoted}, or set CC_TRACE_HOME to a folder of yours")
    elif opened := _open_to_others(folder):
        found = f"other users can access {listed(opened)}"
        yield failed("state folder", found, f"chmod -R go= {quoted}")
    elif links := [path for path in (folder, *(folder / name for name in _FOLDERS)) if path.is_symlink()]:
        found = f"{listed(links)} is a symlink; the hook does not follow symlinks"
        yield warning("state folder", found, "set CC_TRACE_HOME to the folder itself")
    else:
        yield ok("state folder", f"{folder}, writable and private")


def _missing(folder: Path) -> Check:
    there = next((path for path in folder.absolute().parents if path.exists()), folder)
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        found = f"{folder} does not exist and cannot be created in {there}"
        return failed("state folder", found, f"make {there} writable, or set CC_TRACE_HOME to another folder")
    return warning("state folder", f"{folder} does not exist: no hook has run yet", "cc-trace install")


def _files(folder: Path) -> Iterator[Path]:
    """Yield the folder and all that is ours in it, up to a number."""
    yield folder
    left = _MAX_FILES
    for below in (folder, *(folder / name for name in _FOLDERS)):
        if not below.is_dir():
            continue
        for entry in below.iterdir():
            yield entry
            left -= 1
            if not left:
                return


def _owned_by_others(folder: Path) -> str | None:
    if not _POSIX:
        return None
    own = os.geteuid()
    others = [(path, owner) for path in _files(folder) if (owner := os.lstat(path).st_uid) != own]
    if not others:
        return None
    return f"{listed(path for path, _ in others)} belongs to user {others[0][1]}, but you are user {own}"


def _open_to_others(folder: Path) -> list[str]:
    if not _POSIX:
        return []
    found = ((path, os.lstat(path).st_mode) for path in _files(folder))
    return [
        f"{path} (mode {stat.S_IMODE(mode):04o})"
        for path, mode in found
        if stat.S_IMODE(mode) & 0o077 and not stat.S_ISLNK(mode)
    ]


def spool(subject: Subject) -> Iterator[Check]:
    """Tell whether payloads wait whose workers never came, or died."""
    folder = subject.states.folder
    waiting = [*_waiting(folder / "spool"), *_waiting(folder / "pending")]
    old = [time for time in map(mtime, waiting) if 0 < time < subject.now - _WORKER_SECONDS]
    if old:
        found = f"{counted(len(old), 'hook payload')} waiting for a worker, the oldest since {moment(min(old))}"
        yield warning("spool", found, "`cc-trace sync` delivers now; `hook run` and `log` may show why no worker came")
    elif folder.is_dir():
        yield ok("spool", f"{counted(len(waiting), 'payload')} waiting")


def _waiting(folder: Path) -> list[Path]:
    return (
        [path for path in folder.iterdir() if path.suffix in (".json", ".tmp", ".request")] if folder.is_dir() else []
    )


def log(subject: Subject) -> Iterator[Check]:
    """Tell where the log is, whether it is kept short, and whether a worker has died that none has made up for."""
    path = subject.states.folder / "cc-trace.log"
    if not path.is_file():
        return
    size = path.stat().st_size
    ended = _ended(path) or _ended(path.with_name(f"{path.name}.1"))
    if ended is not None and ended[0] > _delivered(subject):
        fix = f"`cc-trace sync` delivers now; if that fails too, report it with the lines around it in {path}"
        yield warning("log", f"{_ENDED}{ended[1]} (at {moment(ended[0])})", fix)
    elif size > 2 * MAX_BYTES:
        yield warning("log", f"{path} is {size // 1_000_000} MB", f"rm {shlex.quote(str(path))}")
    else:
        yield ok("log", f"{path}, {size // 1000} KB, last written {moment(mtime(path))}")


def _ended(path: Path) -> tuple[float, str] | None:
    """Return when the last worker that ended with an error did so, and the error."""
    if not path.is_file():
        return None
    with open_regular(path) as file:
        file.seek(max(0, path.stat().st_size - 2 * MAX_BYTES))
        lines = file.read(2 * MAX_BYTES).decode(errors="replace").splitlines()
    for line in reversed(lines):
        time, _, message = line.partition(" ")
        message = message.partition(" ")[2]  # what stands before it is the process
        if message.startswith(_ENDED):
            with contextlib.suppress(ValueError):
                return datetime.fromisoformat(time).timestamp(), message.removeprefix(_ENDED)
    return None


def _delivered(subject: Subject) -> float:
    """Return when a session was last delivered without an error."""
    states = (subject.states.peek(id_) for id_ in subject.states.sessions())
    each = (progress for state in states if state is not None for progress in state.destinations.values())
    return max((progress.time or 0.0 for progress in each if progress.error is None), default=0.0)


def put_aside(subject: Subject) -> Iterator[Check]:
    """Tell whether damaged files were moved out of the way."""
    folder = subject.states.folder
    aside = sorted([*folder.glob("*.aside-*"), *folder.glob("sessions/*.aside-*")])
    if aside:
        found = f"{counted(len(aside), 'damaged file')} put aside: {listed(path.name for path in aside)}"
        fix = f"look at them if you like, then: rm {folder}/*.aside-* {folder}/sessions/*.aside-*"
        yield warning("files put aside", f"{found}. Nothing is sent twice because of that", fix)
    elif folder.is_dir():
        yield ok("files put aside", "none")


def ledger(subject: Subject) -> Iterator[Check]:
    """Tell whether the ledger can be used."""
    path = subject.states.folder / "ledger.db"
    if os.path.lexists(path):
        from cc_trace.doctor.local_store import ledger_looked_through  # noqa: PLC0415  (sqlite3, only here)

        yield ledger_looked_through(path)


def store(subject: Subject) -> Iterator[Check]:
    """Tell whether the local store can be used; where it is a destination, that is told there."""
    path, note = store_path(subject.states.folder), subject.states.folder / ERROR_NOTE
    try:
        is_destination = any(each.store is not None for each in subject.config().destinations)
    except ConfigError:  # which has its own check
        is_destination = False
    if os.path.lexists(path) and not is_destination:
        from cc_trace.doctor.local_store import looked_through  # noqa: PLC0415  (sqlite3, only here)

        yield looked_through(path)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        why = read_regular(note).decode("utf-8", "replace")[:500]
        fix = "make it writable or free some disk space, then run `cc-trace usage`; deliveries are not affected"
        yield warning("local store", f"it could not be brought up to date: {why}", fix)


CHECKS: Final = (state_folder, spool, log, put_aside, ledger, store)
