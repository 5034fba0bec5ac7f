"""Whether the registered hook works: a sample session is sent through it, as Claude Code would do.

That proves the program, the Python it starts and that Python's packages together. A command that only a project's files
name is not run: a folder that somebody cloned must not run programs.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cc_trace import __version__
from cc_trace.doctor.check import failed, ok, warning
from cc_trace.errors import CcTraceError
from cc_trace.files import read_regular
from cc_trace.install import HOOK, check_hook, find_install_paths, own_python, registered_command
from cc_trace.paths import stopped_since
from cc_trace.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cc_trace.doctor.check import Check
    from cc_trace.doctor.subject import Subject

_SECRETS: Final = tuple(f"{variable}=" for setting in SETTINGS if setting.secret for variable in setting.variables)


class _Command(NamedTuple):
    """A registered command."""

    text: str
    place: str  # where it is registered
    trusted: bool  # by the user or the administrator
    fix: str  # gives it a Python that works
    reinstall: str  # brings its program back


def hook_run(subject: Subject) -> Iterator[Check]:
    """Check that a sample session, sent through each registered command, arrives, and that no command shows a key."""
    commands: dict[str, _Command] = {}
    for command in sorted((*_in_settings(subject), *_in_plugins(subject)), key=lambda command: not command.trusted):
        commands.setdefault(command.text, command)
    for command in commands.values():
        if any(secret in command.text for secret in _SECRETS):
            finding = f"the command in {command.place} contains a key, and Claude Code writes commands to transcripts"
            fix = f"remove the key from {command.place} and set it with `cc-trace config set`"
            yield warning("hook command", finding, fix)
        if command.trusted:
            yield _try(command, subject.hook_environment(trusted=True))
        else:
            finding = f"not tried, because only this project registers it: {command.place}"
            yield _broken_program("project hook", command) or ok("project hook", finding)


def python(subject: Subject) -> Iterator[Check]:
    """Report which Python runs this, and check whether hooks have found theirs."""
    yield ok("python", f"{sys.version.split()[0]} at {sys.executable}, with cc-trace {__version__}")
    configured = subject.hook_environment().get("CC_TRACE_PYTHON")
    if configured and not (Path(configured).is_file() and os.access(configured, os.X_OK)):
        finding = f"CC_TRACE_PYTHON is {configured}, which is not a program; the hook ignores it"
        yield warning("hook python", finding, "correct or unset CC_TRACE_PYTHON")
    if (stopped := stopped_since(subject.states.folder)) is not None:
        yield warning("hook python", stopped, "cc-trace install, then `cc-trace sync` delivers what is pending")


def _in_settings(subject: Subject) -> Iterator[_Command]:
    try:
        installed = registered_command(find_install_paths(subject.environment, None).hook, own_python())
    except CcTraceError:
        installed = None
    for file in subject.files:
        for hook in file.hooks:
            # What `install` registers can only start what is installed, even if a project's file names it.
            trusted = file.scope != "project" or hook.command == installed
            install = "cc-trace install" if trusted else "cc-trace install --project"
            yield _Command(hook.command, str(file.path), trusted, fix=install, reinstall=install)


def _in_plugins(subject: Subject) -> Iterator[_Command]:
    for name, file in subject.plugins.items():
        for folder in _plugin_folders(subject, name):
            yield _Command(
                text=f"exec {shlex.quote(str(folder / 'hooks' / HOOK))}",
                place=f"plugin {name}",
                trusted=file.scope != "project",
                fix=f"sh {shlex.quote(str(folder / 'install.sh'))} --no-hooks",
                reinstall=f"claude plugin install {name}",
            )


def _plugin_folders(subject: Subject, name: str) -> list[Path]:
    """Return where Claude Code keeps a plugin; none if its list of plugins cannot be read."""
    try:
        copies = json.loads(read_regular(subject.config_dir / "plugins" / "installed_plugins.json"))["plugins"][name]
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return []
    copies = copies if isinstance(copies, list) else [copies]  # version 2 of the list; version 1
    paths = [copy.get("installPath") for copy in copies if isinstance(copy, dict)]
    return [Path(path) for path in paths if isinstance(path, str)]


def _try(command: _Command, environment: Mapping[str, str]) -> Check:
    result = check_hook(command.text, environment)
    if result.problem is None:
        if result.version not in (None, __version__):
            finding = f"the hook runs cc-trace {result.version}, but this is {__version__}"
            return warning("hook run", finding, f"{command.fix}, with the version that you want to use")
        return ok("hook run", f"a sample session arrived: {len(result.spans)} spans")
    if (broken := _broken_program("hook run", command)) is not None:
        return broken
    finding = "; ".join((result.problem, *result.details[-1:]))
    if not result.spans and not result.details and result.fix is None:
        finding += ". The Python that it starts is missing or cannot run cc-trace"
    check_python = "correct or unset CC_TRACE_PYTHON, or run: " if environment.get("CC_TRACE_PYTHON") else ""
    return failed("hook run", finding, result.fix or f"{check_python}{command.fix}")


def _broken_program(name: str, command: _Command) -> Check | None:
    """Return what is wrong with the program that a command names by its whole path; None if nothing is.

    The installed command does nothing if its program is gone, so running it does not tell.
    """
    try:
        path = next(path for path in map(Path, shlex.split(command.text)) if path.name == HOOK and path.is_absolute())
    except (ValueError, StopIteration):  # a quote that does not end; a program found by other means
        return None
    if not path.is_file():
        return failed(name, f"{path} is registered in {command.place}, but does not exist", command.reinstall)
    if not os.access(path, os.R_OK | os.X_OK):
        return failed(name, f"{path} cannot be executed", f"chmod +rx {shlex.quote(str(path))}")
    return None
