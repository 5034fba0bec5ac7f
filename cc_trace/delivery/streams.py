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
    remembered = app.sources.hook_environment()
    if (off := app.why_off(project, remembered)) is not None:
        return Report(run.session_id, why_off=off)  # nothing is kept: a later sync would deliver it
    context = HookContext(link=app.config(project, remembered).link, project=project, environment=remembered)
    before: Report | None = None
    if (own := _own_transcript(app, run, cwd)) is not None:
        whole = _has_all(app, own, run, wait=not ended)
        ending = "over" if ended else _ending(app, run, whole=whole)
        before = sync.sync_session(own, ending, deadline=deadline, named=True, context=context)
        if whole or before.why_off is not None:
            return before
    report = sync.sync_session(_save(app, run), "over", deadline=deadline, named=True, context=context)
    return report if before is None else report.after(before)


def sync_written_since(
    app: App, sync: Sync, cwd: Path, began_ns: int, session_id: str | None = None, *, deadline: float | None = None
) -> list[Report]:
    """Deliver from their transcripts the sessions that a command wrote, which has ended by now.

    `session_id` is the one it was told to use. Else those of its folder count that were written to since it began and
    that no other process is running.
    """
    remembered = app.sources.hook_environment()
    link = app.config(str(cwd), remembered).link if app.why_off(str(cwd), remembered) is None else None
    context = HookContext(link=link, project=str(cwd), environment=remembered)
    if session_id is None:
        listed = transcripts_by_session(app.config_dir).values()
        recent = [Path(each.path) for each in listed if each.mtime_ns >= began_ns]
        paths = [path for path in recent if first_cwd(path) == str(cwd) and is_main_transcript(path)]
    else:
        paths = [find(session_id, app.config_dir, cwd)] if _has_transcript(app, session_id, cwd) else []
    gone = [path for path in paths if liveness(app.config_dir, path.stem) in ("gone", "unknown")]
    # Of several without any process's word, some may be at work.
    ending: Ending | None = "over" if len(gone) == 1 or session_id is not None else None
    return [sync.sync_session(path, ending, deadline=deadline, named=True, context=context) for path in gone]


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
    while not (found := response in transcript.read_bytes()) and clock() < until:
        app.runtime.sleep(_POLL_SECONDS)
    return found


def _ending(app: App, run: StreamTranscript, *, whole: bool) -> Ending | None:
    """Return how a session stands after a run. With its result a turn is over, though its process may live on."""
    if liveness(app.config_dir, run.session_id) in ("gone", "unknown"):
        return "over"
    return "stopped" if whole and run.complete else None


def _save(app: App, run: StreamTranscript) -> Path:
    private_folder(app.states.streams)
    return save_stream(run, app.states.streams)
