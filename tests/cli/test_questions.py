"""`cc-trace sessions`, `usage` and `search`: what they print, and that nothing of it can act."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, get_args

import pytest
from claude_process import ended_pid, write_record
from lines import NOON, SESSION, prompt, reply, result, session, tool_use, write
from viewer import copy_cases

from cc_trace.cli import main
from cc_trace.spans import Session
from cc_trace.store.usage import By

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "\x1b]0;owned\x07 \u202e <script> 100%"


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Ask for JSON."""
    main([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def responses(folder: Path) -> dict[str, Any]:
    """Every response of all sessions once, by its span's id."""
    found = {}
    for path in folder.glob("*.jsonl"):
        for span in Session(path).spans():
            if span.kind == "generation":
                found[span.span_id] = span
    return found


CASES = ("2.1.325--b_tools", "2.1.325--c2_parallel_subagents", "2.1.325--d_resume_fork", "2.1.325--e2_bad_request")


@pytest.mark.parametrize("by", get_args(By))
def test_every_way_to_divide_usage_sums_up_to_what_the_transcripts_say(
    projects: Path, capsys: pytest.CaptureFixture[str], by: str
) -> None:
    copy_cases(projects, *CASES)
    spans = responses(projects).values()
    usages = [span.response.usage for span in spans if span.response.usage is not None]
    made = asked(capsys, "usage", "--by", by)
    total = made["total"]
    assert total["requests"] == len(spans)
    assert total["input_tokens"] == sum(each.input for each in usages)
    assert total["output_tokens"] == sum(each.output for each in usages)
    assert total["cache_read_tokens"] == sum(each.cache_read for each in usages)
    assert total["cache_write_tokens"] == sum(each.cache_write_5m + each.cache_write_1h for each in usages)
    assert total["cost_usd"] == pytest.approx(sum(s.response.cost_usd or 0 for s in spans), abs=1e-5)
    if by != "tool":
        assert total["errors"] == sum(span.status == "error" for span in spans) > 0
    for name in ("requests", "errors", "input_tokens", "output_tokens", "cost_usd"):
        assert sum(row[name] for row in made["rows"]) == pytest.approx(total[name], abs=len(made["rows"]))


def test_usage_by_agent_has_subagents_and_the_main_thread(projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_cases(projects, "2.1.325--c2_parallel_subagents")
    names = [row["name"] for row in asked(capsys, "usage", "--by", "agent")["rows"]]
    assert sorted(names) == ["general-purpose", "main thread"]


def test_usage_by_tool_counts_calls_and_divides_a_response_among_them(
    projects: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session(
        projects,
        prompt("go", 0, cwd="/p"),
        reply("m1", tool_use("t1", "Bash", command="a"), tool_use("t2", "Read", file_path="b"), at=2),
        result("t1", "no", at=4, error=True),
        result("t2", "yes", at=4),
        reply("m2", "done", at=6),
    )
    rows = {row["name"]: row for row in asked(capsys, "usage", "--by", "tool")["rows"]}
    assert [(name, rows[name]["requests"], rows[name].get("calls"), rows[name]["errors"]) for name in sorted(rows)] == [
        ("Bash", 0.5, 1, 1),
        ("Read", 0.5, 1, 0),
        ("no tool", 1, None, 0),
    ]


def test_usage_is_a_table_with_bars(projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_cases(projects, *CASES)
    assert main(["usage", "--by", "model"]) == 0
    head, *rows, total = capsys.readouterr().out.splitlines()
    assert head.split() == ["model", "requests", "errors", "input", "output", "cache", "read", "cache", "write", "cost"]
    assert rows[0].endswith("█" * 24)
    assert total.startswith("total ")
    assert "█" not in total


def test_since_leaves_out_what_was_before(projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_cases(projects, "2.1.325--b_tools")
    assert asked(capsys, "usage", "--since", "2100-01-01")["total"]["requests"] == 0
    assert asked(capsys, "sessions", "--since", "2100-01-01") == []
    assert len(asked(capsys, "sessions", "--since", "2026-01-01")) == 1


def test_sessions_are_listed_the_latest_first(projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_cases(projects, "2.1.325--a_simple", "2.1.325--g1_two_turns_exit", "2.1.325--shop")
    found = asked(capsys, "sessions")
    assert [row["last"] for row in found] == sorted((row["last"] for row in found), reverse=True)
    shop = next(row for row in found if row["project"] == "shop")
    assert shop["turns"] == 5
    assert [row["session_id"] for row in asked(capsys, "sessions", "--project", "shop")] == [shop["session_id"]]
    assert len(asked(capsys, "sessions", "--limit", "2")) == 2
    main(["sessions", "--project", "shop"])
    line = capsys.readouterr().out
    assert shop["session_id"][:8] in line
    assert shop["title"][:20] in line
    assert "5 turns" in line
    assert main(["sessions", "--limit", "0"]) == 2


def test_a_session_that_cost_less_than_a_cent_says_how_much(projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_cases(projects, "2.1.325--a_simple")
    [row] = asked(capsys, "sessions")
    assert 0 < row["cost_usd"] < 0.005
    main(["sessions"])
    assert f" ${row['cost_usd']:.4f} " in capsys.readouterr().out


def test_a_session_whose_process_has_ended_is_idle(projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = (datetime.now(UTC) - NOON).total_seconds()
    session(projects, prompt("hi", now - 5), reply("m1", "hello", at=now - 3, message={"stop_reason": "end_turn"}))
    assert [row["state"] for row in asked(capsys, "sessions")] == ["waiting for input"]
    write_record(projects.parents[1], SESSION, "idle", pid=ended_pid())
    assert [row["state"] for row in asked(capsys, "sessions")] == ["idle"]


def test_search_result_names_its_place(projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session(
        projects,
        prompt("where is the wombat", 0, cwd="/p"),
        reply("m1", tool_use("t1", "Bash", command="grep marsupial"), at=2),
        result("t1", "burrow.txt: kangaroo", at=4),
        reply("m2", "In the platypus file", at=6),
    )
    for word, place in (("wombat", "prompt"), ("marsupial", "Bash"), ("kangaroo", "Bash"), ("platyp", "answer")):
        hit = asked(capsys, "search", word)[0]
        assert (hit["place"], hit["turn"], hit["title"]) == (place, 1, "where is the wombat")
        assert f"[{word}" in hit["snippet"]
    assert main(["search", "nowhere"]) == 1
    assert capsys.readouterr().out == "nothing found\n"


@pytest.mark.parametrize("words", [[""], [" ", "\t"]])
def test_a_search_for_nothing_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", *words]) == 2
    message = "cc-trace: the search text is empty; pass at least one word: `cc-trace search TEXT`\n"
    assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    "text",
    [
        '"',
        "'",
        "a OR",
        "NOT",
        "NEAR(",
        "*",
        "^",
        "col:x",
        "-",
        "--",
        "((",
        "a AND (b",
        "\x00",
        '""',
        "%",
        ";",
        "{",
        "+ +",
    ],
)
def test_search_text_is_never_syntax(projects: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    copy_cases(projects, "2.1.325--a_simple")
    assert main(["search", "--json", "--", text]) in (0, 1)
    json.loads(capsys.readouterr().out)


def test_nothing_that_is_printed_can_drive_the_terminal(projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session(
        projects,
        prompt(HOSTILE, 0, cwd="/p"),
        reply("m1", tool_use("t1", HOSTILE, command=HOSTILE), at=2),
        result("t1", HOSTILE, at=4),
        reply("m2", HOSTILE, at=6),
    )
    for arguments in (["sessions"], ["usage", "--by", "tool"], ["usage", "--by", "session"], ["search", "script"]):
        for more in ([], ["--json"]):
            assert main([*arguments, *more]) == 0
            printed = capsys.readouterr()
            assert "100%" in printed.out
            assert not {"\x1b", "\x07", "\u202e"} & set(printed.out + printed.err)


def test_a_store_that_cannot_be_used_is_said(
    projects: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_cases(projects, "2.1.325--a_simple")
    path = tmp_path / ".claude" / "state" / "cc-trace" / "traces.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"nothing of the kind" * 100)
    assert main(["usage"]) == 2
    said = capsys.readouterr().err
    assert said == f"cc-trace: cannot use the local store {path}: file is not a database; run `cc-trace doctor`\n"


@pytest.mark.parametrize(
    "arguments",
    [["search", "hello"], ["sessions"], ["usage"], ["export", "aaaaaaaa", "-o", "a.json"], ["show", "aaaaaaaa"]],
    ids=lambda arguments: arguments[0],
)
def test_a_destination_that_is_half_configured_does_not_matter(
    projects: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    copy_cases(projects, "2.1.325--a_simple")
    (tmp_path / ".config" / "cc-trace").mkdir(parents=True)
    (tmp_path / ".config" / "cc-trace" / "config.toml").write_text('langfuse_public_key = "pk-lf-1"\n')
    with contextlib.chdir(tmp_path):
        assert main(arguments) == 0
    printed = capsys.readouterr()
    assert printed.out
    assert printed.err == ""
    assert main(["preview", "aaaaaaaa"]) == 2
    assert "destination langfuse needs langfuse_secret_key" in capsys.readouterr().err


def test_errors_of_the_api_are_found(projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_cases(projects, "2.1.325--e2_bad_request")
    assert main(["search", "scripted bad request"]) == 0
    assert "API Error: 400 [scripted] [bad] [request]" in capsys.readouterr().out


def test_a_session_is_found_by_the_beginning_of_its_id(projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_cases(projects, "2.1.325--a_simple", "2.1.325--shop", "2.1.325--c1_subagent", "2.1.325--c2_parallel_subagents")
    assert main(["show", "5403f1"]) == 0
    assert "Session 5403f1c5-" in capsys.readouterr().out
    assert main(["preview", "5403", "--to", "local"]) == 0
    assert capsys.readouterr().out.count("5403f1c5-") > 1
    assert main(["show", "540"]) == 2
    said = capsys.readouterr().err
    assert said == "cc-trace: 540 is too short; type at least 4 characters of the session id\n"


def test_an_empty_session_id_means_no_session(projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A shell's variable that is not set must not stand for the current folder, or for the latest session."""
    copy_cases(projects, "2.1.325--a_simple")
    assert main(["show", ""]) == 2
    assert capsys.readouterr().err.startswith("cc-trace: the session id is empty; ")


def test_ambiguous_session_prefix_is_reported(projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for last in "12":
        session_id = f"abcdef00-0000-4000-8000-00000000000{last}"
        write(projects / f"{session_id}.jsonl", [prompt("hi", 0), reply("m1", "hello", at=1)])
    assert main(["show", "abcdef"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("cc-trace: 2 sessions begin with abcdef: abcdef00-0000-4000-8000-000000000001, ")
    streams = projects.parents[1] / "state" / "cc-trace" / "streams"
    streams.mkdir(parents=True)
    write(streams / "abcdef00-0000-4000-8000-000000000003.jsonl", [prompt("hi", 0), reply("m1", "hello", at=1)])
    assert main(["show", "abcdef"]) == 2
    assert capsys.readouterr().err.startswith("cc-trace: 3 sessions begin with abcdef: ")


def test_a_prefix_is_ambiguous_though_only_one_is_in_the_store(
    projects: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2):
        session_id = f"abcdef00-0000-4000-8000-00000000000{number}"
        write(projects / f"{session_id}.jsonl", [prompt("hi", 0), reply("m1", "hello", at=1)])
        if number == 1:
            asked(capsys, "sessions")
    assert main(["show", "abcdef"]) == 2
    assert main(["show", "abc"]) == 2
    assert main(["view", "--no-browser", "abcdef"]) == 2
    assert main(["export", "abcdef", "-o", "x.json"]) == 2


@pytest.mark.parametrize("arguments", [["show"], ["show", "latest"], ["preview"], ["preview", "latest"]])
def test_the_latest_session_of_this_folder(
    projects: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    here = tmp_path / "my.project"
    here.mkdir()
    monkeypatch.chdir(here)
    assert main(arguments) == 2
    assert "has no sessions; `cc-trace sessions` lists those of all folders" in capsys.readouterr().err
    folder = projects.with_name(re.sub(r"[^0-9A-Za-z]", "-", str(here)))
    folder.mkdir()
    for number, ago in ((1, 100), (2, 50), (3, 200)):
        path = folder / f"abcdef00-0000-4000-8000-00000000000{number}.jsonl"
        write(path, [prompt(f"prompt {number}", 0), reply("m1", "hello", at=1)])
        os.utime(path, (time.time() - ago, time.time() - ago))
    assert main(arguments) == 0
    assert "prompt 2" in capsys.readouterr().out


def test_sync_takes_the_latest_session(
    projects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "p"
    here.mkdir()
    monkeypatch.chdir(here)
    folder = projects.with_name(re.sub(r"[^0-9A-Za-z]", "-", str(here)))
    folder.mkdir()
    write(folder / "abcdef00-0000-4000-8000-000000000001.jsonl", [prompt("hi", 0), reply("m1", "hello", at=1)])
    assert main(["sync", "--session"]) == 0
    assert "abcdef00-0000-4000-8000-000000000001" in capsys.readouterr().out


def test_show_finds_what_only_the_store_has(projects: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_cases(projects, "2.1.325--shop")
    asked(capsys, "sessions")
    next(projects.glob("*.jsonl")).unlink()
    assert main(["show", "5403f1"]) == 0
    assert "Session 5403f1c5-" in capsys.readouterr().out


def test_a_beginning_that_several_stored_sessions_have_is_reported(
    projects: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for last in "12":
        session_id = f"abcdef00-0000-4000-8000-00000000000{last}"
        lines = [prompt("hi", 0, sessionId=session_id), reply(f"m{last}", "hello", at=1, sessionId=session_id)]
        write(projects / f"{session_id}.jsonl", lines)
    asked(capsys, "sessions")
    for path in projects.glob("*.jsonl"):
        path.unlink()
    for typed, code in (("abcdef00-0000-4000-8000-000000000002", 0), ("abc", 2), ("abcd", 2)):
        assert main(["show", typed]) == code
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("cc-trace: no session abc under ")
    assert said[1].startswith("cc-trace: 2 sessions begin with abcd: abcdef00-0000-4000-8000-000000000001, ")


def test_show_prints_local_times(
    projects: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        session(projects, prompt("hi", 0, cwd="/p"), reply("m1", "hello", at=2))
        main(["show", next(projects.glob("*.jsonl")).stem])
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
    printed = capsys.readouterr().out
    assert "Turn 1 17:30:00 · " in printed


def test_in_a_narrow_terminal_a_session_has_one_line(
    projects: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_cases(projects, "2.1.325--shop")
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["sessions"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("5403f1c5  2")
    assert len(line) <= 60
