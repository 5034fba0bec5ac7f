"""Small transcripts that together hold every kind of line: what transcripts are mutated from."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
Lines: TypeAlias = list[bytes]

SESSION = "11111111-2222-4333-8444-555555555555"
OTHER = "99999999-2222-4333-8444-555555555555"
USAGE = {
    "input_tokens": 3,
    "cache_creation_input_tokens": 8,
    "cache_read_input_tokens": 20,
    "output_tokens": 5,
    "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 3},
    "server_tool_use": {"web_search_requests": 1},
    "service_tier": "standard",
    "speed": "standard",
}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
NOTICE = (
    "<task-notification>\n<task-id>{0}</task-id>\n<tool-use-id>{1}</tool-use-id>\n<status>{2}</status>\n"
    "<summary>{0} ended</summary>\n</task-notification>"
)


def lines(*parts: Json, **common: Any) -> Lines:
    """Whole lines from what is particular to each, in the order of keys that Claude Code writes."""
    made = []
    for number, part in enumerate(parts):
        before = {"parentUuid": f"{common.get('agentId', '')}u{number - 1}" if number else None, "isSidechain": False}
        after = {
            "uuid": f"{common.get('agentId', '')}u{number}",
            "timestamp": f"2026-01-02T03:04:{number:02d}.500Z",
            "cwd": "/home/dev/project",
            "sessionId": SESSION,
            "version": "2.1.325",
            "gitBranch": "main",
            "slug": "calm-river",
        }
        made.append(json.dumps({**before, **part, **after, **common, **part}, separators=(",", ":")).encode())
    return made


def user(content: Any, **more: Any) -> Json:
    return {"promptId": "p1", "type": "user", "message": {"role": "user", "content": content}, **more}


def reply(name: str, *blocks: Any, **more: Any) -> Json:
    model, stop = more.pop("model", "claude-sonnet-4-5-20250929"), more.pop("stop_reason", None)
    message: Json = {"id": name, "type": "message", "role": "assistant", "model": model, "content": list(blocks)}
    message |= {"stop_reason": stop, "usage": USAGE}
    return {"message": message, "requestId": "req_1", "type": "assistant", **more}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def use(name: str, tool: str = "Bash", **given: Any) -> Json:
    return {"type": "tool_use", "id": name, "name": tool, "input": given}


def result(name: str, content: Any = "done", **more: Any) -> Json:
    return {"tool_use_id": name, "type": "tool_result", "content": content, **more}


def system(subtype: str, **more: Any) -> Json:
    return {"type": "system", "subtype": subtype, **more}


def queue(operation: str, content: str | None = None) -> Json:
    return {"type": "queue-operation", "operation": operation, **({"content": content} if content else {})}


def progress(agent: str, call: str, line: Json) -> Json:
    data = {"type": "agent_progress", "agentId": agent, "message": line, "prompt": "look"}
    return {"type": "progress", "data": data, "parentToolUseID": call, "toolUseID": f"agent_{call}"}


def whole(value: Json) -> Lines:
    return [json.dumps(value).encode()]


_ORDINARY = lines(
    user("write a file", permissionMode="default"),
    reply("m1", {"type": "thinking", "thinking": "", "signature": "c2ln"}),
    reply("m1", use("t1", "Write", file_path="/home/dev/project/a.txt", content="a"), perTurnEffort="high"),
    user([result("t1")], toolUseResult={"type": "create", "filePath": "/home/dev/project/a.txt", "durationMs": 3}),
    reply("m1", use("t2", command="ls"), stop_reason="tool_use"),
    user([result("t2"), text("and be quick")]),
    reply("m2", text("Done."), stop_reason="end_turn"),
    system("stop_hook_summary", hookCount=1),
    system("turn_duration", durationMs=900),
)
_MEDIA = lines(
    {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {"trackedFileBackups": {}}},
    user(
        [text("what is this?"), IMAGE, {"type": "document", "source": {"type": "url", "url": "https://example.org/"}}]
    ),
    {"attachment": {"type": "prompt_snapshot", "systemPrompt": ["You"]}, "type": "attachment"},
    {"type": "api-request-blob", "hash": "cb", "message": {"role": "user", "content": [text("body")]}},
    reply("m1", {"type": "redacted_thinking", "data": "x"}, {"type": "server_tool_use", "name": "web_search"}, "bare"),
    reply("m1", use("t1", "NotebookEdit", notebook_path="n.ipynb"), use("t2", "mcp__x__shot")),
    user([result("t1"), result("t2", [text("shot"), IMAGE, {"type": "tool_reference", "tool_name": "X"}])]),
    {"type": "cost-state", "totalCostUSD": 0.25, "modelUsage": {}},
)
_COMMANDS = lines(
    user("<command-message>fix</command-message>\n<command-name>/fix</command-name>\n<command-args>it</command-args>"),
    user([text("Fix it.")], isMeta=True),
    reply("m1", text("Fixed.")),
    user("<command-name>/model</command-name>"),
    user("<local-command-stdout>Set model</local-command-stdout>"),
    user("<local-command-caveat>Caveat: the messages below</local-command-caveat>", isMeta=True),
    system("local_command", content="<local-command-stdout>ok</local-command-stdout>"),
    user("<bash-input>git status</bash-input>"),
    user("<bash-stdout>clean</bash-stdout><bash-stderr></bash-stderr>"),
    reply("m2", text("Clean.")),
)
_PEOPLE = lines(
    user('<teammate-message teammate_id="lead">go on</teammate-message>'),
    reply("m1", use("t1", command="sleep 9"), isAbortedMidStream=True),
    user([result("t1", "[Request interrupted by user for tool use]", is_error=True)], toolDenialKind="user-rejected"),
    user([text("[Request interrupted by user for tool use]")]),
    user("<system-reminder>\nbe kind\n</system-reminder>"),
    user(f"Implement the following plan, see {OTHER}.jsonl", planContent="plan", origin={"kind": "auto-continuation"}),
    reply("m2", text("Planned."), use("t2", command="ls")),
)
_TROUBLE = lines(
    user("start"),
    system("api_error", error={"status": 529, "cause": {"code": "ECONNRESET"}}, retryAttempt=1, maxRetries=10),
    reply("m1", text("API Error: 529"), model="<synthetic>", isApiErrorMessage=True),
    user("unanswered"),
    user("again"),
    reply("m2", use("t1", command="false")),
    user([result("t1", "Exit code 1\nno", is_error=True)], toolUseResult="Error: Exit code 1"),
    reply("m3", text("No response requested."), model="<synthetic>"),
    {"type": "summary", "summary": "Trouble", "leafUuid": "u1"},
)
_COMPACTED = lines(
    user("a long task"),
    reply("m1", text("Working.")),
    system("compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 9}, logicalParentUuid="u0"),
    user("This session is being continued from a previous conversation.", isCompactSummary=True),
    reply("m1", text("Going on.")),
    system("microcompact_boundary", microcompactMetadata={"tokensSaved": 4}),
    user("next"),
    reply("m2", text("Next.")),
)
_BACKGROUND = lines(
    user("delegate"),
    reply("m1", use("t1", "Agent", prompt="look", subagent_type="Explore", run_in_background=True)),
    user(
        [result("t1", [text("launched")])], toolUseResult={"isAsync": True, "status": "async_launched", "agentId": "a1"}
    ),
    reply("m2", text("Started.")),
    user(NOTICE.format("a1", "t1", "completed"), origin={"kind": "task-notification"}, promptId="p2"),
    reply("m3", use("t2", "SendMessage", to="a1", message="more")),
    user([result("t2")], toolUseResult={"agentId": "a1"}),
)
_AGENT = lines(
    user("look"),
    reply("a1m1", use("a1t1", "Task", prompt="deeper", subagent_type="Plan")),
    user([result("a1t1")], toolUseResult={"agentId": "a2", "totalTokens": 4, "usage": USAGE}),
    reply("a1m2", text("Found.")),
    user("more"),
    reply("a1m3", text("No more.")),
    agentId="a1",
    isSidechain=True,
)
_NESTED = lines(user("deeper"), reply("a2m1", text("Deep.")), agentId="a2", isSidechain=True)
_QUEUED = lines(
    queue("enqueue", "go"),
    queue("dequeue"),
    user("go"),
    reply("m1", use("t1", command="sleep 9", run_in_background=True)),
    user([result("t1")], toolUseResult={"backgroundTaskId": "b1"}),
    queue("enqueue", "hurry"),
    queue("remove"),
    {"attachment": {"type": "queued_command", "prompt": "hurry"}, "type": "attachment"},
    {"attachment": {"type": "queued_command", "prompt": NOTICE.format("b1", "t1", "failed")}, "type": "attachment"},
    reply("m2", text("Failed.")),
    queue("enqueue", NOTICE.format("b2", "t1", "completed")),
    queue("popAll"),
)
_WORKFLOW = lines(
    user("run the workflow"),
    reply("m1", use("t1", "Workflow", script="s")),
    user([result("t1")], toolUseResult={"runId": "wf_1", "taskId": "w1", "isAsync": True}),
    system("turn_duration", durationMs=70),
    user(NOTICE.format("w1", "t1", "killed")),
    reply("m2", text("It was killed.")),
)
_STAGE = lines(user("stage"), reply("a3m1", use("a3t1", command="ls")), agentId="a3", isSidechain=True)
_SIDECHAIN = lines(
    user("ask an agent"),
    reply("m1", use("t1", "Task", prompt="first", subagent_type="general-purpose")),
    user("first", isSidechain=True),
    reply("s1", use("st1", command="ls"), isSidechain=True),
    user([result("st1")], isSidechain=True),
    reply("s2", text("Seen."), isSidechain=True),
    user([result("t1")]),
    reply("m2", text("Answered.")),
    version="1.0.51",
)
_PROGRESS = lines(
    user("ask an agent"),
    reply("m1", use("t1", "Task", prompt="look"), use("t2", "Task", prompt="deeper")),
    progress("g1", "t1", user("look", uuid="g1u0", timestamp="2026-01-02T03:04:05Z")),
    progress("g1", "t1", reply("g1m1", use("g1t1", command="ls"), uuid="g1u1", timestamp="2026-01-02T03:04:06Z")),
    progress("g1", "t1", user([result("g1t1")], uuid="g1u2")),
    {"type": "progress", "data": {"type": "bash_progress", "output": "x"}, "toolUseID": "t1"},
    user([result("t1")], toolUseResult={"agentId": "g1", "totalDurationMs": 5}),
    user([result("t2")], toolUseResult={"agentId": "a2"}),
    version="2.0.77",
)
_SIMPLE = [
    b'{"type":"user","content":"list the files","timestamp":"2026-01-02T03:04:05Z"}',
    b'{"message":{"role":"assistant","content":"I will.","timestamp":"2026-01-02T03:04:06Z"}}',
    b'{"type":"tool_use","name":"Bash","input":{"command":"ls"},"timestamp":"2026-01-02T03:04:07Z"}',
    b'{"type":"tool_result","content":"a.txt","timestamp":"2026-01-02T03:04:08Z"}',
    b'{"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"a.txt"}}',
    b'{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"a"}],"is_error":true}',
    b'{"type":"assistant","message":"There is one."}',
    b'{"type":"user","message":"thanks"}{"type":"assistant","message":{"content":"Welcome."}}',
    b'{"role":"user"}',
    b'["no","object"]',
    b"",
]
_COPIED = [
    *lines(
        user("first"), reply("m1", use("t1")), user([result("t1")]), sessionId=OTHER, forkedFrom={"sessionId": OTHER}
    ),
    *lines(user("first"), reply("m1", use("t1")), user([result("t1")]), reply("m1", text("One."))),
    *lines(user("second", uuid="u9"), reply("m2", text("Two."), uuid="u10"), session_id=OTHER, entrypoint="cli"),
]
_META = {"agentType": "Explore", "description": "look around", "toolUseId": "t1", "name": "scout"}
_SUBAGENTS = f"{SESSION}/subagents"

# Each seed is a folder; its first file is the main one.
MAIN = f"{SESSION}.jsonl"
SEEDS: tuple[dict[str, Lines], ...] = (
    *({MAIN: part} for part in (_ORDINARY, _MEDIA, _COMMANDS, _PEOPLE, _TROUBLE, _COMPACTED, _QUEUED, _COPIED)),
    {MAIN: _SIDECHAIN},
    {MAIN: _PROGRESS, "agent-a2.jsonl": _NESTED},
    {"renamed.jsonl": _SIMPLE},
    {"agent-a1.jsonl": _AGENT},
    {
        MAIN: _BACKGROUND,
        f"{_SUBAGENTS}/agent-a1.jsonl": _AGENT,
        f"{_SUBAGENTS}/agent-a1.meta.json": whole(_META),
        f"{_SUBAGENTS}/agent-a2.jsonl": _NESTED,
        f"{_SUBAGENTS}/agent-a2.meta.json": whole({"toolUseId": "a1t1", "parentAgentId": "a1"}),
    },
    {
        MAIN: _WORKFLOW,
        f"{_SUBAGENTS}/workflows/wf_1/agent-a3.jsonl": _STAGE,
        f"{_SUBAGENTS}/workflows/wf_1/journal.jsonl": whole({"agentId": "a3", "label": "build"}),
    },
)
EVERY_LINE = tuple(line for seed in SEEDS for part in seed.values() for line in part if b'"sessionId"' in line)
