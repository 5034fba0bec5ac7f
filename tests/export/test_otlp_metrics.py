"""Metrics on the wire: what a response counts for, as OTLP over each protocol."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from backend import OK, HttpBackend, status
from lines import MODEL, NOON, line, prompt, reply, session
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from cc_trace.export import DestinationSettings, MetricsDestination, open_destination
from cc_trace.export.metrics import metrics_request, span_counts
from cc_trace.export.outcomes import Accepted, Retryable
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START = int(NOON.timestamp() * 1e9)
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": MODEL}


@pytest.fixture
def backend() -> Iterator[HttpBackend]:
    with HttpBackend() as running:
        yield running


def one_response(**fields: Any) -> list[dict[str, Any]]:
    request: dict[str, Any] = {"params": {"model": MODEL}, "base": None, "keep": 0, "tail": []}
    return [
        prompt("go", 0),
        line("api-request", 1, id="a1", **request),
        reply("m1", "Done.", at=4, requestRef="a1", **fields),
    ]


def counts_of(path: Path) -> dict[str, list[float]]:
    found = [span_counts(span) for span in Session(path, ending="over").spans()]
    (counts,) = [each for each in found if each]
    return counts


def series(message: ExportMetricsServiceRequest) -> dict[tuple[str, str], Any]:
    """Every point by its metric's name and what tells it apart."""
    (resource,) = message.resource_metrics
    (scope,) = resource.scope_metrics
    found: dict[tuple[str, str], Any] = {}
    for metric in scope.metrics:
        data = metric.histogram if metric.HasField("histogram") else metric.sum
        for point in data.data_points:
            attributes = {pair.key: pair.value.string_value for pair in point.attributes}
            kind = attributes.pop("gen_ai.token.type", "") or attributes.pop("cc_trace.token.type", "")
            assert attributes == {**CHAT, "gen_ai.response.model": MODEL}
            found[metric.name, kind] = point
    return found


def test_a_response_is_timed_and_its_tokens_counted(tmp_path: Path) -> None:
    counts = counts_of(session(tmp_path, *one_response()))
    data = metrics_request(counts, "delta", START, START + 9, {"service.name": "x"})
    found = series(ExportMetricsServiceRequest.FromString(data))
    timed = found["gen_ai.client.operation.duration", ""]
    assert (timed.count, timed.sum) == (1, 3.0)
    assert list(timed.explicit_bounds)[-2:] == [40.96, 81.92]
    assert list(timed.bucket_counts).index(1) == list(timed.explicit_bounds).index(5.12)
    assert len(timed.bucket_counts) == len(timed.explicit_bounds) + 1
    assert (timed.start_time_unix_nano, timed.time_unix_nano) == (START, START + 9)
    used = {kind: found["gen_ai.client.token.usage", kind].sum for kind in ("input", "output")}
    assert used == {"input": 53_012, "output": 400}  # the input includes the cache
    kinds = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
    assert [found["cc_trace.tokens", kind].as_double for kind in kinds] == [12, 400, 50_000, 1_000, 2_000]
    assert found["cc_trace.cost", ""].as_double == pytest.approx(0.036786)


@pytest.mark.parametrize(("temporality", "number"), [("delta", 1), ("cumulative", 2)])
def test_metrics_have_temporality_and_units(tmp_path: Path, temporality: Any, number: int) -> None:
    data = metrics_request(counts_of(session(tmp_path, *one_response())), temporality, START, START + 9, {})
    (resource,) = ExportMetricsServiceRequest.FromString(data).resource_metrics
    found = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    histograms: list[Any] = [found[name].histogram for name in found if name.startswith("gen_ai.")]
    sums = [found[name].sum for name in found if name.startswith("cc_trace.")]
    assert {each.aggregation_temporality for each in (*histograms, *sums)} == {number}
    assert [each.is_monotonic for each in sums] == [True, True]
    units = {name: metric.unit for name, metric in found.items()}
    tokens = "{token}"
    assert units["gen_ai.client.operation.duration"] == "s"
    assert (units["gen_ai.client.token.usage"], units["cc_trace.tokens"]) == (tokens, tokens)


def test_a_value_on_a_bound_is_in_the_bucket_below(tmp_path: Path) -> None:
    lines = one_response()
    lines[2]["message"]["usage"] = {"input_tokens": 16, "output_tokens": 17}
    found = counts_of(session(tmp_path, *lines))
    buckets = {
        json.loads(name)[1].get("gen_ai.token.type"): each[2:] for name, each in found.items() if "usage" in name
    }
    assert (buckets["input"].index(1), buckets["output"].index(1)) == (2, 3)


def test_derived_start_is_not_measured(tmp_path: Path) -> None:
    """Without a recorded request, the time before it would count as the model's."""
    lines = [prompt("go", 0), reply("m1", "Done.", at=4)]
    names = {json.loads(name)[0] for name in counts_of(session(tmp_path, *lines))}
    assert names == {"gen_ai.client.token.usage", "cc_trace.tokens", "cc_trace.cost"}


def test_a_failed_call_is_timed_with_its_error(tmp_path: Path) -> None:
    lines = one_response(isApiErrorMessage=True, apiErrorStatus=529, message={"model": "<synthetic>"})
    del lines[2]["requestRef"]
    ((name, numbers),) = counts_of(session(tmp_path, *lines)).items()
    assert json.loads(name) == ["gen_ai.client.operation.duration", CHAT | {"error.type": "529"}]
    assert numbers[:2] == [1, 3.0]


def test_counts_of_another_version_are_left_out() -> None:
    counts = {'["cc_trace.later",{}]': [1.0], '["cc_trace.cost",{}]': [1.0, 2.0]}
    message = ExportMetricsServiceRequest.FromString(metrics_request(counts, "delta", START, START + 1, {}))
    assert not message.resource_metrics[0].scope_metrics[0].metrics


@pytest.mark.parametrize("protocol", ["http/protobuf", "http/json"])
@pytest.mark.parametrize("path", ["", "/v1/traces", "/otlp"])
def test_metrics_url_is_derived_from_the_endpoint(
    tmp_path: Path, backend: HttpBackend, protocol: Any, path: str
) -> None:
    settings = DestinationSettings("otlp", "otlp", endpoint=backend.url + path, protocol=protocol, metrics="delta")
    destination = open_destination(settings)
    assert isinstance(destination, MetricsDestination)
    counts = counts_of(session(tmp_path, *one_response()))
    assert destination.send_metrics(counts, START, START + 9, "s-1") == Accepted()
    backend.metrics_behaviour = status(404)
    assert isinstance(destination.send_metrics(counts, START, START + 9, "s-1"), Retryable)
    destination.close()
    (message,) = backend.metrics
    assert backend.requests[0].path == path.removesuffix("/v1/traces") + "/v1/metrics"
    expected = metrics_request(
        counts, "delta", START, START + 9, {"service.name": "claude-code", "service.instance.id": "s-1"}
    )
    assert message == ExportMetricsServiceRequest.FromString(expected)


def fresh(home: Path) -> str:
    """A session of now, whose only turn is over."""
    now = time.time() - NOON.timestamp() - 60
    lines = one_response()
    for place, at in ((0, now), (1, now + 1), (2, now + 4)):
        lines[place] |= {"timestamp": prompt("", at)["timestamp"]}
    folder = home / ".claude" / "projects" / "-p"
    folder.mkdir(parents=True, exist_ok=True)
    return session(folder, *lines).stem


@pytest.mark.parametrize(
    ("command", "metrics", "number"),
    [("sync", "on", 1), ("sync", "off", 0), ("backfill", "on", 0)],
)
def test_live_session_is_counted_but_not_a_backfill(
    tmp_path: Path, backend: HttpBackend, command: str, metrics: str, number: int
) -> None:
    session_id = fresh(tmp_path)
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "CC_TRACE_OTLP_ENDPOINT": backend.url}
    environment |= {"CC_TRACE_METRICS": metrics, "CC_TRACE_REST_SECONDS": "0"}
    chosen = ["--session", session_id] if command == "sync" else []
    done = subprocess.run(
        [sys.executable, "-m", "cc_trace", command, *chosen],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert len(backend.spans) == 2
    assert len(backend.metrics) == number
    assert backend.behaviour == OK
