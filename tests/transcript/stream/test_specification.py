"""Chapter 3 of the specification of Claude Code's formats: every statement about what `claude -p` prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from cc_trace.cli.claude_command import read_command
from cc_trace.spans import Session, SessionSummary, Span
from cc_trace.transcript import convert_stream, read_messages, save_stream

if TYPE_CHECKING:
    from pathlib import Path

TIME = "2026-01-26T10:00:00.000Z"
SESSION = "550e8400-e29b-41d4-a716-446655440000"
SYSTEM: dict[str, Any] = {"type": "system", "message": "Initializing Claude Code...", "timestamp": TIME}
USER: dict[str, Any] = {"type": "user", "message": "Explain this code", "timestamp": TIME}
ASSISTANT: dict[str, Any] = {
    "type": "assistant",
    "message": {
        "id": "msg_1",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "content": [{"type": "text", "text": "It adds."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 5},
    },
    "timestamp": "2026-01-26T10:00:05.000Z",
}
RESULT: dict[str, Any] = {
    "type": "result",
    "result": "The assistant's final response text...",
    "session_id": SESSION,
    "duration_ms": 15420,
    "num_turns": 5,
    "total_cost_usd": 0.0234,
}


def read(output: str, folder: Path) -> tuple[list[Span], SessionSummary]:
    runs = convert_stream(read_messages(output.encode()))
    (run,) = runs
    session = Session(save_stream(run, folder), ending="over")
    return list(session.spans()), session.summary


def test_3_1_the_form_that_an_invocation_prints_is_read(tmp_path: Path) -> None:
    """`claude -p PROMPT --output-format json`: what was asked stands on the command line."""
    known = read_command(["claude", "-p", "Your prompt here", "--output-format", "json"])
    (run,) = convert_stream(read_messages(json.dumps(RESULT).encode()), prompt=known.prompt)
    turn, _ = Session(save_stream(run, tmp_path), ending="over").spans()
    assert (turn.input, turn.status) == ("Your prompt here", "ok")


@pytest.mark.parametrize("indent", [None, 2])
def test_3_2_the_order_of_messages_is_that_of_the_run(indent: int | None, tmp_path: Path) -> None:
    """However the array is laid out: claude-code-action indents it."""
    turn, generation = read(json.dumps([SYSTEM, USER, ASSISTANT, RESULT], indent=indent), tmp_path)[0]
    assert (turn.start_ns or 0) <= (generation.start_ns or 0) <= (turn.end_ns or 0)


def test_3_2_an_array_of_typed_messages(tmp_path: Path) -> None:
    spans, summary = read(json.dumps([SYSTEM, USER, ASSISTANT, RESULT]), tmp_path)
    assert [(span.kind, span.status) for span in spans] == [("turn", "ok"), ("generation", "ok")]
    assert summary.session_id == SESSION


def test_3_3_a_system_message_starts_nothing(tmp_path: Path) -> None:
    assert read(json.dumps([SYSTEM, RESULT]), tmp_path)[0][0].input in ("", None)


def test_3_3_a_user_message_is_the_prompt_as_plain_text(tmp_path: Path) -> None:
    assert read(json.dumps([SYSTEM, USER, ASSISTANT, RESULT]), tmp_path)[0][0].input == "Explain this code"


def test_3_3_an_assistant_message_is_that_of_a_transcript(tmp_path: Path) -> None:
    _, generation = read(json.dumps([USER, ASSISTANT, RESULT]), tmp_path)[0]
    assert generation.response is not None
    assert (generation.response.message_id, generation.response.usage_complete) == ("msg_1", True)
    assert generation.output == {"role": "assistant", "content": "It adds."}


def test_3_3_the_result_is_the_final_message_and_its_figures_are_the_runs(tmp_path: Path) -> None:
    """`duration_ms`, `num_turns`, `total_cost_usd`: the critical fields."""
    turn = read(json.dumps([SYSTEM, USER, ASSISTANT, RESULT]), tmp_path)[0][0]
    assert turn.metadata["run"] == {"num_turns": 5, "duration_ms": 15420, "total_cost_usd": 0.0234}


def test_3_3_the_final_response_is_told_where_nothing_else_is(tmp_path: Path) -> None:
    """`result`: the last text."""
    assert read(json.dumps([SYSTEM, USER, RESULT]), tmp_path)[0][0].output == RESULT["result"]


def test_3_3_the_result_names_the_session_and_its_cost(tmp_path: Path) -> None:
    _, summary = read(json.dumps([USER, ASSISTANT, RESULT]), tmp_path)
    assert (summary.session_id, summary.reported_cost_usd) == (SESSION, 0.0234)


@pytest.mark.parametrize("field", ["result", "session_id", "duration_ms", "num_turns", "total_cost_usd"])
@pytest.mark.parametrize("value", [None, "x", -1, 1e300, [], {"a": []}])
def test_3_3_a_result_with_a_wrong_field_is_read_without_it(field: str, value: object, tmp_path: Path) -> None:
    spans, _ = read(json.dumps([USER, ASSISTANT, {**RESULT, field: value}]), tmp_path)
    assert [span.kind for span in spans] == ["turn", "generation"]


def test_3_4_a_single_object_is_read_as_the_result(tmp_path: Path) -> None:
    spans, summary = read(json.dumps(RESULT), tmp_path)
    assert spans[0].output == "The assistant's final response text..."
    assert (summary.session_id, summary.reported_cost_usd) == (SESSION, 0.0234)


@pytest.mark.parametrize("output", ["[]", "[{}]", "{}"])
def test_3_4_what_has_no_result_is_empty(output: str) -> None:
    """No message, no run; not an error."""
    assert convert_stream(read_messages(output.encode())) == []


def test_3_4_without_a_result_the_last_message_counts(tmp_path: Path) -> None:
    """A run that was cut off: what was said last is its output, and it is incomplete."""
    turn = read(json.dumps([SYSTEM, USER, ASSISTANT]), tmp_path)[0][0]
    assert (turn.output, turn.status) == ("It adds.", "incomplete")


def test_3_4_the_last_result_counts(tmp_path: Path) -> None:
    _, summary = read(json.dumps([USER, ASSISTANT, RESULT, {**RESULT, "total_cost_usd": 0.5}]), tmp_path)
    assert summary.reported_cost_usd == 0.5


def test_3_5_a_message_per_line(tmp_path: Path) -> None:
    lines = [
        {"type": "system", "message": "Initializing..."},
        {"type": "assistant", "message": "Working..."},
        {"type": "result", "session_id": SESSION, "total_cost_usd": 0.01},
    ]
    spans, summary = read("".join(json.dumps(line) + "\n" for line in lines), tmp_path)
    assert [(span.kind, span.status) for span in spans] == [("turn", "ok"), ("generation", "ok")]
    assert spans[0].output == "Working..."
    assert summary.reported_cost_usd == 0.01


def test_3_5_a_result_ends_a_turn(tmp_path: Path) -> None:
    """And what follows belongs to the next, which nobody may have asked for aloud."""
    second = {**ASSISTANT, "message": {**ASSISTANT["message"], "id": "msg_2"}}
    lines = [USER, ASSISTANT, RESULT, second, RESULT]
    spans, _ = read("".join(json.dumps(line) + "\n" for line in lines), tmp_path)
    turns = [(span.name, span.input, span.status) for span in spans if span.kind == "turn"]
    assert turns == [("Turn 1", "Explain this code", "ok"), ("Turn 2", "", "ok")]


def test_what_is_between_the_lines_is_skipped(tmp_path: Path) -> None:
    lines = [json.dumps(USER), "npm warn", "[1, 2]", json.dumps(ASSISTANT), '{"type": 3}', json.dumps(RESULT)]
    assert len(read("\n".join(lines), tmp_path)[0]) == 2


@pytest.mark.parametrize("output", ["", "Hello.\n", "[]", "null", "3", '{"a": 1}', "\x00\xff"])
def test_what_is_no_output_of_claude_code_is_told_apart(output: str) -> None:
    assert convert_stream(read_messages(output.encode())) == []


@pytest.mark.parametrize("call", ["x/../../../../outside", "/outside", "..", "", "x" * 300, "a\0b", "\ud83d"])
def test_no_name_in_an_output_leads_out_of_its_folder(call: str, tmp_path: Path) -> None:
    """An agent's file is called after its call where nothing else names the agent."""
    asked = {**ASSISTANT["message"], "content": [{"type": "tool_use", "id": call, "name": "Task", "input": {}}]}
    told = {**ASSISTANT, "parent_tool_use_id": call, "message": {**ASSISTANT["message"], "id": "msg_2"}}
    folder = tmp_path / "a" / "b" / "c" / "streams"
    messages = [USER, {**ASSISTANT, "message": asked}, told, RESULT]
    assert len(read("\n".join(map(json.dumps, messages)), folder)[0]) > 1
    assert [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_relative_to(folder)] == []


@pytest.mark.parametrize("form", ["lines", "an array", "an array over many lines"])
def test_half_of_a_surrogate_pair_costs_no_message(form: str, tmp_path: Path) -> None:
    """Claude Code cuts the output of a tool anywhere, also within an emoji."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "cat x"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "cut \ud83d"}
    messages = [
        {**USER, "session_id": SESSION},
        {**ASSISTANT, "message": {**ASSISTANT["message"], "id": "msg_0", "content": [call]}},
        {"type": "user", "message": {"role": "user", "content": [result]}, "timestamp": TIME},
        ASSISTANT,
        RESULT,
    ]
    written = json.dumps(messages, indent=1 if form == "an array over many lines" else None)
    spans, _ = read("\n".join(map(json.dumps, messages)) if form == "lines" else written, tmp_path)
    assert [span.kind for span in spans] == ["turn", "generation", "tool", "generation"]
    assert [span.output for span in spans if span.kind == "tool"] == ["cut ?"]


def test_a_folder_with_a_nul_is_none() -> None:
    (run,) = convert_stream(read_messages(json.dumps([{**SYSTEM, "subtype": "init", "cwd": "/a\0b"}, RESULT]).encode()))
    assert (run.cwd, [line for line in run.lines if "cwd" in line]) == (None, [])
