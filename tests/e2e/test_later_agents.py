"""Agents that go on after their turn, on the real Claude Code: each response arrives once, under what woke it."""

from __future__ import annotations

from inspect import cleandoc
from typing import TYPE_CHECKING

import claude_code
import processes
import pytest
from arrived import Arrived, facts_of
from scenarios.agents import agent
from script import AGENT_ID, HttpResponse, Use
from stage import Stage
from versions import CURRENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.proto.trace.v1.trace_pb2 import Span

_SKILL = "---\nname: forky\ndescription: runs apart\ncontext: fork\n---\n[[forked]] do it apart\n"


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """A stage on which one of these is played."""
    processes.adopt_orphans()
    with Stage(request.node.name, tmp_path / "stage", CURRENT, claude_code.command(CURRENT)) as made:
        made.home.settings["permissions"]["allow"] += ["SendMessage", "ToolSearch", "Skill"]
        yield made


def in_background(seconds: float) -> Use:
    """A command that Claude Code is told to run in the background."""
    command = f"sleep {seconds}; echo late"
    return Use("Bash", {"command": command, "description": "late", "run_in_background": True})


def outline(stage: Stage) -> str:
    """What arrived: every response by its text or its calls, every call and agent by its name, in its place."""
    stage.settle()
    spans = stage.sink.spans
    assert Arrived(spans).twice() == []
    assert stage.api.unscripted == []
    served = {each.message.id for each in stage.api.exchanges if each.message and each.request.own_business is None}
    assert served == {facts["gen_ai.response.id"] for facts in map(facts_of, spans) if "gen_ai.response.id" in facts}
    ids = {span.span_id for span in spans}
    assert [span.name for span in spans if span.parent_span_id and span.parent_span_id not in ids] == []
    below: dict[bytes, list[Span]] = {}
    for span in sorted(spans, key=lambda each: (each.end_time_unix_nano, each.start_time_unix_nano)):
        below.setdefault(span.parent_span_id, []).append(span)
    texts = {each.message.id: each.message.text or "calls" for each in stage.api.exchanges if each.message is not None}
    rows: list[str] = []

    def show(parent: bytes, depth: int) -> None:
        for span in below.get(parent, ()):
            facts = facts_of(span)
            name = texts.get(facts.get("gen_ai.response.id", ""), span.name)
            rows.append("  " * depth + name.removeprefix("execute_tool ").replace("invoke_agent", "agent"))
            show(span.span_id, depth + 1)

    show(b"", 0)
    return "\n".join(rows)


def test_an_agent_is_woken_by_its_own_command(stage: Stage) -> None:
    """With -p: the turn is not over while the command in the background of its agent runs."""
    stage.script(
        delegate=[
            HttpResponse(uses=(agent("[[part]] go"),)),
            HttpResponse("launched"),
            HttpResponse("noted"),
            HttpResponse("noted again"),
        ],
        part=[HttpResponse(uses=(in_background(3),)), HttpResponse("started"), HttpResponse("woke up")],
    )
    assert stage.ask("[[delegate]] go").endswith("noted again")
    expected = """
        agent claude-code
          calls
            Agent
              agent general-purpose
                calls
                  Bash
                    agent general-purpose
                      woke up
                started
          launched
          notification
          noted
          notification
          noted again
    """
    assert outline(stage) == cleandoc(expected)


def test_an_agent_is_woken_when_the_next_turn_is_over(stage: Stage) -> None:
    """In a terminal: its launching turn and another one have been delivered by then."""
    stage.script(
        delegate=[
            HttpResponse(uses=(agent("[[part]] go"),)),
            HttpResponse("launched"),
            HttpResponse("noted"),
            HttpResponse("never"),
        ],
        part=[HttpResponse(uses=(in_background(12),)), HttpResponse("started"), HttpResponse("woke up")],
        other=[HttpResponse("Another answer."), HttpResponse("noted again")],
    )
    with stage.terminal() as terminal:
        terminal.say("[[delegate]] go", "delegate")
        terminal.wait_until(lambda: stage.api.answered("delegate", 2), "the agent's first stop is noted")
        terminal.say_and_wait("[[other]] go", "other")
        stage.wait_for_turn("other")
        terminal.wait_until(lambda: stage.api.answered("other", 1), "the agent's end is noted")
        stage.wait_for_workers()
        terminal.exit()
    expected = """
        agent claude-code
          calls
            Agent
              agent general-purpose
                calls
                  Bash
                    agent general-purpose
                      woke up
                started
          launched
          notification
          noted
        agent claude-code
          Another answer.
        agent claude-code
          noted again
    """
    assert outline(stage) == cleandoc(expected)


def test_a_message_to_an_agent_of_the_turn_before(stage: Stage) -> None:
    """In a terminal: the agent then works for longer than the turn that sent the message."""
    steps = [
        HttpResponse(uses=(Use("Bash", {"command": f"echo {n}", "description": "m"}),), delay_seconds=1) for n in (1, 2)
    ]
    message = {"to": AGENT_ID, "message": "[[more]] and more", "summary": "more"}
    search = Use("ToolSearch", {"query": "select:SendMessage", "max_results": 10})
    stage.script(
        t1=[HttpResponse(uses=(agent("[[part]] go"),)), HttpResponse("launched"), HttpResponse("One is over.")],
        part=[
            HttpResponse(uses=(Use("Bash", {"command": "echo part", "description": "p"}),)),
            HttpResponse("first result"),
        ],
        t2=[
            HttpResponse(uses=(search,)),
            HttpResponse(uses=(Use("SendMessage", message),)),
            HttpResponse("sent"),
            HttpResponse("Two is over."),
        ],
        more=[*steps, HttpResponse("second result", delay_seconds=1)],
        t3=[HttpResponse("Three is over.")],
    )
    with stage.terminal() as terminal:
        terminal.say("[[t1]] go", "t1")
        terminal.wait_until(lambda: stage.api.answered("t1", 2), "the agent's end is noted")
        stage.wait_for_turn("t1")
        terminal.say("[[t2]] go", "t2")
        terminal.wait_until(lambda: stage.api.answered("t2", 3), "its second end is noted")
        terminal.say_and_wait("[[t3]] go", "t3")
        stage.wait_for_workers()
        terminal.exit()
    expected = """
        agent claude-code
          calls
            Agent
              agent general-purpose
                calls
                  Bash
                first result
          launched
          notification
          One is over.
        agent claude-code
          calls
            ToolSearch
          calls
            SendMessage
              agent general-purpose
                calls
                  Bash
                calls
                  Bash
                second result
          sent
          notification
          Two is over.
        agent claude-code
          Three is over.
    """
    assert outline(stage) == cleandoc(expected)


def test_a_skill_that_runs_apart(stage: Stage) -> None:
    """With -p: no response of the main thread at all; then the session is resumed."""
    stage.home.write(".claude/skills/forky/SKILL.md", _SKILL)
    call = Use("Bash", {"command": "echo forked", "description": "x"})
    stage.script(forked=[HttpResponse(uses=(call,)), HttpResponse("forked result")], n=[HttpResponse("Next answer.")])
    assert stage.ask("/forky") == "forked result"
    stage.wait_for_workers()
    first = """
        agent claude-code
          agent general-purpose
            calls
              Bash
            forked result
    """
    assert outline(stage) == cleandoc(first)
    root = facts_of(next(span for span in stage.sink.spans if not span.parent_span_id))
    assert "/forky" in root["gen_ai.input.messages"]
    assert "forked result" in root["gen_ai.output.messages"]
    assert stage.ask("[[n]] go on", "--resume", stage.session(), session=None) == "Next answer."
    assert outline(stage) == cleandoc(first) + "\nagent claude-code\n  Next answer."
