"""`cc-trace install`: register the hook with Claude Code, then send a sample session through it and show the trace."""

from __future__ import annotations

import shlex
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace.delivery import StateFolder
from cc_trace.install import (
    check_hook,
    find_install_paths,
    install,
    own_python,
    parse_settings,
    plugins,
    refuse_throw_away,
    unregister,
)
from cc_trace.paths import current_folder

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from cc_trace.install import Installed, InstallPaths

_TRACED: Final = "It works: new sessions are now traced. `cc-trace status` shows what was delivered."
_NOT_REGISTERED: Final = "The hook works. To register it, enable the plugin or run `cc-trace install`."


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Install for the user or for the project; exit 1 if the hook is registered but does not work."""
    refuse_throw_away(Path(sys.prefix))
    paths = find_install_paths(environment, current_folder() if options.project else None)
    python = own_python()
    states = StateFolder(paths.state)

    def prepare() -> None:
        states.prepare()
        states.stamp_installed()

    installed = install(paths, python, prepare)
    if options.project:  # where earlier versions registered it
        unregister(paths.settings.with_name("settings.json"), paths.backups)
    _report(paths, installed)
    if options.project:
        print(f"note      {paths.settings.name} contains a path of this machine; keep it out of version control")
    return _try_out(installed.command, environment, python, _TRACED)


def try_out(hook: str, environment: Mapping[str, str]) -> int:
    """Send the sample through a hook script without registering it: the plugin does that. `install.sh` calls this."""
    return _try_out(f"exec {shlex.quote(hook)}", environment, own_python(), _NOT_REGISTERED)


def _report(paths: InstallPaths, installed: Installed) -> None:
    change = installed.change
    if not installed.changed:
        print(f"cc-trace is already installed; nothing changed in {paths.settings}")
    else:
        print(f"hook      {paths.hook}")
        verb = "registered for Stop and SessionEnd" if change.needed else "already registered"
        print(f"settings  {paths.settings}: {verb}")
        if change.needed and change.original is not None:
            print(f"backup    {change.backup}")
    for name in plugins(change.after):
        print(
            f"note      the plugin {name} is enabled too. Turns are still delivered only once; one of the two is enough"
        )
    if parse_settings(change.after).get("disableAllHooks") is True:
        print("note      disableAllHooks is true in that file: Claude Code runs no hooks until you remove it")


def _try_out(command: str, environment: Mapping[str, str], python: Path, closing: str) -> int:
    result = check_hook(command, environment, python)
    if result.problem is not None:
        fix = result.fix or "install cc-trace again"
        print(f"cc-trace: self-check: {result.problem}; {fix}", file=sys.stderr)
        for line in result.details:
            print(f"cc-trace: self-check: {line}", file=sys.stderr)
        return 1
    from cc_trace.cli.tree import Printer  # noqa: PLC0415  (rich takes 60 ms)

    print("\nA sample session, sent through the hook to a temporary store:\n")
    printer = Printer(full=False, content=True)
    for _, spans in groupby(result.spans, key=lambda span: span.turn):
        printer.turn(list(spans))
    print(f"\n{closing}")
    return 0
