"""`cc-trace run -- COMMAND`: run `claude -p`, pass on what it prints, and deliver the run from that.

Rules:
- The command gets our stdin, stderr and environment. Its stdout passes through byte for byte, and we end as it ended:
  with its exit code, or by the signal that ended it. Nothing that we do changes that, and we print nothing but one line
  on stderr if a run cannot be traced.
- A command that does not print for programs (an interactive `claude`) is simply executed.
- What delivering needs is imported after the command has ended.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from cc_trace.cli.pass_through import Copy, pass_through

TYPE_CHECKING = False  # importing typing takes as long as starting the command
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

_DELIVERY_SECONDS = 10.0
_FILE_CLOCK_NS = 20_000_000  # the clock of file times ticks: a file may seem written up to 10 ms before it was
_NOT_FOUND, _NOT_EXECUTABLE, _WRONG_USAGE = 127, 126, 2
_LINK = "CC_TRACE_TRACEPARENT"


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Run the command that the options name."""
    return run_command(options.command_line, environment, propagate=options.propagate)


def run_command(arguments: Sequence[str], environment: Mapping[str, str], *, propagate: bool = False) -> int:
    """Run a command; return its exit code, or die by the signal that it died by."""
    command = list(arguments[1:] if arguments[:1] == ["--"] else arguments)
    if not command:
        print("cc-trace: run needs a command: cc-trace run -- claude -p ...", file=sys.stderr)
        return _WRONG_USAGE
    command_environment = dict(environment)
    if propagate:
        if not command_environment.get(_LINK):
            print(f"cc-trace: --propagate needs a span to join; set {_LINK}", file=sys.stderr)
            return _WRONG_USAGE
        command_environment["TRACEPARENT"] = command_environment[_LINK]
    printing = any(map(_is_print_flag, command))
    began_ns = time.time_ns() - _FILE_CLOCK_NS
    try:
        if not printing and os.isatty(1):
            os.execvpe(command[0], command, command_environment)  # noqa: S606  (the user's own command)
        copy = Copy(any_text=printing)
        status = pass_through(command, command_environment, copy)
    except FileNotFoundError:
        print(f"cc-trace: {command[0]}: command not found", file=sys.stderr)
        return _NOT_FOUND
    except PermissionError:
        print(f"cc-trace: {command[0]}: permission denied", file=sys.stderr)
        return _NOT_EXECUTABLE
    _close_stdout()
    if copy.size or printing or _wrote_transcript(environment, began_ns):
        _deliver(copy, command, environment, began_ns)
    if os.WIFSIGNALED(status):
        _die_by(os.WTERMSIG(status))
    return os.waitstatus_to_exitcode(status)


def _close_stdout() -> None:
    """Let readers of the output see its end now, not after the delivery."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _wrote_transcript(environment: Mapping[str, str], began_ns: int) -> bool:
    """Tell whether a session of this folder was written to since then: a script may have run `claude`."""
    try:
        claude = environment.get("CLAUDE_CONFIG_DIR") or environment["HOME"] + "/.claude"
        name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in os.getcwd())  # noqa: PTH109
        with os.scandir(f"{claude}/projects/{name}") as entries:
            return any(entry.stat().st_mtime_ns >= began_ns for entry in entries)
    except (OSError, KeyError):
        return False


def _is_print_flag(word: str) -> bool:
    return word in ("-p", "--print", "-pc", "-cp")


def _die_by(number: int) -> None:
    """End as the command ended, without a core dump of our own."""
    import resource  # noqa: PLC0415  (few commands end so)

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _deliver(copy: Copy, command: list[str], environment: Mapping[str, str], began_ns: int) -> None:
    """Deliver the run within a bounded time; an error goes to the log, or is printed in one line."""
    from cc_trace.cli.claude_command import read_command  # noqa: PLC0415  (see above)
    from cc_trace.delivery import App, sync_stream, sync_written_since  # noqa: PLC0415  (likewise)
    from cc_trace.errors import CcTraceError  # noqa: PLC0415  (likewise)
    from cc_trace.paths import current_folder  # noqa: PLC0415  (likewise)
    from cc_trace.transcript import convert_stream, read_messages  # noqa: PLC0415  (likewise)

    try:
        deadline = time.time() + _DELIVERY_SECONDS
        claude = read_command(command)
        runs = convert_stream(read_messages(copy.lines()), prompt=claude.prompt, began_ns=began_ns)
        app = App.open(environment)
        with app.sync() as sync:
            for run in runs:
                sync_stream(app, sync, run, current_folder(), ended=True, deadline=deadline)
            traced = runs or sync_written_since(
                app, sync, current_folder(), began_ns, claude.session_id, deadline=deadline
            )
        if not traced and any(map(_is_print_flag, command)):
            print("cc-trace: not traced: no transcript; add --output-format stream-json --verbose", file=sys.stderr)
    except (OSError, CcTraceError) as error:
        print(f"cc-trace: not traced: {error}", file=sys.stderr)
    except Exception as error:  # noqa: BLE001  (whatever is wrong with us, the command's exit code is what counts)
        print(f"cc-trace: not traced: {type(error).__name__}: {error}", file=sys.stderr)
