"""An answer that was seen is recorded, whatever cannot be written; and what was not seen is asked about in time."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import orjson
import pytest
from backend import HttpBackend
from lines import prompt, reply, write
from sink import Clock, Late, Sink
from test_sync import AGENTS, TWO_TURNS, Killed, Machine, expected
from test_worker import Home

from cc_trace.delivery.ledger import Ledger
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from cc_trace.export.outcomes import EncodedSpan, Outcome


class Acting(Sink):
    """Does something after it has taken a batch, before it answers."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__()
        self._act = act

    def send(self, batch: Sequence[EncodedSpan]) -> Outcome:
        outcome = super().send(batch)
        self._act()
        return outcome


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite does not wait half a minute for a lock."""
    connect = sqlite3.connect

    def at_once(*args: object, **more: object) -> sqlite3.Connection:
        return connect(*args, **{**more, "timeout": 0.05})  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr("cc_trace.delivery.ledger.sqlite3.connect", at_once)


_LITTLE = 100  # bytes that a file may have

LOCKER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


class Locker:
    """Another process that holds the ledger's write lock."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self._process: subprocess.Popen[bytes] | None = None

    def lock(self) -> None:
        if self._process is None:
            command = [sys.executable, "-c", LOCKER, str(self._ledger)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert self._process.stdout is not None
            assert self._process.stdout.readline() == b"locked\n"

    def unlock(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None


@pytest.fixture
def locker(tmp_path: Path) -> Iterator[Locker]:
    found = Locker(tmp_path / "state" / "ledger.db")
    yield found
    found.unlock()


@pytest.mark.usefixtures("hurried")
def test_a_ledger_that_is_locked_after_the_answer_doubles_nothing(tmp_path: Path, locker: Locker) -> None:
    """The state keeps what the ledger could not be told; for a fork as well, until the ledger is told."""
    sink = Acting(locker.lock)
    machine = Machine(tmp_path, sink)
    path = machine.copy(TWO_TURNS)
    machine.sync(path)
    fork = path.with_name("44444444-0000-4000-8000-00000000000f.jsonl")
    fork.write_bytes(path.read_bytes().replace(path.stem.encode(), fork.stem.encode()))
    locker.unlock()
    assert machine.progress(path).not_in_ledger
    plain = Sink()
    plain.taken, machine.sinks = sink.taken, (plain,)
    assert machine.sync(fork)
    assert plain.batches == []
    assert machine.sync(path)
    assert plain.batches == []
    assert machine.progress(path).not_in_ledger == []
    assert set(sink.taken) == expected(path)


@pytest.mark.usefixtures("hurried")
def test_nothing_is_sent_while_the_ledger_cannot_be_written(tmp_path: Path, locker: Locker) -> None:
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(TWO_TURNS)
    machine.sync(machine.copy(AGENTS))
    batches = len(sink.batches)
    locker.lock()
    assert not machine.sync(path)
    assert len(sink.batches) == batches
    locker.unlock()
    assert machine.sync(path)
    assert sink.twice == []


def test_a_disk_that_is_full_after_the_answer_doubles_nothing(tmp_path: Path) -> None:
    """Nothing new can be written then: no state, no ledger. The answer needs no room."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    sink = Acting(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (_LITTLE, limit[1])))
    machine = Machine(tmp_path, sink)
    path = machine.copy(AGENTS)
    machine.log.write("before")  # it is longer then than can be written
    try:
        assert not machine.sync(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert sink.batches
    plain = Sink()
    plain.taken, machine.sinks = sink.taken, (plain,)
    assert machine.sync(path)
    assert set(sink.taken) == expected(path)
    assert sink.twice == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with little room, where this system lets us have one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k,mode=700", "tmpfs", str(folder)]
    made = subprocess.run(command, capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {made.stderr.decode().strip()}")
    yield folder
    command = ["umount", str(folder)]
    subprocess.run(command, check=True)


@pytest.mark.parametrize("free", [0, 8, 16, 24, 40, 60, 90, 140])
def test_with_little_room_nothing_is_doubled_and_nothing_lost(tmp_path: Path, small_disk: Path, free: int) -> None:
    """At every amount of room a sync sends nothing, or records what it sent; with room again all is there."""
    with HttpBackend() as backend:
        home = Home(tmp_path / "home", backend)
        home.environment["CC_TRACE_HOME"] = str(small_disk)
        home.state = small_disk
        path = home.projects / "77777777-0000-4000-8000-000000000001.jsonl"
        ballast = small_disk / "ballast"
        for number in range(6):
            lines = [prompt(f"p{number}", at=number * 10), reply(f"m{number}", "x", at=number * 10 + 1)]
            with path.open("ab") as file:
                file.writelines(orjson.dumps(line) + b"\n" for line in lines)
            if number:
                _fill(small_disk, ballast, free * 1024)
            home.command("sync", "--transcript", str(path))
        ballast.unlink()
        os.utime(path, (0, 0))
        assert home.command("sync", "--transcript", str(path)).returncode == 0
        assert dict.fromkeys(expected(path), 1) == backend.counts


def _fill(disk: Path, ballast: Path, free: int) -> None:
    ballast.unlink(missing_ok=True)
    room = os.statvfs(disk)
    size = room.f_bavail * room.f_frsize - free
    if size > 0:
        ballast.write_bytes(bytes(size))


def test_a_ledger_of_an_earlier_version_is_used(tmp_path: Path) -> None:
    """It has no times: what is unclear in it counts from when it was found."""
    path = tmp_path / "ledger.db"
    database = sqlite3.connect(path)
    database.execute(
        "CREATE TABLE claims (destination TEXT, span TEXT, session TEXT, settled INTEGER,"
        " PRIMARY KEY (destination, span)) WITHOUT ROWID"
    )
    database.execute("INSERT INTO claims VALUES ('d', 'old', 's', 1), ('d', 'open', 's', 0)")
    database.commit()
    database.close()
    ledger = Ledger(path, lambda _: False)
    claims = ledger.claim("d", "t", ["old", "open", "new"], 100.0, 10.0)
    assert claims == ({"old": "delivered", "open": "unclear", "new": "mine"}, 100.0)
    assert ledger.claim("d", "u", ["open", "new"], 500.0, 10.0).unclear_at == 110.0
    ledger.close()
    Ledger(path, lambda _: False).close()


class Langfuse:
    """A machine whose backend stores and shows late, with the grace that is the default."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.sink = Late(self.clock)
        self.machine = Machine(folder, self.sink)
        self.machine.clock, self.machine.unclear_seconds, self.machine.request_seconds = self.clock, 60.0, 10.0
        self.machine.patient = False
        self.path = self.machine.copy(TWO_TURNS)

    def lose_an_answer(self) -> None:
        self.sink.mood = "unclear stored"
        assert not self.machine.sync(self.path)
        self.sink.mood = "ok"


@pytest.fixture
def langfuse(tmp_path: Path) -> Langfuse:
    return Langfuse(tmp_path)


def test_the_grace_begins_when_the_outcome_is_known(langfuse: Langfuse) -> None:
    """Not when the request began: the time-out would be part of it."""
    langfuse.lose_an_answer()
    for _ in range(11):
        langfuse.clock.now += 5
        langfuse.machine.sync(langfuse.path)
    langfuse.clock.now += 6
    assert langfuse.machine.sync(langfuse.path)
    assert set(langfuse.sink.taken) == expected(langfuse.path)
    assert langfuse.sink.twice == []


def test_a_fork_waits_as_well(langfuse: Langfuse) -> None:
    """The claim has the time, so whoever takes it over does not ask too early."""
    langfuse.lose_an_answer()
    fork = langfuse.path.with_name("44444444-0000-4000-8000-00000000000f.jsonl")
    fork.write_bytes(langfuse.path.read_bytes().replace(langfuse.path.stem.encode(), fork.stem.encode()))
    for _ in range(11):
        langfuse.clock.now += 5
        langfuse.machine.sync(fork)
    langfuse.clock.now += 6
    assert langfuse.machine.sync(fork)
    assert langfuse.machine.sync(langfuse.path)
    assert langfuse.sink.twice == []


@pytest.mark.parametrize("step", ["answered", "intent saved"])
def test_who_died_while_sending_is_waited_for(langfuse: Langfuse, step: str) -> None:
    """Nobody saw the end: it may have come as late as a request can take."""
    langfuse.sink.shown_after = 66.0
    langfuse.machine.die_at = step
    with pytest.raises(Killed):
        langfuse.machine.sync(langfuse.path)
    langfuse.machine.die_at = None
    stored = bool(langfuse.sink.taken)
    for _ in range(13):
        langfuse.clock.now += 5
        assert not langfuse.machine.sync(langfuse.path)
    langfuse.clock.now += 5
    assert langfuse.machine.sync(langfuse.path)
    assert stored == (step == "answered")
    assert set(langfuse.sink.taken) == expected(langfuse.path)
    assert langfuse.sink.twice == []


def test_what_langfuse_confirms_is_not_pending_any_more(langfuse: Langfuse) -> None:
    """Nothing of the attempt is left in the state, so the session is not listed for ever."""
    langfuse.lose_an_answer()
    assert langfuse.machine.progress(langfuse.path).unclear
    langfuse.clock.now += 100
    assert langfuse.machine.sync(langfuse.path)
    progress = langfuse.machine.progress(langfuse.path)
    assert (progress.intent, progress.unclear, progress.pending) == ([], [], False)


def test_text_taken_out_of_an_earlier_turn_loses_nothing(tmp_path: Path) -> None:
    """All after it has moved, and the file has outgrown its old size: what stands before the offset tells."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.projects / "77777777-0000-4000-8000-000000000001.jsonl"
    turns = [
        [prompt(f"p{n} " + "secret " * 300, at=n * 10), reply(f"m{n}", "x" * 200, at=n * 10 + 1)] for n in range(20)
    ]
    write(path, [line for turn in turns[:10] for line in turn])
    assert machine.sync(path)
    scrubbed = path.read_bytes().splitlines(keepends=True)
    for number in (4, 6, 8, 10):  # more than the last turn is long: the old offset lies in a turn that is new
        scrubbed[number] = scrubbed[number].replace(b"secret ", b"")
    path.write_bytes(b"".join(scrubbed) + b"".join(orjson.dumps(line) + b"\n" for turn in turns[10:] for line in turn))
    assert path.stat().st_size > machine.progress(path).offset
    assert machine.sync(path)
    assert {span.span_id for span in Session(path, ending="over").spans()} == set(sink.taken)
    assert sink.twice == []


def test_an_offset_of_an_earlier_version_that_begins_no_line_is_not_trusted(tmp_path: Path) -> None:
    """Its state has no fingerprint there."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(TWO_TURNS)
    machine.sync(path)
    state, _ = machine.states.load(path.stem)
    assert state is not None
    state.destinations["sink"].fingerprint, state.destinations["sink"].offset = "", path.stat().st_size - 3
    machine.states.save(state)
    assert machine.sync(path)
    assert machine.progress(path).offset < path.stat().st_size - 3


def test_a_second_connection_leaves_the_locks_of_the_first(tmp_path: Path) -> None:
    """Otherwise another process takes the ledger for unused, removes its WAL, and what is written next is lost."""
    path = tmp_path / "ledger.db"
    look = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT span FROM claims').fetchall())"
    first = Ledger(path, lambda _: False)
    second = Ledger(path, lambda _: False)
    subprocess.run([sys.executable, "-c", look, str(path)], check=True, capture_output=True)
    assert first.settle("one", "session", ["span"]) is None
    seen = subprocess.run([sys.executable, "-c", look, str(path)], check=True, capture_output=True, text=True)
    assert seen.stdout == "[('span',)]\n"
    first.close()
    second.close()
