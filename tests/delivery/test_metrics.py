"""Metrics of new responses: counted with the spans that were accepted, and never twice."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from lines import MODEL, NOON, SESSION, USAGE, line, prompt, reply, session, write
from sink import Sink
from test_sync import STEPS, Killed, Machine

from cc_trace.delivery.cursor import add_counts, from_json, to_json
from cc_trace.export.outcomes import Accepted, Outcome, Rejected, Retryable, Unclear

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cc_trace.export.outcomes import Temporality

SOON = NOON.timestamp() + 600
TIMES: list[Temporality] = ["delta", "cumulative"]
MORE_STEPS = ["metrics intent saved", "metrics answered"]


class Meter(Sink):
    """A sink for metrics with a chosen outcome."""

    def __init__(self, metrics: Temporality | None) -> None:
        super().__init__()
        self.metrics = metrics
        self.reports: list[Counter[str]] = []  # what each request said, of counters
        self.times: list[tuple[int, int]] = []
        self.instances: set[str] = set()
        self.outcome: Outcome = Accepted()
        self.stores = True

    def send_metrics(self, counts: Mapping[str, list[float]], start_ns: int, end_ns: int, session_id: str) -> Outcome:
        assert start_ns < end_ns
        if self.stores:
            self.reports.append(counters(counts))
            self.times.append((start_ns, end_ns))
        self.instances.add(session_id)
        return self.outcome

    def total(self) -> Counter[str]:
        """What a backend would show: the sum of all deltas, or the last total."""
        if self.metrics == "cumulative":
            return self.reports[-1] if self.reports else Counter()
        return sum(self.reports, Counter())


def counters(counts: Mapping[str, list[float]]) -> Counter[str]:
    """The token counters, and how many responses were timed."""
    found: Counter[str] = Counter()
    for series, numbers in counts.items():
        name, attributes = json.loads(series)
        if name == "cc_trace.tokens":
            found[attributes["cc_trace.token.type"]] += int(numbers[0])
        elif name == "gen_ai.client.operation.duration":
            found["timed"] += int(numbers[0])
    return found


def turn(number: int) -> list[dict[str, Any]]:
    """A turn of one response, whose request is recorded."""
    at = number * 10
    return [
        prompt(f"ask {number}", at),
        line("api-request", at + 1, id=f"a{number}", params={"model": MODEL}, base=None, keep=0, tail=[]),
        reply(f"m{number}", f"Answer {number}.", at=at + 3, requestRef=f"a{number}"),
    ]


def counted(turns: int) -> Counter[str]:
    """The counters of so many turns."""
    writes = USAGE["cache_creation"]
    assert isinstance(writes, dict)
    one = {"input": 12, "output": 400, "cache_read": 50_000, "cache_write_5m": 1_000, "cache_write_1h": 2_000}
    return Counter({kind: turns * tokens for kind, tokens in (one | {"timed": 1}).items()})


def machine(folder: Path, meter: Meter, at: float = SOON) -> Machine:
    made = Machine(folder, meter)
    made.clock = lambda: at
    return made


def written(home: Machine, turns: int) -> Path:
    path = home.projects / f"{SESSION}.jsonl"
    write(path, [each for number in range(turns) for each in turn(number)])
    return path


@pytest.mark.parametrize("temporality", TIMES)
def test_growing_session_is_counted_once(tmp_path: Path, temporality: Temporality) -> None:
    """Each turn is synced by a new worker; a sync without new spans sends no metrics."""
    meter = Meter(temporality)
    home = machine(tmp_path, meter)
    for turns in range(1, 5):
        path = written(home, turns)
        assert home.sync(path)
        assert meter.total() == counted(turns)
    assert home.sync(path)
    assert len(meter.reports) == 4
    assert meter.instances == {SESSION}
    starts, ends = zip(*meter.times, strict=True)
    assert starts[0] == int(NOON.timestamp() * 1e9)
    if temporality == "delta":
        assert starts[1:] == ends[:-1]  # so that no two windows overlap
    else:
        assert len(set(starts)) == 1


@pytest.mark.parametrize("temporality", TIMES)
@pytest.mark.parametrize("step", [*STEPS, *MORE_STEPS])
def test_killed_worker_does_not_double_count(tmp_path: Path, temporality: Temporality, step: str) -> None:
    """And loses nothing but a delta that was being sent, which may have been accepted."""
    meter = Meter(temporality)
    home = machine(tmp_path, meter)
    path = written(home, 2)
    home.die_at = step
    with contextlib.suppress(Killed):
        home.sync(path)
    home.die_at = None
    path = written(home, 3)
    assert home.sync(path)
    lost = counted(2) if temporality == "delta" and step == "metrics intent saved" else Counter[str]()
    assert meter.total() == counted(3) - lost
    assert meter.changed == []


@pytest.mark.parametrize("temporality", TIMES)
@pytest.mark.parametrize("behaviour", ["down", "unclear stored", "unclear lost"])
def test_spans_that_were_not_accepted_do_not_count(tmp_path: Path, temporality: Temporality, behaviour: Any) -> None:
    meter = Meter(temporality)
    home = machine(tmp_path, meter)
    path = written(home, 1)
    meter.behaviour = behaviour
    assert not home.sync(path)
    assert meter.reports == []
    meter.behaviour = "ok"
    assert home.sync(path)
    assert meter.total() == counted(1)


@pytest.mark.parametrize("temporality", TIMES)
def test_failed_metrics_are_sent_with_next(tmp_path: Path, temporality: Temporality) -> None:
    """The spans are delivered all the same."""
    meter = Meter(temporality)
    home = machine(tmp_path, meter)
    meter.outcome, meter.stores = Retryable("404 not found"), False
    assert home.sync(written(home, 1))
    assert "metrics not accepted: 404 not found" in (home.states.folder / "cc-trace.log").read_text()
    meter.outcome, meter.stores = Accepted(), True
    assert home.sync(written(home, 2))
    assert meter.reports == [counted(2)]


@pytest.mark.parametrize("stored", [True, False])
def test_unclear_delta_is_not_resent(tmp_path: Path, stored: bool) -> None:  # noqa: FBT001
    meter = Meter("delta")
    home = machine(tmp_path, meter)
    meter.outcome, meter.stores = Unclear("no response"), stored
    home.sync(written(home, 1))
    meter.outcome, meter.stores = Accepted(), True
    home.sync(written(home, 2))
    assert meter.total() == counted(2 if stored else 1)


@pytest.mark.parametrize("stored", [True, False])
def test_unclear_cumulative_is_resent(tmp_path: Path, stored: bool) -> None:  # noqa: FBT001
    meter = Meter("cumulative")
    home = machine(tmp_path, meter)
    path = written(home, 1)
    meter.outcome, meter.stores = Unclear("no response"), stored
    home.sync(path)
    meter.outcome, meter.stores = Accepted(), True
    home.sync(path)
    assert meter.total() == counted(1)


def test_rejected_metrics_are_not_resent(tmp_path: Path) -> None:
    meter = Meter("delta")
    home = machine(tmp_path, meter)
    meter.outcome, meter.stores = Rejected("400", "bad metrics"), False
    home.sync(written(home, 1))
    meter.outcome, meter.stores = Accepted(), True
    home.sync(written(home, 2))
    assert meter.total() == counted(1)


@pytest.mark.parametrize("temporality", TIMES)
def test_spans_older_than_a_day_are_not_counted(tmp_path: Path, temporality: Temporality) -> None:
    meter = Meter(temporality)
    home = machine(tmp_path, meter, at=SOON + 86_400)
    assert home.sync(written(home, 2))
    assert meter.taken
    assert meter.reports == []


@pytest.mark.parametrize("temporality", TIMES)
def test_fork_counts_only_new_turns(tmp_path: Path, temporality: Temporality) -> None:
    """As a stream of its own; copied turns were counted in their session."""
    meter = Meter(temporality)
    home = machine(tmp_path, meter)
    assert home.sync(written(home, 2))
    fork = home.projects / "22222222-0000-4000-8000-000000000002.jsonl"
    write(fork, [each | {"sessionId": fork.stem} for number in range(3) for each in turn(number)])
    meter.reports = []
    assert home.sync(fork)
    assert meter.reports == [counted(1)]
    assert meter.instances == {SESSION, fork.stem}


def test_changing_temporality_resets_counts(tmp_path: Path) -> None:
    """A total sent as a delta would count everything twice."""
    meter = Meter("cumulative")
    home = machine(tmp_path, meter)
    home.sync(written(home, 2))
    meter.metrics, meter.reports = "delta", []
    home.sync(written(home, 3))
    assert meter.reports == [counted(1)]


def test_no_metrics_by_default(tmp_path: Path) -> None:
    meter = Meter(None)
    home = machine(tmp_path, meter)
    assert home.sync(written(home, 1))
    assert meter.reports == []
    assert home.progress(home.projects / f"{SESSION}.jsonl").metrics.counts == {}


@pytest.mark.parametrize(
    "metrics",
    [
        {"counts": {"x": ["1"]}},
        {"counts": {"x": [-1]}},
        {"counts": []},
        {"in_intent": {"x": 3}},
        {"start_ns": -1},
        {"in_flight": 1},
        {"more": 1},
    ],
)
def test_malformed_counts_are_rejected(tmp_path: Path, metrics: Any) -> None:
    home = machine(tmp_path, Meter("delta"))
    home.sync(written(home, 1))
    state, _ = home.states.load(SESSION)
    assert state is not None
    raw = json.loads(to_json(state))
    raw["destinations"]["sink"]["metrics"] = metrics
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
        from_json(json.dumps(raw).encode(), SESSION)


def test_counts_are_capped(tmp_path: Path) -> None:
    """A transcript can contain any number of tokens."""
    home = machine(tmp_path, Meter("cumulative"))
    home.sync(written(home, 1))
    state, _ = home.states.load(SESSION)
    assert state is not None
    counts = state.cursor("sink").metrics.counts
    for _ in range(3):
        add_counts(counts, {series: [9e17] * len(numbers) for series, numbers in counts.items()})
    again = from_json(to_json(state), SESSION).cursor("sink").metrics.counts
    assert {number for numbers in again.values() for number in numbers} == {1e18}


def test_state_without_metrics_loads(tmp_path: Path) -> None:
    home = machine(tmp_path, Meter("delta"))
    home.sync(written(home, 1))
    state, _ = home.states.load(SESSION)
    assert state is not None
    raw = json.loads(to_json(state))
    del raw["destinations"]["sink"]["metrics"]
    assert from_json(json.dumps(raw).encode(), SESSION).destinations["sink"].accepted == state.cursor("sink").accepted


def test_fixture_session_has_expected_tokens(tmp_path: Path) -> None:
    """Otherwise every count above could be zero."""
    assert session(tmp_path, *turn(0)).exists()
    assert counted(1)["output"] == 400
