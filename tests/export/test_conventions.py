"""The names we send are those of the conventions, and their values mean what the conventions say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from openinference.semconv import trace as openinference
from opentelemetry.semconv._incubating.attributes import (
    error_attributes,
    gen_ai_attributes,
    mcp_attributes,
    session_attributes,
    user_attributes,
)
from profiles_spans import LABELS, SPANS, made
from shared import case_transcripts, label

from cc_trace.export.profiles import PROFILES
from cc_trace.spans.model import Response, Tool
from cc_trace.spans.session import Session
from cc_trace.transcript.entries import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.spans.model import Span

OTEL_MODULES = (gen_ai_attributes, error_attributes, mcp_attributes, session_attributes, user_attributes)
# In the conventions' own repository since they moved there, and not in the package, which stays as it was then.
NEWER = {
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.request.reasoning.level",
    "gen_ai.conversation.compacted",
    "gen_ai.skill.name",
}
COST = "gen_ai.usage.cost"  # no convention names a cost


def constants(*places: Any) -> set[str]:
    return {value for place in places for value in vars(place).values() if isinstance(value, str)}


GEN_AI = constants(*OTEL_MODULES) | NEWER
OPENINFERENCE = constants(*(each for each in vars(openinference).values() if isinstance(each, type)))


def openinference_parts(key: str) -> Iterator[str]:
    """The names that a flattened key is made of: `llm.input_messages.0.message.role` is two."""
    yield from re.split(r"\.\d+\.", key)


def all_spans(transcript: Path) -> Iterator[Span]:
    yield from SPANS.values()
    yield from Session(transcript).spans()


@pytest.mark.parametrize("transcript", case_transcripts(), ids=label)
def test_attribute_names_are_defined_by_their_convention(transcript: Path) -> None:
    for span in all_spans(transcript):
        by_otel = PROFILES["otel"](span, LABELS)[1].keys()
        assert {key for key in by_otel if not key.startswith("cc_trace.")} <= GEN_AI | {COST}
        by_openinference = PROFILES["openinference"](span, LABELS)[1].keys()
        own = {key for key in by_openinference if key not in GEN_AI}
        assert {part for key in own for part in openinference_parts(key)} <= OPENINFERENCE


def generation(model: str | None, message_id: str | None = "msg_1", thinking: int = 0, **metadata: Any) -> Span:
    usage = Usage(1, 20, thinking=thinking)
    response = Response(message_id, None, model, None, usage, usage_complete=True, cost_usd=None)
    return made("generation", model or "unknown model", metadata=metadata, response=response)


@pytest.mark.parametrize(
    ("model", "message_id", "gen_ai", "llm"),
    [
        ("claude-sonnet-4-5", "msg_01", "anthropic", "anthropic"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "msg_01", "aws.bedrock", "aws"),
        ("anthropic.claude-sonnet-4-5-20250929-v1:0", None, "aws.bedrock", "aws"),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/x", None, "aws.bedrock", "aws"),
        ("claude-sonnet-4-5", "msg_bdrk_01", "aws.bedrock", "aws"),
        ("claude-sonnet-4-5@20250929", "msg_01", "gcp.vertex_ai", "google"),
        ("claude-sonnet-4-5", "msg_vrtx_01", "gcp.vertex_ai", "google"),
        (None, None, "anthropic", "anthropic"),
    ],
)
def test_provider_of_a_model(model: str | None, message_id: str | None, gen_ai: str, llm: str) -> None:
    span = generation(model, message_id)
    assert PROFILES["otel"](span, LABELS)[1]["gen_ai.provider.name"] == gen_ai
    assert PROFILES["openinference"](span, LABELS)[1]["llm.provider"] == llm


def test_request_and_response_model_are_separate() -> None:
    span = generation("claude-b", requested_model="claude-a", max_tokens=32_000, effort="low", thinking=7)
    name, found = PROFILES["otel"](span, LABELS)
    assert name == "chat claude-a"
    assert (found["gen_ai.request.model"], found["gen_ai.response.model"]) == ("claude-a", "claude-b")
    assert (found["gen_ai.request.max_tokens"], found["gen_ai.request.reasoning.level"]) == (32_000, "low")
    assert found["gen_ai.usage.reasoning.output_tokens"] == 7
    assert not {"cc_trace.requested_model", "cc_trace.max_tokens", "cc_trace.effort"} & found.keys()
    _, told = PROFILES["openinference"](span, LABELS)
    models = (told["llm.request.model_name"], told["llm.response.model_name"], told["llm.model_name"])
    assert models == ("claude-a", "claude-b", "claude-b")
    assert told["llm.invocation_parameters"] == '{"max_tokens":32000,"effort":"low"}'
    assert told["llm.token_count.completion_details.reasoning"] == 7


def test_failed_call_has_the_requested_model() -> None:
    failed = made(
        "generation",
        "claude-a",
        status="error",
        error="API Error: 529 overloaded",
        metadata={"requested_model": "claude-a", "status": 529, "error_type": "overloaded_error"},
        response=Response(None, "req_1", "claude-a", None, None, usage_complete=True, cost_usd=None),
    )
    name, found = PROFILES["otel"](failed, LABELS)
    assert (name, found["gen_ai.request.model"], found["error.type"]) == ("chat claude-a", "claude-a", "529")
    assert found["gen_ai.response.finish_reasons"] == ["error"]
    assert not [key for key in found if "usage" in key or key == "gen_ai.response.model"]
    _, told = PROFILES["openinference"](failed, LABELS)
    assert told["llm.model_name"] == "claude-a"
    assert "llm.response.model_name" not in told


@pytest.mark.parametrize(
    "metadata", [{"max_tokens": "many"}, {"max_tokens": 1 << 70}, {"effort": ["x"]}, {"effort": 1}]
)
def test_parameters_of_a_wrong_type_are_not_sent(metadata: dict[str, Any]) -> None:
    _, found = PROFILES["otel"](generation("claude-a", **metadata), LABELS)
    assert not {"gen_ai.request.max_tokens", "gen_ai.request.reasoning.level"} & found.keys()


@pytest.mark.parametrize("given", [{"skill": "code-review"}, {"command": "code-review"}])
def test_a_skill_is_named(given: dict[str, Any]) -> None:
    span = made("tool", "Skill", input=given, tool=Tool("toolu_9", "Skill", None))
    assert PROFILES["otel"](span, LABELS)[1]["gen_ai.skill.name"] == "code-review"


@pytest.mark.parametrize(
    ("kind", "error", "metadata", "expected"),
    [
        ("tool", "Exit code 3\nno", {"exitCode": 3}, "exit_code_3"),
        ("tool", "x", {"code": 127}, "exit_code_127"),
        ("tool", "x", {"exitCode": True}, "tool_error"),
        ("tool", "x", {"exitCode": 1 << 40}, "tool_error"),
        ("tool", "<tool_use_error>InputValidationError: Edit failed", {}, "InputValidationError"),
        ("tool", "Error: ENOENT: no such file or directory", {}, "ENOENT"),
        ("tool", "MCP error -32602: Invalid params", {}, "-32602"),
        ("tool", "Error: it broke", {}, "tool_error"),
        ("tool", "ERROR: it broke", {}, "tool_error"),
        ("tool", None, {"denial": "user-rejected", "exitCode": 1}, "user-rejected"),
        ("turn", "API Error: 400 bad", {}, "400"),
        ("turn", "went wrong", {}, "turn_error"),
        ("generation", None, {"status": 529}, "529"),
        ("generation", None, {"error_type": "overloaded_error"}, "overloaded_error"),
        ("generation", None, {"error_type": "A secret text", "status": "x"}, "generation_error"),
        ("event", "API Error: Request rejected (429)", {}, "429"),
    ],
)
def test_error_types(kind: str, error: str | None, metadata: dict[str, Any], expected: str) -> None:
    span = made(kind, "api_error" if kind == "event" else "Bash", status="error", error=error, metadata=metadata)
    assert PROFILES["otel"](span, LABELS)[1]["error.type"] == expected


def test_agent_run_id_is_not_sent_as_agent_id() -> None:
    """The conventions mean the id of a stored agent; with a run's id every run would be another agent."""
    for profile in ("otel", "openinference", "mlflow"):
        assert "gen_ai.agent.id" not in PROFILES[profile](SPANS["subagent"], LABELS)[1]
    assert PROFILES["otel"](SPANS["subagent"], LABELS)[1]["cc_trace.agent_id"] == "a1"
