"""Every state a backend can be in, for Langfuse, OTLP/HTTP and OTLP/gRPC: nothing lost, each span once.

The sink counts. Only where a backend stored a batch, did not say so and cannot be asked, may a span come twice.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pytest
from backend import (
    CLOSE_MIDDLE,
    CLOSE_STORED,
    CLOSE_UNSTORED,
    HANG,
    HANG_STORED,
    OK,
    ONE_BYTE_A_SECOND,
    REFUSE,
    Behaviour,
    GrpcBackend,
    HttpBackend,
    partial_success,
    refuses_above,
    refuses_span,
    status,
)
from test_sync import AGENTS, Machine, expected
from waiting import LONG_SECONDS, until

from cc_trace.export.destination import DestinationSettings, open_destination

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Kind = Literal["otlp", "json", "grpc", "langfuse"]
KINDS: list[Kind] = ["otlp", "grpc", "langfuse"]
STATES = {
    "refuse": REFUSE,
    "401": status(401, "who are you"),
    "403": status(403, "not you"),
    "404": status(404, "not here"),
    "429": status(429, "slower", retry_after="30"),
    "500": status(500, "oh"),
    "503": status(503, "later"),
    "302": status(302, location="/elsewhere"),
    "close after the body, stored": CLOSE_STORED,
    "close after the body": CLOSE_UNSTORED,
    "close in the middle": CLOSE_MIDDLE,
}
SILENT = {"hang": HANG, "hang, stored": HANG_STORED, "one byte a second": ONE_BYTE_A_SECOND}


class Case:
    """A machine whose only destination is a real server."""

    def __init__(self, folder: Path, kind: Kind, backend: HttpBackend | GrpcBackend) -> None:
        self.settings = DestinationSettings(
            "it",
            "langfuse" if kind == "langfuse" else "otlp",
            endpoint=backend.url,
            protocol="grpc" if kind == "grpc" else "http/protobuf",
            public_key="pk",
            secret_key="sk",  # noqa: S106
            timeout_seconds=LONG_SECONDS,
        )
        self.kind, self.backend = kind, backend
        self.machine = Machine(folder)
        self.machine.in_background = False
        self.path = self.machine.copy(AGENTS)
        self.expected = expected(self.path)

    def sync(self, timeout_seconds: float = LONG_SECONDS) -> bool:
        """Be a new process: it opens its destination anew."""
        self.machine.sinks = (open_destination(replace(self.settings, timeout_seconds=timeout_seconds)),)
        return self.machine.sync(self.path)

    @property
    def notes(self) -> list[tuple[object, object]]:
        state, _ = self.machine.states.load(self.path.stem)
        assert state is not None
        return [(note.get("span_id") or note.get("spans"), note["message"]) for note in state.destinations["it"].notes]


@contextmanager
def running(kind: Kind, folder: Path) -> Iterator[Case]:
    with GrpcBackend() if kind == "grpc" else HttpBackend() as backend:
        yield Case(folder, kind, backend)


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    with running(request.param, tmp_path) as running_case:
        yield running_case


@pytest.mark.parametrize("state", STATES)
def test_after_a_backend_recovers_each_span_is_there_once(case: Case, state: str) -> None:
    """Whatever it did to us, the next sync delivers everything."""
    case.backend.behaviour = STATES[state]
    assert not case.sync()
    recovers(case, STATES[state])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", SILENT)
def test_after_a_backend_was_silent_each_span_is_there_once(tmp_path: Path, kind: Kind, state: str) -> None:
    """The request must have arrived before its time was up: a slow machine tries again with more of it."""
    behaviour = SILENT[state]
    for seconds in (0.6, 6.0, LONG_SECONDS):
        with running(kind, tmp_path / f"{seconds}") as case:
            case.backend.behaviour = behaviour
            assert not case.sync(seconds)
            if case.backend.requests:
                until(lambda: case.backend.counts or not behaviour.stores, "what arrived is stored")
                recovers(case, behaviour)
                return
    pytest.fail("no request arrived")


def recovers(case: Case, behaviour: Behaviour) -> None:
    case.backend.behaviour = OK
    assert case.sync()
    counts = case.backend.counts
    assert set(counts) == case.expected
    if behaviour.stores and case.kind != "langfuse":
        assert set(counts.values()) <= {1, 2}
    else:
        assert set(counts.values()) == {1}
    assert case.sync()
    assert case.backend.counts == counts


@pytest.mark.parametrize("code", [400, 413, 422])
def test_batch_is_halved_to_find_rejected_span(case: Case, code: int) -> None:
    """It is recorded with status and message, and skipped."""
    bad = sorted(case.expected)[5]
    case.backend.behaviour = refuses_span(bad, code)
    assert case.sync()
    assert case.backend.counts == Counter(case.expected - {bad})
    assert [note[0] for note in case.notes] == [bad]
    requests = len(case.backend.requests)
    assert case.sync()
    assert len(case.backend.requests) == requests


def test_a_batch_that_is_too_large_is_halved(case: Case) -> None:
    """413 for size: smaller batches get through, nothing is lost."""
    case.backend.behaviour = refuses_above(6000)
    assert case.sync()
    assert case.backend.counts == Counter(case.expected)


def test_after_a_partial_success_nothing_is_sent_again(case: Case) -> None:
    """The rest was taken; what was rejected is recorded with count and message."""
    if case.kind == "langfuse":
        pytest.skip("Langfuse has no partial success")
    case.backend.behaviour = partial_success(2, "two were odd")
    assert case.sync()
    case.backend.behaviour = OK
    assert case.sync()
    assert set(case.backend.counts.values()) == {1}
    assert case.notes == [(2, "two were odd")]


def test_retry_after_is_respected(tmp_path: Path) -> None:
    """The next Stop does not try before that time; `cc-trace sync` does."""
    with HttpBackend() as backend:
        case = Case(tmp_path, "otlp", backend)
        case.machine.in_background = True
        backend.behaviour = status(429, retry_after="30")
        assert not case.sync()
        backend.behaviour = OK
        requests = len(backend.requests)
        assert not case.sync()
        assert len(backend.requests) == requests
        case.machine.in_background = False
        assert case.sync()
        assert backend.counts == Counter(case.expected)
