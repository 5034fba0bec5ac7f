"""docs/store.md and the store say the same: every column stands there, and every example gives an answer."""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest
from shared import CASES, ROOT

from cc_trace.delivery import App, StoreUpdates
from cc_trace.store import VERSION, Store, store_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCS = (ROOT / "docs" / "store.md").read_text()
EXAMPLES = re.findall(r"([^\n]*:)\n\n```sql\n(.*?)```", DOCS, re.DOTALL)
RECORDED = ("a_simple", "b_tools", "c2_parallel_subagents", "d_resume_fork", "f_tool_error", "g2_compact_clear", "shop")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """The store of some recorded sessions, opened to read."""
    home = tmp_path_factory.mktemp("home")
    folder = home / ".claude" / "projects" / "-p"
    for case in RECORDED:
        shutil.copytree(
            CASES / f"2.1.325--{case}", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.spans")
        )
    yield from opened(home)


def opened(home: Path) -> Iterator[sqlite3.Connection]:
    app = App.open({"HOME": str(home)})
    path = store_path(app.states.folder)
    with contextlib.closing(Store(path)) as store:
        assert StoreUpdates(app, store).run()
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        yield connection


def test_there_are_ten_examples() -> None:
    assert len(EXAMPLES) == 10


@pytest.mark.parametrize(("about", "query"), EXAMPLES, ids=[about for about, _ in EXAMPLES])
def test_an_example_gives_an_answer(database: sqlite3.Connection, about: str, query: str) -> None:
    rows = database.execute(query).fetchall()
    assert rows, about
    assert any(all(value is not None for value in row) for row in rows)


@pytest.mark.parametrize("table", ["sessions", "spans", "turns", "usage"])
def test_every_column_is_described(database: sqlite3.Connection, table: str) -> None:
    section = DOCS[DOCS.index(f"\n## {table}\n") :].split("\n## ")[1]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    described = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert described == {name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")}


def test_every_table_and_the_version_are_named(database: sqlite3.Connection) -> None:
    found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'texts_%'")
    tables = {name for (name,) in found}
    assert tables == {"sessions", "spans", "texts", "turns", "usage"}
    assert all(f"\n## {table}\n" in DOCS for table in tables)
    assert f"Schema version {VERSION} " in DOCS
