"""Who has delivered which span, over all sessions of this machine: a fork's copied turns are not sent again.

A claim is written before a span is sent and settled after the answer. Rules:
- A span that some session has settled is delivered, whoever asks.
- A claim of a session that is at work keeps others off; one that its owner left behind can be taken over, and is then
  unclear: it may have been sent.
- If the ledger is lost, only copies are in danger: each session's own state knows what it has sent.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from cc_trace.errors import StateError
from cc_trace.private_files import open_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

Claim: TypeAlias = Literal["mine", "delivered", "busy", "unclear"]


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
    """The table of claims; one connection, used by one process."""

    def __init__(self, path: Path, is_working: Callable[[str], bool]) -> None:
        os.close(open_private(path, os.O_RDWR))  # SQLite gives the files beside it the mode of this one
        self._is_working = is_working
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
                    " PRIMARY KEY (destination, span)) WITHOUT ROWID"
                )
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_BUSY or attempt == _ATTEMPTS - 1:
                    self._database.close()
                    raise
                time.sleep(_PAUSE_SECONDS)
            else:
                return

    def claim(self, destination: str, session: str, spans: Iterable[str]) -> dict[str, Claim]:
        """Say for each span what may be done with it, and note that we are about to send those we may send."""
        claims: dict[str, Claim] = {}
        working: dict[str, bool] = {session: False}
        self._database.execute("BEGIN IMMEDIATE")
        try:
            for span in spans:
                row = self._database.execute(
                    "SELECT session, settled FROM claims WHERE destination = ? AND span = ?", (destination, span)
                ).fetchone()
                if row is None:
                    claims[span] = "mine"
                    self._database.execute("INSERT INTO claims VALUES (?, ?, ?, 0)", (destination, span, session))
                    continue
                owner, settled = row
                if settled:
                    claims[span] = "delivered"
                    continue
                if owner not in working:
                    working[owner] = self._is_working(owner)
                if working[owner]:
                    claims[span] = "busy"
                    continue
                claims[span] = "unclear"
                self._database.execute(
                    "UPDATE claims SET session = ? WHERE destination = ? AND span = ?", (session, destination, span)
                )
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")
        return claims

    def delivered(self, destination: str, spans: Iterable[str]) -> set[str]:
        """Return which of these spans some session has delivered."""
        select = "SELECT 1 FROM claims WHERE destination = ? AND span = ? AND settled"
        return {span for span in spans if self._database.execute(select, (destination, span)).fetchone()}

    def sessions(self, destination: str) -> list[str]:
        """Return the sessions that have delivered to a destination."""
        select = "SELECT DISTINCT session FROM claims WHERE destination = ?"
        return [session for (session,) in self._database.execute(select, (destination,))]

    def forget(self, destination: str, session: str) -> None:
        """Forget what a session has delivered to a destination."""
        self._database.execute("DELETE FROM claims WHERE destination = ? AND session = ?", (destination, session))

    def settle(self, destination: str, spans: Iterable[str]) -> None:
        """Note that these spans are delivered, or will never be."""
        self._many("UPDATE claims SET settled = 1 WHERE destination = ? AND span = ?", destination, spans)

    def release(self, destination: str, spans: Iterable[str]) -> None:
        """Give up claims: nothing of them was stored."""
        self._many("DELETE FROM claims WHERE destination = ? AND span = ? AND NOT settled", destination, spans)

    def _many(self, statement: str, destination: str, spans: Iterable[str]) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            self._database.executemany(statement, [(destination, span) for span in spans])
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()
