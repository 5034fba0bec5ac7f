"""A thousand machines and one collector on this machine: day by day, through an outage, and after it.

    make bench-fleet                                     # the simulation; writes bench/FLEET.md
    python bench/fleet.py --sizing ~/.claude/projects    # spans and bytes per day of the sessions in a folder

Every machine has a home of its own and real workers, as Claude Code's hook starts them; the collector is a real one
(rotel), which passes everything on to a counting store. A run that loses or doubles a span is no figure: it raises.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson
from backend import HttpBackend
from collector import Collector, free_ports
from table import Row, machine, rendered
from timing import far, listening, received

from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

RESULTS: Final = Path(__file__).with_name("FLEET.md")
KB: Final = 1000
_AT_ONCE: Final = 8  # Stops at the same moment: what two cores can simulate
_STOPS_IN_OUTAGE: Final = 5  # of the busiest machines
_CALLS: Final = 4  # of a turn: with its responses and its root, ten spans
_SPANS: Final = 2 * _CALLS + 2


@dataclass(frozen=True, slots=True)
class Machine:
    """One developer's machine."""

    number: int
    home: Path

    @property
    def transcript(self) -> Path:
        """Its only session."""
        return self.home / ".claude" / "projects" / "-p" / f"{self.number:08}-0000-4000-8000-000000000001.jsonl"

    @property
    def state(self) -> Path:
        """Its state folder."""
        return self.home / ".claude" / "state" / "cc-trace"

    def stop(self, turn: int, url: str) -> None:
        """Let Claude Code finish a turn: its lines, and the worker that the hook starts."""
        with self.transcript.open("ab") as file:
            file.writelines(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in _turn(self, turn))
        spooled = self.state / "spool" / "1.json"
        spooled.parent.mkdir(parents=True, exist_ok=True)
        spooled.write_bytes(orjson.dumps({"transcript_path": str(self.transcript), "hook_event_name": "Stop"}))
        environment = {"HOME": str(self.home), "PATH": os.environ["PATH"], "CC_TRACE_OTLP_ENDPOINT": url}
        subprocess.run(
            [sys.executable, "-m", "cc_trace", "sync", "--spooled", str(spooled)], env=environment, check=True
        )


def _turn(machine: Machine, turn: int) -> Iterator[dict[str, object]]:
    name = f"{machine.number}_{turn}"

    def line(kind: str, second: int, **fields: object) -> dict[str, object]:
        stamp = f"2027-01-01T00:{turn:02d}:{second:02d}.000Z"
        return {"type": kind, "uuid": f"{kind[0]}_{name}_{second}", "timestamp": stamp, "cwd": "/p"} | fields

    yield line("user", 0, message={"role": "user", "content": "Look at the next file and say what it does."})
    for call in range(_CALLS):
        use = {"type": "tool_use", "id": f"toolu_{name}_{call}", "name": "Bash", "input": {"command": "cat a.py"}}
        answer = {"id": f"msg_{name}_{call}", "role": "assistant", "model": "claude-sonnet-4-5", "content": [use]}
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": f"{machine.number} {turn} {call}\n" * 40}
        yield line("assistant", 2 * call + 1, message=answer)
        yield line("user", 2 * call + 2, message={"role": "user", "content": [result]})
    last = {
        "id": f"msg_{name}_end",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": "It adds two numbers.",
    }
    yield line("assistant", 2 * _CALLS + 1, message=last)
    yield line("system", 2 * _CALLS + 2, subtype="turn_duration", durationMs=1)


def simulate(machines: int) -> list[Row]:
    """Return what arrived, how fast, and what the collector was asked after an outage."""
    with tempfile.TemporaryDirectory() as folder, HttpBackend() as store:
        ports = tuple(free_ports(2))
        all_ = [Machine(number, Path(folder) / str(number)) for number in range(machines)]
        for each in all_:
            each.transcript.parent.mkdir(parents=True)
        busiest = all_[: max(1, machines // 10)]
        with Collector(store.url, Path(folder), ports) as collector:
            url = collector.http_url
            steady = _stops(all_, 1, url)
            collector.wait_for(store, machines * _SPANS)
        _stops(all_, 2, url)
        for turn in range(3, 2 + _STOPS_IN_OUTAGE):
            _stops(busiest, turn, url)
        tries = [_failures(each) for each in busiest]
        if len(store.spans) != machines * _SPANS:
            message = "the collector was down, and yet spans arrived"
            raise RuntimeError(message)
        _wait_until_tried_again(busiest)
        with Collector(store.url, Path(folder), ports) as collector:
            after = _stops(all_, 2 + _STOPS_IN_OUTAGE, url)
            missed = machines + len(busiest) * (_STOPS_IN_OUTAGE - 1)
            collector.wait_for(store, (2 * machines + missed) * _SPANS)
        _check(all_, store.counts)
    spans = (2 * machines + missed) * _SPANS
    return [
        Row("machines, spans sent, lost, doubled", f"{machines:,}, {spans:,}, 0, 0"),
        Row("steady state: spans per second that this machine simulated", f"{machines * _SPANS / steady:,.0f}"),
        Row(f"outage: attempts of a machine with {_STOPS_IN_OUTAGE} Stops, at most", f"{max(tries)}"),
        Row("after it: spans per second, with what had piled up", f"{(machines + missed) * _SPANS / after:,.0f}"),
    ]


def _stops(machines: Sequence[Machine], turn: int, url: str) -> float:
    """Let each machine finish a turn; return how long all took."""
    began = time.perf_counter()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda each: each.stop(turn, url), machines))
    return time.perf_counter() - began


def _failures(machine: Machine) -> int:
    """Return how often a machine tried in vain."""
    log = (machine.state / "cc-trace.log").read_text(encoding="utf-8")
    return log.count("refused")


def _wait_until_tried_again(machines: Iterable[Machine]) -> None:
    """Let the outage last until no machine leaves the collector alone any more."""
    waits = [orjson.loads(path.read_bytes()) for each in machines for path in (each.state / "backoff").iterdir()]
    time.sleep(max(0.0, max(wait["not_before"] for wait in waits) - time.time()))


def _check(machines: Iterable[Machine], arrived: Counter[str]) -> None:
    """Raise unless every span of every machine arrived once."""
    expected = Counter(span.span_id for each in machines for span in Session(each.transcript, ending="over").spans())
    if expected != arrived:
        message = f"{(expected - arrived).total()} spans were lost, {(arrived - expected).total()} doubled"
        raise RuntimeError(message)


def sizing(folder: Path) -> list[Row]:
    """Return what the sessions in a folder come to, per day on which somebody worked on a project."""
    with tempfile.TemporaryDirectory() as home, listening() as url:
        environment = {"HOME": home, "PATH": os.environ["PATH"], **far(url)}
        command = [sys.executable, "-m", "cc_trace", "backfill", str(folder), "--to", "otlp"]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        got = received(url)
    days: set[tuple[str | None, str]] = set()
    turns = 0
    for path in sorted(folder.rglob("*.jsonl")):
        if not path.name.startswith("agent-"):
            session = Session(path, ending="over")
            starts = [span.start_ns or 0 for span in session.spans() if span.kind == "turn"]
            days |= {(session.summary.cwd, time.strftime("%F", time.gmtime(start / 1e9))) for start in starts}
            turns += len(starts)
    if not days:
        message = f"{folder} has no sessions"
        raise SystemExit(message)
    return [
        Row("days of work on a project", f"{len(days):,}"),
        Row("turns per day", f"{turns / len(days):,.0f}"),
        Row("spans per day", f"{got['spans'] / len(days):,.0f}"),
        Row("bytes sent per day, compressed", f"{got['bytes'] / len(days) / KB:,.0f} kB"),
    ]


def main() -> int:
    """Simulate, or measure a folder; print the table."""
    parser = argparse.ArgumentParser(description="Simulate many machines that send to one collector.")
    parser.add_argument("--machines", type=int, default=1000, help="default: 1000")
    parser.add_argument("--write", action="store_true", help="also write the table to bench/FLEET.md")
    parser.add_argument("--sizing", type=Path, metavar="FOLDER", help="only: spans and bytes per day of these sessions")
    options = parser.parse_args()
    table = rendered(sizing(options.sizing) if options.sizing else simulate(options.machines))
    report = f"{machine()}\n\n{table}\n"
    print(report, end="")
    if options.write:
        RESULTS.write_text(f"# What `make bench-fleet` measured\n\n{report}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
