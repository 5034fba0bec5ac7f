"""A turn's time adds up, whatever happened in it, and nothing is counted as something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lines import line, prompt, reply, result, session, spans, tool_use, turn_duration

from cc_trace.spans.time_spent import KINDS, Interval, Kind, time_spent

if TYPE_CHECKING:
    from pathlib import Path

    from lines import Line

some = st.lists(st.tuples(st.integers(-50, 150), st.integers(-50, 150)))


@given(found=st.dictionaries(st.sampled_from(KINDS), some), start=st.integers(0, 50), length=st.integers(0, 80))
def test_every_millisecond_is_counted_once_for_the_first_kind(
    found: dict[Kind, list[Interval]], start: int, length: int
) -> None:
    """Counted one by one, it is the same."""
    expected = dict.fromkeys([*KINDS, "unknown"], 0)
    for at in range(start, start + length):
        kinds = [kind for kind, times in found.items() if any(first <= at < last for first, last in times)]
        expected[min(kinds, key=KINDS.index) if kinds else "unknown"] += 1
    spent = time_spent(start, start + length, found)
    assert spent == expected
    assert sum(spent.values()) == length


def times(folder: Path, *lines: Line) -> dict[str, int]:
    """How the first turn of a session was spent, without what took no time."""
    root = spans(session(folder, *lines))[0]
    spent = root.metadata["time_ms"]
    assert isinstance(spent, dict)
    assert root.start_ns is not None
    assert root.end_ns is not None
    found = {name: ms for name, ms in spent.items() if isinstance(ms, int) and ms}
    assert sum(found.values()) == (root.end_ns - root.start_ns) // 1_000_000
    return found


def sent(id_: str, at: float) -> Line:
    return line("api-request", at, id=id_)


def hook(event: str, ms: int, at: float) -> Line:
    said = {"type": "hook_success", "hookEvent": event, "command": "check", "durationMs": ms, "stdout": "ok"}
    return line("attachment", at, attachment=said)


ASKED = {"decision": "accept", "source": "user_temporary", "reasonCode": "unknown"}
RULE = {"decision": "accept", "source": "config", "reasonType": "rule"}


def test_hook_time_within_a_call_is_not_tool_time(tmp_path: Path) -> None:
    spent = times(
        tmp_path,
        prompt("a", 0),
        sent("r1", 1),
        reply("m1", tool_use("t1"), at=2, requestRef="r1"),
        hook("PreToolUse", 3000, 5),
        result("t1", at=9, permissionDecision=RULE),
        sent("r2", 10),
        reply("m2", "Done.", at=11, requestRef="r2"),
    )
    assert spent == {"model": 2000, "tools": 4000, "hooks": 3000, "unknown": 2000}


def test_call_denied_by_a_hook_is_hook_time(tmp_path: Path) -> None:
    refused = {"decision": "reject", "source": "hook", "reasonCode": "hook:PreToolUse"}
    spent = times(
        tmp_path,
        prompt("a", 0),
        reply("m1", tool_use("t1"), at=1),
        result("t1", "no", at=4, error=True, permissionDecision=refused),
        reply("m2", "Done.", at=5),
    )
    assert spent == {"model": 2000, "hooks": 3000}


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        ([turn_duration(3000, at=10)], {"model": 2000, "permission": 7000, "tools": 1000}),
        ([], {"model": 2000, "unknown": 8000}),  # nothing tells how long the dialog was open
    ],
)
def test_permission_time_is_missing_from_the_turn_duration(
    tmp_path: Path, ended: list[Line], expected: dict[str, int]
) -> None:
    """Claude Code does not count it, and does not say which call waited."""
    spent = times(
        tmp_path,
        prompt("a", 0),
        reply("m1", tool_use("t1"), at=1),
        result("t1", at=9, permissionDecision=ASKED),
        reply("m2", "Done.", at=10),
        *ended,
    )
    assert spent == expected


def test_edit_starts_at_its_file_backup(tmp_path: Path) -> None:
    """So the wait for its permission is known."""
    call = reply("m1", tool_use("t1", "Write", file_path="/a.txt"), at=1)
    lines = [
        prompt("a", 0),
        call,
        line("file-history-delta", 8, trackingPath="/a.txt", messageId=call["uuid"]),
        result("t1", at=9, permissionDecision=ASKED),
        reply("m2", "Done.", at=10),
    ]
    assert times(tmp_path, *lines) == {"model": 2000, "permission": 7000, "tools": 1000}
    tool = next(span for span in spans(session(tmp_path, *lines)) if span.kind == "tool")
    assert tool.metadata["permission"] == {"decision": "accept", "source": "user_temporary", "wait_ms": 7000}


def test_wait_before_a_retry_is_not_model_time(tmp_path: Path) -> None:
    failed: dict[str, Any] = {"subtype": "api_error", "error": {"status": 529}, "retryInMs": 4000.7}
    spent = times(tmp_path, prompt("a", 0), line("system", 1, **failed), reply("m1", "Done.", at=7))
    assert spent == {"model": 3000, "retries": 4000}


def test_a_failed_attempt_is_a_retry_from_its_request_on(tmp_path: Path) -> None:
    """Whether a line tells of the failure or only the next request does."""
    failed: dict[str, Any] = {"subtype": "api_error", "error": {"status": 529}, "retryInMs": 2000}
    answer = reply("m1", "Done.", at=9, requestRef="r3")
    lines = [prompt("a", 0), sent("r1", 1), line("system", 2, **failed), sent("r2", 4), sent("r3", 7), answer]
    assert times(tmp_path, *lines) == {"unknown": 1000, "retries": 6000, "model": 2000}


def test_turn_with_rewritten_times_has_no_time_spent(tmp_path: Path) -> None:
    """Some versions gave all lines of a resumed session one time, hours after their prompts."""
    root = spans(session(tmp_path, prompt("a", 0), reply("m1", tool_use("t1"), at=20_000), result("t1", at=20_000)))[0]
    assert "time_ms" not in root.metadata


def test_a_question_to_the_human_is_idle(tmp_path: Path) -> None:
    spent = times(
        tmp_path,
        prompt("a", 0),
        reply("m1", tool_use("t1", "AskUserQuestion"), at=1),
        result("t1", "blue", at=61, permissionDecision=ASKED),
        reply("m2", "Done.", at=62),
    )
    assert spent == {"model": 2000, "idle": 60_000}


def test_a_turn_without_times_has_no_time_spent(tmp_path: Path) -> None:
    root = spans(session(tmp_path, prompt("a", None), reply("m1", "Done.", at=None)))[0]
    assert "time_ms" not in root.metadata
