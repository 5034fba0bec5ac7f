"""`cc-trace completion`: a script for a shell that completes commands, their options and the names of settings.

It is made from the parser, so it completes just what there is.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from cc_trace.cli.arguments import parser
from cc_trace.cli.commands import COMMANDS
from cc_trace.cli.output import bare
from cc_trace.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BASH = """\
_cc_trace() {{
    local typed="${{COMP_WORDS[1]}}" current="${{COMP_WORDS[COMP_CWORD]}}" words=""
    if [ "$COMP_CWORD" -gt 2 ] && [ "$typed" = config ]; then typed="config ${{COMP_WORDS[2]}}"; fi
    if [ "$COMP_CWORD" -eq 1 ]; then typed=""; fi
    case "$typed" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _cc_trace cc-trace
"""
_ZSH = """\
#compdef cc-trace
_cc_trace() {{
    local typed="$words[2]" candidates=""
    if (( CURRENT > 3 )) && [[ "$typed" = config ]]; then typed="config $words[3]"; fi
    if (( CURRENT == 2 )); then typed=""; fi
    case "$typed" in
{cases}
    esac
    compadd -- ${{=candidates}} || _files
}}
compdef _cc_trace cc-trace
"""


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:  # noqa: ARG001
    """Print the script."""
    bare(sys.stdout).write({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell]())  # not wrapped in a terminal
    return 0


def _commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command, also those of `config`, as it is typed."""

    def below(parent: argparse.ArgumentParser, prefix: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
        for action in parent._actions:  # noqa: SLF001  (argparse has no other way to ask)
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  (the same)
                for name, command in action.choices.items():
                    yield f"{prefix}{name}", command
                    yield from below(command, f"{prefix}{name} ")

    yield from below(parser(), "")


def _options(command: argparse.ArgumentParser) -> dict[str, str]:
    """Return the long options that are not hidden, and what each is for."""
    return {
        option: action.help or ""
        for action in command._actions  # noqa: SLF001  (as above)
        if action.help is not argparse.SUPPRESS
        for option in action.option_strings
        if option.startswith("--")
    }


def _words() -> dict[str, list[str]]:
    """Return what may follow each command; after nothing, the commands."""
    words = {"": [*COMMANDS, "--help", "--version"]}
    commands = dict(_commands())
    for command, subparser in commands.items():
        actions = [name.removeprefix("config ") for name in commands if command == "config" and " " in name]
        settings = [setting.name for setting in SETTINGS if command.startswith("config ")]
        shells = ["bash", "zsh", "fish"] if command == "completion" else []
        words[command] = [*actions, *settings, *shells, *_options(subparser)]
    return words


def _cases(variable: str) -> str:
    return "\n".join(
        f"    {shlex.quote(command)}) {variable}={shlex.quote(' '.join(words))} ;;"
        for command, words in _words().items()
    )


def _bash() -> str:
    return _BASH.format(cases=_cases("words"))


def _zsh() -> str:
    return _ZSH.format(cases=_cases("candidates"))


def _fish() -> str:
    def line(condition: str, arguments: str, description: str) -> str:
        quoted = description.replace("\\", "\\\\").replace("'", "\\'")
        return f"complete -c cc-trace -n '{condition}' {arguments} -d '{quoted}'\n"

    lines = [line("__fish_use_subcommand", f"-f -a {name}", description) for name, description in COMMANDS.items()]
    for name, subparser in _commands():
        condition = " && ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())
        if name == "config":
            condition += " && not __fish_seen_subcommand_from set unset get"
            lines.append(line(condition, "-f -a 'set unset get'", "change or print a setting"))
        elif name.startswith("config "):
            names = " ".join(setting.name for setting in SETTINGS)
            lines.append(line(condition, f"-f -a '{names}'", "setting"))
        elif name == "completion":
            lines.append(line(condition, "-f -a 'bash zsh fish'", "shell"))
        lines += [line(condition, f"-l {option[2:]}", text) for option, text in _options(subparser).items()]
    return "".join(lines)
