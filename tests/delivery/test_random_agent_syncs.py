"""Random growth of sessions whose agents work after their turn: sweeps deliver each span, once.

The files grow line by line; backends fail and recover, workers die at any step, transcripts are rewritten and forked,
what is known of agents' files is lost. In the end only sessions that `pending_sessions` lists are synced.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from lines import SESSION
from sink import Sink
from test_late_agent_work import MAIN, STORIES, Story
from test_sync import STEPS, Killed

from cc_trace.delivery.sweep import pending_sessions
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from pathlib import Path

FORK = "99999999-0000-4000-8000-000000000009"


class History:
    """One story, delivered to two destinations: one that can be queried for stored spans, one that cannot."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.story = Story(folder)
        self.machine = self.story.machine
        self.asked, self.plain = Sink("asked", queryable=True), Sink("plain")
        self.sinks = (self.asked, self.plain)
        self.machine.sinks = self.sinks
        self.now = time.time()
        self.machine.clock = lambda: self.now
        self.left = [*STORIES[self.random.choice([*STORIES])]]
        self.excused: set[str] = set()  # spans that `plain` took when its answer was lost, or a worker died
        self.steps: list[str] = []

    def run(self) -> None:
        actions = (
            [self.append] * 6
            + [self.sync] * 4
            + [self.die, self.change_behaviour, self.change_behaviour, self.rewrite, self.scrub]
        )
        actions += [self.forget_agents, self.fork, self.wait]
        while self.left:
            action = self.random.choice(actions)
            self.steps.append(action.__name__)
            before = self.plain.taken.copy()
            risky = action() or self.plain.behaviour == "unclear stored"
            if risky:
                self.excused |= {id_ for id_, count in self.plain.taken.items() if count > before[id_]}

    def append(self) -> None:
        """Append some lines. Each file keeps its order, but an agent's may be far behind the main file."""
        for _ in range(self.random.choice([1, 1, 2, 3])):
            if self.left:
                main = (each for each in self.left if each[0] == MAIN)
                event = next(main, self.left[0]) if self.random.random() < 0.5 else self.left[0]
                self.left.remove(event)
                self.story.append(event)

    def sync(self, *, settled: bool | None = None) -> None:
        if self.story.main.exists():
            paths = [*self.machine.projects.glob("*.jsonl")]
            self.machine.sync(self.random.choice(paths), settled=settled or self.random.choice([False, None]))

    def die(self) -> bool:
        self.machine.die_at = self.random.choice(STEPS)
        try:
            self.sync()
        except Killed:
            pass
        finally:
            self.machine.die_at = None
        return True

    def change_behaviour(self) -> None:
        self.random.choice(self.sinks).behaviour = self.random.choice(
            ["ok", "ok", "down", "unclear stored", "unclear lost"]
        )

    def wait(self) -> None:
        self.now += self.random.choice([1, 30, 400])

    def rewrite(self) -> None:
        """Insert a line before all others: offsets move, ids stay."""
        path = self.story.main
        if path.exists():
            path.write_bytes(b'{"type":"mode","mode":"normal"}\n' + path.read_bytes())

    def scrub(self) -> None:
        """Remove text from an earlier turn; the file may outgrow its old size before the next sync."""
        path = self.story.main
        if path.exists():
            path.write_bytes(path.read_bytes().replace(b'"noted"', b'""', 1).replace(b'"yes"', b'"y"', 1))
            self.append()

    def forget_agents(self) -> None:
        shutil.rmtree(self.machine.states.folder / "agents")
        self.machine.states.prepare()

    def fork(self) -> None:
        """Copy a session with its agents, as --fork-session and --resume may."""
        path, copy = self.story.main, self.story.main.with_name(f"{FORK}.jsonl")
        if path.exists() and not copy.exists():
            copy.write_bytes(path.read_bytes().replace(SESSION.encode(), FORK.encode()))

    def end(self) -> None:
        """Sync what a sweep lists, until it lists nothing."""
        self.asked.behaviour = self.plain.behaviour = "ok"
        self.now += 100_000
        folder = self.machine.projects.parent.parent
        for _ in range(20):
            found = [*pending_sessions(self.machine.states, folder, lambda *_: ["asked", "plain"], 0)]
            if not found:
                return
            for path in found:
                self.machine.sync(path, settled=None)
                self.now += 400
        raise AssertionError(self.steps)


@pytest.mark.parametrize("part", range(6))
def test_random_agent_growth_is_delivered_by_sweeps(tmp_path: Path, part: int) -> None:
    for number in range(10):
        seed = part * 10 + number
        history = History(tmp_path / str(number), seed)
        history.run()
        history.end()
        paths = sorted(history.machine.projects.glob("*.jsonl"))
        whole = {span.span_id: span.trace_id for path in paths for span in Session(path, ending="over").spans()}
        said = f"seed {seed}: {history.steps}"
        for sink in history.sinks:
            rows = {id_: json.loads(data)["trace_id"] for id_, data in sink.stored.items()}
            assert rows.keys() == whole.keys(), said
            assert rows == whole, said
        assert history.asked.twice == [], said
        assert {*history.plain.twice} <= history.excused, said
