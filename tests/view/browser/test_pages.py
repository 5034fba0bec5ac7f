"""The pages in a real Chromium: what a person sees, the keyboard, both themes, narrow windows, live."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect, sync_playwright
from viewer import TOKEN, Viewer, copy_cases, running, write_made

from cc_trace.spans import Session
from cc_trace.view import figures

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
FLAGS += " --disable-component-update --disable-sync"
TOOLS = "bbbbbbbb-0000-4000-8000-000000000001"
AGENTS = "cccccccc-0000-4000-8000-000000000002"
MADE = "11111111-0000-4000-8000-000000000001"
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    home: Path = tmp_path_factory.mktemp("home")
    projects = home / ".claude" / "projects" / "-home-dev-project"
    projects.mkdir(parents=True)
    names = ("b_tools", "c2_parallel_subagents", "f_tool_error", "e1_overloaded_then_ok")
    copy_cases(projects, *(f"2.1.325--{name}" for name in names))
    write_made(projects)
    with running(home) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        program = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS.split())
        yield browser
        browser.close()


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, browser: Browser, viewer: Viewer) -> Iterator[Page]:
    """A page that has the token; at the end nothing was asked of another host and nothing was wrong."""
    context = browser.new_context(color_scheme=request.param, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    own = viewer.url("/")
    page.on("request", lambda asked: None if asked.url.startswith((own, "data:")) else wrong.append(asked.url))
    page.goto(viewer.url(f"/?token={TOKEN}"))
    page.wait_for_selector("#list.drawn")
    yield page
    assert wrong == []
    context.close()


def rows(page: Page, viewer: Viewer, session_id: str) -> Any:
    return page.request.get(viewer.url(f"/sessions/{session_id}/turns/1/rows")).json()


def test_sessions_are_listed_and_lead_to_their_turns(page: Page, viewer: Viewer) -> None:
    expect(page.locator("a.row")).to_have_count(viewer.index.read("SELECT COUNT(*) FROM sessions")[0][0])
    page.keyboard.press("j")
    chosen = page.locator("a.row.chosen")
    expect(chosen).to_have_count(1)
    target = chosen.get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{target}")
    page.wait_for_load_state("load")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{target}/turns/1")


@pytest.mark.parametrize("session_id", [TOOLS, AGENTS])
def test_boxes_lie_where_their_times_say(page: Page, viewer: Viewer, session_id: str) -> None:
    page.goto(viewer.url(f"/sessions/{session_id}/turns/1"))
    page.wait_for_selector("#waterfall[data-ready]")
    known = rows(page, viewer, session_id)
    track = page.locator(".span .track").first.bounding_box()
    assert track is not None
    seen = 0
    for row in known["rows"]:
        box = page.locator(f'.span[data-id="{row["id"]}"] .box.{row["kind"]}').first
        if box.count() == 0:
            continue
        place = box.bounding_box()
        assert place is not None
        assert abs(place["x"] - track["x"] - row["start"] / known["duration"] * track["width"]) <= 1
        width = max(2, (row["end"] - row["start"]) / known["duration"] * track["width"])
        assert abs(place["width"] - width) <= 1
        seen += 1
    assert seen > 3


def test_keys_choose_zoom_and_go_back(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.url(f"/sessions/{TOOLS}/turns/1"))
    page.wait_for_selector(".detail-body")
    page.keyboard.press("j")
    expect(page.locator(".detail h2")).to_contain_text("claude-sonnet")
    page.keyboard.press("Enter")
    page.wait_for_selector("#waterfall.zoomed")
    page.keyboard.press("Escape")
    page.wait_for_selector("#waterfall:not(.zoomed)")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("env")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=env")
    expect(page.locator(".hits .hit").first).to_contain_text("env")


def test_what_failed_and_what_was_retried_stands_out(page: Page, viewer: Viewer) -> None:
    failed = viewer.index.read("SELECT session_id, turn FROM spans WHERE kind = 'tool' AND status = 'error'")[0]
    page.goto(viewer.url(f"/sessions/{failed[0]}/turns/{failed[1]}"))
    page.locator("#failed a").first.click()
    expect(page.locator(".detail .note.error")).to_be_visible()
    retried = viewer.index.read("SELECT span_id FROM spans WHERE name = 'api_retry'")[0][0]
    page.goto(viewer.url(f"/spans/{retried}"))
    expect(page.locator(".detail .note.retry")).to_be_visible()
    assert page.locator(".wait.retry").count() > 0


@pytest.mark.parametrize("path", ["/", f"/sessions/{TOOLS}", f"/sessions/{TOOLS}/turns/1", "/insights"])
def test_a_narrow_window_does_not_scroll_sideways(page: Page, viewer: Viewer, path: str) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(viewer.url(path))
    page.wait_for_load_state("load")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_what_is_written_appears_without_reload(page: Page, viewer: Viewer) -> None:
    path = viewer.projects / f"{AGENTS}.jsonl"
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: len(lines) // 2]))
    before = len(list(Session(path).spans()))
    page.set_viewport_size({"width": 1280, "height": 1600})  # so that all rows are near the screen
    page.goto(viewer.url(f"/sessions/{AGENTS}/turns/1"))
    expect(page.locator(".span")).to_have_count(before)
    path.write_bytes(data)
    whole = len(list(Session(path).spans()))
    assert before < whole
    expect(page.locator(".span")).to_have_count(whole)


def open_tool(page: Page, viewer: Viewer, name: str, turn: int = 1) -> None:
    """Open the first call of a tool in the session that was made by hand."""
    found = viewer.index.read(
        "SELECT span_id FROM spans WHERE session_id = ? AND turn = ? AND kind = 'tool' AND name = ? ORDER BY place",
        [MADE, turn, name],
    )
    page.goto(viewer.url(f"/spans/{found[0][0]}"))
    page.wait_for_selector(f'.detail-body[data-span="{found[0][0]}"]')


def test_an_edit_is_seen_as_a_diff(page: Page, viewer: Viewer) -> None:
    open_tool(page, viewer, "Edit")
    removed, added = page.locator(".diff tr.removed"), page.locator(".diff tr.added")
    expect(removed).to_have_count(1)
    expect(removed.locator(".l")).to_have_text("    return 1")
    expect(added.locator(".l")).to_have_text("    return 2")
    expect(added.locator(".n").nth(1)).to_have_text("2")
    expect(added.locator(".k")).to_have_text("return")  # coloured as Python
    colours = [row.evaluate("row => getComputedStyle(row).backgroundColor") for row in (removed, added)]
    assert colours[0] != colours[1]


def test_terminal_output_has_its_colours(page: Page, viewer: Viewer) -> None:
    open_tool(page, viewer, "Bash")
    expect(page.locator("pre.command")).to_have_text("pytest -q")
    red = page.locator("pre.terminal .ansi-fg-red")
    expect(red).to_have_text("1 failed")
    assert red.evaluate("each => getComputedStyle(each).color") == "rgb(224, 108, 117)"
    expect(page.locator(".detail .note.error")).to_be_visible()


def test_an_image_is_shown_as_one(page: Page, viewer: Viewer) -> None:
    open_tool(page, viewer, "Read")
    image = page.locator(".detail img.shown")
    expect(image).to_be_visible()
    page.wait_for_function("document.querySelector('.detail img.shown').naturalWidth === 3")


def test_an_answer_is_markdown(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.url(f"/sessions/{MADE}"))
    answer = page.locator(".turn").first.locator(".answer")
    expect(answer.locator("strong")).to_have_text("fixed")
    expect(answer.locator("li")).to_have_count(2)
    expect(answer.locator("pre.code .k").first).to_have_text("return")


def test_every_number_of_the_list_is_the_index(page: Page, viewer: Viewer) -> None:
    for row in viewer.index.read("SELECT session_id, turns, cost_usd, tokens, errors FROM sessions"):
        line = page.locator(f'a.row[data-key="{row["session_id"]}"]')
        expect(line.locator(".c-turns")).to_have_text(str(row["turns"]))
        expect(line.locator(".c-cost")).to_have_text(figures.money(row["cost_usd"]))
        expect(line.locator(".c-tokens")).to_have_text(figures.short(row["tokens"]))
        expect(line.locator(".c-errors")).to_have_text(str(row["errors"] or ""))


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_of_a_hostile_transcript_runs_or_breaks_the_page(page: Page, viewer: Viewer, width: int) -> None:
    """What it tries to fetch or run would be a request to another host or an error, which end the test."""
    page.set_viewport_size({"width": width, "height": 800})
    spans = viewer.index.read("SELECT span_id FROM spans WHERE session_id = ? AND turn = 2", [MADE])
    turn = f"/sessions/{MADE}/turns/2"
    for path in (
        f"/sessions/{MADE}",
        turn,
        "/insights",
        "/search?q=hostile",
        *(f"{turn}?span={each[0]}" for each in spans),
    ):
        page.goto(viewer.url(path))
        if "span=" in path:
            page.wait_for_selector(f'.detail-body[data-span="{path.rpartition("=")[2]}"]')
        assert page.evaluate("window.ran") is None
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert (
            page.locator("a[href^='javascript'], a[href^='data'], img[src^='http'], iframe, main script").count() == 0
        )
        assert "\u202e" not in page.locator("body").inner_text()
