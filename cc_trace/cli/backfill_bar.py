"""The progress bar of a backfill, on stderr, which is a terminal."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from cc_trace.cli.output import bare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cc_trace.cli.backfill_summary import Summary
    from cc_trace.delivery import DeliveredBatch, TranscriptFile


@contextlib.contextmanager
def bar(summary: Summary) -> Iterator[Bar]:
    """Show a bar until the end."""
    progress = Progress(
        TextColumn("{task.fields[sessions]}/{task.fields[of]} sessions"),
        BarColumn(),
        TextColumn("{task.fields[megabytes]:.0f}/{task.fields[of_megabytes]:.0f} MB"),
        TextColumn("{task.fields[turns]:,} turns {task.fields[spans]:,} spans"),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(file=bare(sys.stderr)),  # whose escape sequences are our own
    )
    with progress:
        yield Bar(progress, summary)


class Bar:
    """The progress, in bytes. A session's bytes count once, whatever the number of destinations."""

    def __init__(self, progress: Progress, summary: Summary) -> None:
        self._progress = progress
        self._offsets: dict[str, int] = {}
        self._sessions = self._turns = self._spans = 0
        self._task = progress.add_task(
            "",
            total=summary.bytes,
            sessions=0,
            of=summary.sessions,
            megabytes=0.0,
            of_megabytes=summary.bytes / 1e6,
            turns=0,
            spans=0,
        )

    def add(self, session_id: str, batch: DeliveredBatch) -> None:
        """Update the bar after a batch."""
        self._spans += batch.spans
        self._turns += batch.turns
        self._offsets[session_id] = max(self._offsets.get(session_id, 0), batch.offset)
        self._show()

    def done(self, file: TranscriptFile) -> None:
        """Count a session as finished."""
        self._offsets[file.path.stem] = file.size
        self._sessions += 1
        self._show()

    def _show(self) -> None:
        done = sum(self._offsets.values())
        self._progress.update(
            self._task,
            completed=done,
            sessions=self._sessions,
            megabytes=done / 1e6,
            turns=self._turns,
            spans=self._spans,
        )
