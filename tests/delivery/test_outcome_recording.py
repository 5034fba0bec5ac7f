"""A response is recorded whatever cannot be written, and a missing one is queried for at the right time."""

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


class SinkWithCallback(Sink):
    """Calls something after it has stored a batch, before it responds."""

    def __init__(self, callback: Callable[[], None]) -> None:
        super().__init__()
        self._callback = callback

    def send(self, batch: Sequence[EncodedSpan]) -> Outcome:
        outcome = super().send(batch)
        self._callback()
        return outcome


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait half a minute for a locked database."""
    connect = sqlite3.connect

    def at_once(*args: object, **more: object) -> sqlite3.Connection:
        return connect(*args, **{**more, "timeout": 0.05})  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr("cc_trace.delivery.ledger.sqlite3.connect", at_once)


def _fork(path: Path) -> Path:
    """Copy a session as --fork-session does."""
    fork = path.with_name("44444444-0000-4000-8000-00000000000f.jsonl")
    fork.write_bytes(path.read_bytes().replace(path.stem.encode(), fork.stem.encode()))
    return fork


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
def test_locked_ledger_after_response_causes_no_duplicates(tmp_path: Path, locker: Locker) -> None:
    """The state keeps what could not be written to the ledger; a fork of the session reads it there, too."""
    sink = SinkWithCallback(locker.lock)
    machine = Machine(tmp_path, sink)
    path = machine.copy(TWO_TURNS)
    machine.sync(path)
    fork = _fork(path)
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


def test_full_disk_after_response_causes_no_duplicates(tmp_path: Path) -> None:
    """Neither state nor ledger can grow then; the acceptance is marked in place."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    sink = SinkWithCallback(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (_LITTLE, limit[1])))
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
    """A file system with little space, where one can be mounted."""
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
def test_small_disk_loses_and_duplicates_nothing(tmp_path: Path, small_disk: Path, free: int) -> None:
    """With any amount of free space a sync sends nothing, or records what it sent."""
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


def test_ledger_of_earlier_version_is_used(tmp_path: Path) -> None:
    """It has no times: the wait for an unclear span begins when it is found."""
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
    claims = ledger.claim("d", "t", ["old", "open", "new"], 100.0)
    assert claims == ({"old": "delivered", "open": "unclear", "new": "mine"}, 100.0)
    ledger.set_outcome_time("d", ["new"], 110.0)
    assert ledger.claim("d", "u", ["open", "new"], 500.0).unclear_at == 110.0
    assert ledger.claim("d", "u", ["twice", "twice"], 500.0).by_span == {"twice": "mine"}
    ledger.close()
    Ledger(path, lambda _: False).close()


class Langfuse:
    """A machine whose backend stores and shows late, with the default CC_TRACE_UNCLEAR_SECONDS."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.sink = Late(self.clock)
        self.machine = Machine(folder, self.sink)
        self.machine.clock, self.machine.unclear_seconds, self.machine.request_seconds = self.clock, 60.0, 10.0
        self.machine.in_background = False
        self.path = self.machine.copy(TWO_TURNS)

    def lose_an_answer(self) -> None:
        self.sink.behaviour = "unclear stored"
        assert not self.machine.sync(self.path)
        self.sink.behaviour = "ok"


@pytest.fixture
def langfuse(tmp_path: Path) -> Langfuse:
    return Langfuse(tmp_path)


def test_unclear_wait_starts_at_outcome(langfuse: Langfuse) -> None:
    """Not at the request's start, which would count its timeout as part of the wait."""
    langfuse.lose_an_answer()
    for _ in range(11):
        langfuse.clock.now += 5
        langfuse.machine.sync(langfuse.path)
    langfuse.clock.now += 6
    assert langfuse.machine.sync(langfuse.path)
    assert set(langfuse.sink.taken) == expected(langfuse.path)
    assert langfuse.sink.twice == []


@pytest.mark.parametrize("timeout", [10.0, 1000.0], ids=["timed out", "machine was suspended"])
def test_fork_respects_unclear_wait(langfuse: Langfuse, timeout: float) -> None:
    """The time is in the ledger's claim."""
    langfuse.sink.timeout = timeout
    langfuse.lose_an_answer()
    fork = _fork(langfuse.path)
    for _ in range(11):
        langfuse.clock.now += 5
        langfuse.machine.sync(fork)
    langfuse.clock.now += 6
    assert langfuse.machine.sync(fork)
    assert langfuse.machine.sync(langfuse.path)
    assert langfuse.sink.twice == []


@pytest.mark.parametrize("step", ["answered", "intent saved"])
def test_killed_sender_is_treated_as_unclear(langfuse: Langfuse, step: str) -> None:
    """The wait includes the longest time that the request can have taken."""
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


class Slow(Late):
    """Takes almost as long as a request may. The process is killed when a batch was stored, before it is known."""

    def send(self, batch: Sequence[EncodedSpan]) -> Outcome:
        self._clock.now += 9.0
        outcome = super().send(batch)
        if self.stored and self.behaviour == "unclear stored":
            raise Killed
        return outcome

    def stored_ids(self, batch: Sequence[EncodedSpan]) -> frozenset[str] | None:
        if self.behaviour != "ok":
            self._clock.now += 9.0
        return super().stored_ids(batch)


@pytest.mark.parametrize("forked", [False, True])
@pytest.mark.parametrize("before", ["halved", "queried"])
def test_unclear_wait_starts_at_last_attempt(tmp_path: Path, before: str, forked: bool) -> None:  # noqa: FBT001
    """Not at the claim: a batch may be sent in parts then, or asked for, before it is sent."""
    langfuse = Langfuse(tmp_path)
    langfuse.sink = Slow(langfuse.clock)
    langfuse.sink.timeout, langfuse.sink.shown_after = 0.0, 59.0
    langfuse.machine.sinks = (langfuse.sink,)
    if before == "queried":
        langfuse.sink.behaviour = "unclear lost"
        assert not langfuse.machine.sync(langfuse.path)
        langfuse.clock.now += 100
    else:
        langfuse.sink.rejected_ids = {min(expected(langfuse.path))}
    langfuse.sink.behaviour = "unclear stored"
    with pytest.raises(Killed):
        langfuse.machine.sync(langfuse.path)
    langfuse.sink.behaviour = "ok"
    path = _fork(langfuse.path) if forked else langfuse.path
    for _ in range(90):
        langfuse.clock.now += 1
        langfuse.machine.sync(path)
    langfuse.clock.now += 100
    assert langfuse.machine.sync(path)
    assert langfuse.sink.twice == []
    assert set(langfuse.sink.taken) == expected(langfuse.path) - langfuse.sink.rejected_ids


def test_confirmed_spans_are_no_longer_pending(langfuse: Langfuse) -> None:
    langfuse.lose_an_answer()
    assert langfuse.machine.progress(langfuse.path).unclear
    langfuse.clock.now += 100
    assert langfuse.machine.sync(langfuse.path)
    progress = langfuse.machine.progress(langfuse.path)
    assert (progress.intent, progress.unclear, progress.pending) == ([], [], False)


def test_edit_before_cursor_triggers_reread(tmp_path: Path) -> None:
    """The file has outgrown its old size, so only the fingerprint before the cursor shows the edit."""
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


def test_offset_inside_a_line_is_not_trusted(tmp_path: Path) -> None:
    """StateFolder of earlier versions have no fingerprint."""
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


def test_second_ledger_connection_keeps_first_ones_locks(tmp_path: Path) -> None:
    """Otherwise another process takes the ledger for unused and removes its WAL: later writes are lost."""
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
