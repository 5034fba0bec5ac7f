"""Langfuse gets each span once, whatever happens to a request: checked against a server that stores and shows late.

A request may time out and be stored all the same, a connection may break after the batch was taken, a worker may be
killed before it hears the answer; and what was taken is stored after some seconds, and shown up to a minute later.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pytest
from backend import CLOSE_STORED, HANG_STORED, OK, REFUSE, Behaviour
from langfuse_server import PUBLIC, SECRET, LangfuseServer
from sink import Clock
from test_sync import TWO_TURNS, Killed, Machine, expected
from waiting import until

from cc_trace.export.destination import DestinationSettings
from cc_trace.export.langfuse import Langfuse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Way = Literal["time-out", "restart", "kill"]
WAYS: list[Way] = ["time-out", "restart", "kill"]


class Scene:
    """A machine, and a Langfuse that stores 12 seconds after it accepts, and shows after 45 seconds."""

    def __init__(self, folder: Path, server: LangfuseServer, clock: Clock) -> None:
        self.server, self.clock = server, clock
        server.stores_after, server.shown_after = 12.0, 45.0
        keys: dict[str, Any] = {"public_key": PUBLIC, "secret_key": SECRET, "timeout_seconds": 10.0, "scores": True}
        self.settings = DestinationSettings("langfuse", "langfuse", endpoint=server.url, **keys)
        self.machine = Machine(folder)
        self.machine.clock, self.machine.unclear_seconds, self.machine.request_seconds = clock, 60.0, 10.0
        self.machine.in_background = False  # as a user's own `sync` or `backfill`
        self.path = self.machine.copy(TWO_TURNS)
        self.expected = expected(self.path)

    def sync(self, path: Path | None = None, timeout_seconds: float = 10.0) -> bool:
        """Be a new process with a destination of its own."""
        self.machine.sinks = (Langfuse(replace(self.settings, timeout_seconds=timeout_seconds)),)
        return self.machine.sync(path or self.path)

    def fail_as(self, way: Way) -> None:
        """Have Langfuse take everything, without a response to the worker."""
        match way:
            case "time-out":
                self.server.behaviour = HANG_STORED
                assert not self.sync(timeout_seconds=0.5)
                until(lambda: bool(self.server.spans), "the batch that timed out to be taken")
            case "restart":
                self.server.behaviour = CLOSE_STORED
                assert not self.sync()
                self.server.behaviour = REFUSE
                assert not self.sync()
            case "kill":
                self.machine.die_at = "answered"
                with contextlib.suppress(Killed):
                    self.sync()
                self.machine.die_at = None
        self.server.behaviour = OK
        assert self.server.counts

    def fork(self) -> Path:
        """Copy the session as --fork-session does."""
        fork = self.path.with_name("44444444-0000-4000-8000-00000000000f.jsonl")
        fork.write_bytes(self.path.read_bytes().replace(self.path.stem.encode(), fork.stem.encode()))
        return fork


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    clock = Clock()
    with LangfuseServer(clock) as server:
        yield Scene(tmp_path, server, clock)


@pytest.mark.parametrize("every", [9.0, 25.0])
@pytest.mark.parametrize("forked", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_no_duplicates_after_unclear_outcome(scene: Scene, way: Way, forked: bool, every: float) -> None:  # noqa: FBT001
    """However soon and often the session, or a fork of it, is synced again."""
    scene.fail_as(way)
    taken = set(scene.server.counts)
    path = scene.fork() if forked else scene.path
    began = scene.clock.now
    while not scene.sync(path):
        assert set(scene.server.counts) == taken  # as long as it is not known, nothing is sent again
        scene.clock.now += every
        assert scene.clock.now < began + 200
    assert scene.sync()
    assert set(scene.server.counts) == scene.expected
    assert set(scene.server.counts.values()) == {1}


@pytest.mark.parametrize("way", WAYS)
def test_lost_batch_is_resent_after_unclear_seconds(scene: Scene, way: Way) -> None:
    """Until then Langfuse is queried for it."""
    scene.fail_as(way)
    scene.server.spans.clear()  # its queue went down with it
    scene.server.taken_at.clear()
    began = scene.clock.now
    while not scene.sync():
        scene.clock.now += 5
        assert scene.clock.now < began + 200
    assert scene.clock.now >= began + 60
    assert set(scene.server.counts) == scene.expected
    assert set(scene.server.counts.values()) == {1}


@pytest.mark.parametrize("way", WAYS)
def test_scores_arrive_after_unclear_outcome(scene: Scene, way: Way) -> None:
    """Also of turns whose spans Langfuse had stored without a response."""
    scene.fail_as(way)
    scene.clock.now += 100
    assert scene.sync()
    turns = [id_ for id_ in scene.server.scores if id_.endswith("-interrupted")]
    assert len(turns) == 2


def test_batch_waits_while_query_fails(scene: Scene) -> None:
    scene.fail_as("restart")
    scene.clock.now += 500
    scene.server.reads = Behaviour(status=503, said="{}")
    assert not scene.sync()
    assert set(scene.server.counts.values()) == {1}
    scene.server.reads = OK
    assert scene.sync()
    assert set(scene.server.counts.values()) == {1}
