"""A real MLflow has every span of the recorded sessions as it was sent, and shows its tokens and session."""

from __future__ import annotations

import json
from base64 import b64decode
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest
from collector import free_ports
from servers import ask, recorded_spans, running, send, stored

from cc_trace.export.destination import DestinationSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cc_trace.spans.model import Span

SPANS: Final = recorded_spans()
TYPES: Final = {"turn": "AGENT", "subagent": "AGENT", "generation": "CHAT_MODEL", "tool": "TOOL", "event": "TASK"}
EXPERIMENT: Final = "0"  # the one that is there from the beginning


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What it has of the traces that were sent, by their ids."""
    folder = tmp_path_factory.mktemp("mlflow")
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    options = {"host": "127.0.0.1", "port": port, "workers": 1, "backend-store-uri": f"sqlite:///{folder}/mlflow.db"}
    command = ["mlflow", "server", *(f"--{name}={value}" for name, value in options.items())]
    variables = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    with running("mlflow", folder, command, variables, lambda: traces(url)):
        headers = (("x-mlflow-experiment-id", EXPERIMENT),)
        send(DestinationSettings("x", "otlp", "mlflow", url, headers=headers), SPANS)
        ids = stored(lambda: traces(url), len({span.trace_id for span in SPANS}))
        yield {id_: ask(f"{url}/api/3.0/mlflow/traces/get?trace_id=tr-{id_}")["trace"] for id_ in ids}


def traces(url: str) -> dict[str, Any]:
    place = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": EXPERIMENT}}
    found: dict[str, Any] = {}
    token = None
    while True:
        asked = {"locations": [place], "max_results": 100} | ({"page_token": token} if token else {})
        page = ask(f"{url}/api/3.0/mlflow/traces/search", asked)
        found |= {each["trace_id"].removeprefix("tr-"): each for each in page.get("traces", [])}
        if not (token := page.get("next_page_token")):
            return found


def received(span: dict[str, Any]) -> dict[str, Any]:
    attributes = {pair["key"]: pair["value"] for pair in span["attributes"]}
    parent = span.get("parent_span_id")
    return {
        "name": span["name"],
        "type": attributes["mlflow.spanType"]["string_value"],
        "parent": b64decode(parent).hex() if parent else None,
        "trace": b64decode(span["trace_id"]).hex(),
        "session": attributes["session.id"]["string_value"],
        "times": (int(span["start_time_unix_nano"]), int(span["end_time_unix_nano"])),
        "status": (span["status"]["code"], span["status"].get("message", "")),
    }


def expected(span: Span) -> dict[str, Any]:
    failed = ("STATUS_CODE_ERROR", span.error or span.status)
    return {
        "name": span.name,
        "type": TYPES[span.kind],
        "parent": span.parent_id,
        "trace": span.trace_id,
        "session": span.session_id,
        "times": (span.start_ns, span.end_ns),
        "status": ("STATUS_CODE_OK", "") if span.status == "ok" else failed,
    }


def ancestors(span: Span, by_id: dict[str, Span]) -> Iterator[Span]:
    while span.parent_id is not None:
        span = by_id[span.parent_id]
        yield span


def test_every_span_is_there_as_it_was_sent(mlflow: dict[str, Any]) -> None:
    found = {b64decode(span["span_id"]).hex(): received(span) for trace in mlflow.values() for span in trace["spans"]}
    assert found == {span.span_id: expected(span) for span in SPANS}


def test_sessions_and_tokens_of_traces(mlflow: dict[str, Any]) -> None:
    """MLflow adds up a trace's responses but for those of agents: nothing below a span with tokens counts there."""
    by_id = {span.span_id: span for span in SPANS}
    tokens = {trace_id: Counter[str]() for trace_id in mlflow}
    for span in SPANS:
        above = [each for each in ancestors(span, by_id) if each.response is not None]
        if not above and span.response is not None and (usage := span.response.usage) is not None:
            written = usage.cache_write_5m + usage.cache_write_1h
            given = usage.input + usage.cache_read + written
            tokens[span.trace_id].update(input_tokens=given, output_tokens=usage.output)
            tokens[span.trace_id].update(cache_read_input_tokens=usage.cache_read, cache_creation_input_tokens=written)
    shown = {id_: trace["trace_info"]["trace_metadata"] for id_, trace in mlflow.items()}
    counts = {id_: json.loads(each.get("mlflow.trace.tokenUsage", "{}")) for id_, each in shown.items()}
    assert {id_: {key: each.get(key, 0) for key in tokens[id_]} for id_, each in counts.items()} == tokens
    assert {id_: each["mlflow.trace.session"] for id_, each in shown.items()} == {
        span.trace_id: span.session_id for span in SPANS
    }
