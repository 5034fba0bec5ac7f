"""Which sessions a worker syncs without a request, and in which order."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import TYPE_CHECKING

import pytest
from backend import OK, HttpBackend, status
from lines import prompt, reply, write
from test_worker import Home, expected

from cc_trace.delivery.cursor import Cursor, SessionState, to_json
from cc_trace.delivery.state import StateFolder
from cc_trace.delivery.sweep import pending_sessions, state_is_pending

if TYPE_CHECKING:
    from pathlib import Path


class Sessions:
    """Sessions that were last changed at seconds 1, 2, 3…; `add` takes the cursor of each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.states = StateFolder(folder / "state")
        self.states.prepare()
        self._count = 0

    def add(self, progress: Cursor | None, cwd: str = "/p") -> str:
        self._count += 1
        path = self.folder / "projects" / "-p" / f"{self._count:08}-0000-4000-8000-000000000001.jsonl"
        write(path, [prompt("a", cwd=cwd, sessionId=path.stem)])
        os.utime(path, (self._count, self._count))
        if progress is not None:
            size = path.stat().st_size
            self.states.save(SessionState(path.stem, str(path), size, cwd=cwd, destinations={"otlp": progress}))
        return path.stem

    def found(self, *, wrong: bool = False) -> list[str]:
        names = {"/p": ["otlp"], "/off": [], "/wrong": None}
        found = pending_sessions(
            self.states, self.folder, lambda project, _: names[project or "/p"], 0, include_misconfigured=wrong
        )
        return [path.stem for path in found]


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path)


def failed(time: float) -> Cursor:
    return Cursor(last_attempt_at=time, error="down", pending_spans=3)


def test_untried_then_longest_waiting_first(sessions: Sessions) -> None:
    """However many sessions a failing backend has."""
    second, third, first = sessions.add(failed(100)), sessions.add(failed(200)), sessions.add(None)
    assert sessions.found() == [first, second, third]
    sessions.states.save(SessionState(second, "", 0, cwd="/p", destinations={"otlp": failed(300)}))
    assert sessions.found() == [first, third, second]


def test_retry_after_sessions_come_last(sessions: Sessions) -> None:
    waits, other = (
        sessions.add(Cursor(last_attempt_at=1, error="slow down", not_before=1000)),
        sessions.add(failed(500)),
    )
    assert sessions.found() == [other, waits]


def test_newest_first_among_equals(sessions: Sessions) -> None:
    older, newer = sessions.add(None), sessions.add(None)
    assert sessions.found() == [newer, older]


def test_disabled_or_misconfigured_sessions_come_last(sessions: Sessions) -> None:
    pending, off, wrong = sessions.add(failed(100)), sessions.add(None, "/off"), sessions.add(None, "/wrong")
    assert sessions.found() == [pending, off]
    assert sessions.found(wrong=True) == [pending, wrong, off]


@pytest.mark.parametrize(
    ("progress", "pending"),
    [
        (Cursor(last_attempt_at=1), False),
        (Cursor(), True),  # it was being sent for the first time, and nothing was recorded
        (Cursor(last_attempt_at=1, pending_spans=1), True),
        (Cursor(last_attempt_at=1, unfinished_spans=1), True),
        (Cursor(last_attempt_at=1, error="no"), True),
        (Cursor(last_attempt_at=1, intent=["0123456789abcdef"]), True),
    ],
)
def test_is_pending(progress: Cursor, pending: bool) -> None:  # noqa: FBT001
    state = SessionState("s", "", 10, destinations={"otlp": progress})
    assert state_is_pending(state, 10, ["otlp"]) is pending
    assert state_is_pending(state, 10, ["otlp", "local"])
    assert state_is_pending(state, 11, ["otlp"])
    assert not state_is_pending(state, 10, [])
    assert state_is_pending(None, 10, [])


def test_all_of_6000_sessions_are_considered(tmp_path: Path) -> None:
    """Also if the installation's time stamp is in the future, or missing."""
    states = StateFolder(tmp_path / "state")
    states.prepare()
    folder = tmp_path / "projects" / "-p"
    folder.mkdir(parents=True)
    for number in range(6000):
        path = folder / f"{number:08}-0000-4000-8000-000000000001.jsonl"
        path.touch()
        progress = Cursor(last_attempt_at=1, error="401", pending_spans=1) if number % 2 else Cursor(last_attempt_at=1)
        state = SessionState(path.stem, str(path), 0, cwd="/p", destinations={"otlp": progress})
        states.path(path.stem).write_bytes(to_json(state))
    later_ns = time.time_ns() + 10**15
    assert len(list(pending_sessions(states, tmp_path, lambda *_: ["otlp"], later_ns))) == 3000
    assert len(list(pending_sessions(states, tmp_path, lambda *_: ["otlp"], None))) == 3000


def test_old_session_is_not_sent_to_new_destination(sessions: Sessions) -> None:
    sessions.add(Cursor(last_attempt_at=1))
    assert list(pending_sessions(sessions.states, sessions.folder, lambda *_: ["otlp", "new"], 10**18)) == []
    assert len(list(pending_sessions(sessions.states, sessions.folder, lambda *_: ["otlp", "new"], 0))) == 1


def test_agent_growth_is_pending_only_for_destinations_with_session(sessions: Sessions) -> None:
    id_ = sessions.add(Cursor(last_attempt_at=1))
    [path] = sessions.folder.rglob(f"{id_}.jsonl")
    agent = path.with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(b"{}\n")
    assert list(pending_sessions(sessions.states, sessions.folder, lambda *_: ["otlp", "new"], 10**18)) == [path]
    assert list(pending_sessions(sessions.states, sessions.folder, lambda *_: ["new"], 10**18)) == []


def test_unknown_sessions_are_sampled(sessions: Sessions) -> None:
    """The newest, and a random sample of the others."""
    added = [sessions.add(None) for _ in range(12)]
    asked: list[str | None] = []

    def names(cwd: str | None, _: object) -> list[str]:
        asked.append(cwd)
        return ["otlp"]

    seen: set[str] = set()
    for _ in range(200):
        found = list(pending_sessions(sessions.states, sessions.folder, names, 0, max_unknown=4))
        assert [path.stem for path in found[:2]] == added[:-3:-1]
        assert len(found) == 4
        seen.update(path.stem for path in found)
    assert seen == set(added)


def test_index_matches_state_files(sessions: Sessions) -> None:
    """Also when it has to be rebuilt because it is missing or damaged."""
    first, second = sessions.add(Cursor(last_attempt_at=1)), sessions.add(failed(100))
    rows = sessions.states.index.rows()
    assert {id_: (row.pending, row.complete) for id_, row in rows.items()} == {
        first: (frozenset(), {"otlp"}),
        second: ({"otlp"}, frozenset()),
    }
    index = sessions.states.folder / "index.db"
    for spoil in (index.unlink, lambda: index.write_bytes(b"not a database" * 300)):
        sessions.states.index.close()
        for name in ("index.db-wal", "index.db-shm"):
            index.with_name(name).unlink(missing_ok=True)
        spoil()
        assert sessions.states.index.rows() == rows


def test_index_is_rebuilt_after_failed_write(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process holds its lock for long; the state is saved all the same."""
    monkeypatch.setattr("cc_trace.delivery.index._BUSY_SECONDS", 0.05)
    session = sessions.add(Cursor(last_attempt_at=1))
    sessions.states.index.close()
    other = sqlite3.connect(sessions.states.folder / "index.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    state, _ = sessions.states.load(session)
    assert state is not None
    state.destinations["otlp"].error = "down"
    sessions.states.save(state)
    other.execute("ROLLBACK")
    other.close()
    assert sessions.states.index.rows()[session].pending == {"otlp"}
    assert sessions.found() == [session]


def test_crash_between_state_and_index_is_detected(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is invalidated before the state is saved."""
    session = sessions.add(Cursor(last_attempt_at=1))
    assert sessions.found() == []
    state, _ = sessions.states.load(session)
    assert state is not None
    monkeypatch.setattr(sessions.states.index, "put", lambda _: None)
    state.destinations["otlp"].error = "down"
    sessions.states.save(state)
    assert sessions.found() == [session]


@pytest.mark.parametrize("installed", [None, "late"])
def test_sync_delivers_what_a_hook_could_not(tmp_path: Path, installed: str | None) -> None:
    """The first Stop, without an installation, got a 401; or the installation's time stamp is in the future."""
    with HttpBackend() as backend:
        home = Home(tmp_path, backend)
        paths = []
        backend.behaviour = status(401, "no")
        for number in range(3):
            path = home.projects / f"{number:08}-0000-4000-8000-000000000001.jsonl"
            about = {"sessionId": path.stem, "cwd": str(tmp_path)}
            write(path, [prompt(f"{number}", 0, **about), reply(f"m{number}", "x", at=1, **about)])
            os.utime(path, (time.time() - 1000,) * 2)
            assert home.work(home.payload(path, background_tasks=[])) == 0
            paths.append(path)
        stamp = home.state / "installed"
        if installed is None:
            stamp.unlink()
        else:
            os.utime(stamp, (time.time() + 10**6,) * 2)
        backend.behaviour = OK
        done = home.command("sync")
        assert (done.returncode, set(backend.counts)) == (0, expected(*paths))
        assert home.command("sync").returncode == (2 if installed is None else 0)


def test_status_shows_latest_and_pending_sessions(tmp_path: Path) -> None:
    with HttpBackend() as backend:
        home = Home(tmp_path, backend)
        states = StateFolder(home.state)
        states.prepare()
        for number in range(100):
            session = f"{number:08}-0000-4000-8000-000000000001"
            progress = failed(1) if number < 30 else Cursor(last_attempt_at=1)
            states.save(SessionState(session, "", 0, number, destinations={"otlp": progress}))
        said = home.command("status").stdout.splitlines()
        shown = [line for line in said if line.endswith("transcript gone")]
        assert [int(line[:8]) for line in shown] == [*range(99, 79, -1), *range(29, 9, -1)]
        assert said[-2] == "and 60 more sessions, 10 of them pending; `cc-trace status --all` shows them"
        assert len(home.command("status", "--all").stdout.splitlines()) >= 200
