"""A span in the words of each destination, compared whole.

The rule here: what a dictionary below does not have is not sent.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from shared import case_transcripts, label

from cc_trace.entries import Usage
from cc_trace.profiles import PROFILES, Labels, resource
from cc_trace.profiles.text import TOO_DEEP, json_text
from cc_trace.sessions import Session
from cc_trace.spans import Response, Span, Tool

if TYPE_CHECKING:
    from pathlib import Path

    from cc_trace.profiles import AttributeValue

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


def asked(words: str) -> str:
    return text([{"role": "user", "parts": [{"type": "text", "content": words}]}])


def answered(words: str, finish_reason: str) -> str:
    parts = [{"type": "text", "content": words}]
    return text([{"role": "assistant", "parts": parts, "finish_reason": finish_reason}])


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
    "gen_ai.response.model": "claude-sonnet-4-5-20250929[1m]",
    "gen_ai.response.id": "msg_1",
    "gen_ai.response.finish_reasons": ["tool_call"],
    "gen_ai.usage.input_tokens": 53_012,
    "gen_ai.usage.output_tokens": 400,
    "gen_ai.usage.cache_read.input_tokens": 50_000,
    "gen_ai.usage.cache_creation.input_tokens": 3_000,
    "gen_ai.usage.cache_write.input_tokens": 3_000,
    "gen_ai.input.messages": asked("Fix the failing test"),
    "gen_ai.output.messages": text(
        [
            {
                "role": "assistant",
                "parts": [
                    {"type": "reasoning", "content": "Which test?"},
                    {"type": "reasoning", "content": "[redacted]"},
                    {"type": "text", "content": "Let me look."},
                    {"type": "tool_call", "id": "toolu_1", "name": "Bash", "arguments": {"command": "pytest -x"}},
                    {
                        "type": "tool_call",
                        "id": "toolu_2",
                        "name": "mcp__github__search",
                        "arguments": {"query": "flaky"},
                    },
                ],
                "finish_reason": "tool_call",
            }
        ]
    ),
}
SECOND_ONE: dict[str, AttributeValue] = {
    **EVERYWHERE,
    "gen_ai.agent.name": "subagent",
    "gen_ai.agent.id": "a1",
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "anthropic",
    "gen_ai.request.model": "claude-new",
    "gen_ai.response.model": "claude-new",
    "gen_ai.response.id": "msg_2",
    "gen_ai.usage.input_tokens": 75,
    "gen_ai.usage.output_tokens": 1,
    "gen_ai.usage.cache_read.input_tokens": 0,
    "gen_ai.usage.cache_creation.input_tokens": 70,
    "gen_ai.usage.cache_write.input_tokens": 70,
    "gen_ai.input.messages": text(
        [
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "toolu_1", "response": "exit 1"}]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "toolu_2", "response": None}]},
        ]
    ),
    "gen_ai.output.messages": answered("It f", "interrupted"),
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


OTEL_ALL: dict[str, AttributeValue] = {"cc_trace.tags": ["ci", "night"], "cc_trace.turn_number": 3}
OTEL: dict[str, tuple[str, dict[str, AttributeValue]]] = {
    "turn": (
        "invoke_agent claude-code",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.input.messages": asked("Fix the failing test"),
            "gen_ai.output.messages": answered("Fixed.", "stop"),
            "cc_trace.source": "claude-code",
            "cc_trace.trigger": "prompt",
            "cc_trace.version": "2.1.325",
            "cc_trace.cwd": "/home/dev/project",
            "cc_trace.git_branch": "main",
            "cc_trace.slug": "fix-the-test",
            "cc_trace.permission_mode": "default",
            "cc_trace.entrypoint": "cli",
            "cc_trace.duration_ms": 900,
            "cc_trace.unanswered_prompts": '["wait"]',
            "cc_trace.launched_by": text(LAUNCHED_BY),
        },
    ),
    "first generation": (
        "chat claude-sonnet-4-5-20250929[1m]",
        {
            **FIRST,
            "gen_ai.usage.cost": 0.036786,
            "cc_trace.tool_count": 2,
            "cc_trace.stop_reason": "tool_use",
            "cc_trace.effort": "high",
            "cc_trace.service_tier": "standard",
            "cc_trace.request_id": "req_1",
        },
    ),
    "second generation": (
        "chat claude-new",
        {**SECOND_ONE, "cc_trace.tool_count": 0, "cc_trace.usage_complete": False},
    ),
    "tool": (
        "execute_tool Bash",
        {
            **tool("toolu_1", "Bash"),
            "gen_ai.tool.call.arguments": '{"command":"ls"}',
            "gen_ai.tool.call.result": "a.txt",
            "cc_trace.exitCode": 0,
            "cc_trace.interrupted": False,
        },
    ),
    "failed tool": (
        "execute_tool Read",
        {
            **tool("toolu_3", "Read"),
            "gen_ai.tool.call.arguments": '{"file_path":"/x"}',
            "gen_ai.tool.call.result": "File does not exist.",
            "error.type": "tool_error",
        },
    ),
    "denied MCP tool": (
        "execute_tool mcp__github__search",
        {
            **tool("toolu_2", "mcp__github__search"),
            "gen_ai.tool.call.arguments": '{"query":"flaky"}',
            "mcp.method.name": "tools/call",
            "error.type": "user-rejected",
            "cc_trace.denial": "user-rejected",
        },
    ),
    "subagent": (
        "invoke_agent Explore",
        {
            **EVERYWHERE,
            "gen_ai.agent.name": "Explore",
            "gen_ai.agent.id": "a1",
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.input.messages": asked("count things"),
            "gen_ai.output.messages": answered("Counting.", "incomplete"),
            "error.type": "incomplete",
            "cc_trace.agent_type": "Explore",
            "cc_trace.description": "count",
            "cc_trace.background": True,
            "cc_trace.source": "file",
        },
    ),
    "compaction": (
        "compaction",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "compaction",
            "cc_trace.output": "Summary: …",
            "cc_trace.trigger": "auto",
            "cc_trace.preTokens": 462,
        },
    ),
    "api_retry": (
        "api_retry",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "api_retry",
            "cc_trace.output": "529 overloaded",
            "cc_trace.retryAttempt": 1,
            "cc_trace.source": "request",
        },
    ),
    "api_error": (
        "api_error",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "api_error",
            "cc_trace.output": "API Error: 400",
            "error.type": "api_error",
        },
    ),
    "interruption": (
        "interruption",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "interruption",
            "cc_trace.output": "[Request…]",
            "error.type": "interrupted",
        },
    ),
    "prompt": (
        "prompt",
        {**EVERYWHERE, "gen_ai.operation.name": "prompt", "gen_ai.input.messages": asked("and be quick")},
    ),
    "notification": (
        "notification",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "notification",
            "gen_ai.input.messages": asked("<task…>"),
            "cc_trace.status": "completed",
        },
    ),
}

LANGFUSE_ALL: dict[str, AttributeValue] = {
    "langfuse.session.id": "s-1",
    "langfuse.trace.name": "Turn 3",
    "langfuse.trace.tags": ["ci", "night"],
    "langfuse.user.id": "ada",
    "langfuse.release": "r7",
    "langfuse.environment": "staging",
    "langfuse.trace.metadata.source": "claude-code",
    "langfuse.trace.metadata.turn_number": 3,
    "langfuse.trace.metadata.session_id": "s-1",
}
LANGFUSE: dict[str, tuple[str, dict[str, AttributeValue]]] = {
    "turn": (
        "Turn 3",
        {
            "langfuse.observation.type": "agent",
            "langfuse.version": "2.1.325",
            "langfuse.trace.metadata.version": "2.1.325",
            "langfuse.trace.metadata.cwd": "/home/dev/project",
            "langfuse.trace.metadata.git_branch": "main",
            "langfuse.trace.metadata.slug": "fix-the-test",
            "langfuse.trace.metadata.permission_mode": "default",
            "langfuse.trace.metadata.entrypoint": "cli",
            "langfuse.observation.input": text([{"role": "user", "content": "Fix the failing test"}]),
            "langfuse.observation.output": text([{"role": "assistant", "content": "Fixed."}]),
            "langfuse.observation.metadata.trigger": "prompt",
            "langfuse.observation.metadata.duration_ms": 900,
            "langfuse.observation.metadata.unanswered_prompts": '["wait"]',
            "langfuse.observation.metadata.launched_by": text(LAUNCHED_BY),
        },
    ),
    "first generation": (
        "claude-sonnet-4-5-20250929[1m]",
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.model.name": "claude-sonnet-4-5-20250929",
            "langfuse.observation.model.parameters": '{"effort":"high","service_tier":"standard"}',
            "langfuse.observation.completion_start_time": "2026-01-01T12:00:00.500Z",
            "langfuse.observation.usage_details": text(
                {
                    "input": 12,
                    "output": 400,
                    "cache_read_input_tokens": 50_000,
                    "input_cache_creation_5m": 1_000,
                    "input_cache_creation_1h": 2_000,
                }
            ),
            "langfuse.observation.input": text([{"role": "user", "content": "Fix the failing test"}]),
            "langfuse.observation.output": text(
                [
                    {
                        "role": "assistant",
                        "content": "Let me look.",
                        "thinking": [
                            {"type": "thinking", "content": "Which test?"},
                            {"type": "thinking", "content": "[redacted]"},
                        ],
                        "tool_calls": [
                            {
                                "id": "toolu_1",
                                "type": "function",
                                "function": {"name": "Bash", "arguments": '{"command":"pytest -x"}'},
                            },
                            {
                                "id": "toolu_2",
                                "type": "function",
                                "function": {"name": "mcp__github__search", "arguments": '{"query":"flaky"}'},
                            },
                        ],
                    }
                ]
            ),
            "langfuse.observation.metadata.tool_count": 2,
            "langfuse.observation.metadata.stop_reason": "tool_use",
            "langfuse.observation.metadata.effort": "high",
            "langfuse.observation.metadata.service_tier": "standard",
            "langfuse.observation.metadata.request_id": "req_1",
        },
    ),
    "second generation": (
        "claude-new",
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.level": "WARNING",
            "langfuse.observation.status_message": "interrupted while answering",
            "langfuse.observation.model.name": "claude-new",
            "langfuse.observation.usage_details": '{"input":5,"output":1,"input_cache_creation":70}',
            "langfuse.observation.input": text(
                [
                    {"role": "tool", "tool_call_id": "toolu_1", "name": "Bash", "content": "exit 1"},
                    {"role": "tool", "tool_call_id": "toolu_2", "name": "mcp__github__search", "content": ""},
                ]
            ),
            "langfuse.observation.output": text([{"role": "assistant", "content": "It f"}]),
            "langfuse.observation.metadata.tool_count": 0,
            "langfuse.observation.metadata.agent_id": "a1",
            "langfuse.observation.metadata.usage_complete": False,
        },
    ),
    "tool": (
        "Bash",
        {
            "langfuse.observation.type": "tool",
            "langfuse.observation.input": '{"command":"ls"}',
            "langfuse.observation.output": "a.txt",
            "langfuse.observation.metadata.tool_name": "Bash",
            "langfuse.observation.metadata.tool_id": "toolu_1",
            "langfuse.observation.metadata.exitCode": 0,
            "langfuse.observation.metadata.interrupted": False,
        },
    ),
    "failed tool": (
        "Read",
        {
            "langfuse.observation.type": "tool",
            "langfuse.observation.level": "ERROR",
            "langfuse.observation.status_message": "File does not exist.",
            "langfuse.observation.input": '{"file_path":"/x"}',
            "langfuse.observation.output": "File does not exist.",
            "langfuse.observation.metadata.tool_name": "Read",
            "langfuse.observation.metadata.tool_id": "toolu_3",
        },
    ),
    "denied MCP tool": (
        "mcp__github__search",
        {
            "langfuse.observation.type": "tool",
            "langfuse.observation.level": "ERROR",
            "langfuse.observation.status_message": "rejected",
            "langfuse.observation.input": '{"query":"flaky"}',
            "langfuse.observation.metadata.tool_name": "mcp__github__search",
            "langfuse.observation.metadata.tool_id": "toolu_2",
            "langfuse.observation.metadata.denial": "user-rejected",
        },
    ),
    "subagent": (
        "Explore",
        {
            "langfuse.observation.type": "agent",
            "langfuse.observation.level": "WARNING",
            "langfuse.observation.status_message": "1 tool call without a result",
            "langfuse.observation.input": text([{"role": "user", "content": "count things"}]),
            "langfuse.observation.output": text([{"role": "assistant", "content": "Counting."}]),
            "langfuse.observation.metadata.agent_type": "Explore",
            "langfuse.observation.metadata.description": "count",
            "langfuse.observation.metadata.background": True,
            "langfuse.observation.metadata.subagent_source": "file",
            "langfuse.observation.metadata.agent_id": "a1",
        },
    ),
    "compaction": (
        "compaction",
        {
            "langfuse.observation.type": "span",
            "langfuse.observation.output": "Summary: …",
            "langfuse.observation.metadata.trigger": "auto",
            "langfuse.observation.metadata.preTokens": 462,
        },
    ),
    "api_retry": (
        "api_retry",
        {
            "langfuse.observation.type": "event",
            "langfuse.observation.output": "529 overloaded",
            "langfuse.observation.metadata.retryAttempt": 1,
            "langfuse.observation.metadata.event_source": "request",
        },
    ),
    "api_error": (
        "api_error",
        {
            "langfuse.observation.type": "span",
            "langfuse.observation.level": "ERROR",
            "langfuse.observation.status_message": "API Error: 400",
            "langfuse.observation.output": "API Error: 400",
        },
    ),
    "interruption": (
        "interruption",
        {
            "langfuse.observation.type": "event",
            "langfuse.observation.level": "WARNING",
            "langfuse.observation.status_message": "[Request…]",
            "langfuse.observation.output": "[Request…]",
        },
    ),
    "prompt": (
        "prompt",
        {
            "langfuse.observation.type": "event",
            "langfuse.observation.input": text([{"role": "user", "content": "and be quick"}]),
        },
    ),
    "notification": (
        "notification",
        {
            "langfuse.observation.type": "event",
            "langfuse.observation.input": text([{"role": "user", "content": "<task…>"}]),
            "langfuse.observation.metadata.status": "completed",
        },
    ),
}

OPENINFERENCE_ALL: dict[str, AttributeValue] = {"tag.tags": ["ci", "night"]}
OPENINFERENCE: dict[str, tuple[str, dict[str, AttributeValue]]] = {
    "turn": (
        "invoke_agent claude-code",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "invoke_agent",
            "openinference.span.kind": "AGENT",
            "input.value": "Fix the failing test",
            "output.value": "Fixed.",
            "metadata": text({"turn_number": 3} | SPANS["turn"].metadata),
        },
    ),
    "first generation": (
        "chat claude-sonnet-4-5-20250929[1m]",
        {
            **FIRST,
            "llm.cost.total": 0.036786,
            "openinference.span.kind": "LLM",
            "input.value": "Fix the failing test",
            "output.value": "Let me look.",
            "metadata": text(
                {
                    "turn_number": 3,
                    "tool_count": 2,
                    "stop_reason": "tool_use",
                    "effort": "high",
                    "service_tier": "standard",
                    "request_id": "req_1",
                }
            ),
        },
    ),
    "second generation": (
        "chat claude-new",
        {
            **SECOND_ONE,
            "openinference.span.kind": "LLM",
            "output.value": "It f",
            "metadata": text({"turn_number": 3, "tool_count": 0, "agent_id": "a1", "usage_complete": False}),
        },
    ),
    "tool": (
        "execute_tool Bash",
        {
            **tool("toolu_1", "Bash"),
            "openinference.span.kind": "TOOL",
            "input.value": '{"command":"ls"}',
            "input.mime_type": "application/json",
            "output.value": "a.txt",
            "metadata": text({"turn_number": 3} | SPANS["tool"].metadata),
        },
    ),
    "failed tool": (
        "execute_tool Read",
        {
            **tool("toolu_3", "Read"),
            "error.type": "tool_error",
            "openinference.span.kind": "TOOL",
            "input.value": '{"file_path":"/x"}',
            "input.mime_type": "application/json",
            "output.value": "File does not exist.",
            "metadata": text({"turn_number": 3, "tool_name": "Read", "tool_id": "toolu_3"}),
        },
    ),
    "denied MCP tool": (
        "execute_tool mcp__github__search",
        {
            **tool("toolu_2", "mcp__github__search"),
            "mcp.method.name": "tools/call",
            "error.type": "user-rejected",
            "openinference.span.kind": "TOOL",
            "input.value": '{"query":"flaky"}',
            "input.mime_type": "application/json",
            "metadata": text({"turn_number": 3} | SPANS["denied MCP tool"].metadata),
        },
    ),
    "subagent": (
        "invoke_agent Explore",
        {
            **EVERYWHERE,
            "gen_ai.agent.name": "Explore",
            "gen_ai.agent.id": "a1",
            "gen_ai.operation.name": "invoke_agent",
            "error.type": "incomplete",
            "openinference.span.kind": "AGENT",
            "input.value": "count things",
            "output.value": "Counting.",
            "metadata": text({"turn_number": 3} | SPANS["subagent"].metadata | {"agent_id": "a1"}),
        },
    ),
    "compaction": (
        "compaction",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "compaction",
            "openinference.span.kind": "CHAIN",
            "output.value": "Summary: …",
            "metadata": '{"turn_number":3,"trigger":"auto","preTokens":462}',
        },
    ),
    "api_retry": (
        "api_retry",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "api_retry",
            "openinference.span.kind": "CHAIN",
            "output.value": "529 overloaded",
            "metadata": '{"turn_number":3,"retryAttempt":1,"source":"request"}',
        },
    ),
    "api_error": (
        "api_error",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "api_error",
            "error.type": "api_error",
            "openinference.span.kind": "CHAIN",
            "output.value": "API Error: 400",
            "metadata": '{"turn_number":3}',
        },
    ),
    "interruption": (
        "interruption",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "interruption",
            "error.type": "interrupted",
            "openinference.span.kind": "CHAIN",
            "output.value": "[Request…]",
            "metadata": '{"turn_number":3}',
        },
    ),
    "prompt": (
        "prompt",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "prompt",
            "openinference.span.kind": "CHAIN",
            "input.value": "and be quick",
            "metadata": '{"turn_number":3}',
        },
    ),
    "notification": (
        "notification",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "notification",
            "openinference.span.kind": "CHAIN",
            "input.value": "<task…>",
            "metadata": '{"turn_number":3,"status":"completed"}',
        },
    ),
}
EXPECTED = {
    "otel": (OTEL_ALL, OTEL),
    "langfuse": (LANGFUSE_ALL, LANGFUSE),
    "openinference": (OPENINFERENCE_ALL, OPENINFERENCE),
}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("case", SPANS)
def test_a_span_in_a_profile(profile: str, case: str) -> None:
    """Name and attributes are exactly these."""
    on_every_span, expected = EXPECTED[profile]
    name, attributes = expected[case]
    assert (name, on_every_span | attributes) == PROFILES[profile](SPANS[case], LABELS)


def test_resources() -> None:
    """The environment is a resource attribute where it is not on the spans; the user's own attributes win."""
    labels = Labels(environment="staging", release="r7", resource={"host.name": "h", "deployment.environment": "S!"})
    assert resource("otel", labels) == {
        "service.name": "claude-code",
        "service.version": "r7",
        "deployment.environment.name": "staging",
        "deployment.environment": "S!",
        "host.name": "h",
    }
    assert resource("openinference", Labels(resource={"service.name": "mine"})) == {
        "service.name": "mine",
        "openinference.project.name": "claude-code",
    }
    assert resource("langfuse", labels) == {"service.name": "claude-code", "host.name": "h"}


@pytest.mark.parametrize("environment", ["Staging", "a b", "", "x" * 41, "langfuse-x", "staging\n"])
def test_langfuse_is_not_sent_an_environment_it_refuses(environment: str) -> None:
    _, found = PROFILES["langfuse"](SPANS["tool"], Labels(environment=environment))
    assert "langfuse.environment" not in found


@pytest.mark.parametrize(
    ("stop_reason", "finish_reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_call"),
        ("max_tokens", "length"),
        ("refusal", "refusal"),
    ],
)
def test_finish_reasons(stop_reason: str, finish_reason: str) -> None:
    span = SPANS["first generation"]._replace(metadata={"stop_reason": stop_reason})
    _, found = PROFILES["otel"](span, LABELS)
    messages = json.loads(str(found["gen_ai.output.messages"]))
    assert ([finish_reason], finish_reason) == (found["gen_ai.response.finish_reasons"], messages[0]["finish_reason"])


def test_a_response_without_stop_reason_still_has_a_finish_reason() -> None:
    """Most lines have none, and Phoenix drops messages without; none is claimed of the response itself."""
    span = SPANS["first generation"]._replace(metadata={})
    _, found = PROFILES["otel"](span, LABELS)
    messages = json.loads(str(found["gen_ai.output.messages"]))
    assert messages[0]["finish_reason"] == "tool_call"
    assert "gen_ai.response.finish_reasons" not in found


def test_phoenix_lists_a_generation_in_short() -> None:
    """Its messages are sent once, in gen_ai.*; a row of a list needs their beginning, or the tools that were called."""
    span = SPANS["first generation"]._replace(
        input=[{"role": "user", "content": "x" * 501}],
        output={"role": "assistant", "content": "", "tool_calls": CALLS},
    )
    _, found = PROFILES["openinference"](span, LABELS)
    assert (found["input.value"], found["output.value"]) == ("x" * 500 + "…", "Bash, mcp__github__search")


@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_not_known_is_not_sent(profile: str) -> None:
    """A span without content, model, usage, cost and labels has attributes for none of them."""
    nothing = Response(None, None, None, None, None, usage_complete=False, cost_usd=None)
    empty = made("generation", "unknown model", response=nothing)
    name, found = PROFILES[profile](empty, Labels())
    bare: dict[str, dict[str, AttributeValue]] = {
        "otel": {"cc_trace.turn_number": 3},
        "openinference": {"openinference.span.kind": "LLM", "metadata": '{"turn_number":3}'},
    }
    if profile == "langfuse":
        general = ("session.id", "trace.name", "trace.metadata.")
        kept = {key: LANGFUSE_ALL[key] for key in LANGFUSE_ALL if key.removeprefix("langfuse.").startswith(general)}
        assert (name, found) == ("unknown model", kept | {"langfuse.observation.type": "generation"})
    else:
        chat = {key: EVERYWHERE[key] for key in EVERYWHERE if key != "user.id"}
        chat |= {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic"}
        assert (name, found) == ("chat", chat | bare[profile])


@pytest.mark.parametrize("profile", PROFILES)
def test_no_text_is_too_strange(profile: str) -> None:
    """Halves of surrogate pairs, integers beyond 64 bits and deep nesting end as valid JSON."""
    deep: Any = "bottom"
    for _ in range(400):
        deep = [deep]
    span = SPANS["tool"]._replace(
        input={"half \ud83d": "\udc00", "huge": 1 << 70, "deep": deep}, metadata={"n": 1 << 70}
    )
    _, found = PROFILES[profile](span, LABELS)
    key = {"otel": "gen_ai.tool.call.arguments", "langfuse": "langfuse.observation.input"}.get(profile, "input.value")
    arguments = json.loads(str(found[key]))
    assert ("\ufffd", str(1 << 70)) == (arguments["half \ufffd"], arguments["huge"])
    assert TOO_DEEP in str(found[key])


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert json_text(["\ud83d\ude00 \ud83d"]) == '["😀 \ufffd"]'


LANGFUSE_READS = {
    "langfuse.session.id",
    "langfuse.user.id",
    "langfuse.release",
    "langfuse.version",
    "langfuse.environment",
    "langfuse.trace.name",
    "langfuse.trace.tags",
    *(
        f"langfuse.observation.{key}"
        for key in ("type", "level", "status_message", "input", "output", "usage_details", "completion_start_time")
    ),
    "langfuse.observation.model.name",
    "langfuse.observation.model.parameters",
}


@pytest.mark.parametrize("transcript", case_transcripts(), ids=label)
def test_rules_that_hold_for_every_span(transcript: Path) -> None:
    """Every span of every case: what is on all, what is on none, and counts that agree between profiles."""
    for span in Session(transcript).spans():
        sent = {profile: translate(span, LABELS)[1] for profile, translate in PROFILES.items()}
        metadata = ("langfuse.trace.metadata.", "langfuse.observation.metadata.")
        assert {key for key in sent["langfuse"] if not key.startswith(metadata)} <= LANGFUSE_READS
        assert LANGFUSE_ALL.keys() <= sent["langfuse"].keys()
        for profile in ("otel", "openinference"):
            assert {*EVERYWHERE, "gen_ai.operation.name"} <= sent[profile].keys()
        if span.response is None:
            counted = ("model", "usage", "cost")
            assert not [key for found in sent.values() for key in found if any(word in key for word in counted)]
        elif span.response.usage is not None:
            buckets = json.loads(str(sent["langfuse"]["langfuse.observation.usage_details"]))
            tokens = (sent["otel"][f"gen_ai.usage.{side}_tokens"] for side in ("input", "output"))
            assert sum(buckets.values()) == sum(map(int, map(str, tokens)))
            assert sent["otel"].get("gen_ai.usage.cost") == sent["openinference"].get("llm.cost.total")


def test_every_span_carries_the_facts_of_its_trace() -> None:
    """Langfuse takes a trace's facts from whichever span comes first: they are on all of them."""
    span = SPANS["tool"]._replace(about=ABOUT)
    _, found = PROFILES["langfuse"](span, Labels())
    assert {f"langfuse.trace.metadata.{key}": value for key, value in ABOUT.items()}.items() <= found.items()
    assert found["langfuse.version"] == "2.1.325"
