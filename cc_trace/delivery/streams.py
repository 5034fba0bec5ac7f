"""Runs of which only the output is known: it is saved as a transcript in the state folder and synced from there.

If Claude Code's own transcript is on this machine, it is used instead, as it says more. Span ids are the same. If it
lacks the end of the run (`--no-session-persistence`, a process that was killed), both are synced.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace.delivery.liveness import liveness
from cc_trace.delivery.report import Report
from cc_trace.delivery.sweep import is_main_transcript, transcripts_by_session
from cc_trace.delivery.sync_requests import HookContext
from cc_trace.errors import AmbiguousError, NotFoundError
from cc_trace.files import private_folder
from cc_trace.paths import find
from cc_trace.transcript import first_cwd, save_stream
from cc_trace.values import json_text

if TYPE_CHECKING:
    from cc_trace.delivery.app import App
    from cc_trace.delivery.sync import Sync
    from cc_trace.spans import Ending
    from cc_trace.transcript import StreamTranscript

_SECONDS: Final = 2.0  # until Claude Code has written its last line, at most
_POLL_SECONDS: Final = 0.05


def sync_stream(
    app: App, sync: Sync, run: StreamTranscript, cwd: Path, *, ended: bool = False, deadline: float | None = None
) -> Report:
    """Deliver a run; `ended`: its process is gone, and nothing will be added to its transcript."""
    project = run.cwd or str(cwd)
    environment = app.sources.hook_environment()
    if (reason := app.why_off(project, environment)) is not None:
        return Report(run.session_id, why_off=reason)  # nothing is kept: a later sync would deliver it
    context = HookContext(link=app.config(project, environment).link, project=project, environment=environment)
    own_report: Report | None = None
    if (transcript := _own_transcript(app, run, cwd)) is not None:
        has_all = _has_all(app, transcript, run, wait=not ended)
        ending = "over" if ended else _ending(app, run, has_all=has_all)
        own_report = sync.sync_session(transcript, ending, deadline=deadline, requested=True, context=context)
        if has_all or own_report.why_off is not None:
            return own_report
    report = sync.sync_session(_save(app, run), "over", deadline=deadline, requested=True, context=context)
    return report if own_report is None else report.after(own_report)


def sync_written_since(
    app: App, sync: Sync, cwd: Path, began_ns: int, session_id: str | None = None, *, deadline: float | None = None
) -> list[Report]:
    """Deliver the sessions that a command, which has ended by now, wrote to Claude Code's transcripts.

    `session_id` is the one it was given. Without it, these are the sessions of its folder that were written to since it
    began and that no process is running.
    """
    environment = app.sources.hook_environment()
    link = app.config(str(cwd), environment).link if app.why_off(str(cwd), environment) is None else None
    context = HookContext(link=link, project=str(cwd), environment=environment)
    if session_id is None:
        transcripts = transcripts_by_session(app.config_dir).values()
        recent = [Path(listed.path) for listed in transcripts if listed.mtime_ns >= began_ns]
        paths = [path for path in recent if first_cwd(path) == str(cwd) and is_main_transcript(path)]
    else:
        paths = [find(session_id, app.config_dir, cwd)] if _has_transcript(app, session_id, cwd) else []
    not_running = [path for path in paths if liveness(app.config_dir, path.stem) in ("gone", "unknown")]
    # If there are several, some whose process is unknown may still be running.
    ending: Ending | None = "over" if len(not_running) == 1 or session_id is not None else None
    return [sync.sync_session(path, ending, deadline=deadline, requested=True, context=context) for path in not_running]


def _has_transcript(app: App, session_id: str, cwd: Path) -> bool:
    try:
        find(session_id, app.config_dir, cwd)
    except (AmbiguousError, NotFoundError):
        return False
    return True


def _own_transcript(app: App, run: StreamTranscript, cwd: Path) -> Path | None:
    """Return Claude Code's own transcript of a run's session, where there is one."""
    try:
        return find(run.session_id, app.config_dir, cwd)
    except (AmbiguousError, NotFoundError):
        return None


def _has_all(app: App, transcript: Path, run: StreamTranscript, *, wait: bool) -> bool:
    """Return whether a transcript holds the end of a run; wait for it, within bounds, while it may still be written."""
    if run.last_response is None:
        return True
    response, clock = json_text(run.last_response).encode(), app.runtime.clock
    until = clock() + (_SECONDS if wait else 0.0)
    while not (has_response := response in transcript.read_bytes()) and clock() < until:
        app.runtime.sleep(_POLL_SECONDS)
    return has_response


def _ending(app: App, run: StreamTranscript, *, has_all: bool) -> Ending | None:
    """Return whether a session may grow after a run. With its result a turn is over, even if its process still runs."""
    if liveness(app.config_dir, run.session_id) in ("gone", "unknown"):
        return "over"
    return "stopped" if has_all and run.complete else None


def _save(app: App, run: StreamTranscript) -> Path:
    private_folder(app.states.streams)
    return save_stream(run, app.states.streams)
