"""Who has delivered which span, over all sessions of this machine: a fork's copied turns are not sent again.

A claim is written before a span is sent and settled after the answer. Rules:
- A span that some session has settled is delivered, whoever asks.
- A claim of a session that is at work keeps others off; one that its owner left behind can be taken over, and is then
  unclear: it may have been sent. The claim keeps the time by which its outcome was known, so that whoever takes it over
  does not ask too early.
- What could not be settled here stands in the owner's state; it is looked up there before a claim is taken over.
- If the ledger is lost, only copies are in danger: each session's own state knows what it has sent.
- A claim never expires. Once a session's state is removed (`retention`) the ledger alone knows what was sent, and the
  same spans can come back: with a transcript that is restored from a backup, or in a fork, whose lines do not always
  tell what they were copied from. No look at the disk can rule that out, and a claim takes some 75 bytes.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from cc_trace.errors import StateError
from cc_trace.files import prepare_database

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from pathlib import Path

Claim: TypeAlias = Literal["mine", "delivered", "busy", "unclear"]


class Claims(NamedTuple):
    """What may be done with each span, and when the latest attempt at those that are unclear had ended."""

    by_span: dict[str, Claim]
    unclear_at: float | None


_ATTEMPTS: Final = 100
_PAUSE_SECONDS: Final = 0.05
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_damaged(error: sqlite3.DatabaseError) -> bool:
    """Tell a ledger that is broken from one that is only locked, or on a full disk."""
    return getattr(error, "sqlite_errorcode", None) in _DAMAGED


def put_aside(path: Path) -> str:
    """Move a broken ledger out of the way, with the files that belong to it; return its new name."""
    number = 1
    while os.path.lexists(path.with_name(f"{path.name}.aside-{number}")):
        number += 1
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(f"{path.name}{suffix}").rename(path.with_name(f"{path.name}.aside-{number}{suffix}"))
    return f"{path.name}.aside-{number}"


def open_ledger(path: Path) -> Ledger | None:
    """Return the ledger for a look, None where there is none; one that cannot be used is a StateError."""
    if not path.exists():
        return None
    try:
        return Ledger(path, lambda _: False)
    except (OSError, sqlite3.Error) as error:
        message = f"cannot use {path}: {error}"
        raise StateError(message) from error


class Ledger:
    """The table of claims; one connection, used by one process.

    `is_working` tells whether a session is being delivered now, `recorded` which spans its state knows to be delivered
    to a destination that could not be settled here.
    """

    def __init__(
        self,
        path: Path,
        is_working: Callable[[str], bool],
        recorded: Callable[[str, str], Collection[str]] = lambda _session, _destination: (),
    ) -> None:
        prepare_database(path)
        self._is_working = is_working
        self._recorded = recorded
        self._database = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._prepare()

    def _prepare(self) -> None:
        """Make the table. SQLite does not wait when two processes change to WAL at once, so here it is done."""
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
        """Give a table of an earlier version the column for a claim's time. Another process may do so at once."""
        if "at" not in {row[1] for row in self._database.execute("PRAGMA table_info(claims)")}:
            self._database.execute("BEGIN IMMEDIATE")
            with contextlib.suppress(sqlite3.OperationalError):  # it was added since we looked
                self._database.execute("ALTER TABLE claims ADD COLUMN at REAL")
            self._database.execute("COMMIT")

    def claim(self, destination: str, session: str, spans: Sequence[str], now: float, seconds: float) -> Claims:
        """Say for each span what may be done with it, and note that we are about to send those we may send.

        Sending takes at most so many seconds from now: by then its outcome is known, or it never will be.
        """
        claims: dict[str, Claim] = {}
        times: list[float] = []
        working: dict[str, bool] = {session: False}
        recorded: dict[str, Collection[str]] = {}
        self._database.execute("BEGIN IMMEDIATE")
        try:
            for span in spans:
                row = self._database.execute(
                    "SELECT session, settled, at FROM claims WHERE destination = ? AND span = ?", (destination, span)
                ).fetchone()
                if row is None:
                    claims[span] = "mine"
                    self._database.execute(
                        "INSERT INTO claims VALUES (?, ?, ?, 0, ?)", (destination, span, session, now + seconds)
                    )
                    continue
                owner, settled, at = row
                if settled:
                    claims[span] = "delivered"
                    continue
                if owner not in working:
                    working[owner] = self._is_working(owner)
                if working[owner]:
                    claims[span] = "busy"
                    continue
                if owner not in recorded:
                    recorded[owner] = self._recorded(owner, destination)
                if span in recorded[owner]:
                    claims[span] = "delivered"
                    self._set(destination, span, "settled = 1")
                    continue
                claims[span] = "unclear"
                at = now if at is None else at  # an earlier version's: it counts from when it was found
                times.append(at)
                self._set(destination, span, "session = ?, at = ?", session, at)
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")
        return Claims(claims, max(times, default=None))

    def _set(self, destination: str, span: str, what: str, *values: object) -> None:
        statement = f"UPDATE claims SET {what} WHERE destination = ? AND span = ?"  # noqa: S608  (our own words)
        self._database.execute(statement, (*values, destination, span))

    def delivered(self, destination: str, spans: Iterable[str]) -> set[str]:
        """Return which of these spans some session has delivered."""
        select = "SELECT 1 FROM claims WHERE destination = ? AND span = ? AND settled"
        return {span for span in spans if self._database.execute(select, (destination, span)).fetchone()}

    def sessions(self, destination: str) -> list[str]:
        """Return the sessions that have delivered to a destination."""
        select = "SELECT DISTINCT session FROM claims WHERE destination = ?"
        return [session for (session,) in self._database.execute(select, (destination,))]

    def settled_counts(self) -> dict[tuple[str, str], int]:
        """Return how many spans are settled, by destination and session. Reads the whole table."""
        select = "SELECT destination, session, COUNT(*) FROM claims WHERE settled GROUP BY destination, session"
        return {(destination, session): count for destination, session, count in self._database.execute(select)}

    def forget(self, destination: str, session: str) -> None:
        """Forget what a session has delivered to a destination."""
        self._database.execute("DELETE FROM claims WHERE destination = ? AND session = ?", (destination, session))

    def settle(self, destination: str, session: str, spans: Iterable[str]) -> str | None:
        """Note that these spans are delivered, or will never be. Return why that could not be written, if so."""
        rows = [(destination, span, session) for span in spans]
        statement = "INSERT INTO claims VALUES (?, ?, ?, 1, NULL) ON CONFLICT DO UPDATE SET settled = 1"
        return self._many(statement, rows)

    def set_outcome_time(self, destination: str, spans: Iterable[str], at: float) -> str | None:
        """Note when the outcome of sending these spans was known. Return why that could not be written, if so."""
        statement = "UPDATE claims SET at = ? WHERE destination = ? AND span = ? AND NOT settled"
        return self._many(statement, [(at, destination, span) for span in spans])

    def release(self, destination: str, spans: Iterable[str]) -> str | None:
        """Give up claims: nothing of them was stored. One that stays is only asked about, or sent again."""
        statement = "DELETE FROM claims WHERE destination = ? AND span = ? AND NOT settled"
        return self._many(statement, [(destination, span) for span in spans])

    def _many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> str | None:
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
        """Let go of the file."""
        self._database.close()
