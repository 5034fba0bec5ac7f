"""`cc-trace uninstall`: take out what `install` and install.sh put in. Runs without any package but our own."""

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

_SAID: Final = {
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
    done, failed = _unregister(paths, only=options.project)
    if failed:
        for error in failed:
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
        done += _remove(paths, everything=options.purge)
    for line in done or ["cc-trace is not installed"]:
        print(line)
    return 0


def _unregister(paths: InstallPaths, *, only: bool) -> tuple[list[str], list[CcTraceError]]:
    done, failed = [], []
    here = [paths.settings, paths.settings.with_name("settings.json")]  # of a project: earlier versions used that one
    for path in dict.fromkeys([*here, *([] if only else recorded_paths(paths, "settings"))]):
        try:
            outcome = unregister(path, paths.backups)
            if outcome in _SAID:
                done.append(f"settings {path}: {_SAID[outcome]}")
            elif path not in here and not path.exists():
                done.append(
                    f"not found: {path}; if you moved it, delete cc-trace's hooks from it (they no longer do anything)"
                )
            with contextlib.suppress(JsonTextError):  # it had no hook of ours
                names = plugins(read_settings(path) or "")
                done += [f"note: the plugin {name} is still enabled there" for name in names]
        except CcTraceError as error:
            failed.append(error)
    return done, failed


def _remove(paths: InstallPaths, *, everything: bool) -> list[str]:
    done: list[str] = []
    if everything:
        removed, left = purge(paths)
        done += [f"{what}: removed" for what in removed] + [f"left: {what}" for what in left]
    else:
        kept = [paths.state / "sessions", paths.state / "traces.db"]
        if any(path.is_file() or (path.is_dir() and any(path.iterdir())) for path in kept):
            done.append(f"left: state, store and log in {paths.state} (--purge removes them)")
        if paths.config.exists():
            done.append(f"left: your settings in {paths.config} (--purge removes them)")
    others = Path(sys.prefix).resolve() != paths.environment.resolve() and paths.hook.exists()
    done += [f"{what}: removed" for what in remove_files(paths)]
    if others:
        done.append(f"left: the package itself in {sys.prefix}")
    return done
