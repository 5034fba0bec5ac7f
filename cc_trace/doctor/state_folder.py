"""Whether the state folder can be used, and only by its owner; and whether work or damage was left in it."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import stat
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Final

from cc_trace.doctor.check import failed, listed, moment, mtime, ok, warning
from cc_trace.doctor.databases import check_ledger
from cc_trace.files import open_regular
from cc_trace.log import MAX_BYTES
from cc_trace.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.doctor.check import Check
    from cc_trace.doctor.subject import Subject

_MIN_FREE_BYTES: Final = 100_000_000
_MAX_FILES: Final = 20_000
_WORKER_SECONDS: Final = 120.0  # a worker takes what its hook spooled within a tenth of a second
_PAYLOADS: Final = (".json", ".tmp", ".request")
_FAILURE: Final = re.compile(r"^(\d{4}-\S+Z) \d+ the worker ended: (.*)$", re.MULTILINE)


def state_folder(subject: Subject) -> Iterator[Check]:
    """Check that the folder is ours, closed to others and writable, and that there is space left for it."""
    folder = subject.states.folder.absolute()
    existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not existing.is_dir():
        fix = f"mv {shlex.quote(str(existing))} {shlex.quote(f'{existing}.old')}"
        yield failed("state folder", f"{existing} is not a folder", fix)
        return
    if not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        fix = f"chmod u+rwx {shlex.quote(str(existing))}, or set CC_TRACE_HOME to another folder"
        yield failed("state folder", f"{existing} cannot be written to", fix)
    elif existing == folder:  # else the first hook makes it
        yield (
            _check_owner_and_mode(subject)
            or _check_symlinks(subject)
            or ok("state folder", f"{folder}, writable and private")
        )
    free = shutil.disk_usage(existing).free
    if free < _MIN_FREE_BYTES:
        finding = f"only {free // 1_000_000} MB free for {folder}"
        yield warning("disk", finding, "free some space, or set CC_TRACE_HOME to a folder on another disk")


def _check_owner_and_mode(subject: Subject) -> Check | None:
    """Return a warning if files belong to another user, or can be used by others."""
    if os.name != "posix":
        return None
    folder, user = subject.states.folder, os.geteuid()
    files: list[tuple[Path, os.stat_result]] = []
    for path in islice(_files(subject), _MAX_FILES):
        with contextlib.suppress(FileNotFoundError):  # a worker has just removed it
            files.append((path, os.lstat(path)))
    if foreign := [(path, status.st_uid) for path, status in files if status.st_uid != user]:
        finding = f"{listed(path for path, _ in foreign)} belongs to user {foreign[0][1]}, but you are user {user}"
        fix = f"sudo chown -R $(id -u) {shlex.quote(str(folder))}, or set CC_TRACE_HOME to a folder of yours"
        return failed("state folder", finding, fix)
    modes = ((path, status.st_mode) for path, status in files if not stat.S_ISLNK(status.st_mode))
    if exposed := [f"{path} (mode {stat.S_IMODE(mode):04o})" for path, mode in modes if mode & 0o077]:
        finding = f"other users can access {listed(exposed)}"
        return failed("state folder", finding, f"chmod -R go= {shlex.quote(str(folder))}")
    return None


def _files(subject: Subject) -> Iterator[Path]:
    """Yield the folder and all that is ours in it; other folders in it may not be."""
    yield subject.states.folder
    for folder in (subject.states.folder, *subject.states.folders):
        if folder.is_dir():
            yield from folder.iterdir()


def _check_symlinks(subject: Subject) -> Check | None:
    if links := [path for path in (subject.states.folder, *subject.states.folders) if path.is_symlink()]:
        finding = f"{listed(links)} is a symlink; the hook does not follow symlinks"
        return warning("state folder", finding, "set CC_TRACE_HOME to the folder itself")
    return None


def hooks_state_folder(subject: Subject) -> Iterator[Check]:
    """Check that hooks use the state folder that is checked here."""
    hook_value, shell_value = subject.hook_environment().get("CC_TRACE_HOME"), subject.environment.get("CC_TRACE_HOME")
    if hook_value and hook_value != shell_value:
        finding = f"a settings file sets CC_TRACE_HOME to {hook_value} for hooks, but it is not set in this shell"
        yield warning("state folder of hooks", finding, f"export CC_TRACE_HOME={shlex.quote(hook_value)}")


def spool(subject: Subject) -> Iterator[Check]:
    """Check that no payloads wait for workers that never came, or died."""
    folders = [folder for folder in (subject.states.spool.folder, subject.states.spool.earlier) if folder.is_dir()]
    payloads = [path for folder in folders for path in folder.iterdir() if path.suffix in _PAYLOADS]
    if old := [time for time in map(mtime, payloads) if 0 < time < subject.now - _WORKER_SECONDS]:
        finding = f"{plural(len(old), 'hook payload')} waiting for a worker, the oldest since {moment(min(old))}"
        yield warning(
            "spool", finding, "`cc-trace sync` delivers now; `hook run` and `log` may show why no worker came"
        )


def log(subject: Subject) -> Iterator[Check]:
    """Check that no worker has failed since the last delivery, and say where the log is."""
    path = subject.states.folder / "cc-trace.log"
    if not path.is_file():
        return
    failure = _last_failure(path) or _last_failure(path.with_name(f"{path.name}.1"))
    if failure is not None and failure[0] > _last_delivery(subject):
        fix = f"`cc-trace sync` delivers now; if that fails too, report it with the lines around it in {path}"
        yield warning("log", f"the worker ended: {failure[1]} (at {moment(failure[0])})", fix)
    else:
        yield ok("log", f"{path}, {path.stat().st_size // 1000} KB, last written {moment(mtime(path))}")


def _last_failure(path: Path) -> tuple[float, str] | None:
    """Return when a worker last ended with an error, and the error."""
    if not path.is_file():
        return None
    with open_regular(path) as file:
        file.seek(max(0, path.stat().st_size - 2 * MAX_BYTES))
        failures = _FAILURE.findall(file.read(2 * MAX_BYTES).decode(errors="replace"))
    if not failures:
        return None
    time, message = failures[-1]
    return datetime.fromisoformat(time).timestamp(), message


def _last_delivery(subject: Subject) -> float:
    """Return when a session was last delivered without an error."""
    states = (subject.states.peek(id_) for id_ in subject.states.sessions())
    cursors = (cursor for state in states if state is not None for cursor in state.destinations.values())
    return max((cursor.last_attempt_at or 0.0 for cursor in cursors if cursor.error is None), default=0.0)


def put_aside(subject: Subject) -> Iterator[Check]:
    """Check whether damaged files were renamed."""
    folder = subject.states.folder
    if renamed := sorted([*folder.glob("*.aside-*"), *folder.glob("sessions/*.aside-*")]):
        finding = f"{plural(len(renamed), 'damaged file')} put aside: {listed(path.name for path in renamed)}"
        all_of_them = " ".join(f"{shlex.quote(str(parent))}/*.aside-*" for parent in {path.parent for path in renamed})
        fix = f"look at them if you like, then: rm {all_of_them}"
        yield warning("files put aside", f"{finding}. Nothing is sent twice because of that", fix)


def ledger(subject: Subject) -> Iterator[Check]:
    """Check the ledger."""
    if (damaged := check_ledger(subject.states.folder / "ledger.db")) is not None:
        yield damaged
