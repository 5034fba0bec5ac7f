"""Which session has delivered which span, over all sessions of this machine: a fork does not send copied turns again.

A claim is written before a span is sent and settled after the response. Rules:
- A span that any session has settled counts as delivered for all.
- The claim of a session that is being synced keeps others from sending the span. A claim that its owner abandoned can
  be taken over; the span is then unclear, as it may have been sent. Before each attempt the claim is given the time by
  which its outcome will be known, so that the new owner does not ask the backend too early.
- What could not be settled here is in the owner's state, which is checked before a claim is taken over.
- If the ledger is lost, only forks can send twice: each session's own state knows what that session has sent.
- A claim never expires. Once a session's state is removed (`retention`), only the ledger knows what was sent, and the
  same spans can come back: in a transcript restored from a backup, or in a fork, whose lines do not always say what
  they were copied from. A claim takes about 75 bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from cc_trace.errors import StateError
from cc_trace.files import prepare_database

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from pathlib import Path

Claim: TypeAlias = Literal["mine", "delivered", "claimed_elsewhere", "unclear"]


class Claims(NamedTuple):
    """What may be done with each span, and when the latest attempt to send the unclear ones ended."""

    by_span: dict[str, Claim]
    unclear_at: float | None


_ATTEMPTS: Final = 100
_PAUSE_SECONDS: Final = 0.05
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_damaged(error: sqlite3.DatabaseError) -> bool:
    """Return whether an error means that the file is damaged, not just locked or on a full disk."""
    return getattr(error, "sqlite_errorcode", None) in _DAMAGED


def put_aside(path: Path) -> str:
    """Move a damaged ledger out of the way, with the files that SQLite keeps beside it; return its new name."""
    number = 1
    while os.path.lexists(path.with_name(f"{path.name}.aside-{number}")):
        number += 1
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(f"{path.name}{suffix}").rename(path.with_name(f"{path.name}.aside-{number}{suffix}"))
    return f"{path.name}.aside-{number}"


def open_ledger(path: Path) -> Ledger | None:
    """Open the ledger for a command that only reads; None if there is none. Raises StateError."""
    if not path.exists():
        return None
    try:
        return Ledger(path, lambda _: False)
    except (OSError, sqlite3.Error) as error:
        message = f"cannot use {path}: {error}"
        raise StateError(message) from error


class Ledger:
    """The table of claims; one connection, used by one process.

    `is_working` returns whether a session is being synced now. `not_in_ledger` returns the spans that a session
    has delivered to a destination, according to its state, and that could not be settled here.
    """

    def __init__(
        self,
        path: Path,
        is_working: Callable[[str], bool],
        not_in_ledger: Callable[[str, str], Collection[str]] = lambda _session, _destination: (),
    ) -> None:
        prepare_database(path)
        self._is_working = is_working
        self._not_in_ledger = not_in_ledger
        self._database = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._prepare()

    def _prepare(self) -> None:
        """Create the table. SQLite does not wait while another process changes to WAL, so we do."""
        for attempt in range(_ATTEMPTS):
            try:
                self._database.execute("PRAGMA journal_mode=WAL")
                self._database.execute("PRAGMA synchronous=NORMAL")
                self._database.execute(
                    "CREATE TABLE IF NOT EXISTS claims (destination TEXT, span TEXT, session TEXT, settled INTEGER,"
                    " at REAL, PRIMARY KEY (destination, span)) WITHOUT ROWID"
                )
                self._add_times()
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_BUSY or attempt == _ATTEMPTS - 1:
                    self._database.close()
                    raise
                time.sleep(_PAUSE_SECONDS)
            else:
                return

    def _add_times(self) -> None:
        """Add the column for a claim's time, which earlier versions lack. Another process may be adding it too."""
        if "at" not in {row[1] for row in self._database.execute("PRAGMA table_info(claims)")}:
            self._database.execute("BEGIN IMMEDIATE")
            with contextlib.suppress(sqlite3.OperationalError):  # another process has just added it
                self._database.execute("ALTER TABLE claims ADD COLUMN at REAL")
            self._database.execute("COMMIT")

    def claim(self, destination: str, session: str, spans: Sequence[str], now: float) -> Claims:
        """Return what may be done with each span, and claim those that this session may send.

        Call `set_outcome_time` before sending them.
        """
        outcome_times: list[float] = []
        is_syncing: dict[str, bool] = {session: False}
        unrecorded: dict[str, Collection[str]] = {}  # owner -> spans that only its state knows to be delivered
        self._database.execute("BEGIN IMMEDIATE")
        try:
            existing = self._existing_claims(destination, spans)
            new = [span for span in dict.fromkeys(spans) if span not in existing]
            rows = [(destination, span, session, now) for span in new]
            self._database.executemany("INSERT INTO claims VALUES (?, ?, ?, 0, ?)", rows)
            claims: dict[str, Claim] = dict.fromkeys(new, "mine")
            for span, (owner, settled, at) in existing.items():
                if settled:
                    claims[span] = "delivered"
                    continue
                if owner not in is_syncing:
                    is_syncing[owner] = self._is_working(owner)
                if is_syncing[owner]:
                    claims[span] = "claimed_elsewhere"
                    continue
                if owner not in unrecorded:
                    unrecorded[owner] = self._not_in_ledger(owner, destination)
                if span in unrecorded[owner]:
                    claims[span] = "delivered"
                    self._update(destination, span, "settled = 1")
                    continue
                claims[span] = "unclear"
                outcome_at = now if at is None else at  # written by an earlier version: its time counts from now
                outcome_times.append(outcome_at)
                self._update(destination, span, "session = ?, at = ?", session, outcome_at)
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")
        return Claims(claims, max(outcome_times, default=None))

    def _existing_claims(self, destination: str, spans: Iterable[str]) -> dict[str, tuple[str, bool, float | None]]:
        """Return the owner, settled flag and time of each of these spans that has a claim."""
        select = (
            "SELECT span, session, settled, at FROM claims"
            " WHERE destination = ? AND span IN (SELECT value FROM json_each(?))"
        )
        rows = self._database.execute(select, (destination, json.dumps([*spans])))
        return {span: (owner, bool(settled), at) for span, owner, settled, at in rows}

    def _update(self, destination: str, span: str, assignments: str, *values: object) -> None:
        statement = f"UPDATE claims SET {assignments} WHERE destination = ? AND span = ?"  # noqa: S608  (our own words)
        self._database.execute(statement, (*values, destination, span))

    def delivered(self, destination: str, spans: Iterable[str]) -> set[str]:
        """Return which of these spans any session has delivered."""
        return {span for span, (_, settled, _) in self._existing_claims(destination, spans).items() if settled}

    def sessions(self, destination: str) -> list[str]:
        """Return the sessions that have claims for a destination."""
        select = "SELECT DISTINCT session FROM claims WHERE destination = ?"
        return [session for (session,) in self._database.execute(select, (destination,))]

    def settled_counts(self) -> dict[tuple[str, str], int]:
        """Return the number of settled spans by destination and session. Reads the whole table."""
        select = "SELECT destination, session, COUNT(*) FROM claims WHERE settled GROUP BY destination, session"
        return {(destination, session): count for destination, session, count in self._database.execute(select)}

    def delete_claims(self, destination: str, session: str) -> None:
        """Delete a session's claims for a destination."""
        self._database.execute("DELETE FROM claims WHERE destination = ? AND session = ?", (destination, session))

    def settle(self, destination: str, session: str, spans: Iterable[str]) -> str | None:
        """Record that spans were delivered, or refused for good. Return the error if that could not be written."""
        rows = [(destination, span, session) for span in spans]
        statement = "INSERT INTO claims VALUES (?, ?, ?, 1, NULL) ON CONFLICT DO UPDATE SET settled = 1"
        return self._write_many(statement, rows)

    def set_outcome_time(self, destination: str, spans: Iterable[str], at: float) -> str | None:
        """Record when the outcome of sending these spans was known, or will be at the latest.

        Return the error if that could not be written.
        """
        statement = "UPDATE claims SET at = ? WHERE destination = ? AND span = ? AND NOT settled"
        return self._write_many(statement, [(at, destination, span) for span in spans])

    def release(self, destination: str, spans: Iterable[str]) -> str | None:
        """Delete claims of spans that were not stored. One that cannot be deleted only makes its span unclear."""
        statement = "DELETE FROM claims WHERE destination = ? AND span = ? AND NOT settled"
        return self._write_many(statement, [(destination, span) for span in spans])

    def _write_many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> str | None:
        if not rows:
            return None
        try:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(statement, rows)
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):  # a full disk has rolled it back already
                self._database.execute("ROLLBACK")
            return str(error)
        return None

    def close(self) -> None:
        """Close the file."""
        self._database.close()
