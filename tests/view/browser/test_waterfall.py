"""A turn's waterfall in a real Chromium: boxes lie where their times say, waits are drawn as waits, zoom and pan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from cc_trace.view import figures

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
    page.locator("#failed li a").first.click()
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


def track_of(page: Page, place: int) -> Any:
    return page.locator(".track").nth(place).bounding_box() or {}


def test_a_drag_over_the_bars_pans_and_the_wheel_too(page: Page, viewer: Viewer) -> None:
    """A drag is no click, and a click without a drag still chooses."""
    told = open_turn(page, viewer, SHOP)
    ticks: Any = page.locator("#ticks").bounding_box() or {}

    def begin() -> float:
        left, width, _ = boxes(page, ".box")[told["rows"][0]["id"]][0]
        return float(-left / width * told["duration"])

    def drag(x: float, by: float, y: float) -> None:
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + by, y, steps=4)
        page.mouse.up()

    drag(ticks["x"] + ticks["width"] * 0.25, ticks["width"] * 0.5, ticks["y"] + 10)
    page.wait_for_selector("#waterfall.zoomed")
    shown, chosen = begin(), page.locator(".span.chosen").get_attribute("data-id")
    drag(ticks["x"] + ticks["width"] / 2, ticks["width"] / 5, ticks["y"] + 200)
    assert abs(shown - begin() - told["duration"] * 0.1) < told["duration"] * 0.01
    assert page.locator(".span.chosen").get_attribute("data-id") == chosen
    shown = begin()
    page.mouse.wheel(100, 0)
    page.wait_for_timeout(100)
    assert begin() > shown
    page.mouse.click(ticks["x"] + ticks["width"] / 2, ticks["y"] + 200)
    expect(page.locator(".span.chosen")).not_to_have_attribute("data-id", chosen or "")


def test_the_rows_on_the_screen_fill_the_time_axis(page: Page, viewer: Viewer) -> None:
    told = open_turn(page, viewer, SHOP)
    page.locator("#scroll").evaluate("each => { each.style.flex = 'none'; each.style.height = '104px'; }")
    page.locator("#waterfall").focus()
    page.keyboard.press("f")
    page.wait_for_selector("#waterfall.zoomed")
    inner = [row for row in told["rows"][:4] if row["kind"] not in ("turn", "subagent")]
    first, last = min(inner, key=lambda row: row["start"]), max(inner, key=lambda row: row["end"])
    found = boxes(page, ".box")
    assert 0 <= found[first["id"]][0][0] < found[first["id"]][0][2] * 0.05
    left, width, track = found[last["id"]][0]
    assert track * 0.9 < left + width <= track


def test_the_time_at_the_pointer_is_told_and_marks_run_through_the_rows(page: Page, viewer: Viewer) -> None:
    told = open_turn(page, viewer, SHOP)
    track = track_of(page, 2)
    page.mouse.move(track["x"] + track["width"] / 2, track["y"] + 5)
    half = told["duration"] / 2
    start_ns = viewer.index.read("SELECT MIN(start_ns) FROM spans WHERE session_id = ? AND turn = 1", [SHOP])[0][0]
    texts = {
        f"{figures.duration(at)} · {figures.clock(start_ns + round(at * 1e6))}" for at in (half - 20, half, half + 20)
    }
    assert page.locator(".cursor").inner_text() in texts
    assert "gradient" in page.locator(".track").nth(2).evaluate("each => getComputedStyle(each).backgroundImage")
    mark: Any = page.locator(".tick").nth(1).bounding_box() or {}
    share = float(page.locator(".tick").nth(1).evaluate("each => each.style.left").rstrip("%")) / 100
    assert abs(mark["x"] - (track["x"] + share * track["width"])) <= 1  # however wide the scroll bar is
    page.mouse.move(5, 5)
    expect(page.locator(".cursor")).to_have_count(0)


@pytest.mark.parametrize("width", [400, 700, 1280])
def test_no_mark_of_the_time_axis_is_cut(open_page: Callable[..., Page], viewer: Viewer, width: int) -> None:
    page = open_page(width=width)
    open_turn(page, viewer, SHOP)
    for _ in range(6):
        room = page.locator("#ticks").evaluate("each => each.getBoundingClientRect().right")
        ends = page.locator(".tick").evaluate_all("all => all.map(each => each.getBoundingClientRect().right)")
        assert ends
        assert max(ends) <= room
        page.locator("#zoom-in").evaluate("each => each.click()")


def test_kinds_of_waits_have_their_own_colours_and_lengths(page: Page, viewer: Viewer) -> None:
    colours = {}
    for session_id, kind, words in (
        (SHOP, "hook", "for a hook"),
        (RETRIED, "retry", "before a retry"),
        (PLANNED, "permission", "for your permission"),
    ):
        found = viewer.index.read(
            "SELECT turn, span_id FROM spans WHERE session_id = ? AND waits LIKE ? ORDER BY turn LIMIT 1",
            [session_id, f'%"{kind}"%'],
        )[0]
        told = open_turn(page, viewer, session_id, found["turn"])
        row = next(row for row in told["rows"] if row["id"] == found["span_id"])
        wait = page.locator(f'.span[data-id="{row["id"]}"] .wait').first
        colours[kind] = wait.evaluate("each => getComputedStyle(each).boxShadow")
        assert words in (wait.get_attribute("title") or "")
        end = max([row["end"] or row["start"], *(stop for _, _, stop in row["waits"])])
        expect(page.locator(f'.span[data-id="{row["id"]}"] .took')).to_have_text(figures.duration(end - row["start"]))
    assert len(set(colours.values())) == 3


@pytest.mark.parametrize(("handle", "widened"), [("#steps-divider", ".tree"), ("#pane-divider", "#waterfall")])
def test_columns_can_be_widened_and_stay_so(page: Page, viewer: Viewer, handle: str, widened: str) -> None:
    open_turn(page, viewer, SHOP)
    before: Any = page.locator(widened).first.bounding_box() or {}
    bar: Any = page.locator(handle).bounding_box() or {}
    x, y = bar["x"] + bar["width"] / 2, bar["y"] + 10
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 80, y, steps=4)
    page.mouse.up()
    page.goto(viewer.url(f"/sessions/{SHOP}/turns/2"))
    page.wait_for_selector(".detail-body")
    after: Any = page.locator(widened).first.bounding_box() or {}
    assert abs(after["width"] - before["width"] - 80) < 12
    page.locator(handle).dblclick(position={"x": 2, "y": 5})
    again: Any = page.locator(widened).first.bounding_box() or {}
    assert abs(again["width"] - before["width"]) < 1


def test_keys_are_for_the_chosen_span(page: Page, viewer: Viewer) -> None:
    """Also after a click on what stands out, whose link has been clicked and needs no Enter."""
    told = open_turn(page, viewer, SHOP)
    page.locator("#failed li a").first.click()
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


def test_a_turn_with_errors_is_not_ok(page: Page, viewer: Viewer) -> None:
    open_turn(page, viewer, SHOP)
    told = page.locator("#turn-head .status").inner_text()
    assert "error" in told
    page.locator(".span.turn").click()
    expect(page.locator(".detail h2 .status")).to_have_text(told)


def test_a_tap_in_a_narrow_window_shows_the_details(open_page: Callable[..., Page], viewer: Viewer) -> None:
    page = open_page(width=400, height=800)
    open_turn(page, viewer, SHOP)
    page.locator("#failed li a").first.click()
    note = page.locator(".detail .note.error")
    expect(note).to_be_in_viewport()
    tools = page.locator(".span.tool .label")
    assert tools.count()
    assert all((each.bounding_box() or {"width": 0})["width"] > 20 for each in tools.all()[:5])
    page.locator("#to-row").click()
    expect(page.locator(".span.chosen .name")).to_be_in_viewport()
    page.locator(".span.tool").first.click()
    expect(page.locator(".detail h2")).to_be_in_viewport()
    expect(page.locator("#to-row")).to_be_in_viewport()


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
