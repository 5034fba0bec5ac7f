"""`cc-trace uninstall`: remove what `install` and install.sh added. Needs no package but our own."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace.errors import CcTraceError, InstallError, JsonTextError
from cc_trace.install import (
    find_install_paths,
    forget_settings,
    plugins,
    purge,
    read_settings,
    recorded_paths,
    remove_files,
    unregister,
)
from cc_trace.paths import current_folder

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from cc_trace.install import InstallPaths

_OUTCOMES: Final = {
    "hooks removed": "hooks removed",
    "restored": "restored to what it was before, byte for byte",
    "file removed": "removed, as there was none before",
}


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Uninstall. Each settings file is handled on its own; exit 2 if one could not be changed."""
    paths = find_install_paths(environment, current_folder() if options.project else None)
    if options.project and options.purge:
        message = "--purge removes what all projects share; run it without --project"
        raise InstallError(message)
    lines, errors = _unregister(paths, only=options.project)
    if errors:
        for error in errors:
            print(f"cc-trace: {error}", file=sys.stderr)
        if not options.project:
            print(
                "cc-trace: everything else was left in place; run `cc-trace uninstall` again after fixing this",
                file=sys.stderr,
            )
        return 2
    if options.project:
        forget_settings(paths)
    else:
        lines += _remove(paths, everything=options.purge)
    for line in lines or ["cc-trace is not installed"]:
        print(line)
    return 0


def _unregister(paths: InstallPaths, *, only: bool) -> tuple[list[str], list[CcTraceError]]:
    lines, errors = [], []
    # In a project, earlier versions used settings.json.
    own_files = [paths.settings, paths.settings.with_name("settings.json")]
    for path in dict.fromkeys([*own_files, *([] if only else recorded_paths(paths, "settings"))]):
        try:
            outcome = unregister(path, paths.backups)
            if outcome in _OUTCOMES:
                lines.append(f"settings {path}: {_OUTCOMES[outcome]}")
            elif path not in own_files and not path.exists():
                lines.append(
                    f"not found: {path}; if you moved it, delete cc-trace's hooks from it (they no longer do anything)"
                )
            with contextlib.suppress(JsonTextError):  # it had no hook of ours
                names = plugins(read_settings(path) or "")
                lines += [f"note: the plugin {name} is still enabled there" for name in names]
        except CcTraceError as error:
            errors.append(error)
    return lines, errors


def _remove(paths: InstallPaths, *, everything: bool) -> list[str]:
    lines: list[str] = []
    if everything:
        removed, remaining = purge(paths)
        lines += [f"{part}: removed" for part in removed] + [f"left: {part}" for part in remaining]
    else:
        kept_files = [paths.state / "sessions", paths.state / "traces.db"]
        if any(path.is_file() or (path.is_dir() and any(path.iterdir())) for path in kept_files):
            lines.append(f"left: state, store and log in {paths.state} (--purge removes them)")
        if paths.config.exists():
            lines.append(f"left: your settings in {paths.config} (--purge removes them)")
    runs_elsewhere = Path(sys.prefix).resolve() != paths.environment.resolve() and paths.hook.exists()
    lines += [f"{part}: removed" for part in remove_files(paths)]
    if runs_elsewhere:
        lines.append(f"left: the package itself in {sys.prefix}")
    return lines
