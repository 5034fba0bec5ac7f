"""What expires and what stays: nothing is sent again and nothing is lost, even if a removed session comes back."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest
from backend import HttpBackend
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from lines import NOON, SESSION, prompt, reply, write
from shared import CASES
from sink import Sink
from test_random_syncs import Histories
from test_sync import AGENTS, TWO_TURNS, Killed, Machine, expected
from test_worker import CASE, Home, quieten

from cc_trace.delivery import retention
from cc_trace.delivery.cursor import Cursor, SessionState
from cc_trace.delivery.index import SessionIndex
from cc_trace.delivery.ledger import Ledger
from cc_trace.delivery.payload import Payload
from cc_trace.delivery.retention import DAY_SECONDS, clean_up, is_due
from cc_trace.delivery.state import StateFolder
from cc_trace.delivery.sync_requests import SyncRequest
from cc_trace.export.local import LocalStore
from cc_trace.log import Log
from cc_trace.settings import Settings, read_config
from cc_trace.spans.session import Session
from cc_trace.store.delivered import read_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONFIG = read_config(Settings([]), Path("/state"), Path("/home"))
GONE = "99999999-0000-4000-8000-000000000009"


def clean(folder: Path, *, days: float = 31, state_days: float = 30, store_days: float = 0) -> None:
    """Run the cleanup as a worker would, so many days from now."""
    states = StateFolder(folder / "state")
    config = replace(CONFIG, state_days=state_days, store_days=store_days)
    now = time.time() + days * DAY_SECONDS
    for _ in clean_up(states, folder / "claude", config, now, Log(folder / "state")):
        pass
    states.index.close()


def traces_of(folder: Path, session_id: str) -> list[str]:
    """Return what the state folder has of a session, except in the ledger."""
    found = [str(path.relative_to(folder)) for path in (folder / "state").glob(f"*/{session_id}*")]
    rows = StateFolder(folder / "state").index.rows()
    return sorted(found) + ["row"] * (session_id in rows)


@contextlib.contextmanager
def away(path: Path) -> Iterator[Path]:
    """Have a transcript and its agents' files gone for a while, then restored with all their times."""
    folder = path.parent.parent.parent.parent / "backup"
    folder.mkdir()
    shutil.move(path, folder)
    if path.with_suffix("").is_dir():
        shutil.move(path.with_suffix(""), folder)
    yield folder
    shutil.copytree(folder, path.parent, dirs_exist_ok=True)
    shutil.rmtree(folder)


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def machine(tmp_path: Path, sink: Sink) -> Machine:
    return Machine(tmp_path, sink)


def test_expired_session_is_removed_completely(tmp_path: Path, machine: Machine) -> None:
    path = machine.copy(AGENTS)
    assert machine.sync(path)
    assert traces_of(tmp_path, path.stem) == [
        f"state/agents/{path.stem}.json",
        f"state/locks/{path.stem}.lock",
        f"state/sessions/{path.stem}.json",
        "row",
    ]
    clean(tmp_path)
    assert len(traces_of(tmp_path, path.stem)) == 4, "its transcript is there"
    with away(path):
        clean(tmp_path, days=29)
        assert len(traces_of(tmp_path, path.stem)) == 4, "it was touched not long ago"
        clean(tmp_path, days=10_000, state_days=0)
        assert len(traces_of(tmp_path, path.stem)) == 4, "nothing is to expire"
        clean(tmp_path)
        assert traces_of(tmp_path, path.stem) == []


@pytest.mark.parametrize("case", [AGENTS, TWO_TURNS])
def test_restored_session_is_not_resent(tmp_path: Path, machine: Machine, sink: Sink, case: str) -> None:
    """Only what is appended to it then is sent."""
    path = machine.copy(case)
    assert machine.sync(path)
    with away(path):
        clean(tmp_path)
    assert machine.sync(path)
    assert (sink.twice, set(sink.taken)) == ([], expected(path))
    with away(path) as backup:
        clean(tmp_path)
        with (backup / path.name).open("ab") as file:
            for line in (prompt("more", 10**6), reply("m", "yes", at=10**6 + 1)):
                file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    before = len(sink.taken)
    assert machine.sync(path)
    assert (sink.twice, set(sink.taken)) == ([], expected(path))
    assert len(sink.taken) > before


def test_fork_of_removed_session_is_not_resent(tmp_path: Path, machine: Machine, sink: Sink) -> None:
    path = machine.copy(TWO_TURNS)
    assert machine.sync(path)
    fork = path.with_name(f"{GONE}.jsonl")
    fork.write_bytes(path.read_bytes())
    path.unlink()
    clean(tmp_path)
    assert traces_of(tmp_path, path.stem) == []
    assert machine.sync(fork)
    assert (sink.twice, set(sink.taken)) == ([], expected(fork))


def saved(machine: Machine, cursor: Cursor, name: str = "sink") -> SessionState:
    """Save a state of a session whose transcript is gone, and settle its spans in the ledger."""
    state = SessionState(GONE, str(machine.projects / f"{GONE}.jsonl"), destinations={name: cursor})
    machine.states.save(state)
    with contextlib.closing(Ledger(machine.states.folder / "ledger.db", lambda _: False)) as ledger:
        ledger.settle(name, GONE, [f"{number:016x}" for number in range(3)])
    return state


def test_delivered_state_is_removed(tmp_path: Path, machine: Machine) -> None:
    """The states of the next test differ from this one in one thing each."""
    saved(machine, Cursor(last_attempt_at=1.0, delivered=3))
    clean(tmp_path)
    assert traces_of(tmp_path, GONE) == []


@pytest.mark.parametrize(
    "cursor",
    [
        Cursor(last_attempt_at=1.0, delivered=3, pending_spans=1),
        Cursor(last_attempt_at=1.0, delivered=3, unfinished_spans=1),
        Cursor(last_attempt_at=1.0, delivered=3, intent=["a"]),
        Cursor(last_attempt_at=1.0, delivered=3, unclear=["a"]),
        Cursor(last_attempt_at=1.0, delivered=3, not_in_ledger=["a"]),
        Cursor(last_attempt_at=1.0, delivered=3, error="down"),
        Cursor(last_attempt_at=None, delivered=3),
        Cursor(last_attempt_at=1.0, delivered=4),
    ],
    ids=["pending", "unfinished", "intent", "unclear", "not in ledger", "error", "never ended", "ledger knows less"],
)
def test_state_with_unrecorded_facts_is_kept(tmp_path: Path, machine: Machine, cursor: Cursor) -> None:
    state = saved(machine, cursor)
    clean(tmp_path)
    assert machine.states.peek(GONE) == state


def test_state_of_transcript_outside_projects_is_kept(tmp_path: Path, machine: Machine) -> None:
    """`sync --transcript` takes any path."""
    state = saved(machine, Cursor(last_attempt_at=1.0, delivered=3))
    state.transcript = str(tmp_path / "elsewhere.jsonl")
    Path(state.transcript).touch()
    machine.states.save(state)
    clean(tmp_path)
    assert machine.states.peek(GONE) == state


def test_unreadable_state_is_kept(tmp_path: Path, machine: Machine) -> None:
    machine.states.path(GONE).write_text("{")
    clean(tmp_path)
    assert machine.states.path(GONE).read_text() == "{"


def test_state_of_local_store_is_removed_without_ledger(tmp_path: Path, machine: Machine) -> None:
    """A span that is stored again replaces itself, so the ledger has no claims for it."""
    saved(machine, Cursor(last_attempt_at=1.0, delivered=100), name="local")
    clean(tmp_path)
    assert traces_of(tmp_path, GONE) == []


def test_states_are_kept_if_ledger_is_lost(tmp_path: Path, machine: Machine, sink: Sink) -> None:
    path = machine.copy(TWO_TURNS)
    assert machine.sync(path)
    for part in machine.states.folder.glob("ledger.db*"):
        part.unlink()
    with away(path):
        clean(tmp_path)
    assert machine.sync(path)
    assert sink.twice == []


def test_locked_or_requested_session_is_kept(tmp_path: Path, machine: Machine) -> None:
    state = saved(machine, Cursor(last_attempt_at=1.0, delivered=3))
    with machine.states.locked(GONE) as held:
        assert held
        clean(tmp_path)
    assert machine.states.peek(GONE) == state
    machine.states.spool.post_request(SyncRequest(Payload("Stop", Path(f"{GONE}.jsonl")), 0))
    clean(tmp_path)
    assert machine.states.peek(GONE) == state


def test_waiter_gets_new_lock_file_after_removal(machine: Machine) -> None:
    got: list[bool] = []

    def wait() -> None:
        one, other = StateFolder(machine.states.folder), StateFolder(machine.states.folder)
        with one.locked(GONE, 60) as held, other.locked(GONE) as twice:
            got.extend([held, twice])

    with machine.states.locked(GONE) as held:
        assert held
        waiting = threading.Thread(target=wait)
        waiting.start()
        machine.states.remove(GONE)
    waiting.join()
    assert got == [True, False]


def die_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Die before the removal of the file with this number, or of the row."""
    left = iter(range(number))

    def dying(effect: Callable[..., None]) -> Callable[..., None]:
        def wrapped(*args: object, **kwargs: object) -> None:
            if next(left, None) is None:
                raise Killed
            effect(*args, **kwargs)

        return wrapped

    monkeypatch.setattr(Path, "unlink", dying(Path.unlink))
    monkeypatch.setattr(SessionIndex, "remove", dying(SessionIndex.remove))


@pytest.mark.parametrize("number", range(4))
def test_interrupted_cleanup_is_finished_by_next(tmp_path: Path, machine: Machine, sink: Sink, number: int) -> None:
    path = machine.copy(AGENTS)
    assert machine.sync(path)
    with away(path):
        with pytest.MonkeyPatch.context() as patch:
            die_at(patch, number)
            with pytest.raises(Killed):
                clean(tmp_path)
        assert traces_of(tmp_path, path.stem) != []
        half = tmp_path / "half"
        shutil.copytree(tmp_path / "state", half)
        clean(tmp_path, days=100)
        assert traces_of(tmp_path, path.stem) == []
    assert machine.sync(path)
    assert (sink.twice, set(sink.taken)) == ([], expected(path))
    shutil.rmtree(tmp_path / "state")
    half.rename(tmp_path / "state")
    assert machine.sync(path), "and whoever comes back to half of it"
    assert (sink.twice, set(sink.taken)) == ([], expected(path))


def test_cleanup_is_bounded_per_run(tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that are kept do not block others: they are not examined again for a while."""
    monkeypatch.setattr(retention, "MAX_SESSIONS", 2)
    for number in range(6):
        id_ = f"{number:08}-0000-4000-8000-000000000001"
        cursor = Cursor(last_attempt_at=1.0, pending_spans=int(number < 2))
        machine.states.save(SessionState(id_, "/gone", destinations={"sink": cursor}))
        os.utime(machine.states.path(id_), (number, number))
    left = []
    for days in (31, 31.1, 31.2):
        clean(tmp_path, days=days - 31)
        left.append([int(id_[:8]) for id_ in machine.states.sessions()])
    assert left == [[0, 1, 2, 3, 4, 5], [0, 1, 4, 5], [0, 1]]


def test_crash_leftovers_are_removed_after_a_day(tmp_path: Path, machine: Machine) -> None:
    """And no other file."""
    folder = machine.states.folder
    left = [
        ".installed.123.tmp",
        "ledger.db.aside-1",
        "ledger.db.aside-1-wal",
        f"sessions/.{GONE}.json.123.tmp",
        f"sessions/{GONE}.json.aside-2",
        f"pending/.{GONE}.123",
        f"spool/.{GONE}.request.123.tmp",
        f"agents/.{GONE}.json.123.tmp",
        f"off/.{GONE}.123.tmp",
        "backoff/.0123.9.tmp",
    ]
    stays = [".profile", "notes.123.tmp", "mine.aside-1", f"off/{GONE}", "off-since/0123", f"pending/{GONE}.json"]
    stays += ["spool/.1-0.json.123", f"spool/{GONE}.request", f"spool/{GONE}.taken"]
    (folder / "pending").mkdir()  # of an earlier version
    for name in (*left, *stays):
        (folder / name).touch()
    (folder / "sessions" / ".linked.1.tmp").symlink_to(folder / ".profile")
    clean(tmp_path, days=0.9, state_days=0)
    assert all((folder / name).exists() for name in (*left, *stays))
    clean(tmp_path, days=1.1, state_days=0)
    assert [name for name in left if (folder / name).exists()] == []
    clean(tmp_path, days=1000)
    assert [name for name in stays if not (folder / name).exists()] == []


def test_recreatable_notes_expire(tmp_path: Path, machine: Machine) -> None:
    machine.states.backoff.record_failure("there", time.time(), "down", None, 0.0)
    machine.states.save_owners(tmp_path, {"agent-1.jsonl": GONE})
    clean(tmp_path, days=29)
    assert len([*machine.states.folder.glob("backoff/*"), *machine.states.folder.glob("agents/*")]) == 2
    clean(tmp_path, days=31)
    assert [*machine.states.folder.glob("backoff/*"), *machine.states.folder.glob("agents/*")] == []


def test_old_traces_of_local_store_are_deleted(tmp_path: Path, machine: Machine) -> None:
    """As a whole: a turn that began before the limit and ended after it keeps its first spans."""
    store = LocalStore("local", machine.states.folder / "traces.db")
    path = tmp_path / f"{SESSION}.jsonl"
    day = DAY_SECONDS
    turns = [(0, 1), (day, day + 1), (2 * day, 5 * day), (4 * day, 4 * day + 1)]
    write(path, [line for begin, end in turns for line in (prompt(f"{begin}", begin), reply(f"m{end}", "yes", at=end))])
    spans = [*Session(path, ending="over").spans()]
    store.send([store.encode(span) for span in spans])
    store.close()
    now = (NOON.timestamp() - time.time()) / day + 6  # days from today to six days after the first turn
    clean(tmp_path, days=now)
    assert {span.turn for span in read_session(machine.states.folder / "traces.db", SESSION)} == {1, 2, 3, 4}
    clean(tmp_path, days=now, store_days=3)
    assert {span.span_id for span in read_session(machine.states.folder / "traces.db", SESSION)} == {
        span.span_id for span in spans if span.turn > 2
    }


def test_deleting_traces_shrinks_the_store(tmp_path: Path, machine: Machine) -> None:
    path = machine.states.folder / "traces.db"
    store = LocalStore("local", path)
    span = next(Session(machine.copy(TWO_TURNS), ending="over").spans())
    for number in range(900):
        one = span._replace(span_id=f"{number:016x}", trace_id=f"{number:032x}", metadata={"x": "y" * 5000})
        store.send([store.encode(one)])
    store.close()
    before = path.stat().st_size
    clean(tmp_path, days=10_000, store_days=1)
    assert path.stat().st_size < before / 10


def test_unreadable_store_is_logged_and_cleanup_continues(tmp_path: Path, machine: Machine) -> None:
    (machine.states.folder / "traces.db").write_text("no database, and long enough to look like one" * 100)
    saved(machine, Cursor(last_attempt_at=1.0, delivered=3))
    clean(tmp_path, store_days=1)
    assert traces_of(tmp_path, GONE) == []
    assert "cleaning up: " in (machine.states.folder / "cc-trace.log").read_text()


def test_cleanup_is_due_once_a_day(tmp_path: Path) -> None:
    stamp = tmp_path / "cleaned"
    assert [is_due(stamp, 100.0 + hours * 3600) for hours in (0, 1, 23, 24, 25, 49)] == [
        True, False, False, True, False, True,
    ]  # fmt: skip
    assert is_due(stamp, 50.0), "the clock was set back"


def test_worker_cleans_up(tmp_path: Path) -> None:
    with HttpBackend() as backend:
        home = Home(tmp_path, backend)
        transcript = home.add(CASE)
        quieten(transcript)
        assert home.work(home.payload(transcript)) == 0
        transcript.unlink()
        shutil.rmtree(transcript.with_suffix(""))
        assert StateFolder(home.state).sessions() == [transcript.stem]
        for path in (home.state / "cleaned", *home.state.glob(f"*/{transcript.stem}*"), home.state / "swept"):
            os.utime(path, (1, 1))
        other = home.add(CASES / TWO_TURNS)
        assert home.work(home.payload(other)) == 0
        assert StateFolder(home.state).sessions() == [other.stem]


class Returning(Histories):
    """The random syncs of `test_random_syncs`, with sessions that are gone while the machine is cleaned up."""

    @rule(path=Histories.sessions, other=Histories.sessions, number=st.none() | st.integers(0, 4))
    def gone_for_a_while(self, path: Path, other: Path, number: int | None) -> None:
        with away(path):
            with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Killed):
                if number is not None:
                    die_at(patch, number)
                clean(self.folder, days=40)
            if other != path:
                if self.plain.behaviour == "unclear stored":
                    self.unclear = True
                self.machine.sync(other, settled=False)


Returning.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestReturning = Returning.TestCase
