"""What can go wrong around a sync, each found by trying: nothing stops for good, nothing is called over too early."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import TYPE_CHECKING

import orjson
import pytest
from backend import HttpBackend
from lines import prompt, reply, result, tool_use, turn_duration, write
from shared import CASES
from sink import Sink
from test_sync import AGENTS, TWO_TURNS, Machine, expected
from test_worker import Home, quieten

from cc_trace.export.destination import DestinationSettings, open_destination
from cc_trace.spans.session import Resume, Session

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cc_trace.export.outcomes import EncodedSpan
    from cc_trace.turns.model import Turn

GONE = 2**22 - 3  # a process id that nobody has


def roots(sink: Sink) -> list[str]:
    rows = [orjson.loads(row) for row in sink.stored.values()]
    return [row["status"] for row in rows if row["kind"] == "turn"]


@pytest.mark.parametrize("path", ["~nosuchuser/x.jsonl", "/a\\u0000b.jsonl", "/" + "a" * 5000 + ".jsonl"])
def test_malformed_payload_does_not_stop_other_requests(tmp_path: Path, path: str) -> None:
    """It is skipped."""
    with HttpBackend() as backend:
        home = Home(tmp_path, backend)
        transcript = home.add()
        other = home.spool(b'{"transcript_path":"%b"}' % path.encode(), "0")
        os.utime(other, (0, 0))  # left by a hook whose own worker never came
        assert home.work(home.payload(transcript)) == 0
        assert set(backend.counts) == expected(transcript)
        assert not list((home.state / "spool").iterdir())


def test_session_with_a_working_agent_is_not_over(tmp_path: Path) -> None:
    """While a foreground agent works only its own file is written to."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy("2.1.325--c6_sync_subagent/cccccccc-0000-4000-8000-000000000006.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    launch = next(index for index, line in enumerate(lines) if b'"stop_reason":"tool_use"' in line)
    path.write_bytes(b"".join(lines[: launch + 1]))
    os.utime(path, (time.time() - 4000,) * 2)
    for agent in path.with_suffix("").glob("subagents/*"):
        os.utime(agent)
    machine.sync(path, settled=None)
    assert roots(sink) == []
    for agent in path.with_suffix("").glob("subagents/*"):
        os.utime(agent, (time.time() - 4000,) * 2)
    machine.sync(path, settled=None)
    assert roots(sink) == ["incomplete"]


def test_ended_process_does_not_end_a_resumed_session(tmp_path: Path) -> None:
    """The recorded process is that of the last hook; later lines are another process's."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.projects / "77777777-0000-4000-8000-000000000001.jsonl"
    write(path, [prompt("one", at=1), reply("m1", "first", at=2), turn_duration(5, at=3)])
    machine.sync(path)
    state, _ = machine.states.load(path.stem)
    assert state is not None
    state.claude_pid = GONE
    machine.states.save(state)
    with path.open("ab") as file:
        for line in (prompt("two", at=4), reply("m2", tool_use("t1"), at=5)):
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    machine.sync(path, settled=None)
    assert roots(sink) == ["ok"]
    # Nothing was written since that process was seen: then it is over with it.
    state, _ = machine.states.load(path.stem)
    assert state is not None
    state.claude_pid = GONE
    machine.states.save(state)
    machine.sync(path, settled=None)
    assert sorted(roots(sink)) == ["incomplete", "ok"]


def test_inline_agent_ends_with_its_turn(tmp_path: Path) -> None:
    """Its lines are in the main file, so none can follow once the turn is closed."""
    path = tmp_path / "s.jsonl"
    task = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "look"}}
    side = {"isSidechain": True}
    lines = [
        prompt("go", at=1),
        reply("m1", task, at=2),
        {**prompt("look", at=3), **side, "parentUuid": None},
        {**reply("m2", "looking", at=4), **side},
        prompt("never mind", at=5),
        reply("m3", "fine", at=6),
    ]
    write(path, lines)
    first = [span for span in Session(path).spans() if span.turn == 1]
    assert [(span.kind, span.final) for span in first] == [
        ("turn", True),
        ("generation", True),
        ("tool", True),
        ("subagent", True),
        ("generation", True),
    ]


def test_a_locked_ledger_is_not_put_aside(tmp_path: Path) -> None:
    """Locked is not broken: the delivery fails for now, and what was delivered stays known."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(TWO_TURNS)
    machine.sync(path)
    ledger = machine.states.folder / "ledger.db"
    ledger.with_name("ledger.db-wal").unlink(missing_ok=True)
    ledger.write_bytes(b"not a database, " * 100)
    assert machine.sync(path)
    assert [each.name for each in machine.states.folder.glob("ledger.db.aside-*")] == ["ledger.db.aside-1"]
    assert sink.twice == []


def test_a_ledger_damaged_inside_is_replaced(tmp_path: Path) -> None:
    """Damage that shows only in use costs one sync, not all of them."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    first, second = machine.copy(TWO_TURNS), machine.copy(AGENTS)
    machine.sync(first)
    ledger = machine.states.folder / "ledger.db"
    database = sqlite3.connect(ledger)
    database.executemany("INSERT INTO claims VALUES ('x', ?, 'y', 1, NULL)", [(f"{n:016x}",) for n in range(3000)])
    database.commit()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    content = bytearray(ledger.read_bytes())
    content[4096 : len(content)] = b"\xff" * (len(content) - 4096)
    ledger.write_bytes(content)
    machine.sync(second)
    assert machine.sync(second)
    assert set(sink.taken) == expected(first) | expected(second)
    assert sink.twice == []


def test_unclear_batch_is_resent_if_langfuse_cannot_be_queried(tmp_path: Path) -> None:
    """A server without the read API must not block everything after one lost response."""
    settings = DestinationSettings("it", "langfuse", endpoint="http://127.0.0.1:9", public_key="p", secret_key="s")  # noqa: S106
    assert open_destination(settings).queryable

    class Mute(Sink):
        def stored_ids(self, batch: Sequence[EncodedSpan]) -> frozenset[str] | None:
            del batch
            self.queryable = False
            return None

    sink = Mute(queryable=True)
    machine = Machine(tmp_path, sink)
    path = machine.copy(TWO_TURNS)
    sink.behaviour = "unclear lost"
    assert not machine.sync(path)
    sink.behaviour = "ok"
    assert machine.sync(path)
    assert set(sink.taken) == expected(path)


def test_an_agent_whose_file_comes_late_is_delivered(tmp_path: Path) -> None:
    """A turn with a background agent of which nothing has been seen is not done with."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(AGENTS)
    folder, away = path.with_suffix(""), tmp_path / "away"
    folder.rename(away)
    lines = path.read_bytes().splitlines(keepends=True)
    stop = next(index for index, line in enumerate(lines) if b"stop_hook_summary" in line)
    later = [prompt("moving on", at=90_000), reply("m_later", "ok", at=90_001)]
    path.write_bytes(b"".join(lines[: stop + 1]) + b"".join(orjson.dumps(line) + b"\n" for line in later))
    machine.sync(path, settled=False)
    away.rename(folder)
    machine.sync(path)
    assert set(sink.taken) == expected(path)
    assert sink.twice == []


def test_agents_of_earlier_turns_are_not_read_again(tmp_path: Path) -> None:
    """The cost of a Stop does not grow with the agents that ever ran."""
    session = tmp_path / "88888888-0000-4000-8000-000000000001.jsonl"
    agents = session.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    lines = []
    for number in range(5):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Agent", "input": {"prompt": "x"}}
        lines += [prompt(f"go {number}", at=number * 10), reply(f"m{number}", call, at=number * 10 + 1)]
        lines += [result(f"t{number}", "done", at=number * 10 + 5), turn_duration(5, at=number * 10 + 6)]
        file = agents / f"agent-a{number}.jsonl"
        write(file, [prompt("x", at=number * 10 + 2), reply(f"a{number}", "y", at=number * 10 + 3)])
        file.with_suffix(".meta.json").write_bytes(orjson.dumps({"toolUseId": f"t{number}"}))
        start = orjson.loads(file.read_bytes().splitlines()[0])["timestamp"]
        moment = time.mktime(time.strptime(start[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
        os.utime(file, (moment, moment + 2))
    write(session, lines)
    whole = Session(session)
    traces = list(whole.traces())
    last = traces[-1].turn
    again = Session(session, Resume(last.begin, last.number - 1))
    read: list[str] = []
    original = again._file_turns

    def watched(path: Path, call: str | None) -> list[Turn]:
        read.append(path.name)
        return original(path, call)

    again._file_turns = watched  # type: ignore[method-assign]
    assert [span.span_id for span in again.spans()] == [span.span_id for span in traces[-1].spans]
    assert read == ["agent-a4.jsonl"]


def test_request_of_an_earlier_version_is_handled_by_any_worker(tmp_path: Path) -> None:
    """Earlier versions kept requests in the folder `pending`."""
    with HttpBackend() as backend:
        home = Home(tmp_path, backend)
        first = home.add()
        second = home.add(CASES / TWO_TURNS)
        assert home.command("status").returncode == 0
        (home.state / "pending").mkdir()
        (home.state / "pending" / f"{first.stem}.json").write_bytes(home.payload(first, background_tasks=[]))
        assert home.work(home.payload(second)) == 0
        assert set(backend.counts) == expected(first) | expected(second)
        assert not list((home.state / "pending").iterdir())


def test_deleted_transcript_does_not_stop_other_requests(tmp_path: Path) -> None:
    """It is deleted in the middle of a sync, which is logged."""
    machine = Machine(tmp_path)
    gone = machine.copy(TWO_TURNS)

    class Deleting(Sink):
        def encode(self, span: object) -> EncodedSpan:
            gone.unlink(missing_ok=True)
            return super().encode(span)  # type: ignore[arg-type]

    machine.sinks = (Deleting(),)
    assert not machine.sync(gone)
    assert gone.stem in (tmp_path / "state" / "cc-trace.log").read_text()


def test_a_stop_hook_that_blocks_keeps_the_turn_open(tmp_path: Path) -> None:
    """Its feedback makes the model go on: a quiet file is then not the end of the turn."""
    path = tmp_path / "s.jsonl"
    feedback = {**prompt("Stop hook feedback:\n- tests fail", at=3), "isMeta": True}
    summary = {"type": "system", "subtype": "stop_hook_summary", "timestamp": "2026-01-01T00:00:04.000Z"}
    write(path, [prompt("go", at=1), reply("m1", "done?", at=2), feedback, summary])
    (turn,) = [span for span in Session(path, ending="quiet").spans() if span.kind == "turn"]
    assert not turn.final


def test_agent_end_in_a_later_turn_is_known_in_the_same_sync(tmp_path: Path) -> None:
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy("2.1.325--c4_background_agent/cccccccc-0000-4000-8000-000000000004.jsonl")
    whole = path.read_bytes().splitlines(keepends=True)
    note = next(index for index, line in enumerate(whole) if b'"turnOrigin":"task_notification"' in line)
    later = [prompt("moving on", at=90_000), reply("m_later", "ok", at=90_001)]
    between = [orjson.dumps(line) + b"\n" for line in later]
    path.write_bytes(b"".join([*whole[: note - 1], *between, *whole[note:]]))
    quieten(path)
    assert machine.sync(path, settled=False)
    state, _ = machine.states.load(path.stem)
    assert state is not None
    agents = {span.span_id for span in Session(path, ending="over").spans() if span.agent_id is not None}
    assert agents <= set(sink.taken)
