"""Random sequences of events with real processes and real kills: nothing is lost, and duplicates have a reason.

Turns, torn lines, agents, forks, rewritten files, Stops, SessionEnds, typed syncs and sweeps; a backend that is down,
refuses, hangs, answers like a sign-in page, loses its answers; workers killed at any moment; a ledger that is locked.
In the end `cc-trace sync` leaves the backend with exactly what the transcripts say. A span may be there twice only if
the backend had taken it in a step in which its answer was lost or a worker was killed.

`make test-long` takes CC_TRACE_TEST_STEPS=2000; CC_TRACE_TEST_SEED repeats a history.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
import uuid
from typing import TYPE_CHECKING, Final

import orjson
import pytest
from backend import CLOSE_STORED, HANG, HANG_STORED, OK, PORTAL_PAGE, REFUSE, Behaviour, HttpBackend, status
from lines import prompt, reply, result, tool_use, turn_duration
from test_worker import STEPS, Home, expected

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

LENGTH: Final = int(os.environ.get("CC_TRACE_TEST_STEPS", "60"))
SEED: Final = os.environ.get("CC_TRACE_TEST_SEED")
BACKENDS: Final = {
    "ok": OK,
    "down": REFUSE,
    "401": status(401, "no"),
    "400": status(400, "no experiment"),
    "503": status(503, retry_after="2"),
    "portal": PORTAL_PAGE,
    "hangs": HANG,
    "stores and hangs": HANG_STORED,
    "stores and closes": CLOSE_STORED,
    "stores late": Behaviour("drip", seconds=0.4),
}
LOSES_ANSWERS: Final = {"stores and hangs", "stores and closes", "stores late"}


class History:
    """One machine, and the spans that may have been duplicated on it."""

    def __init__(self, folder: Path, backend: HttpBackend, seed: int) -> None:
        self.random = random.Random(seed)
        self.backend, self.behaviour = backend, "ok"
        self.home = Home(folder, backend)
        self.home.environment |= {"CC_TRACE_TIMEOUT_SECONDS": "1", "CC_TRACE_WORKERS": "2"}
        self.home.install()
        os.utime(self.home.state / "installed", (0, 0))  # before the time that `end` gives all files
        self.torn: dict[Path, bytes] = {}  # the rest of a line that is half written
        self.excused: set[str] = set()  # spans taken while an answer was lost or a worker killed
        self.count = 0
        self.actions = [
            *[self.turn] * 5,
            *[self.stop] * 6,
            *[self.kill] * 3,
            *[self.die] * 3,
            *[self.change_backend] * 3,
            self.torn_line,
            self.agent,
            self.fork,
            self.rewrite,
            self.scrub,
            self.sync,
            self.session_end,
            self.lock_ledger,
            self.two_at_once,
        ]

    def run(self, steps: int) -> list[str]:
        """Take so many steps, and return their names."""
        self.new_session()
        taken = []
        for _ in range(steps):
            action = self.new_session if self.random.random() < 0.04 else self.random.choice(self.actions)
            taken.append(f"{action.__name__} ({self.behaviour})")
            before = self.backend.counts
            risky = action() or self.behaviour in LOSES_ANSWERS
            if risky:
                self.excused |= {id_ for id_, count in self.backend.counts.items() if count > before[id_]}
        return taken

    def end(self) -> None:
        """Let the backend recover, and deliver what is left with `cc-trace sync`."""
        self._set("ok")
        for path in list(self.torn):
            self._append(path, b"")
        for path in self.home.projects.rglob("*.jsonl"):
            os.utime(path, (time.time() - 1000,) * 2)
        for _ in range(4):
            done = self.home.command("sync")
        assert (done.returncode, done.stdout) == (0, "nothing is pending\n"), done.stdout + done.stderr

    @property
    def paths(self) -> list[Path]:
        return sorted(self.home.projects.glob("*.jsonl"))

    def _any(self) -> Path:
        return self.random.choice(self.paths)

    def _append(self, path: Path, data: bytes) -> None:
        rest = self.torn.pop(path, b"")
        with path.open("ab") as file:
            file.write(rest + data)

    def _lines(self, path: Path, *lines: dict[str, object]) -> bytes:
        about = {"sessionId": path.stem, "cwd": str(self.home.folder)}
        return b"".join(orjson.dumps({**line, **about}) + b"\n" for line in lines)

    def _next(self) -> int:
        self.count += 10
        return self.count

    def new_session(self) -> None:
        path = self.home.projects / f"{uuid.UUID(int=self.random.getrandbits(128), version=4)}.jsonl"
        path.touch()
        self._turn(path)

    def _turn(self, path: Path) -> None:
        at, lines = self._next(), []
        lines.append(prompt(f"prompt {at}", at))
        for number in range(self.random.randrange(3)):
            call = f"toolu_{at}_{number}"
            lines += [reply(f"msg_{call}", tool_use(call), at=at + 1 + number), result(call, "y", at=at + 2 + number)]
        lines.append(reply(f"msg_{at}", f"answer é {at}", at=at + 6))
        if self.random.random() < 0.5:
            lines.append(turn_duration(5, at=at + 7))
        self._append(path, self._lines(path, *lines))

    def turn(self) -> None:
        self._turn(self._any())

    def torn_line(self) -> None:
        path, at = self._any(), self._next()
        line = self._lines(path, reply(f"msg_{at}", "torn", at=at))
        cut = self.random.randrange(1, len(line))
        self._append(path, line[:cut])
        self.torn[path] = line[cut:]

    def agent(self) -> None:
        """A turn with an agent that has ended when its call has."""
        path, at = self._any(), self._next()
        call, agent = f"toolu_{at}", f"a{at}"
        folder = path.with_suffix("") / "subagents"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"agent-{agent}.jsonl"
        side = {"isSidechain": True, "agentId": agent}
        inside = ({**prompt("look", at + 2), **side}, {**reply(f"msg_in_{at}", "seen", at=at + 3), **side})
        file.write_bytes(self._lines(path, *inside))
        file.with_suffix(".meta.json").write_bytes(orjson.dumps({"toolUseId": call, "agentType": "general-purpose"}))
        task = {"type": "tool_use", "id": call, "name": "Agent", "input": {"prompt": "look"}}
        lines = (
            prompt(f"agent {at}", at),
            reply(f"msg_call_{at}", task, at=at + 1),
            result(call, "seen", at=at + 4),
            reply(f"msg_{at}", "done", at=at + 5),
        )
        self._append(path, self._lines(path, *lines))

    def fork(self) -> None:
        path = self._any()
        copy = path.with_name(f"{uuid.UUID(int=self.random.getrandbits(128), version=4)}.jsonl")
        whole = path.read_bytes()
        copy.write_bytes(whole[: whole.rfind(b"\n") + 1].replace(path.stem.encode(), copy.stem.encode()))

    def rewrite(self) -> None:
        """Insert a line before all others: offsets move, ids stay."""
        path = self._any()
        path.write_bytes(b'{"type":"mode","mode":"normal"}\n' + path.read_bytes())

    def scrub(self) -> None:
        """Remove text from an earlier turn, then append a turn."""
        path = self._any()
        path.write_bytes(path.read_bytes().replace(b"answer ", b"", 1))
        self._turn(path)

    def change_backend(self) -> None:
        self._set(self.random.choice(["ok", *BACKENDS]))

    def _set(self, behaviour: str) -> None:
        self.behaviour = behaviour
        self.backend.behaviour = BACKENDS[behaviour]

    def _start(self, event: str = "Stop", **environment: str) -> subprocess.Popen[bytes]:
        path = self._any()
        if self.random.random() < 0.3:
            (self.home.state / "swept").unlink(missing_ok=True)
        payload = self.home.payload(path, hook_event_name=event, background_tasks=[])
        return self.home.start(self.home.spool(payload, str(self._next())), **environment)

    def stop(self) -> None:
        self._start().wait(120)

    def session_end(self) -> None:
        self._start("SessionEnd").wait(120)

    def two_at_once(self) -> None:
        for worker in [self._start(), self._start()]:
            worker.wait(120)

    def kill(self) -> bool:
        """Kill a worker at a random moment of its life."""
        worker = self._start()
        time.sleep(self.random.random() * 0.8)
        worker.kill()
        worker.wait(60)
        return True

    def die(self) -> bool:
        """Have a worker killed at a named step."""
        self._start(CC_TRACE_DIE_AT=self.random.choice([*STEPS, "slot taken", "slot given back"])).wait(120)
        return True

    def lock_ledger(self) -> None:
        """Hold the ledger's write lock while a worker begins."""
        ledger = self.home.state / "ledger.db"
        if not ledger.exists():
            return
        other = sqlite3.connect(ledger, isolation_level=None, timeout=30)
        other.execute("BEGIN IMMEDIATE")
        worker = self._start()
        time.sleep(self.random.random())
        other.execute("ROLLBACK")
        other.close()
        worker.wait(120)

    def sync(self) -> None:
        self.home.command("sync")


@pytest.mark.parametrize("part", range(max(1, LENGTH // 100)))
def test_random_history_delivers_all_spans_without_unexplained_duplicates(tmp_path: Path, part: int) -> None:
    seed = int(SEED) if SEED else random.SystemRandom().getrandbits(32) + part
    with HttpBackend() as backend:
        history = History(tmp_path, backend, seed)
        taken = history.run(min(LENGTH, 100))
        history.end()
        wanted, counts = expected(*history.paths), backend.counts
        twice = {id_ for id_, count in counts.items() if count > 1}
        said = f"seed {seed}: {taken}"
        assert wanted - set(counts) == set(), said
        assert set(counts) - wanted == set(), said
        assert twice - history.excused == set(), said
