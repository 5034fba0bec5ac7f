"""Scores in Langfuse: one set for each turn, the same however often it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from backend import HANG, REFUSE, Behaviour, refuses_span, status
from langfuse_server import PUBLIC, SECRET, LangfuseServer
from profiles_spans import MODEL, ROOT, START, TRACE, made

from cc_trace.export.destination import DestinationSettings
from cc_trace.export.langfuse import Langfuse
from cc_trace.export.langfuse_scores import scores
from cc_trace.export.outcomes import Accepted, Retryable
from cc_trace.export.profiles import Labels
from cc_trace.spans.model import Response, Span
from cc_trace.transcript.entries import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cc_trace.export.outcomes import EncodedSpan


@pytest.fixture
def server() -> Iterator[LangfuseServer]:
    with LangfuseServer() as running:
        yield running


def opened(server: LangfuseServer, **more: Any) -> Langfuse:
    keys: dict[str, Any] = {"public_key": PUBLIC, "secret_key": SECRET, "timeout_seconds": 20.0, "scores": True, **more}
    return Langfuse(DestinationSettings("langfuse", "langfuse", endpoint=server.url, **keys))


def generation(usage: Usage | None) -> Span:
    return made(
        "generation", MODEL, response=Response("m", None, MODEL, None, usage, usage_complete=True, cost_usd=None)
    )


ROOT_SPAN = made("turn", "Turn 3", parent_id=None)._replace(span_id=ROOT)
TURN = [
    ROOT_SPAN,
    generation(Usage(10, 5, 60, 20, 10)),
    generation(None),
    made("event", "api_retry"),
    made("event", "api_retry"),
    made("event", "hook"),
    made("tool", "Bash", status="error"),
    made("tool", "Edit", metadata={"lines_added": 3, "lines_removed": 1}),
    made("tool", "Write", status="error", metadata={"permission": {"decision": "reject"}}),
    made("tool", "Read", metadata={"permission": {"decision": "accept"}}, agent_id="a1"),
]


def encoded(langfuse: Langfuse, turn: Sequence[Span] = TURN) -> EncodedSpan:
    return langfuse.encode_with_turn(turn[0], turn, lambda _: None, may_query=True)


def values(turn: Sequence[Span]) -> dict[str, float]:
    return {score.name: score.value for score in scores(turn[0], turn)}


def test_scores_of_a_turn() -> None:
    assert values(TURN) == {
        "tool_error_rate": 0.5,
        "cache_hit_rate": 0.6,
        "api_retries": 2,
        "lines_changed": 4,
        "permission_denials": 1,
        "interrupted": 0.0,
    }


def test_no_rates_without_tool_calls_and_tokens() -> None:
    """An interrupted turn has a score that says so."""
    found = values([ROOT_SPAN._replace(status="interrupted"), generation(Usage())])
    assert found == {"api_retries": 0, "lines_changed": 0, "permission_denials": 0, "interrupted": 1.0}


def test_scores_are_sent_with_the_root(server: LangfuseServer) -> None:
    """When it is sent again, by another process, they replace the first ones."""
    for _ in range(2):
        langfuse = opened(server, labels=Labels(environment="staging"))
        assert langfuse.send([langfuse.encode_with_turn(TURN[1], TURN, lambda _: None, may_query=True)]) == Accepted()
        assert len(server.asked("POST", "/scores")) == _
        assert langfuse.send([encoded(langfuse)]) == Accepted()
        langfuse.close()
    assert len(server.scores) == 6
    assert server.scores[f"cc-trace-{ROOT}-cache_hit_rate"] == {
        "id": f"cc-trace-{ROOT}-cache_hit_rate",
        "traceId": TRACE,
        "name": "cache_hit_rate",
        "value": 0.6,
        "dataType": "NUMERIC",
        "environment": "staging",
        "timestamp": "2026-01-01T12:00:01Z",
    }
    assert server.scores[f"cc-trace-{ROOT}-interrupted"]["dataType"] == "BOOLEAN"
    assert START // 10**9 == 1_767_268_800


def test_turns_of_one_trace_have_scores_of_their_own(server: LangfuseServer) -> None:
    """Below a span of the user's all turns are in its trace."""
    langfuse = opened(server)
    turns = [[ROOT_SPAN._replace(span_id=id_, parent_id="a" * 16)] for id_ in ("1" * 16, "2" * 16)]
    langfuse.send([encoded(langfuse, turn) for turn in turns])
    found = {score["observationId"] for score in server.scores.values()}
    assert (found, len(server.scores)) == ({"1" * 16, "2" * 16}, 8)
    langfuse.close()


def test_older_server_gets_scores_one_by_one(server: LangfuseServer) -> None:
    server.takes_lists = False
    langfuse = opened(server)
    assert langfuse.send([encoded(langfuse)]) == Accepted()
    assert len(server.scores) == 6
    langfuse.close()


@pytest.mark.parametrize(
    "behaviour", [status(500), status(404, "<html>"), HANG, Behaviour("close"), Behaviour(said="[")]
)
def test_failing_scores_do_not_delay_spans(server: LangfuseServer, behaviour: Behaviour) -> None:
    """And are not tried again with every batch."""
    server.asking["/api/public/scores"] = behaviour
    langfuse = opened(server, timeout_seconds=0.5 if behaviour == HANG else 20.0)
    while langfuse.send([encoded(langfuse)]) != Accepted():  # a slow machine may need more than half a second
        pass
    langfuse.send([encoded(langfuse)])
    assert server.counts[ROOT] >= 2
    assert len(server.asked("POST", "/scores")) == 1
    langfuse.close()


def test_scores_are_sent_once_while_the_root_is_rejected(server: LangfuseServer) -> None:
    server.behaviour = refuses_span(ROOT)
    langfuse = opened(server)
    for _ in range(3):
        langfuse.send([encoded(langfuse)])
    assert len(server.asked("POST", "/scores")) == 1
    langfuse.close()


def test_scores_are_sent_with_the_spans_after_an_outage(server: LangfuseServer) -> None:
    server.behaviour = REFUSE
    langfuse = opened(server)
    assert isinstance(langfuse.send([encoded(langfuse)]), Retryable)
    langfuse.close()
    server.behaviour = Behaviour()
    langfuse = opened(server)
    assert langfuse.send([encoded(langfuse)]) == Accepted()
    assert len(server.scores) == 6
    langfuse.close()


def test_scores_are_off_by_default(server: LangfuseServer) -> None:
    langfuse = opened(server, scores=False)
    langfuse.send([encoded(langfuse)])
    assert [request.path for request in server.requests] == ["/api/public/otel/v1/traces"]
    langfuse.close()
