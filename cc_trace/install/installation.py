"""The parts of an installation, where they are, and installing them.

The data folder has a copy of the hook script with the path of its Python filled in, since the package's folder may be
moved or deleted. `installed`, beside it, records the settings files and folders that were created, so that `uninstall`
removes just those. settings.json is written last: if the process dies before, nothing refers to the other files.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote

from cc_trace.errors import InstallError
from cc_trace.files import open_private, read_regular, replace_file
from cc_trace.install.settings_file import attempt, plan, register
from cc_trace.paths import claude_folder, state_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cc_trace.install.settings_file import Change

RecordKind: TypeAlias = Literal["settings", "folder"]

HOOK: Final = "cc-trace-hook"
_INSTALLED: Final = b"\ninstalled=\n"  # the line of the script that a copy has filled in


@dataclass(frozen=True, slots=True)
class InstallPaths:
    """Where the parts of an installation are."""

    settings: Path  # Claude Code's, of the user or of a project
    data: Path
    command: Path  # the link on the user's PATH
    state: Path
    config: Path

    @property
    def hook(self) -> Path:
        """Return the copy of the hook script."""
        return self.data / "hooks" / HOOK

    @property
    def backups(self) -> Path:
        """Return the folder with backups of settings files."""
        return self.data / "backups"

    @property
    def environment(self) -> Path:
        """Return the Python environment that install.sh makes."""
        return self.data / "venv"

    @property
    def record(self) -> Path:
        """Return the record of what was made: a kind, a tab and a path in each line. install.sh adds to it, too."""
        return self.data / "installed"


class Installed(NamedTuple):
    """What was done."""

    command: str
    change: Change
    hook_is_new: bool

    @property
    def changed(self) -> bool:
        """Tell whether anything was changed."""
        return self.hook_is_new or self.change.needed


def find_install_paths(environment: Mapping[str, str], project: Path | None) -> InstallPaths:
    """Return where things are for this user, with the settings of a project if one is given. Raises InstallError."""
    home = environment.get("USERPROFILE" if sys.platform == "win32" else "HOME")
    if not home:
        message = "HOME is not set; set it to your home folder and try again"
        raise InstallError(message)
    user = Path(home).absolute()
    claude = claude_folder(environment, user).absolute()
    data = Path(environment.get("XDG_DATA_HOME") or user / ".local" / "share").absolute()
    config = Path(environment.get("XDG_CONFIG_HOME") or user / ".config").absolute()
    return InstallPaths(
        settings=claude / "settings.json" if project is None else _project_settings(project.absolute()),
        data=data / "cc-trace",
        command=user / ".local" / "bin" / "cc-trace",
        state=state_folder(environment, claude).absolute(),
        config=config / "cc-trace" / "config.toml",
    )


def _project_settings(project: Path) -> Path:
    """Return a project's settings file for this user; a link in a cloned folder does not choose another one.

    Not the one that is committed: what is registered names a folder of this user. Earlier versions registered in that
    one, and our hooks are removed from it: it may not be a link either. Raises InstallError.
    """
    path = project / ".claude" / "settings.local.json"
    for file in (path, path.with_name("settings.json")):
        real = Path(os.path.realpath(file))
        if not real.is_relative_to(os.path.realpath(project)):
            message = f"{file} links outside the project, to {real}; replace the link with a regular file"
            raise InstallError(message)
    return path


def refuse_throw_away(prefix: Path) -> None:
    """Raise InstallError where this runs from a cache, as by uvx: hooks would end with its environment."""
    folders = prefix.absolute().parents
    if any(folder.name == ".cache" or (folder / "CACHEDIR.TAG").is_file() for folder in folders):
        message = (
            f"cc-trace runs in a temporary environment, {prefix}; the hook would stop working when it is cleaned up; "
            f"install it permanently: uv tool install {_origin()}, then run: cc-trace install"
        )
        raise InstallError(message)


def _origin() -> str:
    """Return where this package was installed from, as uv and pip take it."""
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415  (only for the message)

    try:
        raw = json.loads(distribution("cc-trace").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        raw = {}
    match raw:
        case {"url": str(url), "vcs_info": {"vcs": str(vcs)}}:
            return shlex.quote(f"{vcs}+{url}")
        case {"url": str(url)}:
            return shlex.quote(unquote(url.removeprefix("file://")))
        case _:
            return "cc-trace"


def hook_script() -> Path:
    """Return the hook script: inside the package where it was installed from a wheel, else beside it."""
    package = Path(__file__).parent.parent
    packaged = package / HOOK
    return packaged if packaged.is_file() else package.parent / "hooks" / HOOK


def own_python() -> Path:
    """Return the Python that runs this, by the name that stays when its environment is upgraded."""
    plain = Path(sys.prefix, "bin", "python")
    with contextlib.suppress(OSError):
        if plain.samefile(sys.executable):
            return plain
    return Path(sys.executable)


def registered_command(hook: Path, python: Path) -> str:
    """Return the command to register: absolute, without a secret, and quiet when its target is gone."""
    if sys.platform == "win32":  # no sh to ask whether it is still there
        command = f'"{python.as_posix()}" -I -m cc_trace.hook'
    else:
        quoted = shlex.quote(str(hook))
        command = f"[ ! -x {quoted} ] || exec {quoted}"
    try:
        command.encode()
    except UnicodeEncodeError:
        message = (
            f"{os.fsencode(hook)!r} is not UTF-8, so settings.json cannot name it; set XDG_DATA_HOME to another folder"
        )
        raise InstallError(message) from None
    return command


def hook_copy(script: bytes, python: Path) -> bytes:
    """Return the hook script with the Python it belongs to written into it."""
    if script.count(_INSTALLED) != 1:
        message = "the hook script has no line `installed=`; install cc-trace again"
        raise InstallError(message)
    return script.replace(_INSTALLED, b"\ninstalled=%b\n" % os.fsencode(shlex.quote(str(python))))


def install(paths: InstallPaths, python: Path, prepare: Callable[[], None]) -> Installed:
    """Put the hook in its place, call `prepare` for the state folder, then register the hook. Raises InstallError.

    What can be checked is checked before anything is made. After a later failure, another `install` finishes the job
    and `uninstall` undoes it.
    """
    command = registered_command(paths.hook, python)
    plan(paths.settings, command, paths.backups)
    with attempt("read", hook_script()):
        content = hook_copy(hook_script().read_bytes(), python)
    folders = {paths.hook.parent: 0o755, paths.settings.parent: 0o700, paths.state: 0o700}
    for folder in folders:
        _check_folder(folder)
    for folder, mode in folders.items():
        _make_folder(paths, folder, mode)
    is_new = _put_hook(paths.hook, content)
    with attempt("use", paths.state):
        prepare()
    _record(paths, "settings", paths.settings)
    return Installed(command, register(paths.settings, command, paths.backups), is_new)


def recorded_paths(paths: InstallPaths, kind: RecordKind) -> list[Path]:
    """Return the recorded paths of a kind, in the order in which they were recorded."""
    try:
        lines = read_regular(paths.record).split(b"\n")
    except OSError:
        return []
    fields = (os.fsdecode(line).partition("\t") for line in lines)
    return [path for word, _, text in fields if word == kind and (path := Path(text)).is_absolute()]


def _put_hook(hook: Path, content: bytes) -> bool:
    """Write the copy of the hook script; return whether anything changed."""
    with attempt("write", hook):
        if hook.is_file() and (read_regular(hook), stat.S_IMODE(hook.stat().st_mode)) == (content, 0o755):
            return False
        replace_file(hook, content, mode=0o755)
    return True


def _check_folder(folder: Path) -> None:
    """Raise InstallError if a folder cannot be written to, or cannot be made."""
    with attempt("write to", folder):
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        if not existing.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(existing))
        if not os.access(existing, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(existing))


def _make_folder(paths: InstallPaths, folder: Path, mode: int) -> None:
    """Make a folder and its parents, and record those that were made. A umask only narrows the mode."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        with attempt("make", path):
            path.mkdir(mode, exist_ok=True)  # another installation may be making it
    for path in reversed(missing):
        _record(paths, "folder", path)


def _record(paths: InstallPaths, kind: RecordKind, path: Path) -> None:
    """Add a line to the record. A path with a newline is not recorded: at worst its folder stays."""
    if "\n" in str(path) or path in recorded_paths(paths, kind):
        return
    with attempt("write", paths.record):
        descriptor = open_private(paths.record, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, os.fsencode(f"{kind}\t{path}\n"))
        finally:
            os.close(descriptor)


def forget_settings(paths: InstallPaths) -> None:
    """Remove a settings file from the record, once it has no hooks of ours. Raises InstallError."""
    with attempt("write", paths.record):
        both = {paths.settings, paths.settings.with_name("settings.json")}
        if both & set(recorded_paths(paths, "settings")):
            obsolete = [os.fsencode(f"settings\t{path}") for path in both]
            lines = read_regular(paths.record).split(b"\n")
            replace_file(paths.record, b"\n".join(line for line in lines if line not in obsolete))
