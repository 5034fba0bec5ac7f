"""Every agent under the tool call that started it, whichever of the many links between the two there is."""

from __future__ import annotations

from inspect import cleandoc
from typing import TYPE_CHECKING

import pytest
from lines import (
    SESSION,
    agent,
    progress,
    prompt,
    reply,
    result,
    session,
    spans,
    task,
    text,
    tool_use,
    tree,
    write,
)

from cc_trace.spans.session import Resume, Session

if TYPE_CHECKING:
    from pathlib import Path

    from lines import Line

OTHER_SESSION = "22222222-0000-4000-8000-000000000002"
ONE_AGENT = """
    turn Turn 1 ok
      generation m1 ok
        tool Agent t1 ok
          subagent Explore ok [a1]
            generation s1 ok [a1]
              tool Grep u1 ok [a1]
            generation s2 ok [a1]
      generation m2 ok
"""


def main_lines(told: object = None) -> list[Line]:
    """A turn that calls one agent and waits for it; `told` is what the call's result says of the agent."""
    return [
        prompt("go"),
        reply("m1", task("t1"), at=1),
        result("t1", "seen", at=8, told=told),
        reply("m2", "done", at=9),
    ]


def agent_lines(name: str = "s", tool: str = "u1") -> list[Line]:
    """The work of an agent with one tool call."""
    return [
        prompt("look", 2),
        reply(f"{name}1", tool_use(tool, "Grep"), at=3),
        result(tool, at=4),
        reply(f"{name}2", "seen", at=5),
    ]


def test_an_agent_is_found_by_its_meta_file_alone(tmp_path: Path) -> None:
    main = session(tmp_path, *main_lines())
    agent(main, "a1", *agent_lines(), agentType="Explore", toolUseId="t1")
    assert cleandoc(ONE_AGENT) == tree(spans(main))


def test_an_agent_is_found_by_the_result_of_its_call_alone(tmp_path: Path) -> None:
    """Without a meta file its kind is what the call asked for."""
    main = session(tmp_path, *main_lines({"status": "completed", "agentId": "a1"}))
    agent(main, "a1", *agent_lines())
    assert cleandoc(ONE_AGENT) == tree(spans(main))


def test_an_agent_has_its_own_metadata_and_none_of_the_turns(tmp_path: Path) -> None:
    main = session(tmp_path, *main_lines())
    agent(main, "a1", *agent_lines(), agentType="Explore", toolUseId="t1", description="a task")
    found = next(span for span in spans(main) if span.kind == "subagent")
    assert found.metadata == {"agent_type": "Explore", "description": "a task", "source": "file"}
    assert (found.input, found.output) == ("look", "seen")


def test_parallel_agents_do_not_mix(tmp_path: Path) -> None:
    """Two calls of one response, their results in the other order; the files' names follow neither."""
    main = session(
        tmp_path,
        prompt("go"),
        reply("m1", task("t1"), at=1),
        reply("m1", task("t2"), at=1.5),
        result("t2", at=8),
        result("t1", at=9),
        reply("m2", "done", at=10),
    )
    agent(main, "b", *agent_lines("x", "ux"), agentType="first", toolUseId="t1")
    agent(main, "a", *agent_lines("y", "uy"), agentType="second", toolUseId="t2")
    expected = """
        turn Turn 1 ok
          generation m1 ok
            tool Agent t1 ok
              subagent first ok [b]
                generation x1 ok [b]
                  tool Grep ux ok [b]
                generation x2 ok [b]
            tool Agent t2 ok
              subagent second ok [a]
                generation y1 ok [a]
                  tool Grep uy ok [a]
                generation y2 ok [a]
          generation m2 ok
    """
    assert cleandoc(expected) == tree(spans(main))


NESTED = """
    turn Turn 1 ok
      generation m1 ok
        tool Agent t1 ok
          subagent outer ok [c]
            generation c1 ok [c]
              tool Agent t2 ok [c]
                subagent middle ok [b]
                  generation b1 ok [b]
                    tool Agent t3 ok [b]
                      subagent inner ok [a]
                        generation a1 ok [a]
                  generation b2 ok [b]
            generation c2 ok [c]
      generation m2 ok
"""


@pytest.mark.parametrize("parents", [("b", "c"), (None, None)], ids=["with parentAgentId", "without"])
def test_nested_agents_lie_flat_in_the_sessions_folder(tmp_path: Path, parents: tuple[str | None, str | None]) -> None:
    """Three deep, and the innermost file comes first by name."""
    main = session(tmp_path, *main_lines())
    nested = [("c", "t1", None, "outer"), ("b", "t2", parents[1], "middle"), ("a", "t3", parents[0], "inner")]
    for name, call, parent, kind in nested:
        below = {"c": "t2", "b": "t3"}.get(name)
        work = [prompt(f"be {name}", 2), reply(f"{name}1", *([task(below)] if below else []), at=3)]
        if below:
            work += [result(below, at=6), reply(f"{name}2", "so", at=7)]
        agent(main, name, *work, agentType=kind, toolUseId=call, **({"parentAgentId": parent} if parent else {}))
    assert cleandoc(NESTED) == tree(spans(main))


def test_agent_without_a_call_is_placed_under_its_turn(tmp_path: Path) -> None:
    """By the id of the prompt that it worked for, else by its time."""
    main = session(
        tmp_path,
        prompt("one", 0, promptId="p1"),
        reply("m1", "ok", at=6),
        prompt("two", 10, promptId="p2"),
        reply("m2", "ok", at=16),
        prompt("three", 20, promptId="p3"),
        reply("m3", "ok", at=26),
    )
    agent(main, "timed", prompt("look", 12), reply("s1", "seen", at=13))
    agent(main, "known", prompt("look", 12, promptId="p1"), reply("s2", "seen", at=13))
    agent(main, "last", prompt("look", 22), reply("s3", "seen", at=23))
    agent(main, "early", prompt("look", 2, promptId="of no turn"), reply("s4", "seen", at=3))
    expected = """
        turn Turn 1 ok
          generation m1 ok
          subagent agent ok [early]
            generation s4 ok [early]
          subagent agent ok [known]
            generation s2 ok [known]
        turn Turn 2 ok
          generation m2 ok
          subagent agent ok [timed]
            generation s1 ok [timed]
        turn Turn 3 ok
          generation m3 ok
          subagent agent ok [last]
            generation s3 ok [last]
    """
    assert cleandoc(expected) == tree(spans(main))


@pytest.mark.parametrize("turns", [1, 2])
@pytest.mark.parametrize("meta", [{"toolUseId": "u1"}, {"toolUseId": "u1", "parentAgentId": "b"}])
def test_an_agent_stays_below_a_parent_that_has_no_call(tmp_path: Path, meta: dict[str, str], turns: int) -> None:
    """Its file comes before its parent's by name; the parent can be found only by its time."""
    more = [prompt("more", 20), reply("m2", "ok", at=21)] if turns > 1 else []
    main = session(tmp_path, prompt("go"), reply("m1", "ok", at=9), *more)
    agent(main, "b", prompt("look", 2), reply("s1", task("u1"), at=3), result("u1", at=6), reply("s2", "so", at=7))
    agent(main, "a", prompt("deeper", 4), reply("d1", "seen", at=5), **meta)
    expected = """
        turn Turn 1 ok
          generation m1 ok
          subagent agent ok [b]
            generation s1 ok [b]
              tool Agent u1 ok [b]
                subagent Explore ok [a]
                  generation d1 ok [a]
            generation s2 ok [b]
    """
    assert cleandoc(expected) == tree(span for span in spans(main) if span.turn == 1)


def test_agent_without_a_call_is_placed_under_its_parent(tmp_path: Path) -> None:
    main = session(tmp_path, *main_lines())
    agent(main, "a1", *agent_lines(), agentType="Explore", toolUseId="t1")
    agent(main, "a2", prompt("deeper", 4), reply("d1", "seen", at=5), parentAgentId="a1")
    below = """
          generation s2 ok [a1]
          subagent agent ok [a2]
            generation d1 ok [a2]
    """
    rows = [f"        {row}" for row in cleandoc(below).splitlines()]
    assert cleandoc(ONE_AGENT).replace(rows[0], "\n".join(rows)) == tree(spans(main))


@pytest.mark.parametrize("timed", [True, False])
def test_agent_is_not_placed_under_an_earlier_turn(tmp_path: Path, *, timed: bool) -> None:
    """The format of the specification has prompts, and whole files, without timestamps."""
    times = [0.0, 1.0, 3.0, 4.0, 5.0, 6.0, 7.0] if timed else [None] * 7
    main = session(
        tmp_path,
        prompt("one", times[0]),
        reply("m1", "ok", at=times[1]),
        prompt("two", None),
        reply("m2", task("t1"), at=times[2]),
        result("t1", at=times[5]),
        reply("m3", "ok", at=times[6]),
    )
    agent(main, "a1", prompt("look", times[3]), reply("s1", "seen", at=times[4]), toolUseId="t1")
    expected = """
        turn Turn 1 ok
          generation m1 ok
        turn Turn 2 ok
          generation m2 ok
            tool Agent t1 ok
              subagent Explore ok [a1]
                generation s1 ok [a1]
          generation m3 ok
    """
    assert cleandoc(expected) == tree(spans(main))


def test_agent_call_without_a_file_has_no_children(tmp_path: Path) -> None:
    expected = """
        turn Turn 1 ok
          generation m1 ok
            tool Agent t1 ok
          generation m2 ok
    """
    assert cleandoc(expected) == tree(spans(session(tmp_path, *main_lines({"agentId": "gone"}))))


def test_internal_agents_are_skipped(tmp_path: Path) -> None:
    """Those for compaction, prompt suggestions and warm-ups do no work of the user's."""
    main = session(tmp_path, *main_lines())
    agent(main, "a1", *agent_lines(), agentType="Explore", toolUseId="t1")
    agent(main, "acompact-1a2b", prompt("summarise", 6), reply("h1", "so", at=7))
    agent(main, "aprompt_suggestion-1a2b", prompt("suggest", 6), reply("h2", "so", at=7))
    agent(main, "warm", prompt("Warmup", 0), reply("h3", "OK.", at=1))
    assert cleandoc(ONE_AGENT) == tree(spans(main))


def test_files_beside_the_session_are_taken_only_when_they_are_of_it(tmp_path: Path) -> None:
    """2.0.x keeps the agents of all sessions of a project in one directory."""
    main = session(tmp_path, *main_lines({"agentId": "a1"}))

    def beside(name: str, session_id: str, *lines: Line) -> None:
        own = {"isSidechain": True, "agentId": name, "sessionId": session_id}
        write(tmp_path / f"agent-{name}.jsonl", [{**line, **own} for line in lines])

    beside("a1", SESSION, *agent_lines())
    beside("beef123", SESSION, prompt("Warmup", 0), reply("h1", "OK.", at=1))
    beside("cafe456", OTHER_SESSION, *agent_lines("o", "o1"))
    assert cleandoc(ONE_AGENT) == tree(spans(main))


# Agents whose lines stand in the main file


def sidechain(item: Line, name: str, parent: str | None) -> Line:
    """A line of an agent inside the main file, as versions up to 1.0.x write it."""
    return {**item, "isSidechain": True, "uuid": name, "parentUuid": parent}


@pytest.mark.parametrize("prompts", [("look here", "look there"), ("look", "look")], ids=["different", "equal"])
def test_interleaved_sidechains_are_told_apart(tmp_path: Path, prompts: tuple[str, str]) -> None:
    """The uuids make the chains, the prompts find the calls; calls with the same prompt get one chain each."""
    one, two = prompts
    main = session(
        tmp_path,
        prompt("go"),
        reply("m1", task("t1", one, "Task"), at=1),
        reply("m1", task("t2", two, "Task"), at=1.1),
        sidechain(prompt(one, 2), "x1", None),
        sidechain(prompt(two, 2), "y1", None),
        sidechain(reply("y1", "I will", at=3), "y2", "y1"),
        sidechain(reply("x1", tool_use("ux", "Grep"), at=3), "x2", "x1"),
        sidechain(result("ux", at=4), "x3", "x2"),
        sidechain(reply("y1", tool_use("uy", "Grep"), at=4), "y3", "y2"),
        sidechain(reply("x2", "seen", at=5), "x4", "x3"),
        sidechain(result("uy", at=5), "y4", "y3"),
        result("t1", at=6),
        result("t2", at=6),
        reply("m2", "done", at=7),
    )
    expected = """
        turn Turn 1 ok
          generation m1 ok
            tool Task t1 ok
              subagent Explore ok
                generation x1 ok
                  tool Grep ux ok
                generation x2 ok
            tool Task t2 ok
              subagent Explore incomplete
                generation y1 ok
                  tool Grep uy ok
          generation m2 ok
    """
    assert cleandoc(expected) == tree(spans(main))


def test_an_agent_known_only_from_progress_lines_is_made_from_them(tmp_path: Path) -> None:
    """Their output counts are placeholders, so its usage is marked as incomplete."""
    start, *rest = main_lines()
    main = session(tmp_path, start, rest[0], *(progress("a1", "t1", line) for line in agent_lines()), *rest[1:])
    found = spans(main)
    assert cleandoc(ONE_AGENT) == tree(found)
    complete = {s.response.message_id: s.response.usage_complete for s in found if s.response is not None}
    assert complete == {"m1": True, "s1": False, "s2": False, "m2": True}


def test_an_agent_without_its_answer_ended_as_its_call_did(tmp_path: Path) -> None:
    """Progress lines leave the last response out; the call's result is what the agent answered."""
    start, *rest = main_lines()
    told = [progress("a1", "t1", line) for line in agent_lines()[:-1]]
    main = session(tmp_path, start, rest[0], *told, *rest[1:])
    (made,) = [span for span in spans(main) if span.kind == "subagent"]
    assert (made.status, made.error, made.output, made.final) == ("ok", None, "seen", True)
    main = session(tmp_path, start, rest[0], *told, result("t1", "it broke", at=9, error=True), *rest[2:])
    (made,) = [span for span in spans(main) if span.kind == "subagent"]
    assert (made.status, made.error, made.output) == ("error", "it broke", "it broke")
    main = session(tmp_path, start, rest[0], *told)
    (made,) = [span for span in spans(main) if span.kind == "subagent"]
    assert (made.status, made.final) == ("incomplete", False)


def test_progress_lines_are_passed_over_where_the_agent_has_a_file(tmp_path: Path) -> None:
    """They repeat what the file holds, here a part of it only."""
    start, *rest = main_lines()
    main = session(tmp_path, start, rest[0], *(progress("a1", "t1", line) for line in agent_lines()[:2]), *rest[1:])
    agent(main, "a1", *agent_lines(), agentType="Explore", toolUseId="t1")
    read = Session(main)
    assert cleandoc(ONE_AGENT) == tree(read.spans())
    assert read.summary.skipped == {}


# An agent that starts with a copy of its parent's conversation


@pytest.mark.parametrize("renamed", [False, True], ids=["copied uuids", "new uuids"])
def test_lines_repeated_in_an_agents_file_are_one_generation(tmp_path: Path, *, renamed: bool) -> None:
    """Also when reading begins at the turn of the call, and what was copied lies before it."""
    earlier = [prompt("one", -30), reply("m0", tool_use("t0"), at=-29), result("t0", at=-28)]
    earlier += [prompt("two", -20), reply("m3", "ok", at=-19)]
    main = session(tmp_path, *earlier, *main_lines())
    copied = [*earlier, *main_lines()[:2]]
    if renamed:
        copied = [{**line, "uuid": f"new {line['uuid']}"} for line in copied]
    agent(main, "a1", *copied, *agent_lines(), agentType="Explore", toolUseId="t1")
    expected = """
        turn Turn 1 incomplete
          generation m0 ok
            tool Bash t0 ok
        turn Turn 2 ok
          generation m3 ok
    """
    third = cleandoc(ONE_AGENT).replace("Turn 1", "Turn 3")
    traces = list(Session(main).traces())
    assert f"{cleandoc(expected)}\n{third}" == tree(span for trace in traces for span in trace.spans)
    assert third == tree(Session(main, Resume(traces[2].turn.begin, turns=2)).spans())


def test_lines_repeated_in_an_agents_file_without_meta_are_one_generation(tmp_path: Path) -> None:
    main = session(tmp_path, *main_lines({"agentId": "a1"}))
    agent(main, "a1", *main_lines()[:2], *agent_lines())
    assert cleandoc(ONE_AGENT) == tree(spans(main))


def test_text_beside_a_copied_result_is_a_forked_agents_prompt(tmp_path: Path) -> None:
    """A user line with a tool_result and a text holds a prompt, also where the result belongs to a copied call."""
    main = session(tmp_path, *main_lines())
    told = prompt([{"type": "tool_result", "tool_use_id": "t1", "content": "Forked."}, text("look")], 2)
    agent(main, "a1", *main_lines()[:2], told, *agent_lines()[1:], agentType="Explore", toolUseId="t1")
    found = spans(main)
    assert cleandoc(ONE_AGENT) == tree(found)
    assert [span.input for span in found if span.kind == "subagent"] == ["look"]
