"""Agents that go on after their turn, on the real Claude Code: each response arrives once, under what woke it."""

from __future__ import annotations

from inspect import cleandoc
from typing import TYPE_CHECKING

import claude_code
import processes
import pytest
from received import ReceivedTraces, facts_of
from sandbox import Sandbox
from scenarios.agents import agent
from script import AGENT_ID, Reply, Use
from versions import CURRENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.proto.trace.v1.trace_pb2 import Span

_SKILL = "---\nname: forky\ndescription: runs apart\ncontext: fork\n---\n[[forked]] do it apart\n"


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sandbox]:
    """A sandbox for one of these."""
    processes.adopt_orphans()
    with Sandbox(request.node.name, tmp_path / "sandbox", CURRENT, claude_code.command(CURRENT)) as made:
        made.home.settings["permissions"]["allow"] += ["SendMessage", "ToolSearch", "Skill"]
        yield made


def in_background(seconds: float) -> Use:
    """A command that Claude Code is told to run in the background."""
    command = f"sleep {seconds}; echo late"
    return Use("Bash", {"command": command, "description": "late", "run_in_background": True})


def outline(sandbox: Sandbox) -> str:
    """What arrived: every response by its text or its calls, every call and agent by its name, in its place."""
    sandbox.settle()
    spans = sandbox.sink.spans
    assert ReceivedTraces(spans).twice() == []
    assert sandbox.api.unscripted == []
    served = {each.message.id for each in sandbox.api.calls if each.message and each.request.internal_purpose is None}
    assert served == {facts["gen_ai.response.id"] for facts in map(facts_of, spans) if "gen_ai.response.id" in facts}
    ids = {span.span_id for span in spans}
    assert [span.name for span in spans if span.parent_span_id and span.parent_span_id not in ids] == []
    below: dict[bytes, list[Span]] = {}
    for span in sorted(spans, key=lambda each: (each.end_time_unix_nano, each.start_time_unix_nano)):
        below.setdefault(span.parent_span_id, []).append(span)
    texts = {each.message.id: each.message.text or "calls" for each in sandbox.api.calls if each.message is not None}
    rows: list[str] = []

    def show(parent: bytes, depth: int) -> None:
        for span in below.get(parent, ()):
            facts = facts_of(span)
            name = texts.get(facts.get("gen_ai.response.id", ""), span.name)
            rows.append("  " * depth + name.removeprefix("execute_tool ").replace("invoke_agent", "agent"))
            show(span.span_id, depth + 1)

    show(b"", 0)
    return "\n".join(rows)


def test_an_agent_is_woken_by_its_own_command(sandbox: Sandbox) -> None:
    """With -p: the turn is not over while the command in the background of its agent runs."""
    sandbox.script(
        delegate=[
            Reply(uses=(agent("[[part]] go"),)),
            Reply("launched"),
            Reply("noted"),
            Reply("noted again"),
        ],
        part=[Reply(uses=(in_background(3),)), Reply("started"), Reply("woke up")],
    )
    assert sandbox.ask("[[delegate]] go").endswith("noted again")
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
    assert outline(sandbox) == cleandoc(expected)


def test_an_agent_is_woken_when_the_next_turn_is_over(sandbox: Sandbox) -> None:
    """In a terminal: its launching turn and another one have been delivered by then."""
    sandbox.script(
        delegate=[
            Reply(uses=(agent("[[part]] go"),)),
            Reply("launched"),
            Reply("noted"),
            Reply("never"),
        ],
        part=[Reply(uses=(in_background(12),)), Reply("started"), Reply("woke up")],
        other=[Reply("Another answer."), Reply("noted again")],
    )
    with sandbox.terminal() as terminal:
        terminal.say("[[delegate]] go", "delegate")
        terminal.wait_until(lambda: sandbox.api.answered("delegate", 2), "the agent's first stop is noted")
        terminal.say_and_wait("[[other]] go", "other")
        sandbox.wait_for_turn("other")
        terminal.wait_until(lambda: sandbox.api.answered("other", 1), "the agent's end is noted")
        sandbox.wait_for_workers()
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
    assert outline(sandbox) == cleandoc(expected)


def test_a_message_to_an_agent_of_the_turn_before(sandbox: Sandbox) -> None:
    """In a terminal: the agent then works for longer than the turn that sent the message."""
    steps = [Reply(uses=(Use("Bash", {"command": f"echo {n}", "description": "m"}),), delay_seconds=1) for n in (1, 2)]
    message = {"to": AGENT_ID, "message": "[[more]] and more", "summary": "more"}
    search = Use("ToolSearch", {"query": "select:SendMessage", "max_results": 10})
    sandbox.script(
        t1=[Reply(uses=(agent("[[part]] go"),)), Reply("launched"), Reply("One is over.")],
        part=[
            Reply(uses=(Use("Bash", {"command": "echo part", "description": "p"}),)),
            Reply("first result"),
        ],
        t2=[
            Reply(uses=(search,)),
            Reply(uses=(Use("SendMessage", message),)),
            Reply("sent"),
            Reply("Two is over."),
        ],
        more=[*steps, Reply("second result", delay_seconds=1)],
        t3=[Reply("Three is over.")],
    )
    with sandbox.terminal() as terminal:
        terminal.say("[[t1]] go", "t1")
        terminal.wait_until(lambda: sandbox.api.answered("t1", 2), "the agent's end is noted")
        sandbox.wait_for_turn("t1")
        terminal.say("[[t2]] go", "t2")
        terminal.wait_until(lambda: sandbox.api.answered("t2", 3), "its second end is noted")
        terminal.say_and_wait("[[t3]] go", "t3")
        sandbox.wait_for_workers()
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
    assert outline(sandbox) == cleandoc(expected)


def test_a_skill_that_runs_apart(sandbox: Sandbox) -> None:
    """With -p: no response of the main thread at all; then the session is resumed."""
    sandbox.home.write(".claude/skills/forky/SKILL.md", _SKILL)
    call = Use("Bash", {"command": "echo forked", "description": "x"})
    sandbox.script(forked=[Reply(uses=(call,)), Reply("forked result")], n=[Reply("Next answer.")])
    assert sandbox.ask("/forky") == "forked result"
    sandbox.wait_for_workers()
    first = """
        agent claude-code
          agent general-purpose
            calls
              Bash
            forked result
    """
    assert outline(sandbox) == cleandoc(first)
    root = facts_of(next(span for span in sandbox.sink.spans if not span.parent_span_id))
    assert "/forky" in root["gen_ai.input.messages"]
    assert "forked result" in root["gen_ai.output.messages"]
    assert sandbox.ask("[[n]] go on", "--resume", sandbox.session(), session=None) == "Next answer."
    assert outline(sandbox) == cleandoc(first) + "\nagent claude-code\n  Next answer."
