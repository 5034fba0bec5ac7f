"""What `cc-trace status` says of the room that it all takes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import orjson
import pytest
from backend import HttpBackend
from claude_process import ended_pid, write_record
from lines import prompt, reply, write
from test_worker import Home, quieten

from cc_trace.cli.status import _disk_usage, _size
from cc_trace.delivery.state import StateFolder

if TYPE_CHECKING:
    from pathlib import Path


def test_status_shows_disk_usage(tmp_path: Path) -> None:
    """The databases count with the files that SQLite keeps beside them; a folder of somebody else does not count."""
    with HttpBackend() as backend:
        home = Home(tmp_path, backend)
        transcript = home.add()
        quieten(transcript)
        assert home.command("sync", "--transcript", str(transcript)).returncode == 0
    (home.state / "mine").mkdir()
    (home.state / "mine" / "large").write_bytes(b"x" * 10_000_000)
    (home.state / "traces.db").write_bytes(b"x" * 2_000_000)
    (home.state / "traces.db-wal").write_bytes(b"x" * 345_678)
    ledger = sum(path.stat().st_size for path in home.state.glob("ledger.db*"))
    files = [path for path in (*home.state.glob("*"), *home.state.glob("*/*")) if path.is_file()]
    state = sum(path.stat().st_size for path in files) - ledger - 12_345_678
    sizes = {"folder": str(home.state), "state_bytes": state, "ledger_bytes": ledger, "store_bytes": 2_345_678}
    assert _disk_usage(StateFolder(home.state)) == sizes
    said = orjson.loads(home.command("status", "--json").stdout)
    assert [row["session_id"] for row in said] == [transcript.stem]
    last = home.command("status").stdout.splitlines()[-1]
    assert last.startswith("on disk: state ")  # it has the index open, which counts too
    store = sum(path.stat().st_size for path in home.state.glob("traces.db*"))  # titles are looked up in it
    assert last.endswith(f" kB, ledger {_size(ledger)}, local store {_size(store)} (in {home.state})")


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (9_940, "9.9 kB"),
        (45_678, "46 kB"),
        (999_400, "999 kB"),
        (1_500_000, "1.5 MB"),
        (2_000_000_000, "2.0 GB"),
        (3_210_000_000_000, "3210.0 GB"),
    ],
)
def test_sizes_are_rounded(count: int, expected: str) -> None:
    assert _size(count) == expected


def test_status_shows_titles_that_the_store_knows(tmp_path: Path) -> None:
    with HttpBackend() as backend:
        home = Home(tmp_path, backend)
        transcript = home.add()
        quieten(transcript)
        assert home.command("sync", "--transcript", str(transcript)).returncode == 0
    assert orjson.loads(home.command("status", "--json").stdout)[0]["title"] is None
    title = orjson.loads(home.command("sessions", "--json").stdout)[0]["title"]
    assert orjson.loads(home.command("status", "--json").stdout)[0]["title"] == title
    assert home.command("status").stdout.splitlines()[0].endswith(f"  {title}")


def test_sync_says_what_waits_for_its_turn_to_end(tmp_path: Path) -> None:
    session_id = "aaaa1111-0000-4000-8000-000000000001"
    with HttpBackend() as backend:
        home = Home(tmp_path, backend)
        call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "sleep 9"}}
        write(home.projects / f"{session_id}.jsonl", [prompt("go", 0), reply("m1", call, at=1)])
        done = home.command("sync", "--session", session_id)
        assert done.stdout == f"{session_id}: nothing new for otlp; 3 unfinished, sent when their turn is over\n"
        assert done.returncode == 0


def test_a_session_whose_process_has_ended_is_idle(tmp_path: Path) -> None:
    with HttpBackend() as backend:
        home = Home(tmp_path, backend)
        transcript = home.add()
        quieten(transcript)
        home.command("sync", "--transcript", str(transcript))
    os.utime(transcript)
    assert [row["activity"] for row in orjson.loads(home.command("status", "--json").stdout)] == ["waiting for input"]
    write_record(tmp_path / ".claude", transcript.stem, "idle", pid=ended_pid())
    assert [row["activity"] for row in orjson.loads(home.command("status", "--json").stdout)] == ["idle"]
