"""Random syncs of random transcripts: in the end one good sync leaves the sink with exactly what they contain.

Appended turns, torn lines, forks, rewritten files, failing and recovering backends, kills at any step, syncs of several
sessions: after all of it every span is there. None is there twice at a backend that can be asked, though it shows what
it took up to a minute later; elsewhere only where a kill came between answer and saved state.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, precondition, rule
from sink import Clock, Late, Sink, SinkBehaviour
from test_sync import STEPS, Killed, Machine

from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from typing import Any

BEHAVIOURS: list[SinkBehaviour] = ["ok", "down", "unclear stored", "unclear lost"]


class Histories(RuleBasedStateMachine):
    """One machine with two destinations: one that can be queried for stored spans, one that cannot."""

    sessions = Bundle("sessions")

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.clock = Clock()
        self.asked, self.plain = Late(self.clock, "asked"), Sink("plain")
        self.machine = Machine(self.folder, self.asked, self.plain)
        self.machine.clock, self.machine.unclear_seconds, self.machine.request_seconds = self.clock, 60.0, 10.0
        self.torn: dict[Path, bytes] = {}  # the rest of a line that is half written
        self.killed_after_answer = False
        self.unclear = False
        self.count = 0

    def teardown(self) -> None:
        if hasattr(self, "machine"):
            self._recover()
            self._check()
            shutil.rmtree(self.folder)

    def _line(self, path: Path, kind: str, message: dict[str, Any], **more: object) -> bytes:
        self.count += 1
        stamp = f"2026-01-01T{self.count // 3600:02d}:{self.count // 60 % 60:02d}:{self.count % 60:02d}.000Z"
        line = {"type": kind, "uuid": str(uuid.UUID(int=self.count)), "sessionId": path.stem, "timestamp": stamp}
        return orjson.dumps({**line, "message": message, **more}, option=orjson.OPT_APPEND_NEWLINE)

    def _append(self, path: Path, data: bytes) -> None:
        rest = self.torn.pop(path, b"")
        with path.open("ab") as file:
            file.write(rest + data)

    @rule(target=sessions)
    def new_session(self) -> Path:
        self.count += 1
        path = self.machine.projects / f"{uuid.UUID(int=self.count, version=4)}.jsonl"
        path.touch()
        return path

    @rule(path=sessions, tools=st.integers(0, 2), ended=st.booleans())
    def turn(self, path: Path, tools: int, ended: bool) -> None:  # noqa: FBT001
        lines = self._line(path, "user", {"role": "user", "content": f"prompt {self.count}"})
        for _ in range(tools):
            lines += self._response(path, tool=True)
        lines += self._response(path, tool=False)
        if ended:
            lines += self._line(path, "system", {}, subtype="turn_duration", durationMs=5)
        self._append(path, lines)

    def _response(self, path: Path, *, tool: bool) -> bytes:
        self.count += 1
        number = self.count
        block: dict[str, Any] = {"type": "text", "text": f"answer {number} é"}
        if tool:
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": "x"}}
        message = {"id": f"msg_{number}", "role": "assistant", "model": "claude-sonnet-4-5", "content": [block]}
        lines = self._line(path, "assistant", {**message, "usage": {"input_tokens": 1, "output_tokens": number}})
        if tool:
            result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "y"}
            lines += self._line(path, "user", {"role": "user", "content": [result]})
        return lines

    @rule(path=sessions, share=st.floats(0.01, 0.99))
    def torn_line(self, path: Path, share: float) -> None:
        line = self._response(path, tool=False)
        at = max(1, int(len(line) * share))
        self._append(path, line[:at])
        self.torn[path] = line[at:]

    @rule(target=sessions, path=sessions)
    def fork(self, path: Path) -> Path:
        """Copy a session as --fork-session does: the same lines with another session's id."""
        self.count += 1
        copy = self.machine.projects / f"{uuid.UUID(int=self.count, version=4)}.jsonl"
        whole = path.read_bytes()
        copy.write_bytes(whole[: whole.rfind(b"\n") + 1].replace(path.stem.encode(), copy.stem.encode()))
        return copy

    @rule(path=sessions)
    def rewritten(self, path: Path) -> None:
        """Insert a line before all others: offsets move, ids stay."""
        path.write_bytes(b'{"type":"mode","mode":"normal"}\n' + path.read_bytes())

    @rule(path=sessions, share=st.floats(0, 1))
    def cut_short_for_a_while(self, path: Path, share: float) -> None:
        """A sync in the middle of a rewrite sees a shorter file; then the whole is there again."""
        whole = path.read_bytes()
        path.write_bytes(whole[: int(len(whole) * share)])
        if self.plain.behaviour == "unclear stored":
            self.unclear = True
        self.machine.sync(path, settled=False)
        path.write_bytes(whole)

    @rule(behaviour=st.sampled_from(BEHAVIOURS), first=st.booleans())
    def backend(self, behaviour: SinkBehaviour, first: bool) -> None:  # noqa: FBT001
        (self.asked if first else self.plain).behaviour = behaviour

    @rule(seconds=st.floats(0, 70), shown_after=st.floats(0, 59))
    def time_passes(self, seconds: float, shown_after: float) -> None:
        """What is stored from now on is shown after `shown_after` seconds."""
        self.clock.now += seconds
        self.asked.shown_after = shown_after

    @rule(path=sessions, seconds=st.integers(0, 70), shown_after=st.integers(0, 59))
    def answer_lost(self, path: Path, seconds: int, shown_after: int) -> None:
        """A turn is stored without a response, and becomes visible before or after the next attempt."""
        self.turn(path, 1, ended=True)
        self.machine.in_background, self.asked.shown_after = False, shown_after
        behaviour, self.asked.behaviour = self.asked.behaviour, "unclear stored"
        self.unclear = self.unclear or self.plain.behaviour == "unclear stored"
        self.machine.sync(path, settled=False)
        self.asked.behaviour = "ok"
        self.clock.now += seconds
        self.machine.sync(path, settled=False)
        self.asked.behaviour = behaviour
        self.machine.in_background = True

    @rule(path=sessions, settled=st.booleans(), step=st.none() | st.sampled_from(STEPS))
    @precondition(lambda self: hasattr(self, "machine"))
    def sync(self, path: Path, settled: bool, step: str | None) -> None:  # noqa: FBT001
        self.machine.die_at = step
        if step == "answered":
            self.killed_after_answer = True
        if self.plain.behaviour == "unclear stored":
            self.unclear = True
        try:
            self.machine.sync(path, settled=settled)
        except Killed:
            pass
        finally:
            self.machine.die_at = None

    @rule(one=sessions, other=sessions)
    def at_once(self, one: Path, other: Path) -> None:
        """Two processes sync at the same time: the same session, or one and its fork."""
        if self.plain.behaviour == "unclear stored":
            self.unclear = True
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda path: self.machine.sync(path, settled=False), (one, other)))

    def _recover(self) -> None:
        self.asked.behaviour = self.plain.behaviour = "ok"
        self.machine.in_background = False  # as a user's own sync: it does not wait for a backend that failed
        for path in list(self.torn):
            self._append(path, b"")
        for _ in range(2):  # the second sync finds what the first one's other sessions had claimed
            self.clock.now += 80  # by now all is shown
            for path in sorted(self.machine.projects.glob("*.jsonl")):
                self.machine.sync(path)

    def _check(self) -> None:
        expected = {
            span.span_id
            for path in self.machine.projects.glob("*.jsonl")
            for span in Session(path, ending="over").spans()
        }
        for sink in (self.asked, self.plain):
            assert set(sink.taken) == expected
        assert self.asked.twice == []
        if not self.killed_after_answer and not self.unclear:
            assert self.plain.twice == []


Histories.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestHistories = Histories.TestCase
