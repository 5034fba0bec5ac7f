"""The destination `local`: the store on this machine (see `cc_trace/store`).

A later version of a span overwrites the earlier one, so a span that is sent twice is stored once.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from cc_trace.export.outcomes import MAX_SPAN_BYTES, Accepted, EncodedSpan, Retryable
from cc_trace.store import connect, row_of, to_json, write_spans

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cc_trace.export.outcomes import Outcome
    from cc_trace.spans import Span


class LocalStore:
    """Writes spans to the store, which is opened on first use."""

    idempotent = True
    queryable = True

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path
        self._database: sqlite3.Connection | None = None

    def encode(self, span: Span) -> EncodedSpan:
        """Return a span's row."""
        data = to_json(span)
        if len(data) > MAX_SPAN_BYTES:
            from cc_trace.export.otlp import encode_within  # noqa: PLC0415  (for the few spans larger than a batch)

            data = encode_within(span, to_json, MAX_SPAN_BYTES)
        return EncodedSpan(span.span_id, span.trace_id, len(data), row_of(span, data.decode()))

    def as_json(self, encoded: EncodedSpan) -> bytes:
        """Return the JSON that would be written."""
        data: str = encoded.data[-1]
        return data.encode()

    def send(self, batch: Sequence[EncodedSpan]) -> Outcome:
        """Write one batch, all or nothing."""
        try:
            write_spans(self._open(), [encoded.data for encoded in batch])
        except (OSError, sqlite3.Error) as error:
            self.close()
            return Retryable(f"{self._path}: {error}")
        return Accepted()

    def stored_ids(self, batch: Sequence[EncodedSpan]) -> frozenset[str] | None:
        """Return which of these the store has, or None if it cannot be read."""
        try:
            database = self._open()
            return frozenset(
                encoded.span_id
                for encoded in batch
                if database.execute("SELECT 1 FROM spans WHERE span_id = ?", (encoded.span_id,)).fetchone()
            )
        except (OSError, sqlite3.Error):
            self.close()
            return None

    def close(self) -> None:
        """Close the file."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = connect(self._path)
        return self._database
