"""Which variables a project puts into a hook's environment, and which of them a worker trusts.

Claude Code sets the `env` of a project's settings files for everything it starts, and the environment does not show who
set a variable. So the names are read from the project's files: every variable in them counts as the project's.

Rule: a worker keeps the variables that the catalogue allows a project to set, and removes the others before importing
anything that could read them: proxies, certificates, HOME, folders, Python's and OpenSSL's variables.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace.files import read_regular
from cc_trace.paths import is_there
from cc_trace.settings.catalogue import OPTION, SETTINGS

if TYPE_CHECKING:
    from collections.abc import MutableMapping

# Claude Code sets these for every hook, after the `env` of its settings.
_SET_BY_CLAUDE_CODE: Final = frozenset({"CLAUDE_PROJECT_DIR", "CLAUDE_PID", "CLAUDE_CODE_SESSION_ID", "CLAUDECODE"})
_ALLOWED: Final = frozenset(
    variable
    for setting in SETTINGS
    if setting.in_project != "ignored"
    for variable in setting.variables
    if not variable.startswith(OPTION)  # plugin options come from the user
)
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_KEY: Final = re.compile(r'("(?:[^"\\]|\\.)*+")\s*:', re.DOTALL)


def project_files(project: Path) -> list[Path]:
    """Return the settings files of a project, the strongest first.

    Besides a folder's own local settings, Claude Code 2.1.325 reads those of its repository's root and, in a worktree,
    those of the main worktree.
    """
    folders = dict.fromkeys([project, *_repository_roots(project)])
    local = [folder / ".claude" / "settings.local.json" for folder in folders]
    return [*local, project / ".claude" / "settings.json"]


def _repository_roots(project: Path) -> list[Path]:
    """Return the root of a folder's repository and, in a linked worktree, that of the main worktree."""
    for folder in (project, *project.parents):
        git = folder / ".git"
        if is_there(Path.is_dir, git):
            return [folder]
        if is_there(Path.is_file, git):
            try:
                main = _main_worktree(git)
            except (OSError, ValueError):  # a broken link or file
                return [folder]
            return [folder, main]
    return []


def _main_worktree(git: Path) -> Path:
    """Return the main worktree that a linked worktree's `.git` file points to."""
    git_dir = (
        git.parent / read_regular(git, any_owner=True).decode("utf-8", "replace").strip()[len("gitdir:") :].strip()
    )
    common_dir = git_dir / read_regular(git_dir / "commondir", any_owner=True).decode("utf-8", "replace").strip()
    return Path(os.path.realpath(common_dir)).parent


def names_set_by(project: Path) -> frozenset[str] | None:
    """Return the variables in a project's settings files, or None if the files cannot be read."""
    names: set[str] = set()
    for path in project_files(project):
        try:
            text = _decode(read_regular(path, any_owner=True))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError):  # a path can have a NUL in it
            return None
        names |= _names(text)
    return frozenset(names)


def _decode(data: bytes) -> str:
    """Return a settings file's text as Claude Code reads it: UTF-16 with a byte order mark, else UTF-8."""
    return data.decode("utf-16" if data.startswith(_UTF_16) else "utf-8-sig", "replace")


def _names(text: str) -> set[str]:
    """Return the names under `env`, and those of plugin options, which Claude Code 2.1.197 also reads from a project.

    If a text is not valid JSON to us, but may be to Claude Code, return every key.
    """
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):  # too deep, or a number with too many digits
        keys = {_unquote(key) for key in _KEY.findall(text)}
        return keys | {OPTION + key.upper() for key in keys}
    if not isinstance(raw, dict):
        return set()
    env, plugins = raw.get("env"), raw.get("pluginConfigs")
    names = set(env) if isinstance(env, dict) else set()
    for plugin in plugins.values() if isinstance(plugins, dict) else ():
        options = plugin.get("options") if isinstance(plugin, dict) else None
        names |= {OPTION + key.upper() for key in options} if isinstance(options, dict) else set()
    return names


def _unquote(key: str) -> str:
    try:
        return str(json.loads(key, strict=False))
    except ValueError:
        return key[1:-1]


def remove_distrusted(environment: MutableMapping[str, str], project: Path) -> list[str]:
    """Remove variables that a project must not set; return their names. If its files are unreadable, remove all."""
    names = names_set_by(project)
    trusted = _SET_BY_CLAUDE_CODE if names is None else _SET_BY_CLAUDE_CODE | _ALLOWED
    removed = [name for name in environment if name not in trusted and (names is None or name in names)]
    for name in removed:
        del environment[name]
    return removed
