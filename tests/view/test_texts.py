"""Texts of transcripts as HTML in which nothing runs."""

from __future__ import annotations

from cc_trace.view import ansi, diff, folding, markdown


def test_markdown_runs_and_fetches_nothing() -> None:
    html = markdown.to_html(
        "<script>alert(1)</script> <img src=x onerror=y> [a](javascript:alert(1)) ![p](http://evil.example/p.png)"
        " [b](data:text/html,x) [ok](https://example.com)"
    )
    assert "<script" not in html
    assert "<img" not in html
    assert 'href="javascript' not in html
    assert 'href="data' not in html
    assert 'href="https://example.com"' in html


def test_terminal_output_has_colours_and_no_other_sequence() -> None:
    assert ansi.to_html("\x1b[31mred\x1b[0m <b>\x1b]8;;http://x\x07link\x1b]8;;\x07\x1b[2J") == (
        '<span class="ansi-fg-red">red</span> &lt;b&gt;link'
    )
    assert ansi.to_html("10%\r100%\n\x1b[38;5;196mx") == '100%\n<span class="ansi-fg-bright-red">x</span>'


def test_direction_marks_are_shown() -> None:
    assert "\u202e" not in ansi.to_html("a\u202eb")
    assert "\u202e" not in markdown.to_html("a\u202eb")
    assert "\u202e" not in folding.to_html({"a\u202e": "b\u202e"})


def test_an_edit_is_a_diff_with_the_numbers_of_the_file() -> None:
    lines = diff.of_call("Edit", {"file_path": "a.txt", "old_string": "x\ny", "new_string": "x\nz"}, "  7→x\n  8→z")
    assert lines is not None
    assert [(line.kind, line.old, line.new, str(line.html)) for line in lines] == [
        ("same", 7, 7, "x"),
        ("removed", 8, None, "y"),
        ("added", None, 8, "z"),
    ]
