"""Recorded and hand-made sessions as folders: transcripts in, spans out. Dropping a folder adds a case.

`UPDATE_CASES=1 pytest tests/spans/test_cases.py` writes the expected spans anew; the diff is then to be read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import orjson
import pytest
from shared import case_transcripts, label

from cc_trace.cli.json_output import session_json, span_json
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from pathlib import Path


def rows(transcript: Path) -> list[dict[str, object]]:
    """What `cc-trace show --json` prints."""
    session = Session(transcript, requests=True)
    found = [span_json(span) for span in session.spans()]
    return [*found, session_json(session.summary)]


@pytest.mark.parametrize("transcript", case_transcripts(), ids=label)
def test_spans_of_a_case(transcript: Path) -> None:
    """The whole output for a recorded session is what was read and found right."""
    expected_file = transcript.with_name(f"{transcript.stem}.spans") / "spans.jsonl"
    actual = rows(transcript)
    if os.environ.get("UPDATE_CASES"):
        expected_file.parent.mkdir(exist_ok=True)
        expected_file.write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in actual))
    expected = [orjson.loads(line) for line in expected_file.read_bytes().splitlines()]
    assert expected == actual


def test_there_are_cases() -> None:
    """A test over nothing would pass; this one does not."""
    assert len(case_transcripts()) >= 25
