"""Where other tracers of Claude Code fail in reading a transcript, one test for each failure, by its number.

The list is of failures seen in other tools; those that concern delivery, locks and hooks are tested with those parts.
"""

from __future__ import annotations

import json
import re
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

import pytest
from lines import (
    MODEL,
    SESSION,
    USAGE,
    agent,
    api_error,
    compact_boundary,
    compact_summary,
    encoded,
    interrupt,
    launched,
    notification,
    ns,
    prompt,
    reply,
    result,
    retry,
    session,
    spans,
    stamp,
    stop_hook_summary,
    task,
    text,
    thinking,
    tool_use,
    tree,
    turn_duration,
    write,
)

from cc_trace.spans.session import Session
from cc_trace.transcript.entries import Usage
from cc_trace.transcript.lines import CHUNK_BYTES, Position, read_lines
from cc_trace.transcript.lines import Line as RawLine

if TYPE_CHECKING:
    from pathlib import Path

    from lines import Line

    from cc_trace.spans.model import Span

FORK = "22222222-0000-4000-8000-000000000002"


def of_kind(kind: str, found: list[Span]) -> list[Span]:
    """The spans of one kind."""
    return [span for span in found if span.kind == kind]


def seconds(span: Span) -> tuple[float | None, float | None]:
    """A span's times, in the seconds that its lines were written with."""
    start, end = span.start_ns, span.end_ns
    return start and (start - ns(0)) / 1e9, end and (end - ns(0)) / 1e9


def test_01_duration_of_a_turn_is_not_put_on_the_next(tmp_path: Path) -> None:
    """`turn_duration` is written after Stop: it belongs to the turn before it, even with the next prompt in between."""
    one, two = [prompt("one"), reply("m1", "ok", at=1)], [prompt("two", 10), reply("m2", "ok", at=11)]
    usual = session(tmp_path / "a", *one, turn_duration(700, at=2), *two, turn_duration(800, at=12))
    raced = session(tmp_path / "b", *one, two[0], turn_duration(700, at=10), two[1])
    known = [[turn.metadata.get("duration_ms") for turn in of_kind("turn", spans(main))] for main in (usual, raced)]
    assert known[0] == [700, 800]
    assert known[1][1] is None


def test_03_final_text_is_not_lost_when_its_line_is_torn(tmp_path: Path) -> None:
    """The last line can be read in the middle of its writing: it is then not there yet, and whole the next time."""
    lines = [prompt("go"), reply("m1", tool_use("t1"), at=1), result("t1", at=2), reply("m2", "The end: é.", at=3)]
    whole = b"".join(encoded(item) + b"\n" for item in lines)
    start = whole.index(encoded(lines[-1]))
    main = session(tmp_path)
    for size in (start + 1, start + 12, start + 20, whole.index("é".encode()) + 1, len(whole) - 3):
        main.write_bytes(whole[:size])
        read = Session(main)
        assert [span.kind for span in read.spans()] == ["turn", "generation", "tool"]
        assert read.summary.skipped == {"torn last line": 1}
        *_, last = read_lines(main)
        position = Position(last.offset + len(last.data or b""), last.number + 1)
        main.write_bytes(whole)
        assert list(read_lines(main, position)) == [RawLine(start, 3, whole[start:])]
        assert spans(main)[0].output == "The end: é."


def test_03_final_text_is_not_lost_when_it_lands_after_stop(tmp_path: Path) -> None:
    """The Stop hooks can be done before the last reply is in the file."""
    main = session(
        tmp_path, prompt("go"), reply("m1", "Well.", at=1), stop_hook_summary(at=2), reply("m2", "So.", at=3)
    )
    found = spans(main)
    assert (found[0].output, found[0].status) == ("So.", "ok")


def test_04_all_blocks_of_a_response_are_kept(tmp_path: Path) -> None:
    """Every block is a line of its own; the last one alone is a quarter of the response."""
    blocks = [thinking("hm"), text("Let me look."), tool_use("t1", command="ls"), text("And there.")]
    main = session(tmp_path, prompt("go"), *(reply("m1", block, at=at) for at, block in enumerate(blocks, 1)))
    (generation,) = of_kind("generation", spans(main))
    assert generation.output == {
        "role": "assistant",
        "content": "Let me look.\nAnd there.",
        "thinking": ["hm"],
        "tool_calls": [{"id": "t1", "name": "Bash", "input": {"command": "ls"}}],
    }
    assert seconds(generation) == (0, 4)


def test_05_lines_of_a_response_need_not_be_adjacent(tmp_path: Path) -> None:
    """Tools start while the response streams: results stand between its lines, one even before its call."""
    main = session(
        tmp_path,
        prompt("go"),
        reply("m1", tool_use("t1"), at=1),
        result("t1", at=2),
        result("t2", at=3),
        reply("m1", tool_use("t2"), at=3),
        reply("m1", "both", at=4),
        reply("m2", "done", at=6),
    )
    expected = """
        turn Turn 1 ok
          generation m1 ok
            tool Bash t1 ok
            tool Bash t2 ok
          generation m2 ok
    """
    assert cleandoc(expected) == tree(spans(main))


def test_06_usage_is_counted_once_and_priced_by_its_kind(tmp_path: Path) -> None:
    """Lines of a response repeat its usage, early ones with a placeholder; cache has its own prices."""
    early = {**USAGE, "output_tokens": 1}
    main = session(tmp_path, prompt("go"), reply("m1", "a", at=1, usage=early), reply("m1", "b", at=2))
    read = Session(main)
    (response,) = [span.response for span in read.spans() if span.response is not None]
    assert response.usage == Usage(12, 400, 50_000, 1_000, 2_000)
    assert response.cost_usd == pytest.approx(0.036786, rel=1e-12)
    assert (read.summary.context_tokens, read.summary.output_tokens) == (53_012, 400)


HISTORY = [
    prompt("one"),
    reply("m1", tool_use("t1"), at=1),
    retry(at=1.5),
    result("t1", "No", at=2, error=True),
    reply("m2", "ok", at=3),
    prompt("two", 10),
    api_error("e1", "API Error: 400", at=11),
    prompt("three", 20),
    reply("m3", "ok", at=21),
]


def forked(item: Line) -> Line:
    """A line as --fork-session copies it."""
    return {**item, "sessionId": FORK}


def resumed(item: Line) -> Line:
    """A line as 1.0.51 to 1.0.71 copy it when a session is resumed."""
    return {**item, "sessionId": FORK, "uuid": f"new-{item['uuid']}", "timestamp": stamp(100)}


@pytest.mark.parametrize("copy", [forked, resumed])
def test_10_copied_turns_have_the_ids_of_their_origin(tmp_path: Path, copy: Any) -> None:
    """A copy has a new sessionId, and from some versions new uuids and times; only what was added is new."""
    added = [prompt("four", 200), reply("m4", "ok", at=201)]
    origin = session(tmp_path, *HISTORY)
    copied = write(tmp_path / f"{FORK}.jsonl", [*map(copy, HISTORY), *added])

    def ids(main: Path) -> list[tuple[str, str, str | None, str]]:
        return [(span.trace_id, span.span_id, span.parent_id, span.kind) for span in spans(main)]

    assert ids(copied)[:-2] == ids(origin)
    assert not {row[:2] for row in ids(copied)[-2:]} & {row[:2] for row in ids(origin)}
    assert {span.session_id for span in spans(copied)} == {FORK}


def test_13_times_are_those_of_the_transcript(tmp_path: Path) -> None:
    """Parallel tools overlap, a response starts when it was asked, and no span ends before it starts."""
    main = session(
        tmp_path,
        prompt("go"),
        reply("m1", tool_use("t1"), tool_use("t2"), at=2),
        result("t2", at=5),
        result("t1", at=9),
        reply("m2", tool_use("t3"), at=12),
        result("t3", at=11),
        reply("m3", tool_use("t4"), at=14),
    )
    found = spans(main)
    times = [(span.tool.id if span.tool else span.kind, *seconds(span)) for span in found]
    assert times == [
        ("turn", 0, 14),
        ("generation", 0, 2),
        ("t1", 2, 9),
        ("t2", 2, 5),
        ("generation", 9, 12),
        ("t3", 11, 11),  # the clock went back: when it started is not known
        ("generation", 12, 14),
        ("t4", 14, 14),  # still running, or killed: when it ended is not known
    ]
    notes = {span.tool.id: span.metadata.get("time") for span in found if span.tool is not None}
    assert notes == {"t1": None, "t2": None, "t3": "start unknown", "t4": "end unknown"}


def test_13_unknown_times_are_said_and_not_invented(tmp_path: Path) -> None:
    """The format of the specification has lines without a timestamp: all of them here, then all but the answer."""
    untimed = [prompt("go", None), reply("m1", tool_use("t1"), at=None), result("t1", at=None)]
    times = [(span.kind, *seconds(span), span.metadata.get("time")) for span in spans(session(tmp_path, *untimed))]
    assert times == [(kind, None, None, "unknown") for kind in ("turn", "generation", "tool")]
    answered = session(tmp_path, prompt("go", None), reply("m1", "ok", at=5))
    times = [(span.kind, *seconds(span), span.metadata.get("time")) for span in spans(answered)]
    assert times == [("turn", 5, 5, "start unknown"), ("generation", 5, 5, "start unknown")]


def test_14_parallel_subagents_do_not_collide_and_nested_ones_are_there(tmp_path: Path) -> None:
    """Agents that run at once, do the same, and start others: every span once, each below its own parent."""
    calls = [task(f"t{number}") for number in range(4)]
    results = [result(f"t{number}", at=9) for number in range(4)]
    main = session(tmp_path, prompt("go"), reply("m1", *calls, at=1), *results, reply("m2", "done", at=10))
    for number in range(4):
        work = [prompt("look", 2), reply(f"s{number}", task(f"u{number}"), at=3), result(f"u{number}", at=7)]
        agent(main, f"a{number}", *work, toolUseId=f"t{number}", agentType="outer")
        deeper = [prompt("look", 4), reply(f"d{number}", "seen", at=5)]
        agent(main, f"b{number}", *deeper, toolUseId=f"u{number}", agentType="inner", parentAgentId=f"a{number}")
    each = """
        tool Agent t{0} ok
          subagent outer incomplete [a{0}]
            generation s{0} ok [a{0}]
              tool Agent u{0} ok [a{0}]
                subagent inner ok [b{0}]
                  generation d{0} ok [b{0}]
    """
    found = spans(main)
    below = [f"    {row}" for number in range(4) for row in cleandoc(each).format(number).splitlines()]
    assert ["turn Turn 1 ok", "  generation m1 ok", *below, "  generation m2 ok"] == tree(found).splitlines()
    assert len({span.span_id for span in found}) == len(found)


def test_15_errors_are_seen(tmp_path: Path) -> None:
    """A tool's error, a refusal, an API error and an interrupt are statuses, and an API error is no generation."""
    denied = result("t2", "The user doesn't want to proceed.", at=3, error=True, toolDenialKind="user-rejected")
    main = session(
        tmp_path,
        prompt("go"),
        reply("m1", tool_use("t1"), tool_use("t2"), at=1),
        result("t1", "Exit code 3\nno such file", at=2, error=True),
        denied,
        api_error("e1", "API Error: 400 too long", at=4),
        prompt("more", 10),
        reply("m2", "Well", at=11),
        interrupt(at=12),
    )
    assert [(span.kind, span.name, span.status, span.error) for span in spans(main)] == [
        ("turn", "Turn 1", "error", "API Error: 400 too long"),
        ("generation", MODEL, "ok", None),
        ("tool", "Bash", "error", "Exit code 3\nno such file"),
        ("tool", "Bash", "error", "The user doesn't want to proceed."),
        ("event", "api_error", "error", "API Error: 400 too long"),
        ("turn", "Turn 2", "interrupted", "[Request interrupted by user]"),
        ("generation", MODEL, "ok", None),
        ("event", "interruption", "interrupted", "[Request interrupted by user]"),
    ]


def test_16_only_prompts_are_prompts(tmp_path: Path) -> None:
    """Notifications, summaries, local commands and interrupts start no turn; a `!` command that is answered does."""
    main = session(
        tmp_path,
        prompt("go"),
        reply("m1", task("t1"), at=1),
        launched("t1", "a1", at=2),
        reply("m2", "started", at=3),
        notification("a1", at=4, tool_use_id="t1"),
        reply("m3", "noted", at=5),
        compact_boundary(at=6),
        compact_summary(at=6),
        reply("m4", "going on", at=7),
        interrupt(at=8),
        prompt("<command-name>/model</command-name>", 9),
        prompt("<local-command-stdout>Set.</local-command-stdout>", 9),
        prompt("<bash-input>ls</bash-input>", 10),
        prompt("<bash-stdout>a.txt</bash-stdout><bash-stderr></bash-stderr>", 10),
        reply("m5", "One file.", at=12),
    )
    expected = """
        turn Turn 1 interrupted
          generation m1 ok
            tool Agent t1 ok
          generation m2 ok
          event notification ok
          generation m3 ok
          event compaction ok
          generation m4 ok
          event interruption interrupted
        turn Turn 2 ok
          generation m5 ok
    """
    found = spans(main)
    assert cleandoc(expected) == tree(found)
    asked = [(turn.metadata["trigger"], turn.input) for turn in of_kind("turn", found)]
    output = "<bash-stdout>a.txt</bash-stdout><bash-stderr></bash-stderr>"
    assert asked == [("prompt", "go"), ("bash", f"!ls\n{output}")]


@pytest.mark.parametrize("ending", [[], [interrupt(at=2)]], ids=["killed", "interrupted"])
def test_16_a_command_after_a_turn_that_was_cut_off_starts_a_turn(tmp_path: Path, ending: list[Line]) -> None:
    """A tool call without a result does not mean that Claude is at work: it was killed, or stopped by the user."""
    command = [prompt("<command-name>/fix</command-name>", 20), prompt("Fix all.", 20, isMeta=True)]
    cut_off = [prompt("go"), reply("m1", tool_use("t1"), at=1), *ending]
    main = session(tmp_path, *cut_off, *command, reply("m2", "fixed", at=22))
    asked = [(turn.metadata["trigger"], turn.input) for turn in of_kind("turn", spans(main))]
    assert asked == [("prompt", "go"), ("command", "/fix")]


@pytest.mark.parametrize("one_turn", [False, True])
def test_17_no_span_carries_the_history(tmp_path: Path, *, one_turn: bool) -> None:
    """A response has as input what it answers and nothing before: spans grow with the session, not with its square."""

    def size(count: int) -> int:
        lines = []
        for number in range(100, 100 + count):
            if number == 100 or not one_turn:
                lines.append(prompt(f"Question {number}", number))
            lines += [
                reply(f"m{number}", f"Answer {number}", tool_use(f"t{number}"), at=number),
                result(f"t{number}", f"Result {number}", at=number),
            ]
        found = spans(session(tmp_path / str(count), *lines))
        return sum(len(json.dumps([span.input, span.output, span.metadata])) for span in found)

    assert size(400) == pytest.approx(4 * size(100), rel=0.01)


@pytest.mark.parametrize("name", ["m", "m" * 5000, "é🙂", "a b\n", "\ud83d", "x-" * 9])
def test_18_ids_are_such_as_every_backend_takes(tmp_path: Path, name: str) -> None:
    """Sixteen and eight bytes in hex, not all zero, whatever the transcript's own ids look like; none is missing."""
    lines = [prompt("go"), reply(name, tool_use(f"t{name}"), at=1), result(f"t{name}", at=2), retry(at=3)]
    main = session(tmp_path, *(json.dumps(item) for item in lines))
    found = spans(main)
    assert [span.kind for span in found] == ["turn", "generation", "tool", "event"]
    for span in found:
        assert re.fullmatch(r"(?!0+$)[0-9a-f]{32}", span.trace_id)
        assert re.fullmatch(r"(?!0+$)[0-9a-f]{16}", span.span_id)
    assert len({span.span_id for span in found}) == 4
    assert [span.parent_id for span in found] == [None, found[0].span_id, found[1].span_id, found[0].span_id]


def test_18_ids_differ_where_the_transcript_has_none(tmp_path: Path) -> None:
    """The simplest format has neither ids nor times: the same question with the same answer is still another turn."""
    asked = [{"type": "user", "message": "Hello"}, {"type": "assistant", "message": "Hi there!"}]
    used: list[Line] = [{"type": "tool_use", "name": "Read", "input": {}}, {"type": "tool_result", "content": "x"}]
    found = spans(session(tmp_path, *asked, *used, *asked, *used))
    assert [span.kind for span in found] == ["turn", "generation", "tool"] * 2
    assert len({span.span_id for span in found}) == 6
    assert len({span.trace_id for span in found}) == 2


def test_19_reading_on_does_not_read_what_lies_before(tmp_path: Path) -> None:
    """A gigabyte that was never written: it would be one line of zeros, too long to hold, if anyone looked at it."""
    main, hole = tmp_path / f"{SESSION}.jsonl", 1 << 30
    added = encoded(prompt("next")) + b"\n"
    with main.open("wb") as file:
        file.truncate(hole)
        file.seek(hole)
        file.write(added)
    assert list(read_lines(main, Position(hole, 7))) == [RawLine(hole, 7, added)]


def test_20_characters_are_not_cut_where_reading_is(tmp_path: Path) -> None:
    """Characters of four bytes lie over the end of the first piece that is read, at every place in them."""
    words, cut = "🙂" * (CHUNK_BYTES // 2), set()
    for shift in range(4):
        main = session(tmp_path / str(shift), prompt("." * shift + words), reply("m1", words, at=1))
        cut.add(main.read_bytes()[:CHUNK_BYTES].rindex("🙂".encode()[:1]) - CHUNK_BYTES)
        found = spans(main)[0]
        assert (found.input, found.output) == ("." * shift + words, words)
    assert cut == {-1, -2, -3, -4}
