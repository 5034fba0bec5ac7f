"""Beside every other destination a worker writes the store; that it cannot holds nothing up."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import pytest
from backend import HttpBackend
from test_worker import Home, quieten

from cc_trace.delivery import StateFolder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with HttpBackend() as backend:
        yield Home(tmp_path, backend)


def delivered(home: Home, **environment: str) -> int:
    """Let a hook's worker deliver a session; return how many spans the backend got."""
    transcript = home.add()
    quieten(transcript)
    home.install()
    assert home.work(home.payload(transcript), **environment) == 0
    state = StateFolder(home.state).peek(transcript.stem)
    assert state is not None
    return sum(cursor.delivered for cursor in state.destinations.values())


def stored(home: Home) -> int:
    """Return how many spans are in the store."""
    path = home.state / "traces.db"
    if not path.exists():
        return 0
    with contextlib.closing(sqlite3.connect(path)) as database:
        return int(database.execute("SELECT count(*) FROM spans WHERE place IS NOT NULL").fetchone()[0])


def test_a_worker_writes_it_beside_another_destination(home: Home) -> None:
    assert 0 < delivered(home) <= stored(home)
    assert not (home.state / "store-error").exists()


def test_with_store_false_it_does_not(home: Home) -> None:
    assert delivered(home, CC_TRACE_STORE="false") > 0
    assert stored(home) == 0


def test_a_store_that_cannot_be_written_holds_nothing_up_and_is_told(home: Home) -> None:
    home.state.mkdir(parents=True)
    (home.state / "traces.db").write_bytes(b"nothing of the kind" * 100)
    assert delivered(home) > 0
    said = home.command("doctor").stdout
    assert "it could not be brought up to date: cannot use the local store" in said
    assert "failed   local store" in said
    (home.state / "traces.db").unlink()
    assert home.command("usage").returncode == 0
    assert stored(home) > 0
    assert not (home.state / "store-error").exists()


def test_a_store_that_is_locked_holds_nothing_up(home: Home) -> None:
    assert home.command("usage").returncode == 0
    with contextlib.closing(sqlite3.connect(home.state / "traces.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert delivered(home) > 0
        other.execute("ROLLBACK")
    assert stored(home) == 0
    assert b"database is locked" in (home.state / "store-error").read_bytes()
