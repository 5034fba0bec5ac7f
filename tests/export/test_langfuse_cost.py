"""Who says what a response cost in Langfuse: the server, or cc-trace where the server has no price; never both."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from backend import HANG, Behaviour, status
from langfuse_server import PUBLIC, SECRET, SONNET, LangfuseServer, model
from profiles_spans import made

from cc_trace.export.destination import DestinationSettings
from cc_trace.export.langfuse import Langfuse
from cc_trace.pricing import cost_usd
from cc_trace.spans.model import Response, Span
from cc_trace.transcript.entries import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.export.destination import Cost

KNOWN, UNKNOWN = "claude-sonnet-4-5-20250929", "claude-haiku-5-5"
USAGE = Usage(12, 400, 50_000, 1_000, 2_000)


@pytest.fixture
def server() -> Iterator[LangfuseServer]:
    with LangfuseServer() as running:
        yield running


def opened(server: LangfuseServer, folder: Path | None, cost: Cost = "missing", seconds: float = 20.0) -> Langfuse:
    keys: dict[str, Any] = {"public_key": PUBLIC, "secret_key": SECRET, "cost": cost, "cache": folder}
    return Langfuse(DestinationSettings("langfuse", "langfuse", endpoint=server.url, timeout_seconds=seconds, **keys))


def generation(name: str, usage: Usage = USAGE) -> Span:
    cost = cost_usd(name, usage, None)
    return made("generation", name, response=Response("m", None, name, None, usage, usage_complete=True, cost_usd=cost))


def sent(langfuse: Langfuse, span: Span, *, may_query: bool = True) -> float | None:
    """The cost that goes with a span."""
    request = langfuse.as_json(langfuse.encode_with_turn(span, [span], lambda _: None, may_query=may_query))
    pairs = json.loads(request)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
    details = [pair["value"]["stringValue"] for pair in pairs if pair["key"] == "langfuse.observation.cost_details"]
    return json.loads(details[0])["total"] if details else None


@pytest.mark.parametrize("name", [KNOWN, UNKNOWN, f"{UNKNOWN}[1m]", "claude-nobody-knows-9"])
@pytest.mark.parametrize("cost", ["server", "local", "missing"])
def test_each_response_has_one_cost(server: LangfuseServer, tmp_path: Path, cost: Cost, name: str) -> None:
    """What the server shows is what the response cost, wherever either side knows that."""
    langfuse, span = opened(server, tmp_path, cost), generation(name)
    langfuse.send([langfuse.encode_with_turn(span, [span], lambda _: None, may_query=True)])
    local = span.response.cost_usd if span.response is not None else None
    expected = local if cost != "server" or name == KNOWN else 0.0
    assert server.costs[span.span_id] == pytest.approx(expected or 0.0)
    ours = cost == "local" or (cost == "missing" and name != KNOWN)
    assert sent(langfuse, span) == (local if ours else None)
    langfuse.close()


@pytest.mark.parametrize(
    ("usage", "prices", "tiers", "managed", "ours"),
    [
        (USAGE, SONNET, 1, True, False),
        (Usage(12, 400, 250_000), SONNET, 1, True, True),  # a long context at the usual price
        (Usage(12, 400, 250_000), SONNET, 2, True, False),
        (Usage(12, 400, web_searches=2), SONNET, 2, True, True),
        (USAGE, {"input": 3e-06, "output": 1.5e-05}, 1, True, True),  # cache writes have no price
        (Usage(12, 400), {"input": 3e-06, "output": 1.5e-05}, 1, True, False),
        (USAGE, {"input": 1e-06}, 1, False, False),  # a project's own price is what it wants
    ],
)
def test_incomplete_price_is_missing(
    server: LangfuseServer,
    tmp_path: Path,
    usage: Usage,
    prices: dict[str, float],
    tiers: int,
    managed: bool,  # noqa: FBT001
    ours: bool,  # noqa: FBT001
) -> None:
    server.models = [model("(?i)^claude-sonnet-4-5.*$", prices, tiers=tiers, managed=managed)]
    langfuse, span = opened(server, tmp_path), generation(KNOWN, usage)
    assert (sent(langfuse, span) is not None) == ours
    langfuse.close()


def test_all_prices_are_missing_on_an_empty_server(server: LangfuseServer, tmp_path: Path) -> None:
    server.models = []
    langfuse = opened(server, tmp_path)
    assert sent(langfuse, generation(KNOWN)) is not None
    langfuse.close()


def test_price_of_the_project_takes_precedence(server: LangfuseServer, tmp_path: Path) -> None:
    server.models = [model("^claude", {"input": 1.0}), model("^claude", {"input": 1.0}, managed=False)]
    langfuse = opened(server, tmp_path)
    assert sent(langfuse, generation(KNOWN)) is None
    langfuse.close()


def test_prices_are_fetched_once_a_day(server: LangfuseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whichever process; all pages are read."""
    now = [1e9]
    monkeypatch.setattr("cc_trace.export.langfuse.time.time", lambda: now[0])
    server.models = [model(f"^other-{number}$", SONNET) for number in range(150)] + server.models
    for hours, asked in [(0, 2), (1, 2), (23, 2), (25, 4)]:
        now[0] = 1e9 + hours * 3600
        langfuse = opened(server, tmp_path)
        assert sent(langfuse, generation(KNOWN)) is None
        assert sent(langfuse, generation(UNKNOWN)) is not None
        langfuse.close()
        assert len(server.asked("GET", "/models")) == asked
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "behaviour",
    [status(401), status(404, "<html>"), status(500), HANG, Behaviour(said="[]"), Behaviour(said='{"data": [{}]}')],
)
def test_cost_is_left_to_a_server_that_cannot_be_queried(
    server: LangfuseServer, tmp_path: Path, behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is not queried again for an hour."""
    now = [1e9]
    monkeypatch.setattr("cc_trace.export.langfuse.time.time", lambda: now[0])
    server.asking["/api/public/models"] = behaviour
    for minutes, asked in [(0, 1), (59, 1), (61, 2)]:
        now[0] = 1e9 + minutes * 60
        langfuse = opened(server, tmp_path, seconds=0.3 if behaviour == HANG else 20.0)
        assert sent(langfuse, generation(UNKNOWN)) is None
        langfuse.close()
        assert len(server.asked("GET", "/models")) in ({asked} if behaviour != HANG else range(asked + 1))


def test_preview_sends_no_requests(server: LangfuseServer, tmp_path: Path) -> None:
    langfuse = opened(server, tmp_path)
    assert sent(langfuse, generation(UNKNOWN), may_query=False) is None
    assert server.requests == []
    langfuse.close()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 1, "time": "x"}', b'{"version": 9}'])
def test_damaged_price_file_is_fetched_again(server: LangfuseServer, tmp_path: Path, content: bytes) -> None:
    langfuse = opened(server, tmp_path)
    sent(langfuse, generation(KNOWN))
    langfuse.close()
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    langfuse = opened(server, tmp_path)
    assert sent(langfuse, generation(UNKNOWN)) is not None
    langfuse.close()
    assert len(server.asked("GET", "/models")) == 2


def test_unusable_model_patterns_are_skipped(server: LangfuseServer, tmp_path: Path) -> None:
    server.models = [
        model("^(a+)+$", SONNET),
        model("(", SONNET),
        model("(" * 2000 + ")" * 2000, SONNET),
        *server.models,
    ]
    langfuse = opened(server, tmp_path)
    assert sent(langfuse, generation(KNOWN)) is None
    assert sent(langfuse, made("generation", "a" * 60 + "b")) is None
    langfuse.close()


def test_langfuse_package_is_not_imported_if_prices_are_known(server: LangfuseServer, tmp_path: Path) -> None:
    """A turn without images and without doubt is sent as fast as ever."""
    langfuse = opened(server, tmp_path)
    sent(langfuse, generation(KNOWN))
    sent(langfuse, generation(UNKNOWN))
    langfuse.close()
    program = f"""
import sys
from pathlib import Path
from cc_trace.export.destination import DestinationSettings, open_destination
from cc_trace.spans import Response, Span
from cc_trace.transcript import Usage
opened = open_destination(DestinationSettings("langfuse", "langfuse", endpoint={server.url!r}, cost="missing",
                          media=True, public_key={PUBLIC!r}, secret_key={SECRET!r}, cache=Path({str(tmp_path)!r})))
for name in ({KNOWN!r}, {UNKNOWN!r}):
    response = Response("m", None, name, None, Usage(*{tuple(USAGE)!r}), True, 0.5)
    span = Span("a" * 32, "b" * 16, None, "generation", name, 1, 2, "s", 1, None, True, "ok", None,
                [{{"role": "user", "content": "hi"}}], None, {{}}, response)
    print(opened.send([opened.encode_with_turn(span, [span], lambda _: None, may_query=True)]))
print(sorted({{"langfuse", "httpx", "pydantic", "regex"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines() == [*["Accepted(dropped_spans=0, message=None)"] * 2, "[]"]
    assert len(server.asked("GET", "/models")) == 1
