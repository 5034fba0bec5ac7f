"""What holds for every session: our cases, recorded runs of the real CLI, and public transcripts."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

import orjson
import pytest
from lines import MODEL, compact_boundary, compact_summary, line, prompt, reply, session
from recount import USAGE, agent_files, recount
from shared import case_transcripts, everything, label, recordings

from cc_trace.cli.json_output import session_json, span_json
from cc_trace.spans.session import Session
from cc_trace.transcript import ModelTotals

if TYPE_CHECKING:
    from pathlib import Path

    from cc_trace.spans.model import Span

sessions = pytest.mark.parametrize("transcript", everything(), ids=label)


def spans_of(transcript: Path) -> list[Span]:
    return list(Session(transcript).spans())


@sessions
def test_every_response_is_one_generation_with_its_tokens(transcript: Path) -> None:
    """Every real message.id is exactly one generation, with the maximum of its lines' usage."""
    counted = recount(transcript, agent_files(transcript)).responses
    spans = spans_of(transcript)
    answered = [span for span in spans if span.status != "error" and "advisor" not in span.metadata]
    found = [span.response for span in answered if span.response is not None]
    assert sorted(counted) == sorted(response.message_id or "" for response in found)
    usages = {
        response.message_id: {
            "input": usage.input,
            "output": usage.output,
            "cache_read": usage.cache_read,
            "cache_write_5m": usage.cache_write_5m,
            "cache_write_1h": usage.cache_write_1h,
        }
        for response in found
        if (usage := response.usage) is not None
    }
    assert counted == usages


@sessions
def test_a_generation_starts_when_its_request_was_sent(transcript: Path) -> None:
    """Where Claude Code recorded the request; else the metadata says that the start is derived, or not known."""
    sent: dict[str, str] = {}
    refs: dict[str, str] = {}
    for path in (transcript, *agent_files(transcript)):
        for text in path.read_bytes().splitlines():
            try:
                raw = json.loads(text)
            except ValueError:
                continue
            match raw:
                case {"type": "api-request", "id": str(id_), "timestamp": str(time)}:
                    sent[id_] = time
                case {"type": "assistant", "requestRef": str(ref), "message": {"id": str(message_id)}}:
                    refs[message_id] = ref
    for span in spans_of(transcript):
        if span.response is None or "advisor" in span.metadata or span.status == "error":
            continue
        sent_at = sent.get(refs.get(span.response.message_id or "", ""))
        if sent_at is not None:
            assert span.start_ns == round(datetime.fromisoformat(sent_at).timestamp() * 1000) * 1_000_000
            assert "time" not in span.metadata
            assert span.metadata["attempts"]
        else:
            assert span.metadata["time"]


@sessions
def test_no_span_begins_before_its_trace(transcript: Path) -> None:
    """Not even a compaction that happened hours before the prompt."""
    roots = {span.trace_id: span.start_ns for span in spans_of(transcript) if span.kind == "turn"}
    events = [span for span in spans_of(transcript) if span.kind == "event" and span.agent_id is None]
    early = [span for span in events if (span.start_ns or 0) < (roots[span.trace_id] or 0)]
    assert [span.name for span in early] == []


@sessions
def test_advisor_rounds_are_separate_generations(transcript: Path) -> None:
    """Every advisor's round is a generation below the response that asked, with its own model and tokens."""
    counted = recount(transcript, agent_files(transcript)).advice
    spans = spans_of(transcript)
    asking = {span.span_id: span.response.message_id for span in spans if span.response is not None}
    found: dict[str, list[tuple[str, dict[str, int]]]] = {}
    for span in spans:
        if span.response is not None and "advisor" in span.metadata:
            usage = span.response.usage
            assert usage is not None
            tokens = (usage.input, usage.output, usage.cache_read, usage.cache_write_5m, usage.cache_write_1h)
            told = (span.name, dict(zip(USAGE, tokens, strict=True)))
            found.setdefault(asking[span.parent_id or ""] or "", []).append(told)
    assert counted == found


@sessions
def test_every_tool_use_is_one_tool_span(transcript: Path) -> None:
    """Every tool_use.id is exactly one tool span, under its name."""
    counted = recount(transcript, agent_files(transcript)).tools
    found = [span.tool for span in spans_of(transcript) if span.tool is not None]
    assert sorted(counted.items()) == sorted((tool.id, tool.name) for tool in found)


@sessions
def test_every_human_prompt_is_in_one_turn(transcript: Path) -> None:
    """Each human prompt is one turn's, or goes along with one; only those after the last response are still to come."""
    if "agent-" in transcript.name:
        pytest.skip("an agent's own file: its prompts are not a human's")
    counted = recount(transcript, agent_files(transcript))
    spans = spans_of(transcript)
    turns = [span for span in spans if span.kind == "turn"]
    human = [turn for turn in turns if turn.metadata["trigger"] in ("prompt", "continuation")]
    taken = [*human_texts(human), *unanswered(turns)]
    # A prompt's images are described in its text; the recount knows only words.
    words = Counter(_words(text) for text in taken)
    expected = Counter(_words(text) for text in counted.prompts)
    missing = expected - words
    assert not words - expected
    last = [_words(text) for text in counted.prompts][len(counted.prompts) - sum(missing.values()) :]
    assert missing == Counter(last), "only prompts at the end of the file may have no turn yet"
    typed = [str(span.input) for span in spans if span.name == "prompt" and span.kind == "event"]
    assert set(counted.prompts_mid_turn) <= set(typed)


def human_texts(turns: list[Span]) -> list[str]:
    return [str(turn.input) for turn in turns]


def unanswered(turns: list[Span]) -> list[str]:
    found: list[str] = []
    for turn in turns:
        earlier = turn.metadata.get("unanswered_prompts", [])
        assert isinstance(earlier, list)
        found += [str(text) for text in earlier]
    return found


def _words(text: str) -> str:
    lines = [line for line in text.split("\n") if not line.startswith(("[image ", "[document "))]
    return "\n".join(lines).strip()


@sessions
def test_spans_form_trees(transcript: Path) -> None:
    """Ids are unique, each parent stands before its child in the same trace, and no span ends before it starts."""
    known: dict[str, Span] = {}
    for span in spans_of(transcript):
        assert span.span_id not in known
        assert len(span.trace_id) == 32
        assert len(span.span_id) == 16
        assert span.session_id
        if span.parent_id is None:
            assert span.kind == "turn"
        else:
            assert known[span.parent_id].trace_id == span.trace_id
        assert (span.start_ns is None) == (span.end_ns is None)
        if span.start_ns is not None and span.end_ns is not None:
            assert span.start_ns <= span.end_ns
        known[span.span_id] = span


@sessions
def test_generations_lie_within_their_turn(transcript: Path) -> None:
    """A turn spans the responses and foreground tools of its main thread."""
    turns: dict[str, Span] = {}
    for span in spans_of(transcript):
        if span.kind == "turn":
            turns[span.trace_id] = span
        elif span.kind in ("generation", "tool") and span.agent_id is None and span.start_ns is not None:
            turn = turns[span.trace_id]
            assert turn.start_ns is not None
            assert turn.end_ns is not None
            assert span.end_ns is not None
            assert turn.start_ns <= span.start_ns
            assert span.end_ns <= turn.end_ns


@sessions
def test_building_twice_gives_the_same_bytes(transcript: Path) -> None:
    """Nothing in a span comes from the clock, the environment or the order of a set."""
    assert _bytes(transcript) == _bytes(transcript)


def _bytes(transcript: Path) -> bytes:
    session = Session(transcript)
    rows = [span_json(span) for span in session.spans()]
    return orjson.dumps([*rows, session_json(session.summary)])


# What Claude Code spent on requests of its own: the summary of a compaction, a plan's title, a name for a session.
UNSEEN = {
    "44444444-0000-4000-8000-000000000002": 0.001095,
    "44444444-0000-4000-8000-000000000003": 0.001095,
    "44444444-0000-4000-8000-000000000033": 0.001095,
    "5403f1c5-0000-4000-8000-000000000001": 0.0005353,
}
COMPACTED = {"44444444-0000-4000-8000-000000000002", "5403f1c5-0000-4000-8000-000000000001"}
KILLED = {"44444444-0000-4000-8000-000000000005"}


@pytest.mark.parametrize("transcript", [*case_transcripts(), *recordings()], ids=label)
def test_traced_and_unseen_usage_add_up_to_claude_codes_total(transcript: Path) -> None:
    """Except for aborted responses, and for sessions whose total a kill destroyed."""
    read = Session(transcript)
    spans = list(read.spans())
    summary = read.summary
    totals = [
        json.loads(line) for line in transcript.read_text().splitlines() if line.startswith('{"type":"cost-state"')
    ]
    if not totals:
        assert (summary.unseen_cost_usd, summary.reported_complete, summary.unseen) == (None, None, {})
        return
    assert summary.unseen_cost_usd == UNSEEN.get(transcript.stem, 0.0)
    killed = transcript.stem in KILLED
    assert summary.reported_complete is not killed
    counted = [span.response for span in spans if span.response is not None and span.status != "interrupted"]
    traced = sum(response.cost_usd or 0.0 for response in counted)
    assert killed or traced + (summary.unseen_cost_usd or 0.0) == pytest.approx(totals[-1]["totalCostUSD"])
    assert sum(each.cost_usd for each in summary.unseen.values()) == pytest.approx(summary.unseen_cost_usd)
    compacted = summary.unseen_cost_usd if transcript.stem in COMPACTED else None
    assert summary.compaction_cost_usd == compacted


def test_aborted_response_does_not_reduce_unseen_usage(tmp_path: Path) -> None:
    """It costs, and Claude Code's total leaves it out; what a compaction cost is not made up for by it."""
    usage = {"inputTokens": 24, "outputTokens": 800, "cacheReadInputTokens": 100_000}
    usage |= {"cacheCreationInputTokens": 6_000, "cacheCreationEphemeral1hInputTokens": 4_000}
    path = session(
        tmp_path,
        prompt("one", 0),
        reply("m1", "One.", at=1),
        compact_boundary(at=2),
        compact_summary(at=3),
        prompt("two", 4),
        reply("m2", "Tw", at=5, isAbortedMidStream=True),
        line("cost-state", None, totalCostUSD=2 * 0.036786, modelUsage={MODEL: {**usage, "costUSD": 2 * 0.036786}}),
    )
    read = Session(path)
    list(read.spans())
    assert read.summary.cost_usd == pytest.approx(2 * 0.036786)
    assert (read.summary.unseen_cost_usd, read.summary.compaction_cost_usd) == (0.036786, 0.036786)
    assert read.summary.unseen == {MODEL: ModelTotals(12, 400, 50_000, 1_000, 2_000, 0.036786)}
    assert read.summary.reported_complete
