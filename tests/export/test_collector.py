"""A real collector takes what we send, over each protocol, and hands it on unchanged."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from backend import HttpBackend
from collector import Collector, why_not
from shared import CASES

from cc_trace.delivery.cursor import add_counts
from cc_trace.export import MetricsDestination
from cc_trace.export.destination import DestinationSettings, open_destination
from cc_trace.export.metrics import span_counts
from cc_trace.export.outcomes import Accepted, Rejected, Retryable
from cc_trace.export.profiles import PROFILES, Labels, resource
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

    from cc_trace.export.destination import OtlpProtocol
    from cc_trace.export.outcomes import Outcome
    from cc_trace.spans.model import Span

_WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(_WHY_NOT is not None, reason=str(_WHY_NOT))

LABELS = Labels(user_id="someone", tags=("a", "b"), environment="test", resource={"host.name": "here"})
NOW = 1_767_268_800_000_000_000
PROTOCOLS: list[OtlpProtocol] = ["http/protobuf", "http/json", "grpc"]


@pytest.fixture(scope="module")
def sink() -> Iterator[HttpBackend]:
    with HttpBackend() as running:
        yield running


@pytest.fixture(scope="module")
def collector(sink: HttpBackend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    with Collector(sink.url, tmp_path_factory.mktemp("rotel")) as running:
        yield running


def settings(collector: Collector, protocol: OtlpProtocol, profile: str = "otel") -> DestinationSettings:
    endpoint = collector.grpc_url if protocol == "grpc" else collector.http_url
    return DestinationSettings("x", "otlp", profile, endpoint, protocol=protocol, labels=LABELS)


def send(chosen: DestinationSettings, spans: Sequence[Span]) -> Outcome:
    destination = open_destination(chosen)
    try:
        return destination.send([destination.encode(span) for span in spans])
    finally:
        destination.close()


def expected(span: Span, profile: str) -> dict[str, Any]:
    name, attributes = PROFILES[profile](span, LABELS)
    return {
        "ids": (span.trace_id, span.span_id, span.parent_id or ""),
        "name": name,
        "times": (span.start_ns, span.end_ns),
        "attributes": attributes,
        "failed": span.status != "ok",
    }


def received(span: Message) -> dict[str, Any]:
    return {
        "ids": (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()),
        "name": span.name,
        "times": (span.start_time_unix_nano, span.end_time_unix_nano),
        "attributes": values(span.attributes),
        "failed": span.status.code == span.status.STATUS_CODE_ERROR,
    }


def values(pairs: Sequence[KeyValue]) -> dict[str, Any]:
    return {pair.key: value(pair.value) for pair in pairs}


def value(any_value: AnyValue) -> Any:
    kind = any_value.WhichOneof("value")
    if kind == "array_value":
        return [value(item) for item in any_value.array_value.values]
    return getattr(any_value, str(kind))


def typed(attributes: dict[str, Any]) -> dict[str, tuple[type, Any]]:
    """1, 1.0 and True are equal in Python, but not to a backend."""
    return {key: (type(given), given) for key, given in attributes.items()}


@pytest.mark.parametrize("profile", ["otel", "openinference", "langfuse"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("case", ["2.1.325--c1_subagent", "2.1.325--f_tool_error"])
def test_recorded_session_arrives_unchanged(
    collector: Collector, sink: HttpBackend, case: str, protocol: OtlpProtocol, profile: str
) -> None:
    """Ids, parents, times in nanoseconds, typed attributes, status, resource and scope."""
    spans = [span for span in Session(next((CASES / case).glob("*.jsonl"))).spans() if span.start_ns and span.end_ns]
    sink.spans.clear()
    sink.resources.clear()
    assert send(settings(collector, protocol, profile), spans) == Accepted()
    collector.wait_for(sink, len(spans))
    by_id = {span.span_id.hex(): received(span) for span in sink.spans}
    assert [by_id[span.span_id] for span in spans] == [expected(span, profile) for span in spans]
    for span in spans:
        assert typed(by_id[span.span_id]["attributes"]) == typed(expected(span, profile)["attributes"])
    assert len(sink.spans) == len(spans)
    assert [values(made.attributes) for made in sink.resources] == [resource(profile, LABELS)] * len(sink.resources)


def test_wrong_url_loses_nothing(collector: Collector, sink: HttpBackend) -> None:
    """A path that does not exist, and a port that speaks another protocol."""
    spans = list(Session(next((CASES / "2.1.325--a_simple").glob("*.jsonl"))).spans())
    sink.spans.clear()
    wrong_path = DestinationSettings("x", "otlp", traces_endpoint=f"{collector.http_url}/wrong")
    assert send(wrong_path, spans) == Retryable("404 Not Found")
    swapped = DestinationSettings("x", "otlp", endpoint=collector.http_url, protocol="grpc", timeout_seconds=1)
    assert isinstance(send(swapped, spans), Retryable)
    assert sink.spans == []


def test_half_of_a_batch_that_is_too_large_is_accepted(collector: Collector) -> None:
    """The collector was started with a limit of 1 MiB: both spans exceed it, one does not."""
    spans = list(Session(next((CASES / "2.1.325--b_tools").glob("*.jsonl"))).spans())[:2]
    large = [span._replace(output=os.urandom(400_000).hex()) for span in spans]
    chosen = settings(collector, "grpc")
    refused = send(chosen, large)
    assert isinstance(refused, Rejected)
    assert (refused.status, "too large" in refused.message) == ("OUT_OF_RANGE", True)
    assert [send(chosen, [span]) for span in large] == [Accepted(), Accepted()]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_metrics_arrive_unchanged(sink: HttpBackend, collector: Collector, protocol: OtlpProtocol) -> None:
    path = CASES / "2.1.325--b_tools" / "bbbbbbbb-0000-4000-8000-000000000001.jsonl"
    counts: dict[str, list[float]] = {}
    for span in Session(path, ending="over").spans():
        add_counts(counts, span_counts(span))
    destination = open_destination(replace(settings(collector, protocol), metrics="cumulative"))
    assert isinstance(destination, MetricsDestination)
    before = len(sink.metrics)
    assert destination.send_metrics(counts, 1, NOW, path.stem) == Accepted()
    destination.close()
    collector.wait_until(lambda: len(sink.metrics) > before)
    (resource_metrics,) = sink.metrics[-1].resource_metrics
    metrics = {metric.name: metric for scope in resource_metrics.scope_metrics for metric in scope.metrics}
    names = {"gen_ai.client.operation.duration", "gen_ai.client.token.usage", "cc_trace.tokens", "cc_trace.cost"}
    assert {*metrics} == names
    timed = metrics["gen_ai.client.operation.duration"].histogram.data_points
    assert [(point.count, point.time_unix_nano) for point in timed] == [(2, NOW)]
    assert values(resource_metrics.resource.attributes)["service.instance.id"] == path.stem
