"""The store on this machine: what goes in comes out, whoever writes at the same time, and nobody else can read it."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from shared import CASES, ROOT, case_transcripts, label, recordings

from cc_trace.errors import NotFoundError, StateError
from cc_trace.export.local import LocalStore
from cc_trace.export.outcomes import MAX_SPAN_BYTES, Accepted, Retryable
from cc_trace.spans.model import Response, Span, Tool
from cc_trace.spans.session import Session
from cc_trace.store.delivered import read_session
from cc_trace.store.schema import VERSION
from cc_trace.store.span_rows import from_json, to_json
from cc_trace.transcript.entries import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

SPAN = Span(
    trace_id="a" * 32,
    span_id="b" * 16,
    parent_id="c" * 16,
    kind="generation",
    name="claude",
    start_ns=1,
    end_ns=2,
    session_id="s",
    turn=1,
    agent_id=None,
    final=True,
    status="ok",
    error=None,
    input=[{"role": "user", "content": "hé"}],
    output={"role": "assistant", "content": None},
    metadata={"cost": 0.1, "nested": {"a": [1, True]}},
    response=Response("m", "r", "claude", None, Usage(1, 2, 3, 4, 5), usage_complete=True, cost_usd=0.25),
    tool=Tool("t", "Bash", None),
)

# What version 1 wrote of it: it must be readable as long as the version is the same.
GOLDEN = (
    f'{{"trace_id":"{"a" * 32}","span_id":"{"b" * 16}","parent_id":"{"c" * 16}","kind":"generation",'
    '"name":"claude","start_ns":1,"end_ns":2,"session_id":"s","turn":1,"agent_id":null,"final":true,'
    '"status":"ok","error":null,"input":[{"role":"user","content":"hé"}],'
    '"output":{"role":"assistant","content":null},"metadata":{"cost":0.1,"nested":{"a":[1,true]}},'
    '"response":{"message_id":"m","request_id":"r","model":"claude","first_token_ns":null,"usage":'
    '{"input":1,"output":2,"cache_read":3,"cache_write_5m":4,"cache_write_1h":5,"web_searches":0,'
    '"fast":false,"split":true},"usage_complete":true,"cost_usd":0.25},'
    '"tool":{"id":"t","name":"Bash","file_path":null}}'
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    opened = LocalStore("local", tmp_path / "folder" / "traces.db")
    yield opened
    opened.close()


def write(store: LocalStore, spans: Iterable[Span]) -> None:
    assert store.send([store.encode(span) for span in spans]) == Accepted()


def read(store: LocalStore, session_id: str) -> list[Span]:
    return list(read_session(store._path, session_id))


def columns(store: LocalStore) -> list[dict[str, object]]:
    database = sqlite3.connect(store._path)
    database.row_factory = sqlite3.Row
    rows = [dict(row) for row in database.execute("SELECT * FROM spans")]
    database.close()
    return rows


def by_time(spans: list[Span]) -> list[Span]:
    """Move notifications, whose lines come when the model hears of them, to where their times say."""
    rest = [span for span in spans if span.name != "notification"]
    for late in (span for span in spans if span.name == "notification"):
        after = [
            at
            for at, span in enumerate(rest)
            if span.parent_id == late.parent_id
            and ((span.response and span.response.first_token_ns) or span.start_ns or 0) > (late.start_ns or 0)
        ]
        rest.insert(after[0] if after else len(rest), late)
    return rest


@pytest.mark.parametrize("path", [*case_transcripts(), *recordings()], ids=label)
def test_stored_session_is_read_back_unchanged(store: LocalStore, path: Path) -> None:
    """Written as deliveries write, each turn from its end; read turn by turn in the order of its tree."""
    session = Session(path)
    spans = list(session.spans())
    expected = by_time(spans)
    write(store, reversed(spans))
    assert read(store, session.summary.session_id) == expected
    write(store, reversed(spans))
    assert read(store, session.summary.session_id) == expected
    assert len(columns(store)) == len(spans)


def test_any_order_of_writing_gives_a_tree(store: LocalStore) -> None:
    """Each span stands after what contains it, also while its root is not there yet."""
    session = Session(next((CASES / "2.1.325--c2_parallel_subagents").rglob("*.jsonl")))
    spans = list(session.spans())
    shuffled = random.Random(1).sample(spans, len(spans))
    for kinds in (("generation", "tool", "event"), ("subagent",), ("turn",)):
        write(store, [span for span in shuffled if span.kind in kinds])
        found = [span.span_id for span in read(store, session.summary.session_id)]
        inside = [(span.parent_id, span.span_id) for span in spans if {span.parent_id, span.span_id} <= {*found}]
        assert [pair for pair in inside if found.index(str(pair[0])) > found.index(pair[1])] == []
    assert sorted(found) == sorted(span.span_id for span in spans)


def test_columns_of_a_span(store: LocalStore) -> None:
    """What is needed to list sessions and draw trees has columns."""
    write(store, [SPAN])
    assert columns(store) == [
        {
            "row": 1,
            "span_id": "b" * 16,
            "session_id": "s",
            "trace_id": "a" * 32,
            "parent_id": "c" * 16,
            "kind": "generation",
            "name": "claude",
            "tool": "Bash",
            "start_ns": 1,
            "end_ns": 2,
            "first_token_ns": None,
            "status": "ok",
            "error": None,
            "turn": 1,
            "agent_id": None,
            "agent": "",
            "model": "claude",
            "input_tokens": 1,
            "output_tokens": 2,
            "cache_read_tokens": 3,
            "cache_write_tokens": 9,
            "cost_usd": 0.25,
            "context_tokens": 13,
            "cache_miss": None,
            "attempts": None,
            "wait_ms": None,
            "calls": None,
            "refused": None,
            "lines_added": None,
            "lines_removed": None,
            "copied": 0,
            **dict.fromkeys(("place", "last", "depth", "label", "total_usd", "hot", "lane", "waits")),
            "span": to_json(SPAN).decode(),
        }
    ]
    assert read(store, "s") == [SPAN]


def test_span_is_replaced_but_not_by_a_forks_copy(store: LocalStore) -> None:
    later = SPAN._replace(name="later")
    write(store, [SPAN])
    write(store, [later])
    write(store, [SPAN._replace(session_id="fork")])
    assert read(store, "s") == [later]
    assert read(store, "fork") == []


def test_stored_ids(store: LocalStore) -> None:
    batch = [store.encode(SPAN), store.encode(SPAN._replace(span_id="d" * 16))]
    assert store.stored_ids(batch) == frozenset()
    store.send(batch[:1])
    assert store.stored_ids(batch) == frozenset({SPAN.span_id})


@pytest.mark.parametrize(
    "odd",
    [
        SPAN._replace(start_ns=1 << 70, end_ns=-(1 << 70)),
        SPAN._replace(name="half \ud83d", session_id="s"),
        SPAN._replace(metadata={"deep": [[]]}),
        SPAN._replace(input="x" * (MAX_SPAN_BYTES + 1)),
        SPAN._replace(input="\x00\x01"),
    ],
)
def test_any_span_can_be_stored(store: LocalStore, odd: Span) -> None:
    """Times and texts that SQLite cannot hold, and a span that is larger than a batch."""
    deep: list[object] = []
    for _ in range(2000):
        deep = [deep]
    odd = odd._replace(output=deep)  # type: ignore[arg-type]
    encoded = store.encode(odd)
    assert encoded.size <= MAX_SPAN_BYTES
    assert store.send([encoded]) == Accepted()
    assert [span.span_id for span in read(store, "s")] == [SPAN.span_id]


def test_save_load_round_trip() -> None:
    assert from_json(to_json(SPAN).decode()) == SPAN
    assert from_json(GOLDEN) == SPAN
    bare = SPAN._replace(response=None, tool=None)
    assert from_json(to_json(bare).decode()) == bare


def test_only_its_owner_can_read_it(store: LocalStore) -> None:
    """Also the files that SQLite makes beside it, and whatever the umask is."""
    old = os.umask(0)
    try:
        write(store, [SPAN])
        folder = store._path.parent
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
    finally:
        os.umask(old)
    assert modes == {"folder": 0o700, "traces.db": 0o600, "traces.db-wal": 0o600, "traces.db-shm": 0o600}


def test_readable_store_is_made_private(store: LocalStore) -> None:
    """The file, not the folder it lies in: that may be the user's own."""
    store._path.parent.mkdir(mode=0o755)
    store._path.touch(mode=0o644)
    write(store, [SPAN])
    assert stat.S_IMODE(store._path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store._path.parent.stat().st_mode) == 0o755


def test_a_symlink_is_not_followed(store: LocalStore, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"")
    store._path.parent.mkdir()
    store._path.symlink_to(target)
    assert isinstance(store.send([store.encode(SPAN)]), Retryable)
    assert target.read_bytes() == b""


def test_unusable_store_is_reported(store: LocalStore, tmp_path: Path) -> None:
    """Nothing raises while sending; for who reads, it is an error with a reason."""
    with pytest.raises(NotFoundError, match="no local store at"):
        read(store, "s")
    store._path.parent.mkdir()
    store._path.write_bytes(b"something else" * 100)
    assert store.send([store.encode(SPAN)]) == Retryable(f"{store._path}: file is not a database")
    assert store.stored_ids([store.encode(SPAN)]) is None
    with pytest.raises(StateError, match="cannot be read: file is not a database"):
        read(store, "s")
    in_the_way = LocalStore("local", tmp_path / "folder" / "traces.db" / "deeper" / "traces.db")
    assert isinstance(in_the_way.send([store.encode(SPAN)]), Retryable)


def test_a_newer_store_is_left_alone(store: LocalStore) -> None:
    write(store, [SPAN])
    store.close()
    database = sqlite3.connect(store._path)
    database.execute(f"PRAGMA user_version = {VERSION + 1}")
    database.close()
    told = f"{store._path}: it was written by another version of cc-trace"
    assert store.send([store.encode(SPAN)]) == Retryable(told)
    with pytest.raises(StateError, match="another version"):
        read(store, "s")


def test_a_store_that_is_busy_is_tried_again_later(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cc_trace.store.schema.BUSY_SECONDS", 0.05)
    write(store, [SPAN])
    store.close()
    database = sqlite3.connect(store._path, isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    assert store.send([store.encode(SPAN)]) == Retryable(f"{store._path}: database is locked")
    assert read(store, "s") == [SPAN]
    database.execute("ROLLBACK")
    database.close()
    write(store, [SPAN])


def test_full_disk_keeps_what_was_stored(store: LocalStore) -> None:
    """A batch is written as a whole or not at all."""
    write(store, [SPAN])
    store._open().execute("PRAGMA max_page_count = 24")
    large = [SPAN._replace(span_id=f"{number:016x}", input="x" * 10_000) for number in range(10)]
    assert store.send([store.encode(span) for span in large]) == Retryable(f"{store._path}: database or disk is full")
    assert read(store, "s") == [SPAN]
    write(store, large)


def test_many_processes_write_at_once(tmp_path: Path) -> None:
    """Each makes the store if it is not there yet, and none loses anything."""
    path = tmp_path / "traces.db"
    program = (
        "import sys; from pathlib import Path; from cc_trace.export.local import LocalStore\n"
        "from test_local_store import SPAN\n"
        "store = LocalStore('local', Path(sys.argv[1]))\n"
        "for number in range(10):\n"
        "    id_ = f'{int(sys.argv[2]):08x}{number:08x}'\n"
        "    print(store.send([store.encode(SPAN._replace(span_id=id_))]))\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path), str(number)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}/tests:{ROOT}/tests/export"},
        )
        for number in range(5)
    ]
    said = [process.communicate(timeout=60)[0].decode().split("\n")[:-1] for process in running]
    assert said == [["Accepted(dropped_spans=0, message=None)"] * 10] * 5
    assert len(list(read_session(path, "s"))) == 50
