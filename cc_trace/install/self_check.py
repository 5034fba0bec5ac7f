"""Whether the hook works: a bundled session is sent through it, as Claude Code would do, into a temporary store.

Claude Code's folder, the state and the configuration are temporary ones: nothing of the user's is read or written, and
nothing leaves the machine.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace.errors import CcTraceError
from cc_trace.spans import Session

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cc_trace.spans import Span

SAMPLE: Final = Path(__file__).parents[1] / "sample"
SESSION_ID: Final = "5a111e00-0000-4000-8000-000000000001"
_PROJECT: Final = "/home/dev/project"  # the sample's, which exists nowhere
# What could send the sample somewhere else, or have the hook believe that it is somebody else's.
_OTHERS: Final = ("CC_TRACE_", "CC_LANGFUSE_", "LANGFUSE_", "TRACE_TO_LANGFUSE", "CLAUDE", "OTEL_")
_WAIT_SECONDS: Final = 30
_LOG_LINES: Final = 5


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """What arrived, and if something is missing: what went wrong, how to fix it, and the output."""

    spans: tuple[Span, ...]
    problem: str | None = None
    fix: str | None = None  # None: another installation may help
    details: tuple[str, ...] = ()
    version: str | None = None  # of the package that delivered them


def check_hook(command: str, environment: Mapping[str, str], python: Path | None = None) -> SelfCheck:
    """Run a registered command and return what arrived in the store.

    `python`: what runs its worker, if known; if nothing arrives, `cc-trace sync` is run with it to find out why.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="cc-trace-", ignore_cleanup_errors=True) as folder:
            return _check(command, environment, python, Path(folder))
    except (OSError, CcTraceError) as error:
        return SelfCheck((), f"the check could not run: {error}", "free some space in the folder for temporary files")


def _check(command: str, environment: Mapping[str, str], python: Path | None, folder: Path) -> SelfCheck:
    claude, state = folder / "claude", folder / "state"
    project = claude / "projects" / _PROJECT.replace("/", "-")
    shutil.copytree(SAMPLE, project)
    session = Session(project / f"{SESSION_ID}.jsonl")
    expected = [span.span_id for span in session.spans()]
    hook_environment = _environment(environment) | {
        "CLAUDE_CONFIG_DIR": str(claude),
        "CLAUDE_PROJECT_DIR": _PROJECT,
        "CLAUDE_CODE_SESSION_ID": SESSION_ID,
        "XDG_CONFIG_HOME": str(folder / "config"),
        "CC_TRACE_HOME": str(state),
        "CC_TRACE_DESTINATIONS": "local,file",  # the file tells the version
        "CC_TRACE_WAIT": "1",
        "CC_TRACE_WAIT_SECONDS": str(_WAIT_SECONDS),
    }
    payload = {
        "session_id": SESSION_ID,
        "transcript_path": str(session.path),
        "cwd": _PROJECT,
        "hook_event_name": "SessionEnd",  # after which nobody's Stop hook can make the sample go on
        "reason": "other",
    }
    failure = _run_hook(command, json.dumps(payload).encode(), hook_environment, folder)
    if failure is not None:
        return failure
    spans = _stored_spans(state)
    if sorted(span.span_id for span in spans) == sorted(expected):
        return SelfCheck(spans, version=_version(state))
    problem = f"the hook ran, but {len(spans)} of {len(expected)} spans arrived"
    output = () if python is None else _sync_output(python, session.path, hook_environment, folder)
    return SelfCheck(spans, problem, details=(*output, *_log(state)))


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name == "CC_TRACE_PYTHON" or (name != "CI" and not name.startswith(_OTHERS))
    }


def _run_hook(command: str, payload: bytes, environment: Mapping[str, str], folder: Path) -> SelfCheck | None:
    """Run a command as Claude Code does; return a failure if it did not end as it should."""
    by_shell: list[str] | str = command if sys.platform == "win32" else ["/bin/sh", "-c", command]
    try:
        process = subprocess.run(  # noqa: S603  (a shell is what runs it later, too)
            by_shell,
            input=payload,
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=2 * _WAIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        problem = f"the hook did not finish within {2 * _WAIT_SECONDS} seconds"
        return SelfCheck((), problem, "try again when the machine is less busy")
    if process.returncode or process.stdout:
        output = process.stdout.decode(errors="replace").strip()
        problem = (
            f"the hook exited with {process.returncode} and printed {output[:200]!r};"
            " it must exit with 0 and print nothing"
        )
        return SelfCheck((), problem)
    return None


def _stored_spans(state: Path) -> tuple[Span, ...]:
    from cc_trace.store import read_session  # noqa: PLC0415  (sqlite3, which `uninstall` may lack)

    path = state / "traces.db"
    return tuple(read_session(path, SESSION_ID)) if path.is_file() else ()


def _version(state: Path) -> str | None:
    """Return the version of cc-trace that wrote the spans."""
    try:
        line = (state / "traces.jsonl").read_bytes().partition(b"\n")[0]
        return str(json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["scope"]["version"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _sync_output(python: Path, transcript: Path, environment: Mapping[str, str], folder: Path) -> Iterable[str]:
    """Run `cc-trace sync` in the foreground and return the last lines of its output."""
    command = [str(python), "-E", "-P", "-m", "cc_trace", "sync", "--transcript", str(transcript)]
    try:
        process = subprocess.run(  # noqa: S603  (our own command)
            command, env=environment, cwd=folder, capture_output=True, timeout=_WAIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return ["`cc-trace sync` does not finish either"]
    return [text.decode(errors="replace").splitlines()[-1] for text in (process.stdout, process.stderr) if text]


def _log(state: Path) -> Iterable[str]:
    try:
        return (state / "cc-trace.log").read_text(errors="replace").splitlines()[-_LOG_LINES:]
    except OSError:
        return ()
