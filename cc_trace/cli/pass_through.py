"""Running a command whose stdout passes through byte for byte, with a copy for ourselves.

Only `cc-trace run` uses this, and starts as fast as the command itself: what is imported here is paid before it.
"""

from __future__ import annotations

import os
import select
import signal
import time

TYPE_CHECKING = False  # importing typing takes as long as starting the command
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CHUNK = 1 << 20
_MAX_COPIED = 1 << 29  # of the output, for ourselves
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_FROM_TERMINAL = ("SIGINT", "SIGQUIT")  # a terminal sends them to the command itself, too


class Copy:
    """A copy of the output in an unnamed file, and when each piece of it arrived."""

    def __init__(self, *, any_text: bool) -> None:
        self.wanted = any_text  # text that does not begin as JSON counts only from Claude Code
        self.size = self._seen = 0
        self.pieces: list[tuple[int, int]] = []  # the end of each, and its time
        self._file: int | None = None

    def add(self, data: bytes) -> None:
        """Add a piece. What cannot be stored is not traced, but is still forwarded."""
        if self._seen == 0:
            self.wanted |= data.lstrip()[:1] in (b"{", b"[")
        self._seen += len(data)
        if not self.wanted or self.size + len(data) > _MAX_COPIED:
            return
        try:
            if self._file is None:
                self._file = _nameless_file()
            written = 0
            while written < len(data):
                written += os.write(self._file, memoryview(data)[written:])
        except OSError:  # a full disk: what was written is enough for a part of the run
            self.wanted = False
            return
        self.size += len(data)
        self.pieces.append((self.size, time.time_ns()))

    def lines(self) -> Iterator[tuple[bytes, int]]:
        """Yield the lines, each with the time at which its end arrived."""
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


def pass_through(command: list[str], environment: Mapping[str, str], copy: Copy) -> int:
    """Run a command and forward its output; return its status, as `wait` does."""
    reading, writing = os.pipe()
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signals = _Signals()
    # No signal reaches us until the handlers are in place, so none that was meant for the command is lost.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals.all)
    try:
        pid = signals.pid = os.posix_spawnp(
            command[0],
            command,
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1), (os.POSIX_SPAWN_CLOSE, reading)],
            setsigmask=before,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores
        )
        signals.take_over(waking)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(writing)
    _enlarge(reading)
    status = _copy_until_end(pid, reading, woken, copy)
    goes_on = status is not None and _drain(reading, copy)
    if status is None:
        os.close(reading)  # if nobody reads any more, the command notices as it would without us
        status = os.waitpid(pid, 0)[1]
    signals.give_back()
    if goes_on:
        _leave_to_another(reading)
    return status


def _copy_until_end(pid: int, reading: int, woken: int, copy: Copy) -> int | None:
    """Forward the output until its end, or until nobody reads it; return the command's status if it ends before."""
    waiting = select.poll()
    waiting.register(reading, select.POLLIN)
    waiting.register(woken, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in waiting.poll()}
        if reading in ready:
            data = os.read(reading, _CHUNK)
            if not data or not _write(data):
                return None
            copy.add(data)
        elif woken in ready:
            os.read(woken, _CHUNK)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return status


def _drain(reading: int, copy: Copy) -> bool:
    """Forward what is left in the pipe of a command that has ended; tell whether more may come."""
    os.set_blocking(reading, False)
    while True:
        try:
            data = os.read(reading, _CHUNK)
        except BlockingIOError:
            return True
        if not data or not _write(data):
            return False
        copy.add(data)


def _leave_to_another(reading: int) -> None:
    """Let another process forward the rest: a child that outlives the command still has its stdout.

    Without us nobody would wait for that child.
    """
    if os.fork():
        return
    os.set_blocking(reading, True)
    while (data := os.read(reading, _CHUNK)) and _write(data):
        pass
    os._exit(0)


class _Signals:
    """Forwards the signals we get to the command, while it runs."""

    def __init__(self) -> None:
        names = _FORWARDED if _has_terminal() else (*_FORWARDED, *_FROM_TERMINAL)
        self._forwarded = [getattr(signal, name) for name in names]
        self._ignored = [getattr(signal, name) for name in _FROM_TERMINAL if name not in names]
        self._before: list[tuple[int, object]] = []
        self.pid = 0

    @property
    def all(self) -> list[int]:
        """Return all handled signals."""
        return [*self._forwarded, *self._ignored, signal.SIGCHLD]

    def take_over(self, waking: int) -> None:
        """Handle signals from now on; the end of a process wakes the reader of a pipe."""
        handlers = [(number, self._forward) for number in self._forwarded]
        handlers.append((signal.SIGCHLD, lambda *_: None))
        self._before = [(number, signal.signal(number, handler)) for number, handler in handlers]
        self._before += [(number, signal.signal(number, signal.SIG_IGN)) for number in self._ignored]
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)

    def give_back(self) -> None:
        """Restore the previous handlers once the command has ended."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before:
            signal.signal(number, handler)  # type: ignore[arg-type]  # as it was returned

    def _forward(self, number: int, _: object) -> None:
        try:  # noqa: SIM105  (contextlib takes as long as the rest)
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass


def _has_terminal() -> bool:
    """Tell whether a terminal controls us: it sends its signals to all of us, and CI to us alone."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _enlarge(pipe: int) -> None:
    """Let the pipe hold more than the usual 64 KB, where the system can."""
    import fcntl  # noqa: PLC0415  (not on every system)

    if hasattr(fcntl, "F_SETPIPE_SZ"):
        try:  # noqa: SIM105  (contextlib takes as long as the rest)
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _CHUNK)
        except OSError:
            pass


def _write(data: bytes) -> bool:
    """Write all of it; False: nobody reads it any more.

    Another process may have made our stdout non-blocking: with `2>&1` node shares it with us.
    """
    written = 0
    while written < len(data):
        try:
            written += os.write(1, memoryview(data)[written:])
        except BlockingIOError:
            select.select([], [1], [])
        except OSError:
            return False
    return True
