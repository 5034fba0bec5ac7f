"""A backfill that does not come to its end: interrupted, killed, refused, begun again. All arrives, and once."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import transcripts
from backend import HANG, OK, REFUSE, Behaviour, HttpBackend, refuses_before, refuses_span
from installed import snapshot
from lines import NOON
from machine import RECORDED, History, counted, expected
from waiting import until

from cc_trace.delivery.state import StateFolder

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

SLOW = Behaviour("drip", seconds=0.02)


@pytest.fixture
def backend() -> Iterator[HttpBackend]:
    with HttpBackend() as running:
        yield running


@pytest.fixture
def history(tmp_path: Path, backend: HttpBackend) -> History:
    return History(tmp_path, backend)


def interrupted(history: History, backend: HttpBackend, *arguments: str) -> str:
    """Interrupt it while the first batch is being taken; return what it says."""
    backend.behaviour, before = SLOW, len(backend.spans)
    process = history.start(*arguments)
    until(lambda: len(backend.spans) > before or process.poll() is not None, "something arrives")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    backend.behaviour = OK
    assert (process.returncode, err) == (130, "")
    return out


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_loses_nothing_and_sends_nothing_twice(history: History, backend: HttpBackend, jobs: str) -> None:
    """It takes effect after the batch in hand, so that what was sent is recorded; each run counts what it sent."""
    paths = history.add(*RECORDED)
    big = history.folder / f"{transcripts.SESSION}.jsonl"
    transcripts.write(big, "older", 8_000_000)
    os.utime(big, (time.time() - 2 * 86_400,) * 2)
    all_of_it = counted(history.run("--dry-run")[1])
    out = interrupted(history, backend, "--jobs", jobs)
    assert "run it again to continue; nothing is sent twice" in out
    turns, spans = counted(out)
    assert spans == len(backend.spans) > 0
    code, out, _ = history.run()
    assert code == 0
    assert set(backend.counts) == expected([*paths, big])
    assert max(backend.counts.values()) == 1
    more_turns, more_spans = counted(out)
    assert (turns + more_turns, spans + more_spans) == all_of_it


@pytest.mark.skipif(sys.platform != "linux", reason="looks for its processes in /proc")
def test_early_interrupt_is_handled_by_one_process(history: History, backend: HttpBackend) -> None:
    """A terminal interrupts all of them, also those that have only just begun."""
    paths = [history.write(number, turns=3) for number in range(1, 5)]
    process = history.start("--jobs", "2", group=True)
    until(
        lambda: _children(process) > 1 or process.poll() is not None, "its processes begin"
    )  # one of them keeps the others' locks
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert "ended" not in out
    assert history.run()[0] == 0
    assert set(backend.counts) == expected(paths)
    assert max(backend.counts.values()) == 1


def _children(process: subprocess.Popen[str]) -> int:
    try:
        return len(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    except OSError:
        return 0


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_second_interrupt_ends_at_once(history: History, backend: HttpBackend, jobs: str) -> None:
    """Nobody waits for the answer to a request; what it was is sent again."""
    paths = [history.write(number) for number in range(1, 5)]
    backend.behaviour = HANG
    process = history.start("--jobs", jobs, CC_TRACE_TIMEOUT_SECONDS="600")
    until(lambda: len(backend.requests) == int(jobs), "they wait for an answer")
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    backend.behaviour = OK
    assert history.run()[0] == 0
    assert set(backend.counts) == expected(paths)
    assert max(backend.counts.values()) == 1


@pytest.mark.parametrize("end", ["interrupt", "death"])
def test_interrupted_first_delivery_is_completed(history: History, backend: HttpBackend, end: str) -> None:
    """The session was read before, for another destination: its size alone does not tell that something is left."""
    path = history.write(1, turns=600)
    assert history.run("--to", "local")[0] == 0
    if end == "interrupt":
        interrupted(history, backend)
    else:
        assert history.run(CC_TRACE_DIE_AT="state saved")[0] == -signal.SIGKILL
    assert 0 < len(backend.spans) < 1200
    assert counted(history.run("--dry-run")[1]) != (0, 0)
    assert history.run()[0] == 0
    assert set(backend.counts) == expected([path])
    assert max(backend.counts.values()) == 1


def test_rejections_before_an_interrupt_are_reported(history: History, backend: HttpBackend) -> None:
    path = history.write(1, turns=600)
    bad = min(expected([path]))
    backend.behaviour = refuses_span(bad)
    process = history.start()
    until(lambda: backend.requests, "something is sent")
    process.send_signal(signal.SIGINT)
    first, _ = process.communicate(timeout=60)
    second = history.run()[1]
    assert set(backend.counts) == expected([path]) - {bad}
    assert (first + second).count("1 span refused for good: otlp: 400 bad span") == 1
    assert counted(first)[1] + counted(second)[1] == 1199


# A backend that does not take it


def test_a_backend_that_is_down_is_given_up_soon(history: History, backend: HttpBackend) -> None:
    """Not every session is tried in vain; when it is up again all is delivered."""
    paths = history.add(*RECORDED)
    backend.behaviour = REFUSE
    code, out, _ = history.run()
    assert code == 1
    assert "  3 sessions pending: otlp: cannot connect to" in out
    assert "pending: otlp: gave up after several failures: cannot connect to" in out
    backend.behaviour = OK
    assert history.run()[0] == 0
    assert set(backend.counts) == expected(paths)


def test_one_projects_wrong_key_stops_no_other(history: History, backend: HttpBackend) -> None:
    """They send to the same address, each with a key of its own."""
    backend.authorization = "right"
    del history.environment["CC_TRACE_OTLP_ENDPOINT"]
    wrong, right = history.home / "wrong", history.home / "right"
    for project in (wrong, right):
        settings = {"otlp_endpoint": backend.url, "otlp_headers": f"authorization={project.name}"}
        history.configure(project, **settings)
    for number in range(1, 5):
        history.write(number, days=10 - number, project=wrong)
    path = history.write(9, project=right)
    assert history.run()[0] == 1
    assert set(backend.counts) == expected([path])


def test_a_backend_that_refuses_what_is_old_gets_what_is_new(history: History, backend: HttpBackend) -> None:
    backend.behaviour = refuses_before(int((NOON.timestamp() + 1000) * 1e9))
    for number in range(1, 5):
        history.write(number, days=10 - number)
    new = [history.write(number, first=2000) for number in range(5, 8)]
    code, out, _ = history.run()
    assert code == 1
    assert "4 sessions pending: otlp: 400 too old; it refuses everything" in out
    assert set(backend.counts) == expected(new)


# Once more, for another backend under the same name


def test_again_delivers_to_a_new_backend_under_an_old_name(history: History) -> None:
    paths = history.add(*RECORDED)
    assert history.run()[0] == 0
    with HttpBackend() as other:
        assert history.run(CC_TRACE_OTLP_ENDPOINT=other.url)[0] == 0
        assert other.spans == []
        assert history.run("--again", "--to", "otlp", CC_TRACE_OTLP_ENDPOINT=other.url)[0] == 0
        assert set(other.counts) == expected(paths)
        assert max(other.counts.values()) == 1
        assert history.run("--again", CC_TRACE_OTLP_ENDPOINT=other.url)[0] == 2


def test_dry_run_of_again_changes_no_state(history: History, backend: HttpBackend) -> None:
    """It counts what would be sent again."""
    paths = history.add(*RECORDED)
    sent = counted(history.run()[1])
    agents = snapshot(history.state / "agents")
    assert any(agents)
    assert counted(history.run("--again", "--to", "otlp", "--dry-run")[1]) == sent
    assert snapshot(history.state / "agents") == agents
    assert counted(history.run()[1]) == (0, 0)
    assert set(backend.counts) == expected(paths)
    assert max(backend.counts.values()) == 1


def test_interrupted_again_continues(history: History, backend: HttpBackend) -> None:
    """Sessions it had not come to yet are sent, too."""
    paths = [history.write(1, turns=600, days=2), history.write(2)]
    assert history.run()[0] == 0
    backend.spans.clear()
    out = interrupted(history, backend, "--again", "--to", "otlp")
    assert "run it again without --again to continue; nothing is sent twice" in out
    assert history.run("--to", "otlp")[0] == 0
    assert set(backend.counts) == expected(paths)
    assert max(backend.counts.values()) == 1


def test_again_reports_a_session_that_is_locked(history: History, backend: HttpBackend) -> None:
    """Its state is not changed; it can be named when it is free."""
    paths = [history.write(number) for number in (1, 2)]
    assert history.run()[0] == 0
    backend.spans.clear()
    with StateFolder(history.state).locked(paths[0].stem) as held:
        assert held
        code, out, _ = history.run("--again", "--to", "otlp")
    assert code == 1
    assert f"1 session pending: another process is delivering it; wait, then run this again with {paths[0]}" in out
    assert set(backend.counts) == expected(paths[1:])
    assert history.run("--again", "--to", "otlp", str(paths[0]))[0] == 0
    assert set(backend.counts) == expected(paths)
    assert max(backend.counts.values()) == 1


def test_again_sends_a_forks_copy_of_a_missing_session(history: History, backend: HttpBackend) -> None:
    paths = history.add("2.1.325--d_resume_fork")
    assert history.run()[0] == 0
    origin = min(paths, key=lambda path: path.stat().st_size)
    origin.unlink()
    left = [path for path in paths if path != origin]
    backend.spans.clear()
    assert history.run("--again", "--to", "otlp")[0] == 0
    assert set(backend.counts) == expected(left)
