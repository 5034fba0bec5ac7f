"""What is in the store, and what never is."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from claude_process import ended_pid, write_record
from lines import NOON, line, prompt, reply, result, tool_use, write
from shared import CASES
from viewer import copy_cases, running

from cc_trace.cli import main
from cc_trace.delivery import App, SessionState, StateFolder, store_updates
from cc_trace.errors import StateError
from cc_trace.export import Accepted
from cc_trace.export.local import LocalStore
from cc_trace.spans import Session
from cc_trace.store import VERSION, Store, filters, insights, questions, read_session, store_path, to_json
from cc_trace.store.layout import rows
from cc_trace.store.schema import TYPED
from cc_trace.store.span_rows import typed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cc_trace.spans import Span
    from cc_trace.transcript import JsonValue

ORIGIN, FORK = "dddddddd-0000-4000-8000-000000000001", "35e95895-b490-45b6-99f9-2d715768dc02"
OWN = "11111111-0000-4000-8000-000000000001"


def sessions(home: Path) -> set[str]:
    """Bring the store up to date; return the sessions in it."""
    with running(home) as viewer:
        return {row[0] for row in viewer.index.read("SELECT session_id FROM sessions")}


def test_a_suppressed_session_is_not_in_it_nor_what_was_read_before(tmp_path: Path, projects: Path) -> None:
    copy_cases(projects, "2.1.325--a_simple")
    assert len(sessions(tmp_path)) == 1
    off = tmp_path / ".claude" / "state" / "cc-trace" / "off"
    (off / next(projects.glob("*.jsonl")).stem).touch()
    assert sessions(tmp_path) == set()


def test_a_turn_whose_times_were_written_anew_is_left_out_of_where_the_time_went(
    tmp_path: Path, projects: Path
) -> None:
    turns = [prompt("a", 0), reply("m1", "A", at=9_000), prompt("b", 9_001), reply("m2", "B", at=9_003)]
    write(projects / f"{OWN}.jsonl", turns)
    with running(tmp_path) as viewer:
        found = insights.insights(viewer.index, filters.Filter())
    assert (found.time_ms["model"], sum(found.time_ms.values()), found.untimed) == (2_000, 2_000, 1)


def test_a_restored_transcript_is_not_at_work(tmp_path: Path, projects: Path) -> None:
    """Its file is new, its last entry is not."""
    write(projects / f"{OWN}.jsonl", [prompt("a", 0), reply("m1", tool_use("t1"), at=1)])
    with running(tmp_path) as viewer:
        assert viewer.index.read("SELECT state FROM sessions")[0]["state"] == "idle"


def test_what_is_written_to_is_read_before_the_rest_of_a_history(
    tmp_path: Path, projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_updates, "_LOOK_SECONDS", 0.0)  # it looks before each
    ids = [f"{number}1111111-0000-4000-8000-000000000001" for number in range(3)]
    for age, session_id in enumerate(ids):
        path = write(projects / f"{session_id}.jsonl", [prompt("a", sessionId=session_id), reply("m1", "A", at=1)])
        os.utime(path, (time.time() - 1000 * (age + 1),) * 2)
    read = list[str]()
    app = App.open({"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / ".claude")})

    def changed(session_id: str) -> None:
        read.append(session_id)
        if len(read) == 2:
            write(projects / f"{ids[0]}.jsonl", [prompt("a"), reply("m1", "A", at=1), prompt("b", 2)])

    with contextlib.closing(Store(store_path(app.states.folder))) as store:
        assert store_updates.StoreUpdates(app, store).run(on_change=changed)
    assert read == [ids[0], ids[1], ids[0], ids[2]]


def test_neither_is_a_fork_of_it(tmp_path: Path, projects: Path) -> None:
    copy_cases(projects, "2.1.325--d_resume_fork")
    off = tmp_path / ".claude" / "state" / "cc-trace" / "off"
    off.mkdir(parents=True)
    (off / ORIGIN).touch()
    noted_ns = 1_794_784_324_000_000_000  # after the origin's last line, before the fork's first
    os.utime(off / ORIGIN, ns=(noted_ns, noted_ns))
    assert sessions(tmp_path) == set()


def test_an_excluded_session_is_not_in_it(tmp_path: Path, projects: Path) -> None:
    write(projects / f"{OWN}.jsonl", [prompt("hi", cwd="/secret/x"), reply("m1", "hello", at=1, cwd="/secret/x")])
    (tmp_path / ".config" / "cc-trace").mkdir(parents=True)
    (tmp_path / ".claude" / "cc-trace").mkdir()
    for folder in (tmp_path / ".config" / "cc-trace", tmp_path / ".claude" / "cc-trace"):
        (folder / "config.toml").write_text('exclude = ["/secret"]\n')
    assert sessions(tmp_path) == set()


def test_a_store_that_another_process_has_locked_is_not_made_anew(tmp_path: Path) -> None:
    path = store_path(tmp_path)
    Store(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode = DELETE")
    other.execute("CREATE TABLE mine (x)")
    other.execute("PRAGMA user_version = 0")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cc_trace.store.schema.BUSY_SECONDS", 0.01)
        with pytest.raises(StateError, match="database is locked; run `cc-trace doctor`"):
            Store(path)
    other.execute("COMMIT")
    assert other.execute("SELECT COUNT(*) FROM mine").fetchone() == (0,)
    other.close()


def test_a_store_that_another_process_writes_to_can_be_asked(
    tmp_path: Path, projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cc_trace.store.schema.BUSY_SECONDS", 0.01)
    copy_cases(projects, "2.1.325--a_simple")
    known = sessions(tmp_path)
    path = store_path(tmp_path / ".claude" / "state" / "cc-trace")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert sessions(tmp_path) == known
        with contextlib.closing(Store(path)) as store:
            assert len(store.read("SELECT 1 FROM sessions")) == 1
        other.execute("ROLLBACK")


EARLIER = """
CREATE TABLE spans (span_id TEXT PRIMARY KEY, session_id TEXT NOT NULL, trace_id TEXT NOT NULL, parent_id TEXT,
    kind TEXT NOT NULL, name TEXT NOT NULL, start_ns INTEGER, end_ns INTEGER, status TEXT NOT NULL, error TEXT,
    turn INTEGER NOT NULL, agent_id TEXT, model TEXT, input_tokens INTEGER, output_tokens INTEGER,
    cache_read_tokens INTEGER, cache_write_tokens INTEGER, cost_usd REAL, span TEXT NOT NULL);
CREATE INDEX spans_of_a_session ON spans (session_id, turn);
CREATE INDEX spans_of_a_trace ON spans (trace_id);
PRAGMA user_version = 1;
"""


def earlier_store(path: Path, spans: Iterable[Span]) -> None:
    """Make a store as the first version did."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript(EARLIER)
        for span in spans:
            row = dict(zip(TYPED, typed(span), strict=True)) | {"span": to_json(span).decode()}
            columns = [name for _, name, *_ in database.execute("PRAGMA table_info(spans)")]
            values = [row[name] for name in columns]
            database.execute(f"INSERT INTO spans VALUES ({', '.join('?' * len(values))})", values)  # noqa: S608
        database.commit()


TO_4 = """
DROP INDEX spans_in_place;
CREATE INDEX spans_in_place ON spans (session_id, turn, place);
ALTER TABLE spans DROP COLUMN lines_added;
ALTER TABLE spans DROP COLUMN lines_removed;
ALTER TABLE turns DROP COLUMN requests;
ALTER TABLE turns DROP COLUMN tools;
ALTER TABLE turns DROP COLUMN errors;
ALTER TABLE turns DROP COLUMN output_tokens;
ALTER TABLE turns DROP COLUMN untimed;
PRAGMA user_version = 4;
"""


def recorded(case: str) -> list[Span]:
    return list(Session(next((CASES / case).glob("*.jsonl")), ending="over").spans())


def test_a_store_of_the_first_version_is_read_and_brought_to_this_one(tmp_path: Path) -> None:
    """All that was in it is there, and its sessions can be looked at though their transcripts are gone."""
    path = store_path(tmp_path / ".claude" / "state" / "cc-trace")
    spans = recorded("2.1.325--c1_subagent")
    session_id = spans[0].session_id
    earlier_store(path, reversed(spans))
    assert list(read_session(path, session_id)) == spans
    (tmp_path / ".claude" / "projects" / "-home-dev-project").mkdir(parents=True)
    with running(tmp_path) as viewer:
        assert list(read_session(path, session_id)) == spans
        shown = questions.session(viewer.index, session_id)
        assert shown is not None
        assert (shown["turns"], shown["cost_usd"]) == (
            sum(span.kind == "turn" for span in spans),
            pytest.approx(sum(span.response.cost_usd or 0 for span in spans if span.response)),
        )
        assert questions.turn_rows(viewer.index, session_id, 1, [], 0, 200).total == sum(s.turn == 1 for s in spans)
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'earlier'").fetchone() == (0,)


WITHOUT_NEW_COLUMNS = "ALTER TABLE spans DROP COLUMN refused; ALTER TABLE sessions DROP COLUMN active_ns;"


def test_what_a_fork_copied_counts_once_also_in_a_store_of_the_second_version(tmp_path: Path, projects: Path) -> None:
    copy_cases(projects, "2.1.325--d_resume_fork")
    path = store_path(tmp_path / ".claude" / "state" / "cc-trace")
    sessions(tmp_path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        once = database.execute(
            "SELECT COUNT(DISTINCT session_id), SUM(kind = 'turn'), SUM(cost_usd), SUM(input_tokens + output_tokens +"
            " cache_read_tokens + cache_write_tokens), SUM(status = 'error') FROM spans WHERE copied = 0"
        ).fetchone()
        copied = database.execute("SELECT COUNT(*) FROM spans WHERE copied = 1 AND kind = 'turn'").fetchone()[0]
        database.executescript(f"{TO_4} {WITHOUT_NEW_COLUMNS} DROP INDEX spans_copied; PRAGMA user_version = 2")
    with contextlib.closing(Store(path)) as store:
        found = questions.sessions_total(store, filters.Filter())
        assert store.read("PRAGMA user_version")[0][0] == VERSION
        assert len(store.read("SELECT 1 FROM sqlite_master WHERE name = 'spans_copied'")) == 1
    assert found[:2] == once[:2]
    assert (found.cost_usd, found.tokens, found.errors) == (pytest.approx(once[2]), *once[3:])
    assert found.copied == copied > 0


def test_a_store_of_the_third_version_gets_what_is_new_as_its_sessions_are_read_again(
    tmp_path: Path, projects: Path
) -> None:
    copy_cases(projects, "2.1.325--shop")
    sessions(tmp_path)
    path = store_path(tmp_path / ".claude" / "state" / "cc-trace")
    with contextlib.closing(sqlite3.connect(path)) as database:
        before = database.execute("SELECT span_id, wait_ms, waits FROM spans ORDER BY span_id").fetchall()
        active = database.execute("SELECT active_ns FROM sessions").fetchone()[0]
        database.executescript(f"UPDATE spans SET waits = '[]'; {TO_4} {WITHOUT_NEW_COLUMNS} PRAGMA user_version = 3")  # noqa: S608
    with contextlib.closing(Store(path)) as store:  # until then it is readable
        assert len(questions.search(store, "discounts")) > 0
    with running(tmp_path) as viewer:
        found = viewer.index.read("SELECT span_id, wait_ms, waits FROM spans ORDER BY span_id")
        assert [tuple(row) for row in found] == before
        assert viewer.index.read("SELECT active_ns FROM sessions")[0][0] == active > 0


def test_a_session_in_a_store_of_the_third_version_was_active_though_its_transcript_is_gone(
    tmp_path: Path, projects: Path
) -> None:
    copy_cases(projects, "2.1.325--shop")
    sessions(tmp_path)
    path = store_path(tmp_path / ".claude" / "state" / "cc-trace")
    with contextlib.closing(sqlite3.connect(path)) as database:
        active = database.execute("SELECT active_ns FROM sessions").fetchone()[0]
        database.executescript(f"{TO_4} {WITHOUT_NEW_COLUMNS} PRAGMA user_version = 3")
    for transcript in projects.glob("*.jsonl"):
        transcript.unlink()
    with running(tmp_path) as viewer:
        assert viewer.index.read("SELECT active_ns FROM sessions")[0][0] == active > 0


def test_a_wait_for_permission_that_only_the_turn_tells_is_the_call_s(tmp_path: Path, projects: Path) -> None:
    """The line of a command says that you were asked, not for how long; the turn's duration leaves it out."""
    copy_cases(projects, "2.1.325--shop")
    with running(tmp_path) as viewer:
        waited = viewer.index.read("SELECT wait_ms FROM spans WHERE turn = 2 AND name = 'Bash' AND wait_ms IS NOT NULL")
        spent = viewer.index.read(
            "SELECT json_extract(span, '$.metadata.time_ms.permission') FROM spans WHERE turn = 2 AND place = 0"
        )
    assert [row[0] for row in waited] == [row[0] for row in spent] == [4_075]


@pytest.mark.parametrize(
    ("took_ms", "paused_ms", "waited_ms"),
    [
        ((4_000,), 3_900, (3_900,)),
        ((4_000, 2_000), 5_900, (3_900, 1_900)),  # at least: each may have run for 100 ms
        ((4_000, 60_000), 5_000, (0, 1_000)),  # who waited for the other four is not known
        ((4_000, 4_000), 2_000, (0, 0)),
    ],
)
def test_calls_that_waited_together_have_the_least_that_each_must_have_waited(
    took_ms: tuple[int, ...], paused_ms: int, waited_ms: tuple[int, ...]
) -> None:
    spans = {span.kind: span for span in recorded("2.1.325--b_tools")}
    root = spans["turn"]._replace(metadata={"time_ms": {"permission": paused_ms}})
    asked: dict[str, JsonValue] = {"permission": {"decision": "accept", "source": "user_temporary"}}
    calls = [
        spans["tool"]._replace(span_id=str(ms), parent_id=root.span_id, metadata=asked, start_ns=0, end_ns=ms * 10**6)
        for ms in took_ms
    ]
    made = rows([root, *calls])[1:]
    assert tuple(sum(end - begin for _, begin, end in row.waits) // 10**6 for row in made) == waited_ms


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("The user doesn't want to proceed with this tool use. The tool use was rejected (eg. …", "user"),
        ("This command requires approval", "settings"),
        ("Claude requested permissions to write to /p/a.py, but you haven't granted it yet.", "settings"),
        ("Exit code 1\nPermission denied", None),
    ],
)
def test_a_call_that_was_refused_is_told_from_one_that_failed(
    text: str, by: str | None, tmp_path: Path, projects: Path
) -> None:
    call = tool_use("t1", "Write", file_path="/p/a.py", content="x")
    write(projects / f"{OWN}.jsonl", [prompt("a", 0), reply("m1", call, at=1), result("t1", text, at=91, error=True)])
    with running(tmp_path) as viewer:
        found = viewer.index.read("SELECT status, refused, wait_ms FROM spans WHERE kind = 'tool'")
    assert [tuple(row) for row in found] == [("error", by, 90_000 if by == "user" else None)]


def test_a_prompt_that_never_got_an_answer_is_a_turn_with_its_retries_and_its_interruption(
    tmp_path: Path, projects: Path
) -> None:
    failed = {"cause": {"code": "ConnectionRefused"}, "level": "error", "maxRetries": 10}
    lines = [
        prompt("a", 0),
        reply("m1", "A", at=1, message={"stop_reason": "end_turn"}),
        prompt("resume", 100),
        *(line("system", 102 + n, subtype="api_error", retryAttempt=n, retryInMs=500, **failed) for n in (1, 2)),
        prompt("[Request interrupted by user]", 105),
    ]
    path = write(projects / f"{OWN}.jsonl", lines)
    with running(tmp_path) as viewer:
        session = questions.session(viewer.index, OWN)
        found = viewer.index.read("SELECT name, status, start_ns, end_ns FROM spans WHERE turn = 2 ORDER BY place")
        times = viewer.index.read("SELECT json_extract(span, '$.metadata.time_ms') FROM spans WHERE turn = 2")
    assert session is not None
    assert (session["turns"], session["active_ns"]) == (2, 6 * 10**9)
    assert [tuple(row)[:2] for row in found] == [
        ("Turn 2", "interrupted"),
        *[("api_retry", "ok")] * 2,
        ("interruption", "interrupted"),
    ]
    assert found[0]["end_ns"] - found[0]["start_ns"] == 5 * 10**9
    assert json.loads(times[0][0])["retries"] == 1_000
    assert [span.turn for span in Session(path).spans() if span.kind == "turn"] == [1]  # it is not sent


def test_a_first_prompt_without_an_answer_is_shown_until_the_answer_comes(tmp_path: Path, projects: Path) -> None:
    path = projects / f"{OWN}.jsonl"
    shown = []
    for lines in ([prompt("fix it", 0)], [prompt("fix it", 0), reply("m1", "done", at=5)]):
        write(path, lines)
        with running(tmp_path) as viewer:
            title = viewer.index.read("SELECT title FROM sessions")[0][0]
            shown.append((title, *(tuple(row) for row in viewer.index.read("SELECT turn, status, error FROM spans"))))
    assert shown == [
        ("fix it", (1, "incomplete", "no response")),
        ("fix it", (1, "ok", None), (1, "ok", None)),
    ]


def test_words_beside_escape_codes_are_found(tmp_path: Path, projects: Path) -> None:
    output = "\rRebasing (2/3)\r\x1b[KSuccessfully rebased\x07\x1b[2m - waiting\x1b[0m"
    call = tool_use("t1", "Bash", command="git rebase")
    write(projects / f"{OWN}.jsonl", [prompt("a", 0), reply("m1", call, at=1), result("t1", output, at=2)])
    with running(tmp_path) as viewer:
        (hit,) = questions.search(viewer.index, "Successfully rebased waiting")
    assert hit.snippet.replace("\x01", "").replace("\x02", "").split() == [
        *("git", "rebase", "Rebasing", "(2/3)", "Successfully", "rebased", "-", "waiting")
    ]


def test_the_active_time_of_a_session_leaves_out_what_was_between_its_turns(tmp_path: Path, projects: Path) -> None:
    turns = [prompt("a", 0), reply("m1", "A", at=10), prompt("b", 9_000), reply("m2", "B", at=9_005)]
    write(projects / f"{OWN}.jsonl", turns)
    with running(tmp_path) as viewer:
        assert viewer.index.read("SELECT active_ns FROM sessions")[0][0] == 15 * 10**9


@pytest.mark.parametrize("gone", [False, True])
def test_a_store_of_the_fourth_version_is_brought_to_this_one(tmp_path: Path, projects: Path, *, gone: bool) -> None:
    """Whether the transcripts are still there or not."""
    copy_cases(projects, "2.1.325--shop")
    twice = [prompt("a", 0), reply("m1", "A", at=9_000), prompt("b", 10), reply("m2", "B", at=9_000)]
    write(projects / f"{OWN}.jsonl", twice)
    path = store_path(tmp_path / ".claude" / "state" / "cc-trace")

    def content() -> list[list[tuple[object, ...]]]:
        sessions(tmp_path)
        with contextlib.closing(sqlite3.connect(path)) as database:
            spans = database.execute(
                "SELECT session_id, turn, span_id, place, lines_added, lines_removed, label, span FROM spans"
                " ORDER BY 1, 2, 4"
            )
            turns = database.execute(
                "SELECT session_id, turn, requests, tools, errors, output_tokens, untimed FROM turns ORDER BY 1, 2"
            )
            return [spans.fetchall(), turns.fetchall()]

    before = content()
    assert [row[-1] for row in before[1]][:2] == [1, 1]
    assert any(row[4] for row in before[0])
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript(TO_4)
    if gone:
        for transcript in projects.glob("*.jsonl"):
            transcript.unlink()
    assert content() == before


def test_a_session_stays_when_its_transcript_is_deleted(tmp_path: Path, projects: Path) -> None:
    copy_cases(projects, "2.1.325--a_simple")
    before = sessions(tmp_path)
    next(projects.glob("*.jsonl")).unlink()
    assert sessions(tmp_path) == before != set()


def test_the_output_of_a_run_does_not_replace_what_was_read_from_a_transcript(
    tmp_path: Path, projects: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a part of the session: one of its runs."""
    turns = [line for n in range(3) for line in (prompt(f"ask {n}", 10 * n), reply(f"m{n}", f"say {n}", at=10 * n + 5))]
    own = write(projects / f"{OWN}.jsonl", turns)
    streams = tmp_path / ".claude" / "state" / "cc-trace" / "streams"
    streams.mkdir(parents=True)

    def prompts() -> list[str]:
        with running(tmp_path) as viewer:
            found = viewer.index.read("SELECT span ->> '$.input' FROM spans WHERE kind = 'turn' ORDER BY turn")
        return [text for (text,) in found]

    assert prompts() == ["ask 0", "ask 1", "ask 2"]
    stream = write(streams / f"{OWN}.jsonl", [prompt("ask 3", 40), reply("m3", "say 3", at=45)])
    assert prompts() == ["ask 0", "ask 1", "ask 2"]
    own.unlink()
    os.utime(stream)
    assert prompts() == ["ask 0", "ask 1", "ask 2"]
    monkeypatch.setenv("HOME", str(tmp_path))
    main(["show", OWN])
    shown = capsys.readouterr().out
    assert ["say 0" in shown, "say 2" in shown] == [True, True]


def test_a_file_that_is_not_named_after_its_session_holds_nothing_up(tmp_path: Path, projects: Path) -> None:
    now = (datetime.now(UTC) - NOON).total_seconds()
    lines = [prompt("hi", now - 5), reply("m1", "hello", at=now - 3, message={"stop_reason": "end_turn"})]
    write(projects / "old.jsonl", [{**line, "sessionId": "x" * 300} for line in lines])
    finished(projects)
    with running(tmp_path) as viewer:
        assert viewer.index.read("SELECT count(*) FROM sessions")[0][0] == 2
        assert not (tmp_path / ".claude" / "state" / "cc-trace" / "cc-trace.log").exists()


def test_what_was_delivered_and_what_is_read_are_the_same_rows(tmp_path: Path, projects: Path) -> None:
    copy_cases(projects, "2.1.325--c1_subagent")
    path = store_path(tmp_path / ".claude" / "state" / "cc-trace")
    for _ in range(2):
        delivered = LocalStore("local", path)
        spans = recorded("2.1.325--c1_subagent")
        assert delivered.send([delivered.encode(span) for span in spans]) == Accepted()
        delivered.close()
        sessions(tmp_path)
        with contextlib.closing(sqlite3.connect(path)) as database:
            found = database.execute("SELECT span_id, place FROM spans").fetchall()
        assert sorted(id_ for id_, _ in found) == sorted(span.span_id for span in spans)
        assert None not in [place for _, place in found]


def test_turns_that_a_fork_copied_count_once_and_in_their_origin(tmp_path: Path, projects: Path) -> None:
    """Though the fork is read first, for it was written last."""
    copy_cases(projects, "2.1.325--d_resume_fork")
    with running(tmp_path) as viewer:
        found = viewer.index.read("SELECT session_id, span_id, copied FROM spans WHERE kind = 'generation'")
        own = {row["session_id"] for row in found if not row["copied"]}
        counted = [row["span_id"] for row in found if not row["copied"]]
        assert len(counted) == len(set(counted))
        assert len(found) > len(counted)
        assert all(not row["copied"] for row in found if row["session_id"] == ORIGIN)
        assert own == {ORIGIN, FORK}
        usage = viewer.index.read("SELECT SUM(requests) FROM usage WHERE kind = 'generation'")[0][0]
        assert usage == pytest.approx(len(counted))


def test_a_session_for_which_store_is_false_is_not_in_it(tmp_path: Path, projects: Path) -> None:
    """But where the store is one of its destinations."""
    copy_cases(projects, "2.1.325--a_simple")
    folder = tmp_path / ".config" / "cc-trace"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('store = false\nfile = "/nowhere/spans.jsonl"\n')
    assert sessions(tmp_path) == set()
    (folder / "config.toml").write_text("store = false\n")
    assert len(sessions(tmp_path)) == 1


def test_turns_that_ended_before_store_days_do_not_enter(tmp_path: Path, projects: Path) -> None:
    copy_cases(projects, "2.1.325--a_simple")
    folder = tmp_path / ".config" / "cc-trace"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("store_days = 36500\n")
    assert len(sessions(tmp_path)) == 1
    (tmp_path / ".claude" / "state" / "cc-trace" / "traces.db").unlink()
    ago = time.time() - 10 * 86_400
    os.utime(next(projects.glob("*.jsonl")), (ago, ago))
    (folder / "config.toml").write_text("store_days = 9\n")
    assert sessions(tmp_path) == set()


def configure(home: Path, text: str) -> None:
    folder = home / ".config" / "cc-trace"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text)


@pytest.mark.parametrize("setting", ['mask = ["wombat"]', 'content = "metadata"', "max_chars = 2"])
def test_settings_that_change_apply_to_what_is_stored(tmp_path: Path, projects: Path, setting: str) -> None:
    """Though its files are as they were; and it is read only once."""
    asked = prompt("hi wombat", cwd="/p")
    told = result("t1", "a wombat", at=2)
    write(projects / f"{OWN}.jsonl", [asked, reply("m1", tool_use("t1", command="x wombat"), at=1), told])
    store = store_path(tmp_path / ".claude" / "state" / "cc-trace")

    def found() -> tuple[list[str], str]:
        sessions(tmp_path)
        with contextlib.closing(sqlite3.connect(store)) as database:
            [(stamp,)] = database.execute("SELECT stamp FROM sessions")
            return [row for row in database.iterdump() if "wombat" in row], stamp

    assert len(found()[0]) > 3
    configure(tmp_path, setting)
    left, stamp = found()
    assert left == []
    assert [path.name for path in store.parent.glob("traces.db*") if b"wombat" in path.read_bytes()] == []
    assert found()[1] == stamp
    configure(tmp_path, "")
    assert len(found()[0]) > 3


def test_changed_settings_of_a_project_apply_to_the_output_of_its_runs(tmp_path: Path) -> None:
    """Runs of all projects are in one folder."""
    streams = tmp_path / ".claude" / "state" / "cc-trace" / "streams"
    streams.mkdir(parents=True)
    for age, project in enumerate(("/a", "/b")):
        lines = [prompt("hi wombat", cwd=project), reply("m1", "hello", at=1)]
        path = write(streams / f"{uuid4()}.jsonl", [{**line, "cwd": project} for line in lines])
        os.utime(path, (time.time() - 1_000 - age, time.time() - 1_000 - age))

    def prompts() -> dict[str, str]:
        with running(tmp_path) as viewer:
            found = viewer.index.read(
                "SELECT cwd, span ->> '$.input' FROM spans JOIN sessions USING (session_id) WHERE place = 0"
            )
        return {row[0]: row[1] for row in found}

    assert prompts() == {"/a": "hi wombat", "/b": "hi wombat"}
    for masked in (["/a"], ["/a", "/b"]):
        configure(tmp_path, "".join(f'[project."{folder}"]\nmask = ["wombat"]\n' for folder in masked))
        assert {cwd for cwd, text in prompts().items() if "wombat" not in text} == {*masked}


@pytest.mark.parametrize("setting", ['exclude = ["/secret"]', "enabled = false", 'store = false\nfile = "/nowhere/x"'])
def test_a_session_leaves_when_its_project_is_no_longer_kept(tmp_path: Path, projects: Path, setting: str) -> None:
    """Though its files are as they were; and enters again when it is."""
    write(projects / f"{OWN}.jsonl", [prompt("hi", cwd="/secret/x"), reply("m1", "hello", at=1, cwd="/secret/x")])
    assert sessions(tmp_path) == {OWN}
    configure(tmp_path, setting)
    assert sessions(tmp_path) == set()
    configure(tmp_path, "")
    assert sessions(tmp_path) == {OWN}


def test_a_suppressed_session_that_was_only_delivered_leaves(tmp_path: Path, projects: Path) -> None:
    """Also when its transcript is gone."""
    path = projects / f"{OWN}.jsonl"
    write(path, [prompt("hi", cwd="/p"), reply("m1", "hello", at=1, cwd="/p")])
    folder = tmp_path / ".claude" / "state" / "cc-trace"
    (folder / "off").mkdir(parents=True)
    local = LocalStore("local", store_path(folder))
    spans = list(Session(path, ending="over").spans())
    assert local.send([local.encode(span) for span in spans]) == Accepted()
    local.close()
    path.unlink()
    (folder / "off" / OWN).touch()
    assert sessions(tmp_path) == set()
    assert list(read_session(store_path(folder), OWN)) == []


def test_what_is_known_of_a_session_is_masked_too(tmp_path: Path, projects: Path) -> None:
    configure(tmp_path, 'mask = ["wombat"]\n')
    asked = prompt("hi", cwd="/home/wombat", gitBranch="wombat-1")
    write(projects / f"{OWN}.jsonl", [asked, reply("m1", "hello", at=1, cwd="/home/wombat", gitBranch="wombat-1")])
    assert sessions(tmp_path) == {OWN}
    with contextlib.closing(sqlite3.connect(store_path(tmp_path / ".claude" / "state" / "cc-trace"))) as database:
        assert [row for row in database.iterdump() if "wombat" in row] == []


def finished(projects: Path) -> Path:
    """Write a session whose turn has just ended."""
    now = (datetime.now(UTC) - NOON).total_seconds()
    done = reply("m1", "hello", at=now - 3, message={"stop_reason": "end_turn"})
    return write(projects / f"{OWN}.jsonl", [prompt("hi", now - 5, cwd="/p"), done])


@pytest.mark.parametrize(("status", "ended", "state"), [("idle", False, "waiting for input"), ("busy", True, "idle")])
def test_a_session_is_idle_as_soon_as_its_process_has_ended(
    tmp_path: Path, projects: Path, status: str, state: str, *, ended: bool
) -> None:
    finished(projects)
    write_record(tmp_path / ".claude", OWN, status, **({"pid": ended_pid()} if ended else {}))
    with running(tmp_path) as viewer:
        assert [tuple(row) for row in viewer.index.read("SELECT state FROM sessions")] == [(state,)]


def test_a_process_that_took_its_record_along_is_known_from_its_hook(tmp_path: Path, projects: Path) -> None:
    transcript = finished(projects)
    states = StateFolder(tmp_path / ".claude" / "state" / "cc-trace")
    states.prepare()
    size = transcript.stat().st_size
    states.save(SessionState(OWN, str(transcript), size=size, claude_pid=ended_pid(), claude_start="1"))
    with running(tmp_path) as viewer:
        assert viewer.index.read("SELECT state FROM sessions")[0][0] == "idle"


def test_the_end_of_a_process_is_seen_though_the_transcript_stays_as_it_is(tmp_path: Path, projects: Path) -> None:
    transcript = finished(projects)
    with transcript.open("a") as file:  # in the middle of a turn
        file.write(json.dumps(prompt("more", (datetime.now(UTC) - NOON).total_seconds(), cwd="/p")) + "\n")
    record = write_record(tmp_path / ".claude", OWN, "busy")
    with running(tmp_path) as viewer:
        assert viewer.index.read("SELECT state FROM sessions")[0][0] == "working"
        seen = viewer.watch.changed[OWN]
        record.write_text(record.read_text().replace(f'"pid": {os.getpid()}', f'"pid": {ended_pid()}'))
        record.rename(record.with_name(f"{json.loads(record.read_text())['pid']}.json"))
        while viewer.watch.changed[OWN] == seen:
            time.sleep(0.01)
        assert viewer.index.read("SELECT state FROM sessions")[0][0] == "idle"
        assert viewer.index.read("SELECT SUM(running) FROM turns")[0][0] == 0
