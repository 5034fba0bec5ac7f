"""The pages in a real Chromium: they lead to each other, follow what is written, and say what the store says."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect
from viewer import OLD, REPEATED

from cc_trace.spans import Session
from cc_trace.store import questions
from cc_trace.view import figures

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page
    from viewer import Viewer

TOOLS = "bbbbbbbb-0000-4000-8000-000000000001"
AGENTS = "cccccccc-0000-4000-8000-000000000002"
SHOP = "5403f1c5-0000-4000-8000-000000000001"
PLAN = "2813b413-5c16-420f-9512-2e27b2030356"
ASKED = "44444444-0000-4000-8000-000000000003"
TIME = re.compile(rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
PAGES = ["/", f"/sessions/{SHOP}", f"/sessions/{SHOP}/turns/1", "/insights", "/spans?kind=generation", "/search?q=env"]


def shown(page: Page, selector: str) -> list[str]:
    return [" ".join(text.split()) for text in page.locator(selector).all_inner_texts()]


def figure(page: Page, name: str) -> str:
    """Return what stands over a name in the head of a page."""
    return page.locator(".figure", has=page.get_by_text(name, exact=True)).locator("b").first.inner_text()


def as_of_now(data: bytes) -> bytes:
    """Return a transcript whose last line was written now."""
    times = [datetime.fromisoformat(found.decode()) for found in set(TIME.findall(data))]
    later = datetime.now(UTC) - max(times)

    def moved(found: re.Match[bytes]) -> bytes:
        moment = datetime.fromisoformat(found[0].decode()) + later
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()

    return TIME.sub(moved, data)


def rows(page: Page, viewer: Viewer, session_id: str, turn: int = 1) -> Any:
    return page.request.get(viewer.url(f"/sessions/{session_id}/turns/{turn}/rows")).json()


# Leading to each other


def test_keys_lead_from_the_sessions_to_a_turn_and_back(page: Page) -> None:
    page.keyboard.press("j")
    chosen = page.locator("a.row.chosen")
    expect(chosen).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator("a.row").first).to_have_class(re.compile("chosen"))
    page.locator("#list").evaluate("list => list.scrollIntoView()")
    target = chosen.get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{target}")
    page.wait_for_load_state("load")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{target}/turns/1")
    page.wait_for_selector(".detail-body")
    page.keyboard.press("Escape")
    page.wait_for_url(f"**{target}")
    page.wait_for_load_state("load")
    page.keyboard.press("Escape")
    page.wait_for_url("**/")


def test_keys_in_a_turn(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.url(f"/sessions/{SHOP}/turns/1"))
    page.wait_for_selector(".detail-body")
    page.keyboard.press("j")
    expect(page.locator(".detail h2")).to_contain_text("claude-sonnet")
    page.keyboard.press("Enter")
    page.wait_for_selector("#waterfall.zoomed")
    page.keyboard.press("Escape")
    page.wait_for_selector("#waterfall:not(.zoomed)")
    before = page.locator(".span").count()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".span")).not_to_have_count(before)
    page.keyboard.press("ArrowRight")
    expect(page.locator(".span")).to_have_count(before)
    page.keyboard.press("e")
    expect(page.locator(".detail .note.error")).to_be_visible()
    page.keyboard.press("]")
    page.wait_for_url(f"**/sessions/{SHOP}/turns/2")
    page.wait_for_selector(".detail-body")
    page.keyboard.press("[")
    page.wait_for_url(f"**/sessions/{SHOP}/turns/1")


def test_escape_leads_back_to_a_list(page: Page, viewer: Viewer) -> None:
    """From a turn that was opened from a list of spans or hits; after a page of its session, to the session."""
    page.goto(viewer.url("/spans?kind=tool"))
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector(".detail-body")
    page.keyboard.press("Escape")
    page.wait_for_url("**/spans?kind=tool")
    page.goto(viewer.url(f"/sessions/{SHOP}"))
    page.wait_for_load_state("load")
    page.goto(viewer.url(f"/sessions/{SHOP}/turns/1"))
    page.wait_for_selector(".detail-body")
    page.keyboard.press("Escape")
    page.wait_for_url(f"**/sessions/{SHOP}")


def test_the_command_that_resumes_a_session_can_be_copied(page: Page, viewer: Viewer) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(viewer.url(f"/sessions/{SHOP}"))
    page.locator(".copy").click()
    expect(page.locator(".copy")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"claude --resume {SHOP}"


def test_help_and_search_have_keys(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    for key in ("j", "k", "Enter", "Esc", "[", "]", "/"):
        expect(page.locator("#help kbd", has_text=re.compile(f"^{re.escape(key)}$"))).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    page.keyboard.press("/")
    page.keyboard.type("env")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=env")
    expect(page.locator(".hits .hit mark").first).to_have_text(re.compile("env", re.IGNORECASE))
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/turns/**")


def test_tokens_that_are_not_all_recorded_are_a_lower_bound(page: Page, viewer: Viewer) -> None:
    """Versions before 2.1.53 wrote the first count of a stream."""
    requests = viewer.index.read("SELECT span_id FROM spans WHERE session_id = ? AND kind = 'generation'", [OLD])
    page.goto(viewer.url(f"/sessions/{OLD}"))
    expect(page.locator("#undercounted")).to_contain_text("at least")
    expect(page.locator("#undercounted")).to_contain_text(f"of {len(requests)} requests")
    page.goto(viewer.url(f"/spans/{requests[0]['span_id']}"))
    expect(page.locator(".detail .facts div", has_text="Output")).to_contain_text("at least 9")
    page.goto(viewer.url(f"/sessions/{SHOP}"))
    expect(page.locator("#undercounted")).to_have_count(0)


def test_hits_are_listed_by_session(page: Page, viewer: Viewer) -> None:
    """Each session once, and prompts, answers and edits before what was only read."""
    found = questions.search(viewer.index, "discounts")
    page.goto(viewer.url("/search?q=discounts"))
    titles = page.locator(".hits h2 a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert titles == list(dict.fromkeys(f"/sessions/{hit.session_id}" for hit in found))
    expect(page.locator(".hits .hit")).to_have_count(len(found))
    reads = [hit.name in ("Read", "Grep", "Glob", "LS") for hit in found]
    assert set(reads) == {True, False}
    assert reads == sorted(reads)
    page.locator(".hits h2 a").first.click()
    page.wait_for_url(f"**{titles[0]}")


def test_sessions_are_filtered_and_sorted(page: Page, viewer: Viewer) -> None:
    page.locator(".heads a", has_text="Cost").click()
    page.wait_for_url("**sort=cost*")
    dearest = viewer.index.read("SELECT session_id FROM sessions ORDER BY cost_usd DESC LIMIT 1")[0][0]
    expect(page.locator("a.row").first).to_have_attribute("data-key", dearest)
    page.locator("input[name=title]").fill("checkout")
    page.keyboard.press("Enter")
    page.wait_for_url("**title=checkout*")
    expect(page.locator("a.row")).to_have_count(1)
    expect(page.locator("a.row")).to_have_attribute("data-key", SHOP)
    page.locator("input[name=title]").fill("no session is called so")
    page.keyboard.press("Enter")
    expect(page.locator(".empty")).to_contain_text("No matching sessions")
    page.locator(".empty a").click()
    page.wait_for_url("**/")
    state = viewer.index.read("SELECT state, COUNT(*) FROM sessions GROUP BY 1 ORDER BY 2 LIMIT 1")[0]
    page.locator("select[name=state]").select_option(state[0])
    page.wait_for_url("**state=*")
    expect(page.locator("a.row")).to_have_count(state[1])


def test_a_session_leads_to_the_one_it_continues_and_back(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.url(f"/sessions/{PLAN}"))
    expect(page.locator("#lineage")).to_contain_text("Implements the plan from")
    page.locator("#lineage a").click()
    page.wait_for_url(f"**/sessions/{ASKED}")
    expect(page.locator("#lineage")).to_contain_text("Plan implemented in")
    page.locator("#lineage a").click()
    page.wait_for_url(f"**/sessions/{PLAN}")


def test_times_have_a_zone(page: Page, viewer: Viewer) -> None:
    zone = datetime.now().astimezone().tzname() or ""
    expect(page.locator(".heads .c-when")).to_have_text(f"Last active, {zone}")
    page.goto(viewer.url("/spans?kind=turn"))
    expect(page.locator(".heads .c-when")).to_have_text(f"When, {zone}")
    page.goto(viewer.url("/insights"))
    expect(page.locator("#by-day figcaption")).to_contain_text(f"in {zone}")


def test_what_is_not_there_is_said(page: Page, viewer: Viewer) -> None:
    answered = page.request.get(viewer.url("/sessions/none"))
    assert answered.status == 404
    assert "Not found" in answered.text()
    page.goto(viewer.url("/search?q=zzzzzz"))
    expect(page.locator(".empty")).to_contain_text("Nothing found")


# What the pages say


def test_every_number_of_the_sessions_is_the_stores(page: Page, viewer: Viewer) -> None:
    for row in viewer.index.read("SELECT * FROM sessions"):
        line = page.locator(f'a.row[data-key="{row["session_id"]}"]')
        if line.count() == 0:  # not near the screen
            page.mouse.wheel(0, 2_000)
        expect(line.locator(".c-turns")).to_have_text(str(row["turns"]))
        active_ns = row["active_ns"]
        expect(line.locator(".c-duration")).to_have_text(figures.duration(active_ns and active_ns / 1e6))
        expect(line.locator(".c-cost")).to_have_text(figures.money(row["cost_usd"]))
        expect(line.locator(".c-tokens")).to_have_text(figures.short(row["tokens"]))
        expect(line.locator(".c-errors")).to_have_text(str(row["errors"] or ""))
        expect(line.locator(".c-state")).to_have_text(row["state"])


def test_every_number_of_a_session_is_its_transcripts(page: Page, viewer: Viewer) -> None:
    session = Session(viewer.projects / f"{SHOP}.jsonl", requests=True)
    spans = list(session.spans())
    summary = session.summary
    page.goto(viewer.url(f"/sessions/{SHOP}"))
    usages = [span.response.usage for span in spans if span.response is not None and span.response.usage is not None]
    tokens = sum(
        each.input + each.output + each.cache_read + each.cache_write_5m + each.cache_write_1h for each in usages
    )
    assert figure(page, "turns") == str(summary.turns)
    assert figure(page, "cost") == figures.money(summary.cost_usd)
    assert figure(page, "tokens") == f"{tokens:,}"
    assert figure(page, "error") == str(sum(span.status == "error" and span.kind != "turn" for span in spans))
    assert shown(page, ".figure .plus, .figure .minus") == [
        f"+{summary.lines_added}",
        f"\N{MINUS SIGN}{summary.lines_removed}",
    ]
    for number in range(1, summary.turns + 1):
        own = [span for span in spans if span.turn == number]
        spent = sum(span.response.cost_usd or 0 for span in own if span.response is not None)
        told = page.locator(".turn").nth(number - 1).locator(".meta").inner_text()
        calls = sum(span.kind == "tool" for span in own)
        assert f"{calls} tool call{'' if calls == 1 else 's'} · {figures.money(spent)}" in told
    # One bar for each request of the main thread, as high as its context.
    requests = [span for span in spans if span.kind == "generation" and span.agent_name is None]
    bars = page.locator(".context a.mark:has(rect.hit)")
    expect(bars).to_have_count(len(requests))
    for number, span in enumerate(requests):
        context: Any = span.metadata["context"]
        title = bars.nth(number).locator("title").text_content() or ""
        assert f"{context['tokens']:,} tokens" in title
        for origin, count in context["by_origin"].items():
            assert not count or f"{origin}: {count:,}" in title


def test_the_context_chart_stacks_its_origins(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.url(f"/sessions/{SHOP}"))
    found = page.evaluate(
        """() => [...document.querySelectorAll(".context a.mark:has(rect.hit)")].map((mark) =>
          [...mark.querySelectorAll("rect:not(.hit)")].map((box) =>
            [+box.getAttribute("y"), +box.getAttribute("height")]))"""
    )
    limit = page.locator(".context line.limit")
    for boxes in found:
        bottom = 200.0
        for top, height in boxes:
            assert abs(top + height - bottom) < 0.05
            bottom = top
    heights = [sum(height for _, height in boxes) for boxes in found]
    tokens = [
        json.loads(row[0])["tokens"]
        for row in viewer.index.read(
            "SELECT json_extract(span, '$.metadata.context') FROM spans WHERE session_id = ? AND kind = 'generation'"
            " AND agent = '' ORDER BY turn, place",
            [SHOP],
        )
    ]
    for height, count in zip(heights, tokens, strict=True):
        assert abs(height / max(heights) - count / max(tokens)) < 0.01
    assert limit.count() == 0  # 200,000 are far above what this session needed: the caption says so
    expect(page.locator("figcaption").first).to_contain_text("of 200,000")


def test_the_context_chart_counts_the_request_under_the_pointer(page: Page, viewer: Viewer) -> None:
    """With the pointer elsewhere it counts the latest one. The bars take all the width, though they are few."""
    page.goto(viewer.url(f"/sessions/{SHOP}"))
    requests = viewer.index.read(
        "SELECT span_id, turn, model, cost_usd, json_extract(span, '$.metadata.context') context,"
        " json_extract(span, '$.metadata.cache_miss') miss FROM spans WHERE session_id = ? AND kind = 'generation'"
        " AND agent = '' ORDER BY turn, place",
        [SHOP],
    )
    told, legend = page.locator("#told"), page.locator("figure:has(.context) .legend li:has(.count)")

    def counts_of(row: Any) -> None:
        context = json.loads(row["context"])
        expect(told).to_contain_text(f"Turn {row['turn']} · {row['model']} · {context['tokens']:,} tokens")
        counts = dict(text.rsplit(" ", 1) for text in shown(page, "figure:has(.context) .legend li:has(.count)"))
        assert {name: int(count.replace(",", "")) for name, count in counts.items() if count != "0"} == {
            name: count for name, count in context["by_origin"].items() if count
        }

    counts_of(requests[-1])
    expect(told).to_contain_text("Latest request: ")
    page.locator(f'.context a[href="/spans/{requests[2]["span_id"]}"] .hit').hover()
    counts_of(requests[2])
    expect(told).not_to_contain_text("Latest request")
    missed = [row for row in requests[1:] if row["miss"]]
    page.locator(f'.context a[href="/spans/{missed[0]["span_id"]}"]').focus()
    counts_of(missed[0])
    expect(told).to_contain_text("cache miss of ")
    page.locator(".context a.mark:has(.compaction)").focus()
    expect(told).to_contain_text("compaction requested with /compact")
    page.locator("h1").hover()
    expect(told).to_contain_text("Latest request: ")
    assert legend.count()
    chart: Any = page.locator(".context").bounding_box() or {}
    drawn = page.locator(".context a.mark rect.o8")
    first: Any = drawn.first.bounding_box() or {}
    last: Any = drawn.last.bounding_box() or {}
    assert first["x"] - chart["x"] < 2
    assert chart["x"] + chart["width"] - last["x"] - last["width"] < 2


@pytest.mark.parametrize("width", [400, 700, 1000, 1280, 1600])
def test_no_panel_of_a_session_stands_alone(open_page: Callable[..., Page], viewer: Viewer, width: int) -> None:
    """Every row of them ends where the page does."""
    page = open_page(width=width)
    page.goto(viewer.url(f"/sessions/{SHOP}"))
    panels = page.locator("#session-charts > .panel").evaluate_all(
        "panels => panels.map(panel => panel.getBoundingClientRect()).map(box => [box.top, box.right])"
    )
    ends = dict(panels)
    assert len(panels) == 6
    assert max(ends.values()) - min(ends.values()) < 1


def test_cache_misses_and_compactions_are_marked_and_explained(page: Page, viewer: Viewer) -> None:
    """Misses that cost less than a cent are marked in the chart, and told in sum."""
    page.goto(viewer.url(f"/sessions/{SHOP}"))
    missed = viewer.index.read(
        "SELECT span_id, json_extract(span, '$.metadata.cache_miss') miss FROM spans WHERE session_id = ?"
        " AND agent = '' AND miss IS NOT NULL AND miss NOT LIKE '%first request%' ORDER BY turn, place",
        [SHOP],
    )
    assert missed
    expect(page.locator(".context a.missed .miss")).to_have_count(len(missed))
    for span_id, told in missed:
        cause = json.loads(told)["causes"][0]["kind"]
        assert cause in (page.locator(f'.context a[href="/spans/{span_id}"] title').text_content() or "")
    expect(page.locator(".explained .miss")).to_have_count(0)
    cost = sum(json.loads(told)["cost_usd"] for _, told in missed)
    small = page.locator(".explained .small-miss")
    expect(small).to_contain_text(f"{len(missed)} smaller cache misses, {figures.money(cost)} in all")
    expect(page.locator(".context line.compaction")).to_have_count(1)
    expect(page.locator(".explained .compaction")).to_contain_text("requested with /compact")


def test_cache_misses_are_seen_from_token_counts(page: Page, viewer: Viewer) -> None:
    """A cause is told only if the session shows it."""
    page.goto(viewer.url(f"/sessions/{OLD}"))
    told = [text.partition("from the cache: ")[2] for text in page.locator(".explained .miss").all_text_contents()]
    unknown = "unknown (older Claude Code)"
    assert told == [unknown, "expired (608 s after the request before)", "model changed", unknown, unknown]
    page.locator(".explained .miss a").first.click()
    expect(page.locator(".detail .note.miss")).to_contain_text("Cache miss of 32,900 tokens")
    expect(page.locator(".detail .note.miss")).to_contain_text("unknown (older Claude Code).")


def test_failures_that_are_alike_are_told_together(page: Page, viewer: Viewer) -> None:
    """The most frequent first, with a link to all of them."""
    page.goto(viewer.url(f"/sessions/{REPEATED}"))
    failed = shown(page, "#failed li")
    assert failed[0] == "3 \N{MULTIPLICATION SIGN} Bash This command requires approval (swift build)"
    assert failed[1].startswith("Bash cat: missing: No such file or directory")
    page.locator("#failed li a").first.click()
    page.wait_for_url("**/spans?*")
    assert figure(page, "steps") == "3"
    expect(page.locator("a.row .c-error")).to_have_text(["This command requires approval"] * 3)
    assert shown(page, "a.row .c-duration") == ["9.0 s", "6.0 s", "3.0 s"]


def test_slow_calls_lead_to_all_of_them(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.url(f"/sessions/{REPEATED}"))
    slow = page.locator("#slowest a", has_text="3 \N{MULTIPLICATION SIGN}")
    took = slow.locator("b").inner_text()
    slow.click()
    page.wait_for_url("**/spans?*")
    assert figure(page, "steps") == "3"
    assert figure(page, "total time") == took


def test_a_session_tells_where_its_time_went(page: Page, viewer: Viewer) -> None:
    """The time between its turns too, so that all adds up to its duration."""
    page.goto(viewer.url(f"/sessions/{SHOP}"))
    known = viewer.index.read("SELECT first_ns, last_ns FROM sessions WHERE session_id = ?", [SHOP])[0]
    turns = viewer.index.read(
        "SELECT SUM(end_ns - start_ns) FROM spans WHERE session_id = ? AND kind = 'turn'", [SHOP]
    )[0][0]
    between = (known["last_ns"] - known["first_ns"] - turns) / 1e6
    expect(page.locator(".spent .legend li").last).to_have_text(f"between turns {figures.duration(between)}")
    expect(page.locator("#dearest li").first).to_contain_text("of the cost")


def test_a_session_tells_its_files_hooks_and_permissions(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.url(f"/sessions/{SHOP}"))
    files = viewer.index.read(
        "SELECT DISTINCT json_extract(span, '$.tool.file_path') path FROM spans WHERE session_id = ? AND kind = 'tool'"
        " AND status = 'ok' AND path IS NOT NULL",
        [SHOP],
    )
    assert {f"/home/dev/shop/{text.split()[0]}" for text in shown(page, "#files li")} == {row[0] for row in files}
    expect(page.locator("#hooks li")).to_have_count(1)
    expect(page.locator("#hooks li")).to_contain_text("sh .claude/check.sh")
    expect(page.locator("#permissions li").nth(0)).to_contain_text("you, this once")
    expect(page.locator("#permissions li").nth(0)).to_contain_text("waited 4.1 s")
    expect(page.locator("#permissions li").nth(1)).to_contain_text("by your settings")
    page.goto(viewer.url(f"/sessions/{ASKED}"))
    expect(page.locator("#permissions li").first).to_contain_text("waited 2.0 s")


def test_every_mark_of_insights_leads_to_what_it_counts(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.url("/insights"))
    total = viewer.index.read("SELECT SUM(cost_usd), COUNT(*) FROM spans WHERE kind = 'generation' AND copied = 0")[0]
    assert figure(page, "cost") == figures.money(total[0])
    assert figure(page, "requests") == f"{total[1]:,}"
    page.locator("#insights details").evaluate_all("all => all.forEach(each => { each.open = true; })")
    marks = []
    for selector in ("#by-project li a", "#by-model li a", "#by-agent li a", "#by-tool li a"):
        found = page.locator(selector).all()
        marks += [(each.get_attribute("href") or "", "cost", each.locator(".value").inner_text()) for each in found]
    for mark in page.locator("#by-day svg a").all():
        told = mark.locator("title").text_content() or ""
        marks.append((mark.get_attribute("href") or "", "cost", told.partition(": ")[2].partition(",")[0]))
    for mark in page.locator("#time li a").all():
        kind = mark.locator(".name").inner_text()
        marks.append((mark.get_attribute("href") or "", f"{kind} time", mark.locator(".value").inner_text()))
    for row in page.locator("#tools tbody tr").all():
        cells = row.locator("td")
        for counted in (cells.nth(1), cells.nth(5), cells.nth(7)):  # calls, failed, not allowed
            if count := counted.inner_text():
                href = counted.locator("a").get_attribute("href") or ""
                marks.append((href, "call" if count == "1" else "calls", count))
    assert len(marks) > 20
    for href, name, value in marks:
        page.goto(viewer.url(href))
        assert figure(page, name) == value, href


def test_filters_of_insights_stand_in_its_address(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.url("/insights"))
    page.locator("select[name=project]").select_option("shop")
    page.wait_for_url("**project=shop*")
    spent = viewer.index.read(
        "SELECT SUM(spans.cost_usd) FROM spans JOIN sessions USING (session_id) WHERE kind = 'generation'"
        " AND copied = 0 AND project = 'shop'"
    )[0][0]
    assert figure(page, "cost") == figures.money(spent)
    expect(page.locator("#by-project li")).to_have_count(1)
    href = page.locator("#tools tbody a").first.get_attribute("href") or ""
    assert "project=shop" in href
    page.goto(viewer.url("/insights?since=2001-01-01&until=2001-01-02"))
    expect(page.locator(".empty")).to_contain_text("No requests")


@pytest.mark.parametrize("width", [1280, 400])
def test_the_days_are_named_below_their_bars(open_page: Callable[..., Page], viewer: Viewer, width: int) -> None:
    """No name lies over another, and where days are left out there is a gap that says how many."""
    page = open_page(width=width)
    page.goto(viewer.url("/insights"))
    days = viewer.index.read(
        "SELECT DISTINCT date(start_ns / 1000000000, 'unixepoch', 'localtime') FROM spans WHERE kind = 'generation'"
        " AND copied = 0 ORDER BY 1"
    )
    named = page.locator("#by-day .names text:visible")
    boxes: list[tuple[str, Any]] = [(each.inner_html(), each.bounding_box() or {}) for each in named.all()]
    assert boxes[-1][0] == days[-1][0]
    for (_, one), (_, other) in pairwise(boxes):
        assert one["x"] + one["width"] < other["x"]
    for name, box in boxes:
        bar: Any = page.locator("#by-day svg a", has_text=f"{name}:").locator("rect.hit").bounding_box() or {}
        middle = bar["x"] + bar["width"] / 2
        assert box["x"] - 1 <= middle <= box["x"] + box["width"] + 1
    dates = [date.fromisoformat(row[0]) for row in days]
    left_out = [(other - one).days - 1 for one, other in pairwise(dates) if (other - one).days > 1]
    assert page.locator("#by-day line.gap title").all_text_contents() == [
        f"{count:,} days without requests" for count in left_out
    ]


@pytest.mark.parametrize(
    ("path", "cell"),
    [
        ("/?sort=duration", ".c-duration"),
        ("/?sort=tokens", ".c-tokens"),
        ("/?sort=turns", ".c-turns"),
        ("/?sort=errors", ".c-errors"),
        ("/?sort=cost", ".c-cost"),
        ("/spans?tool=Bash&sort=duration", ".c-duration"),
        ("/spans?kind=generation&sort=duration", ".c-duration"),
        ("/spans?kind=generation&sort=tokens", ".c-tokens"),
        ("/spans?kind=generation&sort=cost", ".c-cost"),
    ],
)
@pytest.mark.parametrize("width", [1000, 400])
def test_a_narrow_list_keeps_what_it_is_sorted_by(
    open_page: Callable[..., Page], viewer: Viewer, path: str, cell: str, width: int
) -> None:
    page = open_page(width=width)
    page.goto(viewer.url(path))
    shown = page.locator("a.row").first.locator(cell)
    expect(shown).to_be_visible()
    box = shown.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= width
    assert shown.evaluate("each => each.scrollWidth <= each.clientWidth")


def test_the_names_of_models_are_not_cut(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.url("/insights"))
    names = page.locator("#by-model .name")
    assert all(names.evaluate_all("all => all.map(each => each.scrollWidth <= each.clientWidth)"))
    for row in viewer.index.read(
        "SELECT model, COUNT(*) requests, SUM(output_tokens) output FROM spans WHERE kind = 'generation' AND copied = 0"
        " AND model <> '' GROUP BY 1"
    ):
        told = f"{row['requests']:,} request{'' if row['requests'] == 1 else 's'} · {figures.short(row['output'] or 0)}"
        expect(names.filter(has_text=re.compile(f"^{re.escape(row['model'])}[0-9,]* request"))).to_contain_text(told)


# Themes, widths, what is written meanwhile


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_text_can_be_read_in_both_themes(open_page: Callable[..., Page], viewer: Viewer, path: str, theme: str) -> None:
    """The contrast of what is seen is at least 4.5 to 1, that of WCAG AA."""
    page = open_page(theme)
    page.goto(viewer.url(path))
    if "/turns/" in path:
        page.wait_for_selector(".detail-body")
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", dark)[:3])) < 384) == (theme == "dark")
    faint = page.evaluate(CONTRAST)
    assert faint == []


CONTRAST = """() => {
  const parsed = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parsed(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const element = node.parentElement, box = element.getBoundingClientRect();
    if (!node.textContent.trim() || !box.width || element.closest("svg, option, pre.terminal, [hidden]")) continue;
    const [one, other] = [light(parsed(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
    if ((one + 0.05) / (other + 0.05) < 4.5) found.push([element.className, node.textContent.trim().slice(0, 30)]);
  }
  return found.slice(0, 5);
}"""


@pytest.mark.parametrize("path", PAGES)
def test_a_narrow_window_does_not_scroll_sideways(open_page: Callable[..., Page], viewer: Viewer, path: str) -> None:
    page = open_page(width=400, height=800)
    page.goto(viewer.url(path))
    page.wait_for_load_state("load")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    main = page.locator("main")
    wide = main.evaluate("""main => [...main.querySelectorAll("h1, .figure, .row, .turn, .panel, .waterfall, .detail")]
        .filter(each => each.getBoundingClientRect().width && each.getBoundingClientRect().right > 400)
        .map(each => each.className)""")
    assert wide == []


def test_the_most_expensive_turns_are_short_in_a_narrow_window(open_page: Callable[..., Page], viewer: Viewer) -> None:
    page = open_page(width=400, height=800)
    page.goto(viewer.url("/insights"))
    heights = page.locator("#dearest tr").evaluate_all("rows => rows.map(row => row.offsetHeight)")
    assert heights
    assert max(heights) < 100


def test_what_is_written_appears_without_reload(page: Page, viewer: Viewer) -> None:
    path = viewer.projects / f"{AGENTS}.jsonl"
    data = as_of_now(path.read_bytes())
    lines = data.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: len(lines) // 2]))
    before = len(list(Session(path).spans()))
    page.set_viewport_size({"width": 1280, "height": 1600})  # so that all rows are near the screen
    page.goto(viewer.url(f"/sessions/{AGENTS}/turns/1"))
    expect(page.locator(".span")).to_have_count(before)
    expect(page.locator("#turn-head .state")).to_have_text("running")
    expect(page.locator(".detail-body h2 .state")).to_have_text("running")
    expect(page.locator(".detail-body .note.error")).to_have_count(0)
    growing = page.locator(".span.turn .took")
    page.wait_for_function(
        "told => document.querySelector('.span.turn .took').textContent !== told", arg=growing.inner_text()
    )
    listed = page.context.new_page()
    listed.goto(viewer.url("/"))
    row = listed.locator(f'a.row[data-key="{AGENTS}"]')
    expect(row.locator(".c-state")).to_have_text("working")
    cost = row.locator(".c-cost").inner_text()
    path.write_bytes(data)
    whole = len(list(Session(path).spans()))
    assert before < whole
    expect(page.locator(".span")).to_have_count(whole)
    expect(page.locator("#turn-head .status")).to_have_text("ok")
    expect(page.locator(".detail-body h2 .status")).to_have_text("ok")
    expect(row.locator(".c-state")).not_to_have_text("working")
    expect(row.locator(".c-cost")).not_to_have_text(cost)
