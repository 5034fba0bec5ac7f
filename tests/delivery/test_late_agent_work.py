"""Agents that work on after their turn: each of their spans is delivered once, under the right parent."""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from inspect import cleandoc
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lines import (
    SESSION,
    encoded,
    launched,
    line,
    notification,
    prompt,
    reply,
    result,
    task,
    tool_use,
    tree,
    turn_duration,
    write,
)
from sink import Sink
from test_sync import Machine

from cc_trace.delivery.agent_deliveries import AgentListing
from cc_trace.delivery.sweep import pending_sessions, state_is_pending
from cc_trace.spans.model import span_id
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lines import Line

MAIN = "main"


def waiting(agent_id: str, *, at: float, tool_use_id: str) -> Line:
    """An agent has stopped, and goes on when a task of its own ends."""
    told = notification(agent_id, at=at, tool_use_id=tool_use_id)
    text = told["message"]["content"].replace("Agent ended", 'Agent "a" is waiting on its own background work')
    return prompt(text, at, origin={"kind": "task-notification"})


def message(text: str, *, at: float, prompt_id: str) -> Line:
    """A message to an agent, as its file records it."""
    told = f"The coordinator sent a message while you were working:\n{text}"
    return prompt(told, at, isMeta=True, origin={"kind": "coordinator"}, promptId=prompt_id)


def task_ended(task_id: str, call: str, *, at: float) -> Line:
    """The end of an agent's background command, as its file records it."""
    told = notification(task_id, at=at, tool_use_id=call)["message"]["content"]
    text = f"[SYSTEM NOTIFICATION - NOT USER INPUT]\n{told}"
    return prompt(text, at, isMeta=True, origin={"kind": "task-notification"})


def in_background(call: str, task_id: str, *, at: float, told: bool = True) -> Line:
    """The result of a command that was sent to the background; with `-p` only its text says so."""
    text = f"Command running in background with ID: {task_id}. Output is being written to: /x"
    return result(call, text, at=at, told={"stdout": "", "backgroundTaskId": task_id} if told else None)


LAUNCH = [
    (MAIN, prompt("one", 0, promptId="p1")),
    (MAIN, reply("m1", task("t1"), at=1)),
    (MAIN, launched("t1", "a1", at=2)),
    ("a1", prompt("look", 2, promptId="p1")),
    (MAIN, reply("m2", "started", at=3)),
]
# A message of the second turn to an agent of the first; it works on while a third turn begins.
MESSAGE = [
    *LAUNCH,
    ("a1", reply("s1", "seen", at=4)),
    (MAIN, notification("a1", at=5, tool_use_id="t1")),
    (MAIN, reply("m3", "noted", at=6)),
    (MAIN, turn_duration(6000, at=7)),
    (MAIN, prompt("two", 20, promptId="p2")),
    (MAIN, reply("m4", tool_use("t2", "SendMessage", to="a1", message="more"), at=21)),
    ("a1", message("more", at=22, prompt_id="p2")),
    (MAIN, result("t2", "Resuming", at=22, told={"success": True, "resumedAgentId": "a1"})),
    (MAIN, reply("m5", "sent", at=23)),
    (MAIN, turn_duration(3000, at=24)),
    ("a1", reply("s2", tool_use("u2"), at=25)),
    (MAIN, prompt("three", 30)),
    (MAIN, reply("m6", "yes", at=31)),
    (MAIN, turn_duration(1000, at=32)),
    ("a1", result("u2", at=40)),
    ("a1", reply("s3", "seen more", at=41)),
    (MAIN, notification("a1", at=42, tool_use_id="t2")),
    (MAIN, reply("m7", "noted again", at=43)),
    (MAIN, turn_duration(1000, at=44)),
]
MESSAGE_TREE = """
    turn Turn 1 ok
      generation m1 ok
        tool Agent t1 ok
          subagent Explore ok [a1]
            generation s1 ok [a1]
      generation m2 ok
      event notification ok
      generation m3 ok
    turn Turn 2 ok
      generation m4 ok
        tool SendMessage t2 ok
          subagent Explore ok [a1]
            generation s2 ok [a1]
              tool Bash u2 ok [a1]
            generation s3 ok [a1]
      generation m5 ok
    turn Turn 3 ok
      generation m6 ok
    turn Turn 4 ok
      generation m7 ok
"""
# A command in the background of an agent that has stopped wakes it, twice, when the session is two turns on.
WOKEN = [
    *LAUNCH,
    (MAIN, turn_duration(3000, at=3.5)),
    ("a1", reply("s1", tool_use("b1"), at=4)),
    ("a1", in_background("b1", "bash1", at=5)),
    ("a1", reply("s2", "it runs", at=6)),
    (MAIN, waiting("a1", at=7, tool_use_id="t1")),
    (MAIN, reply("m3", "it waits", at=8)),
    (MAIN, turn_duration(6000, at=9)),
    (MAIN, prompt("two", 20)),
    (MAIN, reply("m4", "yes", at=21)),
    (MAIN, turn_duration(1000, at=22)),
    ("a1", task_ended("bash1", "b1", at=30)),
    ("a1", reply("s3", tool_use("b2"), at=31)),
    ("a1", in_background("b2", "bash2", at=32, told=False)),
    ("a1", reply("s4", "again", at=33)),
    (MAIN, prompt("three", 40)),
    (MAIN, reply("m5", "yes", at=41)),
    (MAIN, turn_duration(1000, at=42)),
    ("a1", task_ended("bash2", "b2", at=50)),
    ("a1", reply("s5", "done", at=51)),
    (MAIN, notification("a1", at=52)),
    (MAIN, reply("m6", "it is done", at=53)),
    (MAIN, turn_duration(1000, at=54)),
]
WOKEN_TREE = """
    turn Turn 1 ok
      generation m1 ok
        tool Agent t1 ok
          subagent Explore ok [a1]
            generation s1 ok [a1]
              tool Bash b1 ok [a1]
                subagent Explore ok [a1]
                  generation s3 ok [a1]
                    tool Bash b2 ok [a1]
                  generation s4 ok [a1]
                subagent Explore ok [a1]
                  generation s5 ok [a1]
            generation s2 ok [a1]
      generation m2 ok
      event notification ok
      generation m3 ok
    turn Turn 2 ok
      generation m4 ok
    turn Turn 3 ok
      generation m5 ok
    turn Turn 4 ok
      generation m6 ok
"""
# A tool of an agent takes so long that the session goes on and on.
SILENT = [
    *LAUNCH,
    (MAIN, turn_duration(3000, at=3.5)),
    ("a1", reply("s1", tool_use("u1"), at=4)),
    *[
        (MAIN, each)
        for number in range(2, 5)
        for each in (
            prompt(f"turn {number}", number * 400),
            reply(f"m{number + 1}", "yes", at=number * 400 + 1),
            turn_duration(1000, at=number * 400 + 2),
        )
    ],
    ("a1", result("u1", at=2000)),
    ("a1", reply("s2", "seen at last", at=2001)),
    (MAIN, notification("a1", at=2002, tool_use_id="t1")),
    (MAIN, reply("m9", "noted", at=2003)),
    (MAIN, turn_duration(1000, at=2004)),
]
STORIES = {"message": MESSAGE, "woken": WOKEN, "silent": SILENT}


class Story:
    """A session that is written bit by bit, and synced in between."""

    def __init__(self, folder: Path, meta: dict[str, str] | None = None) -> None:
        self.sink = Sink()
        self.machine = Machine(folder, self.sink)
        self.main = self.machine.projects / f"{SESSION}.jsonl"
        self.agents = self.main.with_suffix("") / "subagents"
        meta = {"toolUseId": "t1", "agentType": "Explore"} if meta is None else meta
        write(self.agents / "agent-a1.meta.json", [meta])

    def append(self, *events: tuple[str, Line]) -> None:
        """Append lines to the main file and to agents' files."""
        for where, item in events:
            path = self.main if where == MAIN else self.agents / f"agent-{where}.jsonl"
            own = {} if where == MAIN else {"isSidechain": True, "agentId": where}
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(encoded({**item, **own}) + b"\n")

    def is_pending(self) -> bool:
        """Whether a sweep would take the session up."""
        folder = self.machine.projects.parent.parent
        return list(pending_sessions(self.machine.states, folder, lambda *_: ["sink"], 0)) != []

    def age(self, seconds: float) -> None:
        """Make the files look that old."""
        then = time.time() - seconds
        for path in (self.main, *self.agents.glob("*.jsonl")):
            os.utime(path, (then, then))

    def assert_all_arrived(self) -> None:
        """Each span was stored once, under the parent that a read of the whole files gives it."""
        whole = {span.span_id: (span.trace_id, span.parent_id) for span in Session(self.main, ending="over").spans()}
        rows = {id_: json.loads(data) for id_, data in self.sink.stored.items()}
        assert {id_: (row["trace_id"], row["parent_id"]) for id_, row in rows.items()} == whole
        assert self.sink.twice == []


@pytest.mark.parametrize("prompt_ids", [True, False], ids=["with prompt ids", "without"])
@pytest.mark.parametrize(("story", "expected"), [(MESSAGE, MESSAGE_TREE), (WOKEN, WOKEN_TREE)])
def test_agent_run_is_placed_under_the_call_that_resumed_it(
    tmp_path: Path, story: list[tuple[str, Line]], expected: str, *, prompt_ids: bool
) -> None:
    session = Story(tmp_path)
    without = () if prompt_ids else ("promptId",)
    session.append(*[(where, {key: item[key] for key in item if key not in without}) for where, item in story])
    assert cleandoc(expected) == tree(Session(session.main).spans())


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
@pytest.mark.parametrize("ending", ["growing", "over"])
def test_sync_after_every_line_delivers_each_span_once(
    tmp_path: Path, story: list[tuple[str, Line]], ending: str
) -> None:
    """Even if each sync wrongly takes the session to be over; what was sent does not change then."""
    session = Story(tmp_path)
    for event in story:
        session.append(event)
        if session.main.exists():
            session.machine.sync(session.main, settled=ending == "over")
    session.machine.sync(session.main)
    session.assert_all_arrived()
    assert session.sink.changed == []


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.sets(st.integers(1, 30), max_size=6), quiet=st.booleans(), down=st.booleans())
def test_syncs_at_arbitrary_points_deliver_each_span_once(
    tmp_path_factory: pytest.TempPathFactory, story: list[tuple[str, Line]], cuts: set[int], *, quiet: bool, down: bool
) -> None:
    """Also with files that have been quiet for long, and with a backend that is down every other time."""
    session = Story(tmp_path_factory.mktemp("story"))
    session.machine.in_background = False  # a backend that was down is tried again at once
    for number, event in enumerate(story):
        session.append(event)
        if number in cuts:
            if quiet:
                session.age(4000)
            session.sink.behaviour = "down" if down and number % 2 else "ok"
            session.machine.sync(session.main, settled=None)
            session.sink.behaviour = "ok"
    session.machine.sync(session.main)
    session.assert_all_arrived()


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_agent_growth_makes_a_delivered_session_pending(tmp_path: Path, story: list[tuple[str, Line]]) -> None:
    """The cursor is past the turn that launched the agent, and only the agent's file grows."""
    mine = [event for event in story if event[0] == "a1"]
    late = mine[-1]
    session = Story(tmp_path)
    session.append(*[event for event in story if event is not late])
    assert session.machine.sync(session.main)
    assert not session.is_pending()
    session.append(late)
    assert session.is_pending()
    assert session.machine.sync(session.main)
    assert not session.is_pending()
    session.assert_all_arrived()


def test_missing_agent_records_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    """They can be lost, and earlier versions wrote none."""
    session = Story(tmp_path)
    session.append(*WOKEN[:-4])
    assert session.machine.sync(session.main)
    session.append(*WOKEN[-4:])
    for path in (session.machine.states.folder / "agents").glob("*.json"):
        path.unlink()
    assert session.machine.sync(session.main)
    session.assert_all_arrived()


def test_rewrite_after_cursor_moved_back_is_detected(tmp_path: Path) -> None:
    """The cursor went back to the agent's turn, and in the rewritten file a line begins at the same offset."""
    session = Story(tmp_path)
    length = len(encoded(LAUNCH[0][1]))
    filler = {"type": "mode", "mode": "x"}
    filler["mode"] += "x" * (length - len(encoded(filler)))
    session.append((MAIN, prompt("long " * 400, -9)), (MAIN, reply("m0", "yes", at=-8)), (MAIN, filler), *WOKEN[:-4])
    assert session.machine.sync(session.main)
    for _ in range(2):
        session.machine.states.backoff.record_failure("sink", time.time(), "down", None, 1.0)
    session.append(*WOKEN[-4:])
    assert not session.machine.sync(session.main)
    whole = session.main.read_bytes()
    session.main.write_bytes(whole.replace(encoded(filler) + b"\n", b""))
    session.append((MAIN, prompt("next", 3000)), (MAIN, reply("m99", "yes " * 99, at=3001)))
    assert session.main.stat().st_size > len(whole)
    session.machine.in_background = False
    assert session.machine.sync(session.main)
    assert "the transcript was rewritten" in (tmp_path / "state" / "cc-trace.log").read_text()
    session.assert_all_arrived()


def test_reset_destination_receives_agent_spans_again(tmp_path: Path) -> None:
    """Also if the first attempt fails."""
    session = Story(tmp_path)
    session.append(*WOKEN)
    assert session.machine.sync(session.main)
    states = session.machine.states
    state = states.peek(SESSION)
    assert state is not None
    state.destinations.clear()
    states.save(state)
    (states.folder / "ledger.db").unlink()
    session.sink = Sink()
    session.machine.sinks = (session.sink,)
    session.sink.behaviour = "down"
    assert not session.machine.sync(session.main)
    session.sink.behaviour = "ok"
    session.machine.in_background = False  # it was down just now
    assert session.machine.sync(session.main)
    session.assert_all_arrived()


def test_turn_stays_open_while_agent_has_background_command(tmp_path: Path) -> None:
    """The agent has stopped, but the end of its command will resume it, and then the main thread."""
    session = Story(tmp_path)
    session.append(*WOKEN[:11])
    turn = next(Session(session.main, ending="stopped").spans())
    assert not turn.final
    session.append(("a1", task_ended("bash1", "b1", at=30)), ("a1", reply("s3", "done", at=31)))
    session.append((MAIN, notification("a1", at=32)), (MAIN, reply("m9", "it is done", at=33)))
    spans = list(Session(session.main, ending="stopped").spans())
    assert [span.name for span in spans if span.kind == "turn"] == ["Turn 1"]
    assert all(span.final for span in spans)


def test_agent_background_command_keeps_turn_open_in_old_versions(tmp_path: Path) -> None:
    """Older versions only report that the agent has ended."""
    session = Story(tmp_path)
    session.append(*[event for event in WOKEN[:11] if event[1].get("subtype") != "turn_duration"][:-2])
    session.append((MAIN, notification("a1", at=7, tool_use_id="t1")), (MAIN, reply("m3", "it waits", at=8)))
    assert not next(Session(session.main, ending="stopped").spans()).final
    session.append(("a1", task_ended("bash1", "b1", at=30)), ("a1", reply("s3", "done", at=31)))
    assert next(Session(session.main, ending="stopped").spans()).final


def test_agent_task_notification_is_not_a_main_thread_event(tmp_path: Path) -> None:
    """It passes through the main thread's queue on its way to the agent."""
    ended = notification("bash1", at=30, tool_use_id="b1")["message"]["content"]
    queued = [line("queue-operation", 30, operation=name, content=ended) for name in ("enqueue", "remove")]
    session = Story(tmp_path)
    session.append(*WOKEN[:11], *((MAIN, each) for each in queued))
    assert [span.kind for span in Session(session.main).spans()].count("event") == 1


# A command that an agent runs


FORKED = [
    (MAIN, prompt("<local-command-caveat>not sent to you</local-command-caveat>", 3, isMeta=True, promptId="p1")),
    (MAIN, prompt("/forky now", 1, promptId="p1")),
    (
        MAIN,
        line("system", 9, subtype="local_command", content="<local-command-stdout>the result</local-command-stdout>"),
    ),
]
FORKED_WORK = [
    ("a1", prompt("Base directory for this skill: /x", 2, isMeta=True, promptId="p1")),
    ("a1", reply("s1", tool_use("u1"), at=4)),
    ("a1", result("u1", at=5)),
    ("a1", reply("s2", "the result", at=6)),
]


@pytest.mark.parametrize("typed", ["/forky now", "<command-name>/forky</command-name><command-args>now</command-args>"])
def test_forked_skill_command_is_a_turn_with_agent(tmp_path: Path, typed: str) -> None:
    """No response of the main thread follows; the turn's output is what the command printed."""
    session = Story(tmp_path, {"agentType": "general-purpose"})
    command = (MAIN, prompt(typed, 1, promptId="p1"))
    session.append(
        *FORKED_WORK, FORKED[0], command, FORKED[2], (MAIN, prompt("next", 20)), (MAIN, reply("m1", "yes", at=21))
    )
    expected = """
        turn Turn 1 ok
          subagent general-purpose ok [a1]
            generation s1 ok [a1]
              tool Bash u1 ok [a1]
            generation s2 ok [a1]
        turn Turn 2 ok
          generation m1 ok
    """
    spans = list(Session(session.main).spans())
    assert cleandoc(expected) == tree(spans)
    turn = spans[0]
    assert (turn.input, turn.output, turn.final) == ("/forky now", "the result", True)
    assert (turn.metadata["trigger"], turn.metadata["command"]) == ("command", "forky")
    assert turn.span_id == span_id("turn", f"command:{command[1]['uuid']}")
    assert all(span.final for span in spans[1:5])


def test_delivered_forked_command_is_not_sent_again(tmp_path: Path) -> None:
    session = Story(tmp_path, {"agentType": "general-purpose"})
    session.append(*FORKED_WORK, *FORKED)
    assert session.machine.sync(session.main)
    assert len(session.sink.taken) == 5
    session.append((MAIN, prompt("next", 20, promptId="p2")), (MAIN, reply("m1", "yes", at=21)))
    assert session.machine.sync(session.main)
    session.assert_all_arrived()


def test_local_command_without_agent_creates_no_turn(tmp_path: Path) -> None:
    session = Story(tmp_path)
    session.append(*FORKED)
    assert list(Session(session.main, ending="over").spans()) == []


# Many agents


def many(session: Story, count: int, *, beside: bool = False) -> None:
    """A session of one turn for every ten agents, each of which a call launched and waited for."""
    for number in range(0, count, 10):
        calls = [f"t{each}" for each in range(number, number + 10)]
        session.append((MAIN, prompt(f"turn {number}", number)))
        session.append((MAIN, reply(f"m{number}", *map(task, calls), at=number + 1)))
        for call in calls:
            session.append((MAIN, result(call, at=number + 3, told={"agentId": f"n{call}"})))
            work = [prompt("look", number + 1), reply(f"s{call}", "seen", at=number + 2)]
            folder = session.main.parent if beside else session.agents
            owned = {"isSidechain": True, "agentId": f"n{call}", "sessionId": SESSION}
            write(folder / f"agent-n{call}.jsonl", [{**item, **owned} for item in work])
        session.append((MAIN, reply(f"e{number}", "done", at=number + 4)), (MAIN, turn_duration(4000, at=number + 5)))


@pytest.mark.parametrize("beside", [False, True], ids=["in the session's folder", "beside the transcript"])
def test_only_changed_agent_files_are_opened(tmp_path: Path, *, beside: bool) -> None:
    session = Story(tmp_path)
    many(session, 30, beside=beside)
    assert session.machine.sync(session.main)
    session.assert_all_arrived()
    folder = session.main.parent if beside else session.agents
    opened: list[str] = []

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and "/agent-" in str(arguments[0]):
            opened.append(str(arguments[0]).rpartition("/")[2])

    def synced() -> set[str]:
        opened.clear()
        assert session.machine.sync(session.main, settled=None)
        return set(opened)

    _watch(watch)
    assert synced() == set()
    assert not session.is_pending()
    assert opened == []
    with (folder / "agent-nt7.jsonl").open("ab") as file:
        file.write(encoded({**reply("more", "and more", at=500), "isSidechain": True, "agentId": "nt7"}) + b"\n")
    assert session.is_pending()
    assert {name for name in synced() if name.endswith(".jsonl")} == {"agent-nt7.jsonl"}
    session.age(4000)
    session.machine.sync(session.main)
    assert span_id("generation", "more") in session.sink.taken
    assert session.sink.twice == []


_WATCHERS: list[Callable[[str, tuple[object, ...]], None]] = []


def _watch(watcher: Callable[[str, tuple[object, ...]], None]) -> None:
    """Call this for every file that is opened from now on. An audit hook cannot be removed, so there is only one."""
    if not _WATCHERS:
        sys.addaudithook(lambda event, arguments: _WATCHERS[-1](event, arguments))  # noqa: PLW0108  (the latest one)
    _WATCHERS.append(watcher)


def test_agent_file_beside_transcripts_affects_only_its_own_session(tmp_path: Path) -> None:
    session = Story(tmp_path)
    many(session, 10, beside=True)
    other = session.machine.projects / "22222222-0000-4000-8000-000000000002.jsonl"
    write(other, [prompt("hi", 0, sessionId=other.stem), reply("o1", "yes", at=1, sessionId=other.stem)])
    assert session.machine.sync(session.main)
    assert session.machine.sync(other)
    states = session.machine.states
    late = {**reply("o2", "more", at=9), "isSidechain": True, "agentId": "z", "sessionId": other.stem}
    write(session.main.parent / "agent-z.jsonl", [late])
    pending = {
        path.stem: state_is_pending(
            states.peek(path.stem), path.stat().st_size, ["sink"], partial(AgentListing(states).total_bytes, path)
        )
        for path in (session.main, other)
    }
    assert pending == {SESSION: False, other.stem: True}


def test_child_agent_keeps_its_parent_when_parent_is_delivered(tmp_path: Path) -> None:
    """The parent's file has not changed, and is read only to find the call."""
    session = Story(tmp_path)
    child = {"toolUseId": "t2", "parentAgentId": "a1", "agentType": "Explore"}
    write(session.agents / "agent-a2.meta.json", [child])
    session.append(
        *LAUNCH,
        ("a1", reply("s1", task("t2"), at=4)),
        ("a1", launched("t2", "a2", at=5)),
        ("a2", prompt("deeper", 5)),
        ("a2", reply("d1", tool_use("u1"), at=6)),
        ("a1", reply("s2", "it runs", at=7)),
        (MAIN, notification("a1", at=8, tool_use_id="t1")),
        (MAIN, reply("m3", "noted", at=9)),
        (MAIN, prompt("two", 20)),
        (MAIN, reply("m4", "yes", at=21)),
    )
    session.machine.sync(session.main)
    session.append(("a2", result("u1", at=30)), ("a2", reply("d2", "seen", at=31)))
    session.machine.sync(session.main)
    session.assert_all_arrived()
