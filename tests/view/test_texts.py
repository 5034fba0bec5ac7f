"""Texts of transcripts as HTML in which nothing runs, and numbers as people read them.

What is rounded is never told in a unit that it has outgrown, nor as nothing or everything.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from cc_trace.transcript import Hunk
from cc_trace.view import ansi, diff, failure, figures, folding, markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cc_trace.transcript import JsonValue


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


def test_edits_of_one_call_have_the_numbers_of_the_file() -> None:
    """Not where two places could be meant, or where the file's line is not the one that is shown."""
    edits: list[JsonValue] = [
        {"old_string": "a = 1", "new_string": "a = 2"},
        {"old_string": "b()\nc = 1", "new_string": "b()\nd = 0\nc = 2"},
        {"old_string": "twice", "new_string": "thrice"},
        {"old_string": "[MASKED]", "new_string": "[MASKED] more"},
    ]
    hunks = [
        Hunk(4, 4, [" x", "-a = 1", "+a = 2", " y"]),
        Hunk(20, 20, [" b()", "-c = 1", "+d = 0", "+c = 2", " z", "-twice", "+thrice"]),
        Hunk(40, 41, ["-twice", "+thrice", "-secret", "+secret more"]),
    ]
    shown = diff.of_call("MultiEdit", {"file_path": "a.py", "edits": edits}, None, hunks)
    assert shown is not None
    assert [(line.kind, line.old, line.new) for line in shown if line.kind != "gap"] == [
        ("removed", 5, None),
        ("added", None, 5),
        ("same", 20, 20),
        ("removed", 21, None),
        ("added", None, 21),
        ("added", None, 22),
        *[("removed", None, None), ("added", None, None)] * 2,
    ]


@pytest.mark.parametrize(
    ("milliseconds", "told"),
    [
        (None, "\N{EN DASH}"),
        (0, "0 ms"),
        (999.4, "999 ms"),
        (999.6, "1.0 s"),
        (59_940, "59.9 s"),
        (59_960, "1 m"),
        (306_000, "5 m 6 s"),
        (3_599_700, "1 h"),
        (25_680_000, "7 h 8 m"),
    ],
)
def test_a_duration(milliseconds: float | None, told: str) -> None:
    assert figures.duration(milliseconds) == told


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (None, "\N{EN DASH}"),
        (0, "0"),
        (999, "999"),
        (1_000, "1.0k"),
        (9_960, "10k"),
        (34_400, "34k"),
        (999_400, "999k"),
        (999_600, "1.0M"),
        (16_327_915, "16M"),
        (2_500_000_000, "2.5G"),
    ],
)
def test_a_short_count(count: int | None, told: str) -> None:
    assert figures.short(count) == told


@pytest.mark.parametrize(
    ("part", "told"), [(0, "0 %"), (1, "< 1 %"), (10, "1 %"), (994, "99 %"), (999, "> 99 %"), (1_000, "100 %")]
)
def test_a_percentage(part: int, told: str) -> None:
    assert figures.percent(part, 1_000) == told
    assert figures.percent(part, 0) == "\N{EN DASH}"


@pytest.mark.parametrize(
    ("usd", "told"), [(None, "\N{EN DASH}"), (0, "$0.00"), (0.00456, "$0.0046"), (1, "$1.00"), (1_234.5, "$1,234.50")]
)
def test_money(usd: float | None, told: str) -> None:
    assert figures.money(usd) == told


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Return what sets the time zone of this process."""

    def chosen(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield chosen
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("zone", "moment", "exactly"),
    [
        ("UTC", "2026-01-31 23:30 UTC", "2026-01-31 23:30:00.500+00:00"),
        ("Europe/Berlin", "2026-02-01 00:30 CET", "2026-02-01 00:30:00.500+01:00"),
        ("America/Sao_Paulo", "2026-01-31 20:30 UTC-03", "2026-01-31 20:30:00.500-03:00"),
    ],
)
def test_a_time_names_its_zone(in_zone: Callable[[str], None], zone: str, moment: str, exactly: str) -> None:
    in_zone(zone)
    time_ns = 1_769_902_200_500_000_000
    assert figures.day_and_time(time_ns) == moment
    assert figures.exactly(time_ns) == exactly
    assert figures.day_and_time(None) == "\N{EN DASH}"
    assert figures.exactly(None) == ""


REFUSAL = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, …)."
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Exit code 3\nout\nerr", "err"),
        ("File does not exist.\nDid you mean a.py?\nOr b.py?", "File does not exist."),
        ("Exit code 1\n$ biome check --error-on-warnings\n a.tsx format\nFound 1 error.", "Found 1 error."),
        ('Bash command failed for pattern "!`git log`": [stderr]\nfatal: bad revision\nUse --', "fatal: bad revision"),
        (
            "InputValidationError: Read failed due to the following issues:\nThe parameter `x` is missing\nAnother",
            "InputValidationError: Read failed due to the following issues: The parameter `x` is missing",
        ),
        ("Exit code 1\ncould not find it\nTraceback (most recent call last):\n  f()\nKeyError: 'a'", "KeyError: 'a'"),
        ("Exit code 1\nThese paths are ignored:\npriv\nhint: use -f\nhint: or not", "These paths are ignored: priv"),
        (REFUSAL, "You said no."),
        (f"{REFUSAL} To tell you how to proceed, the user said:\nlet us talk", "You said: let us talk"),
        ("", ""),
    ],
)
def test_the_line_of_an_error_that_tells_most(text: str, told: str) -> None:
    assert failure.line(text) == told


def test_an_error_is_shown_without_the_tags_that_the_model_sees() -> None:
    assert failure.excerpt("<tool_use_error>Sibling tool call errored</tool_use_error>") == (
        "Sibling tool call errored",
        True,
    )
