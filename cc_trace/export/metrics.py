"""Metrics: durations, tokens and cost of responses as additive counts, and as OTLP. Pure.

Counts are a dict: name and attributes of a series as JSON -> its numbers. A histogram has the count of values, their
sum, and the count in each bucket; a counter has only its sum. So counts can be stored, and added number by number.

Source: gen-ai-metrics in github.com/open-telemetry/semantic-conventions-genai; metrics/v1 in
github.com/open-telemetry/opentelemetry-proto: the numbers of the fields.
"""

from __future__ import annotations

from bisect import bisect_left
from struct import pack
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import orjson

from cc_trace.export.otlp import pairs, resource_message, scope_message
from cc_trace.export.profiles.errors import error_type
from cc_trace.export.profiles.otel import SCHEMA_URL, provider, requested_model
from cc_trace.export.protobuf import chunk, double, fixed64, integer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cc_trace.export.outcomes import Temporality
    from cc_trace.export.profiles.labels import AttributeValue
    from cc_trace.spans import Span

Counts: TypeAlias = dict[str, list[float]]


class _Instrument(NamedTuple):
    """A metric. `bounds`: the upper bounds of a histogram's buckets except the last; empty for a counter."""

    description: str
    unit: str
    bounds: tuple[float, ...] = ()


_DURATION: Final = "gen_ai.client.operation.duration"
_USAGE: Final = "gen_ai.client.token.usage"
_TOKENS: Final = "cc_trace.tokens"
_COST: Final = "cc_trace.cost"
_INSTRUMENTS: Final[Mapping[str, _Instrument]] = {
    _DURATION: _Instrument("GenAI operation duration.", "s", tuple(0.01 * 2**power for power in range(14))),
    _USAGE: _Instrument("Number of input and output tokens used.", "{token}", tuple(4.0**power for power in range(14))),
    _TOKENS: _Instrument("Tokens by what they cost.", "{token}"),
    _COST: _Instrument("Cost of responses.", "USD"),
}
_TEMPORALITIES: Final[Mapping[Temporality, int]] = {"delta": 1, "cumulative": 2}
_NS_PER_SECOND: Final = 1_000_000_000


def span_counts(span: Span) -> Counts:
    """Return a span's counts: empty unless it is a response or a failed call."""
    counts: Counts = {}
    response = span.response
    if response is None:
        return counts
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": provider(response)}
    if (model := requested_model(span)) is not None:
        attributes["gen_ai.request.model"] = model
    if response.model is not None and span.status != "error":
        attributes["gen_ai.response.model"] = response.model
    if span.start_ns is not None and span.end_ns is not None and "time" not in span.metadata:
        error = {"error.type": error_type(span)} if span.status != "ok" else {}
        _count(counts, _DURATION, attributes | error, (span.end_ns - span.start_ns) / _NS_PER_SECOND)
    if (usage := response.usage) is not None:
        cache_write = usage.cache_write_5m + usage.cache_write_1h
        for kind, tokens in (("input", usage.input + usage.cache_read + cache_write), ("output", usage.output)):
            _count(counts, _USAGE, attributes | {"gen_ai.token.type": kind}, tokens)
        for kind in ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h"):
            if tokens := getattr(usage, kind):
                _count(counts, _TOKENS, attributes | {"cc_trace.token.type": kind}, tokens)
    if response.cost_usd:
        _count(counts, _COST, attributes, response.cost_usd)
    return counts


def _count(counts: Counts, name: str, attributes: dict[str, str], value: float) -> None:
    bounds = _INSTRUMENTS[name].bounds
    numbers = [float(value)]
    if bounds:
        buckets = [0.0] * (len(bounds) + 1)
        buckets[bisect_left(bounds, value)] = 1.0  # a bucket includes its upper bound
        numbers = [1.0, float(value), *buckets]
    counts[orjson.dumps([name, attributes], option=orjson.OPT_SORT_KEYS).decode()] = numbers


def metrics_request(
    counts: Mapping[str, list[float]],
    temporality: Temporality,
    start_ns: int,
    end_ns: int,
    resource: Mapping[str, AttributeValue],
) -> bytes:
    """Return an ExportMetricsServiceRequest with the counts of the time from `start_ns` to `end_ns`.

    Counts stored by another version that this version does not know are left out.
    """
    points_by_name: dict[str, list[bytes]] = {}
    for series, numbers in counts.items():
        name, attributes = orjson.loads(series)
        instrument = _INSTRUMENTS.get(name)
        if instrument is None or len(numbers) != (len(instrument.bounds) + 3 if instrument.bounds else 1):
            continue
        times = fixed64(2, start_ns) + fixed64(3, end_ns)
        encode_point = _histogram_point if instrument.bounds else _number_point
        points_by_name.setdefault(name, []).append(encode_point(times, attributes, numbers, instrument.bounds))
    metrics = [_metric(name, points, _TEMPORALITIES[temporality]) for name, points in points_by_name.items()]
    return resource_message(resource, scope_message(metrics, SCHEMA_URL))


def _metric(name: str, points: list[bytes], temporality: int) -> bytes:
    description, unit, bounds = _INSTRUMENTS[name]
    data = b"".join([chunk(1, point) for point in points]) + integer(2, temporality)
    message = chunk(1, name.encode()) + chunk(2, description.encode()) + chunk(3, unit.encode())
    return message + (chunk(9, data) if bounds else chunk(7, data + integer(3, 1)))


def _number_point(times: bytes, attributes: dict[str, str], numbers: list[float], _: tuple[float, ...]) -> bytes:
    return times + double(4, numbers[0]) + pairs(7, attributes)


def _histogram_point(
    times: bytes, attributes: dict[str, str], numbers: list[float], bounds: tuple[float, ...]
) -> bytes:
    count, total, *buckets = numbers
    bucket_counts = chunk(6, pack(f"<{len(buckets)}Q", *map(int, buckets)))
    limits = chunk(7, pack(f"<{len(bounds)}d", *bounds))
    return times + fixed64(4, int(count)) + double(5, total) + bucket_counts + limits + pairs(9, attributes)
