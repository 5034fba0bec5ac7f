"""The worker as a real process: killed at every step, many at once, with late writes, against real servers."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from backend import OK, REFUSE, Behaviour, HttpBackend
from shared import CASES, ROOT
from waiting import until

from cc_trace.delivery.state import StateFolder
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

CASE = CASES / "2.1.325--c2_parallel_subagents" / "cccccccc-0000-4000-8000-000000000002.jsonl"
HOOK = ROOT / "hooks" / "cc-trace-hook"
SECRET = "sk-lf-very-secret-0123456789"  # noqa: S105
STEPS = [
    "started",
    "request left",
    "spool taken",
    "locked",
    "transcript quiet",
    "claimed",
    "spans built",
    "intent saved",
    "answered",
    "ledger settled",
    "state saved",
    "unlocked",
    "swept",
    "cleaned",
]

# Runs cc-trace and writes a byte to stdout whenever the file is opened that the first argument names.
COUNT_OPENS = """
import os, sys
transcript, log = sys.argv.pop(1), os.dup(1)
def note(event, arguments):
    if event == "open" and isinstance(arguments[0], str | os.PathLike) and os.fspath(arguments[0]) == transcript:
        os.write(log, b".")
sys.addaudithook(note)
from cc_trace.cli import main
sys.exit(main())
"""


class Home:
    """A home with Claude Code's folder, and workers that are real processes."""

    def __init__(self, folder: Path, backend: HttpBackend, *, langfuse: bool = False) -> None:
        self.folder = folder
        self.projects = folder / ".claude" / "projects" / "-p"
        self.projects.mkdir(parents=True)
        self.state = folder / ".claude" / "state" / "cc-trace"
        self.environment = {
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "CC_TRACE_PYTHON": sys.executable,
            "CC_TRACE_UNCLEAR_SECONDS": "0",
            "CC_TRACE_TIMEOUT_SECONDS": "5",
        }
        if langfuse:
            keys = {
                "CC_LANGFUSE_PUBLIC_KEY": "pk-lf-1",
                "LANGFUSE_SECRET_KEY": SECRET,
                "LANGFUSE_BASE_URL": backend.url,
            }
            self.environment |= keys
        else:
            self.environment["CC_TRACE_OTLP_ENDPOINT"] = backend.url

    def add(self, case: Path = CASE, name: str | None = None) -> Path:
        if case.with_suffix("").is_dir() and name is None:
            shutil.copytree(case.with_suffix(""), self.projects / case.stem)
        return Path(shutil.copy(case, self.projects / (name or case.name)))

    def payload(self, transcript: Path, **more: object) -> bytes:
        return orjson.dumps({"transcript_path": str(transcript), "hook_event_name": "Stop", **more})

    def spool(self, payload: bytes, name: str = "1") -> Path:
        folder = self.state / "spool"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.json"
        path.write_bytes(payload)
        return path

    def start(self, spooled: Path, **environment: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "cc_trace", "sync", "--spooled", str(spooled)]
        return subprocess.Popen(command, env=self.environment | environment, cwd=self.folder)

    def work(self, payload: bytes, **environment: str) -> int:
        return self.start(self.spool(payload), **environment).wait(60)

    def opens(self, payload: bytes, transcript: Path) -> int:
        """Return how often a worker opens a transcript."""
        command = [sys.executable, "-c", COUNT_OPENS, str(transcript), "sync", "--spooled", str(self.spool(payload))]
        done = subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, check=True)
        return len(done.stdout)

    def install(self) -> None:
        """Record an installation: older sessions are history."""
        states = StateFolder(self.state)
        states.prepare()
        states.stamp_installed()

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cc_trace", *arguments]
        return subprocess.run(
            command, env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False, timeout=60
        )


@pytest.fixture
def backend() -> Iterator[HttpBackend]:
    with HttpBackend() as running:
        yield running


def quieten(transcript: Path) -> None:
    """Make the file quiet: a turn that Claude Code marked as stopped is over then."""
    a_while_ago = time.time() - 10
    os.utime(transcript, (a_while_ago, a_while_ago))


def expected(*transcripts: Path) -> set[str]:
    return {span.span_id for path in transcripts for span in Session(path, ending="over").spans()}


@pytest.mark.parametrize("langfuse", [False, True], ids=["otlp", "langfuse"])
@pytest.mark.parametrize("step", STEPS)
def test_killed_worker_at_every_step(tmp_path: Path, backend: HttpBackend, step: str, langfuse: bool) -> None:  # noqa: FBT001
    """The next worker delivers all; twice only if killed between response and record, never with Langfuse."""
    home = Home(tmp_path, backend, langfuse=langfuse)
    payload = home.payload(home.add())
    assert home.work(payload, CC_TRACE_DIE_AT=step) == -signal.SIGKILL
    (home.state / "swept").unlink(missing_ok=True)
    assert home.work(payload) == 0
    assert set(backend.counts) == expected(home.projects / CASE.name)
    if langfuse or step != "answered":
        assert set(backend.counts.values()) == {1}


@pytest.mark.parametrize("name", ["CC_TRACE_TAGS", "CC_TRACE_SEED", "CC_TRACE_MASK"])
def test_variable_that_is_not_utf_8_is_used(tmp_path: Path, backend: HttpBackend, name: str) -> None:
    """What is not UTF-8 in it can be neither stored nor sent, and is replaced."""
    home = Home(tmp_path, backend)
    path = home.add()
    assert home.work(home.payload(path, background_tasks=[]), **{name: os.fsdecode(b"caf\xe9")}) == 0
    assert dict.fromkeys(expected(path), 1) == backend.counts


@pytest.mark.parametrize("changes", [{"CLAUDE_PID": "0"}, {"dated": "-3600"}], ids=str)
def test_state_can_be_read_whatever_was_written_to_it(
    tmp_path: Path, backend: HttpBackend, changes: dict[str, str]
) -> None:
    """A process id that is none, a file from before 1970."""
    home = Home(tmp_path, backend)
    path = home.add()
    dated = int(changes.pop("dated", "0"))
    os.utime(path, (dated, dated))
    for _ in range(2):
        assert home.work(home.payload(path), **changes) == 0
    assert not list(home.state.rglob("*.aside-*"))


def test_transcript_is_opened_twice_at_most(tmp_path: Path, backend: HttpBackend) -> None:
    """At the first Stop and at a later one, with two destinations and a suppressed session."""
    home = Home(tmp_path, backend)
    home.environment["CC_TRACE_DESTINATIONS"] = "otlp,local"
    transcript = home.add(CASES / "2.1.325--g1_two_turns_exit" / "44444444-0000-4000-8000-000000000001.jsonl")
    lines = transcript.read_bytes().splitlines(keepends=True)
    second = next(index for index, line in enumerate(lines) if b"Answer one." in line) + 1
    home.install()
    (home.state / "stored").touch()  # what the store reads for itself, every ten minutes at most, does not count
    StateFolder(home.state).suppress("99999999-0000-4000-8000-000000000001")
    transcript.write_bytes(b"".join(lines[:second]))
    message = {"last_assistant_message": "Answer one.", "background_tasks": []}
    assert home.opens(home.payload(transcript, **message), transcript) == 2
    first = len(backend.counts)
    transcript.write_bytes(b"".join(lines))
    assert home.opens(home.payload(transcript, background_tasks=[]), transcript) == 2
    assert 0 < first < len(backend.counts)
    assert set(backend.counts) == expected(transcript)


def test_sixteen_workers_of_one_session_deliver_each_span_once(tmp_path: Path, backend: HttpBackend) -> None:
    """One works, the others leave a request."""
    home = Home(tmp_path, backend)
    transcript = home.add()
    lines = transcript.read_bytes().splitlines(keepends=True)
    transcript.write_bytes(b"".join(lines[:20]))
    payload = home.payload(transcript)
    workers = []
    for number in range(16):
        with transcript.open("ab") as file:
            file.write(b"".join(lines[20 + number * 2 : 22 + number * 2]))
        workers.append(home.start(home.spool(payload, str(number))))
    with transcript.open("ab") as file:
        file.write(b"".join(lines[52:]))
    workers.append(home.start(home.spool(payload, "last")))
    assert [worker.wait(60) for worker in workers] == [0] * 17
    assert set(backend.counts) == expected(transcript)
    assert set(backend.counts.values()) == {1}


def test_thirty_two_parallel_sessions_deliver_each_span_once(tmp_path: Path, backend: HttpBackend) -> None:
    home = Home(tmp_path, backend)
    source = CASES / "2.1.325--g1_two_turns_exit" / "44444444-0000-4000-8000-000000000001.jsonl"
    transcripts = []
    for number in range(32):
        path = home.projects / f"44444444-0000-4000-8000-0000000000{number:02d}.jsonl"
        path.write_bytes(source.read_bytes().replace(b"msg_", b"msg_%d_" % number))
        transcripts.append(path)
    workers = [home.start(home.spool(home.payload(path), path.stem)) for path in transcripts]
    assert [worker.wait(120) for worker in workers] == [0] * 32
    assert set(backend.counts) == expected(*transcripts)
    assert set(backend.counts.values()) == {1}


@pytest.mark.parametrize("torn", [False, True], ids=["late", "torn"])
def test_late_reply_is_included(tmp_path: Path, backend: HttpBackend, torn: bool) -> None:  # noqa: FBT001
    """Claude Code writes it up to 156 ms after the hook."""
    home = Home(tmp_path, backend)
    source = CASES / "2.1.325--a_simple" / "aaaaaaaa-0000-4000-8000-000000000001.jsonl"
    transcript = home.add(source)
    lines = source.read_bytes().splitlines(keepends=True)
    reply = next(index for index, line in enumerate(lines) if b'"Hello from the fake model."' in line)
    transcript.write_bytes(b"".join(lines[:reply]))
    worker = home.start(home.spool(home.payload(transcript, last_assistant_message="Hello from the fake model.")))

    def write_late() -> None:
        time.sleep(0.15)
        pieces = [lines[reply][:80], lines[reply][80:]] if torn else [lines[reply]]
        for piece in pieces:
            with transcript.open("ab") as file:
                file.write(piece)
            time.sleep(0.15)

    writer = threading.Thread(target=write_late)
    writer.start()
    assert worker.wait(60) == 0
    writer.join()
    roots = [span for span in backend.spans if not span.parent_span_id]
    assert len(roots) == 1
    answers = [a.value.string_value for a in roots[0].attributes if a.key == "gen_ai.output.messages"]
    assert "Hello from the fake model." in answers[0]


def test_predecessor_is_delivered_first(tmp_path: Path, backend: HttpBackend) -> None:
    """The first line names another session whose Stop never came; if its id is invalid, it is ignored."""
    home = Home(tmp_path, backend)
    previous = home.add(CASES / "2.1.325--a_simple" / "aaaaaaaa-0000-4000-8000-000000000001.jsonl")
    quieten(previous)
    current = home.projects / "bbbbbbbb-0000-4000-8000-000000000009.jsonl"
    source = (CASES / "2.1.325--g1_two_turns_exit" / "44444444-0000-4000-8000-000000000001.jsonl").read_bytes()
    line = orjson.dumps({"type": "queue-operation", "operation": "dequeue", "sessionId": previous.stem})
    current.write_bytes(line + b"\n" + source)
    assert home.work(home.payload(current)) == 0
    assert set(backend.counts) == expected(previous, current)
    outside = orjson.dumps({"type": "queue-operation", "operation": "dequeue", "sessionId": "../../../../etc/passwd"})
    current.write_bytes(outside + b"\n" + source)
    assert home.work(home.payload(current)) == 0


def test_killed_session_is_delivered_by_next_worker(tmp_path: Path, backend: HttpBackend) -> None:
    home = Home(tmp_path, backend)
    home.environment["CC_TRACE_REST_SECONDS"] = "0"
    home.install()
    killed = home.add()
    other = home.add(CASES / "2.1.325--a_simple" / "aaaaaaaa-0000-4000-8000-000000000001.jsonl")
    assert home.work(home.payload(other)) == 0
    assert set(backend.counts) == expected(killed, other)
    assert set(backend.counts.values()) == {1}


def test_sessions_before_installation_are_not_sent(tmp_path: Path, backend: HttpBackend) -> None:
    home = Home(tmp_path, backend)
    old = home.add()
    os.utime(old, (1, 1))
    other = home.add(CASES / "2.1.325--a_simple" / "aaaaaaaa-0000-4000-8000-000000000001.jsonl")
    assert home.work(home.payload(other)) == 0
    assert set(backend.counts) == expected(other)


def test_sync_command_reports_pending(tmp_path: Path, backend: HttpBackend) -> None:
    """A line per session and destination, and 1 as long as anything is pending."""
    home = Home(tmp_path, backend)
    transcript = home.add(CASES / "2.1.325--a_simple" / "aaaaaaaa-0000-4000-8000-000000000001.jsonl")
    quieten(transcript)
    backend.behaviour = REFUSE
    done = home.command("sync", "--transcript", str(transcript))
    assert done.returncode == 1
    assert done.stdout.startswith(f"{transcript.stem}: nothing sent to otlp; pending: ")
    assert "3 pending" in home.command("status").stdout
    backend.behaviour = OK
    done = home.command("sync", "--session", transcript.stem)
    assert (done.returncode, done.stdout) == (0, f"{transcript.stem}: 3 spans to otlp\n")
    assert home.command("sync").stderr.startswith("cc-trace: the hook is not installed; run `cc-trace install`")
    home.install()
    assert home.command("sync").stdout == "nothing is pending\n"
    rows = orjson.loads(home.command("status", "--json").stdout)
    assert [(row["session_id"], row["activity"]) for row in rows] == [(transcript.stem, "waiting for input")]


def test_sync_command_interrupt(tmp_path: Path, backend: HttpBackend) -> None:
    """What was sent is printed and recorded, and the next sync continues there."""
    home = Home(tmp_path, backend)
    home.install()
    os.utime(home.state / "installed", (1, 1))
    paths = [home.add(), home.add(CASES / "2.1.325--a_simple" / "aaaaaaaa-0000-4000-8000-000000000001.jsonl")]
    for path in paths:
        quieten(path)
    backend.behaviour = Behaviour("drip", seconds=0.02)
    command = [sys.executable, "-m", "cc_trace", "sync"]
    process = subprocess.Popen(command, env=home.environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    until(lambda: backend.spans, "something arrives")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"{len(backend.spans)} spans to otlp" in out
    backend.behaviour = OK
    assert home.command("sync").returncode == 0
    assert set(backend.counts) == expected(*paths)
    assert max(backend.counts.values()) == 1


def test_hook_delivers_in_the_background(tmp_path: Path, backend: HttpBackend) -> None:
    """With the shell script and a real worker."""
    home = Home(tmp_path, backend)
    transcript = home.add()
    done = subprocess.run(
        [str(HOOK)], input=home.payload(transcript), env=home.environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    wanted = expected(transcript)
    for _ in range(200):
        if set(backend.counts) == wanted:
            break
        time.sleep(0.05)
    assert set(backend.counts) == wanted
    assert set(backend.counts.values()) == {1}


def test_state_and_log_hold_no_keys_or_content(tmp_path: Path, backend: HttpBackend) -> None:
    """Files are private under umask 0."""
    home = Home(tmp_path, backend, langfuse=True)
    transcript = home.add()
    old = os.umask(0)
    try:
        assert home.work(home.payload(transcript)) == 0
        backend.behaviour = REFUSE
        home.command("sync", "--transcript", str(transcript))
    finally:
        os.umask(old)
    for path in [home.state, *home.state.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        if path != home.state / "spool" and not path.is_relative_to(home.state / "spool"):
            assert mode == (0o700 if path.is_dir() else 0o600), path
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes()
    log = (home.state / "cc-trace.log").read_text()
    assert "[[two]]" not in log
    assert "Both are done" not in log


@pytest.mark.parametrize("path", ["/etc/passwd", "../x.jsonl", "relative.jsonl", "{folder}/elsewhere.jsonl"])
def test_transcript_path_outside_is_refused(tmp_path: Path, backend: HttpBackend, path: str) -> None:
    """And logged."""
    home = Home(tmp_path, backend)
    shutil.copy(CASE, tmp_path / "elsewhere.jsonl")
    assert home.work(home.payload(Path(path.format(folder=tmp_path)))) == 0
    assert not backend.counts
    assert "leads outside" in (home.state / "cc-trace.log").read_text()


def test_links_in_the_state_folder_are_not_followed(tmp_path: Path, backend: HttpBackend) -> None:
    home = Home(tmp_path, backend)
    transcript = home.add()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (home.state / "sessions").mkdir(parents=True)
    (home.state / "sessions" / f"{transcript.stem}.json").symlink_to(victim)
    (home.state / "cc-trace.log").symlink_to(victim)
    assert home.work(home.payload(transcript)) == 0
    assert victim.read_text() == "mine"
    assert set(backend.counts) == expected(transcript)


def _without_requests(text: str) -> Any:
    """A span as it is sent, without what `show` adds from recorded requests."""
    span = orjson.loads(text)
    for key in ("context", "cache_miss"):
        span["metadata"].pop(key, None)
    return span


def test_session_is_shown_from_store_when_transcript_is_gone(tmp_path: Path, backend: HttpBackend) -> None:
    home = Home(tmp_path, backend)
    home.environment["CC_TRACE_DESTINATIONS"] = "local"
    transcript = home.add()
    before = home.command("show", transcript.stem, "--json").stdout.splitlines()
    assert home.work(home.payload(transcript, background_tasks=[])) == 0
    transcript.unlink()
    after = home.command("show", transcript.stem, "--json").stdout.splitlines()
    assert [_without_requests(each) for each in before[:-1]] == [_without_requests(each) for each in after[:-1]]
    facts, stored = orjson.loads(before[-1]), orjson.loads(after[-1])
    same = (
        "kind",
        "turns",
        "tool_calls",
        "cost_usd",
        "output_tokens",
        "context_tokens",
        "goal",
        "latest_output",
        "cwd",
    )
    assert {key: facts[key] for key in same} == {key: stored[key] for key in same}
    unknown = home.command("show", "99999999-9999-4999-8999-999999999999")
    assert (unknown.returncode, unknown.stderr.count("\n")) == (2, 1)


def test_stop_does_not_close_the_following_turn(tmp_path: Path, backend: HttpBackend) -> None:
    """A turn that began after the Stop is still open, though it has no reply in the file yet."""
    home = Home(tmp_path, backend)
    transcript = home.add(CASES / "2.1.325--g5_kill9" / "44444444-0000-4000-8000-000000000005.jsonl")
    lines = transcript.read_bytes().splitlines(keepends=True)
    called = next(index for index, line in enumerate(lines) if b'"tool_use"' in line and b'"assistant"' in line)
    transcript.write_bytes(b"".join(lines[: called + 1]))
    spooled = home.spool(home.payload(transcript, last_assistant_message="Answer one.", background_tasks=[]))
    stopped = datetime.fromisoformat("2026-11-15T23:23:31.600Z").timestamp()
    os.utime(spooled, (stopped, stopped))
    assert home.start(spooled).wait(60) == 0
    first = next(Session(transcript).traces())
    assert backend.counts == Counter(span.span_id for span in first.spans)
