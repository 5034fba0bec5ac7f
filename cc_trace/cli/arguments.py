"""The arguments of every command. Here, and not with the commands, so that `--help` imports none of them."""

from __future__ import annotations

import argparse
import difflib
import math
from typing import TYPE_CHECKING, TypeAlias

import cc_trace
from cc_trace.cli.commands import COMMANDS, overview

if TYPE_CHECKING:
    from collections.abc import Sequence

    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  (it has no other name)

_JSON = "print JSON"
_NAMED = "a transcript path, a session id or its first characters, or `latest` (the latest session in this folder)"


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    made = argparse.ArgumentParser(prog="cc-trace")
    made.format_help = overview  # type: ignore[method-assign]  # the same, however it is asked for
    made.add_argument("--version", action="version", version=f"cc-trace {cc_trace.__version__}")
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _installation(commands)
    _looking(commands)
    _delivering(commands)
    _completing(commands)
    return made


def parse(given: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line. What a command does not take is said with the option that is meant."""
    made = parser()
    options, unknown = made.parse_known_args(given)
    if unknown:
        meant = difflib.get_close_matches(unknown[0].partition("=")[0], _options(made, options), 1)
        hint = f"did you mean {meant[0]}?" if meant else f"`cc-trace {options.command} --help` shows what it accepts"
        made.exit(2, f"cc-trace: `cc-trace {options.command}` does not accept {unknown[0]!r}; {hint}\n")
    return options


def _options(made: argparse.ArgumentParser, options: argparse.Namespace) -> list[str]:
    """Return the options of the command that was called, and of its action, but those that are nobody's to type."""
    found: list[str] = []
    for action in made._actions:  # noqa: SLF001  (argparse has no other way to ask)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  (likewise)
            chosen = action.choices.get(str(getattr(options, action.dest, "")))
            found += [] if chosen is None else _options(chosen, options)
        elif action.help != argparse.SUPPRESS:
            found += action.option_strings
    return found


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        message = f"{text!r} is not a whole number"
        raise argparse.ArgumentTypeError(message) from None


def _limit(text: str) -> float:
    """Return a limit of a gate: one that nothing exceeds, such as nan, would let everything pass."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        message = f"{text!r} must be a number, 0 or more"
        raise argparse.ArgumentTypeError(message)
    return number


def _command(commands: Commands, name: str) -> argparse.ArgumentParser:
    about = COMMANDS[name]
    return commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")


def _installation(commands: Commands) -> None:
    install = _command(commands, "install")
    install.add_argument(
        "--project", action="store_true", help="register in .claude/settings.local.json of the current folder"
    )
    uninstall = _command(commands, "uninstall")
    uninstall.add_argument(
        "--project", action="store_true", help="remove the hook from the current folder's settings only"
    )
    uninstall.add_argument(
        "--purge", action="store_true", help="also delete the state, log, local store and config.toml"
    )
    doctor = _command(commands, "doctor")
    doctor.add_argument("--json", action="store_true", help=_JSON)
    config = _command(commands, "config")
    config.add_argument("--json", action="store_true", help=_JSON)
    config.add_argument("--project", metavar="PATH", help="show what applies to this folder (default: the current one)")
    actions = config.add_subparsers(dest="action", metavar="ACTION")
    change = actions.add_parser("set", help="write a setting to config.toml")
    change.add_argument("name", metavar="NAME", help="a setting's name, as listed by `cc-trace config`")
    change.add_argument(
        "value", metavar="VALUE", nargs="?", help="if omitted, read from the terminal or stdin (use this for keys)"
    )
    remove = actions.add_parser("unset", help="remove a setting from config.toml")
    remove.add_argument("name", metavar="NAME", help="a setting's name, as listed by `cc-trace config`")
    get = actions.add_parser("get", help="print one value; exit 1 if it is not set")
    get.add_argument("name", metavar="NAME", help="a setting's name, as listed by `cc-trace config`")
    for each in (change, remove, get):  # suppressed: else it would overwrite what stands before `set`
        text = "apply to sessions in this folder and its subfolders"
        each.add_argument("--project", metavar="PATH", default=argparse.SUPPRESS, help=text)


def _looking(commands: Commands) -> None:
    show = _command(commands, "show")
    _session(show)
    about = "print the request behind this response, as it was sent; without SESSION, search all sessions"
    show.add_argument("--request", metavar="MESSAGE_ID", help=about)
    show.add_argument("--full", action="store_true", help="print prompts, answers, tool inputs and outputs in full")
    show.add_argument(
        "--no-content", action="store_true", help="leave out prompts, answers, inputs, outputs and error texts"
    )
    show.add_argument(
        "--json", action="store_true", help="print JSON Lines: one object per span, then one for the session"
    )
    _asking(commands)
    view = _command(commands, "view")
    about = f"the session to open: {_NAMED}; if omitted, the list of all sessions"
    view.add_argument("session", metavar="SESSION", nargs="?", help=about)
    view.add_argument("--port", type=_whole, default=0, metavar="N", help="port to listen on (default: any free port)")
    view.add_argument("--no-browser", action="store_true", help="print the address without opening a browser")
    preview = _command(commands, "preview")
    _session(preview)
    preview.add_argument("--to", metavar="DESTINATION", help="the destination; required if several are configured")
    report = _command(commands, "report")
    report.add_argument(
        "session", metavar="SESSION|FILE", help="a session id, a transcript, or a file with `claude -p` output"
    )
    report.add_argument(
        "--format", choices=("text", "markdown", "json"), default="text", help="output format (default: text)"
    )
    report.add_argument(
        "--max-cost", type=_limit, metavar="USD", help="exit 1 if the run cost more, or if its cost is unknown"
    )
    report.add_argument("--max-minutes", type=_limit, metavar="N", help="exit 1 if the run took longer")
    report.add_argument("--fail-on", choices=("error",), help="exit 1 if the last turn did not succeed")
    status = _command(commands, "status")
    status.add_argument("--json", action="store_true", help=_JSON)
    status.add_argument(
        "--all", action="store_true", help="list every session, not just the latest and the pending ones"
    )


def _asking(commands: Commands) -> None:
    sessions = _command(commands, "sessions")
    sessions.add_argument("--project", metavar="NAME", help="only sessions of this project")
    sessions.add_argument(
        "--since", metavar="AGE", help="only sessions active since then, such as 30d, 12h or 2026-10-01"
    )
    sessions.add_argument("--limit", type=_whole, metavar="N", help="only the latest N sessions")
    usage = _command(commands, "usage")
    kinds = ("day", "project", "model", "agent", "tool", "session")
    usage.add_argument("--by", choices=kinds, default="day", help="what to group by (default: day)")
    usage.add_argument("--since", metavar="AGE", help="only usage since then, such as 30d, 12h or 2026-10-01")
    search = _command(commands, "search")
    search.add_argument("text", metavar="TEXT", nargs="+", help="words to find; a span must contain all of them")
    export = _command(commands, "export")
    _session(export)
    about = "output file; its extension sets the format: .html, .json or .perfetto.json"
    export.add_argument("-o", "--output", metavar="FILE", required=True, help=about)
    for each in (sessions, usage, search):
        each.add_argument("--json", action="store_true", help=_JSON)


def _session(command: argparse.ArgumentParser) -> None:
    command.add_argument("session", metavar="SESSION", nargs="?", help=_NAMED)
    command.add_argument("--turn", type=_whole, metavar="N", help="only turn N")


def _completing(commands: Commands) -> None:
    completion = _command(commands, "completion")
    completion.add_argument("shell", metavar="bash|zsh|fish", choices=("bash", "zsh", "fish"))


def _delivering(commands: Commands) -> None:
    sync = _command(commands, "sync")
    which = sync.add_mutually_exclusive_group()
    about = "only this session: an id or its first characters, or `latest` (the default)"
    which.add_argument("--session", metavar="ID", nargs="?", const="latest", help=about)
    which.add_argument("--transcript", metavar="PATH", help="only this transcript")
    run = _command(commands, "run")
    about = "pass CC_TRACE_TRACEPARENT to the command as TRACEPARENT, so that what it starts joins the same trace"
    run.add_argument("--propagate", action="store_true", help=about)
    run.add_argument(
        "command_line", metavar="COMMAND", nargs=argparse.REMAINDER, help="the command to run, after --: claude -p ..."
    )
    ingest = _command(commands, "ingest")
    about = "output of `claude -p --output-format stream-json` or `json`; if omitted or -, read stdin"
    ingest.add_argument("files", metavar="FILE", nargs="*", help=about)
    ingest.add_argument("--prompt", metavar="TEXT", help="the prompt of the run, which the output does not contain")
    backfill = _command(commands, "backfill")
    backfill.add_argument("paths", metavar="PATH", nargs="*", help="transcripts or folders (default: all sessions)")
    backfill.add_argument(
        "--since", metavar="AGE", help="only sessions active since then, such as 30d, 12h or 2026-10-01"
    )
    backfill.add_argument(
        "--to", metavar="DESTINATION", help="only to this destination (default: all that are configured)"
    )
    backfill.add_argument(
        "--again",
        action="store_true",
        help="with --to: also send what was already delivered there, such as to a new backend",
    )
    backfill.add_argument("--dry-run", action="store_true", help="count what would be sent, but send nothing")
    backfill.add_argument(
        "--jobs", type=_whole, default=1, metavar="N", help="number of sessions to deliver at once (default: 1)"
    )
