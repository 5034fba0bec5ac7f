"""What cc-trace runs on: Python, disk, and the environment that hooks get."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Final

from cc_trace import __version__
from cc_trace.doctor.check import listed, ok, warning
from cc_trace.doctor.registration import hook_environment
from cc_trace.paths import stopped_since

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cc_trace.doctor.check import Check, Subject

_MIN_FREE_BYTES: Final = 100_000_000
_ON: Final = ("1", "true")
_OFF: Final = ("0", "no", "off", "false")
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def python(subject: Subject) -> Iterator[Check]:  # noqa: ARG001
    """Report the versions of Python and cc-trace."""
    yield ok("python", f"{sys.version.split()[0]} at {sys.executable}, with cc-trace {__version__}")


def stopped(subject: Subject) -> Iterator[Check]:
    """Tell whether the hook found no Python to start."""
    noted = stopped_since(subject.states.folder)
    if noted is not None:
        yield warning("hook's python", noted, "cc-trace install, then `cc-trace sync` delivers what is pending")


def disk(subject: Subject) -> Iterator[Check]:
    """Check that there is disk space for the state and the local store."""
    folder = subject.states.folder.absolute()
    there = next(path for path in (folder, *folder.parents) if path.is_dir())
    free = shutil.disk_usage(there).free
    found = f"{free // 1_000_000} MB free for {folder}"
    if free < _MIN_FREE_BYTES:
        yield warning("disk", found, "free some space, or set CC_TRACE_HOME to a folder on another disk")
    else:
        yield ok("disk", found)


def environment(subject: Subject) -> Iterator[Check]:
    """Report variables in a hook's environment that change how it works."""
    given = hook_environment(subject)
    yield _home(given, subject)
    said: list[str] = []
    flags = [name for name in ("CC_TRACE_WAIT", "CI", "CLAUDE_CODE_REMOTE") if given.get(name, "").lower() in _ON]
    if flags and given.get("CC_TRACE_WAIT", "").lower() not in _OFF:
        said.append(f"{flags[0]} is set, so the hook waits for its worker")
    else:
        said.append("the hook does not wait for its worker")
    if proxies := [name for name in _PROXIES if given.get(name) or given.get(name.lower())]:
        said.append(f"requests go through the proxy in {listed(proxies)}")
    yield ok("environment", "; ".join(said))


def _home(given: dict[str, str], subject: Subject) -> Check:
    """Tell whether hooks use the state folder that is looked at here."""
    of_hooks, here = given.get("CC_TRACE_HOME"), subject.environment.get("CC_TRACE_HOME")
    if of_hooks != here and of_hooks:
        found = f"a settings file sets CC_TRACE_HOME to {of_hooks} for hooks, but it is not set in this shell"
        return warning("state folder of hooks", found, f"export CC_TRACE_HOME={of_hooks}")
    return ok("state folder of hooks", str(subject.states.folder))


CHECKS: Final = (python, stopped, disk, environment)
