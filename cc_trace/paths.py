"""Where Claude Code and cc-trace keep their files; the home folder and the current folder."""

from __future__ import annotations

import base64
import contextlib
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cc_trace.errors import AmbiguousError, ConfigError, NotFoundError
from cc_trace.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

_SESSION_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")
_MAX_INSPECTED_BYTES = 1 << 20
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def is_session_id(text: str) -> bool:
    """Tell whether a text is safe as a session id in a file name: no separators and no dots."""
    return _SESSION_ID.fullmatch(text) is not None


def is_uuid(text: str) -> bool:
    """Tell whether a text has the form of the ids that Claude Code gives its sessions."""
    return _UUID.fullmatch(text) is not None


def claude_folder(environment: Mapping[str, str], home: Path) -> Path:
    """Return Claude Code's folder: CLAUDE_CONFIG_DIR, else ~/.claude."""
    return Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude")


def state_folder(environment: Mapping[str, str], claude: Path) -> Path:
    """Return our own folder: CC_TRACE_HOME, else one inside Claude Code's."""
    return Path(environment.get("CC_TRACE_HOME") or claude / "state" / "cc-trace")


def stopped_since(state: Path) -> str | None:
    """Return a message if the hook could not start its Python, and no worker has run since."""
    note = state / "stopped"
    try:
        failed_at = note.lstat().st_mtime
        hooked_at = (state / "hooked").lstat().st_mtime if os.path.lexists(state / "hooked") else 0.0
    except OSError:
        return None
    if hooked_at > failed_at:
        return None
    since = datetime.fromtimestamp(failed_at, UTC)
    return f"the hook could not start its Python (last at {since:%Y-%m-%d %H:%M:%S} UTC), so sessions were not traced"


LATEST = "latest"
PREFIX_CHARS = 4  # the shortest prefix that finds an id
_MAX_LISTED_IDS = 5


def find(target: str | None, config_dir: Path, cwd: Path, streams: Path | None = None) -> Path:
    """Find the transcript for what a user typed: a path, a session id or its beginning, in every known layout.

    `latest`, or None, is the session of the current folder that was written to last. `streams`: a folder of transcripts
    that were made from the output of runs. Raises NotFoundError, or AmbiguousError.
    """
    if target is None or target == LATEST:
        return _latest_in(config_dir, cwd)
    if not target:
        message = "the session id is empty; pass a session id, a transcript (.jsonl), or `latest`"
        raise AmbiguousError(message)
    path = Path(target)
    with contextlib.suppress(RuntimeError):  # there is no such user
        path = path.expanduser()
    if is_there(Path.is_file, path):
        if not _may_be_transcript(path):
            message = f"{target} is not a transcript: it contains no JSON; pass a transcript (.jsonl) or a session id"
            raise NotFoundError(message)
        return path
    if is_there(Path.is_dir, path):
        message = f"{target} is a directory; pass a transcript (.jsonl) or a session id"
        raise NotFoundError(message)
    if not is_session_id(target):
        message = f"no transcript at {target}; pass the path of a transcript (.jsonl) or a session id"
        raise NotFoundError(message)
    name = f"{target}.jsonl"
    projects = config_dir / "projects"
    likely = (*(folder / name for folder in _folders_of(config_dir, cwd)), projects / name)
    likely = (*likely, config_dir / "sessions" / name)
    converted = [] if streams is None else [streams / name]
    for candidate in (*likely, *projects.glob(f"*/{name}"), *projects.glob(f"**/{name}"), *converted):
        if candidate.is_file():
            return candidate
    if len(target) >= PREFIX_CHARS and (matches := _sessions_by_prefix(target, projects, streams)):
        if len(matches) == 1:
            return matches.popitem()[1]
        raise ambiguous(target, matches)
    if len(target) < PREFIX_CHARS and _sessions_by_prefix(target, projects, streams):
        message = f"{target} is too short; type at least {PREFIX_CHARS} characters of the session id"
        raise AmbiguousError(message)
    message = (
        f"no session {target} under {projects}; `cc-trace sessions` lists all sessions. If Claude Code uses another"
        " folder, set CLAUDE_CONFIG_DIR"
    )
    raise NotFoundError(message)


def ambiguous(beginning: str, session_ids: Collection[str]) -> AmbiguousError:
    """Return the error for a prefix that several session ids share."""
    ids = ", ".join(sorted(session_ids)[:_MAX_LISTED_IDS]) + (", …" if len(session_ids) > _MAX_LISTED_IDS else "")
    return AmbiguousError(f"{len(session_ids)} sessions begin with {beginning}: {ids}; type more of the id")


def _folders_of(config_dir: Path, cwd: Path) -> tuple[Path, ...]:
    """Return where the transcripts of a folder's sessions are, in every known layout."""
    projects = config_dir / "projects"
    encoded = base64.urlsafe_b64encode(os.fsencode(cwd)).decode().rstrip("=")
    return projects / re.sub(r"[^0-9A-Za-z]", "-", str(cwd)), projects / encoded


def _latest_in(config_dir: Path, cwd: Path) -> Path:
    transcripts = [
        path for folder in _folders_of(config_dir, cwd) for path in folder.glob("*.jsonl") if _is_session(path)
    ]
    if not transcripts:
        message = f"{cwd} has no sessions; `cc-trace sessions` lists those of all folders"
        raise NotFoundError(message)
    return max(transcripts, key=_modified_at)


def _sessions_by_prefix(prefix: str, projects: Path, streams: Path | None) -> dict[str, Path]:
    """Return the sessions whose ids begin so, each with its transcript; of copies, the one written last."""
    converted = () if streams is None else streams.glob(f"{prefix}*.jsonl")
    paths = sorted(filter(_is_session, projects.glob(f"**/{prefix}*.jsonl")), key=_modified_at)
    return {path.stem: path for path in (*converted, *paths)}


def _is_session(path: Path) -> bool:
    return is_session_id(path.stem) and not path.stem.startswith("agent-") and is_there(Path.is_file, path)


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it is being removed
        return 0.0


def is_there(kind: Callable[[Path], bool], path: Path) -> bool:
    """Call `kind`, such as `Path.is_file`; False for a text that cannot be a path, with a NUL or too long."""
    try:
        return kind(path)
    except (OSError, ValueError):
        return False


def _may_be_transcript(path: Path) -> bool:
    """Tell whether a file is empty, cannot be read, or has a line that may be an object."""
    try:
        with open_regular(path) as file:
            begin = file.read(_MAX_INSPECTED_BYTES)
    except OSError:
        return True
    lines = begin.removeprefix(b"\xef\xbb\xbf").splitlines()
    return not begin.strip() or any(b"{" in line for line in lines)


def home(environment: Mapping[str, str]) -> Path:
    """Return the user's home folder. Raises ConfigError."""
    folder = environment.get("HOME")
    if folder == "":
        message = "HOME is empty; set it to the home folder of the user who runs Claude Code"
        raise ConfigError(message)
    try:
        return Path(folder) if folder else Path.home()
    except RuntimeError as error:
        message = "HOME is not set and this user has no home folder; set HOME"
        raise ConfigError(message) from error


def current_folder() -> Path:
    """Return the current folder. Raises ConfigError."""
    try:
        return Path.cwd()
    except OSError as error:
        message = f"the current folder cannot be used: {error.strerror}; change to another one"
        raise ConfigError(message) from error
