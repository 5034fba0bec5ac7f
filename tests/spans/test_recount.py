"""The independent count itself, on lines written by hand: every expected value is written out whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recount import USAGE, Count, agent_files, recount

SHARED = Path(__file__).resolve().parents[3] / "shared"
SESSION = "11111111-0000-4000-8000-000000000001"

# Recordings that hold every call Claude Code paid for: no compaction, plan, interrupt or kill in them.
# fmt: off
COMPLETE = [
    "a_simple", "b_tools", "c1_subagent", "c2_parallel_subagents", "c4_background_agent", "c6_sync_subagent",
    "d_resume_fork", "e1_overloaded_then_ok", "e2_bad_request", "f_tool_error", "g1_two_turns_exit",
    "g6_commands", "i_parallel_sessions", "q6_slow_stream", "q9_plugin",
]
# fmt: on


def write(path: Path, *lines: dict[str, Any] | str) -> Path:
    """Write the lines to ``path``: objects as JSON, strings as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return path


def user(content: Any, **more: Any) -> dict[str, Any]:
    """A user line."""
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


def reply(name: str, *blocks: dict[str, Any], out: int = 1, **more: Any) -> dict[str, Any]:
    """An assistant line of the response ``name``: 10 tokens in, ``out`` out, 20 read, 5 + 3 written."""
    usage = {
        "input_tokens": 10,
        "output_tokens": out,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 8,
        "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 3},
    }
    message = {"id": name, "model": "claude-x", "role": "assistant", "content": list(blocks), "usage": usage}
    return {"type": "assistant", "message": message, **more}


def used(out: int) -> dict[str, int]:
    """What is expected of a response made by ``reply``."""
    return {"input": 10, "output": out, "cache_read": 20, "cache_write_5m": 5, "cache_write_1h": 3}


def text(words: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": words}


def call(name: str, tool: str) -> dict[str, Any]:
    """A tool_use block."""
    return {"type": "tool_use", "id": name, "name": tool, "input": {}}


def result(name: str) -> dict[str, Any]:
    """A tool_result block."""
    return {"type": "tool_result", "tool_use_id": name, "content": "done"}


def progress(agent: str, inner: dict[str, Any]) -> dict[str, Any]:
    """A progress line that repeats the line ``inner`` of a subagent."""
    return {"type": "progress", "data": {"type": "agent_progress", "agentId": agent, "message": inner}}


def test_lines_of_one_response_are_one_response_even_with_results_between(tmp_path: Path) -> None:
    main = write(
        tmp_path / "s.jsonl",
        user("go"),
        reply("m1", text("I will."), out=2),
        reply("m1", call("t1", "Read"), out=2),
        user([result("t1")]),
        reply("m1", call("t2", "Bash"), out=97),
        user([result("t2")]),
        reply("m2", text("Done."), out=7),
    )
    assert recount(main) == Count(
        responses={"m1": used(97), "m2": used(7)},
        tools={"t1": "Read", "t2": "Bash"},
        prompts=["go"],
        prompts_mid_turn=[],
    )


def test_every_usage_number_is_the_maximum_and_writes_without_lifetime_are_short(tmp_path: Path) -> None:
    first, second, bare = reply("m1"), reply("m1"), reply("m2")
    first["message"]["usage"] = {"input_tokens": 1, "output_tokens": 50, "cache_creation_input_tokens": 9}
    second["message"]["usage"] |= {"output_tokens": None, "cache_creation_input_tokens": 30}
    del bare["message"]["usage"]
    assert recount(write(tmp_path / "s.jsonl", first, second, bare)) == Count(
        responses={
            "m1": {"input": 10, "output": 50, "cache_read": 20, "cache_write_5m": 27, "cache_write_1h": 3},
            "m2": {"input": 0, "output": 0, "cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0},
        },
        tools={},
        prompts=[],
        prompts_mid_turn=[],
    )


def test_lines_that_are_no_real_response(tmp_path: Path) -> None:
    synthetic = reply("m1", text("No response requested."))
    synthetic["message"]["model"] = "<synthetic>"
    untyped = reply("m5", call("t5", "Edit"), out=4)
    del untyped["type"]
    main = write(
        tmp_path / "s.jsonl",
        synthetic,
        reply("m2", text("API Error"), isApiErrorMessage=True),
        reply("m3", call("t3", "Read"), isMeta=True),
        reply("m4", {"type": "server_tool_use", "id": "t4", "name": "web_search"}, out=3),
        untyped,
        {"type": "api-request-blob", "message": reply("m6", call("t6", "Read"))["message"]},
    )
    assert recount(main) == Count(
        responses={"m4": used(3), "m5": used(4)}, tools={"t5": "Edit"}, prompts=[], prompts_mid_turn=[]
    )


def test_human_prompts_are_recognized(tmp_path: Path) -> None:
    image = {"type": "image", "source": {}}
    main = write(
        tmp_path / "s.jsonl",
        user("<command-name>/clear</command-name>"),
        user("<command-message>x</command-message>\n<command-name>/x</command-name>"),
        user("<local-command-stdout></local-command-stdout>"),
        user([text("<local-command-caveat>Caveat</local-command-caveat>")]),
        user("<bash-input>ls</bash-input>"),
        user("<bash-stdout></bash-stdout><bash-stderr></bash-stderr>"),
        user("<bash-notification>\n<shell-id>b1</shell-id></bash-notification>"),
        user("<task-notification>\n<task-id>a1</task-id></task-notification>"),
        user("A task ended.", origin={"kind": "task-notification"}),
        user('<teammate-message teammate_id="x">hi</teammate-message>'),
        user([text("[Request interrupted by user for tool use]")]),
        user("This session is being continued from a previous conversation that ran out of context."),
        user("Summary", isCompactSummary=True),
        user("injected", isMeta=True),
        user("", uuid="u0"),
        user("string", origin={"kind": "human"}),
        user([text("array"), text("of two")]),
        user([text("with image"), image]),
        user([image]),
        user("Implement the following plan:", planContent="1.", origin={"kind": "auto-continuation"}),
        {"message": {"role": "user", "content": "untyped"}},
        user("  indented, é \u2028 kept whole " + "x" * 9000),
    )
    assert recount(main) == Count(
        responses={},
        tools={},
        prompts=[
            "string",
            "array\nof two",
            "with image",
            "",
            "Implement the following plan:",
            "untyped",
            "  indented, é \u2028 kept whole " + "x" * 9000,
        ],
        prompts_mid_turn=[],
    )


def test_text_beside_a_result_is_a_prompt_of_its_own_kind(tmp_path: Path) -> None:
    main = write(
        tmp_path / "s.jsonl",
        user([result("t1"), text("and use pagination")], uuid="u1"),
        user([result("t2"), text("[Request interrupted by user for tool use]")], uuid="u2"),
        user([result("t3"), {"type": "image"}], uuid="u3"),
        user([result("t4"), text("agent's")], uuid="u4", isSidechain=True),
        user([text("first"), result("t5")], uuid="u5"),
    )
    assert recount(main) == Count(responses={}, tools={}, prompts=[], prompts_mid_turn=["and use pagination", "first"])


def test_a_repeated_user_line_counts_once(tmp_path: Path) -> None:
    main = write(
        tmp_path / "s.jsonl",
        user("go", uuid="u1", sessionId="old"),
        user([text("go")], uuid="u1", sessionId="new"),
        user("go on", uuid="u1"),
        user("go", uuid="u2"),
        user("yes"),
        user("yes"),
    )
    assert recount(main) == Count(
        responses={}, tools={}, prompts=["go", "go on", "go", "yes", "yes"], prompts_mid_turn=[]
    )


def test_damaged_and_doubled_lines(tmp_path: Path) -> None:
    both = json.dumps(user("one")) + json.dumps(reply("m1", call("t1", "Read"), out=6))
    tail, torn = json.dumps(reply("m2", out=8)) + "{", json.dumps(reply("m3"))[:-9]
    main = write(tmp_path / "s.jsonl", "\ufeff" + both, "", "{damaged", '[1, "two"]', tail, torn)
    assert recount(main) == Count(
        responses={"m1": used(6), "m2": used(8)}, tools={"t1": "Read"}, prompts=["one"], prompts_mid_turn=[]
    )
    assert recount(tmp_path / "none.jsonl") == Count(responses={}, tools={}, prompts=[], prompts_mid_turn=[])


def test_inline_sidechains_have_responses_but_no_prompts(tmp_path: Path) -> None:
    main = write(
        tmp_path / "s.jsonl",
        user("delegate"),
        reply("m1", call("t1", "Task"), out=5),
        user("look it up", isSidechain=True),
        reply("m2", call("t2", "WebSearch"), out=6, isSidechain=True),
        user([result("t2")], isSidechain=True),
        user([result("t1")]),
    )
    assert recount(main) == Count(
        responses={"m1": used(5), "m2": used(6)},
        tools={"t1": "Task", "t2": "WebSearch"},
        prompts=["delegate"],
        prompts_mid_turn=[],
    )


def test_progress_counts_only_for_agents_without_a_file(tmp_path: Path) -> None:
    main = write(
        tmp_path / f"{SESSION}.jsonl",
        reply("m1", call("t1", "Agent"), call("t2", "Agent"), out=5),
        progress("a1", user([text("look")])),
        progress("a1", reply("m2", call("t3", "Read"), out=1)),
        progress("a1", reply("m9", call("t9", "Grep"), out=1)),
        progress("a2", reply("m4", call("t4", "Glob"), out=2)),
        progress("acompact-1", reply("m5", call("t5", "Read"))),
    )
    file = write(
        tmp_path / SESSION / "subagents" / "agent-a1.jsonl",
        user("look", isSidechain=True, agentId="a1"),
        reply("m2", call("t3", "Read"), out=40, isSidechain=True, agentId="a1"),
        reply("m3", text("Seen."), out=41, isSidechain=True, agentId="a1"),
    )
    calls = {"t1": "Agent", "t2": "Agent", "t3": "Read", "t4": "Glob"}
    assert recount(main, [file]) == Count(
        responses={"m1": used(5), "m2": used(40), "m3": used(41), "m4": used(2)},
        tools=calls,
        prompts=[],
        prompts_mid_turn=[],
    )
    assert recount(main) == Count(
        responses={"m1": used(5), "m2": used(1), "m4": used(2), "m9": used(1)},
        tools=calls | {"t9": "Grep"},
        prompts=[],
        prompts_mid_turn=[],
    )


def test_agent_files_of_every_layout_without_the_ones_that_are_not_the_users(tmp_path: Path) -> None:
    main = write(tmp_path / f"{SESSION}.jsonl", user("go"))
    below = tmp_path / SESSION / "subagents"
    mine = user("look", isSidechain=True, sessionId=SESSION)
    nested = write(below / "agent-a1.jsonl", mine)
    stage = write(below / "workflows" / "wf_1" / "agent-a2.jsonl", mine)
    beside = write(tmp_path / "agent-abc1234.jsonl", mine, reply("m1", out=2))
    left_out = [
        write(below / "agent-acompact-1.jsonl", mine, reply("m2")),
        write(below / "agent-aprompt_suggestion-1.jsonl", mine, reply("m3")),
        write(tmp_path / "agent-abc1235.jsonl", user("Warmup", sessionId=SESSION), reply("m4")),
    ]
    write(tmp_path / "agent-abc1236.jsonl", user("look", sessionId="another"))
    write(below / "workflows" / "wf_1" / "journal.jsonl", mine)
    assert agent_files(main) == sorted([nested, stage, beside])
    assert recount(main, [beside, *left_out]) == Count(
        responses={"m1": used(2)}, tools={}, prompts=["go"], prompts_mid_turn=[]
    )


@pytest.mark.skipif(not SHARED.is_dir(), reason="the recordings are not part of the repository")
@pytest.mark.parametrize("name", COMPLETE)
def test_count_equals_claude_codes_own_sum(name: str) -> None:
    cache = [f"cacheCreationEphemeral{lifetime}InputTokens" for lifetime in ("5m", "1h")]
    theirs = dict(zip(USAGE, ["inputTokens", "outputTokens", "cacheReadInputTokens", *cache], strict=True))
    sessions = list((SHARED / "recordings" / name).glob("projects/*/*.jsonl"))
    assert sessions
    for main in sessions:
        lines = main.read_text("utf-8").split("\n")
        last = [line for line in lines if line.startswith('{"type":"cost-state"')][-1]
        models = json.loads(last)["modelUsage"].values()
        responses = recount(main, agent_files(main)).responses.values()
        summed = {key: sum(one[key] for one in responses) for key in USAGE}
        assert summed == {key: sum(one[theirs[key]] for one in models) for key in USAGE}


def test_advisors_are_counted_apart(tmp_path: Path) -> None:
    """Their tokens are not in the response's own usage; every line of the response repeats them."""
    line = reply("m1", text("a"), out=4)
    line["message"]["usage"]["iterations"] = [
        {"type": "message", "input_tokens": 10, "output_tokens": 4},
        {"type": "advisor_message", "model": "claude-y", "input_tokens": 70, "output_tokens": 5},
    ]
    asked = {"input": 70, "output": 5, "cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0}
    counted = recount(write(tmp_path / "s.jsonl", line, {**line, "uuid": "again"}))
    assert counted == Count({"m1": used(4)}, {}, [], [], {"m1": [("claude-y", asked)]})
