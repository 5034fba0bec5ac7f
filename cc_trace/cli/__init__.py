"""The command line: one module per command, imported when it is called."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
from typing import TYPE_CHECKING, Final

import cc_trace
from cc_trace.errors import CcTraceError

if TYPE_CHECKING:
    from collections.abc import Sequence


# What a transcript becomes holds no cycles, and a command is over soon: looking for garbage at every 700th object, as
# Python does by default, takes a tenth of the time it takes to read a session.
GC_THRESHOLD: Final = 100_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code: 0 well, 1 not all was well, 2 the call was wrong."""
    options = _parser().parse_args(arguments)
    gc.set_threshold(GC_THRESHOLD)
    try:
        return _run(options)
    except CcTraceError as error:
        print(f"cc-trace: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader has seen enough (`| head`); Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def _run(options: argparse.Namespace) -> int:
    # Imported when called: what one command needs, another need not pay for.
    module = importlib.import_module(f"cc_trace.cli.{options.command}")
    code: int = module.run(options, os.environ)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cc-trace", description=cc_trace.__doc__.splitlines()[0])
    parser.add_argument("--version", action="version", version=f"cc-trace {cc_trace.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    show = commands.add_parser("show", help="show a session as a tree, or as spans in JSON")
    show.add_argument("session", metavar="PATH|SESSION_ID", help="a transcript, or the id of a session")
    show.add_argument("--turn", type=int, metavar="N", help="only turn N")
    show.add_argument("--full", action="store_true", help="prompts, answers, tool inputs and outputs in full")
    show.add_argument("--no-content", action="store_true", help="no prompts, answers, inputs, outputs or error texts")
    show.add_argument("--json", action="store_true", help="one JSON object per span and line, the session's last")
    sync = commands.add_parser("sync", help="deliver undelivered turns now")
    which = sync.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="this session only")
    which.add_argument("--transcript", metavar="PATH", help="this transcript only")
    which.add_argument("--all", action="store_true", help="also sessions from before the installation")
    which.add_argument("--spooled", metavar="FILE", help=argparse.SUPPRESS)  # what the hook passes on
    sync.add_argument("--deadline", type=float, metavar="SECONDS", help=argparse.SUPPRESS)
    status = commands.add_parser("status", help="what is delivered, what is behind and why")
    status.add_argument("--json", action="store_true", help="as JSON")
    return parser
