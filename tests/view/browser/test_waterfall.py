"""A turn's waterfall in a real Chromium: boxes lie where their times say, waits are drawn as waits, zoom and pan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page
    from viewer import Viewer

TOOLS = "bbbbbbbb-0000-4000-8000-000000000001"
AGENTS = "cccccccc-0000-4000-8000-000000000002"
SHOP = "5403f1c5-0000-4000-8000-000000000001"
RETRIED = "eeeeeeee-0000-4000-8000-000000000001"
PLANNED = "44444444-0000-4000-8000-000000000003"
LONG = "8463c716-a2ea-4c14-9efa-87158ebd9f20"  # of the corpus


def open_turn(page: Page, viewer: Viewer, session_id: str, turn: int = 1) -> dict[str, Any]:
    """Open a turn, and return its rows as the server tells them."""
    address = viewer.url(f"/sessions/{session_id}/turns/{turn}")
    page.goto(address)
    page.wait_for_selector(".detail-body")
    found: dict[str, Any] = page.request.get(f"{address}/rows").json()
    return found


def boxes(page: Page, selector: str) -> dict[str, Any]:
    """Return each row's boxes of a kind: how far from the start of its track, and how wide."""
    found: dict[str, Any] = page.evaluate(
        """(selector) => Object.fromEntries([...document.querySelectorAll(".span")].map((row) => {
          const track = row.querySelector(".track").getBoundingClientRect();
          return [row.dataset.id, [...row.querySelectorAll(selector)].map((box) => {
            const place = box.getBoundingClientRect();
            return [place.x - track.x, place.width, track.width];
          })];
        }))""",
        selector,
    )
    return found


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("session_id", [TOOLS, AGENTS, SHOP, RETRIED, LONG])
def test_boxes_lie_where_their_times_say(
    open_page: Callable[..., Page], viewer: Viewer, session_id: str, width: int
) -> None:
    if session_id == LONG and not viewer.index.read("SELECT 1 FROM sessions WHERE session_id = ?", [LONG]):
        pytest.skip("the corpus is not here")
    page = open_page(width=width)
    told = open_turn(page, viewer, session_id)
    own, first, lanes = boxes(page, ".box:not(.first)"), boxes(page, ".box.first"), boxes(page, ".lane")
    seen = 0
    for row in told["rows"]:
        if row["id"] not in own or row["start"] is None:
            continue

        def lies(box: list[float], begin: float, end: float) -> None:
            left, wide, track = box
            assert abs(left - begin / told["duration"] * track) <= 1
            assert abs(wide - max(2, (end - begin) / told["duration"] * track)) <= 1

        end = row["end"] if row["end"] is not None else row["start"]
        lies(own[row["id"]][0], row["start"], end)
        if row["first"] is not None and row["first"] > row["start"]:
            lies(first[row["id"]][0], row["start"], min(row["first"], end))
        if row["lane"]:
            lies(lanes[row["id"]][0], *row["lane"])
        seen += 1
    assert seen >= 2


@pytest.mark.parametrize(("session_id", "kind"), [(SHOP, "hook"), (RETRIED, "retry"), (PLANNED, "permission")])
def test_waits_are_drawn_as_waits(page: Page, viewer: Viewer, session_id: str, kind: str) -> None:
    found = viewer.index.read(
        "SELECT turn, span_id, waits FROM spans WHERE session_id = ? AND waits LIKE ? ORDER BY turn LIMIT 1",
        [session_id, f'%"{kind}"%'],
    )[0]
    told = open_turn(page, viewer, session_id, found["turn"])
    waits = boxes(page, f".wait.{kind}")[found["span_id"]]
    row = next(row for row in told["rows"] if row["id"] == found["span_id"])
    for (left, width, track), (_, begin, end) in zip(waits, row["waits"], strict=True):
        assert abs(left - begin / told["duration"] * track) <= 1
        assert abs(width - max(2, (end - begin) / told["duration"] * track)) <= 1
    wait = page.locator(f'.span[data-id="{found["span_id"]}"] .wait.{kind}').first
    assert "gradient" in wait.evaluate("each => getComputedStyle(each).backgroundImage")
    if kind == "hook":  # its milliseconds are nothing beside the rest of the turn
        expect(page.locator("#slowest")).not_to_contain_text("hook")
        return
    waited = page.locator("#slowest a", has_text={"retry": "before a retry", "permission": "permission"}[kind])
    waited.click()
    page.wait_for_selector(f'.detail-body[data-span="{(waited.get_attribute("href") or "").partition("=")[2]}"]')


def test_parallel_agents_and_tools_overlap_on_one_axis(page: Page, viewer: Viewer) -> None:
    told = open_turn(page, viewer, SHOP)
    agents = [row for row in told["rows"] if row["kind"] == "subagent"]
    assert len(agents) == 2
    assert agents[1]["start"] < agents[0]["end"]
    found = boxes(page, ".box")
    one, other = (found[agent["id"]][0] for agent in agents)
    assert one[0] < other[0] < one[0] + one[1]
    assert any(row["lane"] for row in told["rows"] if row["depth"] > agents[0]["depth"])


def test_what_was_expensive_and_what_failed_comes_first(page: Page, viewer: Viewer) -> None:
    told = open_turn(page, viewer, SHOP)
    hot = [row["id"] for row in told["rows"] if row["hot"]]
    assert page.evaluate("[...document.querySelectorAll('.span.hot')].map(row => row.dataset.id)") == hot
    spent = viewer.index.read(
        "SELECT MAX(CASE kind WHEN 'subagent' THEN total_usd ELSE cost_usd END) FROM spans WHERE session_id = ?"
        " AND turn = 1 AND (kind = 'subagent' OR (kind = 'generation' AND agent = ''))",
        [SHOP],
    )[0][0]
    expect(page.locator("#dearest a b").first).to_have_text(f"${spent:.4f}")
    expect(page.locator("#failed .badge")).to_have_text("1")
    page.locator("#failed li a").click()
    expect(page.locator(".detail h2")).to_contain_text("Bash")
    expect(page.locator(".detail .note.error")).to_be_visible()
    failed = page.locator(".span.error").first
    red = failed.locator(".box").first.evaluate("each => getComputedStyle(each).backgroundColor")
    assert red == page.evaluate(
        "() => { const i = document.createElement('i'); i.className = 'bad'; document.body.append(i);"
        " const colour = getComputedStyle(i).color; i.remove(); return colour; }"
    )


def test_zoom_and_pan(page: Page, viewer: Viewer) -> None:
    told = open_turn(page, viewer, SHOP)
    ticks = page.locator("#ticks").bounding_box()
    assert ticks is not None
    page.mouse.move(ticks["x"] + ticks["width"] * 0.25, ticks["y"] + 10)
    page.mouse.down()
    page.mouse.move(ticks["x"] + ticks["width"] * 0.5, ticks["y"] + 10, steps=4)
    page.mouse.up()
    page.wait_for_selector("#waterfall.zoomed")

    def window() -> tuple[float, float]:
        """Return from and to when the window shows the turn, as its first box tells."""
        left, width, track = boxes(page, ".box")[told["rows"][0]["id"]][0]
        begin = -left / width * told["duration"]
        return begin, begin + track / width * told["duration"]

    begin, end = window()
    assert abs(begin - told["duration"] * 0.25) < told["duration"] * 0.01
    assert abs(end - told["duration"] * 0.5) < told["duration"] * 0.01
    page.keyboard.press(".")
    later, _ = window()
    assert later > begin
    page.keyboard.press(",")
    assert abs(window()[0] - begin) < told["duration"] * 0.01
    page.keyboard.press("+")
    inner = window()
    assert inner[1] - inner[0] < (end - begin) * 0.6
    page.mouse.move(ticks["x"] + ticks["width"] / 2, ticks["y"] + 200)
    page.keyboard.down("Control")
    page.mouse.wheel(0, 200)
    page.keyboard.up("Control")
    page.locator("#zoom-all").click()
    page.wait_for_selector("#waterfall:not(.zoomed)")
    assert abs(window()[0]) < 1


def test_keys_are_for_the_chosen_span(page: Page, viewer: Viewer) -> None:
    """Also after a click on what stands out, whose link has been clicked and needs no Enter."""
    told = open_turn(page, viewer, SHOP)
    page.locator("#failed li a").click()
    expect(page.locator(".detail .note.error")).to_be_visible()
    chosen = page.locator(".span.chosen").get_attribute("data-id")
    row = next(row for row in told["rows"] if row["id"] == chosen)
    page.keyboard.press("+")
    page.wait_for_selector("#waterfall.zoomed")
    track: Any = page.locator(".span.chosen .track").bounding_box() or {}
    box: Any = page.locator(".span.chosen .box").first.bounding_box() or {}
    middle = (box["x"] + box["width"] / 2 - track["x"]) / track["width"]
    at = (row["start"] + row["end"]) / 2 / told["duration"]
    assert abs(middle - 0.5) < 0.02 or at < 0.25 or at > 0.75  # at its ends, the turn does not go on
    page.keyboard.press("Enter")
    box = page.locator(".span.chosen .box").first.bounding_box() or {}
    assert box["width"] > track["width"] * 0.9


def test_a_tap_in_a_narrow_window_shows_the_details(open_page: Callable[..., Page], viewer: Viewer) -> None:
    page = open_page(width=400, height=800)
    open_turn(page, viewer, SHOP)
    page.locator("#failed li a").click()
    note = page.locator(".detail .note.error")
    expect(note).to_be_in_viewport()
    tools = page.locator(".span.tool .label")
    assert tools.count()
    assert all((each.bounding_box() or {"width": 0})["width"] > 20 for each in tools.all()[:5])
    page.evaluate("scrollTo(0, 0)")
    page.locator(".span.tool").first.click()
    expect(page.locator(".detail h2")).to_be_in_viewport()


def test_how_long_it_took_stands_beside_the_bar(page: Page, viewer: Viewer) -> None:
    for session_id in (SHOP, PLANNED, RETRIED):
        for turn in viewer.index.read("SELECT turn FROM turns WHERE session_id = ?", [session_id]):
            open_turn(page, viewer, session_id, turn[0])
            over = page.locator(".track").evaluate_all(
                """tracks => tracks.filter((track) => {
                  const told = track.querySelector(".took:not(.inside)")?.getBoundingClientRect();
                  const boxes = [...track.querySelectorAll(".box, .wait")].map((each) => each.getBoundingClientRect());
                  return told && boxes.some((box) => box.left < told.right && told.left < box.right);
                }).length"""
            )
            assert over == 0
    # A wait for an answer is no answer of the conversation.
    content = page.evaluate(
        "() => { const wait = document.createElement('i'); wait.className = 'wait answer';"
        " document.querySelector('.track').append(wait); return getComputedStyle(wait, '::before').content; }"
    )
    assert content == "none"
