"""`cc-trace run -- COMMAND`: run `claude -p`, pass on what it prints, and deliver the run from that.

Rules:
- The command's stdin, stderr and environment are ours. Its stdout passes through byte for byte, and we end as it ended:
  with its exit code, or by the signal that ended it. Nothing of ours changes that, and nothing of ours is printed but
  one line on stderr where a run cannot be traced.
- Who does not print for a program (an interactive `claude`) is simply executed.
- What is needed for delivering is imported when the command has ended.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False  # importing typing takes as long as starting the command
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

_CHUNK = 1 << 20
_MAX_COPIED = 1 << 29  # of the output, for ourselves
_DELIVERY_SECONDS = 10.0
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")  # those of a terminal reach the command itself
_IGNORED = ("SIGINT", "SIGQUIT")
_PRINTING = ("-p", "--print")
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Run the command that the options name."""
    return run_command(options.command_line, environment)


def run_command(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command; return its exit code, or die by the signal that it died by."""
    command = list(arguments[1:] if arguments[:1] == ["--"] else arguments)
    if not command:
        print("cc-trace: run needs a command: cc-trace run -- claude -p ...", file=sys.stderr)
        return 2
    try:
        if not any(each in _PRINTING for each in command) and os.isatty(1):
            os.execvp(command[0], command)  # noqa: S606  (the user's own command)
        copy = _Copy(any_text=any(each in _PRINTING for each in command))
        status = _pass_through(command, copy)
    except FileNotFoundError:
        print(f"cc-trace: {command[0]}: command not found", file=sys.stderr)
        return _NOT_FOUND
    except PermissionError:
        print(f"cc-trace: {command[0]}: permission denied", file=sys.stderr)
        return _NOT_EXECUTABLE
    if copy.size or any(each in _PRINTING for each in command):
        _deliver(copy, command, environment)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
        os.kill(os.getpid(), number)
    return os.waitstatus_to_exitcode(status)


class _Copy:
    """What was printed, on disk without a name, and when each piece of it came in."""

    def __init__(self, *, any_text: bool) -> None:
        self.wanted = any_text  # what does not begin as JSON counts only from who is known to be Claude Code
        self.size = self._seen = 0
        self.pieces: list[tuple[int, int]] = []  # where each ends, and its time
        self._file: int | None = None

    def add(self, data: bytes) -> None:
        """Take a piece; what cannot be kept is not traced, and passes on all the same."""
        if self._seen == 0:
            self.wanted |= data.lstrip()[:1] in (b"{", b"[")
        self._seen += len(data)
        if not self.wanted or self.size + len(data) > _MAX_COPIED:
            return
        try:
            if self._file is None:
                self._file = _nameless_file()
            os.write(self._file, data)
        except OSError:
            return
        self.size += len(data)
        self.pieces.append((self.size, time.time_ns()))

    def lines(self) -> Iterator[tuple[bytes, int]]:
        """Yield the lines, each with the time at which its end came in."""
        if self._file is None:
            return
        os.lseek(self._file, 0, os.SEEK_SET)
        at, piece = 0, 0
        with os.fdopen(self._file, "rb") as file:
            for line in file:
                at += len(line)
                while piece < len(self.pieces) - 1 and self.pieces[piece][0] < at:
                    piece += 1
                yield line, self.pieces[piece][1]


def _nameless_file() -> int:
    folder = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108  (the file has no name there)
    if hasattr(os, "O_TMPFILE"):
        try:
            return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError:  # not every file system can
            pass
    import tempfile  # noqa: PLC0415  (see above)

    descriptor, path = tempfile.mkstemp(dir=folder)
    os.unlink(path)  # noqa: PTH108  (see above)
    return descriptor


def _pass_through(command: list[str], copy: _Copy) -> int:
    """Run a command and write on what it prints; return how it ended, as wait() tells it."""
    reading, writing = os.pipe()
    pid = os.posix_spawnp(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1), (os.POSIX_SPAWN_CLOSE, reading)],
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores
    )
    os.close(writing)
    _enlarge(reading)
    for name in _IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    for name in _FORWARDED:
        signal.signal(getattr(signal, name), lambda number, _: _forward(pid, number))
    try:
        while data := os.read(reading, _CHUNK):
            _write(data)
            copy.add(data)
    except OSError:  # nobody reads any more: the command finds out as it would without us
        pass
    os.close(reading)
    return os.waitpid(pid, 0)[1]


def _enlarge(pipe: int) -> None:
    """Let more than the usual 64 KB be on their way at once, where the system can."""
    import fcntl  # noqa: PLC0415  (not on every system)

    if hasattr(fcntl, "F_SETPIPE_SZ"):
        try:  # noqa: SIM105  (contextlib takes as long as the rest)
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _CHUNK)
        except OSError:
            pass


def _forward(pid: int, number: int) -> None:
    try:  # noqa: SIM105  (contextlib takes as long as the rest)
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _write(data: bytes) -> None:
    written = os.write(1, data)
    while written < len(data):
        written += os.write(1, memoryview(data)[written:])


def _deliver(copy: _Copy, command: list[str], environment: Mapping[str, str]) -> None:
    """Deliver the run, within a bounded time; what goes wrong stands in the log, or is said in one line."""
    from cc_trace.delivery import App, sync_stream  # noqa: PLC0415  (see above)
    from cc_trace.errors import CcTraceError  # noqa: PLC0415  (likewise)
    from cc_trace.paths import here  # noqa: PLC0415  (likewise)
    from cc_trace.transcript import convert_stream, read_messages  # noqa: PLC0415  (likewise)

    try:
        made = convert_stream(read_messages(copy.lines()), prompt=_prompt(command), ended_ns=time.time_ns())
        if made is None:
            if any(each in _PRINTING for each in command):
                print("cc-trace: not traced: add --output-format stream-json --verbose", file=sys.stderr)
            return
        app = App.open(environment)
        with app.sync() as sync:
            sync_stream(app, sync, made, here(), ended=True, deadline=time.time() + _DELIVERY_SECONDS)
    except (OSError, CcTraceError) as error:
        print(f"cc-trace: not traced: {error}", file=sys.stderr)
    except Exception as error:  # noqa: BLE001  (whatever is wrong with us, the command's exit code is what counts)
        print(f"cc-trace: not traced: {type(error).__name__}: {error}", file=sys.stderr)


def _prompt(command: list[str]) -> str | None:
    """Return what was asked, where the command line tells it: what follows -p, or the last argument after a flag."""
    for place, each in enumerate(command[:-1]):
        if each in _PRINTING and not command[place + 1].startswith("-"):
            return command[place + 1]
    last, before = command[-1], command[-2:-1]
    return last if before in (["--"], ["--verbose"]) and not last.startswith("-") else None
