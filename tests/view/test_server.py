"""The pages as a client sees them: who may read them, and that they say what the index says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest
from viewer import TOKEN, Viewer, copy_cases, running

from cc_trace.spans import Session
from cc_trace.view import figures

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOOLS = "bbbbbbbb-0000-4000-8000-000000000001"
PATHS = ("/", f"/sessions/{TOOLS}", f"/sessions/{TOOLS}/turns/1", "/insights", "/search?q=tools", "/static/app.js")


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    home: Path = tmp_path_factory.mktemp("home")
    projects = home / ".claude" / "projects" / "-home-dev-project"
    projects.mkdir(parents=True)
    copy_cases(projects, "2.1.325--b_tools", "2.1.325--c2_parallel_subagents", "2.1.325--f_tool_error")
    with running(home) as found:
        yield found


@pytest.fixture
def client(viewer: Viewer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=viewer.url("")) as client:
        assert client.get("/", params={"token": TOKEN}).status_code == 200
        yield client


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_nothing_is_told(viewer: Viewer, path: str) -> None:
    for response in (httpx.get(viewer.url(path)), httpx.get(viewer.url("/"), params={"token": TOKEN[:-1]})):
        assert response.status_code == 403
        assert TOOLS not in response.text


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers", [{"host": "evil.example"}, {"origin": "http://evil.example"}, {"origin": "null"}], ids=str
)
def test_another_host_or_origin_is_refused(client: httpx.Client, path: str, headers: dict[str, str]) -> None:
    assert 400 <= client.get(path, headers=headers).status_code < 500


def test_another_site_is_refused_though_it_has_the_cookie(client: httpx.Client) -> None:
    """A server on another port of this machine is the same site to a browser."""
    assert client.get("/", headers={"sec-fetch-site": "same-site"}).status_code == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed(client: httpx.Client, method: str) -> None:
    assert client.request(method, "/").status_code == 405


@pytest.mark.parametrize("path", PATHS)
def test_every_page_has_a_strict_policy(client: httpx.Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 200
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "<script>" not in response.text
    assert " style=" not in response.text


def test_a_session_shows_what_its_transcript_says(viewer: Viewer, client: httpx.Client) -> None:
    session = Session(viewer.projects / f"{TOOLS}.jsonl")
    spans = list(session.spans())
    page = client.get(f"/sessions/{TOOLS}").text
    assert f'<b class="cost">{figures.money(session.summary.cost_usd)}</b>' in page
    tools = sum(span.kind == "tool" for span in spans)
    assert f"{tools} tool calls" in page
    rows = client.get(f"/sessions/{TOOLS}/turns/1/rows").json()
    assert [row["id"] for row in rows["rows"]] == [span.span_id for span in spans]
    start = spans[0].start_ns or 0
    assert [row["start"] for row in rows["rows"]] == [((span.start_ns or 0) - start) / 1e6 for span in spans]


def test_a_request_for_rows_is_bounded(client: httpx.Client) -> None:
    rows = client.get(f"/sessions/{TOOLS}/turns/1/rows", params={"offset": 1, "limit": 2}).json()
    assert len(rows["rows"]) == 2
    assert rows["total"] > 2


def test_what_is_unknown_is_not_found(client: httpx.Client) -> None:
    for path in ("/sessions/none", f"/sessions/{TOOLS}/turns/99", "/spans/none", "/nowhere"):
        assert client.get(path).status_code == 404


def test_the_index_is_closed_to_others(viewer: Viewer) -> None:
    assert viewer.index._path.stat().st_mode & 0o777 == 0o600
