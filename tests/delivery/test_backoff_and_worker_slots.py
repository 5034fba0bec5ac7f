"""Many sessions on one machine: few workers, a bounded number of attempts at a failing backend, nothing lost."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from backend import HANG, OK, HttpBackend, status
from lines import prompt, reply, write
from sink import Sink
from test_sync import Machine
from test_worker import Home, expected
from waiting import until

from cc_trace.delivery.backoff import Backoff, wait_seconds
from cc_trace.delivery.state import StateFolder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def backend() -> Iterator[HttpBackend]:
    with HttpBackend() as running:
        yield running


def test_backoff_grows_with_jitter_up_to_a_limit() -> None:
    """The first failure causes no wait; Retry-After is respected."""
    assert [wait_seconds(failures, None, 1.0) for failures in range(1, 9)] == [0, 5, 15, 35, 75, 155, 300, 300]
    assert [wait_seconds(failures, None, 0.0) for failures in (2, 60)] == [2.5, 150]
    assert [wait_seconds(1, 30.0, jitter) for jitter in (0.0, 1.0)] == [30, 33]


def test_backoff_is_shared_and_reset_by_first_response(tmp_path: Path) -> None:
    backoff = Backoff(tmp_path)
    for _ in range(2):
        backoff.record_failure("a", 100.0, "down", None, 1.0)
    waiting = Backoff(tmp_path).current_wait("a", 104.0)
    assert waiting is not None
    assert (waiting.failures, waiting.not_before, waiting.error) == (2, 105.0, "down")
    assert backoff.current_wait("a", 105.0) is None
    assert backoff.current_wait("b", 104.0) is None
    assert backoff.current_wait("a", -1e9) is None  # the clock was set back
    backoff.clear("a")
    backoff.record_failure("a", 100.0, "down", None, 1.0)
    assert backoff.current_wait("a", 100.0) is None


def test_growth_during_backoff_is_pending(tmp_path: Path) -> None:
    """The state records the new size without an attempt to send; the session must not look delivered."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.projects / "00000001-0000-4000-8000-000000000001.jsonl"
    write(path, [prompt("one", 0), reply("m1", "x", at=1)])
    assert machine.sync(path)
    for _ in range(2):
        machine.states.backoff.record_failure("sink", time.time(), "down", None, 1.0)
    write(path, [prompt("one", 0), reply("m1", "x", at=1), prompt("two", 2), reply("m2", "y", at=3)])
    assert not machine.sync(path)
    assert machine.progress(path).pending
    assert machine.states.index.rows()[path.stem].pending == {"sink"}


@pytest.mark.parametrize("behaviour", ["down", "unclear lost"])
def test_backoff_limits_attempts_over_all_sessions(tmp_path: Path, behaviour: str) -> None:
    """Two sessions try; a sync command tries at once, and its success ends the backoff for all."""
    sink = Sink()
    sink.behaviour = behaviour  # type: ignore[assignment]
    machine = Machine(tmp_path, sink)
    machine.clock = lambda: now
    now = 1_800_000_000.0
    paths = []
    for number in range(50):
        path = machine.projects / f"{number:08}-0000-4000-8000-000000000001.jsonl"
        write(path, [prompt(f"{number}", 0), reply(f"m{number}", "x", at=1)])
        assert not machine.sync(path)
        paths.append(path)
    assert len(sink.batches) == 2
    sink.behaviour = "ok"
    machine.in_background = False
    assert machine.sync(paths[0])
    machine.in_background = True
    assert all(machine.sync(path) for path in paths)
    assert (set(sink.taken), sink.twice) == (expected(*paths), [])


def test_retry_after_holds_for_all_sessions(tmp_path: Path, backend: HttpBackend) -> None:
    """Also for sessions that have sent nothing yet."""
    home = Home(tmp_path, backend)
    backend.behaviour = status(429, retry_after="3600")
    first, second = (_session(home, number) for number in range(2))
    assert home.work(home.payload(first, background_tasks=[])) == 0
    backend.behaviour = OK
    asked = len(backend.requests)
    assert home.work(home.payload(second, background_tasks=[])) == 0
    assert len(backend.requests) == asked
    assert home.command("sync").returncode == 0
    assert backend.counts == Counter(expected(first, second))


def _session(home: Home, number: int) -> Path:
    path = home.projects / f"{number:08}-0000-4000-8000-000000000001.jsonl"
    about = {"sessionId": path.stem, "cwd": str(home.folder)}
    write(path, [prompt(f"{number}", 0, **about), reply(f"m{number}", "x", at=1, **about)])
    os.utime(path, (time.time() - 1000,) * 2)
    return path


def test_worker_count_is_limited(tmp_path: Path, backend: HttpBackend) -> None:
    """Workers without a slot leave their request; each session is delivered once."""
    home = Home(tmp_path, backend)
    home.environment |= {"CC_TRACE_WORKERS": "1"}
    paths = [_session(home, number) for number in range(12)]
    spooled = [home.spool(home.payload(path, background_tasks=[]), str(n)) for n, path in enumerate(paths)]
    workers = [home.start(each) for each in spooled]
    assert [worker.wait(60) for worker in workers] == [0] * len(workers)
    assert backend.counts == Counter(expected(*paths))
    assert not list((home.state / "spool").iterdir())


def test_worker_without_slot_leaves_request_with_hook_context(tmp_path: Path, backend: HttpBackend) -> None:
    """CC_TRACE_SEED of its environment reaches the worker that handles the request."""
    home = Home(tmp_path, backend)
    home.environment |= {"CC_TRACE_WORKERS": "1", "CC_TRACE_TIMEOUT_SECONDS": "30"}
    first, second, third = (_session(home, number) for number in range(3))
    backend.behaviour = HANG
    at_work = home.start(home.spool(home.payload(first, background_tasks=[]), "1"))
    until(lambda: bool(backend.requests), "a request arrives")
    excess = home.start(home.spool(home.payload(second, background_tasks=[]), "2"), CC_TRACE_SEED="seed")
    assert excess.wait(60) == 0
    assert [path.stem for path in (home.state / "spool").glob("*.request")] == [second.stem]
    at_work.send_signal(signal.SIGKILL)
    at_work.wait()
    backend.behaviour = OK
    assert home.work(home.payload(third, background_tasks=[])) == 0
    seeded = {span.trace_id.hex() for span in backend.spans}
    assert hashlib.sha256(b"seed:1").hexdigest()[:32] in seeded
    (home.state / "swept").unlink(missing_ok=True)
    assert home.command("sync").returncode == 0
    assert len(backend.counts) == 6


@pytest.mark.parametrize("step", ["slot taken", "slot given back", "unlocked", "state saved"])
def test_requests_survive_workers_killed_in_a_slot(tmp_path: Path, backend: HttpBackend, step: str) -> None:
    """The next worker gets the slot and handles their requests."""
    home = Home(tmp_path, backend)
    home.environment |= {"CC_TRACE_WORKERS": "1"}
    paths = [_session(home, number) for number in range(4)]
    for path in paths[:3]:
        home.work(home.payload(path, background_tasks=[]), CC_TRACE_DIE_AT=step)
    (home.state / "swept").unlink(missing_ok=True)
    assert home.work(home.payload(paths[3], background_tasks=[])) == 0
    assert backend.counts == Counter(expected(*paths))


def test_waiting_hook_needs_no_slot(tmp_path: Path, backend: HttpBackend) -> None:
    """In CI the machine may be gone after the turn, so a worker with a deadline leaves no request to others."""
    home = Home(tmp_path, backend)
    path = _session(home, 1)
    states = StateFolder(home.state)
    states.prepare()
    with states.worker_slot(1) as held:
        assert held
        spooled = home.spool(home.payload(path, background_tasks=[]))
        command = [sys.executable, "-m", "cc_trace", "sync", "--spooled", str(spooled), "--deadline", "20"]
        worker = subprocess.run(
            command,
            env=home.environment | {"CC_TRACE_WORKERS": "1"},
            cwd=tmp_path,
            check=False,
            timeout=60,
        )
    assert worker.returncode == 0
    assert set(backend.counts) == expected(path)


@pytest.mark.parametrize("failures", ["1e999", "-5", "null", '"x"'])
def test_damaged_backoff_file_counts_as_none(tmp_path: Path, failures: str) -> None:
    backoff = Backoff(tmp_path)
    backoff.record_failure("address", 1000.0, "down", None, 0.0)
    (file,) = tmp_path.iterdir()
    file.write_text(f'{{"failures": {failures}, "not_before": 0, "error": "down"}}')
    assert backoff.current_wait("address", 1000.0) is None
    backoff.record_failure("address", 1000.0, "down", None, 0.0)
