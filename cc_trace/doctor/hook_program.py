"""Whether the registered hook does its work: its program, the Python that starts, and a sample sent through both.

Rule: what only a project's files name is looked at and not run. A folder one has cloned is not to run programs.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace import __version__
from cc_trace.doctor.check import failed, listed, ok, warning
from cc_trace.doctor.registration import enabled_plugins, settings_files
from cc_trace.errors import CcTraceError
from cc_trace.files import open_regular, read_regular
from cc_trace.install import HOOK, find_install_paths, own_python, registered_command
from cc_trace.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cc_trace.doctor.check import Check, Subject

_SHELLS: Final = ("sh", "bash", "dash", "ksh", "zsh")
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_INSTALLED: Final = re.compile(rb"^installed=(.*)$", re.MULTILINE)
_MAX_SCRIPT_BYTES: Final = 64_000
_SECONDS: Final = 20.0
# The worker's own modules, not only the package: a missing dependency shows here.
_PROBE: Final = "import cc_trace, cc_trace.cli.sync; print(cc_trace.__version__)"
_SECRETS: Final = tuple(f"{variable}=" for setting in SETTINGS if setting.secret for variable in setting.variables)


@dataclass(frozen=True, slots=True)
class Program:
    """What a registered command starts. `path` None: the command does not tell."""

    command: str
    place: str  # where it is registered
    path: Path | None
    by: str | None  # the program that runs it, where the command names one
    trusted: bool  # registered by the user or the administrator


def hook_environment(subject: Subject, *, trusted: bool = False) -> dict[str, str]:
    """Return the environment of a hook: this process's, and what the settings files put into it.

    `trusted`: without what a project's files say; a variable can make a program run another one.
    """
    files = [file for file in settings_files(subject) if not trusted or file.scope != "project"]
    said = {name: value for file in files for name, value in file.mapping("env").items() if isinstance(value, str)}
    return {**subject.environment, **said}


def programs(subject: Subject) -> list[Program]:
    """Return what the registered commands start, each once."""
    files = settings_files(subject)
    found = []
    for file in files:
        trusted = file.scope != "project"  # then a project's variables do not say what its command starts
        variables = hook_environment(subject, trusted=trusted) | {
            "HOME": str(subject.sources.home),
            "CLAUDE_PROJECT_DIR": str(subject.project),
        }
        found += [_program(each.command, str(file.path), subject, variables, trusted=trusted) for each in file.hooks]
    for name, file in enabled_plugins(files).items():
        for folder in _plugin_folders(subject, name):
            path = folder / "hooks" / HOOK
            command = f"exec {shlex.quote(str(path))}"
            found.append(Program(command, f"plugin {name}", path, None, file.scope != "project"))
    return list({program.command: program for program in reversed(found)}.values())[::-1]


def _program(command: str, place: str, subject: Subject, variables: dict[str, str], *, trusted: bool) -> Program:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = [_expanded(word, variables) for word in lexer]
    except ValueError:  # a quote that does not end
        return Program(command, place, None, None, trusted)
    script = next((word for word in words if Path(word).name == HOOK), None)
    by = words[0] if words and Path(words[0]).name in _SHELLS else None
    if script is None and "cc_trace.hook" in words:
        script = words[0]
    # Words inside words, as in `sh -c "exec …"`, and variables that are not known here do not tell.
    if script is None or "$" in script or (" " in script and not Path(script).is_absolute()):
        return Program(command, place, None, None, trusted)
    named = shutil.which(script, path=variables.get("PATH")) if "/" not in script else None
    path = subject.project / (named or script)
    return Program(command, place, path, by, trusted or command == _installed_command(subject))


def _expanded(word: str, variables: dict[str, str]) -> str:
    if word.startswith("~/"):
        word = variables["HOME"] + word[1:]
    return _VARIABLE.sub(lambda match: variables.get(match[1] or match[2], match[0]), word)


def _installed_hook(subject: Subject) -> Path | None:
    try:
        return find_install_paths(subject.environment, None).hook
    except CcTraceError:
        return None


def _installed_command(subject: Subject) -> str | None:
    """Return the command that `install` registers: also in a project's file it can only start what is installed."""
    hook = _installed_hook(subject)
    return None if hook is None else registered_command(hook, own_python())


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


def hook_program(subject: Subject) -> Iterator[Check]:
    """Tell whether what is registered is there and can be run, and says no secret."""
    found = programs(subject)
    well = True
    for program in found:
        for problem in _problems(program):
            well = False
            yield problem
    if found and well:
        shown = listed(dict.fromkeys(program.path for program in found if program.path is not None))
        yield ok("hook program", f"{shown or 'the command does not tell which it is'}")


def _problems(program: Program) -> Iterator[Check]:
    path, place, reinstall = program.path, program.place, _reinstall(program)
    if any(secret in program.command for secret in _SECRETS):
        what = f"the command in {place} has a key in it, and Claude Code writes commands into transcripts"
        yield warning("hook program", what, f"take it out of {place}, and keep it with `cc-trace config set`")
    if path is None:
        return
    if not path.exists():
        yield failed("hook program", f"{path} is registered in {place}, and is not there", reinstall)
    elif not path.is_file():
        yield failed("hook program", f"{path} is registered in {place}, and is not a file", reinstall)
    elif program.by is None and not os.access(path, os.X_OK):
        yield failed("hook program", f"{path} cannot be executed", f"chmod +x {shlex.quote(str(path))}")
    elif not os.access(path, os.R_OK):
        yield failed("hook program", f"{path} cannot be read", f"chmod +r {shlex.quote(str(path))}")


def _reinstall(program: Program) -> str:
    if program.place.startswith("plugin "):
        return f"claude plugin install {program.place.removeprefix('plugin ')}"
    return "cc-trace install" if program.trusted else "cc-trace install --project"


def _with_python(program: Program) -> str:
    """Return how to give a hook a Python: `install` gives it the one that runs this, a plugin has its own script."""
    if program.place.startswith("plugin ") and program.path is not None:
        return f"sh {shlex.quote(str(program.path.parents[1] / 'install.sh'))} --no-hooks"
    return _reinstall(program)


def hook_python(subject: Subject) -> Iterator[Check]:
    """Tell whether the Python that the hook starts is there and has this version of cc-trace."""
    wanted = hook_environment(subject).get("CC_TRACE_PYTHON")
    if wanted and not _executable(Path(wanted)):
        fix = "correct or unset CC_TRACE_PYTHON"
        yield warning("hook python", f"CC_TRACE_PYTHON is {wanted}, which is not a program; it is ignored", fix)
    environment, tried = hook_environment(subject, trusted=True), set[Path]()
    for program in programs(subject):
        if program.path is None or not program.path.is_file():
            continue
        candidates = _pythons(program.path, environment, subject)
        python = next(filter(_executable, candidates), None)
        if python is None:
            looked = listed(candidates, most=5)
            found = f"the hook finds no Python, and does nothing: not at {looked}"
            yield failed("hook python", found, _with_python(program))
        elif not program.trusted:
            yield ok("hook python", f"{python}; not tried, because only this project's files name it")
        elif python not in tried:
            tried.add(python)
            yield _probed(python, environment, _with_python(program))


def _pythons(path: Path, environment: dict[str, str], subject: Subject) -> list[Path]:
    """Return where the hook looks for a Python, in its order."""
    named = environment.get("CC_TRACE_PYTHON")
    given = [Path(named)] if named else []
    if path.name != HOOK:  # `python -m cc_trace.hook`
        return [*given, path]
    with open_regular(path) as file:
        written = _INSTALLED.search(file.read(_MAX_SCRIPT_BYTES))
    words = shlex.split(os.fsdecode(written[1])) if written is not None else []
    folder = (path.parent / path.readlink()).parent if path.is_symlink() else path.parent
    found = [*given, *map(Path, words), folder / ".." / ".venv" / "bin" / "python"]
    installed = _installed_hook(subject)
    return found if installed is None else [*found, installed.parents[1] / "venv" / "bin" / "python"]


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _probed(python: Path, environment: dict[str, str], fix: str) -> Check:
    """Start a Python as the hook does."""
    command = [str(python), "-E", "-P", "-c", _PROBE]
    try:
        done = subprocess.run(  # noqa: S603  (the Python that the user's hook starts after every turn)
            command,
            env=environment,
            cwd=python.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return failed("hook python", f"{python} cannot be started: {error}", fix)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
        return failed("hook python", f"{python} cannot run cc-trace: {said[0]}", fix)
    version = done.stdout.decode(errors="replace").strip()
    if version != __version__:
        found = f"{python} has cc-trace {version}, and this is {__version__}"
        return warning("hook python", found, f"{fix}, with the version that you want to use")
    return ok("hook python", f"{python} has cc-trace {version}")


def hook_run(subject: Subject) -> Iterator[Check]:
    """Tell whether a sample session, sent through the hook as Claude Code would, arrives in a store of its own."""
    from cc_trace.install import check_hook  # noqa: PLC0415  (only here)

    environment = hook_environment(subject, trusted=True)
    for program in programs(subject):
        if not program.trusted or program.path is None or any(_problems(program)):
            continue
        python = next(filter(_executable, _pythons(program.path, environment, subject)), None)
        if python is None:
            continue
        checked = check_hook(program.command, environment, python)
        if checked.problem is None:
            yield ok("hook run", f"a sample session arrived: {len(checked.spans)} spans")
        else:
            yield failed("hook run", "; ".join((checked.problem, *checked.details[:1])), _with_python(program))
        return


CHECKS: Final = (hook_program, hook_python, hook_run)
