"""Agents that work in the background: their turn waits for them, or their end starts a turn of its own."""

from __future__ import annotations

from inspect import cleandoc
from typing import TYPE_CHECKING

import pytest
from lines import (
    agent,
    launched,
    notification,
    prompt,
    reply,
    result,
    session,
    spans,
    stop_hook_summary,
    task,
    tool_use,
    tree,
    turn_duration,
    write,
)

from cc_trace.spans.model import tool_span_id
from cc_trace.spans.session import Resume, Session

if TYPE_CHECKING:
    from pathlib import Path

    from lines import Line

LAUNCH = [
    prompt("go"),
    reply("m1", task("t1"), at=1),
    launched("t1", "a1", at=2),
    reply("m2", "started", at=3),
    stop_hook_summary(at=3.5),
    turn_duration(3000, at=4),
]
ENDED = notification("a1", at=9, tool_use_id="t1")
WORK = [prompt("look", 2), reply("s1", tool_use("u1"), at=5), result("u1", at=6), reply("s2", "seen", at=7)]
LAUNCHING_TURN = """
    turn Turn 1 ok
      generation m1 ok
        tool Agent t1 ok
          subagent Explore ok [a1]
            generation s1 ok [a1]
              tool Bash u1 ok [a1]
            generation s2 ok [a1]
      generation m2 ok
"""


def launched_session(directory: Path, *after: Line) -> Path:
    """A turn that launches an agent, and what comes after Claude has said so."""
    main = session(directory, *LAUNCH, *after)
    agent(main, "a1", *WORK, agentType="Explore", toolUseId="t1")
    return main


def open_spans(read: Session) -> list[str]:
    """What may still change, by kind and agent."""
    return [f"{span.kind} {span.agent_id or 'main'}" for span in read.spans() if not span.final]


def test_a_turn_stays_open_while_its_agent_works(tmp_path: Path) -> None:
    """The line that gives the turn's duration comes at once, and does not end it."""
    main = launched_session(tmp_path)
    assert cleandoc(LAUNCHING_TURN) == tree(spans(main))
    assert open_spans(Session(main)) == ["turn main", "subagent a1", "generation a1", "generation main"]


@pytest.mark.parametrize("told", [ENDED, notification("a1", at=9)], ids=["with tool-use-id", "task-id only"])
def test_agent_notification_continues_the_launching_turn(tmp_path: Path, told: Line) -> None:
    """Its duration counts on over both rounds, and only then is it closed."""
    main = launched_session(tmp_path, told, reply("m3", "noted", at=10), turn_duration(4000, at=11))
    expected = """
      event notification ok
      generation m3 ok
    """
    found = spans(main)
    rounds = "\n".join("  " + row for row in cleandoc(expected).splitlines())
    assert cleandoc(LAUNCHING_TURN) + "\n" + rounds == tree(found)
    assert found[0].metadata["duration_ms"] == 4000
    assert open_spans(Session(main)) == []


NEXT = [prompt("next", 5), reply("m4", "yes", at=6), turn_duration(200, at=6.5)]
NOTED = [reply("m3", "noted", at=10), turn_duration(1000, at=11)]
LATER = [prompt("more", 30), reply("m5", "ok", at=31), turn_duration(100, at=32)]
LAST = reply("m6", "noted again", at=41)


@pytest.mark.parametrize("told", [ENDED, notification("a1", at=9)], ids=["with tool-use-id", "task-id only"])
def test_the_end_of_an_agent_after_a_later_prompt_is_a_turn_of_its_own(tmp_path: Path, told: Line) -> None:
    """The agent's work stays under its call; the new turn says which call that was, and in which trace."""
    main = launched_session(tmp_path, *NEXT, told, *NOTED)
    found = spans(main)
    following = """
        turn Turn 2 ok
          generation m4 ok
        turn Turn 3 ok
          generation m3 ok
    """
    assert cleandoc(LAUNCHING_TURN) + "\n" + cleandoc(following) == tree(found)
    turns = [span for span in found if span.kind == "turn"]
    link = {"tool_use_id": "t1", "span_id": tool_span_id("t1"), "trace_id": found[0].trace_id}
    heard = [(span.metadata["trigger"], span.metadata.get("launched_by")) for span in turns]
    assert [("prompt", None), ("prompt", None), ("notification", link)] == heard
    assert [span.metadata["duration_ms"] for span in turns] == [3000, 200, 1000]


def test_an_agent_that_ended_after_its_turn_is_final_when_that_is_known(tmp_path: Path) -> None:
    """Its end is told two turns later: only who has read so far, or knows that nothing more will come, can tell."""
    main = launched_session(tmp_path, *NEXT, ENDED, *NOTED)
    first = Session(main)
    assert open_spans(first) == ["subagent a1", "generation a1"]
    assert open_spans(Session(main, Resume(finished_tasks=first.resume.finished_tasks))) == []
    assert open_spans(Session(main, ending="over")) == []


def test_the_end_of_an_agent_while_a_later_turn_works_is_an_event_of_that_turn(tmp_path: Path) -> None:
    main = launched_session(
        tmp_path,
        prompt("next", 5),
        reply("m4", tool_use("b1"), at=6),
        ENDED,
        result("b1", at=9.5),
        reply("m5", "both done", at=10),
    )
    found = spans(main)
    following = """
        turn Turn 2 ok
          generation m4 ok
            tool Bash b1 ok
          event notification ok
          generation m5 ok
    """
    assert cleandoc(LAUNCHING_TURN) + "\n" + cleandoc(following) == tree(found)
    event = next(span for span in found if span.kind == "event")
    link = {"tool_use_id": "t1", "span_id": tool_span_id("t1"), "trace_id": found[0].trace_id}
    assert {"task_id": "a1", "status": "completed", "summary": "Agent ended", "launched_by": link} == event.metadata


def test_agents_that_end_in_reverse_order(tmp_path: Path) -> None:
    """The turn is closed by the duration that follows the last of them."""
    lines = [
        prompt("go"),
        reply("m1", task("t1"), task("t2"), at=1),
        launched("t1", "a1", at=2),
        launched("t2", "a2", at=2),
        reply("m2", "started", at=3),
        turn_duration(3000, at=4),
        notification("a2", at=8, tool_use_id="t2"),
        reply("m3", "one", at=9),
        turn_duration(500, at=9.5),
        notification("a1", at=10, tool_use_id="t1", status="killed"),
        reply("m4", "both", at=11),
        turn_duration(600, at=11.5),
    ]
    expected = """
        turn Turn 1 ok
          generation m1 ok
            tool Agent t1 ok
              subagent Explore interrupted [a1]
                generation x1 ok [a1]
            tool Agent t2 ok
              subagent Explore ok [a2]
                generation y1 ok [a2]
          generation m2 ok
          event notification ok
          generation m3 ok
          event notification ok
          generation m4 ok
    """

    def written(directory: Path, count: int) -> Path:
        main = session(directory, *lines[:count])
        agent(main, "a1", prompt("look", 2), reply("x1", "seen", at=8), toolUseId="t1")
        agent(main, "a2", prompt("look", 2), reply("y1", "seen", at=7), toolUseId="t2")
        return main

    assert cleandoc(expected) == tree(spans(written(tmp_path / "whole", len(lines))))
    open_after = {count: bool(open_spans(Session(written(tmp_path / str(count), count)))) for count in (6, 9, 12)}
    assert open_after == {6: True, 9: True, 12: False}


@pytest.mark.parametrize(
    "call", [tool_use("t2", "SendMessage", to="a1", message="more"), tool_use("t2", "Task", prompt="more", resume="a1")]
)
def test_resumed_agent_run_is_placed_under_the_resuming_call(tmp_path: Path, call: Line) -> None:
    main = session(
        tmp_path,
        prompt("go"),
        reply("m1", task("t1"), at=1),
        result("t1", at=8, told={"agentId": "a1"}),
        reply("m2", "ok", at=9),
        prompt("again", 20),
        reply("m3", call, at=21),
        result("t2", at=28),
        reply("m4", "ok", at=29),
    )
    agent(main, "a1", *WORK, prompt("more", 22), reply("s3", "seen more", at=23), agentType="Explore", toolUseId="t1")
    following = f"""
        turn Turn 2 ok
          generation m3 ok
            tool {call["name"]} t2 ok
              subagent Explore ok [a1]
                generation s3 ok [a1]
          generation m4 ok
    """
    assert cleandoc(LAUNCHING_TURN) + "\n" + cleandoc(following) == tree(spans(main))


def test_second_agent_notification_names_call_and_trace(tmp_path: Path) -> None:
    """It went on after it had ended once, so its call was no longer known as one with a running task."""
    main = launched_session(tmp_path, ENDED, *NOTED, *LATER, notification("a1", at=40, tool_use_id="t1"), LAST)
    first, *_, last = (span for span in spans(main) if span.kind == "turn")
    link = {"tool_use_id": "t1", "span_id": tool_span_id("t1"), "trace_id": first.trace_id}
    assert (last.metadata["trigger"], last.metadata["launched_by"]) == ("notification", link)


def test_an_agent_without_a_call_may_still_change_when_a_turn_follows(tmp_path: Path) -> None:
    """Nothing tells its end; what is final never changes, and this grows in the next turn."""
    main = session(tmp_path, prompt("go"), reply("m1", "ok", at=3), prompt("more", 10), reply("m2", "ok", at=11))
    agent(main, "a1", prompt("look", 2), reply("s1", "seen", at=5))
    assert open_spans(Session(main)) == ["subagent a1", "generation a1", "turn main", "generation main"]
    assert open_spans(Session(main, ending="over")) == []


def test_workflow_stages_are_placed_under_their_call(tmp_path: Path) -> None:
    """They have no toolUseId: the directory names the run, the run the call, the journal the stage."""
    told = {"status": "async_launched", "taskId": "w1", "runId": "wf_x"}
    main = session(
        tmp_path,
        prompt("go"),
        reply("m1", tool_use("t1", "Workflow", script="…"), at=1),
        result("t1", "Workflow launched.", at=2, told=told),
        reply("m2", "started", at=3),
    )
    stage = agent(main, "s1", prompt("plan it", 4), reply("p1", "so", at=5), folder="workflows/wf_x")
    agent(main, "s2", prompt("do it", 6), reply("d1", "so", at=7), folder="workflows/wf_x", agentType="worker")
    agent(main, "z1", prompt("other", 6), reply("z1", "so", at=7), folder="workflows/wf_other")
    journal: list[Line | str] = [
        {"type": "started", "agentId": "s1", "label": "plan"},
        "damaged",
        {"agentId": "s2", "label": "do"},
    ]
    write(stage.with_name("journal.jsonl"), journal)
    expected = """
        turn Turn 1 ok
          generation m1 ok
            tool Workflow t1 ok
              subagent plan ok [s1]
                generation p1 ok [s1]
              subagent worker ok [s2]
                generation d1 ok [s2]
          generation m2 ok
          subagent agent ok [z1]
            generation z1 ok [z1]
    """
    found = spans(main)
    assert cleandoc(expected) == tree(found)
    stages = [(span.metadata["workflow_run"], span.metadata.get("stage")) for span in found if span.kind == "subagent"]
    assert stages == [("wf_x", "plan"), ("wf_x", "do"), ("wf_other", None)]


@pytest.mark.parametrize("answered", [True, False])
def test_a_teammate_is_named_by_its_id_and_its_message_starts_a_turn(tmp_path: Path, *, answered: bool) -> None:
    """Both runs of the teammate belong under the call that made it, whether or not a turn follows."""
    heard = [prompt('<teammate-message teammate_id="ann@crew">found</teammate-message>', 9), reply("m3", "ok", at=10)]
    main = session(
        tmp_path,
        prompt("go"),
        reply("m1", tool_use("t1", "Agent", prompt="join", name="ann", team_name="crew"), at=1),
        result("t1", "Spawned.", at=2, told={"status": "teammate_spawned", "teammate_id": "ann@crew"}),
        reply("m2", "started", at=3),
        *(heard if answered else []),
    )
    message = '<teammate-message teammate_id="lead">go on</teammate-message>'
    work = [prompt("join", 4), reply("s1", "here", at=5), prompt(message, 6), reply("s2", "found", at=7)]
    agent(main, "a1", *work, name="ann@crew", agentType="scout")
    expected = """
        turn Turn 1 ok
          generation m1 ok
            tool Agent t1 ok
              subagent scout ok [a1]
                generation s1 ok [a1]
              subagent scout ok [a1]
                generation s2 ok [a1]
          generation m2 ok
    """
    following = """
        turn Turn 2 ok
          generation m3 ok
    """
    found = spans(main)
    assert cleandoc(expected) + ("\n" + cleandoc(following) if answered else "") == tree(found)
    triggers = [span.metadata["trigger"] for span in found if span.kind == "turn"]
    assert ["prompt", "teammate"][: len(triggers)] == triggers
