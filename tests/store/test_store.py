"""What is in the store, and what never is."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

import pytest
from lines import prompt, reply, write
from viewer import copy_cases, running

from cc_trace.store import Store, store_path

if TYPE_CHECKING:
    from pathlib import Path

ORIGIN, FORK = "dddddddd-0000-4000-8000-000000000001", "35e95895-b490-45b6-99f9-2d715768dc02"
OWN = "11111111-0000-4000-8000-000000000001"


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    folder = tmp_path / ".claude" / "projects" / "-home-dev-project"
    folder.mkdir(parents=True)
    return folder


def sessions(home: Path) -> set[str]:
    """Bring the store up to date; return the sessions in it."""
    with running(home) as viewer:
        return {row[0] for row in viewer.index.read("SELECT session_id FROM sessions")}


def test_a_suppressed_session_is_not_in_it_nor_what_was_read_before(tmp_path: Path, projects: Path) -> None:
    copy_cases(projects, "2.1.325--a_simple")
    assert len(sessions(tmp_path)) == 1
    off = tmp_path / ".claude" / "state" / "cc-trace" / "off"
    (off / next(projects.glob("*.jsonl")).stem).touch()
    assert sessions(tmp_path) == set()


def test_neither_is_a_fork_of_it(tmp_path: Path, projects: Path) -> None:
    copy_cases(projects, "2.1.325--d_resume_fork")
    off = tmp_path / ".claude" / "state" / "cc-trace" / "off"
    off.mkdir(parents=True)
    (off / ORIGIN).touch()
    noted_ns = 1_794_784_324_000_000_000  # after the origin's last line, before the fork's first
    os.utime(off / ORIGIN, ns=(noted_ns, noted_ns))
    assert sessions(tmp_path) == set()


def test_an_excluded_session_is_not_in_it(tmp_path: Path, projects: Path) -> None:
    write(projects / f"{OWN}.jsonl", [prompt("hi", cwd="/secret/x"), reply("m1", "hello", at=1, cwd="/secret/x")])
    (tmp_path / ".config" / "cc-trace").mkdir(parents=True)
    (tmp_path / ".claude" / "cc-trace").mkdir()
    for folder in (tmp_path / ".config" / "cc-trace", tmp_path / ".claude" / "cc-trace"):
        (folder / "config.toml").write_text('exclude = ["/secret"]\n')
    assert sessions(tmp_path) == set()


def test_a_store_that_another_process_has_locked_is_not_made_anew(tmp_path: Path) -> None:
    path = store_path(tmp_path)
    Store(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode = DELETE")
    other.execute("CREATE TABLE mine (x)")
    other.execute("PRAGMA user_version = 0")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cc_trace.store.store._BUSY_SECONDS", 0.01)
        with pytest.raises(sqlite3.OperationalError):
            Store(path)
    other.execute("COMMIT")
    assert other.execute("SELECT COUNT(*) FROM mine").fetchone() == (0,)
    other.close()
