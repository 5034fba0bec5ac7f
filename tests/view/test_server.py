"""The pages as a client sees them: who may read them, and that they say what the index says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from lines import agent, line, prompt, reply, result, session, task, tool_use, write
from viewer import TOKEN, Viewer, copy_cases, running

from cc_trace.delivery.cursor import SessionState
from cc_trace.delivery.state import StateFolder
from cc_trace.export import Accepted
from cc_trace.export.local import LocalStore
from cc_trace.spans import Session
from cc_trace.store import store_path
from cc_trace.transcript import first_cwd
from cc_trace.view import figures

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def test_a_step_tells_how_long_you_were_asked_as_its_turn_does(tmp_path: Path, projects: Path) -> None:
    copy_cases(projects, "2.1.325--shop")
    with running(tmp_path) as viewer, httpx.Client(base_url=viewer.url(""), follow_redirects=True) as client:
        client.get("/", params={"token": TOKEN})
        (span_id,) = viewer.index.read("SELECT span_id FROM spans WHERE turn = 2 AND name = 'Bash' AND wait_ms > 0")[0]
        session = viewer.index.read("SELECT session_id FROM sessions")[0][0]
        assert "Permission: allowed after 4.1 s, by you, this once." in client.get(f"/spans/{span_id}/detail").text
        assert "waited 4.1 s" in client.get(f"/sessions/{session}").text
        assert "permission <b>4.1 s</b>" in client.get(f"/sessions/{session}/turns/2").text


def test_a_compaction_tells_how_long_it_took_and_what_the_requests_around_it_sent(
    tmp_path: Path, projects: Path
) -> None:
    copy_cases(projects, "2.1.325--shop")
    with running(tmp_path) as viewer, httpx.Client(base_url=viewer.url(""), follow_redirects=True) as client:
        client.get("/", params={"token": TOKEN})
        (span_id, session_id) = viewer.index.read("SELECT span_id, session_id FROM spans WHERE name = 'compaction'")[0]
        told = client.get(f"/spans/{span_id}/detail").text
        assert "<dt>Duration</dt><dd>2.6 s</dd>" in told
        assert "30,577" in told
        page = client.get(f"/sessions/{session_id}").text
    assert "/compact took 2.6 s: 30,536 tokens in the request before, 15,370 in the next. Everything" in page


@pytest.mark.parametrize(("read", "cost"), [(100_000, ["$0.3600"]), (100, [])])
def test_a_session_whose_cost_is_that_of_reading_the_cache_says_so(
    read: int, cost: list[str], tmp_path: Path, projects: Path
) -> None:
    usage = {"input_tokens": 3, "output_tokens": 9, "cache_read_input_tokens": read, "cache_creation_input_tokens": 0}
    calls = [
        line
        for n in range(12)
        for line in (reply(f"m{n}", tool_use(f"t{n}"), at=2 * n + 1, usage=usage), result(f"t{n}", at=2 * n + 2))
    ]
    main = session(projects, prompt("go", 0), *calls)
    with running(tmp_path) as viewer, httpx.Client(base_url=viewer.url(""), follow_redirects=True) as client:
        client.get("/", params={"token": TOKEN})
        page = client.get(f"/sessions/{main.stem}").text
    assert (
        re.findall(r"<b class=\"cost\">([^<]*)</b> <span>12 requests . 100k tokens read from the cache", page) == cost
    )


def test_a_list_has_no_total_that_none_of_its_rows_has(tmp_path: Path, projects: Path) -> None:
    session(projects, prompt("go", 0), reply("m1", "Done", at=3), prompt("[Request interrupted by user]", 5))
    with running(tmp_path) as viewer, httpx.Client(base_url=viewer.url(""), follow_redirects=True) as client:
        client.get("/", params={"token": TOKEN})
        costless, all_of_it = (
            client.get("/spans", params={"kind": kind}).text.partition('id="sums"')[2].partition("</div>\n  <form")[0]
            for kind in ("event", "generation")
        )
    assert ">cost<" not in costless
    assert ">cost<" in all_of_it


def test_a_turn_tells_of_requests_that_failed_and_of_its_interruption(tmp_path: Path, projects: Path) -> None:
    failed = {"cause": {"code": "ConnectionRefused"}, "level": "error", "maxRetries": 10}
    main = session(
        projects,
        prompt("a", 0),
        reply("m1", "A", at=1, message={"stop_reason": "end_turn"}),
        prompt("resume", 100),
        *(line("system", 102 + n, subtype="api_error", retryAttempt=n, retryInMs=500, **failed) for n in (1, 2)),
        prompt("[Request interrupted by user]", 105),
    )
    with running(tmp_path) as viewer, httpx.Client(base_url=viewer.url(""), follow_redirects=True) as client:
        client.get("/", params={"token": TOKEN})
        first, second = (client.get(f"/sessions/{main.stem}/turns/{turn}").text for turn in (1, 2))
        told = re.findall(r'<b class="warn">([^<]*)</b> <span>([^<]*)</span>', second.partition('id="failed"')[2])
    assert "Nothing failed." in first
    assert "Nothing failed." not in second
    assert [what for what, _ in told[:2]] == ["2 \N{MULTIPLICATION SIGN} failed request", "interrupted"]
    assert all(why for _, why in told[:2])


def test_no_first_token_is_told_of_a_response_with_one_time(tmp_path: Path, projects: Path) -> None:
    texts = [reply("m2", block, at=at) for block, at in (("Now", 40), (tool_use("t2", "Edit"), 45))]
    main = session(
        projects,
        prompt("go", 0),
        reply("m1", tool_use("t1", "Write"), at=30),
        result("t1", at=31),
        *texts,
        result("t2", at=46),
    )
    with running(tmp_path) as viewer, httpx.Client(base_url=viewer.url(""), follow_redirects=True) as client:
        client.get("/", params={"token": TOKEN})
        page = client.get(f"/sessions/{main.stem}").text
        found = viewer.index.read("SELECT span_id FROM spans WHERE kind = 'generation' ORDER BY place")
        whole, parts = (client.get(f"/spans/{row['span_id']}/detail").text for row in found)
        rows = client.get(f"/sessions/{main.stem}/turns/1/rows").json()["rows"]
    slow = re.findall(r"<b class=\"warn\">([^<]*)</b> <span>([^<]*)</span>", page)
    assert slow[:2] == [("30.0 s", "model: → Write"), ("9.0 s", "model, until its first token: Now")]
    assert "First token after" not in whole
    assert "First token after" in parts
    assert [row["first"] for row in rows if row["kind"] == "generation"] == [None, 40_000]


def test_a_turn_tells_for_how_long_its_agents_ran_on_after_its_end(tmp_path: Path, projects: Path) -> None:
    main = session(projects, prompt("go", 0), reply("m1", task("t1"), at=2))
    agent(main, "a1", prompt("look", 3), reply("a1m", "found", at=72), toolUseId="t1")
    with running(tmp_path) as viewer, httpx.Client(base_url=viewer.url(""), follow_redirects=True) as client:
        client.get("/", params={"token": TOKEN})
        page = f"/sessions/{main.stem}/turns/1"
        assert "Its agents ran on for 1 m 10 s after its end" in client.get(page).text
        found = client.get(f"{page}/rows").json()
    assert [(row["name"], row["start"], row["end"]) for row in found["rows"] if row["kind"] in ("turn", "tool")] == [
        ("Turn 1", 0, 2_000),
        ("Agent", 2_000, 72_000),
    ]


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


def test_a_long_session_is_counted_though_not_all_is_shown(tmp_path: Path) -> None:
    projects = tmp_path / ".claude" / "projects" / "-home-dev-project"
    projects.mkdir(parents=True)
    lines, rule = [prompt("go", 0)], {"decision": "accept", "source": "config"}
    for number in range(510):
        edit = {"file_path": f"/p/{number % 120}", "old_string": "a", "new_string": "b"}
        lines += [
            reply(f"m{number}", tool_use(f"t{number}", "Edit", **edit), at=2 * number + 1),
            result(f"t{number}", at=2 * number + 2, permissionDecision=rule, error=number == 7),
        ]
    lines[-1] = result("t509", "no", at=1021, permissionDecision={**rule, "decision": "reject"}, error=True)
    session_id = "11111111-0000-4000-8000-000000000001"
    write(projects / f"{session_id}.jsonl", lines)
    with running(tmp_path) as viewer, httpx.Client(base_url=viewer.url("")) as client:
        client.get("/", params={"token": TOKEN})
        page = " ".join(client.get(f"/sessions/{session_id}").text.split())
    assert "the latest 500 of 510 requests of the main thread" in page
    assert 'Files changed <span class="quiet">120, the most edited 100</span>' in page
    assert 'Permission decisions <span class="quiet">510</span>' in page
    assert "<span>509 calls</span>" in page


def test_a_request_for_rows_is_bounded(client: httpx.Client) -> None:
    rows = client.get(f"/sessions/{TOOLS}/turns/1/rows", params={"offset": 1, "limit": 2}).json()
    assert len(rows["rows"]) == 2
    assert rows["total"] > 2


def test_what_is_unknown_is_not_found(client: httpx.Client) -> None:
    for path in ("/sessions/none", f"/sessions/{TOOLS}/turns/99", "/spans/none", "/nowhere"):
        assert client.get(path).status_code == 404


def test_the_index_is_closed_to_others(viewer: Viewer) -> None:
    assert viewer.index._path.stat().st_mode & 0o777 == 0o600


ALL_PATHS = (
    *("/", "/sessions/rows", f"/sessions/{TOOLS}", f"/sessions/{TOOLS}/turns/1", f"/sessions/{TOOLS}/turns/1/rows"),
    *(f"/sessions/{TOOLS}/turns/1/rows?after=0", "/spans?kind=tool", "/spans?called=Bash&sort=cost", "/insights"),
    *("/search?q=tools", "/static/style.css"),
)


def test_asking_changes_nothing(viewer: Viewer, client: httpx.Client) -> None:
    """Every page, what its parts are fetched from, and what follows the session: no file is other than it was."""
    spans = [row[0] for row in viewer.index.read("SELECT span_id FROM spans WHERE session_id = ?", [TOOLS])]
    home = viewer.projects.parents[2]
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and not path.name.endswith("-shm")}
    for path in (*ALL_PATHS, *(f"/spans/{span}{part}" for span in spans for part in ("", "/detail", "/request"))):
        assert client.get(path, follow_redirects=True).status_code == 200, path
        assert client.head(path).status_code in (200, 303), path
    with client.stream("GET", "/events?session=*&seen=0") as events:
        assert events.status_code == 200
        assert next(events.iter_lines()).startswith("retry")
    after = {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and not path.name.endswith("-shm")}
    assert after == before


def test_what_was_written_before_a_page_follows_is_told(viewer: Viewer, client: httpx.Client) -> None:
    """The page says how much had changed when it was made, so nothing is lost until it listens."""
    seen = int(client.get("/").text.partition('data-seen="')[2].partition('"')[0])
    assert seen == viewer.watch.changes > 0
    with client.stream("GET", f"/events?session=*&seen={seen - 1}") as events:
        assert next(line for line in events.iter_lines() if line.startswith("event:")) == "event: changed"
    with client.stream("GET", f"/events?session=*&seen={seen}") as events:
        assert next(line for line in events.iter_lines() if line.startswith("event:")) == "event: progress"


def test_what_nobody_may_see_is_masked_in_an_exact_request(viewer: Viewer, client: httpx.Client) -> None:
    span = viewer.index.read("SELECT span_id FROM spans WHERE session_id = ? AND kind = 'generation' LIMIT 1", [TOOLS])[
        0
    ][0]
    path = viewer.projects / f"{TOOLS}.jsonl"
    data = path.read_text(encoding="utf-8")
    secret = "AKIA" + "Q3EGRIEXAMPLE7KZ"[:16]
    assert "use the tools" in data
    try:
        path.write_text(data.replace("use the tools", f"use the tools {secret}"), encoding="utf-8")
        sent = client.get(f"/spans/{span}/request").text
    finally:
        path.write_text(data, encoding="utf-8")
    assert "use the tools" in sent
    assert secret not in sent


def test_what_a_project_masks_is_masked_in_an_exact_request(tmp_path: Path) -> None:
    projects = tmp_path / ".claude" / "projects" / "-home-dev-project"
    projects.mkdir(parents=True)
    copy_cases(projects, "2.1.325--b_tools")
    folder = tmp_path / "project"
    (folder / ".claude").mkdir(parents=True)
    (folder / ".claude" / "settings.json").write_text('{"env": {"CC_TRACE_MASK": "the [a-z]+"}}')
    path = projects / f"{TOOLS}.jsonl"
    path.write_text(path.read_text().replace("/home/dev/project", str(folder)))
    with running(tmp_path) as viewer, httpx.Client(base_url=viewer.url("")) as client:
        client.get("/", params={"token": TOKEN})
        sent = client.get(f"/spans/{generation(viewer)}/request").text
    assert "use [masked: project pattern]" in sent
    assert "use the tools" not in sent


def generation(viewer: Viewer) -> str:
    return str(viewer.index.read("SELECT span_id FROM spans WHERE kind = 'generation' LIMIT 1")[0][0])


def test_an_exact_request_keeps_to_the_settings_of_its_sessions_hook(tmp_path: Path) -> None:
    projects = tmp_path / ".claude" / "projects" / "-home-dev-project"
    projects.mkdir(parents=True)
    copy_cases(projects, "2.1.325--b_tools")
    path = projects / f"{TOOLS}.jsonl"
    states = StateFolder(tmp_path / ".claude" / "state" / "cc-trace")
    states.prepare()
    theirs: dict[str, str | None] = {"CC_TRACE_CONTENT": "metadata"}
    states.save(SessionState(TOOLS, str(path), cwd=first_cwd(path), environment={"shell": theirs, "project": {}}))
    with running(tmp_path) as viewer, httpx.Client(base_url=viewer.url("")) as client:
        client.get("/", params={"token": TOKEN})
        text = client.get(f"/spans/{generation(viewer)}/request").text
    assert "use the tools" not in text
    assert "Requests are only shown with `content` set to `full`." in text


def test_of_a_session_whose_transcript_is_gone_no_request_is_shown(tmp_path: Path) -> None:
    """Of a delivered one the store does not even know where it was."""
    projects = tmp_path / ".claude" / "projects" / "-home-dev-project"
    projects.mkdir(parents=True)
    copy_cases(projects, "2.1.325--b_tools")
    path = projects / f"{TOOLS}.jsonl"
    local = LocalStore("local", store_path(tmp_path / ".claude" / "state" / "cc-trace"))
    (tmp_path / ".claude" / "state" / "cc-trace").mkdir(parents=True)
    assert local.send([local.encode(span) for span in Session(path, ending="over").spans()]) == Accepted()
    local.close()
    path.unlink()
    with running(tmp_path) as viewer, httpx.Client(base_url=viewer.url("")) as client:
        client.get("/", params={"token": TOKEN})
        answer = client.get(f"/spans/{generation(viewer)}/request")
    assert (answer.status_code, "The transcript is gone" in answer.text) == (200, True)


def test_the_server_listens_on_this_machine_alone_and_its_token_is_in_no_argument(tmp_path: Path) -> None:
    """The real command, with a browser that notes its arguments and what it was given to open."""
    noted = tmp_path / "noted"
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\nfile="${{1#file://}}"\n{{ echo "$@"; stat -c "%a" "$file"; stat -c "%a" "$(dirname "$file")";'
        f' cat "$file"; }} > {noted}.new\nmv {noted}.new {noted}\n'
    )
    browser.chmod(0o755)
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "BROWSER": f"{browser} %s"}
    command = [sys.executable, "-m", "cc_trace", "view", "--port", "0"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = httpx.URL(process.stdout.readline().strip())
        while not noted.exists() and process.poll() is None:
            time.sleep(0.05)
        arguments, page_mode, folder_mode, page = noted.read_text(encoding="utf-8").split("\n", 3)
        token = url.params["token"]
        assert token
        assert token not in arguments
        assert (page_mode, folder_mode) == ("600", "700")
        assert token in page
        assert httpx.get(url).status_code == 200
        assert url.host == "127.0.0.1"
        if Path("/proc/net/tcp").exists():
            mine = f":{url.port:04X}"
            listening = [
                line.split()[1]
                for name in ("/proc/net/tcp", "/proc/net/tcp6")
                if Path(name).exists()
                for line in Path(name).read_text(encoding="ascii").splitlines()[1:]
                if line.split()[1].endswith(mine) and line.split()[3] == "0A"
            ]
            assert listening == [f"0100007F{mine}"]
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    assert not Path(arguments.removeprefix("file://")).exists()
