"""Claude Code in a terminal: a private tmux server, keys typed into it, and the screen read back.

Rule: every key waits for what can be seen: the screen, what the API was asked, the transcript.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from typing import TYPE_CHECKING, Final

from waiting import LONG_SECONDS, until, within

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence

    from home import Home
    from scripted_api import ScriptedApi
    from transcript_files import Transcripts

_SIGNS: Final = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}>"  # before what is typed
_READY: Final = re.compile(rf"(?m)^\s*[{_SIGNS}]")
_PATIENCE_SECONDS: Final = 3.0  # a key that had no effect for so long is pressed again
_TRIES: Final = 8


class Terminal:
    """One interactive run of Claude Code."""

    def __init__(self, command: Sequence[str], home: Home, api: ScriptedApi, transcripts: Transcripts) -> None:
        self._command = command
        self._home, self._api, self._transcripts = home, api, transcripts
        self._folder = home.folder / "terminal"
        self._folder.mkdir()

    def open(self) -> None:
        """Start it, and wait until it can be typed into."""
        wrapper = self._folder / "run.sh"
        # `exec` keeps the process id, so that Claude Code itself can be sent a signal.
        wrapper.write_text(
            f"cd {shlex.quote(str(self._home.project))}\n"
            f'bash -c \'echo $$ > "$0/pid"; exec "$@"\' {shlex.join([str(self._folder), *self._command])}\n'
            f"echo $? > {shlex.quote(str(self._folder / 'code'))}\n"
            "exec sleep 600\n"  # so that what it printed last can be read
        )
        self._tmux("new-session", "-d", "-x", "150", "-y", "50", f"bash {shlex.quote(str(wrapper))}")
        self.wait_for(_READY.pattern)

    def close(self) -> None:
        """End the terminal, and whatever still runs in it."""
        self._tmux("kill-server", check=False)

    @property
    def screen(self) -> str:
        """What can be seen, with some of what has scrolled away."""
        return self._tmux("capture-pane", "-p", "-S", "-200")

    def say(self, prompt: str, tag: str) -> None:
        """Type a prompt and send it off: the API is asked for its answer."""
        self._type(prompt)
        self._press_until("Enter", lambda: self._api.asked(tag), f"{prompt} was sent")

    def say_and_wait(self, prompt: str, tag: str) -> None:
        """Type a prompt and wait until its turn is over, hooks included."""
        before = self._transcripts.stops()
        self.say(prompt, tag)
        self.wait_until(lambda: self._transcripts.stops() > before, f"{prompt} is answered")

    def command(self, text: str, done: Callable[[], object]) -> None:
        """Type a slash command and enter it until it is done."""
        self._type(text)
        self._press_until("Enter", done, f"{text} is done")

    def confirm(self, question: str, done: Callable[[], object]) -> None:
        """Answer a question with what it proposes, and wait for the effect."""
        self.wait_for(question)
        self._press_until("Enter", lambda: not re.search(question, self.screen), "the question is answered")
        self.wait_until(done, f"/{question}/ was answered")

    def shell(self, text: str, done: Callable[[], object]) -> None:
        """Run a command in the shell mode, which the `!` before it enters."""
        self._tmux("send-keys", "-l", "!")
        self.wait_for("! for shell mode")
        self._tmux("send-keys", "-l", text)
        self.wait_for(re.escape(text))
        self._press_until("Enter", done, f"{text} is done")

    def press(self, key: str, done: Callable[[], object]) -> None:
        """Press a key once, and wait for its effect."""
        self._tmux("send-keys", key)
        self.wait_until(done, f"{key} had its effect")

    def exit(self) -> None:
        """Leave by /exit."""
        self.command("/exit", self._has_ended)
        assert self.code() == 0
        assert "hook" not in self.screen.lower(), self.screen

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to Claude Code itself, and wait for its end."""
        os.kill(int((self._folder / "pid").read_text()), number)
        self.wait_until(self._has_ended, "Claude Code ended")

    def code(self) -> int:
        """Return the code it ended with."""
        return int((self._folder / "code").read_text())

    def wait_for(self, pattern: str) -> None:
        """Wait until the screen shows something."""
        self.wait_until(lambda: re.search(pattern, self.screen), f"/{pattern}/ on the screen")

    def wait_until(self, seen: Callable[[], object], what: str) -> None:
        """Wait until something is so; else show the screen."""
        until(seen, what, LONG_SECONDS, lambda: self.screen)

    def _has_ended(self) -> bool:
        code = self._folder / "code"
        return code.exists() and bool(code.read_text().strip())

    def _type(self, text: str) -> None:
        """Type into the input line; what was typed before it took any is lost, and typed again."""
        for _ in range(_TRIES):
            self._tmux("send-keys", "-l", text)
            if within(lambda: self._typed() == text, _PATIENCE_SECONDS):
                return
            self._tmux("send-keys", "C-u")
            within(lambda: not self._typed(), _PATIENCE_SECONDS)
        message = f"{text!r} cannot be typed:\n{self.screen}"
        raise TimeoutError(message)

    def _typed(self) -> str:
        """What stands in the input line: the last one with the prompt's sign."""
        lines = [line.strip() for line in self.screen.splitlines() if _READY.match(line)]
        return lines[-1].lstrip(_SIGNS).strip() if lines else ""

    def _press_until(self, key: str, done: Callable[[], object], what: str) -> None:
        for _ in range(_TRIES):
            self._tmux("send-keys", key)
            if within(done, _PATIENCE_SECONDS):
                return
        self.wait_until(done, what)

    def _tmux(self, *arguments: str, check: bool = True) -> str:
        # A socket's path may have 107 characters, so it is given relative to the folder.
        ran = subprocess.run(
            ["tmux", "-f", "/dev/null", "-S", "socket", *arguments],  # noqa: S607
            cwd=self._folder,
            env=self._home.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONG_SECONDS,
        )
        assert not check or ran.returncode == 0, (arguments, ran.stderr)
        return ran.stdout
