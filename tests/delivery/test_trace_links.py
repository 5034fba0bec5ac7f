"""What a run's traces are linked to (CC_TRACE_SEED, CC_TRACE_TRACEPARENT), whichever worker delivers them."""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import TYPE_CHECKING

import pytest
from claude_process import ended_pid
from lines import prompt, reply, result, tool_use
from test_turn_ends import FIRST, Machine

from cc_trace.delivery.payload import Payload, parse_payload
from cc_trace.delivery.process import Process
from cc_trace.delivery.sync_requests import HookContext, SyncRequest
from cc_trace.spans.model import TraceLink

if TYPE_CHECKING:
    from pathlib import Path

RUNNING = [prompt("a", 0), reply("m1", tool_use("t1"), at=1), result("t1", at=2), reply("m2", tool_use("t2"), at=3)]
REST = [result("t2", at=4), reply("m3", "Done.", at=5)]


def seeded(seed: str, turn: int) -> str:
    return hashlib.sha256(f"{seed}:{turn}".encode()).hexdigest()[:32]


def stop(machine: Machine, link: TraceLink, process: Process | None = None) -> None:
    """Handle the request of a Stop hook whose environment has a link."""
    payload = {"hook_event_name": "Stop", "transcript_path": str(machine.path), "background_tasks": []}
    requested = parse_payload(json.dumps(payload).encode(), machine.config)
    assert isinstance(requested, Payload)
    request = SyncRequest(requested, time.time_ns(), HookContext(process or Process.running(os.getpid()), link))
    machine.states.spool.post_request(request)
    machine.serve()


def traces(machine: Machine) -> list[str]:
    """Return the traces of all spans that were sent, each once, in order."""
    return [*dict.fromkeys(json.loads(machine.sink.stored[id_])["trace_id"] for id_ in machine.sink.order)]


@pytest.mark.parametrize("status", ["busy", "waiting", None])
def test_sweep_sends_no_running_turn(tmp_path: Path, status: str | None) -> None:
    """Another session's worker does not know the seed, and the first span sent would fix the trace's id."""
    machine = Machine(tmp_path, *RUNNING)
    machine.status(status)
    machine.sweep(silent_seconds=10)
    machine.append(*REST)
    machine.status("idle")
    stop(machine, TraceLink("seed"))
    assert traces(machine) == [seeded("seed", 1)]
    assert machine.roots == [("Turn 1", "ok", "Done.")]
    assert machine.sink.twice == []


def test_resumed_run_keeps_its_own_link(tmp_path: Path) -> None:
    machine = Machine(tmp_path, *FIRST)
    machine.status("idle")
    stop(machine, TraceLink("first"))
    machine.status("busy")
    machine.append(prompt("b", 10), reply("m4", tool_use("t4"), at=11), result("t4", at=12))
    machine.sweep(silent_seconds=10)
    machine.append(reply("m5", "Done.", at=13))
    machine.status("idle")
    stop(machine, TraceLink("second"))
    assert traces(machine) == [seeded("first", 1), seeded("second", 2)]


def test_sweep_continues_turn_begun_by_hook(tmp_path: Path) -> None:
    """Its trace id is fixed by then."""
    machine = Machine(tmp_path, *RUNNING)
    machine.status("busy")
    stop(machine, TraceLink("seed"))
    sent = machine.sent
    machine.append(*REST)
    machine.sweep(silent_seconds=10)
    assert machine.sent > sent > 0
    assert traces(machine) == [seeded("seed", 1)]


def test_sweep_sends_turn_of_killed_process(tmp_path: Path) -> None:
    machine = Machine(tmp_path, *RUNNING)
    machine.status("busy", pid=ended_pid())
    machine.sweep(silent_seconds=10)
    assert [root[:2] for root in machine.roots] == [("Turn 1", "incomplete")]


def test_reused_pid_does_not_keep_session_open(tmp_path: Path) -> None:
    """The process with the recorded id lives, but started at another time."""
    machine = Machine(tmp_path, *FIRST)
    machine.hook()
    machine.append(prompt("b", 10), reply("m4", tool_use("t4"), at=11))
    machine.sweep(silent_seconds=4000)
    assert [root[:2] for root in machine.roots] == [("Turn 1", "ok")]  # it may be in a long tool
    state = machine.states.peek(machine.path.stem)
    assert state is not None
    assert state.claude_pid == os.getpid()
    state.claude_start = "1"
    machine.states.save(state)
    machine.sweep(silent_seconds=4000)
    assert [root[:2] for root in machine.roots] == [("Turn 1", "ok"), ("Turn 2", "incomplete")]


def test_pid_reused_before_the_request_is_handled_does_not_keep_session_open(tmp_path: Path) -> None:
    """The hook's own worker was killed: the request says when the process began that it was about."""
    machine = Machine(tmp_path, *FIRST, prompt("b", 10), reply("m4", tool_use("t4"), at=11))
    stop(machine, TraceLink(), Process(os.getpid(), "1"))
    machine.sweep(silent_seconds=10)
    assert [root[:2] for root in machine.roots] == [("Turn 1", "ok"), ("Turn 2", "incomplete")]
