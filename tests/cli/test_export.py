"""`cc-trace export`: one file, masked, in which nothing of a session acts."""

from __future__ import annotations

import json
import re
import stat
from collections import defaultdict
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from lines import prompt, reply, session
from viewer import HOSTILE, copy_cases, write_made

from cc_trace.cli import main
from cc_trace.spans import Session

if TYPE_CHECKING:
    from pathlib import Path

KEY = "sk-ant-api03-" + "Zx8vQ2mN" * 11 + "AA"


def exported(projects: Path, name: str, *more: str) -> str:
    """Export the only session there is; return the file's text."""
    out = projects.parents[2] / name
    assert main(["export", next(projects.glob("*.jsonl")).stem, "-o", str(out), *more]) == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    return out.read_text()


class Page(HTMLParser):
    """The elements of a page, their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_page_has_the_content_and_no_active_elements(projects: Path) -> None:
    write_made(projects)
    text = exported(projects, "a.html")
    page = Page(text)
    assert "Fix the test" in page.text
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [A-Z]", page.text)  # with the name of the time zone
    assert "1 failed" in page.text
    allowed = {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "h1",
        "h2",
        "p",
        "section",
        "pre",
        "details",
        "summary",
    }
    assert page.elements <= allowed | {"b", "span", "div", "svg", "rect"}
    assert not {name for name in page.attributes if name.startswith("on")} | page.attributes & {"href", "src", "style"}
    assert re.search(r"content=\"default-src 'none'; style-src 'sha256-[^']+'; ", text)
    assert "<script>" in page.text  # as text
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert HOSTILE not in text


@pytest.mark.parametrize("name", ["a.html", "a.json", "a.perfetto.json"])
def test_exports_are_masked(projects: Path, tmp_path: Path, name: str) -> None:
    copy_cases(projects, "2.1.325--shop")
    path = next(projects.glob("*.jsonl"))
    path.write_text(path.read_text().replace("discounts", f"discounts {KEY}"))
    text = exported(projects, name)
    assert "discounts" in text
    assert KEY not in text
    (tmp_path / ".config" / "cc-trace").mkdir(parents=True)
    (tmp_path / ".config" / "cc-trace" / "config.toml").write_text('content = "metadata"\n')
    assert "discounts" not in exported(projects, name)


def test_json_has_every_span(projects: Path) -> None:
    copy_cases(projects, "2.1.325--c2_parallel_subagents")
    spans = list(Session(next(projects.glob("*.jsonl"))).spans())
    made = json.loads(exported(projects, "a.json"))
    assert [span["span_id"] for span in made["spans"]] == [span.span_id for span in spans]
    assert made["session"]["turns"] == 1


def test_a_session_whose_transcript_is_gone_is_exported_from_the_store(projects: Path, tmp_path: Path) -> None:
    copy_cases(projects, "2.1.325--shop")
    path = next(projects.glob("*.jsonl"))
    spans = json.loads(exported(projects, "a.json"))["spans"]
    assert main(["sessions"]) == 0
    path.unlink()
    out = tmp_path / "b.json"
    assert main(["export", path.stem[:6], "-o", str(out)]) == 0
    assert json.loads(out.read_text())["spans"] == spans
    assert main(["export", path.stem, "--turn", "2", "-o", str(out)]) == 0
    assert {span["turn"] for span in json.loads(out.read_text())["spans"]} == {2}
    (tmp_path / ".config" / "cc-trace").mkdir(parents=True)
    (tmp_path / ".config" / "cc-trace" / "config.toml").write_text('mask = ["discounts"]\n')
    assert "discounts" in out.read_text()
    assert main(["export", path.stem, "-o", str(out)]) == 0
    assert "discounts" not in out.read_text()


def test_one_turn(projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_cases(projects, "2.1.325--shop")
    made = json.loads(exported(projects, "a.json", "--turn", "2"))
    assert {span["turn"] for span in made["spans"]} == {2}
    assert main(["export", "5403f1", "--turn", "9", "-o", str(projects / "b.json")]) == 2
    assert main(["export", "5403f1", "-o", str(projects / "b.txt")]) == 2
    assert "--output must end with .html, .json or .perfetto.json, not b.txt" in capsys.readouterr().err


@pytest.mark.parametrize("case", ["2.1.325--c2_parallel_subagents", "2.1.325--shop", "2.1.325--b_tools"])
def test_perfetto_has_a_track_per_agent_on_which_slices_nest(projects: Path, case: str) -> None:
    copy_cases(projects, case)
    spans = list(Session(next(projects.glob("*.jsonl"))).spans())
    events: list[dict[str, Any]] = json.loads(exported(projects, "a.perfetto.json"))["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    timed = {span.span_id: span for span in spans if span.start_ns is not None and span.end_ns is not None}
    assert {event["args"]["span_id"] for event in slices} == timed.keys()
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    tracks: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for event in slices:
        span = timed[event["args"]["span_id"]]
        assert event["pid"] == 1
        assert event["ts"] == pytest.approx((span.start_ns or 0) / 1000)
        assert names[event["tid"]].startswith("main thread" if span.agent_id is None else str(span.agent_name))
        assert (span.agent_id or "main thread") in names[event["tid"]]
        tracks[event["tid"]].append((span.start_ns or 0, span.end_ns or 0))
    for lane in tracks.values():
        for start, end in lane:
            for other_start, other_end in lane:
                assert not start < other_start < end < other_end


def test_a_folder_that_is_not_there_is_one_clear_line(projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_made(projects)
    out = projects / "nowhere" / "a.html"
    assert main(["export", next(projects.glob("*.jsonl")).stem, "-o", str(out)]) == 2
    assert capsys.readouterr().err == f"cc-trace: cannot write {out}: No such file or directory\n"


def test_page_shows_text_instead_of_json(projects: Path) -> None:
    """Without a title of Claude Code's it has what was asked; a row says what was answered or run, and is no JSON."""
    copy_cases(projects, "2.1.325--b_tools")
    text = exported(projects, "a.html")
    summaries = re.findall(r"<summary>.*?</summary>", text)
    assert summaries
    assert not [each for each in summaries if "{&quot;" in each]
    titles = re.findall(r"<title>(.*?)</title>", text)
    assert titles != [next(projects.glob("*.jsonl")).stem]


def test_texts_that_were_cut_do_not_end_in_half_a_secret(projects: Path) -> None:
    text = "Use it, " * 22 + KEY
    later = "Not answered: " + "x" * 300
    session(projects, prompt(text, 0), reply("m1", "It is " + "there, " * 68 + KEY, at=1), prompt(later, 2))
    told = json.loads(exported(projects, "a.json"))["session"]
    assert told["goal"].endswith("Use it,")
    assert told["latest_output"].endswith("there,")
    assert told["unanswered_prompts"] == [later]
