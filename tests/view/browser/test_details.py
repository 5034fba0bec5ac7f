"""What the detail pane shows of each kind of span in a real Chromium, and what it makes of hostile texts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from cc_trace.store import plain
from cc_trace.view import pages

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page
    from viewer import Viewer

MADE = "11111111-0000-4000-8000-000000000001"
SHOP = "5403f1c5-0000-4000-8000-000000000001"
RETRIED = "eeeeeeee-0000-4000-8000-000000000001"


def open_tool(page: Page, viewer: Viewer, name: str, turn: int = 1, session_id: str = MADE) -> str:
    """Open the first call of a tool in a turn."""
    found = viewer.index.read(
        "SELECT span_id FROM spans WHERE session_id = ? AND turn = ? AND kind = 'tool'"
        " AND json_extract(span, '$.tool.name') = ? ORDER BY place",
        [session_id, turn, name],
    )
    return open_span(page, viewer, found[0][0])


def open_span(page: Page, viewer: Viewer, span_id: str) -> str:
    page.goto(viewer.url(f"/spans/{span_id}"))
    page.wait_for_selector(f'.detail-body[data-span="{span_id}"]')
    return span_id


def test_an_edit_is_seen_as_a_diff(page: Page, viewer: Viewer) -> None:
    open_tool(page, viewer, "Edit")
    removed, added = page.locator(".diff tr.removed"), page.locator(".diff tr.added")
    expect(removed).to_have_count(1)
    expect(removed.locator(".l")).to_have_text("    return 1")
    expect(added.locator(".l")).to_have_text("    return 2")
    expect(added.locator(".k")).to_have_text("return")  # coloured as Python
    colours = [row.evaluate("row => getComputedStyle(row).backgroundColor") for row in (removed, added)]
    assert colours[0] != colours[1]
    plain, keyword = (
        added.locator(each).first.evaluate("each => getComputedStyle(each).color") for each in (".l", ".k")
    )
    assert plain != keyword


def test_all_diffs_of_a_file_are_on_one_page(page: Page, viewer: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the edits. Those that are too many are links."""
    page.goto(viewer.url(f"/sessions/{MADE}"))
    page.locator("#files").get_by_role("link", name="a.py").click()
    page.wait_for_url("**/spans?**")
    expect(page.locator("#sums")).to_contain_text("+3 \N{MINUS SIGN}3")
    expect(page.locator(".picked a.row .c-title b")).to_have_text(["Edit 1 of 2", "Edit 2 of 2"])
    diffs = page.locator(".edit-diff .diff")
    expect(diffs).to_have_count(2)
    expect(diffs.nth(0).locator("tr.added .l")).to_have_text(["    return 2"])
    expect(diffs.nth(1).locator("tr.added .l")).to_have_text(["a = 2", "b = 2"])
    for limit, value in (("_MAX_DIFFS", 1), ("_MAX_DIFF_LINES", 3)):
        with monkeypatch.context() as patch:
            patch.setattr(pages, limit, value)
            page.reload()
        expect(page.locator(".edit-diff .diff")).to_have_count(1)
        expect(page.locator(".edit-diff.quiet")).to_have_count(1)
    page.locator(".edit-diff.quiet a").click()
    expect(page.locator(".detail .diff tr.added .l")).to_have_text(["a = 2", "b = 2"])


@pytest.mark.parametrize(("tool", "removed", "added"), [("Write", 0, 2), ("MultiEdit", 2, 2)])
def test_other_edits_are_diffs_too(page: Page, viewer: Viewer, tool: str, removed: int, added: int) -> None:
    open_tool(page, viewer, tool)
    expect(page.locator(".diff tr.removed")).to_have_count(removed)
    expect(page.locator(".diff tr.added")).to_have_count(added)
    padded = page.locator(".diff .l span").evaluate_all(
        "spans => spans.filter(span => getComputedStyle(span).padding !== '0px').map(span => span.className)"
    )
    assert padded == []  # code keeps its columns, whatever its highlighting's classes are called


def test_a_failing_command_is_seen_with_its_colours(page: Page, viewer: Viewer) -> None:
    open_tool(page, viewer, "Bash")
    expect(page.locator("pre.command")).to_have_text("pytest -q")
    expect(page.locator(".detail .note.error")).to_have_text("1 failed")
    page.locator(".section.terminal > summary", has_text="All of the output, 1 line").click()  # it has colours
    red = page.locator("pre.terminal .ansi-fg-red")
    expect(red).to_have_text("1 failed")
    assert red.evaluate("each => getComputedStyle(each).color") == "rgb(224, 108, 117)"
    expect(page.locator(".detail .note.error")).to_be_visible()
    expect(page.locator(".detail h2 .status.error")).to_be_visible()


def test_an_error_shows_its_cause_and_its_end_once(page: Page, viewer: Viewer) -> None:
    failed = viewer.index.read(
        "SELECT span_id, json_extract(span, '$.output') output FROM spans WHERE kind = 'tool' AND status = 'error'"
        " AND substr(output, 1, 1) NOT IN ('{', '[') AND output NOT LIKE '%hostile%'"
        " ORDER BY LENGTH(output) DESC LIMIT 12"
    )
    for span_id, output in failed:
        open_span(page, viewer, span_id)
        note = " ".join(page.locator(".detail .note.error").inner_text().split())
        last = [line for line in plain(output).split("\n") if line.strip()][-1]
        assert " ".join(last.split())[:100] in note
        assert page.locator(".section.terminal[open]").count() == 0
        whole = page.locator(".section.terminal > summary", has_text="All of the output")
        if len(output) > 3_000:
            expect(whole).to_have_text(f"All of the output, {output.strip().count(chr(10)) + 1:,} lines")
            whole.click()
            expect(page.locator("pre.terminal")).to_be_visible()


def test_an_edit_says_which_it_is_and_where_its_lines_are(page: Page, viewer: Viewer) -> None:
    """Its numbers are those of Claude Code's own patch; where there is none, there are no numbers."""
    open_tool(page, viewer, "Edit")
    assert set(page.locator(".diff .n").all_inner_texts()) == {""}
    expect(page.locator(".note.edit")).to_contain_text("Edit 1 of 2 of this file")
    page.locator(".note.edit a").click()
    page.wait_for_url("**/spans?**")
    expect(page.locator("a.row .c-title b")).to_have_text(["Edit 1 of 2", "Edit 2 of 2"])
    page.locator("a.row").nth(1).click()
    expect(page.locator(".note.edit")).to_contain_text("Edit 2 of 2 of this file")
    patches = {}
    for path in viewer.projects.glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if '"structuredPatch":[{' in line:
                told = json.loads(line)
                hunks = told["toolUseResult"]["structuredPatch"]
                patches[told["message"]["content"][0]["tool_use_id"]] = hunks
    edits = viewer.index.read(
        "SELECT span_id, json_extract(span, '$.tool.id') call FROM spans WHERE tool = 'Edit' AND status = 'ok'"
        " AND copied = 0 ORDER BY session_id, turn, place"
    )
    known = [(span_id, patches[call]) for span_id, call in edits if len(patches.get(call, [])) == 1][:8]
    assert known
    for span_id, (hunk,) in known:
        open_span(page, viewer, span_id)
        for sign, column, start in (("-", 0, hunk["oldStart"]), ("+", 1, hunk["newStart"])):
            own = [line for line in hunk["lines"] if line[:1] in (" ", sign)]
            expected = {start + place: line[1:] for place, line in enumerate(own)}
            cells = page.locator(".diff tr").evaluate_all(
                "(rows, at) => rows.map(row => [row.querySelectorAll('.n')[at].textContent,"
                " row.querySelector('.l').textContent])",
                column,
            )
            numbered = [(int(number), text) for number, text in cells if number]
            assert any(number in expected for number, _ in numbered) or not any(line[0] == sign for line in own)
            assert all(text.strip() in expected.get(number, text) for number, text in numbered)


def test_calls_of_a_response_lead_to_their_steps(page: Page, viewer: Viewer) -> None:
    found = viewer.index.read(
        "SELECT own.span_id, call.span_id called, call.label FROM spans own JOIN spans call ON"
        " call.parent_id = own.span_id AND call.session_id = own.session_id WHERE own.session_id = ? AND own.turn = 1"
        " AND own.kind = 'generation' AND call.kind = 'tool' ORDER BY own.place, call.place",
        [SHOP],
    )[0]
    open_span(page, viewer, found["span_id"])
    link = page.locator(".section.calls a").first
    expect(link).to_contain_text(found["label"])
    link.click()
    page.wait_for_selector(f'.detail-body[data-span="{found["called"]}"]')
    expect(page.locator(".span.chosen")).to_have_attribute("data-id", found["called"])


def test_an_image_in_a_prompt_is_shown(page: Page, viewer: Viewer) -> None:
    """In a title it is named in short."""
    pasted = viewer.index.read(
        "SELECT session_id, turn, span_id FROM spans WHERE kind = 'turn'"
        " AND json_extract(span, '$.input') LIKE '%[image image/png%' LIMIT 1"
    )[0]
    page.goto(viewer.url(f"/sessions/{pasted['session_id']}"))
    image = page.locator(".prompt img.shown")
    image.scroll_into_view_if_needed()
    page.wait_for_function("image => image.naturalWidth === 3", arg=image.element_handle())
    open_span(page, viewer, pasted["span_id"])
    expect(page.locator(".detail img.shown")).to_be_visible()
    assert "sha256" not in page.locator("#turn-head").inner_text() + page.locator("#waterfall").inner_text()


def test_a_small_cache_miss_says_why(page: Page, viewer: Viewer) -> None:
    """Though it is no warning."""
    missed = viewer.index.read(
        "SELECT span_id FROM spans WHERE session_id = ? AND agent = '' AND cache_miss IS NOT NULL"
        " AND cache_miss <> 'first request' LIMIT 1",
        [SHOP],
    )[0]
    open_span(page, viewer, missed["span_id"])
    expect(page.locator(".detail .note.small-miss")).to_contain_text("Cache miss of ")


def test_what_nobody_typed_is_shown_with_its_sender(page: Page, viewer: Viewer) -> None:
    sent = viewer.index.read(
        "SELECT session_id, span_id, name FROM spans WHERE kind = 'turn'"
        " AND json_extract(span, '$.metadata.trigger') = 'teammate'"
    )[0]
    page.goto(viewer.url(f"/sessions/{sent['session_id']}"))
    assert page.locator(".prompt").last.get_attribute("data-who") == "Agent r"
    expect(page.locator(".prompt").last).to_have_text('{"type":"idle_notification"}')
    notified = viewer.index.read(
        "SELECT span_id FROM spans WHERE session_id = ? AND name = 'notification'",
        ["cccccccc-0000-4000-8000-000000000001"],
    )[0]
    for span_id, sender, text in (
        (sent["span_id"], "Agent r", '{"type":"idle_notification"}'),
        (notified["span_id"], "Notification", 'Agent "count things" finished'),
    ):
        open_span(page, viewer, span_id)
        section = page.locator(".detail .section.chat", has=page.locator("summary", has_text=sender))
        expect(section).to_contain_text(text)
        expect(page.locator(".span.chosen .label")).to_contain_text(text)
        assert "<t" not in section.inner_text() + page.locator("#waterfall").inner_text()


def test_a_hook_shows_its_command(page: Page, viewer: Viewer) -> None:
    span_id = viewer.index.read("SELECT span_id FROM spans WHERE session_id = ? AND name = 'hook'", [SHOP])[0][0]
    open_span(page, viewer, span_id)
    expect(page.locator("pre.command")).to_have_text("sh .claude/check.sh")


@pytest.mark.parametrize(("session_id", "turn", "width"), [(MADE, 1, 3), (SHOP, 3, None)])
def test_an_image_is_shown_as_one(page: Page, viewer: Viewer, session_id: str, turn: int, width: int | None) -> None:
    open_tool(page, viewer, "Read", turn, session_id)
    image = page.locator(".detail img.shown")
    expect(image).to_be_visible()
    expect(image).not_to_have_js_property("naturalWidth", 0)
    if width is not None:
        expect(image).to_have_js_property("naturalWidth", width)
    # Only what it is stands in the store, not the image itself.
    assert viewer.index.read("SELECT COUNT(*) FROM spans WHERE span LIKE '%iVBORw0KGgo%'")[0][0] == 0


def test_searches_and_files_are_compact(page: Page, viewer: Viewer) -> None:
    open_tool(page, viewer, "Grep")
    expect(page.locator("p.asked")).to_contain_text("pattern rounding")
    expect(page.locator("pre.terminal")).to_contain_text("a.py:1")
    open_tool(page, viewer, "Read", 1, SHOP)
    expect(page.locator(".section.file .lines .n").first).to_have_text("1")


def test_a_list_of_things_to_do_is_one(page: Page, viewer: Viewer) -> None:
    open_tool(page, viewer, "TodoWrite")
    expect(page.locator(".todo .done")).to_have_text("look")
    expect(page.locator(".todo .doing")).to_have_text("fix")


def test_what_is_unknown_is_json_that_folds(page: Page, viewer: Viewer) -> None:
    open_tool(page, viewer, "mcp__tickets__search")
    inner = page.locator(".section.input .json details details").first
    expect(inner.locator("> .j-row").first).to_be_visible()
    inner.locator("> summary").click()
    expect(inner.locator("> .j-row").first).to_be_hidden()
    expect(page.locator(".section.json-value .j-text").first).to_have_text("T-1")


def test_what_an_agent_was_asked_and_said_is_markdown_too(page: Page, viewer: Viewer) -> None:
    span_id = viewer.index.read("SELECT span_id FROM spans WHERE kind = 'subagent' AND session_id = ?", [SHOP])[0][0]
    open_span(page, viewer, span_id)
    expect(page.locator(".section.chat > summary")).to_have_text(["Prompt", "Answer"])


def test_an_answer_is_markdown(page: Page, viewer: Viewer) -> None:
    page.goto(viewer.url(f"/sessions/{MADE}"))
    answer = page.locator(".turn").first.locator(".answer")
    expect(answer.locator("strong")).to_have_text("fixed")
    expect(answer.locator("li")).to_have_count(2)
    expect(answer.locator("pre.code .k").first).to_have_text("return")


def test_a_retried_request_says_so(page: Page, viewer: Viewer) -> None:
    retried = viewer.index.read(
        "SELECT span_id FROM spans WHERE session_id = ? AND name = 'api_retry' ORDER BY place", [RETRIED]
    )[0][0]
    open_span(page, viewer, retried)
    expect(page.locator(".detail .note.retry")).to_contain_text("with status 529")
    answered = viewer.index.read(
        "SELECT span_id, json_extract(span, '$.metadata.attempts') attempts FROM spans WHERE session_id = ?"
        " AND kind = 'generation' AND attempts > 1",
        [RETRIED],
    )[0]
    open_span(page, viewer, answered[0])
    expect(page.locator(".detail .note.retry")).to_contain_text(f"{answered[1]} attempts")


def test_the_exact_request_is_read_when_it_is_opened(page: Page, viewer: Viewer) -> None:
    found = viewer.index.read(
        "SELECT span_id FROM spans WHERE session_id = ? AND kind = 'generation' ORDER BY turn, place",
        [SHOP],
    )[0]
    open_span(page, viewer, found[0])
    page.locator(".section.request > summary").click()
    sent = page.locator(".section.request .sent")
    expect(sent.locator("> details > summary b")).to_have_text(["Parameters", "System prompt", "Tools", "Messages"])
    sent.locator("> details").nth(2).locator("> summary").click()
    expect(sent.locator("details summary b", has_text="Bash").first).to_be_visible()
    # It is not kept.
    assert viewer.index.read("SELECT COUNT(*) FROM spans WHERE span LIKE '%input_schema%'")[0][0] == 0


def test_numbers_of_a_response_are_the_stores(page: Page, viewer: Viewer) -> None:
    found = viewer.index.read(
        "SELECT span_id, json_extract(span, '$.response.usage') usage, cost_usd FROM spans WHERE session_id = ?"
        " AND kind = 'generation' ORDER BY turn, place LIMIT 1",
        [MADE],
    )[0]
    open_span(page, viewer, found[0])
    facts = dict(
        zip(
            page.locator(".facts").first.locator("dt").all_inner_texts(),
            page.locator(".facts").first.locator("dd").all_inner_texts(),
            strict=True,
        )
    )
    assert facts["Cost"] == f"${found['cost_usd']:.4f}"
    assert facts["Uncached input"] == "12"
    assert facts["Cache read"] == "50,000 (94 %)"
    assert facts["Cache write"] == "3,000"
    assert facts["Output"] == "400"


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_of_a_hostile_transcript_runs_or_breaks_the_page(
    open_page: Callable[..., Page], viewer: Viewer, width: int
) -> None:
    """What it tries to fetch or run would be a request to another host or an error, which end the test."""
    page = open_page(width=width)
    spans = viewer.index.read("SELECT span_id FROM spans WHERE session_id = ? AND turn = 2", [MADE])
    assert len(spans) > 4
    turn = f"/sessions/{MADE}/turns/2"
    for path in (
        "/",
        f"/sessions/{MADE}",
        turn,
        "/insights",
        "/spans?kind=tool",
        "/spans?tool=%3Cscript%3Ealert(1)%3C/script%3E",
        "/search?q=hostile",
        "/search?q=%3Cimg+src=x+onerror=alert(1)%3E",
        *(f"{turn}?span={each[0]}" for each in spans),
    ):
        page.goto(viewer.url(path))
        if "span=" in path:
            page.wait_for_selector(f'.detail-body[data-span="{path.rpartition("=")[2]}"]')
            for summary in page.locator(".detail details:not([open]) > summary").all()[:20]:
                if summary.is_visible():
                    summary.click()
        assert page.evaluate("window.ran") is None
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert (
            page.locator("a[href^='javascript'], a[href^='data'], img[src^='http'], iframe, main script").count() == 0
        )
        text = page.locator("body").inner_text()
        assert not set(text) & set("\x1b\x07\u202e\u2066\u2069")
