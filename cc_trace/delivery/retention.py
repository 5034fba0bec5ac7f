"""Retention: removes the state of sessions that are gone, old traces of the local store, and leftovers of crashes.

A worker does this after its sweep, at most once a day. Rules:
- A session's state is removed if its transcript is gone, nothing of it is pending or unclear, nothing has touched it
  for `state_days`, and the ledger knows every span that the state says was delivered. If the transcript comes back,
  from a backup or as part of a fork, it is read from its beginning, and the ledger knows what was sent. So a session
  that was delivered before the ledger was lost keeps its state, and so does one that another process is syncing.
- A transcript made from the output of a run (`streams/`) is removed when it is as old and nothing of it is pending.
- The ledger keeps everything; its docstring says why.
- The notes about sessions written while tracing was off (`off/`, `off-since/`) are kept. They are empty files, and
  without them such a session, or a fork of it, would be sent if it came back.
- Storing a span again in the local store does not double it, so deletions there need no record.
- If the process dies at any point, no state is half removed, since a state is one file. What else belongs to its
  session is removed like any lock without a state: `state_days` after it was last touched. All the rest is removed in
  the next run.
- Each run does a bounded amount of work, in small steps between which the caller can do other things.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace.delivery.ledger import open_ledger
from cc_trace.delivery.sweep import transcripts_by_session
from cc_trace.errors import CcTraceError
from cc_trace.paths import is_session_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from cc_trace.delivery.cursor import SessionState
    from cc_trace.delivery.state import StateFolder
    from cc_trace.log import Log
    from cc_trace.settings import Config

DAY_SECONDS: Final = 86_400.0
MAX_SESSIONS: Final = 500  # sessions considered per run
MAX_FILES: Final = 1_000  # files removed per run, besides those of sessions
MAX_TRACES: Final = 5_000  # traces deleted per run
_STEP_TRACES: Final = 100
_OWNERS: Final = "owners-"  # begins the names of the owner records of shared agents' files; recreated when missing
_LOCAL: Final = "local"  # the one destination that needs no ledger
# What `write_private` leaves when it is killed, and what is damaged and was put aside. The state
# folder itself may be a folder with other files in it, so names that are not certainly ours are not touched.
_LEFT_IN_FOLDER: Final = re.compile(r"\.installed\.\d+\.tmp|ledger\.db\.aside-\d+(-wal|-shm)?")
_LEFT_IN_SPOOL: Final = re.compile(r"\..+\.request\.\d+\.tmp")
_STREAM: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}\.jsonl")
_LEFT_IN_OURS: Final = re.compile(r"\..+\.\d+(\.tmp)?|.+\.json\.aside-\d+")


def is_due(stamp: Path, now: float) -> bool:
    """Return whether the last run began at least a day ago; if so, note that another one begins.

    It is noted beforehand, so that a run that dies is retried a day later and not at every Stop.
    """
    with contextlib.suppress(FileNotFoundError):
        if 0 <= now - stamp.stat().st_mtime < DAY_SECONDS:
            return False
    stamp.touch(mode=0o600)
    os.utime(stamp, (now, now))
    return True


def clean_up(states: StateFolder, config_dir: Path, config: Config, now: float, log: Log) -> Iterator[None]:
    """Remove what has expired; yield after every step. An error is logged and does not stop the other steps."""
    tasks = [_remove_leftovers(states, now)]
    if config.state_days:
        tasks += [
            _remove_streams(states, now - config.state_days * DAY_SECONDS),
            _remove_sessions(states, config_dir, now - config.state_days * DAY_SECONDS),
            _remove_notes(states, now - config.state_days * DAY_SECONDS),
        ]
    if config.store_days:
        tasks.append(_remove_traces(states.folder / "traces.db", now - config.store_days * DAY_SECONDS))
    for task in tasks:
        try:
            yield from task
        except (OSError, sqlite3.Error, CcTraceError) as error:
            log.write(f"cleaning up: {error}")


def _remove_leftovers(states: StateFolder, now: float) -> Iterator[None]:
    """Remove what crashes left behind at least a day ago. Payloads in the spool stay: any worker takes them."""
    files = _matching_files(states.folder, _LEFT_IN_FOLDER)
    for folder in (*states.folders, states.spool.earlier):
        files += _matching_files(folder, _LEFT_IN_SPOOL if folder == states.spool.folder else _LEFT_IN_OURS)
    old = (path for path, changed in files if changed < now - DAY_SECONDS)
    yield from _remove(islice(old, MAX_FILES))


def _remove_notes(states: StateFolder, before: float) -> Iterator[None]:
    """Remove records that are recreated when needed: destinations' failures, and owners of shared agents' files."""
    backoff = _matching_files(states.folder / "backoff", re.compile(r"[0-9a-f]{32}"))
    owners = _matching_files(states.folder / "agents", re.compile(rf"{_OWNERS}[0-9a-f]{{32}}\.json"))
    old = (path for path, changed in [*backoff, *owners] if changed < before)
    yield from _remove(islice(old, MAX_FILES))


def _matching_files(folder: Path, pattern: re.Pattern[str]) -> list[tuple[Path, float]]:
    """Return the files in a folder whose names match, each with the time when it was last changed or renamed."""
    files = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if pattern.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    files.append((Path(entry.path), max(status.st_mtime, status.st_ctime)))
    return files


def _remove(paths: Iterator[Path]) -> Iterator[None]:
    for path in paths:
        path.unlink(missing_ok=True)
        yield


def _remove_streams(states: StateFolder, before: float) -> Iterator[None]:
    """Remove transcripts made from the output of runs that are delivered, and untouched since then."""
    old = [path for path, changed in _matching_files(states.streams, _STREAM) if changed < before]
    for path in old[:MAX_SESSIONS]:
        with states.locked(path.stem) as locked:
            state = states.peek(path.stem) if locked else None
            if state is not None and not any(cursor.pending for cursor in state.destinations.values()):
                import shutil  # noqa: PLC0415  (slow, and needed once a day at most)

                shutil.rmtree(path.with_suffix(""), ignore_errors=True)  # its agents' files
                path.unlink(missing_ok=True)
        yield


def _remove_sessions(states: StateFolder, config_dir: Path, before: float) -> Iterator[None]:
    """Remove the state of sessions that are gone, delivered, and untouched since then.

    A session is locked before its state is read. That touches its lock file, so a session that has to stay is only
    considered again after `state_days`, and never keeps others from being considered.
    """
    session_ids = _untouched_sessions(states, transcripts_by_session(config_dir), before)
    if not session_ids:
        return
    settled = _settled_counts(states)
    for session_id in session_ids[:MAX_SESSIONS]:
        with states.locked(session_id) as locked:
            if (
                locked
                and not states.spool.unfinished_request(session_id)
                and _is_removable(states, session_id, settled)
            ):
                states.remove(session_id)
        yield


def _untouched_sessions(states: StateFolder, transcripts: Collection[str], before: float) -> list[str]:
    """Return the sessions without a transcript of which no file was touched since then, the oldest first.

    A session with only a row in the index counts as old: a process that died while removing it may have left just that.
    """
    touched_at = dict.fromkeys(states.index.rows(), 0.0)
    for name, suffix in (("sessions", ".json"), ("agents", ".json"), ("locks", ".lock")):
        with os.scandir(states.folder / name) as entries:
            for entry in entries:
                session_id = entry.name.removesuffix(suffix)
                if entry.name.startswith(_OWNERS) or not entry.name.endswith(suffix) or not is_session_id(session_id):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    touched_at[session_id] = max(touched_at.get(session_id, 0.0), entry.stat().st_mtime)
    old = [(at, session_id) for session_id, at in touched_at.items() if at < before and session_id not in transcripts]
    return [session_id for _, session_id in sorted(old)]


def _settled_counts(states: StateFolder) -> Mapping[tuple[str, str], int]:
    ledger = open_ledger(states.folder / "ledger.db")
    if ledger is None:
        return {}
    with contextlib.closing(ledger):
        return ledger.settled_counts()


def _is_removable(states: StateFolder, session_id: str, settled: Mapping[tuple[str, str], int]) -> bool:
    """Return whether a session's state can be removed without losing anything. One that cannot be read stays."""
    if not os.path.lexists(states.path(session_id)):
        return True  # left by a removal that died, or by a process that only checked the lock
    state = states.peek(session_id)
    return state is not None and not os.path.lexists(state.transcript) and _ledger_knows_all(state, settled)


def _ledger_knows_all(state: SessionState, settled: Mapping[tuple[str, str], int]) -> bool:
    """Return whether the ledger knows everything that a state says was delivered, and nothing else must be kept."""
    for name, cursor in state.destinations.items():
        if cursor.pending or cursor.not_in_ledger:
            return False
        if name != _LOCAL and settled.get((name, state.session_id), 0) < cursor.delivered:
            return False
    return True


def _remove_traces(path: Path, before: float) -> Iterator[None]:
    if not path.is_file():
        return
    from cc_trace.store import remove_traces  # noqa: PLC0415  (as above)

    for _ in range(MAX_TRACES // _STEP_TRACES):
        removed = remove_traces(path, int(before * 1e9), _STEP_TRACES)
        yield
        if removed < _STEP_TRACES:
            return
