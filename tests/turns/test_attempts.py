"""The attempts of a request: those that failed hang below its response or error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lines import MODEL, api_error, interrupt, line, prompt, reply, session, spans

from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from lines import Line

    from cc_trace.spans.model import Span


def sent(id_: str, *, at: float, **fields: Any) -> Line:
    """A request as Claude Code 2.1.3xx records it."""
    params = {"model": MODEL, "max_tokens": 100, "output_config": {"effort": "low"}}
    made = {"id": id_, "params": params, "querySource": "sdk", "cacheControl": [{"path": [], "value": {}}]}
    return line("api-request", at, **made | fields)


def failed(*, at: float, number: int = 1) -> Line:
    """A line that tells of an attempt's failure."""
    error = {"status": 529, "formatted": "529 overloaded", "requestId": f"req_{number}"}
    return line("system", at, subtype="api_error", error=error, retryAttempt=number, retryInMs=500.5)


def outline(made: list[Span]) -> list[tuple[str, str | None, str, dict[str, Any]]]:
    """Kind, whose child it is, status, and what the metadata tells of attempts."""
    names = {span.span_id: f"{span.kind} {span.name}" for span in made}
    told = ("attempt", "attempts", "status", "wait_ms", "request_id", "error_type", "requested_model", "effort")
    return [
        (
            f"{span.kind} {span.name}",
            names.get(span.parent_id or ""),
            span.status,
            {key: span.metadata[key] for key in told if key in span.metadata},
        )
        for span in made
    ]


ASKED = {"requested_model": MODEL, "effort": "low"}


def test_retries_are_placed_under_their_response(tmp_path: Path) -> None:
    """They tell the status, the wait and the API's id; each lasts from its request to its failure."""
    main = session(
        tmp_path,
        prompt("go", 0),
        sent("a1", at=1),
        failed(at=2),
        sent("a2", at=3, base="a1"),
        failed(at=4, number=2),
        sent("a3", at=5, base="a2"),
        reply("m1", "Done.", at=6, requestRef="a3"),
    )
    made = spans(main)
    assert outline(made) == [
        ("turn Turn 1", None, "ok", {}),
        (f"generation {MODEL}", "turn Turn 1", "ok", {"attempts": 3} | ASKED),
        (
            "event api_retry",
            f"generation {MODEL}",
            "ok",
            {"attempt": 1, "status": 529, "wait_ms": 500.5, "request_id": "req_1"},
        ),
        (
            "event api_retry",
            f"generation {MODEL}",
            "ok",
            {"attempt": 2, "status": 529, "wait_ms": 500.5, "request_id": "req_2"},
        ),
    ]
    start_ns = made[0].start_ns or 0
    assert [((span.start_ns or 0) - start_ns, (span.end_ns or 0) - start_ns) for span in made[1:]] == [
        (5 * 10**9, 6 * 10**9),
        (1 * 10**9, 2 * 10**9),
        (3 * 10**9, 4 * 10**9),
    ]


def test_a_request_that_failed_for_good_is_a_generation(tmp_path: Path) -> None:
    """It has the model, the times and no tokens; the variants that were rejected before the last are below it."""
    main = session(
        tmp_path,
        prompt("go", 0),
        sent("a1", at=1),
        sent("a2", at=2),
        sent("a3", at=3),
        api_error("e1", "API Error: 400", at=4) | {"apiErrorStatus": 400, "apiErrorType": "invalid_request_error"},
    )
    made = spans(main)
    told = {"attempts": 3, "status": 400, "request_id": "req_e1", "error_type": "invalid_request_error"}
    assert outline(made) == [
        ("turn Turn 1", None, "error", {}),
        (f"generation {MODEL}", "turn Turn 1", "error", told | ASKED),
        ("event api_retry", f"generation {MODEL}", "ok", {"attempt": 1}),
        ("event api_retry", f"generation {MODEL}", "ok", {"attempt": 2}),
    ]
    generation = made[1]
    assert generation.response is not None
    assert (generation.response.model, generation.response.usage, generation.response.cost_usd) == (MODEL, None, None)
    assert generation.error == "API Error: 400"
    assert generation.input == [{"role": "user", "content": "go"}]
    start_ns = made[0].start_ns or 0
    assert (generation.start_ns, generation.end_ns) == (start_ns + 10**9, start_ns + 4 * 10**9)


def test_a_request_can_stand_before_the_response_that_it_follows(tmp_path: Path) -> None:
    """Lines are not written in the order of their times: it is the next request, not another attempt."""
    main = session(
        tmp_path,
        prompt("go", 0),
        sent("a1", at=1),
        sent("a2", at=5, base="a1"),
        failed(at=6),
        sent("a3", at=7, base="a2"),
        reply("m1", "First.", at=2, requestRef="a1"),
        reply("m2", "Second.", at=8, requestRef="a3"),
    )
    made = spans(main)
    retry = {"attempt": 1, "status": 529, "wait_ms": 500.5, "request_id": "req_1"}
    assert outline(made)[1:] == [
        (f"generation {MODEL}", "turn Turn 1", "ok", {"attempts": 1} | ASKED),
        (f"generation {MODEL}", "turn Turn 1", "ok", {"attempts": 2} | ASKED),
        ("event api_retry", f"generation {MODEL}", "ok", retry),
    ]
    assert made[3].parent_id == made[2].span_id
    start_ns = made[0].start_ns or 0
    assert [(span.start_ns or 0) - start_ns for span in made[1:]] == [10**9, 7 * 10**9, 5 * 10**9]


def test_a_request_can_stand_behind_its_response(tmp_path: Path) -> None:
    """The next one, with more messages, is not another attempt to get it."""
    main = session(
        tmp_path,
        prompt("go", 0),
        reply("m1", "First.", at=2, requestRef="a1"),
        sent("a1", at=1, tail=["x"]),
        sent("a2", at=3, base="a1", keep=1, tail=["y", "z"]),
        reply("m2", "Second.", at=4, requestRef="a2"),
    )
    assert [(span.kind, span.metadata.get("attempts")) for span in spans(main)[1:]] == [
        ("generation", None),
        ("generation", 1),
    ]


def test_a_failed_request_costs_nothing(tmp_path: Path) -> None:
    """Nor is it a response without a price."""
    read = Session(session(tmp_path, prompt("go", 0), sent("a1", at=1), api_error("e1", "API Error: 400", at=4)))
    assert [span.kind for span in read.spans()] == ["turn", "generation"]
    assert (read.summary.unpriced, read.summary.cost_usd, list(read.summary.models)) == (0, None, [])


def test_without_a_recorded_request_an_error_is_an_event(tmp_path: Path) -> None:
    """As before 2.1.3xx: such a line may also tell of a request that was never sent."""
    main = session(tmp_path, prompt("go", 0), failed(at=1), api_error("e1", "Please run /login", at=2))
    assert [each[:3] for each in outline(spans(main))] == [
        ("turn Turn 1", None, "error"),
        ("event api_retry", "turn Turn 1", "ok"),
        ("event api_error", "turn Turn 1", "error"),
    ]


def test_retry_before_an_interrupt_stays_under_the_turn(tmp_path: Path) -> None:
    """After an interrupt, the next response is not what it led to."""
    main = session(
        tmp_path,
        prompt("go", 0),
        reply("m1", "First.", at=1),
        sent("a1", at=2),
        failed(at=3),
        interrupt(at=4),
        prompt("again", 5),
        sent("a2", at=6),
        reply("m2", "Done.", at=7, requestRef="a2"),
    )
    found = outline(spans(main))
    assert ("event api_retry", "turn Turn 1") in [each[:2] for each in found]
    assert found[-1] == (f"generation {MODEL}", "turn Turn 2", "ok", {"attempts": 1} | ASKED)


def test_a_retry_is_final_when_it_is_known_what_it_led_to(tmp_path: Path) -> None:
    """Before that, its place in the tree may change."""
    lines = [prompt("go", 0), reply("m1", "First.", at=1), sent("a1", at=2), failed(at=3), sent("a2", at=4)]
    waiting = spans(session(tmp_path, *lines))
    assert [span.final for span in waiting if span.name == "api_retry"] == [False]
    answered = spans(session(tmp_path, *lines, reply("m2", "Done.", at=5, requestRef="a2")))
    retry = next(span for span in answered if span.name == "api_retry")
    assert (retry.final, retry.span_id) == (True, next(s.span_id for s in waiting if s.name == "api_retry"))


def test_unreported_attempt_says_whether_the_next_differed(tmp_path: Path) -> None:
    """An interactive session does not write down the first failures of a request."""
    other = {"model": MODEL, "max_tokens": 50, "output_config": {"effort": "low"}}
    main = session(
        tmp_path,
        prompt("go", 0),
        sent("a1", at=1),
        sent("a2", at=2, base="a1"),
        sent("a3", at=3, base="a2", params=other),
        reply("m1", "Done.", at=4, requestRef="a3"),
    )
    assert [span.output for span in spans(main) if span.name == "api_retry"] == [
        "no response was recorded; sent again",
        "no response was recorded; sent again with other parameters",
    ]
