"""A transcript grows while it is read. Whatever has been called final stays as it is.

A cut can fall anywhere: between lines, inside a line, inside a multi-byte character, in the main file or in an agent's.
"""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared import case_transcripts, corpus, label, recordings

from cc_trace.cli.json_output import span_json
from cc_trace.spans.session import Resume, Session
from cc_trace.transcript.agent_files import agent_paths

if TYPE_CHECKING:
    from pathlib import Path

    from cc_trace.spans.model import Span
    from cc_trace.spans.session import Trace

CUTS_PER_CASE = 60


def spans_of(transcript: Path) -> list[Span]:
    return list(Session(transcript, request_content="new").spans())


def assert_final_spans_stay(before: list[Span], after: list[Span]) -> None:
    """Every span that was final is there again, equal; closed turns have no span less, and no main one more."""
    later = {span.span_id: span for span in after}
    for span in before:
        if span.final:
            assert span_json(span) == span_json(later[span.span_id])
    closed = {span.trace_id for span in before if span.kind == "turn" and span.final}
    for trace in closed:
        assert _main_thread(before, trace) == _main_thread(after, trace)


def _main_thread(spans: list[Span], trace: str) -> list[str]:
    return [span.span_id for span in spans if span.trace_id == trace and span.agent_id is None]


class Growing:
    """A copy of a session's files, cut at will."""

    def __init__(self, transcript: Path, folder: Path) -> None:
        self.whole = transcript
        self.copy = folder / transcript.name
        self.content = transcript.read_bytes()
        self.agents: dict[Path, bytes] = {}
        for path in agent_paths(transcript):
            target = folder / path.relative_to(transcript.parent)
            target.parent.mkdir(parents=True, exist_ok=True)
            self.agents[target] = path.read_bytes()
            if (meta := path.with_suffix(".meta.json")).exists():
                shutil.copy(meta, target.with_suffix(".meta.json"))
        self.expected = spans_of(transcript)

    def cut(self, at: int, agents_at: float = 1.0) -> list[Span]:
        """The spans when the main file has `at` bytes and each agent's file this share of its own."""
        self.copy.write_bytes(self.content[:at])
        for path, content in self.agents.items():
            path.write_bytes(content[: int(len(content) * agents_at)])
        return spans_of(self.copy)


@pytest.mark.parametrize("transcript", [*case_transcripts(), *recordings()], ids=label)
def test_cut_main_file(transcript: Path, tmp_path: Path) -> None:
    """Cut after every line, before its newline and at random bytes: final spans are those of the whole file."""
    growing = Growing(transcript, tmp_path)
    chance = random.Random(transcript.name)
    ends = [index + 1 for index, byte in enumerate(growing.content) if byte == 0x0A]
    cuts = {*ends, *(end - 1 for end in ends), *(chance.randrange(len(growing.content) + 1) for _ in range(20))}
    for cut in sorted(cuts if len(cuts) <= CUTS_PER_CASE else chance.sample(sorted(cuts), CUTS_PER_CASE)):
        assert_final_spans_stay(growing.cut(cut), growing.expected)
    assert growing.expected == growing.cut(len(growing.content))


@pytest.mark.parametrize("transcript", corpus(), ids=label)
def test_cut_public_transcript(transcript: Path, tmp_path: Path) -> None:
    """The same on public transcripts, at a few random bytes."""
    growing = Growing(transcript, tmp_path)
    chance = random.Random(transcript.name)
    for _ in range(12):
        assert_final_spans_stay(growing.cut(chance.randrange(len(growing.content))), growing.expected)


with_agents = [path for path in case_transcripts() if agent_paths(path) and "subagent" in str(path)]


@pytest.mark.parametrize("transcript", with_agents, ids=label)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.floats(0, 1), agents_at=st.floats(0, 1))
def test_cut_main_and_agents(transcript: Path, tmp_path: Path, at: float, agents_at: float) -> None:
    """Agents' files grow on their own: what is final does not depend on how far they have come.

    Where the main file says that an agent has ended, its file is complete: Claude Code writes it first.
    """
    growing = Growing(transcript, tmp_path)
    cut = int(len(growing.content) * at)
    before = growing.cut(cut)
    finished_tasks = any(span.kind == "subagent" and span.final for span in before)
    assert_final_spans_stay(growing.cut(cut, 1.0 if finished_tasks else agents_at), growing.expected)


def test_multibyte_characters_are_cut_anywhere(tmp_path: Path) -> None:
    """A cut inside a character is a torn line like any other: not yet, then whole."""
    line = '{{"type":"{}","uuid":"{}","timestamp":"2026-01-01T00:00:0{}.000Z","message":{}}}\n'
    prompt = line.format("user", "u1", 0, '{"role":"user","content":"größer 🦜 日本語"}')
    reply = line.format(
        "assistant", "u2", 1, '{"id":"msg_1","role":"assistant","model":"m","content":[{"type":"text","text":"é🦜"}]}'
    )
    content = (prompt + reply).encode()
    path = tmp_path / "session.jsonl"
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        texts = [(span.input, span.output) for span in spans_of(path) if span.kind == "turn"]
        assert texts == ([("größer 🦜 日本語", "é🦜")] if cut >= len(content) - 1 else [])


@pytest.mark.parametrize("transcript", [*case_transcripts(), *corpus()], ids=label)
def test_reading_on_from_any_turn_gives_the_same_spans(transcript: Path) -> None:
    """All that is known at a turn's beginning is its place, its number and the tasks launched before."""
    whole = Session(transcript, requests=True)
    traces = list(whole.traces())
    for trace in traces[1:]:
        known = Resume(
            trace.turn.begin, trace.turn.number - 1, dict(whole.resume.call_by_task), dict(whole.resume.trace_by_call)
        )
        again = [span_json(span) for span in Session(transcript, known, requests=True).spans()]
        expected = [span_json(span) for span in whole_spans(traces) if span.turn >= trace.turn.number]
        assert expected == again


def whole_spans(traces: list[Trace]) -> list[Span]:
    return [span for trace in traces for span in trace.spans]
