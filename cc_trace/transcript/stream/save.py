"""Saves a run's transcript to disk, private to the user, so that a failed delivery can be retried from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cc_trace.files import write_private
from cc_trace.values import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cc_trace.transcript.stream.convert import Line, StreamTranscript


def save_stream(run: StreamTranscript, folder: Path) -> Path:
    """Write a run below a folder; return its transcript.

    A session resumed in another run has one file: the second run's lines follow the first's. Saving the same run again
    changes nothing, unless it is more complete now.
    """
    path = folder / f"{run.session_id}.jsonl"
    data, saved = _jsonl(run.lines), _read(path)
    data = saved + data if _is_new(run, saved) else max(saved, data, key=len)
    agents = folder / run.session_id / "subagents"
    if run.agents:
        agents.mkdir(mode=0o700, parents=True, exist_ok=True)
    for call, lines in run.agents.items():
        name = f"agent-{run.agent_ids[call]}"
        write_private(agents / f"{name}.meta.json", json_text(run.agent_meta[call]).encode())
        write_private(agents / f"{name}.jsonl", _jsonl(lines))
    if data != saved or not path.is_file():
        write_private(path, data)
    return path


def _is_new(run: StreamTranscript, saved: bytes) -> bool:
    """Return whether a file has none of a run's responses."""
    ids = (line["message"].get("id") for line in run.lines if isinstance(line.get("message"), dict))
    return not any(isinstance(id_, str) and json_text(id_).encode() in saved for id_ in ids)


def _jsonl(lines: Iterable[Line]) -> bytes:
    return b"".join(json_text(line).encode() + b"\n" for line in lines)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
