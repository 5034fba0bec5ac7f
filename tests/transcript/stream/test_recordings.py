"""Runs of the real Claude Code, recorded both ways: as its transcript, and as what it printed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from both_ways import compare, tree

from cc_trace.spans import Session, Span
from cc_trace.transcript import convert_stream, read_messages, save_stream

RECORDINGS = Path(__file__).parent / "recordings"
BOTH = sorted(path.parent.name for path in RECORDINGS.glob("*/transcript") if not path.match("*-hello-json/*"))
# What docs/streams.md says that a stream does not tell.
NOT_IN_STREAMS = {
    "agent-stream": "the last response of an agent that its call waits for",
    "2.0.77-bg-stream": "the work of agents in the background",
}


def from_stream(name: str, folder: Path, prompt: str | None = None) -> dict[str, Span]:
    output = (RECORDINGS / name / "output").read_bytes()
    (run,) = convert_stream(read_messages(output), prompt=prompt or (RECORDINGS / name / "prompt").read_text())
    return {span.span_id: span for span in Session(save_stream(run, folder), ending="over").spans()}


def from_transcript(name: str, folder: Path) -> dict[str, Span]:
    copied = shutil.copytree(RECORDINGS / name / "transcript", folder / "copied")
    main = next(path for path in copied.glob("*.jsonl") if not path.name.startswith("agent-"))
    return {span.span_id: span for span in Session(main, ending="over").spans()}


def lacks(name: str) -> bool:
    return any(name.endswith(known) for known in NOT_IN_STREAMS)


@pytest.mark.parametrize("name", BOTH)
def test_a_stream_gives_the_spans_of_the_transcript(name: str, tmp_path: Path) -> None:
    """Ids, parents, names and kinds are equal; only what a stream is known to lack is not there."""
    streamed, expected = tree(from_stream(name, tmp_path).values()), tree(from_transcript(name, tmp_path).values())
    assert streamed
    if lacks(name):
        assert streamed.items() < expected.items()
    else:
        assert streamed == expected


@pytest.mark.parametrize("name", [name for name in BOTH if not lacks(name)])
def test_status_texts_tokens_and_cost_are_equal_where_a_stream_has_them(name: str, tmp_path: Path) -> None:
    streamed, expected = from_stream(name, tmp_path), from_transcript(name, tmp_path)
    compare(streamed.values(), expected.values(), notified="bg-stream" in name)


@pytest.mark.parametrize("version", ["2.1.197", "2.1.325"])  # those before are known to count too little
@pytest.mark.parametrize("kind", ["hello-stream", "hello-partial", "tools-partial", "hello-jsonv"])
def test_counts_are_final_with_partial_messages_or_a_single_response(kind: str, version: str, tmp_path: Path) -> None:
    spans = from_stream(f"{version}-{kind}", tmp_path)
    assert all(span.response.usage_complete for span in spans.values() if span.response is not None)


@pytest.mark.parametrize("version", ["2.0.77", "2.1.197", "2.1.325"])
def test_a_run_without_persistence_is_traced_from_its_stream(version: str, tmp_path: Path) -> None:
    spans = from_stream(f"{version}-hello-nopersist", tmp_path)
    assert [span.kind for span in spans.values()] == ["turn", "generation"]


@pytest.mark.parametrize("version", ["2.0.77", "2.1.197", "2.1.325"])
def test_a_result_alone_is_one_response(version: str, tmp_path: Path) -> None:
    """`--output-format json` prints nothing but the result: no message has an id, and the counts are the run's."""
    turn, response = from_stream(f"{version}-hello-json", tmp_path).values()
    assert (turn.status, turn.output) == ("ok", "Hello there, this is a somewhat longer text.")
    assert response.response is not None
    assert response.response.usage is not None
    assert (response.response.usage.output, response.response.usage_complete) == (1003, False)


@pytest.mark.parametrize("name", [name for name in BOTH if name.endswith(("tools-stream", "hello-stream"))])
def test_a_stream_that_was_cut_off_is_incomplete(name: str, tmp_path: Path) -> None:
    """Cut after any line, or inside one: nothing raises, ids stay, and a turn without its result is incomplete."""
    output = (RECORDINGS / name / "output").read_bytes()
    whole = from_stream(name, tmp_path)
    for number, end in enumerate(at for at, byte in enumerate(output) if byte == ord("\n")):
        for cut in (output[:end], output[: end - 20]):
            runs = convert_stream(read_messages(cut), prompt=(RECORDINGS / name / "prompt").read_text())
            if not runs:
                continue
            (run,) = runs
            spans = list(Session(save_stream(run, tmp_path / f"{number}-{len(cut)}"), ending="over").spans())
            assert {span.span_id for span in spans} <= whole.keys()
            if spans and not run.complete:
                assert spans[0].status == "incomplete"
