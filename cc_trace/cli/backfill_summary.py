"""The result of a backfill, in a few lines."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cc_trace.text import plural

if TYPE_CHECKING:
    from cc_trace.delivery import Report


@dataclass(slots=True)
class Summary:
    """Counts over all sessions."""

    sessions: int
    bytes: int
    again: bool = False  # all was forgotten before: doing that once more would send it twice
    seconds: float = 0.0
    done: int = 0
    spans: Counter[str] = field(default_factory=Counter)  # by destination
    turns: Counter[str] = field(default_factory=Counter)
    off: Counter[str] = field(default_factory=Counter)  # reason -> sessions
    pending: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)  # reason -> spans

    def add(self, report: Report) -> None:
        """Add the report of one session."""
        self.done += 1
        self.refused.update(report.refused)
        if report.why_off is not None:
            self.off[report.why_off] += 1
        if report.locked:
            self.pending["another process is delivering it"] += 1
        for name, reason in report.pending.items():
            self.pending[reason if name == "*" else f"{name}: {reason}"] += 1
        for name, spans in report.sent.items():
            self.count(name, report.turns.get(name, 0), spans)

    def add_pending(self, reason: str) -> None:
        """Add a session that cannot be delivered now."""
        self.done += 1
        self.pending[reason] += 1

    def count(self, destination: str, turns: int, spans: int) -> None:
        """Add what was sent, or would be."""
        self.turns[destination] += turns
        self.spans[destination] += spans

    def print_counted(self) -> None:
        """Print what would be sent."""
        print(f"{plural(self.sessions, 'session')}, {_size(self.bytes)}; nothing was sent")
        for name, spans in self.spans.items():
            print(f"  {plural(self.turns[name], 'turn')}, {plural(spans, 'span')} would go to {name}")
        self._print_off()
        for reason, count in self.pending.most_common():
            print(f"  {plural(count, 'session')} cannot be counted: {reason}")

    def print_delivered(self) -> None:
        """Print what was sent, and what was not and why."""
        rate = f" ({self.bytes / 1e6 / self.seconds:.1f} MB/s)" if self.seconds and self.done == self.sessions else ""
        done = f"{self.done} of " if self.done != self.sessions else ""
        print(f"{done}{plural(self.sessions, 'session')}, {_size(self.bytes)} in {self.seconds:.1f} s{rate}")
        for name, spans in self.spans.items():
            print(f"  {plural(self.turns[name], 'turn')}, {plural(spans, 'span')} sent to {name}")
        self._print_off()
        for reason, count in self.refused.most_common():
            print(f"  {plural(count, 'span')} refused for good: {reason}")
        for reason, count in self.pending.most_common():
            print(f"  {plural(count, 'session')} pending: {reason}")
        if self.pending or self.done != self.sessions:
            again = " without --again" if self.again else ""
            print(f"  run it again{again} to continue; nothing is sent twice")

    def _print_off(self) -> None:
        for reason, count in self.off.most_common():
            print(f"  {plural(count, 'session')} not traced: {reason}")


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
