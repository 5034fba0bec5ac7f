"""Whether the registered hook works: a sample session is sent through it, as Claude Code would.

That proves the program, the Python it starts and the packages in there together. What only a project's files name is
not run: a folder that somebody cloned must not run programs.
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace import __version__
from cc_trace.doctor.check import failed, ok, warning
from cc_trace.doctor.registration import enabled_plugins, hook_environment, settings_files
from cc_trace.errors import CcTraceError
from cc_trace.files import read_regular
from cc_trace.install import HOOK, check_hook, find_install_paths, own_python, registered_command
from cc_trace.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cc_trace.doctor.check import Check, Subject

_SECRETS: Final = tuple(f"{variable}=" for setting in SETTINGS if setting.secret for variable in setting.variables)


@dataclass(frozen=True, slots=True)
class _Command:
    """A registered command."""

    text: str
    place: str  # where it is registered
    trusted: bool  # by the user or the administrator
    fix_program: str  # what brings its program back
    fix_python: str  # what gives it a Python that works


def hook_run(subject: Subject) -> Iterator[Check]:
    """Tell whether a sample session, sent through each registered command, arrives; and whether one shows a key."""
    environment = hook_environment(subject, trusted=True)
    for command in _commands(subject):
        if any(secret in command.text for secret in _SECRETS):
            what = f"the command in {command.place} contains a key, and Claude Code writes commands to transcripts"
            fix = f"remove the key from {command.place} and set it with `cc-trace config set`"
            yield warning("hook command", what, fix)
        if command.trusted:
            yield _try(command, environment)
        else:
            what = f"not tried, because only this project registers it: {command.place}"
            yield _program_trouble("project hook", command) or ok("project hook", what)


def hook_python(subject: Subject) -> Iterator[Check]:
    """Tell whether CC_TRACE_PYTHON, where it is set, names a program: the hook ignores one that does not."""
    named = hook_environment(subject).get("CC_TRACE_PYTHON")
    if named and not (Path(named).is_file() and os.access(named, os.X_OK)):
        what = f"CC_TRACE_PYTHON is {named}, which is not a program; the hook ignores it"
        yield warning("hook python", what, "correct or unset CC_TRACE_PYTHON")


def _commands(subject: Subject) -> list[_Command]:
    """Return the registered commands, each once, those of the user and the administrator first."""
    installed = _installed_command(subject)
    files = settings_files(subject)
    found = []
    for file in files:
        for hook in file.hooks:
            # What `install` registers can only start what is installed, also where a project's file names it.
            trusted = file.scope != "project" or hook.command == installed
            fix = "cc-trace install" if trusted else "cc-trace install --project"
            found.append(
                _Command(text=hook.command, place=str(file.path), trusted=trusted, fix_program=fix, fix_python=fix)
            )
    for name, file in enabled_plugins(files).items():
        for folder in _plugin_folders(subject, name):
            command = f"exec {shlex.quote(str(folder / 'hooks' / HOOK))}"
            script = f"sh {shlex.quote(str(folder / 'install.sh'))} --no-hooks"
            reinstall = f"claude plugin install {name}"
            found.append(
                _Command(
                    text=command,
                    place=f"plugin {name}",
                    trusted=file.scope != "project",
                    fix_program=reinstall,
                    fix_python=script,
                )
            )
    found.sort(key=lambda command: not command.trusted)
    return list({command.text: command for command in reversed(found)}.values())[::-1]


def _installed_command(subject: Subject) -> str | None:
    try:
        return registered_command(find_install_paths(subject.environment, None).hook, own_python())
    except CcTraceError:
        return None


def _plugin_folders(subject: Subject, name: str) -> list[Path]:
    """Return where Claude Code keeps a plugin; none where its list cannot be understood."""
    try:
        raw = json.loads(read_regular(subject.config_dir / "plugins" / "installed_plugins.json"))
    except (OSError, ValueError, RecursionError):
        return []
    match raw:
        case {"plugins": {**plugins}}:
            kept = plugins.get(name)
        case _:
            return []
    copies = kept if isinstance(kept, list) else [kept]  # of version 2 and 1
    paths = [copy.get("installPath") for copy in copies if isinstance(copy, dict)]
    return [Path(path) for path in paths if isinstance(path, str)]


def _try(command: _Command, environment: Mapping[str, str]) -> Check:
    checked = check_hook(command.text, environment)
    if checked.problem is None:
        if checked.version not in (None, __version__):
            what = f"the hook runs cc-trace {checked.version}, but this is {__version__}"
            return warning("hook run", what, f"{command.fix_python}, with the version that you want to use")
        return ok("hook run", f"a sample session arrived: {len(checked.spans)} spans")
    if (trouble := _program_trouble("hook run", command)) is not None:
        return trouble
    found = "; ".join((checked.problem, *checked.details[-1:]))
    if not checked.spans and not checked.details and checked.fix is None:
        found += ". The Python that it starts is missing or cannot run cc-trace"
    named = "correct or unset CC_TRACE_PYTHON, or run: " if environment.get("CC_TRACE_PYTHON") else ""
    return failed("hook run", found, checked.fix or f"{named}{command.fix_python}")


def _program_trouble(name: str, command: _Command) -> Check | None:
    """Return what is wrong with the program that a command names by its whole path, if it does and something is."""
    try:
        path = next(path for path in map(Path, shlex.split(command.text)) if path.name == HOOK and path.is_absolute())
    except (ValueError, StopIteration):  # a quote that does not end; a program found by other means
        return None
    if not path.is_file():
        return failed(name, f"{path} is registered in {command.place}, but is not there", command.fix_program)
    if not os.access(path, os.X_OK):
        return failed(name, f"{path} cannot be executed", f"chmod +x {shlex.quote(str(path))}")
    if not os.access(path, os.R_OK):
        return failed(name, f"{path} cannot be read", f"chmod +r {shlex.quote(str(path))}")
    return None


CHECKS: Final = (hook_run, hook_python)
