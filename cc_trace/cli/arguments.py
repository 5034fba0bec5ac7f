"""The arguments of every command. Here, and not with the commands, so that `--help` imports none of them."""

from __future__ import annotations

import argparse
import math
import re
from typing import TYPE_CHECKING, Final, NoReturn

from cc_trace.cli.commands import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_JSON: Final = "print JSON"
_NAMED: Final = (
    "a transcript path, a session id or its first characters, or `latest` for the latest session in this folder"
)
_SETTING: Final = "a setting's name, as listed by `cc-trace config`"
# What argparse says -> what we say.
_REWORDED: Final = (
    (r"argument (\S+): (is .*)", r"\1 \2"),
    (r"argument (\S+): invalid choice: (.*) \(choose from (.*)\)", r"\1 is \2; it must be one of \3"),
    (r"argument (\S+): expected one argument", r"\1 needs a value"),
    (r"argument (\S+): not allowed with argument (\S+)", r"\1 and \2 cannot be used together"),
)


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        """Print it, and exit."""
        for said, better in _REWORDED:
            if re.fullmatch(said, message):
                self.exit(2, f"cc-trace: {re.sub(said, better, message)}\n")
        missing = message.removeprefix("the following arguments are required: ")
        said = f"`{self.prog}` needs {missing}" if missing != message else message
        self.exit(2, f"cc-trace: {said}; `{self.prog} --help` shows what it accepts\n")


def parser(*names: str) -> argparse.ArgumentParser:
    """Return the parser of these commands, or of all: one alone is made in a tenth of the time."""
    made = _Parser(prog="cc-trace")
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND", prog="cc-trace")
    for name in names or COMMANDS:
        about = COMMANDS[name]
        _ARGUMENTS[name](commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}."))
    return made


def parse(given: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line, which begins with a command."""
    made = parser(given[0])
    options, unknown = made.parse_known_args(given)
    if unknown:
        import difflib  # noqa: PLC0415  (only for a mistyped option)

        typed = " ".join(filter(None, ("cc-trace", options.command, getattr(options, "action", None))))
        meant = difflib.get_close_matches(unknown[0].partition("=")[0], _options(made, options), 1)
        hint = f"did you mean {meant[0]}?" if meant else f"`{typed} --help` shows what it accepts"
        made.exit(2, f"cc-trace: `{typed}` does not accept {unknown[0]!r}; {hint}\n")
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
        message = f"is {text!r}; it must be a whole number"
        raise argparse.ArgumentTypeError(message) from None


def _limit(text: str) -> float:
    """Return a limit of a gate: one that nothing exceeds, such as nan, would let everything pass."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        message = f"is {text!r}; it must be a number, 0 or more"
        raise argparse.ArgumentTypeError(message)
    return number


def _install(command: argparse.ArgumentParser) -> None:
    about = "register in .claude/settings.local.json of the current folder"
    command.add_argument("--project", action="store_true", help=about)


def _uninstall(command: argparse.ArgumentParser) -> None:
    about = "remove the hook from the current folder's settings only"
    command.add_argument("--project", action="store_true", help=about)
    about = "also delete the state, log, local store and config.toml"
    command.add_argument("--purge", action="store_true", help=about)


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help=_JSON)


def _config(command: argparse.ArgumentParser) -> None:
    _json(command)
    about = "show what applies to this folder (default: the current one)"
    command.add_argument("--project", metavar="PATH", help=about)
    actions = command.add_subparsers(
        dest="action", metavar="ACTION", prog=command.prog, help="if omitted, show all settings"
    )
    change = actions.add_parser("set", help="write a setting to config.toml")
    change.add_argument("name", metavar="NAME", help=_SETTING)
    about = "if omitted, read from the terminal or stdin (use this for keys)"
    change.add_argument("value", metavar="VALUE", nargs="?", help=about)
    remove = actions.add_parser("unset", help="remove a setting from config.toml")
    remove.add_argument("name", metavar="NAME", help=_SETTING)
    get = actions.add_parser("get", help="print one value; exit 1 if it is not set")
    get.add_argument("name", metavar="NAME", help=_SETTING)
    for each in (change, remove, get):  # suppressed: else it would overwrite what stands before `set`
        about = "apply to sessions in this folder and its subfolders"
        each.add_argument("--project", metavar="PATH", default=argparse.SUPPRESS, help=about)


def _session(command: argparse.ArgumentParser, omitted: str = "default: latest") -> None:
    command.add_argument("session", metavar="SESSION", nargs="?", help=f"{_NAMED} ({omitted})")


def _turn(command: argparse.ArgumentParser) -> None:
    command.add_argument("--turn", type=_whole, metavar="N", help="only turn N")


def _since(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("--since", metavar="AGE", help=f"only {what} since then, such as 30d, 12h or 2026-10-01")


def _show(command: argparse.ArgumentParser) -> None:
    _session(command)
    _turn(command)
    about = "print the request behind this response, as it was sent; without SESSION, search all sessions"
    command.add_argument("--request", metavar="MESSAGE_ID", help=about)
    command.add_argument("--full", action="store_true", help="print prompts, answers, tool inputs and outputs in full")
    about = "leave out prompts, answers, inputs, outputs and error texts"
    command.add_argument("--no-content", action="store_true", help=about)
    about = "print JSON Lines: one object per span, then one for the session"
    command.add_argument("--json", action="store_true", help=about)


def _sessions(command: argparse.ArgumentParser) -> None:
    command.add_argument("--project", metavar="NAME", help="only sessions of this project")
    _since(command, "sessions active")
    command.add_argument("--limit", type=_whole, metavar="N", help="only the latest N sessions")
    _json(command)


def _usage(command: argparse.ArgumentParser) -> None:
    kinds = ("day", "project", "model", "agent", "tool", "session")
    command.add_argument("--by", choices=kinds, default="day", help="what to group by (default: day)")
    _since(command, "usage")
    _json(command)


def _search(command: argparse.ArgumentParser) -> None:
    command.add_argument("text", metavar="TEXT", nargs="+", help="words to find; a span must contain all of them")
    _json(command)


def _export(command: argparse.ArgumentParser) -> None:
    _session(command)
    _turn(command)
    about = "output file; its extension sets the format: .html, .json or .perfetto.json"
    command.add_argument("-o", "--output", metavar="FILE", required=True, help=about)


def _view(command: argparse.ArgumentParser) -> None:
    _session(command, "default: the list of all sessions")
    command.add_argument(
        "--port", type=_whole, default=0, metavar="N", help="port to listen on (default: any free port)"
    )
    command.add_argument("--no-browser", action="store_true", help="print the address without opening a browser")


def _preview(command: argparse.ArgumentParser) -> None:
    _session(command)
    _turn(command)
    command.add_argument("--to", metavar="DESTINATION", help="the destination; required if several are configured")
    about = "print one line of JSON per span, as if the output were not a terminal"
    command.add_argument("--json", action="store_true", help=about)


def _report(command: argparse.ArgumentParser) -> None:
    about = "a session id, a transcript, or a file with `claude -p` output"
    command.add_argument("session", metavar="SESSION|FILE", help=about)
    formats = ("text", "markdown", "json")
    command.add_argument("--format", choices=formats, default="text", help="output format (default: text)")
    about = "exit 1 if the run cost more, or if its cost is unknown"
    command.add_argument("--max-cost", type=_limit, metavar="USD", help=about)
    command.add_argument("--max-minutes", type=_limit, metavar="N", help="exit 1 if the run took longer")
    command.add_argument("--fail-on", choices=("error",), help="exit 1 if the last turn did not succeed")


def _status(command: argparse.ArgumentParser) -> None:
    _json(command)
    about = "list every session, not just the latest and the pending ones"
    command.add_argument("--all", action="store_true", help=about)


def _sync(command: argparse.ArgumentParser) -> None:
    which = command.add_mutually_exclusive_group()
    about = "only this session: an id or its first characters, or `latest` (the default)"
    which.add_argument("--session", metavar="ID", nargs="?", const="latest", help=about)
    which.add_argument("--transcript", metavar="PATH", help="only this transcript")


def _run(command: argparse.ArgumentParser) -> None:
    about = "pass CC_TRACE_TRACEPARENT to the command as TRACEPARENT, so that what it starts joins the same trace"
    command.add_argument("--propagate", action="store_true", help=about)
    about = "the command to run, after --: claude -p ..."
    command.add_argument("command_line", metavar="COMMAND", nargs=argparse.REMAINDER, help=about)


def _ingest(command: argparse.ArgumentParser) -> None:
    about = "output of `claude -p --output-format stream-json` or `json`; if omitted or -, read stdin"
    command.add_argument("files", metavar="FILE", nargs="*", help=about)
    about = "the prompt of the run, which the output does not contain"
    command.add_argument("--prompt", metavar="TEXT", help=about)


def _backfill(command: argparse.ArgumentParser) -> None:
    command.add_argument("paths", metavar="PATH", nargs="*", help="transcripts or folders (default: all sessions)")
    _since(command, "sessions active")
    about = "only to this destination (default: all that are configured)"
    command.add_argument("--to", metavar="DESTINATION", help=about)
    about = "with --to: also send what was already delivered there, such as to a new backend"
    command.add_argument("--again", action="store_true", help=about)
    command.add_argument("--dry-run", action="store_true", help="count what would be sent, but send nothing")
    about = "number of sessions to deliver at once (default: 1)"
    command.add_argument("--jobs", type=_whole, default=1, metavar="N", help=about)


def _completion(command: argparse.ArgumentParser) -> None:
    command.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")


_ARGUMENTS: Final[dict[str, Callable[[argparse.ArgumentParser], None]]] = {
    "install": _install,
    "uninstall": _uninstall,
    "doctor": _json,
    "config": _config,
    "show": _show,
    "sessions": _sessions,
    "usage": _usage,
    "search": _search,
    "export": _export,
    "view": _view,
    "preview": _preview,
    "report": _report,
    "status": _status,
    "sync": _sync,
    "backfill": _backfill,
    "run": _run,
    "ingest": _ingest,
    "completion": _completion,
}
