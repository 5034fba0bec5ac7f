"""Langfuse: how it is sent to, how it is asked what it has, and a real one where there is one.

What each behaviour of the backend means is in test_otlp_http.py.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from backend import CLOSE_STORED, HANG, REFUSE, Behaviour, HttpBackend, status
from langfuse._client.attributes import LangfuseOtelSpanAttributes
from shared import CASES

from cc_trace.errors import ConfigError
from cc_trace.export.destination import DestinationSettings, open_destination
from cc_trace.export.langfuse import Langfuse, _basic
from cc_trace.export.langfuse_api import Failure
from cc_trace.export.outcomes import Accepted, Retryable, Unclear
from cc_trace.export.profiles import PROFILES, Labels
from cc_trace.export.profiles.langfuse import Additions, attributes
from cc_trace.spans.model import span_id, trace_id
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.spans.model import Span

BASIC = "Basic " + base64.b64encode(b"pk-lf-1234:sk-lf-5678").decode()
LIVE = {name: os.environ.get(f"CC_TRACE_TEST_LANGFUSE_{name}") for name in ("URL", "PUBLIC_KEY", "SECRET_KEY")}


@pytest.fixture(scope="module")
def spans() -> list[Span]:
    return list(Session(next((CASES / "2.1.325--g1_two_turns_exit").rglob("*.jsonl"))).spans())


@pytest.fixture
def backend() -> Iterator[HttpBackend]:
    with HttpBackend() as running:
        running.authorization = BASIC
        yield running


def settings(base: str) -> DestinationSettings:
    keys = {"public_key": "pk-lf-1234", "secret_key": "sk-lf-5678"}
    return DestinationSettings("langfuse", "langfuse", endpoint=base, timeout_seconds=0.3, **keys)  # type: ignore[arg-type]


@pytest.fixture
def langfuse(backend: HttpBackend) -> Iterator[Langfuse]:
    opened = Langfuse(settings(backend.url))
    yield opened
    opened.close()


def test_what_is_sent(backend: HttpBackend, langfuse: Langfuse, spans: list[Span]) -> None:
    """Its own path below the base URL, Basic auth, the ingestion version, and the langfuse profile."""
    assert langfuse.send([langfuse.encode(span) for span in spans]) == Accepted()
    (request,) = backend.requests
    assert (request.method, request.path) == ("POST", "/api/public/otel/v1/traces")
    wanted = ("authorization", "x-langfuse-ingestion-version", "content-type")
    assert [request.headers[name] for name in wanted] == [BASIC, "4", "application/x-protobuf"]
    expected = {span.span_id: {"langfuse.session.id", "langfuse.observation.type"} for span in spans}
    names = {span.span_id.hex(): {pair.key for pair in span.attributes} for span in backend.spans}
    assert {id_: keys & names[id_] for id_, keys in expected.items()} == expected


@pytest.mark.parametrize("path", ["", "/", "/api/public/otel", "/api/public/otel/v1/traces"])
def test_the_base_url_may_be_its_otlp_endpoint(backend: HttpBackend, spans: list[Span], path: str) -> None:
    opened = open_destination(settings(backend.url + path))
    assert opened.send([opened.encode(spans[0])]) == Accepted()
    opened.close()
    assert [request.path for request in backend.requests] == ["/api/public/otel/v1/traces"]


@pytest.mark.parametrize("name", ["public_key", "secret_key"])
def test_a_missing_key_is_told_at_once(name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        open_destination(replace(settings("http://127.0.0.1"), **{name: None}))  # type: ignore[arg-type]
    assert str(raised.value) == f"LANGFUSE_{name.upper()} is not set, and destination langfuse needs it"


def test_a_wrong_key_is_not_repeated(backend: HttpBackend, langfuse: Langfuse, spans: list[Span]) -> None:
    backend.behaviour = status(401, f"no such key: pk-lf-1234, sk-lf-5678, {BASIC}")
    assert langfuse.send([langfuse.encode(spans[0])]) == Retryable("401 Unauthorized: no such key: ***, ***, ***")


def test_stored_ids(backend: HttpBackend, langfuse: Langfuse, spans: list[Span]) -> None:
    """Over all pages of each trace, and nothing of what was not asked for."""
    backend.page = 2
    batch = [langfuse.encode(span) for span in spans]
    assert langfuse.stored_ids(batch) == frozenset()
    assert langfuse.send(batch[1:]) == Accepted()
    assert langfuse.stored_ids(batch) == frozenset(span.span_id for span in spans[1:])
    assert langfuse.stored_ids(batch[:2]) == frozenset({spans[1].span_id})
    assert langfuse.stored_ids([]) == frozenset()


def test_stored_ids_after_a_lost_response(backend: HttpBackend, langfuse: Langfuse, spans: list[Span]) -> None:
    """What was stored without an answer is found; what shows later is found by asking again."""
    backend.behaviour = CLOSE_STORED
    batch = [langfuse.encode(span) for span in spans]
    said = langfuse.send(batch)
    assert isinstance(said, Unclear)
    backend.lag = len({span.trace_id for span in spans})
    assert langfuse.stored_ids(batch) == frozenset()
    backend.lag = len({span.trace_id for span in spans})
    assert langfuse.stored_ids(batch, attempts=3, pause_seconds=0.01) == frozenset(span.span_id for span in spans)


@pytest.mark.parametrize(
    "reads",
    [
        status(401),
        status(404),
        status(500),
        HANG,
        Behaviour("close"),
        Behaviour("drip", seconds=0.05),
        Behaviour(said="<html>"),
        Behaviour(said="[]"),
        Behaviour(said='{"data": {}}'),
    ],
)
def test_stored_ids_are_unknown_if_the_query_fails(
    backend: HttpBackend, langfuse: Langfuse, spans: list[Span], reads: Behaviour
) -> None:
    """An older server, a wrong key, a broken connection: no answer is not the answer that it has nothing."""
    backend.reads = reads
    assert langfuse.stored_ids([langfuse.encode(spans[0])]) is None


def test_stored_ids_are_unknown_without_a_server(backend: HttpBackend, langfuse: Langfuse, spans: list[Span]) -> None:
    backend.behaviour = REFUSE
    assert langfuse.stored_ids([langfuse.encode(spans[0])]) is None


def test_attribute_names_match_the_langfuse_package(spans: list[Span]) -> None:
    """So that a name which Langfuse changes is seen here. Two have another form, which the server reads as well."""
    theirs = {value for name, value in vars(LangfuseOtelSpanAttributes).items() if name.isupper()}
    labels = Labels(user_id="u", tags=("t",), environment="e", release="r")
    ours = {key for span in spans for key in attributes(span, labels, Additions(cost_usd=1.0))[1]}
    prefixes = (LangfuseOtelSpanAttributes.TRACE_METADATA, LangfuseOtelSpanAttributes.OBSERVATION_METADATA)
    named = {key for key in ours if not key.startswith(tuple(f"{prefix}." for prefix in prefixes))}
    assert named - theirs == {"langfuse.user.id", "langfuse.session.id"}
    assert {"langfuse.observation.cost_details", "langfuse.observation.usage_details"} <= named
    assert len(named) > 10


def test_langfuse_package_is_imported_by_queries_only(backend: HttpBackend, tmp_path: Path) -> None:
    """Importing it takes longer than everything else that a worker does."""
    program = """
import sys
from cc_trace.export.destination import DestinationSettings, open_destination
from cc_trace.doctor.destinations import trial_span
opened = open_destination(DestinationSettings("langfuse", "langfuse", endpoint=sys.argv[1],
                          public_key="pk-lf-1234", secret_key="sk-lf-5678"))
encoded = opened.encode(trial_span(1.0))
opened.send([encoded])
print({"langfuse", "httpx", "pydantic"} & set(sys.modules))
print(opened.stored_ids([encoded]) == {encoded.span_id}, "langfuse" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, backend.url], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines() == ["set()", "True True"]


def test_project_name_is_read(backend: HttpBackend, langfuse: Langfuse) -> None:
    assert langfuse.api.project() == "my project"
    backend.project = "sk-lf-5678 \x1b[31m" + "x" * 400
    assert str(langfuse.api.project()).startswith("***  [31mxxx")
    backend.reads = status(404, "<html>a long page</html>")
    assert langfuse.api.project() == Failure("404 Not Found", 404)


def test_a_trace_can_be_removed(backend: HttpBackend, langfuse: Langfuse, spans: list[Span]) -> None:
    batch = [langfuse.encode(span) for span in spans]
    langfuse.send(batch)
    assert langfuse.api.remove_trace(batch[0].trace_id) is None
    kept = frozenset(encoded.span_id for encoded in batch if encoded.trace_id != batch[0].trace_id)
    assert kept
    assert langfuse.stored_ids(batch) == kept
    backend.reads = status(500, '{"message": "no"}')
    assert langfuse.api.remove_trace(batch[0].trace_id) == Failure("500 Internal Server Error: no", 500)


def test_what_was_sent_can_be_read_back(langfuse: Langfuse, spans: list[Span]) -> None:
    """The comparison that a real Langfuse must pass."""
    _send_and_compare(langfuse, spans)


@pytest.mark.skipif(not all(LIVE.values()), reason="CC_TRACE_TEST_LANGFUSE_{URL,PUBLIC_KEY,SECRET_KEY} are not set")
def test_a_real_langfuse_shows_what_was_sent(spans: list[Span]) -> None:
    keys = {"endpoint": LIVE["URL"], "public_key": LIVE["PUBLIC_KEY"], "secret_key": LIVE["SECRET_KEY"]}
    langfuse = Langfuse(DestinationSettings("live", "langfuse", timeout_seconds=30, **keys))  # type: ignore[arg-type]
    try:
        _send_and_compare(langfuse, spans)
    finally:
        langfuse.close()


def _send_and_compare(langfuse: Langfuse, spans: list[Span]) -> None:
    """Types, parents, names, input, output and usage, read back through the API that shows them first."""
    fresh = _fresh(spans)
    batch = [langfuse.encode(span) for span in fresh]
    assert langfuse.send(batch) == Accepted()
    assert langfuse.stored_ids(batch, attempts=30, pause_seconds=2) == frozenset(span.span_id for span in fresh)
    rows = [row for id_ in {span.trace_id for span in fresh} for row in _observations(langfuse, id_)]
    expected = {span.span_id: _expected(span) for span in fresh}
    assert expected == {row["id"]: {name: _plain(row.get(name)) for name in _expected(fresh[0])} for row in rows}


def _fresh(spans: list[Span]) -> list[Span]:
    """The spans under ids that no earlier run has used, and as if they had happened now."""
    run = uuid.uuid4().hex
    shift = time.time_ns() - max(span.end_ns or 0 for span in spans)

    def renamed(id_: str | None) -> str | None:
        return span_id(run, id_) if id_ is not None else None

    return [
        span._replace(
            trace_id=trace_id(run + span.trace_id),
            span_id=span_id(run, span.span_id),
            parent_id=renamed(span.parent_id),
            session_id=run,
            start_ns=span.start_ns + shift if span.start_ns is not None else None,
            end_ns=span.end_ns + shift if span.end_ns is not None else None,
            response=span.response._replace(first_token_ns=None) if span.response is not None else None,
        )
        for span in spans
    ]


def _observations(langfuse: Langfuse, trace: str) -> list[dict[str, Any]]:
    url = f"{langfuse._base}/api/public/v2/observations?traceId={trace}&limit=1000&fields=core,basic,io,usage,model"
    answer = langfuse._client.get(url, [("authorization", _basic(langfuse._settings))])
    rows: list[dict[str, Any]] = json.loads(answer.body)["data"]  # type: ignore[union-attr]
    return rows


def _expected(span: Span) -> dict[str, Any]:
    name, attributes = PROFILES["langfuse"](span, Labels())
    given = {key.removeprefix("langfuse.observation."): value for key, value in attributes.items()}
    return {
        "name": name,
        "type": str(given["type"]).upper(),
        "parentObservationId": span.parent_id,
        "sessionId": span.session_id,
        "input": _plain(given.get("input")),
        "output": _plain(given.get("output")),
        "usageDetails": _plain(json.loads(str(given.get("usage_details", "{}")))),
    }


def _plain(value: Any) -> Any:
    """Values in the form both sides can be brought to: Langfuse gives texts as they are, and adds a total."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    if isinstance(value, dict):
        return {key: count for key, count in value.items() if count and key != "total"}
    return value
