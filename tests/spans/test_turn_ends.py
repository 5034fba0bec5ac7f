"""A turn is over when it is over: Stop hooks that block, goals, silence, crashes, and runs that give data."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from claude_process import ended_pid, write_record
from lines import encoded, line, prompt, reply, result, session, spans, stop_hook_summary, tool_use, tree
from sink import Sink

from cc_trace.delivery.payload import Payload, parse_payload
from cc_trace.delivery.process import Process
from cc_trace.delivery.runtime import Plan, Runtime
from cc_trace.delivery.state import StateFolder
from cc_trace.delivery.sync import Sync
from cc_trace.delivery.sync_requests import HookContext, SyncRequest
from cc_trace.log import Log

if TYPE_CHECKING:
    from lines import Line

    from cc_trace.delivery.cursor import SessionState

FEEDBACK = "Stop hook feedback:\n[check]: go on"
FIRST = [prompt("a", 0), reply("m1", "First reply.", at=1)]
BLOCKED = [*FIRST, prompt(FEEDBACK, 2, isMeta=True), stop_hook_summary(at=2)]


class Machine:
    """Claude Code's folder with one session, whose process is this one; and a worker for a hook or a sweep."""

    def __init__(self, folder: Path, *lines: Line) -> None:
        self.config = folder / "claude"
        self.path = session(self.config / "projects" / "-p", *lines)
        self.states = StateFolder(folder / "state")
        self.states.prepare()
        self._log = Log(folder / "state")
        self.sink = Sink()
        self.now = time.time()
        self.others_may_block = True
        self.meanwhile: list[Any] = []  # what happens while the worker waits, a step at each sleep
        self.planned: Any = lambda _: None  # what happens when a sync begins

    def status(self, status: str | None, **fields: Any) -> None:
        write_record(self.config, self.path.stem, status, **fields)

    def append(self, *lines: Line) -> None:
        with self.path.open("ab") as file:
            file.write(b"".join(encoded(each) + b"\n" for each in lines))

    def hook(self, event: str = "Stop", *, inline: bool = False, **fields: Any) -> None:
        """Serve what a hook left."""
        payload = {"hook_event_name": event, "transcript_path": str(self.path), "background_tasks": [], **fields}
        requested = parse_payload(json.dumps(payload).encode(), self.config)
        assert isinstance(requested, Payload)
        self.states.spool.post_request(
            SyncRequest(requested, time.time_ns(), HookContext(Process.running(os.getpid())))
        )
        with self._sync() as sync:
            sync.handle_requests(self.path.stem, self.now + 10 if inline else None)

    def serve(self) -> None:
        """Serve what was left."""
        with self._sync() as sync:
            sync.handle_requests(self.path.stem)

    def sweep(self, *, silent_seconds: float) -> None:
        """Look at the session as another session's worker does, after nothing was written for so long."""
        self.now = self.path.stat().st_mtime + silent_seconds
        with self._sync() as sync:
            sync.sync_session(self.path)

    def _sync(self) -> _Closing:
        runtime = Runtime(lambda: self.now, self._sleep, may_be_blocked=lambda _: self.others_may_block)
        return _Closing(Sync(self.states, self._plan, self._log, runtime, self.config))

    def _plan(self, state: SessionState) -> Plan:
        self.planned(state.session_id)
        return Plan((self.sink,))

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.meanwhile:
            self.meanwhile.pop(0)()

    @property
    def roots(self) -> list[tuple[str, str, str]]:
        """The roots that were sent, each as often as it was: name, status, output."""
        rows = [json.loads(self.sink.stored[id_]) for id_ in self.sink.order]
        return [(row["name"], row["status"], row["output"]) for row in rows if row["kind"] == "turn"]

    @property
    def sent(self) -> int:
        return len(self.sink.order)


class _Closing:
    def __init__(self, sync: Sync) -> None:
        self._sync = sync

    def __enter__(self) -> Sync:
        return self._sync

    def __exit__(self, *_: object) -> None:
        self._sync.close()


def test_a_root_waits_until_the_stop_hooks_of_others_have_ended(tmp_path: Path) -> None:
    """Claude Code is busy until then, so the last reply is not known to be the last."""
    machine = Machine(tmp_path, *FIRST)
    machine.status("busy")
    machine.meanwhile = [*[lambda: None] * 40, lambda: machine.status("idle")]
    machine.hook()
    assert machine.roots == [("Turn 1", "ok", "First reply.")]
    assert machine.now > time.time() + 1


def test_turn_continued_by_a_stop_hook_is_sent_once(tmp_path: Path) -> None:
    """The worker of the first Stop sends no root, whether it sees the block or not; that of the second does."""
    machine = Machine(tmp_path, *FIRST)
    machine.status("busy")
    machine.meanwhile = [*[lambda: None] * 20, lambda: machine.append(*BLOCKED[2:])]
    machine.hook()
    assert machine.roots == []
    machine.append(reply("m2", "Second reply.", at=9), stop_hook_summary(at=9))
    machine.status("idle")
    machine.hook(stop_hook_active=True)
    assert machine.roots == [("Turn 1", "ok", "Second reply.")]
    assert machine.sink.twice == []


def test_waiting_worker_yields_to_the_next_stop(tmp_path: Path) -> None:
    """It holds the session's lock, and the later request knows more."""
    machine = Machine(tmp_path, *FIRST)
    machine.status("busy")
    request = SyncRequest(Payload("SessionEnd", machine.path), time.time_ns() + 10**9)
    begun = machine.now
    machine.meanwhile = [*[lambda: None] * 20, lambda: machine.states.spool.post_request(request)]
    machine.hook()
    assert machine.roots == [("Turn 1", "ok", "First reply.")]
    assert machine.now - begun < 10


def test_a_late_worker_does_not_wait_for_a_turn_that_began_since(tmp_path: Path) -> None:
    """Claude Code is busy again, with the next prompt: that says nothing of the hooks after this Stop."""
    machine = Machine(tmp_path, *FIRST)
    machine.status("busy", statusUpdatedAt=time.time_ns() // 1_000_000 + 5000)
    begun = machine.now
    machine.hook()
    assert machine.now - begun < 10
    machine.status("busy", statusUpdatedAt=time.time_ns() // 1_000_000 - 5000)
    machine.hook()
    assert machine.now - begun > 50


def test_waiting_worker_yields_to_other_sessions(tmp_path: Path) -> None:
    """There are only a few workers. Its own request is posted again, and handled after theirs."""
    machine = Machine(tmp_path, *FIRST)
    machine.status("busy")
    other = SyncRequest(Payload("Stop", Path("other.jsonl")), time.time_ns())
    begun = machine.now
    machine.meanwhile = [*[lambda: None] * 20, lambda: machine.states.spool.post_request(other)]
    machine.hook()
    assert machine.roots == []
    assert machine.now - begun < 10
    assert machine.states.spool.pending() == [machine.path.stem, "other"]
    machine.states.spool.take_request("other")
    machine.status("idle")
    machine.serve()
    assert machine.roots == [("Turn 1", "ok", "First reply.")]


def test_yielding_worker_does_not_replace_a_later_request(tmp_path: Path) -> None:
    """The session's end may be reported while all but the root is sent."""
    machine = Machine(tmp_path, *FIRST)
    machine.status("busy")
    others = SyncRequest(Payload("Stop", Path("other.jsonl")), time.time_ns())
    later = SyncRequest(Payload("SessionEnd", machine.path), time.time_ns() + 10**9)

    def told_meanwhile(_: str) -> None:
        if "other" in machine.states.spool.pending():
            machine.states.spool.post_request(later)

    machine.planned = told_meanwhile
    machine.meanwhile = [*[lambda: None] * 20, lambda: machine.states.spool.post_request(others)]
    machine.hook()
    assert machine.states.spool.pending() == [machine.path.stem, "other"]
    assert machine.states.spool.take_request(machine.path.stem) == later


def test_yielding_sessions_are_left_to_others_in_time(tmp_path: Path) -> None:
    """Each time a request is handled anew, but its time counts from its hook."""
    machine = Machine(tmp_path, *FIRST)
    machine.status("waiting")
    begun = machine.now
    machine.states.spool.post_request(SyncRequest(Payload("Stop", Path("other.jsonl")), time.time_ns()))
    machine.hook()
    assert machine.states.spool.pending() == [machine.path.stem, "other"]
    while machine.states.spool.pending_request(machine.path.stem) and machine.now < begun + 600:
        machine.now += 1
        machine.serve()
    assert 60 <= machine.now - begun < 70
    assert machine.roots == []


def test_transcript_removed_during_the_wait_does_not_stop_the_worker(tmp_path: Path) -> None:
    """Its request is finished; the worker handles the others."""
    machine = Machine(tmp_path, *FIRST)
    machine.status("busy")
    machine.meanwhile = [*[lambda: None] * 20, machine.path.unlink]
    machine.hook()
    assert machine.states.spool.pending() == []


def test_a_worker_does_not_wait_for_ever(tmp_path: Path) -> None:
    """What it leaves, the next one sends: here a sweep, when Claude Code is idle."""
    machine = Machine(tmp_path, *FIRST)
    machine.status("busy")
    machine.hook()
    assert machine.roots == []
    machine.sweep(silent_seconds=400)
    assert machine.roots == []
    machine.status("idle")
    machine.sweep(silent_seconds=3)
    assert machine.roots == [("Turn 1", "ok", "First reply.")]


@pytest.mark.parametrize("has_file", [True, False])
def test_stop_hook_block_is_seen_without_a_process_status(tmp_path: Path, has_file: bool) -> None:  # noqa: FBT001
    """2.1.197 writes the file without a status, 2.0 none: feedback after the last reply means that it goes on."""
    machine = Machine(tmp_path, *BLOCKED[:-1])
    if has_file:
        machine.status(None)
    machine.hook()
    assert machine.roots == []
    machine.append(reply("m2", "Second reply.", at=9))
    machine.hook()
    assert machine.roots == [("Turn 1", "ok", "Second reply.")]


@pytest.mark.parametrize("status", ["waiting", "busy", None])
def test_silence_does_not_end_a_turn_whose_process_lives(tmp_path: Path, status: str | None) -> None:
    """A permission dialog or a long tool is silent; the session's end tells how it ended."""
    machine = Machine(tmp_path, prompt("a", 0), reply("m1", tool_use("t1"), at=1))
    machine.status(status)
    machine.sweep(silent_seconds=4000)
    assert machine.roots == []
    machine.append(result("t1", at=4001), reply("m2", "Done.", at=4002))
    machine.hook("SessionEnd")
    assert machine.roots == [("Turn 1", "ok", "Done.")]


@pytest.mark.parametrize("status", ["waiting", "busy"])
def test_sweep_does_not_end_a_turn_with_stop_hook_summary(tmp_path: Path, status: str) -> None:
    """The process is still busy or waiting: a hook may have made the model continue."""
    machine = Machine(tmp_path, *FIRST, stop_hook_summary(at=2))
    machine.status(status)
    machine.sweep(silent_seconds=400)
    assert machine.roots == []
    machine.status("idle")
    machine.sweep(silent_seconds=400)
    assert machine.roots == [("Turn 1", "ok", "First reply.")]


def test_silence_does_not_end_a_turn_of_a_live_hook_process(tmp_path: Path) -> None:
    """2.0 writes no record of its process; the one whose hook ran in an earlier turn still lives."""
    machine = Machine(tmp_path, *FIRST)
    machine.hook()
    machine.append(prompt("b", 10), reply("m2", tool_use("t1"), at=11))
    machine.sweep(silent_seconds=4000)
    assert machine.roots == [("Turn 1", "ok", "First reply.")]


def test_crash_ends_a_turn_at_once(tmp_path: Path) -> None:
    """The record of a process that is gone stays behind: there is nothing to wait for."""
    machine = Machine(tmp_path, prompt("a", 0), reply("m1", tool_use("t1"), at=1))
    machine.status("busy", pid=ended_pid())
    machine.sweep(silent_seconds=0)
    assert [root[:2] for root in machine.roots] == [("Turn 1", "incomplete")]


def test_inline_stop_ends_the_turn_without_other_stop_hooks(tmp_path: Path) -> None:
    """Claude Code is busy because our hook runs."""
    machine = Machine(tmp_path, *FIRST)
    machine.status("busy")
    machine.others_may_block = False
    machine.hook(inline=True)
    assert machine.roots == [("Turn 1", "ok", "First reply.")]


def test_inline_stop_leaves_the_root_to_session_end_with_other_stop_hooks(tmp_path: Path) -> None:
    """All else is sent at once."""
    machine = Machine(tmp_path, prompt("a", 0), reply("m1", tool_use("t1"), at=1), result("t1", at=2))
    machine.append(reply("m2", "First reply.", at=3))
    machine.status("busy")
    machine.hook(inline=True)
    assert (machine.roots, machine.sent) == ([], 2)
    machine.hook("SessionEnd", inline=True)
    assert machine.roots == [("Turn 1", "ok", "First reply.")]


def goal(*, met: bool, at: float, **fields: Any) -> Line:
    return line("attachment", at, attachment={"type": "goal_status", "met": met, "condition": "done", **fields})


GOAL = [
    goal(met=False, at=0, sentinel=True),
    prompt("<command-name>/goal</command-name>\n<command-args>done</command-args>", 0),
    line("system", 0, subtype="local_command", content="<local-command-stdout>Goal set: done</local-command-stdout>"),
    prompt("A session-scoped Stop hook is now active", 0, isMeta=True),
    reply("m1", "First reply.", at=1),
]


def test_unmet_goal_continues_the_turn(tmp_path: Path) -> None:
    """It is no hook of any settings file, so a Stop in line must know it from the transcript."""
    machine = Machine(tmp_path, *GOAL)
    machine.others_may_block = False
    machine.hook(inline=True)
    assert machine.roots == []
    machine.append(prompt("Stop hook feedback:\n[done]: not yet", 2, isMeta=True), goal(met=False, at=2))
    machine.append(reply("m2", "Second reply.", at=3), goal(met=True, at=4))
    machine.hook(inline=True)
    assert machine.roots == [("Turn 1", "ok", "Second reply.")]


def test_a_goal_starts_a_turn_by_its_command(tmp_path: Path) -> None:
    """It prints what was set, like a command that does nothing else, and then expands."""
    path = session(tmp_path, *FIRST, *GOAL[:-1], reply("m2", "I begin.", at=5))
    found = spans(path)
    assert tree(found) == "turn Turn 1 ok\n  generation m1 ok\nturn Turn 2 ok\n  generation m2 ok"
    assert json.loads(json.dumps(found[2].input)) == "/goal done"


def test_stop_hook_feedback_is_input_of_the_next_response(tmp_path: Path) -> None:
    """The model reads it as a user's message."""
    path = session(tmp_path, *BLOCKED, reply("m2", "Second reply.", at=9))
    generations = [span for span in spans(path) if span.kind == "generation"]
    assert generations[1].input == [{"role": "user", "content": FEEDBACK}]


DATA = {"name": "Ann", "tags": ["x"]}
GIVEN = [
    prompt("a", 0),
    reply("m1", tool_use("t1", "StructuredOutput", **DATA), at=1),
    line("attachment", 2, attachment={"type": "structured_output", "data": DATA, "toolUseID": "t1"}),
]


@pytest.mark.parametrize("told", [{"toolEndsTurn": True}, {}])
def test_structured_output_is_a_success_with_the_data_as_output(tmp_path: Path, told: Line) -> None:
    """`--json-schema`: the model is not asked again after the call that gave it. Before 2.1.3 only the data says so."""
    machine = Machine(tmp_path, *GIVEN, result("t1", "Structured output provided successfully", at=3, **told))
    machine.hook("SessionEnd")
    [(name, status, output)] = machine.roots
    assert (name, status, json.loads(output)) == ("Turn 1", "ok", DATA)


def test_rejected_structured_output_is_no_success(tmp_path: Path) -> None:
    """The model is asked again."""
    path = session(tmp_path, *GIVEN[:-1], result("t1", "does not match the schema", at=3, error=True))
    assert spans(path)[0].status == "incomplete"


def test_a_result_that_ends_the_turn_needs_no_data(tmp_path: Path) -> None:
    """Claude Code says that the model is not asked again."""
    path = session(tmp_path, *GIVEN[:-1], result("t1", "done", at=3, toolEndsTurn=True))
    assert spans(path)[0].status == "ok"
