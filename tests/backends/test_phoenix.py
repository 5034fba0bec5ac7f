"""A real Phoenix has every span of the recorded sessions as it was sent, and shows its tokens, cost and session."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pytest
from collector import free_ports
from servers import ask, recorded_spans, running, send, stored

from cc_trace.export.destination import DestinationSettings
from cc_trace.export.profiles import PROFILES, Labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cc_trace.spans.model import Span

SPANS: Final = recorded_spans()
KINDS: Final = {"turn": "agent", "subagent": "agent", "generation": "llm", "tool": "tool", "event": "chain"}
QUERY: Final = """
query ($id: ID!, $after: String) { node(id: $id) { ... on Project { spans(first: 1000, after: $after) {
  pageInfo { hasNextPage endCursor }
  edges { node {
    spanId name spanKind statusCode statusMessage startTime endTime parentId
    tokenCountPrompt tokenCountCompletion
    costSummary { total { cost } prompt { cost } completion { cost } }
    trace { traceId session { sessionId } }
    input { value } output { value }
  } }
} } } }
"""


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What it has of the spans that were sent, by their ids."""
    folder = tmp_path_factory.mktemp("phoenix")
    http_port, grpc_port = free_ports(2)
    url = f"http://127.0.0.1:{http_port}"
    variables = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": f"{http_port}",
        "PHOENIX_GRPC_PORT": f"{grpc_port}",
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    with running("phoenix", folder, ["phoenix", "serve"], variables, lambda: ask(f"{url}/v1/projects")):
        send(DestinationSettings("x", "otlp", "openinference", url), SPANS)
        yield stored(lambda: read(url), len(SPANS))


def read(url: str) -> dict[str, Any]:
    projects = {each["name"]: each["id"] for each in ask(f"{url}/v1/projects")["data"]}
    found: dict[str, Any] = {}
    after = None
    while "claude-code" in projects:
        variables = {"id": projects["claude-code"], "after": after}
        page = ask(f"{url}/graphql", {"query": QUERY, "variables": variables})["data"]["node"]["spans"]
        found |= {edge["node"]["spanId"]: edge["node"] for edge in page["edges"]}
        after = page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            break
    return found


def microseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1e6)


def received(node: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": node["name"],
        "kind": node["spanKind"],
        "parent": node["parentId"],
        "trace": node["trace"]["traceId"],
        "session": node["trace"]["session"]["sessionId"],
        "times": (microseconds(node["startTime"]), microseconds(node["endTime"])),
        "status": (node["statusCode"], node["statusMessage"]),
        "tokens": (node["tokenCountPrompt"], node["tokenCountCompletion"]),
        "has input": bool(node["input"]),
        "has output": bool(node["output"]),
    }


def expected(span: Span) -> dict[str, Any]:
    name, attributes = PROFILES["openinference"](span, Labels())
    unknown = 0 if span.kind == "generation" else None  # what it shows of tokens that a span does not tell
    return {
        "name": name,
        "kind": KINDS[span.kind],
        "parent": span.parent_id,
        "trace": span.trace_id,
        "session": span.session_id,
        "times": ((span.start_ns or 0) // 1000, (span.end_ns or 0) // 1000),
        "status": ("UNSET", "") if span.status == "ok" else ("ERROR", span.error or span.status),
        "tokens": tuple(attributes.get(f"llm.token_count.{name}", unknown) for name in ("prompt", "completion")),
        "has input": "input.value" in attributes,
        "has output": "output.value" in attributes,
    }


def test_every_span_is_there_as_it_was_sent(phoenix: dict[str, Any]) -> None:
    assert {id_: received(node) for id_, node in phoenix.items()} == {span.span_id: expected(span) for span in SPANS}


def test_costs_are_those_that_were_sent(phoenix: dict[str, Any]) -> None:
    """It would price these models alike: this shows that costs agree, not whose they are."""
    costs = {span.span_id: span.response.cost_usd for span in SPANS if span.response and span.response.cost_usd}
    shown = {id_: phoenix[id_]["costSummary"]["total"]["cost"] for id_ in costs}
    assert len(costs) > 50
    assert shown == pytest.approx(costs, abs=1e-9)
