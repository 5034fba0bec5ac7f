"""Syncs of recorded sessions to a counting destination: nothing is lost, nothing is sent twice."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest
from lines import prompt, reply
from shared import CASES
from sink import Sink

from cc_trace.delivery.payload import Payload
from cc_trace.delivery.refusals import REFUSING_SECONDS
from cc_trace.delivery.runtime import Plan, Runtime
from cc_trace.delivery.state import StateFolder
from cc_trace.delivery.sync import Sync
from cc_trace.delivery.sync_requests import SyncRequest
from cc_trace.log import Log
from cc_trace.spans.session import Session

AGENTS = "2.1.325--c2_parallel_subagents/cccccccc-0000-4000-8000-000000000002.jsonl"
TWO_TURNS = "2.1.325--g1_two_turns_exit/44444444-0000-4000-8000-000000000001.jsonl"
if TYPE_CHECKING:
    from collections.abc import Callable

    from cc_trace.delivery.cursor import Cursor
    from cc_trace.export.outcomes import Destination

STEPS = [
    "locked",
    "transcript quiet",
    "claimed",
    "spans built",
    "intent saved",
    "answered",
    "ledger settled",
    "state saved",
]


class Killed(BaseException):
    """Stands for SIGKILL: no code of ours handles it."""


class Machine:
    """A state folder, a projects folder, and syncs on demand."""

    def __init__(self, folder: Path, *sinks: Destination) -> None:
        self.projects = folder / "claude" / "projects" / "-p"
        self.projects.mkdir(parents=True)
        self.states = StateFolder(folder / "state")
        self.states.prepare()
        self.log = Log(folder / "state")
        self.sinks: tuple[Destination, ...] = sinks
        self.die_at: str | None = None
        self.in_background = True
        self.clock: Callable[[], float] = time.time
        self.unclear_seconds = self.request_seconds = 0.0

    def copy(self, case: str) -> Path:
        """Put a recorded session into the projects folder."""
        source = CASES / case
        if source.with_suffix("").is_dir():
            shutil.copytree(source.with_suffix(""), self.projects / source.stem, dirs_exist_ok=True)
        return Path(shutil.copy(source, self.projects / source.name))

    def mark_step(self, step: str) -> None:
        """Die at the chosen step."""
        if step == self.die_at:
            raise Killed

    def sync(self, path: Path, *, settled: bool | None = True) -> bool:
        """Be a new process that syncs one session."""
        runtime = Runtime(self.clock, lambda _: None, self.mark_step, in_background=self.in_background)
        plan = Plan(self.sinks, unclear_seconds=self.unclear_seconds, request_seconds=self.request_seconds)
        states = StateFolder(self.states.folder)
        sync = Sync(states, lambda _: plan, self.log, runtime, self.projects.parent.parent)
        try:
            return sync.sync_session(path, {True: "over", False: "growing", None: None}[settled]).complete
        finally:
            sync.close()
            states.index.close()
            for sink in self.sinks:
                sink.close()

    def progress(self, path: Path) -> Cursor:
        """The cursor of the first destination."""
        state, _ = self.states.load(path.stem)
        assert state is not None
        return state.destinations[self.sinks[0].name]


def expected(path: Path) -> set[str]:
    return {span.span_id for span in Session(path, ending="over").spans()}


@pytest.mark.parametrize("case", [AGENTS, TWO_TURNS])
def test_session_is_delivered_once(tmp_path: Path, case: str) -> None:
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(case)
    assert machine.sync(path)
    assert set(sink.taken) == expected(path)
    assert machine.sync(path)
    assert sink.twice == []


def test_two_files_of_one_session_are_both_delivered(tmp_path: Path) -> None:
    """In any order and however often, each span once."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    one = machine.copy(TWO_TURNS)
    other = machine.projects.with_name("-q") / one.name
    other.parent.mkdir()
    lines = [prompt("elsewhere", 0), reply("m_elsewhere", "yes", at=1)]
    other.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    wanted = expected(one) | expected(other)
    for path in (one, other, one, other):
        assert machine.sync(path)
    assert set(sink.taken) == wanted
    lines += [prompt("more", 2), reply("m_more", "yes", at=3)]
    other.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    for path in (one, other):
        assert machine.sync(path)
    assert set(sink.taken) == wanted | expected(other)
    assert sink.twice == []


def test_parents_are_sent_after_their_children(tmp_path: Path) -> None:
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(AGENTS)
    machine.sync(path)
    place = {span: index for index, span in enumerate(sink.order)}
    for span in Session(path, ending="over").spans():
        if span.parent_id is not None:
            assert place[span.span_id] < place[span.parent_id]


def test_open_turn_is_sent_without_its_root(tmp_path: Path) -> None:
    """The root is sent when the turn is over, and nothing is sent twice."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(AGENTS)
    machine.sync(path, settled=False)
    roots = {span.span_id for span in Session(path, ending="over").spans() if span.kind == "turn"}
    assert sink.taken
    assert not roots & set(sink.taken)
    machine.sync(path)
    assert set(sink.taken) == expected(path)
    assert sink.twice == []


def test_rejecting_backend_blames_no_span(tmp_path: Path) -> None:
    """A header may be missing; with it, all spans are delivered."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(AGENTS)
    sink.rejected_ids = expected(path)
    assert not machine.sync(path)
    progress = machine.progress(path)
    assert progress.error == "400 invalid span; it refuses everything"
    assert (progress.notes, progress.rejected, progress.intent) == ([], [], [])
    assert len(sink.batches) < 10  # it does not take a request for each span to find out
    sink.rejected_ids = set()
    assert machine.sync(path)
    assert set(sink.taken) == expected(path)
    assert machine.progress(path).refusing_since is None


def test_spans_are_given_up_after_a_week_of_rejections(tmp_path: Path) -> None:
    """They are noted and skipped, so that later ones have a chance."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(AGENTS)
    sink.rejected_ids = expected(path)
    machine.sync(path)
    state, _ = machine.states.load(path.stem)
    assert state is not None
    state.destinations[sink.name].refusing_since = time.time() - REFUSING_SECONDS - 1
    machine.states.save(state)
    assert machine.sync(path)
    assert {note["span_id"] for note in machine.progress(path).notes} == expected(path)


def test_single_span_is_blamed_after_others_are_accepted(tmp_path: Path) -> None:
    """Rejected alone, the backend's setup may be the cause."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(AGENTS)
    root = next(span.span_id for span in Session(path).spans())
    sink.rejected_ids = {root}
    machine.sync(path, settled=False)  # all but the root
    assert not machine.sync(path)
    progress = machine.progress(path)
    assert (progress.error, progress.notes) == ("400 invalid span; nothing was accepted since", [])
    with path.open("ab") as file:
        file.writelines(orjson.dumps(line) + b"\n" for line in (prompt("more", at=90_000), reply("m", "x", at=90_001)))
    assert machine.sync(path)
    assert [note["span_id"] for note in machine.progress(path).notes] == [root]


def test_temporary_misconfiguration_loses_nothing(tmp_path: Path) -> None:
    """It answers 400 while one span at a time is sent."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.projects / "77777777-0000-4000-8000-000000000001.jsonl"
    for number in range(10):
        lines = [prompt(f"p{number}", at=number * 10), reply(f"m{number}", "x", at=number * 10 + 1)]
        with path.open("ab") as file:
            file.writelines(orjson.dumps(line) + b"\n" for line in lines)
        if number >= 5:
            sink.rejected_ids = expected(path)
        machine.sync(path, settled=False)
        machine.sync(path)
    sink.rejected_ids = set()
    assert machine.sync(path)
    assert set(sink.taken) == expected(path)
    assert (machine.progress(path).notes, sink.twice) == ([], [])


def test_sync_after_every_line(tmp_path: Path) -> None:
    """It delivers the same spans as one sync of the whole."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(AGENTS)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"")
    for line in lines:
        with path.open("ab") as file:
            file.write(line)
        machine.sync(path, settled=False)
    machine.sync(path)
    assert set(sink.taken) == expected(path)
    assert sink.twice == []


@pytest.mark.parametrize("behaviour", ["down", "unclear lost"])
def test_all_spans_arrive_after_outage(tmp_path: Path, behaviour: str) -> None:
    sink = Sink()
    sink.behaviour = behaviour  # type: ignore[assignment]
    machine = Machine(tmp_path, sink)
    path = machine.copy(TWO_TURNS)
    assert not machine.sync(path)
    assert machine.states.load(path.stem)[0].destinations["sink"].pending_spans == 6  # type: ignore[union-attr]
    sink.behaviour = "ok"
    assert machine.sync(path)
    assert set(sink.taken) == expected(path)
    assert sink.twice == []


def test_failing_destination_does_not_block_another(tmp_path: Path) -> None:
    down, up = Sink("down"), Sink("up")
    down.behaviour = "down"
    machine = Machine(tmp_path, down, up)
    path = machine.copy(TWO_TURNS)
    assert not machine.sync(path)
    assert set(up.taken) == expected(path)
    down.behaviour = "ok"
    assert machine.sync(path)
    assert set(down.taken) == expected(path)
    assert (up.twice, down.twice) == ([], [])


def test_unclear_outcome_is_queried(tmp_path: Path) -> None:
    """A batch that was stored without a response is not sent again."""
    sink = Sink(queryable=True)
    sink.behaviour = "unclear stored"
    machine = Machine(tmp_path, sink)
    path = machine.copy(TWO_TURNS)
    assert not machine.sync(path)
    sink.behaviour = "ok"
    assert machine.sync(path)
    assert set(sink.taken) == expected(path)
    assert sink.twice == []


def test_batch_is_halved_to_find_rejected_span(tmp_path: Path) -> None:
    """The span is noted and skipped, and not sent again."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(AGENTS)
    bad = sorted(expected(path))[3]
    sink.rejected_ids = {bad}
    assert machine.sync(path)
    assert set(sink.taken) == expected(path) - {bad}
    progress = machine.states.load(path.stem)[0].destinations["sink"]  # type: ignore[union-attr]
    assert [(note["span_id"], note["status"]) for note in progress.notes] == [(bad, "400")]
    batches = len(sink.batches)
    assert machine.sync(path)
    assert len(sink.batches) == batches
    assert sink.twice == []


@pytest.mark.parametrize("queryable", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_killed_sync_at_every_step(tmp_path: Path, step: str, queryable: bool) -> None:  # noqa: FBT001
    """The next sync delivers all; twice only if killed between response and saved state, with the same bytes."""
    sink = Sink(queryable=queryable)
    machine = Machine(tmp_path, sink)
    path = machine.copy(AGENTS)
    machine.die_at = step
    with contextlib.suppress(Killed):
        machine.sync(path)
    machine.die_at = None
    assert machine.sync(path)
    assert set(sink.taken) == expected(path)
    assert sink.changed == []
    if queryable or step != "answered":
        assert sink.twice == []


def test_interrupted_sync_keeps_request(tmp_path: Path) -> None:
    machine = Machine(tmp_path, Sink())
    path = machine.copy("2.1.325--a_simple/aaaaaaaa-0000-4000-8000-000000000001.jsonl")
    machine.states.spool.post_request(SyncRequest(Payload("Stop", path), 1))
    runtime = Runtime(time.time, lambda _: None, interrupted=lambda: True)
    sync = Sync(machine.states, lambda _: Plan(machine.sinks), machine.log, runtime, tmp_path / "claude")
    sync.handle_requests(path.stem)
    sync.close()
    assert machine.states.spool.pending_request(path.stem)


def test_fork_delivers_only_new_turns(tmp_path: Path) -> None:
    sink = Sink()
    machine = Machine(tmp_path, sink)
    origin = machine.copy("2.1.325--d_resume_fork/dddddddd-0000-4000-8000-000000000001.jsonl")
    fork = machine.copy("2.1.325--d_resume_fork/35e95895-b490-45b6-99f9-2d715768dc02.jsonl")
    assert machine.sync(origin)
    assert machine.sync(fork)
    assert set(sink.taken) == expected(origin) | expected(fork)
    assert sink.twice == []


@pytest.mark.parametrize(
    "fork",
    [
        "2.0.77--d_resume_fork/3a875a4c-b2b1-4e9a-91e3-a20f30c2e0f2.jsonl",
        "2.1.197--d_resume_fork/b107e85d-d2e8-49bb-9346-50fdd4459dc8.jsonl",
        "2.1.325--d_resume_fork/35e95895-b490-45b6-99f9-2d715768dc02.jsonl",
    ],
)
def test_fork_of_suppressed_session_is_suppressed(tmp_path: Path, fork: str) -> None:
    """Older versions name the source on copied prompts, newer ones nowhere. Another session is not suppressed."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    origin = machine.copy(f"{fork.partition('/')[0]}/dddddddd-0000-4000-8000-000000000001.jsonl")
    machine.states.suppress(origin.stem)
    path = machine.copy(fork)
    elsewhere = machine.projects.with_name("-q")
    elsewhere.mkdir()
    other = Path(shutil.move(machine.copy(TWO_TURNS), elsewhere))
    plan, runtime = Plan(machine.sinks), Runtime(time.time, lambda _: None)
    sync = Sync(machine.states, lambda _: plan, machine.log, runtime, machine.projects.parent.parent)
    for each in (other, path):
        os.utime(each)  # written since
        assert sync.sync_session(each, "over").complete
    sync.close()
    assert [*machine.states.all_suppressed()] == sorted([origin.stem, path.stem])
    assert set(sink.taken) == expected(other)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"version": 99}', b"[]", b'{"version": 1, "session_id": 3}'])
def test_damaged_or_newer_state_is_set_aside(tmp_path: Path, damage: bytes) -> None:
    """And logged; the ledger has what was delivered."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(TWO_TURNS)
    machine.sync(path)
    state = machine.states.path(path.stem)
    state.write_bytes(damage)
    assert machine.sync(path)
    assert sink.twice == []
    assert [aside.read_bytes() for aside in state.parent.glob("*.aside-*")] == [damage]
    assert "kept aside" in (tmp_path / "state" / "cc-trace.log").read_text()


def test_rewritten_transcript_is_read_again(tmp_path: Path) -> None:
    """One that shrank, or begins with another line; nothing is sent twice."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(TWO_TURNS)
    whole = path.read_bytes()
    machine.sync(path)
    path.write_bytes(b'{"type":"mode","mode":"x"}\n' + whole)
    assert machine.sync(path)
    path.write_bytes(whole[: len(whole) // 2])
    machine.sync(path)
    path.write_bytes(whole)
    assert machine.sync(path)
    assert set(sink.taken) == expected(path)
    assert sink.twice == []
