"""The state file: its format, its permissions, and that it can be read back."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cc_trace.delivery.cursor import Cursor, Metrics, SessionState, from_json, to_json
from cc_trace.delivery.state import StateFolder
from cc_trace.errors import StateError
from cc_trace.files import write_private

if TYPE_CHECKING:
    from pathlib import Path

GOLDEN = b"""{
  "version": 2,
  "answered": false,
  "session_id": "s-1",
  "transcript": "/p/s-1.jsonl",
  "size": 100,
  "mtime_ns": 5,
  "fingerprint": "ab",
  "fingerprint_bytes": 2,
  "claude_pid": 7,
  "cwd": "/p",
  "links": {
    "1": [
      "seed",
      null,
      null
    ]
  },
  "destinations": {
    "otlp": {
      "offset": 40,
      "line": 3,
      "turns": 2,
      "accepted": [
        "0123456789abcdef"
      ],
      "rejected": [],
      "intent": [
        "fedcba9876543210"
      ],
      "intent_at": 1.5,
      "unclear": [
        "00000000000000aa"
      ],
      "unclear_at": 1.25,
      "not_in_ledger": [],
      "fingerprint": "cd",
      "delivered": 9,
      "pending_spans": 1,
      "unfinished": 0,
      "notes": [
        {
          "span_id": "0000000000000001",
          "status": "400",
          "message": "no",
          "time": 1.0
        }
      ],
      "error": "refused",
      "error_at": 2.0,
      "not_before": null,
      "refusing_since": null,
      "time": 3.0,
      "call_by_task": {
        "task": "toolu_1"
      },
      "trace_by_call": {
        "toolu_1": "00000000000000000000000000000001"
      },
      "finished_tasks": [
        "task"
      ],
      "metrics": {
        "temporality": "delta",
        "start_ns": 7,
        "counts": {
          "[\\"cc_trace.cost\\",{}]": [
            0.5
          ]
        },
        "in_intent": {},
        "untold": true,
        "in_flight": false
      },
      "reached": 4
    }
  },
  "environment": {
    "shell": {
      "CC_TRACE_TAGS": "a",
      "LANGFUSE_SECRET_KEY": null
    },
    "project": {}
  },
  "sending": null,
  "agent_bytes": 12,
  "claude_start": "62595"
}
"""
# What was written before an answer could be marked in place.
_ADDED = r' {2}"answered": false,\n| {6}"unclear": \[[^]]*\],\n| {6}"(?:unclear_at|not_in_ledger|fingerprint)": .*\n'
EARLIER = re.sub(_ADDED + r'|(?<= {2}}),\n {2}"sending": null', "", GOLDEN.decode()).encode()


def state() -> SessionState:
    progress = Cursor(
        offset=40,
        line=3,
        turns_before=2,
        accepted=["0123456789abcdef"],
        intent=["fedcba9876543210"],
        intent_at=1.5,
        unclear=["00000000000000aa"],
        unclear_at=1.25,
        fingerprint="cd",
        delivered=9,
        pending_spans=1,
        notes=[{"span_id": "0000000000000001", "status": "400", "message": "no", "time": 1.0}],
        error="refused",
        error_at=2.0,
        last_attempt_at=3.0,
        call_by_task={"task": "toolu_1"},
        trace_by_call={"toolu_1": "00000000000000000000000000000001"},
        finished_tasks=["task"],
        metrics=Metrics(temporality="delta", start_ns=7, counts={'["cc_trace.cost",{}]': [0.5]}, unreported=True),
        last_turn_sent=4,
    )
    return SessionState(
        "s-1",
        "/p/s-1.jsonl",
        100,
        5,
        "ab",
        2,
        7,
        "/p",
        {"1": ["seed", None, None]},
        {"otlp": progress},
        {"shell": {"CC_TRACE_TAGS": "a", "LANGFUSE_SECRET_KEY": None}, "project": {}},
        agent_bytes=12,
        claude_start="62595",
    )


def test_state_json_format() -> None:
    """A new field needs a default, for older files; any other change needs a new version."""
    assert to_json(state()) == GOLDEN


def test_state_without_environment_loads() -> None:
    raw = json.loads(GOLDEN)
    del raw["environment"]
    assert from_json(json.dumps(raw).encode(), "s-1") == replace(state(), environment=None)


def test_state_of_earlier_version_loads(tmp_path: Path) -> None:
    """Fields that it lacks are empty."""
    assert b"unclear" not in EARLIER
    states = StateFolder(tmp_path)
    states.prepare()
    states.path("s-1").write_bytes(EARLIER)
    old, known = state(), states.load("s-1")
    progress = old.destinations["otlp"]
    progress.unclear, progress.unclear_at, progress.fingerprint = [], None, ""
    assert known == (old, None)


def test_acceptance_is_marked_in_place(tmp_path: Path) -> None:
    """The file keeps its size and stays valid JSON."""
    states = StateFolder(tmp_path)
    states.prepare()
    before = state()
    before.sending = "otlp"
    states.save(before)
    size = states.path("s-1").stat().st_size
    states.mark_accepted("s-1")
    assert states.path("s-1").stat().st_size == size
    after, trouble = states.load("s-1")
    assert after is not None
    progress = after.destinations["otlp"]
    assert trouble is None
    assert (progress.intent, progress.accepted[1:], progress.delivered) == ([], ["fedcba9876543210"], 10)
    assert states.not_in_ledger("s-1", "otlp") == {"fedcba9876543210"}
    assert states.not_in_ledger("s-1", "other") == frozenset()


def test_save_load_round_trip(tmp_path: Path) -> None:
    states = StateFolder(tmp_path / "state")
    states.prepare()
    states.save(state())
    assert states.load("s-1") == (state(), None)
    assert states.sessions() == ["s-1"]


def test_folder_that_is_not_utf_8_is_stored(tmp_path: Path) -> None:
    states = StateFolder(tmp_path / "state")
    states.prepare()
    states.save(replace(state(), cwd=os.fsdecode(b"/caf\xe9"), transcript=os.fsdecode(b"/caf\xe9/s-1.jsonl")))
    assert states.load("s-1") == (replace(state(), cwd="/caf\\udce9", transcript="/caf\\udce9/s-1.jsonl"), None)


def test_state_modes_are_private_under_umask_0(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        states = StateFolder(tmp_path / "state")
        states.prepare()
        states.save(state())
    finally:
        os.umask(old)
    for path in [tmp_path / "state", *(tmp_path / "state").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_readable_state_folder_is_made_private(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    StateFolder(folder).prepare()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("session_id", ["../x", "a/b", "", ".", "a.b", "x" * 200, "a\0b"])
def test_invalid_session_id_is_rejected(tmp_path: Path, session_id: str) -> None:
    """Ids come from payloads and file names, which are untrusted."""
    with pytest.raises(StateError):
        StateFolder(tmp_path).path(session_id)


def test_symlink_is_replaced(tmp_path: Path) -> None:
    """Its target does not change."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    target = tmp_path / "target"
    target.symlink_to(victim)
    write_private(target, b"new")
    assert (victim.read_text(), target.read_bytes(), target.is_symlink()) == ("mine", b"new", False)


def test_lock_is_per_session(tmp_path: Path) -> None:
    states = StateFolder(tmp_path)
    states.prepare()
    with states.locked("a") as first, states.locked("a") as second, states.locked("b") as other:
        assert (first, second, other) == (True, False, True)
        assert states.is_locked("a")
    assert not states.is_locked("a")


def test_disabled_since_is_recorded_once(tmp_path: Path) -> None:
    """Until tracing is enabled again; for each project, whatever its name."""
    states = StateFolder(tmp_path)
    states.prepare()
    for project in ("/a", "/b\udcff", None):
        since = states.disabled_since_ns(project)
        assert states.disabled_since_ns(project) == since
    states.mark_enabled("/a")
    states.mark_enabled("/never off")
    assert len(list((tmp_path / "off-since").iterdir())) == 2
    assert states.disabled_since_ns("/a") > since
