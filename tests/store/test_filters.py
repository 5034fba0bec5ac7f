"""What a filter selects is what the chart's mark that sets it counts, also where something is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from lines import prompt, reply, result, tool_use, write
from viewer import Viewer, copy_cases, running

from cc_trace.store.filters import OF_SESSIONS, OF_SPANS, PERIOD, Filter
from cc_trace.store.insights import insights
from cc_trace.store.lists import misses, spans
from cc_trace.store.questions import sessions
from cc_trace.store.slowest import slowest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OWN = "11111111-0000-4000-8000-000000000001"
NAMELESS = "22222222-0000-4000-8000-000000000002"


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """A session with two calls that have not ended, and one whose project, model and times are not known."""
    home = tmp_path_factory.mktemp("home")
    projects = home / ".claude" / "projects" / "-home-dev-project"
    projects.mkdir(parents=True)
    write(
        projects / f"{OWN}.jsonl",
        [
            prompt("go", 0, cwd="/p"),
            reply("m1", tool_use("t1", "Bash", command="a"), tool_use("t2", "Read", file_path="/b"), at=1),
            result("t1", at=3),
            result("t2", at=8),
            reply("m2", tool_use("t3", "Bash", command="c"), tool_use("t4", "Slow"), at=9),
        ],
    )
    own = {"sessionId": NAMELESS}
    write(
        projects / f"{NAMELESS}.jsonl",
        [prompt("go", None, **own), reply("n1", "done", at=None, message={"model": ""}, **own)],
    )
    with running(home) as found:
        yield found


@pytest.mark.parametrize("by", ["day", "project", "model", "agent", "tool"])
def test_a_mark_leads_to_what_it_counts(viewer: Viewer, by: str) -> None:
    marks = insights(viewer.index, Filter()).by[by]
    assert sum(mark.cost_usd for mark in marks) > 0
    for mark in marks:
        found = spans(viewer.index, Filter.of({**mark.query, "kind": "generation"}, OF_SPANS))
        assert (found.total, found.tokens, round(found.cost_usd or 0.0, 9)) == (
            mark.requests,
            mark.tokens,
            round(mark.cost_usd, 9),
        ), mark


def test_what_is_not_known_has_a_name(viewer: Viewer) -> None:
    by = insights(viewer.index, Filter()).by
    assert {name: [mark.requests for mark in by[name] if mark.name == "unknown"] for name in ("day", "model")} == {
        "day": [1],
        "model": [1],
    }
    assert [mark.name for mark in by["agent"]] == ["main thread"]
    assert {mark.name for mark in by["tool"]} == {"Bash", "Read", "Slow", "no tool"}


def test_a_call_that_has_not_ended_counts_and_has_no_time(viewer: Viewer) -> None:
    tools = {tool.name: tool[1:] for tool in insights(viewer.index, Filter()).tools}
    assert tools == {
        "Bash": (2, 0, 0, 2000.0, 2000.0, 2000.0),
        "Read": (1, 0, 0, 7000.0, 7000.0, 7000.0),
        "Slow": (1, 0, 0, None, None, None),
    }
    for name, (calls, *_) in tools.items():
        assert spans(viewer.index, Filter(tool=name)).total == calls


def test_a_list_of_waits_tells_for_how_long_each_waited(tmp_path: Path, projects: Path) -> None:
    refusal = "The user doesn't want to proceed with this tool use. The tool use was rejected"
    calls = [tool_use(f"t{n}", "Edit", file_path="/p/a") for n in range(2)]
    results = [result(f"t{n}", refusal, at=11 + 20 * n, error=True) for n in range(2)]
    write(projects / f"{OWN}.jsonl", [prompt("go", 0), reply("m1", *calls, at=1), *results])
    with running(tmp_path) as viewer:
        (slow,) = (each for each in slowest(viewer.index, OWN, None) if each.why == "permission")
        among = ",".join(slow.all_of_them)
        found = spans(viewer.index, Filter.of({"among": among, "waited": "1", "sort": "duration"}, OF_SPANS))
    assert (slow.calls, slow.took_ns) == (found.total, (found.took_ms or 0) * 1e6) == (2, 40 * 10**9)
    assert [row["took_ns"] for row in found.rows] == [30 * 10**9, 10 * 10**9]


def test_a_tool_s_time_is_without_what_its_calls_waited_for_and_a_refusal_is_no_failure(
    tmp_path: Path, projects: Path
) -> None:
    refusal = "The user doesn't want to proceed with this tool use. The tool use was rejected"
    write(
        projects / f"{OWN}.jsonl",
        [
            prompt("go", 0, cwd="/project"),
            reply("m1", *(tool_use(f"t{n}", "Edit", file_path=f"/p/{n}") for n in range(4)), at=1),
            result("t0", at=3),
            result("t1", refusal, at=301, error=True),
            result("t2", "File has not been read yet", at=2, error=True),
            result("t3", "This command requires approval", at=2, error=True),
        ],
    )
    copy_cases(projects, "2.1.325--shop")
    with running(tmp_path) as viewer:
        tools = {tool.name: tool for tool in insights(viewer.index, Filter(project="project")).tools}
        assert tools["Edit"][1:] == (4, 1, 2, 1000.0, 2000.0, 3000.0)
        for status, count in (("error", 3), ("failed", 1), ("refused", 2)):
            assert spans(viewer.index, Filter(tool="Edit", project="project", status=status)).total == count
        listed = spans(viewer.index, Filter(tool="Edit", project="project", sort="duration")).rows
        assert [row["took_ns"] for row in listed] == [2 * 10**9, 10**9, 10**9, None]
        (bash,) = (tool for tool in insights(viewer.index, Filter(project="shop")).tools if tool.name == "Bash")
        assert bash.p95_ms is not None
        assert bash.p95_ms < 1_000  # one waited four seconds for permission


@pytest.mark.parametrize("kind", [{"time": "tools"}, {"kind": "turn"}])
def test_turns_cost_what_is_in_them(viewer: Viewer, kind: dict[str, str]) -> None:
    found = spans(viewer.index, Filter(**kind))
    assert found.cost_usd == pytest.approx(sum(row["total_usd"] for row in found.rows if row["total_usd"]))
    assert (found.cost_usd or 0) > 0


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({"agent": "main thread"}, [OWN, NAMELESS]),
        ({"agent": "Explore"}, []),
        ({"model": "unknown"}, [NAMELESS]),
        ({"tool": "Slow"}, [OWN]),
        ({"day": "unknown"}, [NAMELESS]),
        ({"since": "2000-01-01"}, [OWN]),
        ({"project": "p", "title": "GO"}, [OWN]),
        ({"kind": "tool", "sort": "no such order"}, [OWN, NAMELESS]),
    ],
    ids=str,
)
def test_sessions_are_those_with_such_spans(viewer: Viewer, query: dict[str, str], ids: list[str]) -> None:
    rows, total = sessions(viewer.index, Filter.of(query, OF_SESSIONS), 0, 10)
    assert (sorted(row["session_id"] for row in rows), total) == (ids, len(ids))


def test_a_list_ignores_parameters_of_others() -> None:
    query = {"project": "p", "model": "m", "title": "t", "kind": "tool", "time": "<b>", "sort": "recent", "page": "9"}
    assert Filter.of(query, PERIOD).asked() == {"project": "p"}
    assert Filter.of(query, OF_SESSIONS).asked() == {"project": "p", "model": "m", "title": "t"}
    assert Filter.of(query, OF_SPANS).asked() == {"project": "p", "model": "m", "kind": "tool"}


def test_a_first_request_is_no_cache_miss(tmp_path: Path) -> None:
    """Whether it was recorded or not, so that sessions of all versions are counted alike."""
    copy_cases(tmp_path / ".claude" / "projects" / "-home-dev-project", "2.1.325--shop")
    with running(tmp_path) as viewer:
        recorded = viewer.index.read("SELECT DISTINCT cache_miss FROM spans WHERE cache_miss IS NOT NULL")
        found = misses(viewer.index, Filter())
    causes = {row[0] for row in recorded}
    assert "first request" in causes
    assert {miss.cause for miss in found} == causes - {"first request"}
