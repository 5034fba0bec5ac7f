"""Many sessions on one machine, many machines after an outage: few workers, nothing missed, nobody hammered."""

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
from cc_trace.delivery.state import States

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def backend() -> Iterator[HttpBackend]:
    with HttpBackend() as running:
        yield running


def test_waits_grow_have_a_random_part_and_an_end() -> None:
    """One failure is no reason to wait; what a backend asks for is waited for."""
    assert [wait_seconds(failures, None, 1.0) for failures in range(1, 9)] == [0, 5, 15, 35, 75, 155, 300, 300]
    assert [wait_seconds(failures, None, 0.0) for failures in (2, 60)] == [2.5, 150]
    assert [wait_seconds(1, 30.0, jitter) for jitter in (0.0, 1.0)] == [30, 33]


def test_failures_are_shared_and_forgotten_with_the_first_answer(tmp_path: Path) -> None:
    backoff = Backoff(tmp_path)
    for _ in range(2):
        backoff.failed("a", 100.0, "down", None, 1.0)
    waiting = Backoff(tmp_path).waiting("a", 104.0)
    assert waiting is not None
    assert (waiting.failures, waiting.not_before, waiting.error) == (2, 105.0, "down")
    assert backoff.waiting("a", 105.0) is None
    assert backoff.waiting("b", 104.0) is None
    assert backoff.waiting("a", -1e9) is None  # the clock was set back
    backoff.recovered("a")
    backoff.failed("a", 100.0, "down", None, 1.0)
    assert backoff.waiting("a", 100.0) is None


def test_what_is_written_while_a_destination_is_left_alone_is_pending(tmp_path: Path) -> None:
    """The state has the new size by then; it must not look as if all of it were delivered."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.projects / "00000001-0000-4000-8000-000000000001.jsonl"
    write(path, [prompt("one", 0), reply("m1", "x", at=1)])
    assert machine.sync(path)
    for _ in range(2):
        machine.states.backoff.failed("sink", time.time(), "down", None, 1.0)
    write(path, [prompt("one", 0), reply("m1", "x", at=1), prompt("two", 2), reply("m2", "y", at=3)])
    assert not machine.sync(path)
    assert machine.progress(path).pending
    assert machine.states.index.rows()[path.stem].pending == {"sink"}


@pytest.mark.parametrize("mood", ["down", "unclear lost"])
def test_a_dead_backend_is_not_tried_by_every_session(tmp_path: Path, mood: str) -> None:
    """Two find out, the others leave it alone; a user who calls by hand tries at once, and then all may again."""
    sink = Sink()
    sink.mood = mood  # type: ignore[assignment]
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
    sink.mood = "ok"
    machine.patient = False
    assert machine.sync(paths[0])
    machine.patient = True
    assert all(machine.sync(path) for path in paths)
    assert (set(sink.taken), sink.twice) == (expected(*paths), [])


def test_retry_after_holds_for_all_sessions(tmp_path: Path, backend: HttpBackend) -> None:
    """Also for those that have not been refused themselves."""
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


def test_few_workers_serve_many_hooks(tmp_path: Path, backend: HttpBackend) -> None:
    """Those that find enough at work leave their request and go; all sessions are delivered, each once."""
    home = Home(tmp_path, backend)
    home.environment |= {"CC_TRACE_WORKERS": "1"}
    paths = [_session(home, number) for number in range(12)]
    spooled = [home.spool(home.payload(path, background_tasks=[]), str(n)) for n, path in enumerate(paths)]
    workers = [home.start(each) for each in spooled]
    assert [worker.wait(60) for worker in workers] == [0] * len(workers)
    assert backend.counts == Counter(expected(*paths))
    assert not list((home.state / "spool").iterdir())


def test_a_worker_that_finds_no_place_leaves_its_request_with_all_it_knows(
    tmp_path: Path, backend: HttpBackend
) -> None:
    """The seed of its environment reaches the worker that serves it; killed workers leave theirs to the next."""
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
def test_workers_killed_at_their_place_lose_nothing(tmp_path: Path, backend: HttpBackend, step: str) -> None:
    """Whoever comes next has the place and serves what they left."""
    home = Home(tmp_path, backend)
    home.environment |= {"CC_TRACE_WORKERS": "1"}
    paths = [_session(home, number) for number in range(4)]
    for path in paths[:3]:
        home.work(home.payload(path, background_tasks=[]), CC_TRACE_DIE_AT=step)
    (home.state / "swept").unlink(missing_ok=True)
    assert home.work(home.payload(paths[3], background_tasks=[])) == 0
    assert backend.counts == Counter(expected(*paths))


def test_a_hook_that_waits_does_its_own_work(tmp_path: Path, backend: HttpBackend) -> None:
    """In CI the machine may be gone with the turn: it never leaves its request to others."""
    home = Home(tmp_path, backend)
    path = _session(home, 1)
    states = States(home.state)
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
