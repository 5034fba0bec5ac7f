"""What can be said on the command line. Here, and not with the commands, so that `--help` imports none of them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, TypeAlias

import cc_trace

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  (it has no other name)

_JSON = "as JSON"


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    made = argparse.ArgumentParser(prog="cc-trace", description=cc_trace.__doc__.splitlines()[0])
    made.add_argument("--version", action="version", version=f"cc-trace {cc_trace.__version__}")
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _installation(commands)
    _looking(commands)
    _delivering(commands)
    return made


def _installation(commands: Commands) -> None:
    install = commands.add_parser("install", help="register the hook with Claude Code and try it out")
    install.add_argument("--project", action="store_true", help="in .claude/settings.json here, not for the user")
    uninstall = commands.add_parser("uninstall", help="take out what install put in")
    uninstall.add_argument("--project", action="store_true", help="only from .claude/settings.json here")
    uninstall.add_argument("--purge", action="store_true", help="also the state, the log and the local store")
    doctor = commands.add_parser("doctor", help="check everything, and prove that traces arrive")
    doctor.add_argument("--json", action="store_true", help=_JSON)
    config = commands.add_parser("config", help="show the settings and where each comes from, or change them")
    config.add_argument("--json", action="store_true", help=_JSON)
    actions = config.add_subparsers(dest="action", metavar="ACTION")
    change = actions.add_parser("set", help="write a setting to config.toml")
    change.add_argument("name", metavar="NAME", help="as it is shown by `cc-trace config`")
    change.add_argument("value", metavar="VALUE", nargs="?", help="left out: it is read from stdin, as keys should be")
    remove = actions.add_parser("unset", help="take a setting out of config.toml")
    remove.add_argument("name", metavar="NAME")


def _looking(commands: Commands) -> None:
    show = commands.add_parser("show", help="show a session as a tree, or as spans in JSON")
    _session(show)
    show.add_argument("--full", action="store_true", help="prompts, answers, tool inputs and outputs in full")
    show.add_argument("--no-content", action="store_true", help="no prompts, answers, inputs, outputs or error texts")
    show.add_argument("--json", action="store_true", help="one JSON object per span and line, the session's last")
    preview = commands.add_parser("preview", help="print exactly what would be sent of a session")
    _session(preview)
    preview.add_argument("--to", metavar="DESTINATION", help="one of those in use; needed where there are several")
    status = commands.add_parser("status", help="what is delivered, what is behind and why")
    status.add_argument("--json", action="store_true", help=_JSON)


def _session(command: argparse.ArgumentParser) -> None:
    command.add_argument("session", metavar="PATH|SESSION_ID", help="a transcript, or the id of a session")
    command.add_argument("--turn", type=int, metavar="N", help="only turn N")


def _delivering(commands: Commands) -> None:
    sync = commands.add_parser("sync", help="deliver undelivered turns now")
    which = sync.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="this session only")
    which.add_argument("--transcript", metavar="PATH", help="this transcript only")
    which.add_argument("--spooled", metavar="FILE", help=argparse.SUPPRESS)  # what the hook passes on
    sync.add_argument("--deadline", type=float, metavar="SECONDS", help=argparse.SUPPRESS)
    backfill = commands.add_parser("backfill", help="deliver the history of this machine")
    backfill.add_argument("paths", metavar="PATH", nargs="*", help="transcripts or folders; default: all sessions")
    backfill.add_argument("--since", metavar="AGE", help="only what was written to since: 30d, 12h, or 2026-10-01")
    backfill.add_argument("--to", metavar="DESTINATION", help="only there; default: all in use")
    backfill.add_argument(
        "--again", action="store_true", help="also what was delivered there before: for a new backend"
    )
    backfill.add_argument("--dry-run", action="store_true", help="count what would be sent, send nothing")
    backfill.add_argument("--jobs", type=int, default=1, metavar="N", help="sessions at a time (default 1)")
