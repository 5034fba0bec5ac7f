"""One scenario's world: the scripted API, the sink, a home with our hook in it, and Claude Code run there."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from home import Home
from otlp_sink import Sink
from processes import started_in
from received import ReceivedTraces
from script import Reply, Use
from scripted_api import ScriptedApi
from terminal import Terminal
from transcript_files import Transcripts
from waiting import LONG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from expected import Unusual

_WAITING: Final = "touch waiting; until [ -e enough ]; do sleep 0.1; done"
_WORKER: Final = re.compile("cc_trace sync|cc-trace-hook")
_HELD: Final = "held-python"
_ONE_SWEEP_SECONDS: Final = 61.0  # a worker looks for other sessions at most once a minute


@dataclass(frozen=True, slots=True)
class Ended:
    """What a run of Claude Code left."""

    code: int
    stdout: str
    stderr: str


class Running:
    """A run of Claude Code with -p, which nobody has waited for yet."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to Claude Code itself."""
        os.kill(self._process.pid, number)

    def end(self) -> Ended:
        """Wait for its end."""
        stdout, stderr = self._process.communicate(timeout=LONG_SECONDS)
        return Ended(self._process.returncode, stdout, stderr)


class Sandbox:
    """`with Sandbox(...) as sandbox:`, then set the script, run Claude Code, and `settle`."""

    def __init__(self, name: str, folder: Path, version: str, command: tuple[str, ...]) -> None:
        self.name, self.version = name, version
        self.command = command  # the beginning of the command line that starts Claude Code
        self._closing = contextlib.ExitStack()
        self.api = self._closing.enter_context(ScriptedApi())
        self.sink = self._closing.enter_context(Sink())
        self.home = Home(folder, self.api.url, self.sink.url)
        self.transcripts = Transcripts(self.home.config)
        self.unusual: dict[str, Unusual] = {}
        self.has_other_hooks = False  # Stop hooks of somebody else, or a goal, which may speak up
        self.may_be_pending = False  # the backend was not well, and the log may say so
        self.spent_ms: dict[str, int] = {}  # what its only turn spent at least, on each thing that took time
        self.began_ns = self.ended_ns = time.time_ns()
        self._prepared = False
        self._free = folder / "workers-are-free"

    def __enter__(self) -> Self:
        """Return itself, the servers up already."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what is left, by its id, and close the servers."""
        for pid in started_in(self.home.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._closing.close()
        self.home.leave()

    def session(self, number: int = 1) -> str:
        """Return the id of a session of this scenario."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.name}/{number}"))

    def script(self, **answers: list[Reply]) -> None:
        """Say how prompts with these tags are answered."""
        self.api.script |= answers

    def prepare(self, *, hook: bool = True) -> None:
        """Make the home ready, once: the first run does it, unless the scenario did."""
        if not self._prepared:
            self._prepared = True
            self.home.prepare(self.version, hook=hook)

    def start(self, prompt: str, *options: str, session: int | None = 1) -> Running:
        """Start Claude Code with -p."""
        self.prepare()
        chosen = () if session is None else ("--session-id", self.session(session))
        return Running(
            subprocess.Popen(
                [*self.command, "-p", prompt, *chosen, *options],
                cwd=self.home.project,
                env=self.home.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )

    def ask(self, prompt: str, *options: str, session: int | None = 1, code: int = 0) -> str:
        """Run Claude Code with -p to its end; return what it printed."""
        ended = self.start(prompt, *options, session=session).end()
        assert (code, "") == (ended.code, ended.stderr), ended
        return ended.stdout.strip()

    def claude(self, *arguments: str) -> str:
        """Run another of Claude Code's commands; return what it printed."""
        self.prepare()
        ran = subprocess.run(
            [*self.command, *arguments],
            cwd=self.home.project,
            env=self.home.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONG_SECONDS,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, ""), ran
        return ran.stdout

    @contextlib.contextmanager
    def terminal(self, *options: str, session: int | None = 1) -> Iterator[Terminal]:
        """Run Claude Code interactively."""
        self.prepare()
        chosen = () if session is None else ("--session-id", self.session(session))
        terminal = Terminal([*self.command, *chosen, *options], self.home, self.api, self.transcripts)
        try:
            terminal.open()
            yield terminal
        finally:
            terminal.close()

    def waiting_call(self) -> Use:
        """Return a call of a command that runs until `stop_waiting`."""
        return Use("Bash", {"command": _WAITING, "description": "wait"})

    def is_waiting(self) -> bool:
        """Tell whether that command runs, and its call is in the transcript: Claude Code writes ten times a second."""
        return (self.home.project / "waiting").exists() and self.transcripts.contain(_WAITING)

    def stop_waiting(self) -> None:
        """Let it end."""
        (self.home.project / "enough").touch()

    def hold_workers(self) -> None:
        """Let workers begin only when `release_workers` is called, as on a machine that is busy."""
        held = self.home.folder / _HELD
        free, python = (shlex.quote(str(path)) for path in (self._free, sys.executable))
        held.write_text(f'#!/bin/sh\nuntil [ -e {free} ]; do sleep 0.1; done\nexec {python} "$@"\n')
        held.chmod(0o755)
        self.home.settings["env"]["CC_TRACE_PYTHON"] = str(held)

    def release_workers(self) -> None:
        """Let them begin, now and from now on; at least one has been waiting for it."""
        self._until(lambda commands: any(_HELD in each for each in commands), "a worker is held")
        self._free.touch()

    def wait_for_turn(self, tag: str) -> None:
        """Wait until a turn has arrived, while its session goes on."""
        until(lambda: self.has_arrived(tag), f"the turn of [[{tag}]] arrived")

    def wait_for_workers(self) -> None:
        """Wait until our workers have ended, while Claude Code may go on. One that was just forked is still a hook."""
        self._until(lambda commands: not any(_WORKER.search(each) for each in commands), "workers ended")

    def settle(self) -> None:
        """Wait until every process of this home has ended, our workers among them."""
        self._until(lambda commands: not commands, "processes ended")
        self.ended_ns = time.time_ns()

    def has_arrived(self, tag: str) -> bool:
        """Tell whether the root of a turn has arrived."""
        turns = ReceivedTraces([*self.sink.spans]).turns()
        return any(f"[[{tag}]]" in turn.prompt for session in turns.values() for turn in session)

    def _until(self, seen: Callable[[Collection[str]], bool], what: str) -> None:
        """Wait until the commands that run in this home are as they should be."""
        running = partial(started_in, self.home.folder)
        until(lambda: seen(running().values()), what, describe=lambda: str(running()))

    def let_a_minute_pass(self) -> None:
        """Make it time to look for other sessions, and to try again a destination that failed."""
        for noted in (self.home.state / "backoff").glob("*"):
            wait = json.loads(noted.read_bytes())
            noted.write_text(json.dumps(wait | {"not_before": wait["not_before"] - _ONE_SWEEP_SECONDS}))
        stamp = self.home.state / "swept"
        if stamp.exists():
            before = stamp.stat().st_mtime - _ONE_SWEEP_SECONDS
            os.utime(stamp, (before, before))
