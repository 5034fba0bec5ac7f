"""A generation's span is made by position, for speed: each value stands in the field it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lines import MODEL, SESSION, prompt, reply, session, stamp

from cc_trace.spans import Origins, Response, Session, Span
from cc_trace.spans.model import span_id, trace_id
from cc_trace.transcript import Usage, parse_time
from cc_trace.turns import MODEL as BY_MODEL
from cc_trace.turns import Origin

if TYPE_CHECKING:
    from pathlib import Path


def test_every_field_of_a_generation_has_its_own_value(tmp_path: Path) -> None:
    """The origins, which two spans may differ in and still be equal, are compared by themselves."""
    path = session(tmp_path, prompt("go", 0), reply("m1", "Done.", at=2, isAbortedMidStream=True))
    turn, generation = Session(path).spans()
    expected = Span(
        trace_id=trace_id("turn:m1"),
        span_id=span_id("generation", "m1"),
        parent_id=turn.span_id,
        kind="generation",
        name=MODEL,
        start_ns=parse_time(stamp(0)),
        end_ns=parse_time(stamp(2)),
        session_id=SESSION,
        turn=1,
        agent_id=None,
        final=False,
        status="interrupted",
        error="interrupted while answering",
        input=[{"role": "user", "content": "go"}],
        output={"role": "assistant", "content": "Done."},
        metadata={"tool_count": 0, "time": "start derived"},
        response=Response(
            message_id="m1",
            request_id="req_m1",
            model=MODEL,
            first_token_ns=parse_time(stamp(2)),
            usage=Usage(input=12, output=400, cache_read=50_000, cache_write_5m=1_000, cache_write_1h=2_000),
            usage_complete=False,
            cost_usd=0.036786,
        ),
        tool=None,
        agent_name=None,
        about=turn.about,
        origins=Origins((Origin("human"),), BY_MODEL),
    )
    assert generation._asdict() == expected._asdict()
    assert (generation.origins.input, generation.origins.output) == ((Origin("human"),), BY_MODEL)
