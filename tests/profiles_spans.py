"""The spans that every profile is tried with, and what the GenAI conventions say of them besides their content."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cc_trace.export.profiles import Labels
from cc_trace.spans.model import Response, Span, Tool
from cc_trace.transcript.entries import Usage

if TYPE_CHECKING:
    from cc_trace.export.profiles import AttributeValue

SECOND = 1_000_000_000
START = 1_767_268_800 * SECOND  # 2026-01-01T12:00:00Z
TRACE, ROOT = "c2352be9ccd02cf1b0c92425333f989f", "c2352be9ccd02cf1"
LABELS = Labels(user_id="ada", tags=("ci", "night"), environment="staging", release="r7")
MODEL = "claude-sonnet-4-5-20250929"
CALLS: list[Any] = [
    {"id": "toolu_1", "name": "Bash", "input": {"command": "pytest -x"}},
    {"id": "toolu_2", "name": "mcp__github__search", "input": {"query": "flaky"}},
]


def made(kind: Any, name: str, **fields: Any) -> Span:
    """A span with the fields that matter to a test."""
    given: dict[str, Any] = {"parent_id": ROOT, "start_ns": START, "end_ns": START + SECOND, "agent_id": None}
    given |= {"status": "ok", "error": None, "input": None, "output": None, "metadata": {}, **fields}
    return Span(TRACE, "4dbcde393beec4a5", kind=kind, name=name, session_id="s-1", turn=3, final=True, **given)


ABOUT: dict[str, Any] = {
    "source": "claude-code",
    "turn_number": 3,
    "session_id": "s-1",
    "version": "2.1.325",
    "cwd": "/home/dev/project",
    "git_branch": "main",
    "slug": "fix-the-test",
    "permission_mode": "default",
    "entrypoint": "cli",
}
SPANS = {
    "turn": made(
        "turn",
        "Turn 3",
        parent_id=None,
        input="Fix the failing test",
        output="Fixed.",
        about=ABOUT,
        metadata={
            **ABOUT,
            "trigger": "prompt",
            "duration_ms": 900,
            "unanswered_prompts": ["wait"],
            "launched_by": {"tool_use_id": "toolu_0", "span_id": "00f067aa0ba902b7", "trace_id": TRACE[::-1]},
        },
    ),
    "first generation": made(
        "generation",
        MODEL + "[1m]",
        input=[{"role": "user", "content": "Fix the failing test"}],
        output={
            "role": "assistant",
            "content": "Let me look.",
            "thinking": ["Which test?", "", "[redacted]"],
            "tool_calls": CALLS,
        },
        metadata={"tool_count": 2, "stop_reason": "tool_use", "effort": "high", "service_tier": "standard"},
        response=Response(
            "msg_1",
            "req_1",
            MODEL + "[1m]",
            START + SECOND // 2,
            Usage(12, 400, 50_000, 1_000, 2_000),
            usage_complete=True,
            cost_usd=0.036786,
        ),
    ),
    "second generation": made(
        "generation",
        "claude-new",
        status="interrupted",
        error="interrupted while answering",
        agent_id="a1",
        agent_name="subagent",
        input=[
            {"role": "tool", "tool_call_id": "toolu_1", "name": "Bash", "content": "exit 1"},
            {"role": "tool", "tool_call_id": "toolu_2", "name": "mcp__github__search", "content": None},
        ],
        output={"role": "assistant", "content": "It f"},
        metadata={"tool_count": 0},
        response=Response(
            "msg_2", None, "claude-new", None, Usage(5, 1, 0, 70, split=False), usage_complete=False, cost_usd=None
        ),
    ),
    "tool": made(
        "tool",
        "Bash",
        input={"command": "ls"},
        output="a.txt",
        metadata={"tool_name": "Bash", "tool_id": "toolu_1", "exitCode": 0, "interrupted": False},
        tool=Tool("toolu_1", "Bash", None),
    ),
    "failed tool": made(
        "tool",
        "Read",
        status="error",
        error="File does not exist.",
        input={"file_path": "/x"},
        output="File does not exist.",
        metadata={"tool_name": "Read", "tool_id": "toolu_3"},
        tool=Tool("toolu_3", "Read", None),
    ),
    "denied MCP tool": made(
        "tool",
        "mcp__github__search",
        status="error",
        error="rejected",
        input={"query": "flaky"},
        metadata={"tool_name": "mcp__github__search", "tool_id": "toolu_2", "denial": "user-rejected"},
        tool=Tool("toolu_2", "mcp__github__search", None),
    ),
    "subagent": made(
        "subagent",
        "Explore",
        agent_id="a1",
        agent_name="Explore",
        status="incomplete",
        error="1 tool call without a result",
        input="count things",
        output="Counting.",
        metadata={"agent_type": "Explore", "description": "count", "background": True, "source": "file"},
    ),
    "compaction": made("event", "compaction", output="Summary: …", metadata={"trigger": "auto", "preTokens": 462}),
    "api_retry": made(
        "event", "api_retry", end_ns=START, output="529 overloaded", metadata={"retryAttempt": 1, "source": "request"}
    ),
    "api_error": made("event", "api_error", status="error", error="API Error: 400", output="API Error: 400"),
    "interruption": made(
        "event", "interruption", end_ns=START, status="interrupted", error="[Request…]", output="[Request…]"
    ),
    "prompt": made("event", "prompt", end_ns=START, input="and be quick"),
    "notification": made("event", "notification", end_ns=START, input="<task…>", metadata={"status": "completed"}),
}


def text(value: Any) -> str:
    """JSON as it is sent: without spaces, letters as they are."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


LAUNCHED_BY = SPANS["turn"].metadata["launched_by"]
EVERYWHERE: dict[str, AttributeValue] = {
    "session.id": "s-1",
    "gen_ai.conversation.id": "s-1",
    "gen_ai.agent.name": "claude-code",
    "user.id": "ada",
}
FIRST: dict[str, AttributeValue] = {
    **EVERYWHERE,
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "anthropic",
    "gen_ai.request.model": "claude-sonnet-4-5-20250929[1m]",
    "gen_ai.request.reasoning.level": "high",
    "gen_ai.response.model": "claude-sonnet-4-5-20250929[1m]",
    "gen_ai.response.id": "msg_1",
    "gen_ai.response.finish_reasons": ["tool_call"],
    "gen_ai.usage.input_tokens": 53_012,
    "gen_ai.usage.output_tokens": 400,
    "gen_ai.usage.cache_read.input_tokens": 50_000,
    "gen_ai.usage.cache_creation.input_tokens": 3_000,
    "gen_ai.usage.cache_write.input_tokens": 3_000,
}
SECOND_ONE: dict[str, AttributeValue] = {
    **EVERYWHERE,
    "gen_ai.agent.name": "subagent",
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "anthropic",
    "gen_ai.request.model": "claude-new",
    "gen_ai.response.model": "claude-new",
    "gen_ai.response.id": "msg_2",
    "gen_ai.response.finish_reasons": ["error"],
    "gen_ai.usage.input_tokens": 75,
    "gen_ai.usage.output_tokens": 1,
    "gen_ai.usage.cache_read.input_tokens": 0,
    "gen_ai.usage.cache_creation.input_tokens": 70,
    "gen_ai.usage.cache_write.input_tokens": 70,
    "error.type": "interrupted",
}


def tool(id_: str, name: str) -> dict[str, AttributeValue]:
    return {
        **EVERYWHERE,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": id_,
    }
