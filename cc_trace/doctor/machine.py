"""What cc-trace runs on: Python, disk, and the environment that hooks get."""

from __future__ import annotations

import shlex
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


def python(_: Subject) -> Iterator[Check]:
    """Report the versions of Python and cc-trace."""
    yield ok("python", f"{sys.version.split()[0]} at {sys.executable}, with cc-trace {__version__}")


def stopped(subject: Subject) -> Iterator[Check]:
    """Check whether the hook has found no Python to start."""
    found = stopped_since(subject.states.folder)
    if found is not None:
        yield warning("hook's python", found, "cc-trace install, then `cc-trace sync` delivers what is pending")


def disk(subject: Subject) -> Iterator[Check]:
    """Check that there is disk space for the state and the local store."""
    folder = subject.states.folder.absolute()
    existing = next(path for path in (folder, *folder.parents) if path.is_dir())
    free = shutil.disk_usage(existing).free
    found = f"{free // 1_000_000} MB free for {folder}"
    if free < _MIN_FREE_BYTES:
        yield warning("disk", found, "free some space, or set CC_TRACE_HOME to a folder on another disk")
    else:
        yield ok("disk", found)


def hooks_state_folder(subject: Subject) -> Iterator[Check]:
    """Check that hooks use the state folder that is checked here."""
    for_hooks, here = hook_environment(subject).get("CC_TRACE_HOME"), subject.environment.get("CC_TRACE_HOME")
    if for_hooks and for_hooks != here:
        found = f"a settings file sets CC_TRACE_HOME to {for_hooks} for hooks, but it is not set in this shell"
        yield warning("state folder of hooks", found, f"export CC_TRACE_HOME={shlex.quote(for_hooks)}")
    else:
        yield ok("state folder of hooks", str(subject.states.folder))


def environment(subject: Subject) -> Iterator[Check]:
    """Report variables in a hook's environment that change how it works."""
    variables = hook_environment(subject)
    wait = variables.get("CC_TRACE_WAIT", "").lower()
    reasons = [name for name in ("CC_TRACE_WAIT", "CI", "CLAUDE_CODE_REMOTE") if variables.get(name, "").lower() in _ON]
    waits = f"{reasons[0]} is set, so the hook waits" if reasons and wait not in _OFF else "the hook does not wait"
    proxies = [name for name in _PROXIES if variables.get(name) or variables.get(name.lower())]
    through = f"; requests go through the proxy in {listed(proxies)}" if proxies else ""
    yield ok("environment", f"{waits} for its worker{through}")


CHECKS: Final = (python, stopped, disk, hooks_state_folder, environment)
