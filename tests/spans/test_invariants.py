"""What holds for every session: our cases, recorded runs of the real CLI, and public transcripts."""

from __future__ import annotations

import ast
import json
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

import orjson
import pytest
from recount import USAGE, agent_files, recount
from shared import CASES, ROOT, everything, label

from cc_trace.cli.json_output import session_json, span_json
from cc_trace.spans.session import Session

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
        for line in path.read_bytes().splitlines():
            try:
                raw = json.loads(line)
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
def test_nothing_of_a_trace_begins_before_it(transcript: Path) -> None:
    """Not even a compaction that happened hours before the prompt."""
    roots = {span.trace_id: span.start_ns for span in spans_of(transcript) if span.kind == "turn"}
    events = [span for span in spans_of(transcript) if span.kind == "event" and span.agent_id is None]
    early = [span for span in events if (span.start_ns or 0) < (roots[span.trace_id] or 0)]
    assert [span.name for span in early] == []


@sessions
def test_what_other_models_were_asked_is_counted_apart(transcript: Path) -> None:
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
def test_no_prompt_is_lost_and_none_invented(transcript: Path) -> None:
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


@pytest.mark.parametrize(
    ("recording", "session", "unseen"),
    [
        ("2.1.325--a_simple", "aaaaaaaa-0000-4000-8000-000000000001", 0.0),
        ("2.1.325--g2_compact_clear", "44444444-0000-4000-8000-000000000002", 0.001095),  # a compaction's summary
        ("2.1.325--g3b_plan_keep_context", "44444444-0000-4000-8000-000000000033", 0.001095),
        (
            "2.1.325--g4_interrupt_ctrlc",
            "44444444-0000-4000-8000-000000000004",
            0.0,
        ),  # aborted ones are not in the total
        ("2.1.325--g5_kill9", "44444444-0000-4000-8000-000000000005", 0.0),  # and what was killed took its total along
    ],
)
def test_what_claude_code_spent_beyond_what_is_traced(recording: str, session: str, unseen: float) -> None:
    """Traced and unseen are Claude Code's own total, where that covers the same responses."""
    read = Session(CASES / recording / f"{session}.jsonl")
    list(read.spans())
    assert read.summary.unseen_cost_usd == unseen


@pytest.mark.parametrize("path", sorted((ROOT / "cc_trace").rglob("*.py")), ids=lambda path: path.name)
def test_spans_are_built_with_keywords(path: Path) -> None:
    """A span has two dozen fields, many of one type: by position two could be swapped and nothing would say so."""
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    assert [call.lineno for call in calls if getattr(call.func, "id", None) == "Span" and call.args] == []
