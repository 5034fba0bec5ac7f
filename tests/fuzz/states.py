"""State files: one that is damaged is put aside, and no other keeps its session from being delivered."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson
from sink import Sink

from cc_trace.cli import status
from cc_trace.delivery.cursor import Cursor, SessionState, to_json
from cc_trace.delivery.runtime import Plan, Runtime
from cc_trace.delivery.state import StateFolder
from cc_trace.delivery.sweep import pending_sessions
from cc_trace.delivery.sync import Sync
from cc_trace.log import Log
from cc_trace.spans.session import Session
from cc_trace.transcript import FINGERPRINT_BYTES, OpenTranscript
from fuzz.mutations import VALUES, change
from fuzz.target import BrokenError, Target
from fuzz.transcripts import MAIN, SEEDS, SESSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.delivery.report import Report

_TRANSCRIPT: Final = b"\n".join([*SEEDS[0][MAIN], *SEEDS[4][MAIN], b""])
_SECOND_TURN: Final = len(b"\n".join([*SEEDS[0][MAIN], b""]))
_AGE_SECONDS: Final = 3600.0  # since the transcript was last written to: the session is over
_STATUS: Final = tuple(argparse.Namespace(json=json, all=json) for json in (True, False))
_VALUES: Final[tuple[Any, ...]] = (
    *VALUES,
    *(
        len(_TRANSCRIPT),
        _SECOND_TURN,
        _SECOND_TURN + 1,
        2**31,
        "sink",
        SESSION,
        ["a", "b"],
        {"a": "b"},
        [{"span_id": 1}],
    ),
)


def _seeds() -> Iterator[bytes]:
    """The state of a session of which one turn is delivered, with every field that a state can have."""
    note = {"span_id": "0" * 16, "status": "400", "message": "no", "time": 1.5}
    done = Cursor(
        _SECOND_TURN,
        9,
        1,
        delivered=5,
        last_attempt_at=1.5,
        call_by_task={"t1": "b1"},
        trace_by_call={"b1": "t1"},
        finished_tasks=["b1"],
    )
    torn = Cursor(
        accepted=["a" * 16], rejected=["b" * 16], intent=["c" * 16], intent_at=1.5, pending_spans=2, unfinished_spans=1
    )
    torn.error, torn.error_at, torn.not_before, torn.notes = "refused", 1.5, 9e9, [note]
    for progress in ({"sink": done}, {"sink": torn}, {"sink": Cursor(), "gone": done}, {}):
        state = SessionState(SESSION, "/home/dev/transcript.jsonl", len(_TRANSCRIPT), 1, "", 0, 2**22 + 100)
        state.destinations = progress
        yield to_json(state)
        yield (
            to_json(state).replace(b'"fingerprint": ""', b'"fingerprint": "@"').replace(b'_bytes": 0', b'_bytes": 1024')
        )


class _Checker:
    """One machine with one session; its state is what the bytes say."""

    def __init__(self, folder: Path) -> None:
        self._config_dir = folder / "claude"
        self._transcript = self._config_dir / "projects" / "-p" / MAIN
        self._transcript.parent.mkdir(parents=True)
        self._transcript.write_bytes(_TRANSCRIPT)
        past = time.time() - _AGE_SECONDS
        os.utime(self._transcript, (past, past))
        self._states = StateFolder(folder / "state")
        self._states.prepare()
        self._log = Log(folder / "state")
        self._path = self._states.path(SESSION)
        with OpenTranscript(self._transcript) as transcript:
            self._mark = transcript.fingerprint(FINGERPRINT_BYTES).encode()
        self._all = {span.span_id for span in Session(self._transcript).spans()}

    def __call__(self, data: bytes) -> None:
        data = data.replace(b'"@"', b'"' + self._mark + b'"')
        damaged = self._check_loaded(data)
        self._path.write_bytes(data)
        pending_sessions(self._states, self._config_dir, lambda *_: ["sink"], 0)
        self._check_shown()
        sink = Sink()
        sink.idempotent = True  # no ledger: it would remember the state before
        report = self._synced(sink)
        if not report.complete:
            message = f"a session stays behind for good: {report.pending}"
            raise BrokenError(message)
        if damaged and sink.stored.keys() != self._all:
            message = "a session with a damaged state was not delivered anew"
            raise BrokenError(message)
        state, trouble = self._states.load(SESSION)
        if state is None or any(each.offset > len(_TRANSCRIPT) for each in state.destinations.values()):
            message = f"a state is no good after a sync: {trouble}"
            raise BrokenError(message)
        self._check_shown()
        self._remove()

    def _check_loaded(self, data: bytes) -> bool:
        """Load it as it is; return whether it was put aside."""
        self._remove()
        self._path.write_bytes(data)
        state, trouble = self._states.load(SESSION)
        if state is None:
            aside = list(self._path.parent.glob("*.aside-*"))
            if trouble is None or self._path.exists() or [each.read_bytes() for each in aside] != [data]:
                message = f"a damaged state was not put aside: {trouble}"
                raise BrokenError(message)
            self._remove()
            return True
        self._states.save(state)
        if self._states.load(SESSION) != (state, None):
            message = "a state that was saved is not what is loaded"
            raise BrokenError(message)
        return False

    def _check_shown(self) -> None:
        environment = {"HOME": str(self._config_dir), "CC_TRACE_HOME": str(self._states.folder)}
        for options in _STATUS:
            shown = io.BytesIO()
            with contextlib.redirect_stdout(io.TextIOWrapper(shown, "utf-8", write_through=True)):
                status.run(options, environment)
                if options.json:
                    orjson.loads(shown.getvalue())

    def _synced(self, sink: Sink) -> Report:
        runtime = Runtime(time.time, lambda _: None, in_background=False)
        sync = Sync(self._states, lambda _: Plan((sink,)), self._log, runtime, self._config_dir)
        try:
            return sync.sync_session(self._transcript)
        finally:
            sync.close()

    def _remove(self) -> None:
        for path in self._path.parent.iterdir():
            path.unlink()


TARGET: Final = Target(tuple(_seeds()), partial(change, values=_VALUES), _Checker)
