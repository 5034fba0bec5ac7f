"""`cc-trace doctor`: check everything, prove that traces arrive, and say how to fix it if they do not."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace.cli.output import EscapedText
from cc_trace.delivery import StateFolder
from cc_trace.doctor import Subject, check_all, failed, secret_values
from cc_trace.errors import ConfigError
from cc_trace.export import redacted
from cc_trace.paths import claude_folder, home, state_folder
from cc_trace.settings import Sources
from cc_trace.text import plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from cc_trace.doctor import Check

_FIRST: Final = ("failed", "warning", "ok")
_COLOURS: Final = {"failed": 31, "warning": 33, "ok": 32}
_BREAKS: Final = re.compile(r"[\t\n\r\u2028\u2029]+")


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Print every check, failures first, or all in JSON; exit 1 if one failed. The state folder is not made."""
    checks = list(_checks(environment))
    if options.json:
        print(json.dumps([check._asdict() for check in checks], indent=2))
    else:
        coloured = sys.stdout.isatty() and not environment.get("NO_COLOR")
        for check in sorted(checks, key=lambda check: _FIRST.index(check.verdict)):
            _print(check, coloured=coloured)
        count = {verdict: sum(check.verdict == verdict for check in checks) for verdict in ("failed", "warning")}
        print(f"\n{plural(len(checks), 'check')}: {count['failed']} failed, {plural(count['warning'], 'warning')}")
    return 1 if any(check.verdict == "failed" for check in checks) else 0


def _checks(environment: Mapping[str, str]) -> Iterator[Check]:
    try:
        subject = _subject(environment)
    except ConfigError as error:
        yield failed("home", str(error), "set HOME to the home folder of the user who runs Claude Code")
        return
    secrets = secret_values(subject)
    for check in check_all(subject):
        fix = None if check.fix is None else _clean(check.fix, secrets)
        yield check._replace(found=_clean(check.found, secrets), fix=fix)


def _subject(environment: Mapping[str, str]) -> Subject:
    sources = Sources(environment, home(environment), from_hook=False)
    config_dir = claude_folder(environment, sources.home)
    try:
        project = Path.cwd()
    except OSError:  # the current folder was removed
        project = sources.home
    return Subject(sources, config_dir, StateFolder(state_folder(environment, config_dir)), project, time.time())


def _clean(text: str, secrets: frozenset[str]) -> str:
    """Return a text on one line, without any key."""
    return _BREAKS.sub(" ", redacted(text, secrets))


def _print(check: Check, *, coloured: bool) -> None:
    line = f"{check.verdict:<8} {check.name:<22} {check.found}"
    if coloured and isinstance(sys.stdout, EscapedText):
        safe = sys.stdout.safe(line)  # first, so that it is wrapped as a whole
        sys.stdout.bare.write(f"\x1b[{_COLOURS[check.verdict]}m{safe[:8]}\x1b[0m{safe[8:]}\n")
    else:
        print(line, flush=True)
    if check.fix is not None:
        print(f"{'':<8} fix: {check.fix}", flush=True)
