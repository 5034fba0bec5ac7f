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
_SESSION_FORMS: Final = (
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
        for pattern, replacement in _REWORDED:
            if re.fullmatch(pattern, message):
                self.exit(2, f"cc-trace: {re.sub(pattern, replacement, message)}\n")
        missing = message.removeprefix("the following arguments are required: ")
        problem = f"`{self.prog}` needs {missing}" if missing != message else message
        self.exit(2, f"cc-trace: {problem}; `{self.prog} --help` shows what it accepts\n")


def parser(*names: str) -> argparse.ArgumentParser:
    """Return the parser of these commands, or of all: for one alone that takes a tenth of the time."""
    root = _Parser(prog="cc-trace")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND", prog="cc-trace")
    for name in names or COMMANDS:
        description = COMMANDS[name]
        _ARGUMENTS[name](
            commands.add_parser(name, help=description, description=f"{description[0].upper()}{description[1:]}.")
        )
    return root


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line, which begins with a command."""
    root = parser(arguments[0])
    options, unknown = root.parse_known_args(arguments)
    if unknown:
        import difflib  # noqa: PLC0415  (only for a mistyped option)

        command = " ".join(filter(None, ("cc-trace", options.command, getattr(options, "action", None))))
        matches = difflib.get_close_matches(unknown[0].partition("=")[0], _options(root, options), 1)
        hint = f"did you mean {matches[0]}?" if matches else f"`{command} --help` shows what it accepts"
        root.exit(2, f"cc-trace: `{command}` does not accept {unknown[0]!r}; {hint}\n")
    return options


def _options(root: argparse.ArgumentParser, options: argparse.Namespace) -> list[str]:
    """Return the options of the command and of its action, without hidden ones."""
    strings: list[str] = []
    for action in root._actions:  # noqa: SLF001  (argparse has no other way to ask)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  (likewise)
            subparser = action.choices.get(str(getattr(options, action.dest, "")))
            strings += [] if subparser is None else _options(subparser, options)
        elif action.help != argparse.SUPPRESS:
            strings += action.option_strings
    return strings


def _whole_number(text: str) -> int:
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
    help_text = "register in .claude/settings.local.json of the current folder"
    command.add_argument("--project", action="store_true", help=help_text)


def _uninstall(command: argparse.ArgumentParser) -> None:
    help_text = "remove the hook from the current folder's settings only"
    command.add_argument("--project", action="store_true", help=help_text)
    help_text = "also delete the state, log, local store and config.toml"
    command.add_argument("--purge", action="store_true", help=help_text)


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help=_JSON)


def _config(command: argparse.ArgumentParser) -> None:
    _json(command)
    help_text = "show what applies to this folder (default: the current one)"
    command.add_argument("--project", metavar="PATH", help=help_text)
    actions = command.add_subparsers(
        dest="action", metavar="ACTION", prog=command.prog, help="if omitted, show all settings"
    )
    change = actions.add_parser("set", help="write a setting to config.toml")
    change.add_argument("name", metavar="NAME", help=_SETTING)
    help_text = "if omitted, read from the terminal or stdin (use this for keys)"
    change.add_argument("value", metavar="VALUE", nargs="?", help=help_text)
    remove = actions.add_parser("unset", help="remove a setting from config.toml")
    remove.add_argument("name", metavar="NAME", help=_SETTING)
    get = actions.add_parser("get", help="print one value; exit 1 if it is not set")
    get.add_argument("name", metavar="NAME", help=_SETTING)
    for action in (change, remove, get):  # suppressed: else it would overwrite a --project before `set`
        help_text = "apply to sessions in this folder and its subfolders"
        action.add_argument("--project", metavar="PATH", default=argparse.SUPPRESS, help=help_text)


def _session(command: argparse.ArgumentParser, omitted: str = "default: latest") -> None:
    command.add_argument("session", metavar="SESSION", nargs="?", help=f"{_SESSION_FORMS} ({omitted})")


def _turn(command: argparse.ArgumentParser) -> None:
    command.add_argument("--turn", type=_whole_number, metavar="N", help="only turn N")


def _since(command: argparse.ArgumentParser, subject: str) -> None:
    command.add_argument("--since", metavar="AGE", help=f"only {subject} since then, such as 30d, 12h or 2026-10-01")


def _show(command: argparse.ArgumentParser) -> None:
    _session(command)
    _turn(command)
    help_text = "print the request behind this response, as it was sent; without SESSION, search all sessions"
    command.add_argument("--request", metavar="MESSAGE_ID", help=help_text)
    command.add_argument("--full", action="store_true", help="print prompts, answers, tool inputs and outputs in full")
    help_text = "leave out prompts, answers, inputs, outputs and error texts"
    command.add_argument("--no-content", action="store_true", help=help_text)
    help_text = "print JSON Lines: one object per span, then one for the session"
    command.add_argument("--json", action="store_true", help=help_text)


def _sessions(command: argparse.ArgumentParser) -> None:
    command.add_argument("--project", metavar="NAME", help="only sessions of this project")
    _since(command, "sessions active")
    command.add_argument("--limit", type=_whole_number, metavar="N", help="only the latest N sessions")
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
    help_text = "output file; its extension sets the format: .html, .json or .perfetto.json"
    command.add_argument("-o", "--output", metavar="FILE", required=True, help=help_text)


def _view(command: argparse.ArgumentParser) -> None:
    _session(command, "default: the list of all sessions")
    command.add_argument(
        "--port", type=_whole_number, default=0, metavar="N", help="port to listen on (default: any free port)"
    )
    command.add_argument("--no-browser", action="store_true", help="print the address without opening a browser")


def _preview(command: argparse.ArgumentParser) -> None:
    _session(command)
    _turn(command)
    command.add_argument("--to", metavar="DESTINATION", help="the destination; required if several are configured")
    help_text = "print one line of JSON per span, as if the output were not a terminal"
    command.add_argument("--json", action="store_true", help=help_text)


def _report(command: argparse.ArgumentParser) -> None:
    help_text = "a session id, a transcript, or a file with `claude -p` output"
    command.add_argument("session", metavar="SESSION|FILE", help=help_text)
    formats = ("text", "markdown", "json")
    command.add_argument("--format", choices=formats, default="text", help="output format (default: text)")
    help_text = "exit 1 if the run cost more, or if its cost is unknown"
    command.add_argument("--max-cost", type=_limit, metavar="USD", help=help_text)
    command.add_argument("--max-minutes", type=_limit, metavar="N", help="exit 1 if the run took longer")
    command.add_argument("--fail-on", choices=("error",), help="exit 1 if the last turn did not succeed")


def _status(command: argparse.ArgumentParser) -> None:
    _json(command)
    help_text = "list every session, not just the latest and the pending ones"
    command.add_argument("--all", action="store_true", help=help_text)


def _sync(command: argparse.ArgumentParser) -> None:
    which = command.add_mutually_exclusive_group()
    help_text = "only this session: an id or its first characters, or `latest` (the default)"
    which.add_argument("--session", metavar="ID", nargs="?", const="latest", help=help_text)
    which.add_argument("--transcript", metavar="PATH", help="only this transcript")


def _run(command: argparse.ArgumentParser) -> None:
    help_text = "pass CC_TRACE_TRACEPARENT to the command as TRACEPARENT, so that what it starts joins the same trace"
    command.add_argument("--propagate", action="store_true", help=help_text)
    help_text = "the command to run, after --: claude -p ..."
    command.add_argument("command_line", metavar="COMMAND", nargs=argparse.REMAINDER, help=help_text)


def _ingest(command: argparse.ArgumentParser) -> None:
    help_text = "output of `claude -p --output-format stream-json` or `json`; if omitted or -, read stdin"
    command.add_argument("files", metavar="FILE", nargs="*", help=help_text)
    help_text = "the prompt of the run, which the output does not contain"
    command.add_argument("--prompt", metavar="TEXT", help=help_text)


def _backfill(command: argparse.ArgumentParser) -> None:
    command.add_argument("paths", metavar="PATH", nargs="*", help="transcripts or folders (default: all sessions)")
    _since(command, "sessions active")
    help_text = "only to this destination (default: all that are configured)"
    command.add_argument("--to", metavar="DESTINATION", help=help_text)
    help_text = "with --to: also send what was already delivered there, such as to a new backend"
    command.add_argument("--again", action="store_true", help=help_text)
    command.add_argument("--dry-run", action="store_true", help="count what would be sent, but send nothing")
    help_text = "number of sessions to deliver at once (default: 1)"
    command.add_argument("--jobs", type=_whole_number, default=1, metavar="N", help=help_text)


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
