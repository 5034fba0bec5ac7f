"""The request spool: a request is handled with all that its hook knew, even if workers are killed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from backend import HttpBackend
from lines import prompt, reply, write
from test_worker import Home

from cc_trace.delivery import payload as payloads
from cc_trace.delivery import sync_requests
from cc_trace.delivery.payload import Payload
from cc_trace.delivery.process import Process
from cc_trace.delivery.state import StateFolder
from cc_trace.delivery.sync_requests import HookContext, SyncRequest, request_from_json, request_to_json
from cc_trace.spans import TraceLink

if TYPE_CHECKING:
    from cc_trace.delivery.spool import Spool

CONTEXT = HookContext(Process(7, "62595"), TraceLink("seed"), "/p", {"user": {"CC_TRACE_SEED": "seed", "KEY": None}})


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    states = StateFolder(tmp_path / "state")
    states.prepare()
    return states.spool


def requested(session_id: str = "a", at: int = 1, context: HookContext = CONTEXT) -> SyncRequest:
    return SyncRequest(
        Payload("Stop", Path(f"/claude/projects/-p/{session_id}.jsonl"), "Done.", has_background_tasks=False),
        at,
        context,
    )


def transcript(home: Home, number: int) -> Path:
    path = home.projects / f"{number:08}-0000-4000-8000-000000000001.jsonl"
    about = {"sessionId": path.stem, "cwd": str(home.folder)}
    write(path, [prompt(f"{number}", 0, **about), reply(f"m{number}", "x", at=1, **about)])
    os.utime(path, (time.time() - 1000,) * 2)
    return path


def test_request_life_cycle(spool: Spool) -> None:
    """A taken request stays until it is finished: after a crash one more worker gets it."""
    spool.post_request(requested())
    assert spool.pending() == ["a"]
    assert spool.take_request("a") == requested()
    assert (spool.pending(), spool.taken(), spool.unfinished_request("a")) == ([], ["a"], True)
    spool.finish_request("a")
    assert not list(spool.folder.iterdir())
    spool.post_request(requested())
    assert [spool.take_request("a"), spool.take_request("a"), spool.take_request("a")] == [requested()] * 2 + [None]
    assert not list(spool.folder.iterdir())


@pytest.mark.parametrize("times", [(1, 2), (2, 1)])
def test_later_request_replaces_earlier(spool: Spool, times: tuple[int, int]) -> None:
    for at in times:
        spool.post_request(requested(at=at))
    assert spool.take_request("a") == requested(at=2)


def test_reposted_request_keeps_context(spool: Spool) -> None:
    """A worker that takes over the payload of a killed one posts the same request, with less context."""
    spool.post_request(requested())
    spool.post_request(requested(context=HookContext()))
    assert spool.take_request("a") == requested()


def test_put_back_does_not_replace_later_request(spool: Spool) -> None:
    spool.post_request(requested())
    taken = spool.take_request("a")
    assert taken is not None
    spool.put_back(taken)
    assert (spool.pending(), spool.taken()) == (["a"], [])
    taken = spool.take_request("a")
    assert taken is not None
    spool.post_request(requested(at=2))
    spool.put_back(taken)
    assert (spool.take_request("a"), spool.taken()) == (requested(at=2), ["a"])


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_request_that_cannot_be_put_back_stays_taken(spool: Spool) -> None:
    """On a disk that fills up while it is written, no half of it is left to be taken in its place."""
    import resource  # noqa: PLC0415  (not on Windows)

    spool.post_request(requested())
    taken = spool.take_request("a")
    assert taken is not None
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, limits[1]))
    try:
        spool.put_back(taken)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (spool.pending(), spool.taken()) == ([], ["a"])
    assert spool.take_request("a") == requested()


def test_request_json_round_trip() -> None:
    path = Path(os.fsdecode(b"/p/\xff\xc3\xa9/a.jsonl"))
    request = SyncRequest(Payload("Stop", path, "\u2028 Done.", has_background_tasks=None), 5, CONTEXT)
    assert request_from_json(request_to_json(request), "a") == request
    assert request_from_json(request_to_json(request), "b") is None


@pytest.mark.parametrize("data", [b"", b"[]", b'{"event": 1, "transcript": "a.jsonl", "hook_ns": 1}', b"\xff"])
def test_damaged_request_is_removed(spool: Spool, data: bytes) -> None:
    (spool.folder / "a.request").write_bytes(data)
    assert spool.take_request("a") is None
    assert not list(spool.folder.iterdir())


def test_request_that_cannot_be_taken_is_an_error(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever goes on until no request is left would never end."""

    def full(path: Path, _: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    spool.post_request(requested())
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        spool.take_request("a")
    monkeypatch.undo()
    assert spool.take_request("a") == requested()


def test_payload_with_half_a_surrogate_pair_is_used(tmp_path: Path, spool: Spool) -> None:
    """A message that was cut within an emoji. It is escaped in the transcript, too, so it is not looked for."""
    claude = tmp_path.resolve() / "claude"
    (claude / "projects" / "-p").mkdir(parents=True)
    path = claude / "projects" / "-p" / "a.jsonl"
    (spool.folder / "1-0.json").write_text(
        json.dumps({"hook_event_name": "Stop", "transcript_path": str(path), "last_assistant_message": "Done. \ud83d"})
    )
    ((_, found),) = spool.take_payloads(spool.folder / "1-0.json", CONTEXT, claude)
    assert isinstance(found, SyncRequest)
    assert (found.payload, found.context) == (Payload("Stop", path), CONTEXT)


def test_requests_of_earlier_versions_are_taken(tmp_path: Path, spool: Spool) -> None:
    """The payload as text with the hook's context, or the bare payload, whose file has the time."""
    claude = tmp_path.resolve() / "claude"
    (claude / "projects" / "-p").mkdir(parents=True)
    earlier = tmp_path / "state" / "pending"
    earlier.mkdir()
    texts = {name: json.dumps({"transcript_path": str(claude / "projects" / "-p" / f"{name}.jsonl")}) for name in "ab"}
    known = {"claude_pid": 7, "anchor": [*TraceLink("seed")], "project": "/p", "environment": CONTEXT.environment}
    wrapped = {"cc_trace_request": {"payload": texts["a"], "told_ns": 5, **known}}
    (earlier / "a.json").write_text(json.dumps(wrapped))
    (earlier / "b.json").write_text(texts["b"])
    os.utime(earlier / "b.json", ns=(6_000, 6_000))
    found = dict(spool.take_payloads(None, HookContext(), claude))
    assert found == {
        "a.json": SyncRequest(
            Payload("", claude / "projects" / "-p" / "a.jsonl"), 5, CONTEXT._replace(process=Process(7))
        ),
        "b.json": SyncRequest(Payload("", claude / "projects" / "-p" / "b.jsonl"), 6_000),
    }
    assert not list(earlier.iterdir())


def test_payload_is_not_parsed_as_request(tmp_path: Path, spool: Spool) -> None:
    """A hook's stdin is untrusted."""
    own = spool.folder / "1-0.json"
    inner = json.dumps({"transcript_path": "/etc/a.jsonl"})
    for raw in ({"cc_trace_request": {"payload": inner, "told_ns": 1}}, json.loads(request_to_json(requested()))):
        own.write_text(json.dumps(raw))
        assert list(spool.take_payloads(own, CONTEXT, tmp_path)) == [("1-0.json", "payload has no transcript_path")]


@pytest.mark.parametrize("step", ["request left", "spool taken", "slot taken", "locked", "transcript quiet"])
def test_request_of_killed_worker_keeps_context(tmp_path: Path, step: str) -> None:
    """Another session's worker, without CC_TRACE_SEED, delivers it with the trace id of that seed."""
    with HttpBackend() as backend:
        home = Home(tmp_path, backend)
        first, second = transcript(home, 1), transcript(home, 2)
        killed = home.work(home.payload(first, background_tasks=[]), CC_TRACE_DIE_AT=step, CC_TRACE_SEED="seed")
        assert killed == -signal.SIGKILL
        (home.state / "swept").touch()  # no sweep: the request alone leads to the session
        assert home.work(home.payload(second, background_tasks=[])) == 0
        assert hashlib.sha256(b"seed:1").hexdigest()[:32] in {span.trace_id.hex() for span in backend.spans}
        assert set(backend.counts.values()) == {1}
        assert len(backend.counts) == 4


def test_crashing_session_is_tried_twice(tmp_path: Path) -> None:
    """The second worker removes the request before it begins."""
    with HttpBackend() as backend:
        home = Home(tmp_path, backend)
        path, states = transcript(home, 1), StateFolder(home.state)
        assert home.work(home.payload(path, background_tasks=[]), CC_TRACE_DIE_AT="transcript quiet") == -signal.SIGKILL
        assert states.abandoned() == [path.stem]
        (home.state / "swept").touch()  # a sweep tries the session, too, after everything else
        assert home.work(b"{}", CC_TRACE_DIE_AT="transcript quiet") == -signal.SIGKILL
        assert states.abandoned() == []
        assert home.work(b"{}", CC_TRACE_DIE_AT="transcript quiet") == 0
        assert not list((home.state / "spool").iterdir())


def test_payload_is_parsed_once(tmp_path: Path, spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request has what was read from it."""
    parsed = []
    real = payloads.parse_payload

    def counted(data: bytes, config_dir: Path) -> Payload | str:
        parsed.append(data)
        return real(data, config_dir)

    monkeypatch.setattr("cc_trace.delivery.spool.parse_payload", counted)
    monkeypatch.setattr(sync_requests, "parse_payload", counted)
    claude = tmp_path.resolve() / "claude"
    (claude / "projects" / "-p").mkdir(parents=True)
    own = spool.folder / "1-0.json"
    own.write_text(json.dumps({"transcript_path": str(claude / "projects" / "-p" / "a.jsonl")}))
    for _, found in spool.take_payloads(own, CONTEXT, claude):
        assert isinstance(found, SyncRequest)
        spool.post_request(found)
    assert spool.take_request("a") is not None
    assert len(parsed) == 1
