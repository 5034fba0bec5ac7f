"""Every number on a page is the store's: each is compared with SQL of the test's own on the store's file."""

from __future__ import annotations

import contextlib
import json
import math
import re
import sqlite3
from collections import Counter
from datetime import datetime
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from viewer import COPIED, OLD

from cc_trace.pricing import cost_usd
from cc_trace.transcript import Usage
from cc_trace.view import figures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from playwright.sync_api import Page
    from viewer import Viewer

MADE = "11111111-0000-4000-8000-000000000001"
TOOLS = "bbbbbbbb-0000-4000-8000-000000000001"
BACKGROUND = "cccccccc-0000-4000-8000-000000000004"
SHOP = "5403f1c5-0000-4000-8000-000000000001"
RETRIED = "eeeeeeee-0000-4000-8000-000000000001"
ASKED = "44444444-0000-4000-8000-000000000003"
COMPACTED = "44444444-0000-4000-8000-000000000004"
FORK = "35e95895-b490-45b6-99f9-2d715768dc02"
LONG = "8463c716-a2ea-4c14-9efa-87158ebd9f20"  # of the corpus
SESSIONS = [MADE, OLD, COPIED, TOOLS, BACKGROUND, SHOP, RETRIED, ASKED, COMPACTED, FORK, LONG]
WORDS = {"idle": "waiting", "unknown": "other"}  # for kinds of time
TIMES = " \N{MULTIPLICATION SIGN} "
TOKENS = "input_tokens + output_tokens + cache_read_tokens + cache_write_tokens"


@pytest.fixture
def ask(viewer: Viewer) -> Iterator[Callable[..., list[Any]]]:
    """Ask the store's file, not the program."""
    path = viewer.projects.parents[1] / "state" / "cc-trace" / "traces.db"
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        yield lambda sql, *values: database.execute(sql, values).fetchall()


def have(ask: Callable[..., list[Any]], session_id: str) -> None:
    if session_id == LONG and not ask("SELECT 1 FROM sessions WHERE session_id = ?", LONG):
        pytest.skip("the corpus is not here")


def flat(text: str | None) -> str:
    return " ".join((text or "").split())


def texts(page: Page, selector: str) -> list[str]:
    """Return what elements say, also those that are folded away."""
    return [flat(text) for text in page.locator(selector).all_text_contents()]


def heads(page: Page) -> dict[str, str]:
    """Return the figures in the head of a page by what stands under them."""
    found = page.locator(".figure").evaluate_all(
        "all => all.map(each => [each.querySelector(':scope > span').textContent, each.querySelector('b').textContent])"
    )
    return {name: flat(value) for name, value in found}


def plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def failures(count: int) -> str:
    return f" · {plural(count, 'error')}" if count else ""


def milliseconds(start_ns: int | None, end_ns: int | None) -> str:
    return figures.duration(None if start_ns is None or end_ns is None else (end_ns - start_ns) / 1e6)


def clock(time_ns: int, form: str = "%H:%M:%S") -> str:
    return datetime.fromtimestamp(time_ns / 1e9).astimezone().strftime(form)


def ran(row: Any, unknown: set[tuple[str, int]]) -> float | None:
    """Return for how many milliseconds a span ran, if that is known; a call does not run while a person is asked."""
    if (row["session_id"], row["turn"]) in unknown or (row["kind"] == "tool" and row["status"] == "incomplete"):
        return None
    length: float = (row["end_ns"] - row["start_ns"]) / 1e6
    waited: float = row["wait_ms"] or 0
    if row["kind"] == "tool" and row["wait_ms"] is not None:
        return length - waited if length > waited else None
    return max(length, waited if row["name"] == "api_retry" else 0)


def rank(values: Sequence[float], percent: int) -> float | None:
    """Return a percentile by nearest rank."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1] if values else None


def unrecorded_misses(rows: Iterable[Any]) -> dict[str, tuple[int, float]]:
    """Return the tokens and the cost of the cache misses that no request recorded, by span. `rows`: in order."""
    found: dict[str, tuple[int, float]] = {}
    held: dict[tuple[str, str], int] = {}
    for row in rows:
        if row["kind"] != "generation" or not row["context_tokens"]:
            continue
        thread = (row["session_id"], row["agent_id"] or (row["parent_id"] if row["agent"] else ""))
        before, read = held.get(thread, 0), row["cache_read_tokens"]
        held[thread] = read + row["cache_write_tokens"]
        missed = min(before - read, row["context_tokens"] - read)
        span = json.loads(row["span"])
        if missed < 1024 or missed < before / 10 or "context" in span["metadata"]:
            continue
        usage, cost = span["response"]["usage"], 0.0
        left = missed
        for name in ("cache_write_1h", "cache_write_5m", "input"):
            part = min(left, usage[name])
            left -= part
            paid, least = (cost_usd(row["model"], Usage(**{key: part}), None) for key in (name, "cache_read"))
            cost += (paid or 0) - (least or 0)
        found[row["span_id"]] = (missed, cost)
    return found


def untimed(ask: Callable[..., list[Any]]) -> set[tuple[str, int]]:
    """Return the turns whose times cannot be right: they, or all their responses, ended at one moment."""
    ends: dict[tuple[str, int], set[int]] = {}
    responses: dict[tuple[str, int], list[int]] = {}
    for row in ask("SELECT session_id, turn, kind, agent, end_ns, start_ns FROM spans WHERE end_ns IS NOT NULL"):
        if row["kind"] == "turn":
            ends.setdefault((row["session_id"], row["end_ns"]), set()).add(row["turn"])
        elif row["kind"] == "generation" and not row["agent"]:
            responses.setdefault((row["session_id"], row["turn"]), []).append(row["end_ns"])
    together = {(session_id, turn) for (session_id, _), turns in ends.items() if len(turns) > 1 for turn in turns}
    return together | {turn for turn, found in responses.items() if len(found) > 2 and len(set(found)) == 1}


# Sessions


def having(condition: str) -> str:
    """Return the condition on sessions that have such a span."""
    return f"EXISTS (SELECT 1 FROM spans WHERE session_id = m.session_id AND {condition})"  # noqa: S608  (ours)


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ({}, "1"),
        ({"errors": "1"}, having("status = 'error' AND kind <> 'turn'")),
        ({"project": "shop"}, "project = 'shop'"),
        ({"tool": "Bash", "sort": "cost"}, having("tool = 'Bash'")),
        ({"agent": "Explore"}, having("agent = 'Explore'")),
    ],
    ids=str,
)
def test_the_list_of_sessions(
    page: Page, viewer: Viewer, ask: Callable[..., list[Any]], query: dict[str, str], condition: str
) -> None:
    """A row says what the session's spans sum up to; in the head, what a fork copied counts once."""
    spans = ask(
        "SELECT session_id, title, active_ns, COUNT(CASE kind WHEN 'turn' THEN 1 END) turns,"  # noqa: S608  (ours)
        f" SUM({TOKENS}) tokens, SUM(s.cost_usd) cost, COUNT(CASE WHEN status = 'error' AND kind <> 'turn' THEN 1 END)"
        f" errors FROM sessions m LEFT JOIN spans s USING (session_id) WHERE {condition} GROUP BY session_id"
    )
    page.set_viewport_size({"width": 1280, "height": 2400})  # so that all rows are near the screen
    page.goto(viewer.url(f"/?{urlencode(query)}"))
    page.wait_for_selector("#list.drawn")
    told = {
        row.get_attribute("data-key"): row.evaluate(
            "row => ['turns', 'duration', 'tokens', 'cost', 'errors'].map(name => row.querySelector('.c-' + name)"
            ".textContent).concat(row.querySelector('.c-tokens').title, row.querySelector('.c-under').textContent)"
        )
        for row in page.locator("a.row").all()
    }
    assert told.keys() == {row["session_id"] for row in spans}
    for row in spans:
        *cells, tokens, under = told[row["session_id"]]
        assert cells == [
            str(row["turns"]),
            milliseconds(0, row["active_ns"]),
            figures.short(row["tokens"] or 0),
            figures.money(row["cost"]),
            str(row["errors"] or ""),
        ], row["title"]
        assert tokens == f"{row['tokens'] or 0:,}"
        assert f"· {plural(row['turns'], 'turn')}" in flat(under)
        assert not row["errors"] or f"· {plural(row['errors'], 'error')}" in flat(under)
    sums = ask(
        f"SELECT SUM(kind = 'turn') turns, SUM({TOKENS}) tokens, SUM(s.cost_usd) cost,"  # noqa: S608  (ours)
        " SUM(status = 'error' AND kind <> 'turn') errors, s.copied copied"
        f" FROM sessions m JOIN spans s USING (session_id) WHERE {condition} GROUP BY s.copied ORDER BY s.copied"
    )
    own, copied = sums[0], sums[1]["turns"] if len(sums) > 1 else 0
    assert texts(page, "#sums")[0] == (
        f"{plural(len(spans), 'session')} · {plural(own['turns'], 'turn')} · {figures.short(own['tokens'])} tokens ·"
        f" {figures.money(own['cost'])}{failures(own['errors'])}"
        + (
            f" · {plural(copied, 'turn')} copied into forks {'is' if copied == 1 else 'are'} counted once"
            if copied
            else ""
        )
    )


# A session


def written_lines(given: str) -> tuple[int, int]:
    """The lines that an edit added and removed, where its result does not say so: as an agent's."""
    call = json.loads(given)
    added = removed = 0
    for edit in call.get("edits", [call]):
        old, new = edit.get("old_string", "").splitlines(), edit.get("new_string", edit.get("content", "")).splitlines()
        for tag, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag != "equal":
                added, removed = added + new_to - new_from, removed + old_to - old_from
    return added, removed


def changed_lines(ask: Callable[..., list[Any]], session_id: str) -> dict[str, list[int]]:
    """The lines added and removed, by file."""
    edits = ask(
        "SELECT json_extract(span, '$.tool.file_path') path, json_extract(span, '$.metadata.lines_added') added,"
        " json_extract(span, '$.metadata.lines_removed') removed, json_extract(span, '$.input') given FROM spans"
        " WHERE session_id = ? AND status = 'ok' AND tool IN ('Edit', 'MultiEdit', 'Write', 'NotebookEdit')",
        session_id,
    )
    files: dict[str, list[int]] = {}
    for row in edits:
        recorded = (row["added"], row["removed"] or 0) if row["added"] is not None else written_lines(row["given"])
        files[row["path"]] = [sum(pair) for pair in zip(files.get(row["path"], [0, 0]), recorded, strict=True)]
    return files


@pytest.mark.parametrize("session_id", SESSIONS)
def test_the_head_and_the_turns_of_a_session(
    page: Page, viewer: Viewer, ask: Callable[..., list[Any]], session_id: str
) -> None:
    have(ask, session_id)
    page.goto(viewer.url(f"/sessions/{session_id}"))
    about = ask("SELECT first_ns, last_ns FROM sessions WHERE session_id = ?", session_id)[0]
    roots = ask("SELECT session_id, turn, start_ns, end_ns FROM spans WHERE session_id = ? AND place = 0", session_id)
    unknown = untimed(ask)
    lengths = [
        row["end_ns"] - row["start_ns"]
        for row in roots
        if row["end_ns"] is not None and (row["session_id"], row["turn"]) not in unknown
    ]
    sums = ask(
        f"SELECT SUM(kind = 'turn') turns, SUM({TOKENS}) tokens, SUM(cost_usd) cost,"  # noqa: S608  (ours)
        " SUM(status = 'error' AND kind <> 'turn') errors FROM spans WHERE session_id = ?",
        session_id,
    )[0]
    lines = list(changed_lines(ask, session_id).values())
    assert heads(page) == {
        "turn" if sums["turns"] == 1 else "turns": str(sums["turns"]),
        "active": milliseconds(0, sum(lengths) if lengths else None),
        "from start to end": milliseconds(about["first_ns"], about["last_ns"]),
        "cost": figures.money(sums["cost"]),
        "tokens": f"{sums['tokens'] or 0:,}",
        "error" if sums["errors"] == 1 else "errors": str(sums["errors"]),
    } | (
        {"lines": f"+{sum(added for added, _ in lines):,} \N{MINUS SIGN}{sum(removed for _, removed in lines):,}"}
        if any(map(sum, lines))
        else {}
    )
    turns = ask(
        "SELECT turn, MAX(CASE kind WHEN 'turn' THEN start_ns END) start,"
        " MAX(CASE kind WHEN 'turn' THEN end_ns END) end,"
        " SUM(kind = 'tool') tools, SUM(cost_usd) cost, SUM(status = 'error' AND kind <> 'turn') errors"
        " FROM spans WHERE session_id = ? GROUP BY turn ORDER BY turn",
        session_id,
    )
    unknown = {turn for turn in untimed(ask) if turn[0] == session_id}
    form = "%H:%M:%S" if len({clock(row["start"], "%Y-%m-%d") for row in turns}) == 1 else "%Y-%m-%d %H:%M:%S"
    expected = [
        f"{clock(row['start'], form)} · "
        f"{'no timings' if (session_id, row['turn']) in unknown else milliseconds(row['start'], row['end'])} · "
        f"{plural(row['tools'], 'tool call')} ·"
        f" {figures.money(row['cost'])}{failures(row['errors'])}"
        for row in turns
    ]
    assert session_id != COPIED or unknown == {(COPIED, 1), (COPIED, 2)}
    about_text = page.locator(".about").first.inner_text()
    assert about["first_ns"] is None or about_text.startswith(clock(about["first_ns"], "%Y-%m-%d %H:%M %Z"))
    told = texts(page, ".turn .meta")
    assert [text.partition(" ")[2] if not text[0].isdigit() else text for text in told] == expected
    assert texts(page, ".turn .number") == [f"Turn {row['turn']}" for row in turns]
    if len(turns) > 1:
        shares = [figures.percent(row["cost"] or 0, sums["cost"]) for row in turns]
        assert texts(page, ".turn .meter title") == [f"{share} of the session's cost" for share in shares]


@pytest.mark.parametrize("session_id", SESSIONS)
def test_the_charts_of_a_session(page: Page, viewer: Viewer, ask: Callable[..., list[Any]], session_id: str) -> None:
    have(ask, session_id)
    page.goto(viewer.url(f"/sessions/{session_id}"))
    requests = ask(
        "SELECT *, context_tokens tokens, json_extract(span, '$.metadata.context') context,"
        " json_extract(span, '$.metadata.cache_miss.tokens') missed,"
        " json_extract(span, '$.metadata.cache_miss.cost_usd') missed_usd,"
        " json_extract(span, '$.metadata.cache_miss.causes[0].kind') = 'first request' first FROM spans"
        " WHERE session_id = ? AND kind = 'generation' AND agent = '' AND input_tokens IS NOT NULL"
        " ORDER BY turn, place",
        session_id,
    )
    contexts = [json.loads(row["context"] or "{}") for row in requests]
    sizes = [
        sum(each["by_origin"].values()) if each.get("by_origin") else row["tokens"]
        for each, row in zip(contexts, requests, strict=True)
    ]
    unrecorded = unrecorded_misses(requests)
    missed = [unrecorded.get(row["span_id"], (row["missed"], row["missed_usd"])) for row in requests]
    bars = texts(page, ".context a.mark:has(rect.hit) title")
    for row, each, size, bar, (count, cost) in zip(requests, contexts, sizes, bars, missed, strict=True):
        assert f"Turn {row['turn']} · {row['model']} · {size:,} tokens · {figures.money(row['cost_usd'])}" in bar
        assert all(f"{name}: {part:,}" in bar for name, part in each.get("by_origin", {}).items() if part)
        assert ("cache miss" in bar) == (count is not None)
        assert count is None or f"cache miss of {count:,} tokens, {figures.money(cost)} more" in bar
    limits = [each["limit"] for each in contexts if each.get("limit")]
    said = f"{plural(len(requests), 'request')} of the main thread, at most {max(sizes):,} tokens"
    caption = page.locator("figure:has(svg.context) figcaption .quiet")
    assert flat(caption.text_content()) == said + (f" of {limits[-1]:,}" if limits else "")
    if origins := contexts[-1].get("by_origin"):
        legend = dict(text.rsplit(" ", 1) for text in texts(page, "figure:has(svg.context) .legend li:has(b)"))
        assert {name: count for name, count in legend.items() if count != "0"} == {
            name: f"{count:,}" for name, count in origins.items() if count
        }
    told = [
        f"Turn {row['turn']}: cache miss of {count:,} tokens,"
        f" {figures.money(cost)} more than reading them from the cache"
        for row, (count, cost) in zip(requests, missed, strict=True)
        if count is not None and not row["first"] and cost >= 0.01
    ]
    assert [text.partition(":")[0] + ":" + text.split(":")[1] for text in texts(page, ".explained .miss")] == told
    marked = [count for row, (count, _) in zip(requests, missed, strict=True) if not row["first"] and count]
    assert page.locator(".context a.missed").count() == sum(count >= 1024 for count in marked)
    compactions = ask(
        "SELECT turn, (SELECT context_tokens FROM spans WHERE session_id = own.session_id AND agent = '' AND"
        " kind = 'generation' AND (turn, place) < (own.turn, own.place) ORDER BY turn DESC, place DESC) before,"
        " (SELECT context_tokens FROM spans WHERE session_id = own.session_id AND agent = '' AND kind = 'generation'"
        " AND (turn, place) > (own.turn, own.place) ORDER BY turn, place) after,"
        " json_extract(span, '$.metadata.durationMs') took FROM spans own WHERE session_id = ? AND name = 'compaction'"
        " AND agent = '' ORDER BY turn, place",
        session_id,
    )
    for row, text in zip(compactions, texts(page, ".explained .compaction"), strict=True):
        assert text.startswith(f"Turn {row['turn']}: compaction")
        both = row["before"] is not None and row["after"] is not None
        assert not both or f": {row['before']:,} tokens in the request before, {row['after']:,} in the next" in text
        assert row["took"] is None or f" took {figures.duration(row['took'])}" in text
    # What the turns cost, and when.
    spent = ask(
        "SELECT turn, SUM(cost_usd) cost FROM spans WHERE session_id = ? GROUP BY 1",
        session_id,
    )
    total = figures.money(sum(row["cost"] or 0 for row in spent))
    scales = texts(page, "#cost .scale span:first-child")
    if len(spent) > 1:
        marks = [f"Turn {row['turn']}: {figures.money(row['cost'])}" for row in spent]
        assert texts(page, "#cost svg a title") == marks
        assert scales.pop(0) == figures.money(max(row["cost"] or 0 for row in spent))
    assert scales == [total]
    assert flat(page.locator("#cost figcaption .quiet").last.text_content()) == total
    paid = ask("SELECT MIN(end_ns), MAX(end_ns) FROM spans WHERE session_id = ? AND cost_usd IS NOT NULL", session_id)[
        0
    ]
    under = texts(page, "#cost .under span")[-2:]
    form = "%H:%M:%S" if len({clock(moment, "%Y-%m-%d") for moment in paid}) == 1 else "%Y-%m-%d %H:%M:%S"
    assert under[1] == clock(paid[1], form)


@pytest.mark.parametrize("session_id", SESSIONS)
def test_files_hooks_and_permissions_of_a_session(
    page: Page, viewer: Viewer, ask: Callable[..., list[Any]], session_id: str
) -> None:
    have(ask, session_id)
    page.goto(viewer.url(f"/sessions/{session_id}"))
    files = changed_lines(ask, session_id)
    told = page.locator("#files li").evaluate_all(
        "all => all.map(each => [each.querySelector('a').title, each.querySelector('.plus').textContent,"
        " each.querySelector('.minus').textContent])"
    )
    expected = [[path, f"+{added:,}", f"\N{MINUS SIGN}{removed:,}"] for path, (added, removed) in files.items()]
    assert sorted(told) == sorted(expected)
    assert texts(page, "#files h2 .quiet") == ([str(len(files))] if files else [])
    hooks = ask(
        "SELECT json_extract(span, '$.metadata.hook_event') event, json_extract(span, '$.metadata.command') command,"
        " COUNT(*) runs, SUM(COALESCE(json_extract(span, '$.metadata.duration_ms'), (end_ns - start_ns) / 1e6)) took,"
        " SUM(status = 'error') failed FROM spans WHERE session_id = ? AND kind = 'event' AND name = 'hook'"
        " GROUP BY 1, 2 ORDER BY took DESC",
        session_id,
    )
    assert texts(page, "#hooks h2 .quiet") == ([plural(sum(row["runs"] for row in hooks), "run")] if hooks else [])
    for row, text in zip(hooks, texts(page, "#hooks li"), strict=True):
        assert text.endswith(f"{row['runs']} \N{MULTIPLICATION SIGN}{figures.duration(row['took'])}")
        assert f"failed {row['failed']}" in text or not row["failed"]
    asked = ask(
        "SELECT wait_ms waited FROM spans WHERE session_id = ?"
        " AND kind = 'tool' AND (json_extract(span, '$.metadata.permission.decision') IS NOT NULL"
        " OR json_extract(span, '$.metadata.denial') IS NOT NULL)",
        session_id,
    )
    assert texts(page, "#permissions h2 .quiet") == ([str(len(asked))] if asked else [])
    waits = [figures.duration(row["waited"]) for row in asked if row["waited"]]
    assert sorted(texts(page, "#permissions .warn")) == sorted(f"waited {wait}" for wait in waits)
    single = page.locator("#permissions li:has(a)").count()
    counted = [int(text.split()[0]) for text in texts(page, "#permissions li:not(:has(a)) span:nth-child(2)")]
    assert single + sum(counted) == len(asked)


# A turn


@pytest.mark.parametrize("session_id", SESSIONS)
def test_the_head_of_a_turn(page: Page, viewer: Viewer, ask: Callable[..., list[Any]], session_id: str) -> None:
    have(ask, session_id)
    turns = ask("SELECT * FROM spans WHERE session_id = ? AND kind = 'turn' ORDER BY turn", session_id)
    for turn in turns:
        page.goto(viewer.url(f"/sessions/{session_id}/turns/{turn['turn']}"))
        which = (session_id, turn["turn"])
        unknown = which in untimed(ask)
        sums = ask(
            "SELECT SUM(cost_usd) cost, SUM(kind = 'generation') requests, SUM(kind = 'tool') tools,"
            " SUM(output_tokens) output, SUM(status = 'error' AND kind <> 'turn') errors"
            " FROM spans WHERE session_id = ? AND turn = ?",
            *which,
        )[0]
        assert heads(page) == {
            "duration": figures.UNKNOWN if unknown else milliseconds(turn["start_ns"], turn["end_ns"]),
            "cost": figures.money(sums["cost"]),
            clock(turn["start_ns"], "%Y-%m-%d %Z"): clock(turn["start_ns"]),
            "requests": f"{sums['requests']:,}",
            "tool calls": f"{sums['tools']:,}",
            "tokens out": figures.short(sums["output"] or 0),
        }
        assert texts(page, ".steps .quiet") == [f"of {len(turns)}"]
        times = (not unknown and json.loads(turn["span"])["metadata"].get("time_ms")) or {}
        assert any(text.startswith("No timings") for text in texts(page, "#untimed")) == unknown
        assert texts(page, ".spent .legend li") == [
            f"{WORDS.get(kind, kind)} {figures.duration(ms)}" for kind, ms in times.items() if ms
        ]
        assert texts(page, ".spent title") == [
            f"{WORDS.get(kind, kind)}: {figures.duration(ms)}" for kind, ms in times.items() if ms
        ]
        assert texts(page, "#failed .badge") == ([str(sums["errors"])] if sums["errors"] else [])
        named = texts(page, "#failed li a:not(.rest) b.bad")
        alike = [int(text.split(TIMES)[0]) if TIMES in text else 1 for text in named]
        assert alike == sorted(alike, reverse=True)
        assert bool(alike) == bool(sums["errors"])
        rest = sums["errors"] - sum(alike)
        assert texts(page, "#failed .rest") == ([f"{rest} more"] if rest else [])
        # Requests that were sent again and interruptions are no errors; they fill what room is left.
        others = ask(
            "SELECT 1 FROM spans WHERE session_id = ? AND turn = ? AND kind = 'event'"
            " AND name IN ('api_retry', 'interruption') AND status <> 'error'",
            *which,
        )
        assert bool(texts(page, "#failed b.warn")) == bool(others and len(alike) < 3)
        # An agent costs what all its responses do, those of agents below it included.
        spent = ask(
            "WITH RECURSIVE below (top, id) AS (SELECT span_id, span_id FROM spans WHERE session_id = ?1 AND turn = ?2"
            " AND kind = 'subagent'"
            " UNION SELECT top, span_id FROM spans JOIN below ON parent_id = id WHERE session_id = ?1)"
            " SELECT SUM(cost_usd) cost FROM below JOIN spans ON span_id = id AND session_id = ?1 GROUP BY top"
            " UNION ALL SELECT cost_usd FROM spans WHERE session_id = ?1 AND turn = ?2 AND kind = 'generation'"
            " AND agent = ''",
            *which,
        )
        dearest = sorted((row["cost"] for row in spent if row["cost"]), reverse=True)
        assert texts(page, "#dearest a b") == [figures.money(cost) for cost in dearest[:3]]
        assert slow(page) == longest(ask("SELECT * FROM spans WHERE session_id = ? AND turn = ?", *which), untimed(ask))


@pytest.mark.parametrize("session_id", SESSIONS)
def test_what_stands_out_in_a_session(
    page: Page, viewer: Viewer, ask: Callable[..., list[Any]], session_id: str
) -> None:
    """Its most expensive, failed and slowest calls, each with a link to it, and its failures as a list."""
    have(ask, session_id)
    page.goto(viewer.url(f"/sessions/{session_id}"))
    spans = ask("SELECT * FROM spans WHERE session_id = ?", session_id)
    assert slow(page) == longest(spans, untimed(ask))
    paid = [
        row["total_usd"] if row["kind"] == "subagent" else row["cost_usd"] or 0
        for row in spans
        if row["kind"] == "subagent" or (row["kind"] == "generation" and not row["agent"])
    ]
    by_turn = Counter[int]()
    for row in spans:
        by_turn[row["turn"]] += row["cost_usd"] or 0
    several = len([row for row in spans if row["kind"] == "turn"]) > 1 and any(by_turn.values())
    most: list[float] = [max(by_turn.values())] if several else []
    reads = [row for row in spans if row["kind"] == "generation" and row["cache_read_tokens"]]
    prices = (
        cost_usd(row["model"], Usage(cache_read=row["cache_read_tokens"]), row["start_ns"]) or 0.0 for row in reads
    )
    if len(reads) >= 10 and (paid_for_reads := sum(prices)) >= sum(by_turn.values()) / 2:
        most.append(paid_for_reads)
    dearest = sorted((cost for cost in paid if cost), reverse=True)[: 3 - len(most)]
    assert texts(page, "#dearest a b") == [figures.money(cost) for cost in [*most, *dearest]]
    turns = {row["span_id"]: row["turn"] for row in spans}
    for href in page.locator(".standouts li a[href*='?span=']").evaluate_all("all => all.map(each => each.href)"):
        path, _, span_id = href.partition("?span=")
        assert path.endswith(f"/sessions/{session_id}/turns/{turns[span_id]}")
    times = [
        metadata(row, "time_ms")
        for row in spans
        if row["kind"] == "turn" and (session_id, row["turn"]) not in untimed(ask)
    ]
    spent = {kind: sum(each[kind] for each in times if each) for each in times if each for kind in each}
    told = [text for text in texts(page, ".spent .legend li") if not text.startswith("between turns")]
    assert told == [f"{WORDS.get(kind, kind)} {figures.duration(ms)}" for kind, ms in spent.items() if ms]
    failed = [row["span_id"] for row in spans if row["status"] == "error" and row["kind"] != "turn"]
    assert texts(page, "#failed .badge") == ([str(len(failed))] if failed else [])
    if failed:
        page.locator(".figure a:has(.bad)").click()
        page.wait_for_url("**/spans?*")
        assert heads(page)["step" if len(failed) == 1 else "steps"] == str(len(failed))
        hrefs = page.locator("a.row").evaluate_all("all => all.map(each => each.getAttribute('href'))")
        assert {href.partition("?span=")[2] for href in hrefs} == set(failed)
        assert page.locator("a.row .c-error").count() == len([row for row in spans if row["span_id"] in failed])
    for turn in sorted({row["turn"] for row in spans if row["span_id"] in failed}):
        page.goto(viewer.url(f"/spans?{urlencode({'status': 'error', 'session': session_id, 'turn': turn})}"))
        assert next(iter(heads(page).values())) == str(sum(turns[span_id] == turn for span_id in failed))


def slow(page: Page) -> list[str]:
    """Return what the card says took longest: how long, and how many calls if they are several."""
    told = columns(page, "#slowest a", "b", "span")
    return [f"{took} of {text.split(TIMES)[0] if TIMES in text else 1}" for took, text in told]


def longest(spans: Sequence[Any], unknown: set[tuple[str, int]]) -> list[str]:
    """Return what took longest of some spans, as the card is to say it."""
    timed = {row["turn"] for row in spans if row["kind"] == "turn" and metadata(row, "time_ms") is not None}
    groups: dict[Any, list[float]] = {}
    for row in spans:
        took = (row["end_ns"] or row["start_ns"] or 0) - (row["start_ns"] or 0)
        known = (row["session_id"], row["turn"]) not in unknown
        asked = sum(end - begin for why, begin, end in json.loads(row["waits"] or "[]") if why == "permission")
        again = (metadata(row, "wait_ms") or metadata(row, "retryInMs") or 0) * 1e6
        alike = row["label"]
        if row["name"] == "Bash":
            commands = re.split("&&|;", re.split("[\"'$<]", alike)[0])
            programs = [
                found for part in commands if (found := re.match(r"\s*([\w./@+-]+)( [a-z][\w-]*(?!\S))?", part))
            ]
            named = [found for found in programs if found[1] not in ("cd", "echo", "true", "export")]
            alike = named[-1][0].strip() if named else alike
        parts = {
            "call": took - asked if known and row["kind"] == "tool" and row["status"] != "incomplete" else 0,
            "permission": asked,
            "hook": took if row["name"] == "hook" else 0,
            "retry": took + again if row["name"] == "api_retry" else 0,
            row["span_id"]: (row["first_token_ns"] or 0) - row["start_ns"] if known and row["turn"] in timed else 0,
        }
        for why, ns in parts.items():
            if ns > 0:
                groups.setdefault((why, row["name"], str(alike)), []).append(ns)
    sums = sorted(((sum(found), len(found)) for found in groups.values()), key=lambda each: -each[0])
    told = [each for each in sums if each[0] >= 1e9] or sums
    return [f"{figures.duration(ns / 1e6)} of {count}" for ns, count in told[:3]]


@pytest.mark.parametrize("session_id", SESSIONS)
def test_the_rows_of_a_waterfall(page: Page, viewer: Viewer, ask: Callable[..., list[Any]], session_id: str) -> None:
    """A row says how long its span took with its waits, and what it cost with all below it."""
    have(ask, session_id)
    page.set_viewport_size({"width": 1280, "height": 1600})
    page.goto(viewer.url(f"/sessions/{session_id}/turns/1"))
    page.wait_for_selector(".detail-body")
    told = dict(
        page.locator(".span").evaluate_all(
            "rows => rows.map(row => [row.dataset.id, [row.querySelector('.took')?.textContent ?? '',"
            " row.querySelector('.cost').textContent]])"
        )
    )
    rows = ask(
        "WITH RECURSIVE below (top, id) AS (SELECT span_id, span_id FROM spans WHERE session_id = ?1 AND turn = 1"
        " UNION SELECT top, span_id FROM spans JOIN below ON parent_id = id WHERE session_id = ?1)"
        " SELECT top, (SELECT SUM(cost_usd) FROM below JOIN spans ON span_id = id AND session_id = ?1"
        " WHERE top = own.span_id) cost, (MAX(end_ns, start_ns, COALESCE((SELECT MAX(json_extract(value, '$[2]'))"
        " FROM json_each(waits)), 0)) - start_ns) / 1e6 took FROM spans own"
        " JOIN (SELECT DISTINCT top FROM below) ON"
        " top = own.span_id WHERE session_id = ?1 AND place < 100",
        session_id,
    )
    seen = 0
    for row in rows:
        if row["top"] not in told:  # far from the screen
            continue
        took, cost = told[row["top"]]
        if (session_id, 1) in untimed(ask):
            assert took == ""
            took = figures.duration(row["took"])
        assert took == figures.duration(row["took"]) or (row["took"] or 0) < 1, row["top"]
        assert cost == (f"${row['cost']:.{2 if row['cost'] >= 1 else 4}f}" if row["cost"] else "")
        seen += 1
    assert seen == len(told) > 1
    if (session_id, 1) in untimed(ask):
        assert page.locator(".tick").count() == 0
        return
    # The marks of the axis stand where they say.
    length = (
        ask("SELECT MAX(end_ns) - MIN(start_ns) FROM spans WHERE session_id = ? AND turn = 1", session_id)[0][0] / 1e6
    )
    units = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
    for text, left in page.locator(".tick").evaluate_all("all => all.map(each => [each.textContent, each.style.left])"):
        parts = text.split()
        moment = sum(float(count) * units[unit] for count, unit in zip(parts[::2], parts[1::2], strict=True))
        assert abs(moment - float(left.rstrip("%")) / 100 * length) <= max(0.06 * units[parts[1]], 0.01 * length / 100)


@pytest.mark.parametrize("session_id", [MADE, BACKGROUND, SHOP, RETRIED, ASKED, LONG])
def test_the_details_of_a_span(page: Page, viewer: Viewer, ask: Callable[..., list[Any]], session_id: str) -> None:
    have(ask, session_id)
    rows = ask("SELECT * FROM spans WHERE session_id = ? AND turn = 1 ORDER BY place LIMIT 30", session_id)
    for row in rows:
        page.goto(viewer.url(f"/sessions/{session_id}/turns/1?span={row['span_id']}"))
        page.wait_for_selector(f'.detail-body[data-span="{row["span_id"]}"]')
        names, values = texts(page, ".detail-body > .facts dt"), texts(page, ".detail-body > .facts dd")
        told = dict(zip(names, values, strict=True))
        expected = {"Duration": milliseconds(row["start_ns"], row["end_ns"])}
        if row["first_token_ns"] is not None and row["first_token_ns"] < row["end_ns"]:
            expected["First token after"] = milliseconds(row["start_ns"], row["first_token_ns"])
        if row["cost_usd"] is not None:
            below = row["total_usd"] != row["cost_usd"]
            expected["Own cost" if below else "Cost"] = figures.money(row["cost_usd"])
            if below:
                expected["Cost with agents"] = figures.money(row["total_usd"])
        if row["input_tokens"] is not None:
            share = figures.percent(row["cache_read_tokens"], row["context_tokens"])
            expected["Uncached input"] = f"{row['input_tokens']:,}"
            expected["Cache read"] = f"{row['cache_read_tokens']:,} ({share})"
            expected["Cache write"] = f"{row['cache_write_tokens']:,}"
            at_least = "" if json.loads(row["span"])["response"]["usage_complete"] else "at least "
            expected["Output"] = f"{at_least}{row['output_tokens']:,}"
        assert {name: told.get(name) for name in expected} == expected
        notes = " ".join([*texts(page, ".detail-body .note"), f"Cache miss of {told.get('Cache miss')}"])
        if (row["attempts"] or 1) > 1:
            assert f"This request took {row['attempts']} attempts." in notes
        if row["cache_miss"] is not None:
            missed = json.loads(row["span"])["metadata"]["cache_miss"]
            assert f"Cache miss of {missed['tokens']:,} tokens" in notes
        if row["kind"] == "tool" and row["wait_ms"] and row["tool"] != "AskUserQuestion":
            assert f"after {figures.duration(row['wait_ms'])}" in notes


@pytest.mark.parametrize("session_id", [BACKGROUND, SHOP, LONG])
def test_what_an_agent_did(page: Page, viewer: Viewer, ask: Callable[..., list[Any]], session_id: str) -> None:
    """In its details, and for all agents on the session's page."""
    have(ask, session_id)
    agents = ask("SELECT * FROM spans WHERE session_id = ? AND kind = 'subagent'", session_id)
    cards = []
    for agent in agents:
        below = ask(
            "WITH RECURSIVE below (id) AS (VALUES (?2) UNION SELECT span_id FROM spans JOIN below ON parent_id = id"
            " WHERE session_id = ?1) SELECT spans.* FROM below JOIN spans ON span_id = id AND session_id = ?1"
            " WHERE id <> ?2",
            *(session_id, agent["span_id"]),
        )
        responses, calls = ([row for row in below if row["kind"] == kind] for kind in ("generation", "tool"))
        errors = sum(row["status"] == "error" for row in below)
        background = bool(metadata(agent, "background"))
        cost = figures.money(sum(row["cost_usd"] or 0 for row in responses))
        page.goto(viewer.url(f"/sessions/{session_id}/turns/{agent['turn']}?span={agent['span_id']}"))
        page.wait_for_selector(f'.detail-body[data-span="{agent["span_id"]}"]')
        names, values = texts(page, ".detail-body > .facts dt"), texts(page, ".detail-body > .facts dd")
        told = dict(zip(names, values, strict=True))
        expected = {
            "Requests": f"{len(responses):,}",
            "Tokens": f"{sum(map(size, responses)):,}",
            "Tool calls": f"{len(calls):,}",
            "Errors": f"{errors:,}",
            "Ran": "in the background" if background else None,
            "Cost with agents": cost,
        }
        assert {name: told.get(name) for name in expected} == expected
        assert set(told["Model"].split(", ")) == {row["model"] for row in responses if row["model"]}
        parts = ["background" if background else "", plural(errors, "error") if errors else ""]
        took = milliseconds(agent["start_ns"], agent["end_ns"])
        cards.append("".join([*parts, plural(len(calls), "call"), took, cost]))
    page.goto(viewer.url(f"/sessions/{session_id}"))
    assert texts(page, "#agents h2 .quiet") == [str(len(agents))]
    shown = page.locator("#agents li").evaluate_all(
        "all => all.map(each => [...each.children].slice(1).map(part => part.textContent).join(''))"
    )
    assert sorted(shown) == sorted(cards)


# Insights

CAUSE = "json_extract(span, '$.metadata.cache_miss.causes[0].kind')"
CAUSES = {"unknown": "no cause found", "not recorded": "unknown (older Claude Code)"}
DAY = "date(start_ns / 1000000000, 'unixepoch', 'localtime')"
PERIODS = ["all", "project", "since", "until"]


def size(row: Any) -> int:
    """Return all tokens of a response."""
    return sum(row[f"{name}_tokens"] or 0 for name in ("input", "output", "cache_read", "cache_write"))


def metadata(row: Any, name: str) -> Any:
    return json.loads(row["span"])["metadata"].get(name)


def columns(page: Page, rows: str, *parts: str) -> list[list[str]]:
    """Return the texts of some parts of each row."""
    return page.locator(rows).evaluate_all(  # type: ignore[no-any-return]
        "(rows, parts) => rows.map(row => parts.map(part => row.querySelector(part).textContent))", list(parts)
    )


@pytest.fixture
def period(
    page: Page, viewer: Viewer, ask: Callable[..., list[Any]], request: pytest.FixtureRequest
) -> tuple[list[Any], str]:
    """Open the page for a period or a project; return the spans that it is about, and the condition for them."""
    days = [row[0] for row in ask(f"SELECT DISTINCT {DAY} FROM spans ORDER BY 1")]  # noqa: S608  (ours)
    middle = days[len(days) // 2]
    query, condition = {
        "all": ({}, "1"),
        "project": ({"project": "shop"}, "project = 'shop'"),
        "since": ({"since": middle}, f"{DAY} >= '{middle}'"),
        "until": ({"until": middle, "project": "project"}, f"{DAY} <= '{middle}' AND project = 'project'"),
    }[request.param]
    page.goto(viewer.url(f"/insights?{urlencode(query)}"))
    condition = f"copied = 0 AND {condition}"
    spans = ask(f"SELECT s.*, project FROM spans s JOIN sessions USING (session_id) WHERE {condition}")  # noqa: S608
    assert any(row["kind"] == "generation" for row in spans)
    return spans, condition


@pytest.mark.parametrize("period", PERIODS, indirect=True)
def test_the_sums_of_insights(page: Page, period: tuple[list[Any], str]) -> None:
    responses = [row for row in period[0] if row["kind"] == "generation"]

    def total(name: str) -> Any:
        return sum(row[name] or 0 for row in responses)

    assert heads(page) == {
        "cost": figures.money(total("cost_usd")),
        "sessions with requests": f"{len({row['session_id'] for row in responses}):,}",
        "requests": f"{len(responses):,}",
        "uncached input": figures.short(total("input_tokens")),
        "cache read": figures.short(total("cache_read_tokens")),
        "cache write": figures.short(total("cache_write_tokens")),
        "output tokens": figures.short(total("output_tokens")),
    }
    assert texts(page, "#cache .big") == [figures.percent(total("cache_read_tokens"), total("context_tokens"))]
    days: dict[str, list[Any]] = {}
    for row in responses:
        days.setdefault(clock(row["start_ns"], "%Y-%m-%d"), []).append(row)
    costs = {name: sum(row["cost_usd"] or 0 for row in rows) for name, rows in sorted(days.items())}
    assert texts(page, "#by-day svg a title") == [
        f"{name}: {figures.money(cost)}, {sum(map(size, days[name])):,} tokens in {plural(len(days[name]), 'request')}"
        for name, cost in costs.items()
    ]
    assert (f"the last {len(days)} days" if len(days) > 1 else "the only day") in texts(page, "#by-day figcaption")[0]
    assert texts(page, "#by-day .scale span:first-child") == [figures.money(max(costs.values()))]


@pytest.mark.parametrize("period", PERIODS, indirect=True)
def test_the_shares_of_insights(page: Page, period: tuple[list[Any], str]) -> None:
    """Of a response that called several tools, each has an even share."""
    ways: dict[str, Callable[[Any], list[str]]] = {
        "project": lambda row: [row["project"]],
        "model": lambda row: [row["model"]],
        "agent": lambda row: [row["agent"] or "main thread"],
        "tool": lambda row: json.loads(row["calls"]) if row["calls"] else ["no tool"],
    }
    for name, way in ways.items():
        groups: dict[str, list[float]] = {}
        for row in period[0]:
            names = way(row) if row["kind"] == "generation" else []
            for each in set(names):
                part = names.count(each) / len(names)
                sums = groups.setdefault(each, [0.0, 0.0, 0])
                sums[0] += (row["cost_usd"] or 0) * part
                sums[1] += size(row) * part
                sums[2] += 1
        bars = columns(page, f"#by-{name} li a", ".value", ".quiet")
        titles = page.locator(f"#by-{name} li a").evaluate_all("all => all.map(each => each.title)")
        told = [[title, *bar] for title, bar in zip(titles, bars, strict=True)]
        assert sorted(told) == sorted(
            [
                f"{each}: {round(tokens):,} tokens in {plural(int(count), 'request')}",
                figures.money(cost),
                figures.short(round(tokens)),
            ]
            for each, (cost, tokens, count) in groups.items()
        ), name


@pytest.mark.parametrize("period", PERIODS, indirect=True)
def test_the_times_and_cache_misses_of_insights(
    page: Page, ask: Callable[..., list[Any]], period: tuple[list[Any], str]
) -> None:
    unknown = untimed(ask)
    turns = [row for row in period[0] if row["kind"] == "turn"]
    times = [metadata(row, "time_ms") if (row["session_id"], row["turn"]) not in unknown else None for row in turns]
    kinds = {kind: sum(each[kind] for each in times if each) for kind in next(each for each in times if each)}
    assert columns(page, "#time li a", ".name", ".value", ".quiet") == [
        [WORDS.get(kind, kind), figures.duration(ms), figures.percent(ms, sum(kinds.values()))]
        for kind, ms in kinds.items()
    ]
    without = f"{times.count(None)} of {len(times)} turns"
    assert texts(page, "#time .sums") == (
        [f"{without} have no usable times and are not included."] if None in times else []
    )
    misses: dict[str, list[float]] = {}
    of_all = unrecorded_misses(ask("SELECT * FROM spans ORDER BY session_id, turn, place"))
    shown = {row["span_id"] for row in period[0]}
    unrecorded = [miss for span_id, miss in of_all.items() if span_id in shown]
    for row in period[0]:
        miss = metadata(row, "cache_miss") if row["kind"] == "generation" else None
        if miss is not None and miss["causes"][0]["kind"] != "first request":  # which had nothing to read
            found = misses.setdefault(miss["causes"][0]["kind"], [0, 0, 0])
            found[0] += 1
            found[1] += miss.get("tokens") or 0
            found[2] += miss.get("cost_usd") or 0
    bars = columns(page, "#cache li a", ".name", ".value", ".quiet")
    dollars = [float(bar[1].lstrip("<$").replace(",", "")) for bar in bars]
    assert dollars == sorted(dollars, reverse=True)
    titles = page.locator("#cache li a").evaluate_all("all => all.map(each => each.title)")
    told = sorted([*bar, title] for bar, title in zip(bars, titles, strict=True))
    if not unrecorded:
        assert told == sorted(
            [
                CAUSES.get(cause, cause),
                figures.money(cost),
                figures.short(tokens),
                f"{plural(int(count), 'request')}, {tokens:,} tokens",
            ]
            for cause, (count, tokens, cost) in misses.items()
        )
    counts = [title.split() for *_, title in told]
    everything = [*misses.values(), *([1, *miss] for miss in unrecorded)]
    count, tokens, cost = (sum(found[place] for found in everything) for place in range(3))
    assert sum(int(words[0].replace(",", "")) for words in counts) == count
    assert sum(int(words[2].replace(",", "")) for words in counts) == tokens
    if everything:
        assert texts(page, "#cache .sums b") == [figures.short(tokens), figures.money(cost)]
    responses = [row for row in period[0] if row["kind"] == "generation"]
    every = {row["session_id"] for row in responses}
    recorded = {row["session_id"] for row in responses if metadata(row, "context")}
    assert (f"known for {len(recorded)} of {len(every)} sessions" in " ".join(texts(page, "#recorded"))) == (
        recorded != every
    )


@pytest.mark.parametrize("period", PERIODS, indirect=True)
def test_the_percentiles_and_error_rates_of_tools(
    page: Page, ask: Callable[..., list[Any]], period: tuple[list[Any], str]
) -> None:
    tools: dict[str, list[Any]] = {}
    for row in period[0]:
        if row["kind"] == "tool":
            tools.setdefault(row["tool"], []).append(row)
    expected, unknown = [], untimed(ask)
    for name, calls in sorted(tools.items(), key=lambda item: (-len(item[1]), item[0])):
        took = [ms for row in calls if row["refused"] is None and (ms := ran(row, unknown)) is not None]
        refused = sum(row["refused"] is not None for row in calls)
        failed = sum(row["status"] == "error" and row["refused"] is None for row in calls)
        rates = [[str(part), figures.percent(part, len(calls))] if part else ["", ""] for part in (failed, refused)]
        latency = [figures.duration(rank(took, percent)) for percent in (50, 95)]
        total = figures.duration(sum(took) if took else None)
        expected.append([name, f"{len(calls):,}", *latency, total, *rates[0], *rates[1]])
    assert columns(page, "#tools tbody tr", *(f"td:nth-child({number})" for number in range(1, 10))) == expected


@pytest.mark.parametrize("period", PERIODS, indirect=True)
def test_the_most_expensive_turns(page: Page, ask: Callable[..., list[Any]], period: tuple[list[Any], str]) -> None:
    costs = ask(
        "SELECT SUM(cost_usd) cost FROM spans WHERE session_id || turn IN (SELECT session_id || turn FROM spans"  # noqa: S608
        f" JOIN sessions USING (session_id) WHERE kind = 'turn' AND {period[1]}) GROUP BY session_id, turn"
        " HAVING cost > 0 ORDER BY cost DESC LIMIT 10"
    )
    unknown = untimed(ask)
    shown = columns(page, "#dearest tr", "b", "td:nth-child(3)")
    assert [cost for cost, _ in shown] == [figures.money(row["cost"]) for row in costs]
    turns = {f"/sessions/{row['session_id']}/turns/{row['turn']}": row for row in period[0] if row["kind"] == "turn"}
    for place, (_, took) in enumerate(shown):
        turn = turns[page.locator("#dearest tr a").nth(place).get_attribute("href") or ""]
        is_unknown = (turn["session_id"], turn["turn"]) in unknown
        assert took == (figures.UNKNOWN if is_unknown else milliseconds(turn["start_ns"], turn["end_ns"]))


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ({"kind": "generation", "sort": "cost"}, "kind = 'generation'"),
        ({"kind": "turn"}, "kind = 'turn'"),
        ({"kind": "turn", "sort": "cost"}, "kind = 'turn'"),
        ({"kind": "subagent", "sort": "cost"}, "kind = 'subagent'"),
        ({"tool": "Bash", "status": "error"}, "kind = 'tool' AND tool = 'Bash' AND status = 'error'"),
        ({"time": "hooks", "sort": "duration"}, "kind = 'turn' AND json_extract(span, '$.metadata.time_ms.hooks') > 0"),
        (
            {"miss": "model changed"},
            f"{CAUSE} = 'model changed' OR copied = 0 AND s.session_id = '{OLD}' AND cache_write_tokens = 47000",
        ),
        ({"miss": "expired"}, f"s.session_id = '{OLD}' AND cache_write_tokens = 46000"),
        ({"miss": "not recorded"}, f"s.session_id = '{OLD}' AND cache_write_tokens IN (33900, 49000, 50000)"),
        ({"called": "Read"}, "calls LIKE '%\"Read\"%'"),
        ({"called": "no tool", "agent": "main thread"}, "kind = 'generation' AND calls IS NULL AND agent = ''"),
        (
            {"agent": "Explore", "kind": "generation", "project": "shop"},
            "kind = 'generation' AND agent = 'Explore' AND project = 'shop'",
        ),
    ],
    ids=str,
)
def test_a_list_of_spans(
    page: Page, viewer: Viewer, ask: Callable[..., list[Any]], query: dict[str, str], condition: str
) -> None:
    """Its head is about all of them, though one page lists no more than 200."""
    page.goto(viewer.url(f"/spans?{urlencode(query)}"))
    rows = ask(f"SELECT s.* FROM spans s JOIN sessions USING (session_id) WHERE copied = 0 AND {condition}")  # noqa: S608
    assert rows

    def share(row: Any) -> float:
        names = json.loads(row["calls"]) if row["calls"] else ["no tool"]
        return names.count(query["called"]) / len(names) if "called" in query else 1

    def cost(row: Any) -> float | None:
        found = ask(
            "WITH RECURSIVE below (id) AS (VALUES (?2) UNION SELECT span_id FROM spans JOIN below ON parent_id = id"
            " WHERE session_id = ?1) SELECT SUM(cost_usd) FROM below JOIN spans ON span_id = id AND session_id = ?1",
            *(row["session_id"], row["span_id"]),
        )
        known: float | None = found[0][0] if row["kind"] in ("turn", "subagent") else row["cost_usd"]
        return known

    unknown = untimed(ask)

    def took(row: Any) -> float | None:
        if "time" in query and (row["session_id"], row["turn"]) not in unknown:
            return float(metadata(row, "time_ms")[query["time"]])
        return ran(row, unknown)

    of_tools = "tool" in query
    kind = {"tool": "tool", "time": "turn", "called": "generation", "miss": "generation", "model": "generation"}
    implied = next((kind[name] for name in kind if name in query), query.get("kind"))
    noun = {"generation": "request", "turn": "turn", "tool": "call", "subagent": "agent"}.get(implied or "", "step")
    tokens = sum(size(row) * share(row) for row in rows)
    expected = {
        plural(len(rows), noun).partition(" ")[2]: f"{len(rows):,}",
        "cost": figures.money(sum((cost(row) or 0) * share(row) for row in rows)),
        "tokens": figures.short(round(tokens)),
        f"{query['time']} time" if "time" in query else "total time": figures.duration(
            sum(took(row) or 0 for row in rows)
        ),
    }
    if "miss" in query:
        of_all = unrecorded_misses(ask("SELECT * FROM spans ORDER BY session_id, turn, place"))
        recorded = {row["span_id"]: metadata(row, "cache_miss") for row in rows}
        missed = [
            (each.get("tokens") or 0, each.get("cost_usd") or 0) if each else of_all[span_id]
            for span_id, each in recorded.items()
        ]
        expected["extra cost"] = figures.money(sum(extra for _, extra in missed))
        expected["tokens missed"] = figures.short(sum(count for count, _ in missed))
    if of_tools or all(cost(row) is None for row in rows):
        del expected["cost"]
    if all(took(row) is None for row in rows):
        del expected[f"{query['time']} time" if "time" in query else "total time"]
    if not tokens:
        del expected["tokens"]
    assert heads(page) == expected
    shown = page.locator("a.row").evaluate_all(
        "rows => rows.map(row => [row.getAttribute('href').split('/')[2], row.querySelector('.c-duration').textContent,"
        " row.querySelector('.c-tokens')?.textContent, row.querySelector('.c-cost')?.textContent])"
    )
    assert len(shown) == min(200, len(rows))
    by_id = {row["span_id"]: row for row in rows}
    for span_id, took_told, tokens_told, cost_told in shown:
        row = by_id[span_id]
        assert took_told == figures.duration(took(row))
        if not of_tools:
            assert (tokens_told, cost_told) == (
                figures.short(None if row["input_tokens"] is None else size(row)),
                figures.money(cost(row)),
            )
    if query.get("sort") == "cost":  # what is printed is what the order is about
        costs = [-1.0 if (paid := cost(by_id[span_id])) is None else paid for span_id, *_ in shown]
        assert costs == sorted(costs, reverse=True)
    if not of_tools:
        with_agents = "time" in query or query.get("kind") in ("turn", "subagent")
        assert texts(page, ".heads .c-cost") == ["With agents" if with_agents else "Own cost"]
    if len(rows) > 200:
        assert f"1 to 200 of {len(rows):,}" in texts(page, "main > p.sums")[0]


def test_the_number_of_hits(page: Page, viewer: Viewer, ask: Callable[..., list[Any]]) -> None:
    for word in ("cent", "hostile", "zzzzzz"):
        page.goto(viewer.url(f"/search?q={word}"))
        found = ask(
            "SELECT COUNT(*) FROM texts JOIN spans ON spans.row = texts.rowid WHERE texts MATCH ? AND copied = 0",
            f"{word}*",
        )[0][0]
        assert texts(page, ".head .sums")[0].startswith(f"{min(found, 100)}{'+' if found >= 100 else ''} hit")


def test_the_time_in_which_a_plan_was_read(page: Page, viewer: Viewer, ask: Callable[..., list[Any]]) -> None:
    """It is a wait for an answer, though no version before 2.1.3xx records it as a permission."""
    page.goto(viewer.url(f"/sessions/{OLD}/turns/2"))
    assert [row[0] for row in ask("SELECT wait_ms FROM spans WHERE session_id = ? AND wait_ms > 0", OLD)] == [30_000]
    assert "waiting 30.0 s" in texts(page, ".spent .legend li")


def test_what_a_period_counts_is_told(page: Page, viewer: Viewer) -> None:
    for path, told in (("/", "#whole"), ("/insights", "#counted")):
        page.goto(viewer.url(path))
        assert page.locator(told).count() == 0
        page.goto(viewer.url(f"{path}?since=2020-01-01"))
        assert page.locator(told).count() == 1
    # No session of this project records waits for permission.
    page.goto(viewer.url("/insights?project=old"))
    times = {
        name: (value, share) for name, value, share in columns(page, "#time li a", ".name", ".value", ".value + .quiet")
    }
    assert times["permission"] == times["retries"] == ("not recorded", "")
