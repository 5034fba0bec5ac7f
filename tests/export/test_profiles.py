"""A span in the words of each destination, compared whole.

The rule here: what a dictionary below does not have is not sent.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from profiles_mlflow import MLFLOW, MLFLOW_ALL
from profiles_spans import (
    ABOUT,
    CALLS,
    EVERYWHERE,
    FIRST,
    LABELS,
    LAUNCHED_BY,
    SECOND_ONE,
    SPANS,
    made,
    text,
    tool,
)
from shared import case_transcripts, label

from cc_trace import __version__
from cc_trace.export.profiles import PROFILES, Labels, resource
from cc_trace.settings.catalogue import BY_NAME
from cc_trace.spans.model import Response
from cc_trace.spans.session import Session
from cc_trace.values import TOO_DEEP, json_text

if TYPE_CHECKING:
    from pathlib import Path

    from cc_trace.export.profiles import AttributeValue


def asked(words: str) -> str:
    return text([{"role": "user", "parts": [{"type": "text", "content": words}]}])


def answered(words: str, finish_reason: str) -> str:
    parts = [{"type": "text", "content": words}]
    return text([{"role": "assistant", "parts": parts, "finish_reason": finish_reason}])


FIRST_SAID: dict[str, AttributeValue] = {
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
SECOND_SAID: dict[str, AttributeValue] = {
    "gen_ai.input.messages": text(
        [
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "toolu_1", "response": "exit 1"}]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "toolu_2", "response": None}]},
        ]
    ),
    "gen_ai.output.messages": answered("It f", "error"),
}
OTEL_ALL: dict[str, AttributeValue] = {"cc_trace.tags": ["ci", "night"], "cc_trace.turn_number": 3}
OTEL: dict[str, tuple[str, dict[str, AttributeValue]]] = {
    "turn": (
        "invoke_agent claude-code",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.version": "2.1.325",
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
            **FIRST_SAID,
            "gen_ai.usage.cost": 0.036786,
            "cc_trace.tool_count": 2,
            "cc_trace.stop_reason": "tool_use",
            "cc_trace.service_tier": "standard",
            "cc_trace.request_id": "req_1",
        },
    ),
    "second generation": (
        "chat claude-new",
        {
            **SECOND_ONE,
            **SECOND_SAID,
            "cc_trace.tool_count": 0,
            "cc_trace.agent_id": "a1",
            "cc_trace.usage_complete": False,
        },
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
            "cc_trace.agent_id": "a1",
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.input.messages": asked("count things"),
            "gen_ai.output.messages": answered("Counting.", "error"),
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
            "gen_ai.conversation.compacted": True,
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
            "error.type": "400",
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
    "langfuse.trace.tags": ["claude-code", "ci", "night"],
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
            "langfuse.trace.tags": ["claude-code", "interactive", "ci", "night"],
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
                    {"role": "tool", "tool_call_id": "toolu_1", "name": "Bash", "content": "```\nexit 1\n```"},
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
            "langfuse.observation.output": "```\na.txt\n```",
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
            "langfuse.observation.output": "```\nFile does not exist.\n```",
            "langfuse.observation.metadata.tool_name": "Read",
            "langfuse.observation.metadata.tool_id": "toolu_3",
        },
    ),
    "denied MCP tool": (
        "github · search",
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
        "Explore · count",
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

FIRST_MESSAGES: dict[str, AttributeValue] = {
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "Fix the failing test",
    **{
        f"llm.output_messages.0.message.{key}": value
        for key, value in {
            "role": "assistant",
            "contents.0.message_content.type": "reasoning",
            "contents.0.message_content.text": "Which test?",
            "contents.1.message_content.type": "reasoning",
            "contents.1.message_content.text": "[redacted]",
            "contents.2.message_content.type": "text",
            "contents.2.message_content.text": "Let me look.",
            "tool_calls.0.tool_call.id": "toolu_1",
            "tool_calls.0.tool_call.function.name": "Bash",
            "tool_calls.0.tool_call.function.arguments": '{"command":"pytest -x"}',
            "tool_calls.1.tool_call.id": "toolu_2",
            "tool_calls.1.tool_call.function.name": "mcp__github__search",
            "tool_calls.1.tool_call.function.arguments": '{"query":"flaky"}',
        }.items()
    },
}
OPENINFERENCE_ALL: dict[str, AttributeValue] = {"tag.tags": ["ci", "night"], "agent.name": "claude-code"}
OPENINFERENCE: dict[str, tuple[str, dict[str, AttributeValue]]] = {
    "turn": (
        "invoke_agent claude-code",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.version": "2.1.325",
            "openinference.span.kind": "AGENT",
            "input.value": "Fix the failing test",
            "input.mime_type": "text/plain",
            "output.value": "Fixed.",
            "output.mime_type": "text/plain",
            "metadata": text({"turn_number": 3} | SPANS["turn"].metadata),
        },
    ),
    "first generation": (
        "chat claude-sonnet-4-5-20250929[1m]",
        {
            **FIRST,
            **FIRST_MESSAGES,
            "llm.system": "anthropic",
            "llm.provider": "anthropic",
            "llm.model_name": "claude-sonnet-4-5-20250929[1m]",
            "llm.request.model_name": "claude-sonnet-4-5-20250929[1m]",
            "llm.response.model_name": "claude-sonnet-4-5-20250929[1m]",
            "llm.invocation_parameters": '{"effort":"high","service_tier":"standard"}',
            "llm.finish_reason": "tool_call",
            "llm.token_count.prompt": 53_012,
            "llm.token_count.completion": 400,
            "llm.token_count.total": 53_412,
            "llm.token_count.prompt_details.cache_read": 50_000,
            "llm.token_count.prompt_details.cache_write": 3_000,
            "llm.cost.total": 0.036786,
            "llm.cost.prompt": 0.030786,
            "llm.cost.completion": 0.006,
            "openinference.span.kind": "LLM",
            "input.value": "Fix the failing test",
            "input.mime_type": "text/plain",
            "output.value": "Let me look.",
            "output.mime_type": "text/plain",
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
            "agent.name": "subagent",
            "llm.input_messages.0.message.role": "tool",
            "llm.input_messages.0.message.content": "exit 1",
            "llm.input_messages.0.message.tool_call_id": "toolu_1",
            "llm.input_messages.0.message.name": "Bash",
            "llm.input_messages.1.message.role": "tool",
            "llm.input_messages.1.message.tool_call_id": "toolu_2",
            "llm.input_messages.1.message.name": "mcp__github__search",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "It f",
            "llm.system": "anthropic",
            "llm.provider": "anthropic",
            "llm.model_name": "claude-new",
            "llm.request.model_name": "claude-new",
            "llm.response.model_name": "claude-new",
            "llm.finish_reason": "error",
            "llm.token_count.prompt": 75,
            "llm.token_count.completion": 1,
            "llm.token_count.total": 76,
            "llm.token_count.prompt_details.cache_read": 0,
            "llm.token_count.prompt_details.cache_write": 70,
            "openinference.span.kind": "LLM",
            "output.value": "It f",
            "output.mime_type": "text/plain",
            "metadata": text({"turn_number": 3, "tool_count": 0, "agent_id": "a1", "usage_complete": False}),
        },
    ),
    "tool": (
        "execute_tool Bash",
        {
            **tool("toolu_1", "Bash"),
            "tool.name": "Bash",
            "tool.id": "toolu_1",
            "openinference.span.kind": "TOOL",
            "input.value": '{"command":"ls"}',
            "input.mime_type": "application/json",
            "output.value": "a.txt",
            "output.mime_type": "text/plain",
            "metadata": text({"turn_number": 3} | SPANS["tool"].metadata),
        },
    ),
    "failed tool": (
        "execute_tool Read",
        {
            **tool("toolu_3", "Read"),
            "tool.name": "Read",
            "tool.id": "toolu_3",
            "error.type": "tool_error",
            "openinference.span.kind": "TOOL",
            "input.value": '{"file_path":"/x"}',
            "input.mime_type": "application/json",
            "output.value": "File does not exist.",
            "output.mime_type": "text/plain",
            "metadata": text({"turn_number": 3, "tool_name": "Read", "tool_id": "toolu_3"}),
        },
    ),
    "denied MCP tool": (
        "execute_tool mcp__github__search",
        {
            **tool("toolu_2", "mcp__github__search"),
            "tool.name": "mcp__github__search",
            "tool.id": "toolu_2",
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
            "agent.name": "Explore",
            "gen_ai.operation.name": "invoke_agent",
            "error.type": "incomplete",
            "openinference.span.kind": "AGENT",
            "input.value": "count things",
            "input.mime_type": "text/plain",
            "output.value": "Counting.",
            "output.mime_type": "text/plain",
            "metadata": text({"turn_number": 3} | SPANS["subagent"].metadata | {"agent_id": "a1"}),
        },
    ),
    "compaction": (
        "compaction",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "compaction",
            "gen_ai.conversation.compacted": True,
            "openinference.span.kind": "CHAIN",
            "output.value": "Summary: …",
            "output.mime_type": "text/plain",
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
            "output.mime_type": "text/plain",
            "metadata": '{"turn_number":3,"retryAttempt":1,"source":"request"}',
        },
    ),
    "api_error": (
        "api_error",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "api_error",
            "error.type": "400",
            "openinference.span.kind": "CHAIN",
            "output.value": "API Error: 400",
            "output.mime_type": "text/plain",
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
            "output.mime_type": "text/plain",
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
            "input.mime_type": "text/plain",
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
            "input.mime_type": "text/plain",
            "metadata": '{"turn_number":3,"status":"completed"}',
        },
    ),
}
EXPECTED = {
    "otel": (OTEL_ALL, OTEL),
    "langfuse": (LANGFUSE_ALL, LANGFUSE),
    "openinference": (OPENINFERENCE_ALL, OPENINFERENCE),
    "mlflow": (MLFLOW_ALL, MLFLOW),
}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("case", SPANS)
def test_a_span_in_a_profile(profile: str, case: str) -> None:
    """Name and attributes are exactly these."""
    on_every_span, expected = EXPECTED[profile]
    name, attributes = expected[case]
    assert (name, on_every_span | attributes) == PROFILES[profile](SPANS[case], LABELS)


def test_every_profile_can_be_chosen() -> None:
    """A setting is looked at without loading the profiles, so their names stand in two places."""
    assert set(BY_NAME["otlp_profile"].allowed) == set(PROFILES)


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
    assert resource("mlflow", labels) == resource("otel", labels)
    assert resource("langfuse", labels) == {
        "service.name": "claude-code",
        "telemetry.sdk.name": "cc-trace",
        "telemetry.sdk.version": __version__,
        "host.name": "h",
    }


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
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
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
    """Its messages are sent once; a row of a list needs their beginning, or the tools that were called."""
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
        "openinference": {
            "openinference.span.kind": "LLM",
            "agent.name": "claude-code",
            "llm.system": "anthropic",
            "llm.provider": "anthropic",
            "metadata": '{"turn_number":3}',
        },
        "mlflow": {"mlflow.spanType": "CHAT_MODEL", "cc_trace.turn_number": 3},
    }
    if profile == "langfuse":
        general = ("session.id", "trace.name", "trace.metadata.")
        kept = {key: LANGFUSE_ALL[key] for key in LANGFUSE_ALL if key.removeprefix("langfuse.").startswith(general)}
        kept |= {"langfuse.trace.tags": ["claude-code"], "langfuse.observation.type": "generation"}
        assert (name, found) == ("unknown model", kept)
    else:
        chat = {key: EVERYWHERE[key] for key in EVERYWHERE if key != "user.id"}
        chat |= {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic"}
        expected = empty.name if profile == "mlflow" else "chat"
        assert (name, found) == (expected, chat | bare[profile])


@pytest.mark.parametrize("profile", PROFILES)
def test_unusual_values_become_valid_json(profile: str) -> None:
    """Halves of surrogate pairs, integers beyond 64 bits and deep nesting end as valid JSON."""
    deep: Any = "bottom"
    for _ in range(400):
        deep = [deep]
    span = SPANS["tool"]._replace(
        input={"half \ud83d": "\udc00", "huge": 1 << 70, "deep": deep}, metadata={"n": 1 << 70}
    )
    _, found = PROFILES[profile](span, LABELS)
    key = {
        "otel": "gen_ai.tool.call.arguments",
        "langfuse": "langfuse.observation.input",
        "openinference": "input.value",
        "mlflow": "mlflow.spanInputs",
    }[profile]
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
MLFLOW_READS = {
    "mlflow.spanType",
    "mlflow.spanInputs",
    "mlflow.spanOutputs",
    "mlflow.chat.tokenUsage",
    "mlflow.traceTag.mlflow.traceName",
    "mlflow.traceTag.tags",
}
OTEL_INPUTS = {"gen_ai.input.messages", "gen_ai.tool.call.arguments"}
OTEL_OUTPUTS = {"gen_ai.output.messages", "gen_ai.tool.call.result", "cc_trace.output"}


@pytest.mark.parametrize("transcript", case_transcripts(), ids=label)
def test_rules_for_every_span(transcript: Path) -> None:
    """Every span of every case: what is on all, what is on none, and counts that agree between profiles."""
    for span in Session(transcript).spans():
        sent = {profile: translate(span, LABELS)[1] for profile, translate in PROFILES.items()}
        metadata = ("langfuse.trace.metadata.", "langfuse.observation.metadata.")
        assert {key for key in sent["langfuse"] if not key.startswith(metadata)} <= LANGFUSE_READS
        assert LANGFUSE_ALL.keys() <= sent["langfuse"].keys()
        for profile in ("otel", "openinference", "mlflow"):
            assert {*EVERYWHERE, "gen_ai.operation.name"} <= sent[profile].keys()
        assert {key for key in sent["mlflow"] if key.startswith("mlflow.")} <= MLFLOW_READS
        assert "mlflow.spanType" in sent["mlflow"]
        if span.response is None:
            counted = ("model", "usage", "Usage", "cost")
            assert not [key for found in sent.values() for key in found if any(word in key for word in counted)]
        elif span.response.usage is not None:
            buckets = json.loads(str(sent["langfuse"]["langfuse.observation.usage_details"]))
            tokens = (sent["otel"][f"gen_ai.usage.{side}_tokens"] for side in ("input", "output"))
            assert sum(buckets.values()) == sum(map(int, map(str, tokens)))
            usage = json.loads(str(sent["mlflow"]["mlflow.chat.tokenUsage"]))
            assert sum(buckets.values()) == usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
            assert buckets.get("input_cache_creation_1h", 0) == usage["cache_creation_input_tokens_above_1hr"]
            assert sent["otel"].get("gen_ai.usage.cost") == sent["openinference"].get("llm.cost.total")


@pytest.mark.parametrize("transcript", case_transcripts(), ids=label)
def test_mlflow_is_sent_content_once_and_no_cost(transcript: Path) -> None:
    """Where the conventions have content MLflow has it in its own attributes, and only there."""
    for span in Session(transcript).spans():
        (_, by_otel), (_, found) = (PROFILES[profile](span, LABELS) for profile in ("otel", "mlflow"))
        assert bool(OTEL_INPUTS & by_otel.keys()) == ("mlflow.spanInputs" in found)
        assert bool(OTEL_OUTPUTS & by_otel.keys()) == ("mlflow.spanOutputs" in found)
        assert not (OTEL_INPUTS | OTEL_OUTPUTS) & found.keys()
        assert not [key for key in found if "cost" in key.lower()]


def test_every_span_has_the_attributes_of_its_trace() -> None:
    """Langfuse takes a trace's attributes from whichever span comes first."""
    span = SPANS["tool"]._replace(about=ABOUT)
    _, found = PROFILES["langfuse"](span, Labels())
    assert {f"langfuse.trace.metadata.{key}": value for key, value in ABOUT.items()}.items() <= found.items()
    assert found["langfuse.version"] == "2.1.325"
