"""`cc-trace backfill`: the history once, in bounded memory; what it says before and after."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import transcripts
from backend import OK, REFUSE, Behaviour, HttpBackend
from machine import RECORDED, History, counted, expected, lines

from cc_trace.delivery.history import since_seconds
from cc_trace.errors import CcTraceError
from cc_trace.export.destination import DestinationSettings, max_span_age_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_MEMORY_KB = 150_000


@pytest.fixture
def backend() -> Iterator[HttpBackend]:
    with HttpBackend() as running:
        yield running


@pytest.fixture
def history(tmp_path: Path, backend: HttpBackend) -> History:
    return History(tmp_path, backend)


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_backfill_delivers_each_span_once(history: History, backend: HttpBackend, jobs: str) -> None:
    """Also copies in forks, also with several at a time; a second run sends nothing."""
    paths = history.add(*RECORDED)
    wanted, turns = expected(paths), len(expected(paths, "turn"))
    code, out, err = history.run("--jobs", jobs)
    assert (code, err) == (0, "")
    assert set(backend.counts) == wanted
    assert max(backend.counts.values()) == 1
    assert lines(out) == [f"  {turns} turns, {len(wanted)} spans sent to otlp"]
    code, out, err = history.run("--jobs", jobs)
    assert (code, lines(out), err) == (0, ["  0 turns, 0 spans sent to otlp"], "")
    assert max(backend.counts.values()) == 1


def test_a_dry_run_counts_and_sends_nothing(history: History, backend: HttpBackend) -> None:
    """What it counts is what is then sent, copies once; afterwards there is nothing to send."""
    paths = history.add(*RECORDED)
    wanted, turns = expected(paths), len(expected(paths, "turn"))
    code, out, _ = history.run("--dry-run")
    assert (code, lines(out)) == (0, [f"  {turns} turns, {len(wanted)} spans would go to otlp"])
    assert backend.spans == []
    history.run()
    assert lines(history.run("--dry-run")[1]) == ["  0 turns, 0 spans would go to otlp"]


def test_long_session_needs_bounded_memory(history: History, backend: HttpBackend) -> None:
    """Every span of a long session, and memory does not grow with it."""
    path = history.folder / f"{transcripts.SESSION}.jsonl"
    transcripts.write(path, "older", 60_000_000)
    os.utime(path, (time.time() - 86_400,) * 2)
    assert history.peak_kb() < MAX_MEMORY_KB
    assert set(backend.counts) == expected([path])
    assert max(backend.counts.values()) == 1
    sent = len(backend.spans)
    assert history.run()[0] == 0
    assert len(backend.spans) == sent


def test_since_selects_by_last_change(history: History, backend: HttpBackend) -> None:
    new = history.add(RECORDED[0], days=2)
    history.add(RECORDED[1], days=40)
    assert history.run("--since", "30d")[0] == 0
    assert set(backend.counts) == expected(new)


def test_named_files_and_folders_only(history: History, backend: HttpBackend, tmp_path: Path) -> None:
    """Files and folders, also outside Claude Code's own."""
    elsewhere = tmp_path / "elsewhere" / "deep"
    elsewhere.mkdir(parents=True)
    history.add(RECORDED[0])
    (moved,) = [Path(shutil.move(path, elsewhere)) for path in history.add(RECORDED[1])[:1]]
    assert history.run(str(tmp_path / "elsewhere"))[0] == 0
    assert set(backend.counts) == expected([moved])


def test_one_destination_does_not_hold_up_another(history: History, backend: HttpBackend) -> None:
    """The store here gets all of it, however long the collector is down."""
    paths = history.add(*RECORDED)
    backend.behaviour = REFUSE
    assert history.run(CC_TRACE_DESTINATIONS="otlp,local")[0] == 1
    assert lines(history.run("--dry-run", "--to", "local")[1]) == ["  0 turns, 0 spans would go to local"]
    backend.behaviour = OK
    assert history.run(CC_TRACE_DESTINATIONS="otlp,local")[0] == 0
    assert set(backend.counts) == expected(paths)


def test_a_project_with_a_wrong_setting_holds_up_no_other(history: History, backend: HttpBackend) -> None:
    """It is said how many sessions stay behind for it; a dry run says it, too."""
    bad = history.project("bad", CC_TRACE_CONTENT="some")
    for number in range(4):
        history.write(number, days=2, project=bad)
    paths = history.add(*RECORDED)
    place = f"CC_TRACE_CONTENT in {bad / '.claude' / 'settings.json'}"
    message = f"4 sessions {{}}: {place} is 'some'; it must be one of full, no-tool-content, metadata"
    code, out, _ = history.run("--dry-run")
    assert (code, lines(out)[-1].strip()) == (1, message.format("cannot be counted"))
    code, out, _ = history.run()
    assert code == 1
    assert message.format("pending") in out
    assert set(backend.counts) == expected(paths)


def test_rejected_spans_are_reported_with_the_reason(history: History, backend: HttpBackend) -> None:
    paths = history.add(RECORDED[0])
    blamed = min(expected(paths))
    backend.behaviour = Behaviour(status=400, said="too old", blamed=blamed)
    code, out, _ = history.run()
    assert code == 0
    assert lines(out)[1:] == ["  1 span refused for good: otlp: 400 too old"]
    assert set(backend.counts) == expected(paths) - {blamed}


def test_only_one_of_several_destinations(history: History, backend: HttpBackend) -> None:
    history.add(RECORDED[0])
    assert history.run("--to", "local")[0] == 0
    assert backend.spans == []
    assert (history.home / ".claude" / "state" / "cc-trace" / "traces.db").exists()


def test_a_store_gets_what_a_fork_copied_with_the_fork(history: History) -> None:
    """And a dry run counts that."""
    history.add("2.1.325--d_resume_fork")
    told = history.run("--dry-run", "--to", "local")[1]
    assert counted(told, "local") == counted(history.run("--to", "local")[1], "local") > (0, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--since", "soon"],
            "--since is 'soon'; it must be an age such as 30d, 12h or 2w, or a date such as 2026-10-01",
        ),
        (["--jobs", "0"], "--jobs is 0; it must be at least 1"),
        (["/nowhere"], "no transcript or folder at /nowhere"),
        (
            ["--to", "moon"],
            "--to is 'moon'; the destinations are local, otlp, langfuse, file, otel:NAME",
        ),
    ],
)
def test_wrong_usage_prints_one_line(history: History, arguments: list[str], message: str) -> None:
    assert history.run(*arguments) == (2, "", f"cc-trace: {message}\n")


def test_no_sessions_is_no_error(history: History) -> None:
    assert history.run() == (0, "no sessions to deliver\n", "")
    assert history.run("--since", "2d") == (0, "no sessions to deliver with --since 2d\n", "")


def test_ages_and_dates() -> None:
    assert since_seconds(None, 1000.0) == 0
    assert [since_seconds(text, 1_000_000.0) for text in ("2m", "3h", "1d", "1w")] == [
        999_880,
        989_200,
        913_600,
        395_200,
    ]
    assert since_seconds("1970-01-02", 0.0) == 86_400
    assert since_seconds("1970-01-02T00:00:00+01:00", 0.0) == 82_800
    with pytest.raises(CcTraceError):
        since_seconds("-5d", 0.0)


@pytest.mark.parametrize(
    ("endpoint", "seconds"),
    [
        ("https://abc.live.dynatrace.com/api/v2/otlp", 3600),
        ("https://endpoint4.collection.sumologic.com/receiver", 86_400),
        ("https://dynatrace.com.example.org", None),
        ("http://localhost:4318", None),
        (None, None),
    ],
)
def test_backends_that_refuse_old_spans_are_known(endpoint: str | None, seconds: int | None) -> None:
    assert max_span_age_seconds(DestinationSettings("otlp", "otlp", endpoint=endpoint)) == seconds


def test_backend_that_refuses_old_spans_is_warned_of(history: History) -> None:
    """Before anything is sent."""
    history.add(RECORDED[0])
    _, out, err = history.run("--dry-run", CC_TRACE_OTLP_ENDPOINT="https://x.live.dynatrace.com/api/v2/otlp")
    assert "nothing was sent" in out
    assert err == ("cc-trace: otlp refuses spans older than 1 hour; this affects 2 of 2 sessions\n")


def test_a_second_file_of_a_session_is_named(history: History, backend: HttpBackend) -> None:
    """The newer one is delivered, and the command that it names delivers the other."""
    (path,) = history.add("2.1.325--g1_two_turns_exit")
    older = path.parent.with_name("-older") / path.name
    older.parent.mkdir()
    shutil.copy(path, older)
    os.utime(older, (time.time() - 500_000,) * 2)
    code, _, err = history.run()
    named = f"`cc-trace sync --transcript {older}` delivers it"
    assert (code, err) == (
        0,
        f"cc-trace: {path.stem} also has an older transcript in another folder, skipped here; {named}\n",
    )
    assert set(backend.counts) == expected([path])
