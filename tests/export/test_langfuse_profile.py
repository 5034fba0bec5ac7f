"""What a person sees in Langfuse: tool output as it was, names and tags that tell, times that are known."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles_spans import ABOUT, MODEL, SECOND, START, made

from cc_trace.export.destination import DestinationSettings
from cc_trace.export.langfuse import Langfuse
from cc_trace.export.profiles import PROFILES, Labels
from cc_trace.export.profiles.fences import fenced
from cc_trace.spans.model import Response, Span, Tool


def sent(span: Span, labels: Labels | None = None) -> tuple[str, dict[str, Any]]:
    name, attributes = PROFILES["langfuse"](span, labels or Labels())
    return name, {key.removeprefix("langfuse."): value for key, value in attributes.items()}


def tool(name: str, output: str, given: Any = None, **more: Any) -> Span:
    return made("tool", name, input=given, output=output, tool=Tool("toolu_1", name, None), **more)


def unfenced(text: str) -> str:
    """What a reader of Markdown shows of a fence: all lines up to the first that is at least as long a run."""
    first, *lines = text.split("\n")
    fence = first[: len(first) - len(first.lstrip("`"))]
    end = next(n for n, line in enumerate(lines) if line.startswith(fence) and not line.strip("`"))
    assert lines[end + 1 :] == []
    return "\n".join(lines[:end])


@given(st.text(alphabet="`\n a#", max_size=60))
def test_any_text_can_be_fenced(text: str) -> None:
    assert unfenced(fenced(text)) == text.removesuffix("\n")


@pytest.mark.parametrize(
    ("span", "shown"),
    [
        (tool("Bash", "# not a heading\n    indented"), "```\n# not a heading\n    indented\n```"),
        (tool("Grep", "a\n```\nb"), "````\na\n```\nb\n````"),
        (tool("Read", "1\timport os\n", {"file_path": "/x/a.PY"}), "```py\n1\timport os\n```"),
        (tool("Read", "x", {"file_path": "/x/Makefile"}), "```\nx\n```"),
        (tool("Read", "x", {"file_path": 7}), "```\nx\n```"),
        (tool("Read", "no such file", {"file_path": "a.py"}, status="error"), "```\nno such file\n```"),
        (tool("Agent", "# A review"), "# A review"),
        (tool("WebFetch", "**bold**"), "**bold**"),
        (made("event", "hook", output="# ok", metadata={"hook_event": "Stop"}), "```\n# ok\n```"),
        (made("event", "compaction", output="## Summary"), "## Summary"),
    ],
)
def test_output_of_a_program_is_fenced_and_prose_is_not(span: Span, shown: str) -> None:
    assert sent(span)[1]["observation.output"] == shown


def test_results_that_a_response_answers_are_fenced_and_prompts_are_not() -> None:
    results: list[Any] = [
        {"role": "user", "content": "# Please"},
        {"role": "tool", "tool_call_id": "t1", "name": "Bash", "content": "# x"},
        {"role": "tool", "tool_call_id": "t2", "name": "Task", "content": "# y"},
        {"role": "tool", "tool_call_id": "t3", "name": 5, "content": None},
    ]
    shown = json.loads(sent(made("generation", MODEL, input=results))[1]["observation.input"])
    assert [message["content"] for message in shown] == ["# Please", "```\n# x\n```", "# y", ""]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("mcp__github__search_code", "github · search_code"),
        ("mcp__plugin_x__a__b", "plugin_x · a__b"),
        ("mcp__", "mcp__"),
        ("mcp__only", "mcp__only"),
        ("Bash", "Bash"),
    ],
)
def test_an_mcp_tool_is_named_by_its_server_and_its_own_name(name: str, shown: str) -> None:
    assert sent(tool(name, "x"))[0] == shown


def test_an_agent_is_named_with_its_task() -> None:
    def named(**metadata: Any) -> str:
        return sent(made("subagent", "general-purpose", metadata=metadata))[0]

    assert named(description="review\n the parser") == "general-purpose · review the parser"
    assert named(description="x" * 100) == "general-purpose · " + "x" * 79 + "…"
    assert named(description=" ") == named(description=4) == named() == "general-purpose"


@pytest.mark.parametrize(
    ("about", "name", "tags"),
    [
        ({}, "Turn 3", ["claude-code"]),
        ({"started_by": "prompt", "entrypoint": "cli"}, "Turn 3", ["claude-code", "interactive"]),
        ({"started_by": "/review", "entrypoint": "cli"}, "Turn 3 · /review", ["claude-code", "/review", "interactive"]),
        ({"started_by": "notification", "entrypoint": "sdk-py"}, "Turn 3 · notification", ["claude-code", "headless"]),
        ({"started_by": "bash", "entrypoint": "claude-vscode"}, "Turn 3 · bash", ["claude-code", "interactive"]),
        ({"entrypoint": "claude-code-github-action"}, "Turn 3", ["claude-code", "ci"]),
        ({"entrypoint": 3}, "Turn 3", ["claude-code"]),
    ],
)
def test_a_trace_is_named_and_tagged_by_what_started_it(about: dict[str, Any], name: str, tags: list[str]) -> None:
    """On every span of it alike."""
    for span in (made("turn", "Turn 3", about=about), made("event", "hook", about=about)):
        shown, found = sent(span)
        assert (found["trace.name"], found["trace.tags"]) == (name, tags)
        assert shown == (name if span.kind == "turn" else "hook")


def test_tags_of_the_user_follow_without_duplicates() -> None:
    labels = Labels(tags=("night", "claude-code"))
    assert sent(made("turn", "Turn 3", about=ABOUT), labels)[1]["trace.tags"] == ["claude-code", "interactive", "night"]


@pytest.mark.parametrize(
    ("took_ms", "thinking", "known"),
    [
        (300, ["why"], "2026-01-01T12:00:00.200Z"),
        (300.5, [""], "2026-01-01T12:00:00.199Z"),
        (None, ["why"], None),
        (300, [], None),
        (300, ["one", "two"], None),
        (900, ["longer than the request"], None),
        (-5, ["odd"], None),
        ("300", ["odd"], None),
    ],
)
def test_completion_start_time_is_sent_only_if_known(took_ms: Any, thinking: Any, known: str | None) -> None:
    """A response's first line is written when its first block is complete, not when it began."""
    response = Response("m", None, MODEL, START + SECOND // 2, None, usage_complete=True, cost_usd=None)
    output = {"role": "assistant", "content": "x", "thinking": thinking}
    span = made("generation", MODEL, output=output, metadata={"thinking_ms": took_ms}, response=response)
    assert sent(span)[1].get("observation.completion_start_time") == known


def test_scope_name_prevents_duplicated_metadata() -> None:
    """Langfuse repeats attributes in metadata unless the scope's name begins so; the resource has the real name."""
    keys = {"public_key": "pk-lf-1", "secret_key": "sk-lf-2"}
    langfuse = Langfuse(DestinationSettings("langfuse", "langfuse", endpoint="http://127.0.0.1:9", **keys))  # type: ignore[arg-type]
    request = json.loads(langfuse.as_json(langfuse.encode(made("turn", "Turn 3"))))["resourceSpans"][0]
    scope = request["scopeSpans"][0]["scope"]
    assert scope["name"] == "langfuse-sdk/cc-trace"
    assert scope["attributes"] == [{"key": "public_key", "value": {"stringValue": "pk-lf-1"}}]
    resource = {pair["key"]: pair["value"]["stringValue"] for pair in request["resource"]["attributes"]}
    assert resource["telemetry.sdk.name"] == "cc-trace"
    langfuse.close()
