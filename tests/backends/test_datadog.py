"""Datadog's own test agent takes what we send, over HTTP and gRPC, with the attributes that Datadog groups by."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final

import pytest
from collector import free_ports
from servers import ask, recorded_spans, running, send

from cc_trace.export.destination import DestinationSettings
from cc_trace.export.profiles import PROFILES, Labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cc_trace.export.destination import OtlpProtocol
    from cc_trace.spans.model import Span

SPANS: Final = recorded_spans()
PROTOCOLS: Final[list[OtlpProtocol]] = ["http/protobuf", "http/json", "grpc"]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Its addresses for HTTP and for gRPC."""
    port, http_port, grpc_port = free_ports(3)
    http_url, grpc_url = f"http://127.0.0.1:{http_port}", f"http://127.0.0.1:{grpc_port}"
    options = {"host": "127.0.0.1", "port": port, "otlp-http-port": http_port, "otlp-grpc-port": grpc_port}
    command = ["ddapm-test-agent", *(f"--{name}={value}" for name, value in options.items())]
    folder = tmp_path_factory.mktemp("datadog")
    with running("datadog", folder, command, {}, lambda: ask(f"{http_url}/test/session/traces")):
        yield http_url, grpc_url


def received(span: dict[str, Any]) -> tuple[Any, ...]:
    parent = span.get("parentSpanId") or span.get("parent_span_id")
    attributes = {pair["key"]: next(iter(pair["value"].values())) for pair in span["attributes"]}
    return (span["name"], _hex(parent) if parent else None, *map(attributes.get, GROUPED_BY))


def expected(span: Span) -> tuple[Any, ...]:
    name, attributes = PROFILES["otel"](span, Labels())
    return (name, span.parent_id, *map(attributes.get, GROUPED_BY))


GROUPED_BY: Final = (
    "gen_ai.operation.name",
    "gen_ai.conversation.id",
    "gen_ai.agent.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.tool.name",
    "error.type",
)


def _hex(text: str) -> str:
    """An id; protobuf's JSON has it in base64, OTLP's in hexadecimal."""
    return text if len(text) == 16 and set(text) <= set("0123456789abcdef") else b64decode(text).hex()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_span_arrives(agent: tuple[str, str], protocol: OtlpProtocol) -> None:
    http_url, grpc_url = agent
    ask(f"{http_url}/test/session/clear", text=True)
    send(
        DestinationSettings("x", "otlp", "otel", grpc_url if protocol == "grpc" else http_url, protocol=protocol), SPANS
    )
    found = {}
    for request in ask(f"{http_url}/test/session/traces"):
        for resource in request.get("resourceSpans") or request["resource_spans"]:
            for scope in resource.get("scopeSpans") or resource["scope_spans"]:
                for span in scope["spans"]:
                    found[_hex(span.get("spanId") or span["span_id"])] = received(span)
    assert found == {span.span_id: expected(span) for span in SPANS}
