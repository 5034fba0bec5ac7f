"""What MLflow is sent of each span: the conventions' words without content, and the content in MLflow's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profiles_spans import EVERYWHERE, FIRST, LAUNCHED_BY, SECOND_ONE, text, tool

if TYPE_CHECKING:
    from cc_trace.export.profiles import AttributeValue


def asked(words: str) -> str:
    return text({"messages": [{"role": "user", "content": words}]})


def answered(words: str) -> str:
    return text({"choices": [{"message": {"role": "assistant", "content": words}}]})


MLFLOW_ALL: dict[str, AttributeValue] = {"cc_trace.turn_number": 3}
MLFLOW: dict[str, tuple[str, dict[str, AttributeValue]]] = {
    "turn": (
        "Turn 3",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.version": "2.1.325",
            "mlflow.spanType": "AGENT",
            "mlflow.spanInputs": asked("Fix the failing test"),
            "mlflow.spanOutputs": answered("Fixed."),
            "mlflow.traceTag.mlflow.traceName": "Turn 3",
            "mlflow.traceTag.tags": "ci, night",
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
        "claude-sonnet-4-5-20250929[1m]",
        {
            **FIRST,
            "mlflow.spanType": "CHAT_MODEL",
            "mlflow.spanInputs": asked("Fix the failing test"),
            "mlflow.spanOutputs": text(
                {
                    "choices": [
                        {
                            "message": {
                                "role": "assistant",
                                "content": "Let me look.",
                                "reasoning": "Which test?\n\n[redacted]",
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
                        }
                    ]
                }
            ),
            "mlflow.chat.tokenUsage": text(
                {
                    "input_tokens": 53_012,
                    "output_tokens": 400,
                    "total_tokens": 53_412,
                    "cache_read_input_tokens": 50_000,
                    "cache_creation_input_tokens": 3_000,
                    "cache_creation_input_tokens_above_1hr": 2_000,
                }
            ),
            "cc_trace.tool_count": 2,
            "cc_trace.stop_reason": "tool_use",
            "cc_trace.service_tier": "standard",
            "cc_trace.request_id": "req_1",
        },
    ),
    "second generation": (
        "claude-new",
        {
            **SECOND_ONE,
            "mlflow.spanType": "CHAT_MODEL",
            "mlflow.spanInputs": text(
                {
                    "messages": [
                        {"role": "tool", "tool_call_id": "toolu_1", "name": "Bash", "content": "exit 1"},
                        {"role": "tool", "tool_call_id": "toolu_2", "name": "mcp__github__search", "content": ""},
                    ]
                }
            ),
            "mlflow.spanOutputs": answered("It f"),
            "mlflow.chat.tokenUsage": text(
                {
                    "input_tokens": 75,
                    "output_tokens": 1,
                    "total_tokens": 76,
                    "cache_read_input_tokens": 0,
                    "cache_creation_input_tokens": 70,
                    "cache_creation_input_tokens_above_1hr": 0,
                }
            ),
            "cc_trace.agent_id": "a1",
            "cc_trace.tool_count": 0,
            "cc_trace.usage_complete": False,
        },
    ),
    "tool": (
        "Bash",
        {
            **tool("toolu_1", "Bash"),
            "mlflow.spanType": "TOOL",
            "mlflow.spanInputs": '{"command":"ls"}',
            "mlflow.spanOutputs": "a.txt",
            "cc_trace.exitCode": 0,
            "cc_trace.interrupted": False,
        },
    ),
    "failed tool": (
        "Read",
        {
            **tool("toolu_3", "Read"),
            "error.type": "tool_error",
            "mlflow.spanType": "TOOL",
            "mlflow.spanInputs": '{"file_path":"/x"}',
            "mlflow.spanOutputs": "File does not exist.",
        },
    ),
    "denied MCP tool": (
        "mcp__github__search",
        {
            **tool("toolu_2", "mcp__github__search"),
            "mcp.method.name": "tools/call",
            "error.type": "user-rejected",
            "mlflow.spanType": "TOOL",
            "mlflow.spanInputs": '{"query":"flaky"}',
            "cc_trace.denial": "user-rejected",
        },
    ),
    "subagent": (
        "Explore",
        {
            **EVERYWHERE,
            "gen_ai.agent.name": "Explore",
            "cc_trace.agent_id": "a1",
            "gen_ai.operation.name": "invoke_agent",
            "error.type": "incomplete",
            "mlflow.spanType": "AGENT",
            "mlflow.spanInputs": asked("count things"),
            "mlflow.spanOutputs": answered("Counting."),
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
            "mlflow.spanType": "TASK",
            "mlflow.spanOutputs": "Summary: …",
            "cc_trace.trigger": "auto",
            "cc_trace.preTokens": 462,
        },
    ),
    "api_retry": (
        "api_retry",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "api_retry",
            "mlflow.spanType": "TASK",
            "mlflow.spanOutputs": "529 overloaded",
            "cc_trace.retryAttempt": 1,
            "cc_trace.source": "request",
        },
    ),
    "api_error": (
        "api_error",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "api_error",
            "error.type": "400",
            "mlflow.spanType": "TASK",
            "mlflow.spanOutputs": "API Error: 400",
        },
    ),
    "interruption": (
        "interruption",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "interruption",
            "error.type": "interrupted",
            "mlflow.spanType": "TASK",
            "mlflow.spanOutputs": "[Request…]",
        },
    ),
    "prompt": (
        "prompt",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "prompt",
            "mlflow.spanType": "TASK",
            "mlflow.spanInputs": "and be quick",
        },
    ),
    "notification": (
        "notification",
        {
            **EVERYWHERE,
            "gen_ai.operation.name": "notification",
            "mlflow.spanType": "TASK",
            "mlflow.spanInputs": "<task…>",
            "cc_trace.status": "completed",
        },
    ),
}
