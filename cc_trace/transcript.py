"""A transcript file as complete lines with their byte offsets, and where Claude Code keeps such files.

Rule: cut in bytes at newlines, decode afterwards. A last line without its newline is not an error but "not yet";
it is handed out only to a caller that knows the file has stopped growing.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from cc_trace.errors import NotFoundError
from cc_trace.private_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CHUNK_BYTES: Final = 1 << 20
# The longest line seen in public transcripts has 2 MB. Beyond this one a line is counted, not held in memory.
MAX_LINE_BYTES: Final = 64 << 20

_SESSION_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


class Line(NamedTuple):
    """One line; `data` is None where it was too long to hold, `torn` where no newline came."""

    offset: int
    number: int
    data: bytes | None
    torn: bool = False


@dataclass(frozen=True, slots=True)
class Position:
    """Where to read on: the byte offset of a line's beginning and that line's number, counted from 0."""

    offset: int = 0
    number: int = 0


BEGINNING: Final = Position()


def read_lines(
    path: Path, start: Position = BEGINNING, *, torn: bool = False, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[Line]:
    """Yield the complete lines from `start` on; with `torn`, also a last line that has no newline."""
    offset, number = start.offset, start.number
    with open_regular(path, buffering=CHUNK_BYTES) as file:
        file.seek(offset)
        while data := file.readline(max_line_bytes):
            size = len(data)
            if data.endswith(b"\n"):
                yield Line(offset, number, data)
            else:
                whole = size < max_line_bytes
                size += 0 if whole else _length_of_rest(file)
                ended = not whole and _ended(file)
                if ended or torn:
                    yield Line(offset, number, data if whole else None, torn=not ended)
            offset += size
            number += 1


def _length_of_rest(file: BinaryIO) -> int:
    """Step over the rest of a line that is too long to hold."""
    length = 0
    while piece := file.readline(CHUNK_BYTES):
        length += len(piece)
        if piece.endswith(b"\n"):
            break
    return length


def _ended(file: BinaryIO) -> bool:
    """Tell whether the byte before the reading position is a newline."""
    file.seek(-1, os.SEEK_CUR)
    return file.read(1) == b"\n"


def is_session_id(text: str) -> bool:
    """Tell whether a text can name a session's file: no separators, no dots, nothing that leaves a directory."""
    return _SESSION_ID.fullmatch(text) is not None


def is_uuid(text: str) -> bool:
    """Tell whether a text has the form of the ids that Claude Code gives its sessions."""
    return _UUID.fullmatch(text) is not None


def claude_folder(environment: Mapping[str, str], home: Path) -> Path:
    """Return Claude Code's folder."""
    return Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude")


def state_folder(environment: Mapping[str, str], claude: Path) -> Path:
    """Return our own folder, by default inside Claude Code's."""
    return Path(environment.get("CC_TRACE_HOME") or claude / "state" / "cc-trace")


def find(target: str, config_dir: Path, cwd: Path) -> Path:
    """Find the transcript that a user means by a path or by a session id, in every layout known."""
    path = Path(target)
    with contextlib.suppress(RuntimeError):  # there is no such user
        path = path.expanduser()
    if is_there(Path.is_file, path):
        return path
    if is_there(Path.is_dir, path):
        message = f"{target} is a directory; name a transcript (.jsonl) or a session id"
        raise NotFoundError(message)
    if not is_session_id(target):
        message = f"no transcript at {target}"
        raise NotFoundError(message)
    name = f"{target}.jsonl"
    projects = config_dir / "projects"
    dashed = re.sub(r"[^0-9A-Za-z]", "-", str(cwd))
    encoded = base64.urlsafe_b64encode(os.fsencode(cwd)).decode().rstrip("=")
    likely = (projects / dashed / name, projects / encoded / name, projects / name, config_dir / "sessions" / name)
    for candidate in (*likely, *projects.glob(f"*/{name}"), *projects.glob(f"**/{name}")):
        if candidate.is_file():
            return candidate
    message = f"no session {target} under {projects}; run with the path of a transcript, or set CLAUDE_CONFIG_DIR"
    raise NotFoundError(message)


def is_there(kind: Callable[[Path], bool], path: Path) -> bool:
    """Ask about a path that may be too long for a path, or have a NUL in it."""
    try:
        return kind(path)
    except (OSError, ValueError):
        return False
