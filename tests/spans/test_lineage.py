"""Sessions that become other sessions: copied turns keep their ids, and the predecessor is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest
from shared import CASES

from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from cc_trace.spans.model import Span

ORIGIN = "dddddddd-0000-4000-8000-000000000001"
FORKS = {
    "2.0.77--d_resume_fork": "3a875a4c-b2b1-4e9a-91e3-a20f30c2e0f2",
    "2.1.197--d_resume_fork": "b107e85d-d2e8-49bb-9346-50fdd4459dc8",
    "2.1.325--d_resume_fork": "35e95895-b490-45b6-99f9-2d715768dc02",
}


def session(case: str, session_id: str) -> tuple[list[Span], Session]:
    read = Session(CASES / case / f"{session_id}.jsonl")
    return list(read.spans()), read


@pytest.mark.parametrize("case", FORKS)
def test_recorded_fork_shares_the_ids_of_copied_turns(case: str) -> None:
    """A fork repeats three turns of its origin: equal trace and span ids; only the fourth turn is new."""
    origin, _ = session(case, ORIGIN)
    fork, _ = session(case, FORKS[case])
    assert [span.turn for span in fork if span.kind == "turn"] == [1, 2, 3, 4]
    shared = [(span.trace_id, span.span_id, span.turn) for span in fork if span.turn <= 3]
    assert shared == [(span.trace_id, span.span_id, span.turn) for span in origin if span.turn <= 3]
    new = {span.span_id for span in fork if span.turn == 4}
    assert new.isdisjoint(span.span_id for span in origin)


def test_branch_names_its_origin_and_keeps_ids(tmp_path_factory: pytest.TempPathFactory) -> None:
    """/branch copies the lines with `forkedFrom`: same ids, and the origin is the predecessor."""
    origin, _ = session("2.1.325--d_resume_fork", ORIGIN)
    branch_id = "bbbbbbbb-1111-4222-8333-444444444444"
    path = tmp_path_factory.mktemp("branch") / f"{branch_id}.jsonl"
    lines = (CASES / "2.1.325--d_resume_fork" / f"{ORIGIN}.jsonl").read_bytes().splitlines()
    copied = []
    for line in lines:
        raw = orjson.loads(line)
        if "uuid" in raw:
            raw["forkedFrom"] = {"sessionId": ORIGIN, "messageUuid": raw["uuid"]}
        copied.append(orjson.dumps({**raw, "sessionId": branch_id}))
    path.write_bytes(b"\n".join(copied) + b"\n")
    read = Session(path)
    branch = list(read.spans())
    assert [span.span_id for span in branch] == [span.span_id for span in origin]
    assert {span.session_id for span in branch} == {branch_id}
    assert read.summary.predecessor == ORIGIN


@pytest.mark.parametrize(
    ("case", "session_id", "predecessor", "lineage"),
    [
        pytest.param(
            "2.1.325--g2_compact_clear",
            "b1a668b5-ebba-4b86-8990-13112b50d88e",
            "44444444-0000-4000-8000-000000000002",
            "clear",
            id="after /clear, by the id the process started with",
        ),
        pytest.param(
            "2.1.325--g3a_plan_clear_context",
            "2813b413-5c16-420f-9512-2e27b2030356",
            "44444444-0000-4000-8000-000000000003",
            "plan",
            id="a plan accepted with cleared context, by the transcript its first prompt names",
        ),
        pytest.param(
            "2.0.77--d_resume_fork",
            "3a875a4c-b2b1-4e9a-91e3-a20f30c2e0f2",
            ORIGIN,
            "copied lines",
            id="a fork of 2.0.77, by copied lines that keep the old session's id",
        ),
        pytest.param("2.1.325--d_resume_fork", ORIGIN, None, None, id="none"),
    ],
)
def test_predecessor(case: str, session_id: str, predecessor: str | None, lineage: str | None) -> None:
    """The session that went before is a fact of the session."""
    _, read = session(case, session_id)
    assert (read.summary.predecessor, read.summary.lineage) == (predecessor, lineage)


def test_first_line_of_another_session_names_the_predecessor(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Older transitions: the first line carries the previous session's id, the rest the own."""
    own, other = "aaaaaaaa-1111-4222-8333-444444444444", "cccccccc-1111-4222-8333-444444444444"
    path = tmp_path_factory.mktemp("transition") / f"{own}.jsonl"
    lines = [
        {"type": "user", "uuid": "1", "sessionId": other, "message": {"role": "user", "content": "go on"}},
        {
            "type": "assistant",
            "uuid": "2",
            "sessionId": own,
            "message": {"id": "msg_1", "role": "assistant", "model": "m", "content": "done"},
        },
    ]
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    read = Session(path)
    assert [(span.kind, span.session_id) for span in read.spans()] == [("turn", own), ("generation", own)]
    assert read.summary.predecessor == other
