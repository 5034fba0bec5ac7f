"""`cc-trace uninstall`: take out what `install` and install.sh put in. Runs without any package but our own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace.errors import CcTraceError, InstallError
from cc_trace.install import (
    find_install_paths,
    forget_settings,
    noted,
    plugins,
    purge,
    read_settings,
    remove_files,
    unregister,
)
from cc_trace.paths import here

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from cc_trace.install import InstallPaths

_SAID: Final = {
    "taken out": "our hooks are taken out",
    "restored": "as it was before, byte for byte",
    "removed": "removed; there was none before",
}


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Uninstall; each settings file is dealt with whatever becomes of the others. Exit 2 if one could not be."""
    places = find_install_paths(environment, here() if options.project else None)
    if options.project and options.purge:
        message = "--purge takes away what all projects share; leave out --project"
        raise InstallError(message)
    done, failed = _unregister(places, only=options.project)
    if failed:
        for error in failed:
            print(f"cc-trace: {error}", file=sys.stderr)
        if not options.project:
            print("cc-trace: all else was left in place, so that you can run this again", file=sys.stderr)
        return 2
    if options.project:
        forget_settings(places)
    else:
        done += _remove(places, everything=options.purge)
    for line in done or ["cc-trace is not installed"]:
        print(line)
    return 0


def _unregister(places: InstallPaths, *, only: bool) -> tuple[list[str], list[CcTraceError]]:
    done, failed = [], []
    for path in dict.fromkeys([places.settings, *([] if only else noted(places, "settings"))]):
        try:
            outcome = unregister(path)
            if outcome in _SAID:
                done.append(f"settings {path}: {_SAID[outcome]}")
            elif path != places.settings and not path.exists():
                done.append(f"left: {path} is gone; if it was moved, {_again(path)}")
            done += [f"note: the plugin {name} is still enabled there" for name in plugins(read_settings(path) or "")]
        except CcTraceError as error:
            failed.append(error)
    return done, failed


def _again(path: Path) -> str:
    """Return how to take our hooks out of a settings file that lies elsewhere now."""
    if path.parent.name == ".claude":
        return "run `cc-trace uninstall --project` there"
    return "run `cc-trace uninstall` with CLAUDE_CONFIG_DIR set to where it is now"


def _remove(places: InstallPaths, *, everything: bool) -> list[str]:
    done: list[str] = []
    if everything:
        removed, left = purge(places)
        done += [f"{what}: removed" for what in removed] + [f"left: {what}" for what in left]
    else:
        kept = [places.state / "sessions", places.state / "traces.db"]
        if any(path.is_file() or (path.is_dir() and any(path.iterdir())) for path in kept):
            done.append(f"left: state, store and log in {places.state} (`--purge` removes them, too)")
        if places.config.exists():
            done.append(f"left: your settings in {places.config} (`--purge` removes them, too)")
    others = Path(sys.prefix).resolve() != places.environment.resolve() and places.hook.exists()
    done += [f"{what}: removed" for what in remove_files(places)]
    if others:
        done.append(f"left: the package itself in {sys.prefix}")
    return done
