"""Ways in which other tracers lose spans or send them twice, each as a test."""

from __future__ import annotations

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import orjson
from backend import HANG, HttpBackend
from shared import CASES
from sink import Sink
from test_sync import AGENTS, TWO_TURNS, Machine, expected
from test_worker import HOOK, Home, quieten

from cc_trace.export.outcomes import MAX_BATCH_SPANS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cc_trace.export.outcomes import EncodedSpan, Outcome


def test_state_is_saved_after_response(tmp_path: Path) -> None:
    """While a batch is being sent the state has it as an intent, not as accepted."""
    machine = Machine(tmp_path)
    seen: list[tuple[list[str], list[str]]] = []

    class Watching(Sink):
        def send(self, batch: Sequence[EncodedSpan]) -> Outcome:
            state, _ = machine.states.load(path.stem)
            assert state is not None
            progress = state.destinations["sink"]
            seen.append((progress.accepted, sorted(progress.intent)))
            assert sorted(encoded.span_id for encoded in batch) == sorted(progress.intent)
            return super().send(batch)

    machine.sinks = (Watching(),)
    path = machine.copy(TWO_TURNS)
    machine.sync(path)
    assert seen == [([], sorted(expected(path)))]


def test_late_final_text_is_delivered(tmp_path: Path) -> None:
    """A root that is not final is not sent; the next sync sends it with the late text."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(TWO_TURNS)
    whole = path.read_bytes()
    cut = whole.rfind(b'"Answer two."')
    path.write_bytes(whole[:cut])
    machine.sync(path, settled=False)
    path.write_bytes(whole)
    machine.sync(path)
    outputs = [orjson.loads(row)["output"] for row in sink.stored.values() if orjson.loads(row)["kind"] == "turn"]
    assert sorted(outputs) == ["Answer one.", "Answer two."]
    assert sink.twice == []


def test_parallel_sessions_have_own_state_and_lock(tmp_path: Path) -> None:
    sink = Sink()
    machine = Machine(tmp_path, sink)
    source = (CASES / TWO_TURNS).read_bytes()
    paths = []
    for number in range(8):
        path = machine.projects / f"44444444-0000-4000-8000-00000000000{number}.jsonl"
        path.write_bytes(source.replace(b"msg_", b"msg_%d" % number))
        paths.append(path)
    with machine.states.locked("some-other-session"), ThreadPoolExecutor(8) as pool:
        assert list(pool.map(machine.sync, paths)) == [True] * 8
    assert set(sink.taken) == set().union(*map(expected, paths))
    assert sink.twice == []


def test_long_session_is_sent_in_batches(tmp_path: Path) -> None:
    """A batch that fails is not recorded as delivered: the next sync sends it, and those after it, once."""

    class FailingOnce(Sink):
        def send(self, batch: Sequence[EncodedSpan]) -> Outcome:
            self.behaviour = "down" if len(self.batches) == 2 else "ok"
            return super().send(batch)

    sink = FailingOnce()
    machine = Machine(tmp_path, sink)
    path = machine.projects / "55555555-0000-4000-8000-000000000001.jsonl"
    lines = []
    for number in range(1500):
        lines.append({"type": "user", "uuid": f"p{number}", "message": {"role": "user", "content": "x"}})
        answer = {"id": f"m{number}", "role": "assistant", "model": "claude-sonnet-4-5", "content": "y"}
        lines.append({"type": "assistant", "uuid": f"a{number}", "message": answer})
    path.write_bytes(b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines))
    assert not machine.sync(path)
    progress, accepted = machine.progress(path), len(sink.taken)
    assert (len(sink.batches), accepted) == (3, sum(sink.batches[:2]))
    assert (progress.delivered, progress.pending, progress.error) == (accepted, True, "connection refused")
    assert machine.sync(path)
    assert set(sink.taken) == expected(path)
    assert sum(sink.batches[3:]) == 3000 - accepted
    assert max(sink.batches) <= MAX_BATCH_SPANS
    assert sink.twice == []


def test_copied_session_is_not_resent(tmp_path: Path) -> None:
    """As --fork-session, --resume and background agents copy it."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    origin = machine.copy(TWO_TURNS)
    assert machine.sync(origin)
    copy = machine.projects / "66666666-0000-4000-8000-000000000001.jsonl"
    copy.write_bytes(origin.read_bytes().replace(origin.stem.encode(), copy.stem.encode()))
    assert machine.sync(copy)
    assert sink.twice == []
    assert set(sink.taken) == expected(origin)


def test_hook_returns_silently_while_backend_hangs(tmp_path: Path) -> None:
    with HttpBackend() as backend:
        backend.behaviour = HANG
        home = Home(tmp_path, backend)
        payload = home.payload(home.add())
        begin = time.monotonic()
        done = subprocess.run([str(HOOK)], input=payload, env=home.environment, capture_output=True, check=False)
        waited = time.monotonic() - begin
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert waited < 4  # the backend would have held it for 5
        _wait_for_end(home)


def _wait_for_end(home: Home) -> None:
    """Wait until the worker has timed out and recorded its session's error."""
    for _ in range(200):
        if b'"error": "' in b"".join(path.read_bytes() for path in home.state.glob("sessions/*.json")):
            break
        time.sleep(0.05)
    time.sleep(0.3)


def test_failures_appear_in_status_and_log(tmp_path: Path) -> None:
    with HttpBackend() as backend:
        home = Home(tmp_path, backend)
        home.environment["CC_TRACE_OTLP_ENDPOINT"] = "http://127.0.0.1:9"
        transcript = home.add()
        quieten(transcript)
        assert home.command("sync", "--transcript", str(transcript)).returncode == 1
        assert "pending" in home.command("status").stdout
        assert "pending" in (home.state / "cc-trace.log").read_text()
        home.environment["CC_TRACE_DESTINATIONS"] = "nowhere"
        wrong = home.command("sync")
        assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1)


def test_sync_reads_from_cursor(tmp_path: Path) -> None:
    """Which is at the last turn: what lies before it is damaged here, and nothing is sent again."""
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(TWO_TURNS)
    machine.sync(path)
    state, _ = machine.states.load(path.stem)
    assert state is not None
    offset = state.destinations["sink"].offset
    assert path.read_bytes()[offset:].count(b'"promptSource":"typed"') == 1
    damaged = path.read_bytes()
    path.write_bytes(damaged[:1024] + b"x" * (offset - 1025) + b"\n" + damaged[offset:])
    assert machine.sync(path)
    assert sink.twice == []


def test_hook_registered_twice_delivers_once(tmp_path: Path) -> None:
    """As by the settings and by the plugin."""
    with HttpBackend() as backend:
        home = Home(tmp_path, backend)
        transcript = home.add()
        payload = home.payload(transcript)
        workers = [home.start(home.spool(payload, name)) for name in ("settings", "plugin")]
        assert [worker.wait(60) for worker in workers] == [0, 0]
        assert set(backend.counts) == expected(transcript)
        assert set(backend.counts.values()) == {1}


def test_year_old_state_is_resumed(tmp_path: Path) -> None:
    sink = Sink()
    machine = Machine(tmp_path, sink)
    path = machine.copy(AGENTS)
    machine.sync(path)
    year = time.time() - 366 * 86400
    for file in machine.states.folder.rglob("*"):
        os.utime(file, (year, year))
    more = CASES / TWO_TURNS
    with path.open("ab") as growing:
        growing.write(more.read_bytes())
    assert machine.sync(path)
    assert set(sink.taken) == expected(path)
    assert sink.twice == []
