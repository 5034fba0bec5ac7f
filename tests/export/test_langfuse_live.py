"""What a Langfuse shows of a turn with images, costs and scores: the real one, where its keys are set.

CC_TRACE_TEST_LANGFUSE_URL, _PUBLIC_KEY and _SECRET_KEY name it. The same is asked of the double, so that it is one.
Names, parents, types, texts and usage are compared in test_langfuse.py.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from langfuse_server import PUBLIC, SECRET, LangfuseServer
from test_langfuse_requests import DIGEST, MARK, PNG, media
from waiting import until

from cc_trace.doctor.destinations import prove
from cc_trace.export.destination import DestinationSettings
from cc_trace.export.langfuse import Langfuse, _basic
from cc_trace.export.outcomes import Accepted
from cc_trace.export.responses import HttpResponse
from cc_trace.pricing import cost_usd
from cc_trace.spans.model import Response, Span, Tool, span_id, trace_id
from cc_trace.transcript.entries import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIVE = {name: os.environ.get(f"CC_TRACE_TEST_LANGFUSE_{name}") for name in ("URL", "PUBLIC_KEY", "SECRET_KEY")}
UNSET = "CC_TRACE_TEST_LANGFUSE_{URL,PUBLIC_KEY,SECRET_KEY} are not set"
USAGE = Usage(12, 400, 50_000, 1_000, 2_000)
BUCKETS = {
    "input": Usage(input=12),
    "output": Usage(output=400),
    "cache_read_input_tokens": Usage(cache_read=50_000),
    "input_cache_creation_5m": Usage(cache_write_5m=1_000),
    "input_cache_creation_1h": Usage(cache_write_1h=2_000),
}
MODELS = ("claude-sonnet-4-5-20250929", "claude-haiku-5-5")


@pytest.fixture(params=["double", pytest.param("real", marks=pytest.mark.skipif(not all(LIVE.values()), reason=UNSET))])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DestinationSettings]:
    more: dict[str, Any] = {
        "timeout_seconds": 30.0,
        "media": True,
        "scores": True,
        "cost": "missing",
        "cache": tmp_path,
    }
    if request.param == "real":
        keys: dict[str, Any] = {
            "endpoint": LIVE["URL"],
            "public_key": LIVE["PUBLIC_KEY"],
            "secret_key": LIVE["SECRET_KEY"],
        }
        yield DestinationSettings("live", "langfuse", **keys, **more)
        return
    with LangfuseServer() as server:
        keys = {"endpoint": server.url, "public_key": PUBLIC, "secret_key": SECRET}
        yield DestinationSettings("live", "langfuse", **keys, **more)


def turn() -> list[Span]:
    """A turn under ids that no earlier run has used: an image in the prompt and from a tool, and two models."""
    run, end = uuid.uuid4().hex, time.time_ns()
    root = span_id("turn", run)

    def made(kind: Any, name: str, parent_id: str | None, **more: Any) -> Span:
        own = root if parent_id is None else span_id(kind, run + name)
        given: dict[str, Any] = {"start_ns": end - 10**9, "end_ns": end, "session_id": run, "turn": 1, "agent_id": None}
        given |= {"final": True, "status": "ok", "error": None, "input": None, "output": None, "metadata": {}, **more}
        return Span(trace_id(run), own, parent_id, kind, name, **given)

    spans = [made("turn", "Turn 1", None, input=f"What is this?\n{MARK}", output="A square.")]
    for name in MODELS:
        cost = cost_usd(name, USAGE, None)
        response = Response("m", None, name, None, USAGE, usage_complete=True, cost_usd=cost)
        spans.append(made("generation", name, root, response=response, output={"role": "assistant", "content": "Hm."}))
    spans.append(made("tool", "Read", spans[1].span_id, output=MARK, tool=Tool(run, "Read", None)))
    return spans


def asked(langfuse: Langfuse, path: str) -> list[dict[str, Any]]:
    answer = langfuse._client.get(f"{langfuse._base}{path}", [("authorization", _basic(langfuse._settings))])
    assert isinstance(answer, HttpResponse)
    rows: list[dict[str, Any]] = json.loads(answer.body)["data"]
    return rows


def test_real_langfuse_shows_images_costs_and_scores(settings: DestinationSettings, tmp_path: Path) -> None:
    """The image can be read under the id that the span names, each response has its cost, and scores are there once."""
    spans, image = turn(), media(tmp_path)
    for _ in range(2):  # the second time the spans are not sent again, only what goes before them
        langfuse = Langfuse(settings)
        batch = [langfuse.encode_with_turn(span, spans, {DIGEST: image}.get, may_query=True) for span in spans]
        if not _:
            assert langfuse.send(batch) == Accepted()
        else:
            langfuse._add_scores(batch)
            assert [langfuse._with_uploads(each, time.monotonic() + 30) for each in batch] == batch
        if not _:
            langfuse.close()
    ids = frozenset(span.span_id for span in spans)
    until(lambda: langfuse.stored_ids(batch) == ids, "all spans to be shown", seconds=120)
    trace = spans[0].trace_id
    rows = {
        row["id"]: row
        for row in asked(langfuse, f"/api/public/v2/observations?traceId={trace}&fields=core,basic,io,usage")
    }
    assert len(rows) == len(spans)
    assert "@@@langfuseMedia:type=image/png|id=" in json.dumps(rows[spans[0].span_id]["input"])
    assert "@@@langfuseMedia:type=image/png|id=" in json.dumps(rows[spans[-1].span_id]["output"])
    for span in spans[1:3]:
        assert span.response is not None
        assert rows[span.span_id]["totalCost"] == pytest.approx(span.response.cost_usd)
    details = rows[spans[1].span_id]["costDetails"]  # the server knows this model's prices
    assert {bucket: cost for bucket, cost in details.items() if bucket != "total"} == pytest.approx(
        {bucket: cost_usd(MODELS[0], usage, None) for bucket, usage in BUCKETS.items()}
    )
    id_ = json.dumps(rows[spans[0].span_id]["input"]).partition("|id=")[2].partition("|")[0]
    assert langfuse.api._api.media.get(id_).content_length == len(PNG)
    until(
        lambda: len(asked(langfuse, f"/api/public/v2/scores?traceId={trace}")) >= 5,
        "the scores to be shown",
        seconds=120,
    )
    scores = asked(langfuse, f"/api/public/v2/scores?traceId={trace}")
    assert sorted(score["name"] for score in scores) == [
        *("api_retries", "cache_hit_rate", "interrupted", "lines_changed", "permission_denials", "tool_error_rate"),
    ]
    langfuse.api.remove_trace(trace)
    langfuse.close()


def test_doctor_leaves_nothing_behind(settings: DestinationSettings) -> None:
    check = prove(settings, time.time())
    assert (check.verdict, check.found.endswith("read back and removed")) == ("ok", True), check.found
