"""The command line: one module per command, imported when it is called."""

from __future__ import annotations

import gc
import os
import sys

import cc_trace
from cc_trace.cli.commands import COMMANDS, overview
from cc_trace.cli.output import EscapedText
from cc_trace.errors import CcTraceError, ConfigError

TYPE_CHECKING = False  # importing typing, argparse or importlib takes as long as all that `--help` does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


# Spans hold no cycles, and a command is over soon: collecting garbage at every 700th object, as Python does by default,
# takes a tenth of the time it takes to read a session.
GC_THRESHOLD = 100_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 for success, 1 if something is wrong or pending, 2 for a wrong call."""
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115  (for as long as we run)
    argv = sys.argv[1:] if arguments is None else list(arguments)
    streams = sys.stdout, sys.stderr
    for stream in streams:
        if hasattr(stream, "reconfigure"):  # what their encoding does not have is shown as an escape, whoever writes it
            stream.reconfigure(errors="backslashreplace")
    sys.stdout = EscapedText(sys.stdout)
    sys.stderr = None if sys.stderr is None else EscapedText(sys.stderr)
    try:
        return _main(argv)
    finally:
        sys.stdout, sys.stderr = streams


def _main(argv: Sequence[str]) -> int:
    try:
        if not argv or argv[0] in ("--help", "-h", "--version"):
            print(f"cc-trace {cc_trace.__version__}" if argv[:1] == ["--version"] else overview(), flush=True)
            return 0
        if argv[:2] == ["run", "--"]:
            from cc_trace.cli.run import run_command  # noqa: PLC0415  (argparse, see above)

            return run_command(argv[1:], os.environ)
        match argv:
            case ["sync", "--spooled", payload]:
                return _run_worker(payload, None)
            case ["sync", "--spooled", payload, "--deadline", seconds]:
                return _run_worker(payload, seconds)
        if argv[0] not in COMMANDS:
            print(f"cc-trace: {_unknown_command(argv[0])}", file=sys.stderr)
            return 2
        return _run_parsed(argv)
    except BrokenPipeError:
        _drop_output()  # the reader has seen enough (`| head`)
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as error:  # a full disk, a folder in a file's place: said in one line, wherever it happened
        print(f"cc-trace: {error}", file=sys.stderr)
        _drop_output()
        return 2


def _run_worker(payload: str, seconds: str | None) -> int:
    """Run the worker that a hook starts. It runs at every Stop, so it avoids argparse."""
    from pathlib import Path  # noqa: PLC0415  (see above)

    gc.set_threshold(GC_THRESHOLD)
    if project := os.environ.get("CLAUDE_PROJECT_DIR"):
        from cc_trace.settings import remove_distrusted  # noqa: PLC0415  (see above)

        remove_distrusted(os.environ, Path(project))  # before anything is imported that reads one of them
    from cc_trace.delivery import run_worker  # noqa: PLC0415  (see above)

    try:
        return run_worker(os.environ, Path(payload), None if seconds is None else float(seconds))
    except (CcTraceError, ValueError) as error:
        print(f"cc-trace: {error}", file=sys.stderr)
        return 2


def _unknown_command(name: str) -> str:
    import difflib  # noqa: PLC0415  (only for a mistyped command)

    matches = difflib.get_close_matches(name, (*COMMANDS, "--help", "--version"), 1)
    hint = f"did you mean `cc-trace {matches[0]}`?" if matches else "`cc-trace --help` lists all commands"
    return f"unknown {'option' if name.startswith('-') else 'command'} {name!r}; {hint}"


def _run_parsed(argv: Sequence[str]) -> int:
    from cc_trace.cli.arguments import parse  # noqa: PLC0415  (argparse, see above)

    options = parse(argv)
    gc.set_threshold(GC_THRESHOLD)
    try:
        if options.command not in ("completion", "uninstall"):
            _warn_if_hook_stopped()
        code = _run(options)
        sys.stdout.flush()  # here, where a reader that has gone is dealt with
    except CcTraceError as error:
        print(f"cc-trace: {error}", file=sys.stderr)
        return 2
    return code


def _warn_if_hook_stopped() -> None:
    from cc_trace.paths import claude_folder, home, state_folder, stopped_since  # noqa: PLC0415  (see above)

    try:
        folder = state_folder(os.environ, claude_folder(os.environ, home(os.environ)))
    except ConfigError:
        return  # no home: the command itself says so, in its own way
    if (warning := stopped_since(folder)) is not None:
        print(f"cc-trace: {warning}; `cc-trace sync` delivers what is pending", file=sys.stderr)


def _drop_output() -> None:
    """Discard unwritten output: otherwise Python complains once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(options: argparse.Namespace) -> int:
    import importlib  # noqa: PLC0415  (see above)

    # Imported when called: what one command needs, another need not pay for.
    module = importlib.import_module(f"cc_trace.cli.{options.command}")
    code: int = module.run(options, os.environ)
    return code
