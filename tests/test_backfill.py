"""`cc-trace backfill`: the history once, in bounded memory, however often it is interrupted."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import transcripts
from backend import OK, REFUSE, Behaviour, HttpBackend
from lines import prompt, reply, write
from shared import CASES

from cc_trace.destinations import DestinationSettings
from cc_trace.errors import CcTraceError
from cc_trace.history import oldest_taken, since_seconds
from cc_trace.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_MEMORY_KB = 150_000
RECORDED = ["2.1.325--c6_sync_subagent", "2.1.325--g1_two_turns_exit", "2.1.325--b_tools", "2.1.325--d_resume_fork"]


@pytest.fixture
def backend() -> Iterator[HttpBackend]:
    with HttpBackend() as running:
        yield running


class History:
    """A machine with sessions of the past."""

    def __init__(self, home: Path, backend: HttpBackend) -> None:
        self.home = home
        self.folder = home / ".claude" / "projects" / "-p"
        self.folder.mkdir(parents=True)
        self.environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "CC_TRACE_OTLP_ENDPOINT": backend.url,
            "CC_TRACE_TIMEOUT_SECONDS": "20",
        }

    def add(self, *cases: str, days: float = 1) -> list[Path]:
        """Add recorded sessions that were written to so many days ago."""
        for case in cases:
            shutil.copytree(CASES / case, self.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.spans"))
        paths = [path for case in cases for path in self.folder.glob("*.jsonl") if (CASES / case / path.name).exists()]
        past = time.time() - days * 86_400
        for path in paths:
            for file in [path, *path.with_suffix("").rglob("*.jsonl")]:
                os.utime(file, (past, past))
        return paths

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "cc_trace", "backfill", *arguments],
            env=self.environment | environment,
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err


@pytest.fixture
def history(tmp_path: Path, backend: HttpBackend) -> History:
    return History(tmp_path, backend)


def expected(paths: list[Path], kind: str | None = None) -> set[str]:
    spans = [span for path in paths for span in Session(path, ending="over").spans()]
    return {span.span_id for span in spans if kind in (None, span.kind)}


def lines(out: str) -> list[str]:
    """What was printed but for the first line, which has the time it took."""
    return out.splitlines()[1:]


def counted(out: str) -> tuple[int, int]:
    """How many turns and spans it says went to the one destination there is, or would."""
    found = re.search(r"([\d,]+) turns?, ([\d,]+) spans? (?:sent|would go) to otlp", out)
    assert found, out
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_all_of_it_arrives_once(history: History, backend: HttpBackend, jobs: str) -> None:
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


def test_sixty_megabytes_once_in_bounded_memory(history: History, backend: HttpBackend) -> None:
    """Every span of a long session, and memory does not grow with it."""
    path = history.folder / f"{transcripts.SESSION}.jsonl"
    transcripts.write(path, "older", 60_000_000)
    os.utime(path, (time.time() - 86_400,) * 2)
    process = history.start()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert set(backend.counts) == expected([path])
    assert max(backend.counts.values()) == 1
    assert usage.ru_maxrss < MAX_MEMORY_KB
    sent = len(backend.spans)
    assert history.run()[0] == 0
    assert len(backend.spans) == sent
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_loses_nothing_and_sends_nothing_twice(history: History, backend: HttpBackend, jobs: str) -> None:
    """It takes effect after the batch in hand, so that what was sent is recorded; each run counts what it sent."""
    paths = history.add(*RECORDED)
    big = history.folder / f"{transcripts.SESSION}.jsonl"
    transcripts.write(big, "older", 8_000_000)
    os.utime(big, (time.time() - 2 * 86_400,) * 2)
    all_of_it = counted(history.run("--dry-run")[1])
    backend.behaviour = Behaviour("drip", seconds=0.02)
    process = history.start("--jobs", jobs)
    _until(lambda: len(backend.spans) > 0 or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run it again to go on from here; nothing is sent twice" in out
    turns, spans = counted(out)
    assert spans == len(backend.spans) > 0
    backend.behaviour = OK
    code, out, _ = history.run()
    assert code == 0
    assert set(backend.counts) == expected([*paths, big])
    assert max(backend.counts.values()) == 1
    more_turns, more_spans = counted(out)
    assert (turns + more_turns, spans + more_spans) == all_of_it


def _until(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_only_what_was_written_to_since(history: History, backend: HttpBackend) -> None:
    new = history.add(RECORDED[0], days=2)
    history.add(RECORDED[1], days=40)
    assert history.run("--since", "30d")[0] == 0
    assert set(backend.counts) == expected(new)


def test_only_what_is_named(history: History, backend: HttpBackend, tmp_path: Path) -> None:
    """Files and folders, also outside Claude Code's own."""
    elsewhere = tmp_path / "elsewhere" / "deep"
    elsewhere.mkdir(parents=True)
    history.add(RECORDED[0])
    (moved,) = [Path(shutil.move(path, elsewhere)) for path in history.add(RECORDED[1])[:1]]
    assert history.run(str(tmp_path / "elsewhere"))[0] == 0
    assert set(backend.counts) == expected([moved])


def test_a_backend_that_is_down_is_given_up_soon(history: History, backend: HttpBackend) -> None:
    """Not every session is tried in vain; when it is up again all is delivered."""
    paths = history.add(*RECORDED)
    backend.behaviour = REFUSE
    code, out, _ = history.run()
    assert code == 1
    assert "  3 sessions behind: otlp: cannot connect to" in out
    assert "behind: otlp: not tried any more: cannot connect to" in out
    backend.behaviour = OK
    assert history.run()[0] == 0
    assert set(backend.counts) == expected(paths)


def test_one_destination_does_not_hold_up_another(history: History, backend: HttpBackend) -> None:
    """The store here gets all of it, however long the collector is down."""
    paths = history.add(*RECORDED)
    backend.behaviour = REFUSE
    assert history.run(CC_TRACE_DESTINATIONS="otlp,local")[0] == 1
    assert lines(history.run("--dry-run", "--to", "local")[1]) == ["  0 turns, 0 spans would go to local"]
    backend.behaviour = OK
    assert history.run(CC_TRACE_DESTINATIONS="otlp,local")[0] == 0
    assert set(backend.counts) == expected(paths)


def test_a_new_backend_under_an_old_name_gets_it_when_asked(history: History) -> None:
    paths = history.add(*RECORDED)
    assert history.run()[0] == 0
    with HttpBackend() as other:
        assert history.run(CC_TRACE_OTLP_ENDPOINT=other.url)[0] == 0
        assert other.spans == []
        assert history.run("--again", "--to", "otlp", CC_TRACE_OTLP_ENDPOINT=other.url)[0] == 0
        assert set(other.counts) == expected(paths)
        assert max(other.counts.values()) == 1
        assert history.run("--again", CC_TRACE_OTLP_ENDPOINT=other.url)[0] == 2


def test_a_project_with_a_wrong_setting_holds_up_no_other(history: History, backend: HttpBackend) -> None:
    """It is said how many sessions stay behind for it; a dry run says it, too."""
    bad = history.home / "bad" / ".claude"
    bad.mkdir(parents=True)
    (bad / "settings.json").write_text('{"env": {"CC_TRACE_CONTENT": "some"}}')
    for number in range(4):
        path = history.folder / f"99999999-0000-4000-8000-00000000000{number}.jsonl"
        at = {"sessionId": path.stem, "cwd": str(bad.parent)}
        write(path, [prompt("a", 0, **at), reply(f"m{number}", "b", at=1, **at)])
        os.utime(path, (time.time() - 90_000 - number,) * 2)
    paths = history.add(*RECORDED)
    message = "4 sessions {}: CC_TRACE_CONTENT is 'some'; allowed are full, no-tool-content, metadata"
    code, out, _ = history.run("--dry-run")
    assert (code, lines(out)[-1].strip()) == (1, message.format("cannot be counted"))
    code, out, _ = history.run()
    assert code == 1
    assert message.format("behind") in out
    assert set(backend.counts) == expected(paths)


def test_what_is_refused_is_said_with_its_reason(history: History, backend: HttpBackend) -> None:
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--since", "soon"], "--since soon: an age such as 30d, 12h or 2w is wanted, or a date such as 2026-10-01"),
        (["--jobs", "0"], "--jobs 0: a number from 1 on is wanted"),
        (["/nowhere"], "there is no transcript and no folder /nowhere"),
        (["--to", "moon"], "--to names 'moon'; allowed are local, otlp, langfuse, file and otel:NAME"),
    ],
)
def test_a_wrong_call_is_answered_in_one_line(history: History, arguments: list[str], message: str) -> None:
    assert history.run(*arguments) == (2, "", f"cc-trace: {message}\n")


def test_nothing_there_is_no_error(history: History) -> None:
    code, out, err = history.run()
    assert (code, err) == (0, "")
    assert out.startswith("0 sessions, 0.0 MB")


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
    assert oldest_taken(DestinationSettings("otlp", "otlp", endpoint=endpoint)) == seconds


def test_such_a_backend_is_warned_of(history: History) -> None:
    """Before anything is sent."""
    history.add(RECORDED[0])
    _, out, err = history.run("--dry-run", CC_TRACE_OTLP_ENDPOINT="https://x.live.dynatrace.com/api/v2/otlp")
    assert "nothing was sent" in out
    assert err == (
        "cc-trace: otlp: this backend refuses spans that are older than 1 hour, as those of 2 of 2 sessions are\n"
    )
