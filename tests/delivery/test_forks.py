"""Which sessions contain turns that another session wrote while tracing was off."""

from __future__ import annotations

import json
import os
import shutil
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from lines import NOON, line, prompt, reply, write
from shared import CASES

from cc_trace.delivery import forks
from cc_trace.transcript import OpenTranscript

if TYPE_CHECKING:
    from pathlib import Path

ORIGIN, FORK, OTHER = (f"{number:08}-0000-4000-8000-000000000001" for number in (1, 2, 3))
FORKS = [
    "2.0.77--d_resume_fork/3a875a4c-b2b1-4e9a-91e3-a20f30c2e0f2.jsonl",
    "2.1.197--d_resume_fork/b107e85d-d2e8-49bb-9346-50fdd4459dc8.jsonl",
    "2.1.325--d_resume_fork/35e95895-b490-45b6-99f9-2d715768dc02.jsonl",
]


def copied_from(path: Path, suppressed: dict[str, int]) -> str | None:
    with OpenTranscript(path) as transcript:
        return forks.copied_from(transcript, suppressed)


def ns(seconds: float) -> int:
    """So many seconds after noon."""
    return int((NOON + timedelta(seconds=seconds)).timestamp() * 1e9)


def session(folder: Path, session_id: str, *turns: tuple[str, float], changed: float) -> Path:
    """Write turns that begin at these seconds after noon, to a file last changed at `changed`."""
    lines = [
        each
        for word, at in turns
        for each in (prompt(word, at, sessionId=session_id), reply(word, word, at=at + 1, sessionId=session_id))
    ]
    path = write(folder / f"{session_id}.jsonl", lines)
    os.utime(path, ns=(ns(changed), ns(changed)))
    return path


def fork(origin: Path, session_id: str, at: float, *turns: tuple[str, float], changed: float) -> Path:
    """Copy a session as `claude --fork-session` does, and go on with it."""
    own = session(origin.parent, session_id, *turns, changed=changed)
    copied = [json.loads(text) | {"sessionId": session_id} for text in origin.read_text().splitlines()]
    more = [json.loads(text) for text in own.read_text().splitlines()]
    write(own, [line("queue-operation", at, operation="enqueue", sessionId=session_id, uuid=None), *copied, *more])
    os.utime(own, ns=(ns(changed), ns(changed)))
    return own


def test_fork_is_recognized_as_copy_of_suppressed_source(tmp_path: Path) -> None:
    origin = session(tmp_path, ORIGIN, ("a", 0), ("b", 10), changed=11)
    path = fork(origin, FORK, 100, ("c", 101), changed=102)
    assert copied_from(path, {ORIGIN: ns(12)}) == ORIGIN
    assert copied_from(path, {OTHER: ns(12)}) is None


def test_source_is_not_suppressed_by_its_fork(tmp_path: Path) -> None:
    """Whether or not it grows after the fork."""
    origin = session(tmp_path, ORIGIN, ("a", 0), changed=1)
    fork(origin, FORK, 100, ("secret", 101), changed=102)
    assert copied_from(origin, {FORK: ns(103)}) is None
    origin = session(tmp_path, ORIGIN, ("a", 0), ("b", 200), changed=201)
    assert copied_from(origin, {FORK: ns(103)}) is None


def test_sibling_fork_is_not_suppressed(tmp_path: Path) -> None:
    """A fork of the suppressed fork is."""
    origin = session(tmp_path, ORIGIN, ("a", 0), changed=1)
    first = fork(origin, FORK, 100, ("secret", 101), changed=102)
    assert copied_from(fork(origin, OTHER, 200, ("b", 201), changed=202), {FORK: ns(103)}) is None
    assert copied_from(fork(first, OTHER, 200, ("b", 201), changed=202), {FORK: ns(103)}) == FORK


def test_newer_session_is_not_compared(tmp_path: Path) -> None:
    """The suppressed session's file is not even opened."""
    (tmp_path / f"{ORIGIN}.jsonl").mkdir()
    assert copied_from(session(tmp_path, FORK, ("a", 100), changed=101), {ORIGIN: ns(50)}) is None


def test_missing_transcript_suppresses_nothing(tmp_path: Path) -> None:
    path = session(tmp_path, FORK, ("a", 0), changed=100)
    assert copied_from(path, {ORIGIN: ns(50)}) is None
    path.unlink()
    assert copied_from(path, {ORIGIN: ns(50)}) is None


@pytest.mark.parametrize("recorded", FORKS)
def test_recorded_forks_are_recognized(tmp_path: Path, recorded: str) -> None:
    """And their sources are not taken for forks."""
    origin = CASES / recorded.partition("/")[0] / "dddddddd-0000-4000-8000-000000000001.jsonl"
    path = CASES / recorded
    for each in (origin, path):
        shutil.copy(each, tmp_path)
    later = (tmp_path / path.name).stat().st_mtime_ns - 1
    assert copied_from(tmp_path / path.name, {origin.stem: later}) == origin.stem
    assert copied_from(tmp_path / origin.name, {path.stem: later}) is None
