"""What a line is: every kind told apart, every format read, and nothing that a line can hold ends the reading."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, get_args

import pytest
from lines import (
    MODEL,
    compact_boundary,
    encoded,
    entries,
    line,
    ns,
    prompt,
    reply,
    result,
    retry,
    session,
    stamp,
    stop_hook_summary,
    text,
    thinking,
    tool_use,
    turn_duration,
)

from cc_trace.cli import main as command_line
from cc_trace.spans.session import Session
from cc_trace.transcript.entries import (
    CommandOutput,
    Compaction,
    Context,
    Entry,
    FileChange,
    Goal,
    Head,
    Hook,
    Injected,
    Interrupt,
    ModeChange,
    Notification,
    Other,
    Permission,
    Progress,
    Prompt,
    Queue,
    QueuedPrompt,
    Reply,
    RequestSent,
    Results,
    Retry,
    RunFacts,
    SessionNote,
    Skipped,
    StopHook,
    StructuredOutput,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    Totals,
    TurnEnd,
    TurnLimit,
    Usage,
)
from cc_trace.transcript.lines import Line as RawLine
from cc_trace.transcript.parse import parse
from cc_trace.turns import Seen, assemble

if TYPE_CHECKING:
    from pathlib import Path

    from lines import Line

    from cc_trace.transcript.entries import Block

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
SHOWN_IMAGE = "[image image/png, 5 bytes, sha256 of base64 333d6b3a3c1f5db6]"
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}
OLD_SESSION = "99999999-0000-4000-8000-000000000009"


def said(entry: Entry) -> tuple[object, ...]:
    """An entry's kind and what it says, without what all lines have."""
    return type(entry), *entry[1:]


def only(item: Line | str | bytes) -> tuple[object, ...]:
    """What a line that holds one entry says."""
    (entry,) = entries(item)
    return said(entry)


def answer(*blocks: Block, **more: object) -> tuple[object, ...]:
    """A response of the simple formats: nothing but its blocks, or what is given."""
    return said(Reply(None, None, None, None, blocks, None, None)._replace(**more))  # type: ignore[arg-type]


# User lines

RESULT = ToolResult("t1", "x")
NOTE = "<task-notification>\n<task-id>b1</task-id><status>failed</status><summary>No</summary></task-notification>"
CONTINUED = "This session is being continued from a previous conversation that ran out of context."
WAITS = (
    "<task-notification><task-id>a1</task-id><status>completed</status>"
    '<summary>Agent "x" is waiting on its own background work</summary></task-notification>'
)
PLAN = f"Implement the following plan:\n…read the full transcript at: /p/{OLD_SESSION}.jsonl"
USER_LINES: dict[str, tuple[Line, tuple[object, ...]]] = {
    "a string": (prompt("hello", permissionMode="plan"), (Prompt, "prompt", "hello", None, "plan", None)),
    "text blocks": (prompt([text("a"), text("b")]), (Prompt, "prompt", "a\nb", None, None, None)),
    "an image": (prompt([text("see"), IMAGE]), (Prompt, "prompt", f"see\n{SHOWN_IMAGE}", None, None, None)),
    "a tool result": (prompt([TOOL_RESULT]), (Results, (RESULT,), None, False)),
    "a result and typed words": (prompt([TOOL_RESULT, text("and this")]), (Results, (RESULT,), "and this", False)),
    "a result and an interrupt": (
        prompt([TOOL_RESULT, text("[Request interrupted by user for tool use]")]),
        (Results, (RESULT,), None, False),
    ),
    "the result that ends a turn": (
        prompt([TOOL_RESULT], toolEndsTurn=True),
        (Results, (RESULT,), None, True),
    ),
    "a Stop hook's feedback": (
        prompt("Stop hook feedback:\n[check]: go on", isMeta=True),
        (Injected, "Stop hook feedback:\n[check]: go on", True),
    ),
    "isMeta": (prompt("scaffolding", isMeta=True), (Injected, "scaffolding", False)),
    "a reminder": (
        prompt("<system-reminder>x</system-reminder>"),
        (Injected, "<system-reminder>x</system-reminder>", False),
    ),
    "a slash command": (
        prompt("<command-name>/fix</command-name>\n<command-args>it </command-args>"),
        (Prompt, "command", "/fix it", "fix", None, None),
    ),
    "a slash command, message first": (
        prompt("<command-message>fix</command-message>\n<command-name>/fix</command-name>"),
        (Prompt, "command", "/fix", "fix", None, None),
    ),
    "a command's output": (
        prompt("<local-command-stdout>ok</local-command-stdout>"),
        (CommandOutput, "<local-command-stdout>ok</local-command-stdout>"),
    ),
    "a caveat": (prompt("<local-command-caveat>…</local-command-caveat>"), (Skipped, "local-command-caveat")),
    "a caveat of old": (prompt("Caveat: the messages below", isMeta=True), (Skipped, "local-command-caveat")),
    "a shell command": (
        prompt("<bash-input>ls -l</bash-input>"),
        (Prompt, "bash", "!ls -l", "ls -l", None, None),
    ),
    "a shell command's output": (
        prompt("<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>"),
        (CommandOutput, "<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>"),
    ),
    "an interrupt": (
        prompt([text("[Request interrupted by user]")]),
        (Interrupt, "[Request interrupted by user]"),
    ),
    "a marked summary": (prompt("So far: …", isCompactSummary=True), (Compaction, "So far: …", {})),
    "a summary": (prompt(CONTINUED), (Compaction, CONTINUED, {})),
    "a notification": (prompt(NOTE), (Notification, NOTE, "b1", None, "failed", "No", False)),
    "a notification by its origin": (
        prompt("Task ended", origin={"kind": "task-notification"}),
        (Notification, "Task ended", None, None, None, None, False),
    ),
    "an agent that waits for its own tasks": (
        prompt(WAITS),
        (Notification, WAITS, "a1", None, "completed", 'Agent "x" is waiting on its own background work', True),
    ),
    "a message to an agent": (
        prompt("The coordinator sent a message: more", isMeta=True, origin={"kind": "coordinator"}),
        (Prompt, "teammate", "The coordinator sent a message: more", None, None, None),
    ),
    "a teammate's message": (
        prompt('<teammate-message teammate_id="ann">hi</teammate-message>'),
        (Prompt, "teammate", '<teammate-message teammate_id="ann">hi</teammate-message>', None, None, None),
    ),
    "a plan": (prompt(PLAN, planContent="…"), (Prompt, "continuation", PLAN, None, None, OLD_SESSION)),
    "a continuation": (
        prompt("go on", origin={"kind": "auto-continuation"}),
        (Prompt, "continuation", "go on", None, None, None),
    ),
    "nothing": (prompt(""), (Skipped, "empty user line")),
}


@pytest.mark.parametrize("kind", USER_LINES)
def test_user_lines_are_told_apart(kind: str) -> None:
    """Only one in ten lines of type "user" is something that a person typed."""
    item, expected = USER_LINES[kind]
    assert expected == only(item)


NO_HEAD = Head(0, 0, None, None, None, sidechain=False, agent_id=None, prompt_id=None, context=Context())
OTHER_LINES: list[tuple[Line, tuple[object, ...]]] = [
    (turn_duration(1500, at=1), (TurnEnd, 1500, ())),
    (stop_hook_summary(at=1), (TurnEnd, None, ())),
    (
        line(
            "system",
            1,
            subtype="stop_hook_summary",
            hookInfos=[{"command": "lint", "durationMs": 70}, {"command": "check"}, {"command": 1}, "x"],
            hookErrors=["[check]: go on", 1],
        ),
        (TurnEnd, None, (StopHook("lint", 70), StopHook("check", None, "[check]: go on"))),
    ),
    (
        line(
            "attachment",
            1,
            attachment={
                "type": "hook_success",
                "hookEvent": "UserPromptSubmit",
                "content": "be brief",
                "stdout": "be brief\n",
                "exitCode": 0,
                "command": "advise",
                "durationMs": 12,
                "toolUseID": "h1",
            },
            rendered=[{"content": "<system-reminder>be brief</system-reminder>"}],
        ),
        (
            Hook,
            "UserPromptSubmit",
            "advise",
            "be brief",
            "<system-reminder>be brief</system-reminder>",
            12,
            0,
            False,
            False,
            False,
            "h1",
        ),
    ),
    (
        line(
            "attachment",
            1,
            attachment={
                "type": "hook_blocking_error",
                "hookEvent": "PostToolUse",
                "blockingError": {"blockingError": "no", "command": "check"},
                "toolUseID": "t1",
            },
        ),
        (Hook, "PostToolUse", "check", "no", "no", None, None, True, False, False, "t1"),
    ),
    (
        line(
            "attachment",
            1,
            attachment={
                "type": "hook_non_blocking_error",
                "hookEvent": "Stop",
                "stderr": "oops",
                "exitCode": 1 << 40,
                "command": "check",
                "durationMs": "x",
            },
        ),
        (Hook, "Stop", "check", "oops", "", 0, None, False, True, False, None),
    ),
    (
        line(
            "attachment",
            1,
            attachment={"type": "hook_stopped_continuation", "hookEvent": "PostToolUse", "message": "enough"},
        ),
        (Hook, "PostToolUse", None, "enough", "", None, None, True, False, True, None),
    ),
    (line("attachment", 1, attachment={"type": "hook_success"}), (Skipped, "attachment/hook_success")),
    (line("attachment", 1, attachment={"type": "max_turns_reached", "maxTurns": 3}), (TurnLimit, 3)),
    (
        line("system", 1, subtype="run", init={"model": "m", "tools": ["Bash", 1]}, result={"num_turns": 2, "x": "y"}),
        (RunFacts, {"model": "m", "tools": ["Bash"], "num_turns": 2}),
    ),
    (line("permission-mode", 1, permissionMode="plan"), (ModeChange, "plan")),
    (line("permission-mode", 1, permissionMode=3), (Skipped, "permission-mode")),
    (line("file-history-delta", 1, trackingPath="a.py", messageId="u1"), (FileChange, "a.py", "u1")),
    (line("file-history-delta", 1), (Skipped, "file-history-delta")),
    (line("custom-title", 1, customTitle="Mine"), (SessionNote, "custom-title", "Mine", None)),
    (line("ai-title", 1, aiTitle="Its"), (SessionNote, "ai-title", "Its", None)),
    (line("ai-title", 1, aiTitle=None), (Skipped, "ai-title")),
    (
        line("pr-link", 1, prNumber=3, prUrl="https://example.org/pull/3", prRepository="a/b"),
        (SessionNote, "pr-link", {"number": 3, "url": "https://example.org/pull/3", "repository": "a/b"}, None),
    ),
    (
        line("worktree-state", 1, worktreeSession={"originalCwd": "/r", "worktreePath": "/w/x", "worktreeName": "x"}),
        (SessionNote, "worktree-state", {"originalCwd": "/r", "worktreePath": "/w/x", "worktreeName": "x"}, None),
    ),
    (
        line("worktree-state", 1, worktreeSession=None),
        (SessionNote, "worktree-state", {"originalCwd": None, "worktreePath": None, "worktreeName": None}, None),
    ),
    (compact_boundary(at=1), (Compaction, None, {"trigger": "auto", "preTokens": 167_731})),
    (retry(at=1), (Retry, "HTTP 529", {"retryAttempt": 1, "maxRetries": 10}, 529, None)),
    (line("system", 1, subtype="informational"), (Skipped, "system/informational")),
    (line("queue-operation", 1, operation="enqueue", content="more"), (Queue, "enqueue", "more")),
    (
        line("attachment", 1, attachment={"type": "queued_command", "prompt": "more", "commandMode": "prompt"}),
        (QueuedPrompt, "more"),
    ),
    (line("attachment", 1, attachment={"type": "prompt_snapshot"}), (Skipped, "attachment/prompt_snapshot")),
    (
        line("attachment", 1, attachment={"type": "structured_output", "data": {"a": 1}, "toolUseID": "t1"}),
        (StructuredOutput, '{"a":1}', "t1"),
    ),
    (line("attachment", 1, attachment={"type": "structured_output"}), (Skipped, "attachment/structured_output")),
    (line("attachment", 1, attachment={"type": "goal_status", "met": False}), (Goal, False)),
    (line("attachment", 1, attachment={"type": "goal_status"}), (Skipped, "attachment/goal_status")),
    (
        line("progress", 1, data={"type": "agent_progress", "agentId": "a1", "message": {}}, parentToolUseID="t1"),
        (Progress, "a1", "t1", Skipped(NO_HEAD, "no type")),
    ),
    (line("progress", 1, data={"type": "bash_progress"}), (Skipped, "progress")),
    (line("cost-state", 1, totalCostUSD=0.25), (Totals, 0.25, {})),
    (
        line(
            "api-request",
            1,
            id="r1",
            querySource="sdk",
            keep=2,
            tail=["x"],
            params={
                "model": "claude-x",
                "max_tokens": 9,
                "thinking": {"type": "enabled", "budget_tokens": 5},
                "betas": ["b", 1],
            },
        ),
        (
            RequestSent,
            "r1",
            {
                "requested_model": "claude-x",
                "max_tokens": 9,
                "thinking": "enabled",
                "thinking_budget": 5,
                "betas": ["b"],
                "query_source": "sdk",
            },
            3,
        ),
    ),
    (line("api-request", 1), (Skipped, "api-request")),
    (line("summary", 1, summary="Fixed it", leafUuid="u1"), (SessionNote, "summary", "Fixed it", "u1")),
    (line("brand-new", 1), (Skipped, "unknown type brand-new")),
    ({"uuid": "x"}, (Skipped, "no type")),
    (reply("m1", "meta", at=1, isMeta=True), (Skipped, "meta response")),
]


@pytest.mark.parametrize(("item", "expected"), OTHER_LINES)
def test_other_lines_are_told_apart(item: Line, expected: tuple[object, ...]) -> None:
    assert expected == only(item)


@pytest.mark.parametrize(("item", "expected"), [*USER_LINES.values(), *OTHER_LINES])
def test_field_order_does_not_matter(item: Line, expected: tuple[object, ...]) -> None:
    """A line's type stands first, last or in the middle, depending on the version and on the type."""
    assert expected == only(dict(reversed(item.items())))


def test_several_notifications_on_one_line_are_all_read() -> None:
    """Tasks that end at the same time share a line."""
    one = "<task-notification><task-id>b1</task-id><status>completed</status></task-notification>"
    two = "<task-notification><task-id>b2</task-id><status>failed</status></task-notification>"
    found = [each[2] for each in entries(prompt(f"{one}\n{two}")) if isinstance(each, Notification)]
    assert found == ["b1", "b2"]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            {"permissionDecision": {"decision": "accept", "source": "user_permanent", "reasonType": "rule"}},
            Permission("accept", "user_permanent", "rule"),
        ),
        (
            {"permissionDecision": {"decision": "accept", "source": "user_temporary", "reasonCode": "unknown"}},
            Permission("accept", "user_temporary", None, asked=True),
        ),
        (
            {
                "permissionDecision": {
                    "decision": "reject",
                    "source": "hook",
                    "reasonType": "hook",
                    "reasonCode": "hook:PreToolUse",
                },
                "toolDenialKind": "permission-rule",
            },
            Permission("reject", "hook", "hook:PreToolUse"),
        ),
        ({"toolDenialKind": "user-rejected"}, Permission("reject", None, "user-rejected", asked=True)),
        ({"toolDenialKind": "interrupted"}, None),
        ({"permissionDecision": "yes"}, None),
        ({"permissionDecision": {"decision": 1, "source": []}}, None),
        (
            {"permissionDecision": {"decision": "x" * 999, "source": "y" * 999}},
            Permission("x" * 64, "y" * 64, None),
        ),
    ],
)
def test_permission_decision_is_read(told: Line, expected: Permission | None) -> None:
    (entry,) = entries(result("t1", at=1, **told))
    assert isinstance(entry, Results)
    assert entry.results[0].permission == expected


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"structuredPatch": [{"lines": [" a", "-b", "+c", "+d"]}, {"lines": ["-e"]}]}, (2, 2)),
        ({"structuredPatch": [], "type": "create", "content": "a\nb\n"}, (2, 0)),
        ({"structuredPatch": [], "type": "create", "content": "a\nb"}, (2, 0)),
        ({"structuredPatch": [], "type": "create", "content": ""}, (0, 0)),
        ({"structuredPatch": [], "type": "update", "content": "a"}, (0, 0)),
        ({"structuredPatch": [{"lines": [1, None]}, {"lines": "+"}, 7]}, (0, 0)),
        ({"structuredPatch": None}, (0, 0)),
        ({"stdout": "x"}, None),
    ],
)
def test_changed_lines_are_counted(told: Line, expected: tuple[int, int] | None) -> None:
    """By the patch; a new file has none."""
    (entry,) = entries(result("t1", at=1, told=told))
    assert isinstance(entry, Results)
    assert entry.results[0].lines == expected


def test_a_response_is_read_whole() -> None:
    """Its usage, circumstances and every block, in order."""
    blocks = [
        text("Hi"),
        thinking(),
        thinking("hm"),
        {"type": "redacted_thinking", "data": "…"},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        IMAGE,
        {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}},
        tool_use("t1", "Write", file_path="/a"),
        {"type": "brand_new"},
    ]
    found = (
        Text("Hi"),
        Thinking(""),
        Thinking("hm"),
        Thinking("", redacted=True),
        Other("server_tool_use", "[server_tool_use web_search]"),
        Other("web_search_tool_result", "[web_search_tool_result s1]"),
        Other("image", SHOWN_IMAGE),
        Other("document", "[document url https://example.org/a.pdf]"),
        ToolUse("t1", "Write", {"file_path": "/a"}, file_path="/a"),
        Other("brand_new", "[brand_new]"),
    )
    usage = {"input_tokens": 3, "output_tokens": 4, "speed": "standard", "service_tier": "priority"}
    took = {"thinkingDurationMs": 12.5, "toolInputStreamMs": 7}
    item = reply("m1", *blocks, at=1, usage=usage, perTurnEffort="high", message={"stop_reason": "end_turn"}, **took)
    (entry,) = entries(item)
    expected = (Reply, "m1", "req_m1", MODEL, found, Usage(3, 4), "end_turn", False, False, None)
    assert (*expected, "high", "standard", "priority", (), None, 12.5, 7, None, None) == said(entry)
    assert entry.head is not None
    assert entry.head.time_ns == ns(1)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"cache_creation_input_tokens": 30}, Usage(cache_write_5m=30, split=False)),
        ({"cache_creation_input_tokens": 30, "cache_creation": {}}, Usage(cache_write_5m=30, split=False)),
        (
            {"cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20}},
            Usage(cache_write_5m=10, cache_write_1h=20),
        ),
        (
            {"cache_creation_input_tokens": 30, "cache_creation": {"ephemeral_1h_input_tokens": 20}},
            Usage(cache_write_5m=10, cache_write_1h=20),
        ),
        (
            {"cache_read_input_tokens": 7, "server_tool_use": {"web_search_requests": 2}, "speed": "fast"},
            Usage(cache_read=7, web_searches=2, fast=True),
        ),
        ({"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 7}}, Usage(output=9, thinking=7)),
        ({"output_tokens_details": {"thinking_tokens": "7"}}, Usage()),
        ({"output_tokens_details": [7]}, Usage()),
        ({"input_tokens": -1, "output_tokens": True, "cache_read_input_tokens": "9"}, Usage()),
        ("none", None),
    ],
)
def test_usage(written: object, expected: Usage | None) -> None:
    """Writes for five minutes and for an hour are apart where the line says so, else all are for five minutes."""
    (entry,) = entries(reply("m1", at=1, usage=written))
    assert isinstance(entry, Reply)
    assert expected == entry.usage


def test_the_usage_of_two_lines_is_the_maximum_of_each_count() -> None:
    early, late = Usage(10, 1, 50, 5, 0, 1, fast=False), Usage(10, 90, 40, 0, 6, 0, fast=True)
    expected = Usage(10, 90, 50, 5, 6, 1, fast=True)
    assert expected == early.maximum(late) == late.maximum(early)


def test_cache_writes_that_only_one_line_tells_apart_are_counted_once() -> None:
    """The same writes, once as a sum and once split into 5m and 1h, are not added up."""
    summed, split = Usage(10, 1, 0, 6, 0, split=False), Usage(10, 90, 0, 2, 4)
    assert Usage(10, 90, 0, 2, 4) == summed.maximum(split) == split.maximum(summed)


# The simpler formats of the specification

CALL = ToolUse("t1", "Bash", {"command": "ls"})
SIMPLE_LINES: dict[str, tuple[Line, tuple[object, ...]]] = {
    "role without type": (
        {"message": {"id": "m1", "role": "assistant", "content": [text("hi")]}},
        answer(Text("hi"), message_id="m1"),
    ),
    "content at top level": ({"type": "user", "content": "hello"}, (Prompt, "prompt", "hello", None, None, None)),
    "results at top level": ({"type": "user", "content": [TOOL_RESULT]}, (Results, (RESULT,), None, False)),
    "content as a string": ({"message": {"role": "assistant", "content": "hi"}}, answer(Text("hi"))),
    "message as a string": ({"type": "user", "message": "hello"}, (Prompt, "prompt", "hello", None, None, None)),
    "answer as a string": ({"type": "assistant", "message": "hi"}, answer(Text("hi"))),
    "meta without type": (
        {"message": {"role": "assistant", "content": "x"}, "isMeta": True},
        (Skipped, "meta response"),
    ),
    "tool_use": ({"type": "tool_use", "name": "Bash", "input": {"command": "ls"}, "tool_use_id": "t1"}, answer(CALL)),
    "tool_use by id": ({"type": "tool_use", "name": "Bash", "input": {"command": "ls"}, "id": "t1"}, answer(CALL)),
    "tool_use without id": (
        {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}},
        answer(CALL._replace(id="")),
    ),
    "tool_result": ({"type": "tool_result", "content": "x", "tool_use_id": "t1"}, (Results, (RESULT,), None, False)),
    "tool_result without id": (
        {"type": "tool_result", "content": "x", "is_error": True},
        (Results, (ToolResult("", "x", is_error=True),), None, False),
    ),
}


@pytest.mark.parametrize("spaces", [True, False])
@pytest.mark.parametrize("kind", SIMPLE_LINES)
def test_simple_formats(kind: str, *, spaces: bool) -> None:
    """The same with and without spaces after colons, which is how a line is told to be skipped before parsing."""
    item, expected = SIMPLE_LINES[kind]
    assert expected == only(json.dumps(item) if spaces else encoded(item))


def test_a_timestamp_can_be_inside_the_message() -> None:
    """The line's own comes first; what is no time is none."""
    told: list[Line] = [{"timestamp": stamp(5)}, {"timestamp": "soon"}, {"timestamp": 5}, {}]
    inside = [{"type": "user", "message": {"role": "user", "content": "x", **time}} for time in told]
    outside = [{**item, "timestamp": stamp(9)} for item in inside]
    times = [entry.head and entry.head.time_ns for item in (*inside, *outside) for entry in entries(item)]
    assert times == [ns(5), None, None, None, ns(9), ns(9), ns(9), ns(9)]


ALL_LINES = [*USER_LINES.values(), *OTHER_LINES, *SIMPLE_LINES.values()]


def test_every_kind_of_entry_has_a_line_above() -> None:
    """A new one needs an example here; mypy asks for it where turns are assembled."""
    assert {expected[0] for _, expected in ALL_LINES} == set(get_args(Entry))


@pytest.mark.parametrize("item", [item for item, _ in ALL_LINES])
def test_every_kind_of_entry_can_stand_anywhere(item: Line) -> None:
    """Before, in, and after a turn: a line in an unusual place ends nothing."""
    turn = [prompt("go", 0), reply("m0", "done", at=1)]
    for order in ([item, *turn], [turn[0], item, turn[1]], [*turn, item]):
        read = [entry for each in order for entry in entries(each)]
        keys = [step.key for made in assemble(read, Seen()) for step in made.generations]
        assert "m0" in keys


# Lines that are skipped, and lines that are malformed


@pytest.mark.parametrize("kind", ["api-request-blob", "file-history-snapshot", "last-prompt"])
def test_heavy_lines_are_not_parsed(kind: str) -> None:
    """They are told by their beginning: the rest of these is not even JSON."""
    assert only(f'{{"type":"{kind}","body":{{"no json') == (Skipped, kind)
    snapshot = '{"parentUuid":null,"attachment":{"type":"prompt_snapshot","no json'
    assert only(snapshot) == (Skipped, "attachment/prompt_snapshot")


GOOD = encoded(prompt("go"))
# fmt: off
BYTES: dict[str, tuple[bytes, list[tuple[object, ...]]]] = {
    "a blank line": (b"  \r", []),
    "an unfinished object": (GOOD[:-1], [(Skipped, "malformed line")]),
    "an unfinished type": (b'{"type":"us', [(Skipped, "malformed line")]),
    "a type without end": (b'{"type":"' + b"x" * 999, [(Skipped, "malformed line")]),
    "no JSON": (b"<html>", [(Skipped, "malformed line")]),
    "no object": (b"[1]", [(Skipped, "not an object")]),
    "two objects": (GOOD + GOOD, [(Skipped, "several objects on one line"), *[(Prompt, "prompt", "go")] * 2]),
    "two objects, the first one heavy": (
        b'{"type":"file-history-snapshot","snapshot":{}}' + GOOD,
        [(Skipped, "several objects on one line"), (Skipped, "file-history-snapshot"), (Prompt, "prompt", "go")],
    ),
    "an object and damage": (GOOD + b'{"type":', [(Skipped, "repaired line"), (Prompt, "prompt", "go")]),
    "CRLF": (GOOD + b"\r", [(Prompt, "prompt", "go")]),
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD, [(Skipped, "repaired line"), (Prompt, "prompt", "go")]),
    "NUL": (b"\x00\x00" + GOOD, [(Skipped, "repaired line"), (Prompt, "prompt", "go")]),
    "only NUL": (b"\x00" * 9, [(Skipped, "malformed line")]),
    "invalid UTF-8": (
        GOOD.replace(b"go", b"g\xffo"), [(Skipped, "repaired line"), (Prompt, "prompt", "g\ufffdo")]
    ),
    "a lone surrogate": (
        GOOD.replace(b"go", rb"g\ud83do"), [(Skipped, "repaired line"), (Prompt, "prompt", "g?o")]
    ),
    "deeper than any parser": (b'{"type":"user","content":' + b"[" * 100_000, [(Skipped, "malformed line")]),
}
# fmt: on


@pytest.mark.parametrize("what", BYTES)
def test_damage_is_counted_and_what_can_be_read_is(what: str) -> None:
    data, expected = BYTES[what]
    assert expected == [said(entry)[:3] for entry in entries(data)]


@pytest.mark.parametrize("what", BYTES)
def test_damaged_line_does_not_end_a_turn(tmp_path: Path, what: str) -> None:
    """The lines around it are a turn, and it is counted by what it is."""
    data, expected = BYTES[what]
    read = Session(session(tmp_path, prompt("before"), data, reply("m1", "after", at=1)))
    found = list(read.spans())
    assert [(span.kind, span.output) for span in found][:1] == [("turn", "after")]
    reasons = [reason for kind, reason, *_ in expected if kind is Skipped]
    assert read.summary.skipped == {reason: reasons.count(reason) for reason in reasons} | repeats(what)


def repeats(what: str) -> dict[str, int]:
    """The same prompt twice on one line is a copy of itself."""
    return {"repeated line": 1} if what == "two objects" else {}


DEEP = '{"a":' * 300 + "1" + "}" * 300


@pytest.mark.parametrize(
    "item",
    [
        encoded(reply("m1", tool_use("t1", given="HERE"), at=1)).replace(b'"HERE"', DEEP.encode()),
        b"\x00" + encoded(reply("m1", "ok", at=1, usage={"input_tokens": 10**30})),
        b"\x00" + encoded(reply("m1", tool_use("t1", given=10**30), at=1)),
    ],
    ids=["a deep input", "a huge count", "a huge number"],
)
def test_unusual_values_can_be_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str], item: bytes) -> None:
    """JSON can be nested deeper, and hold longer numbers, than what writes JSON accepts."""
    main = session(tmp_path, prompt("go"), item)
    assert (command_line(["show", str(main)]), command_line(["show", str(main), "--json"])) == (0, 0)
    assert capfd.readouterr().err == ""


def test_a_line_of_50_megabytes_is_read(tmp_path: Path) -> None:
    """Lines of 2 MB exist; this one is held, and whatever is longer than 64 MB is counted instead."""
    size = 50 << 20
    main = session(tmp_path, prompt("go"), reply("m1", tool_use("t1"), at=1), result("t1", "x" * size, at=2))
    (tool,) = [span for span in Session(main).spans() if span.kind == "tool"]
    assert isinstance(tool.output, str)
    assert len(tool.output) == size


def test_a_line_too_long_to_hold_is_counted() -> None:
    assert [said(entry) for entry in parse(RawLine(0, 0, None))] == [(Skipped, "line too long")]


def test_an_empty_file_is_a_session_without_turns(tmp_path: Path) -> None:
    read = Session(session(tmp_path))
    assert (list(read.spans()), read.summary.turns, dict(read.summary.skipped)) == ([], 0, {})


def test_missing_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a value: OSError for a program, one line and exit code 2 for a person."""
    missing = tmp_path / "missing.jsonl"
    with pytest.raises(OSError, match="missing"):
        list(Session(missing).spans())
    assert command_line(["show", str(missing)]) == 2
    fix = "pass the path of a transcript (.jsonl) or a session id"
    assert capsys.readouterr() == ("", f"cc-trace: no transcript at {missing}; {fix}\n")


@pytest.mark.parametrize("field", ["cwd", "gitBranch", "sessionId", "version"])
def test_context_value_with_nul_is_dropped(field: str) -> None:
    """No path and no id has one: a folder with a NUL can be neither opened nor asked for."""
    item = prompt("hi", cwd="/work", gitBranch="main") | {field: "a\0b"}
    (entry,) = entries(item)
    assert entry.head is not None
    context = entry.head.context
    known = {"cwd": "/work", "gitBranch": "main", "sessionId": item["sessionId"], "version": item["version"]}
    names = {"cwd": "cwd", "gitBranch": "git_branch", "sessionId": "session_id", "version": "version"}
    expected = {name: None if name == field else value for name, value in known.items()}
    assert {name: getattr(context, attribute) for name, attribute in names.items()} == expected
