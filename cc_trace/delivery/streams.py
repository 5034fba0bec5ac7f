"""Runs of which only the output is known: it is saved as a transcript in the state folder and synced from there.

If Claude Code's own transcript is on this machine, it is used instead, as it says more. Span ids are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cc_trace.delivery.requests import HookContext
from cc_trace.errors import NotFoundError
from cc_trace.files import private_folder
from cc_trace.paths import find
from cc_trace.transcript import save_stream

if TYPE_CHECKING:
    from pathlib import Path

    from cc_trace.delivery.app import App
    from cc_trace.delivery.sync import Report, Sync
    from cc_trace.transcript import StreamTranscript

FOLDER: Final = "streams"  # in the state folder


def stream_transcript(app: App, run: StreamTranscript, cwd: Path) -> Path:
    """Return the transcript of a run: Claude Code's own, else one made from its output."""
    try:
        return find(run.session_id, app.config_dir, cwd)
    except NotFoundError:
        folder = app.states.folder / FOLDER
        private_folder(folder)
        return save_stream(run, folder)


def sync_stream(
    app: App, sync: Sync, run: StreamTranscript, cwd: Path, *, ended: bool = False, deadline: float | None = None
) -> Report:
    """Deliver a run; `ended`: its process has exited, so nothing will be added to its transcript."""
    path = stream_transcript(app, run, cwd)
    made = path.parent == app.states.folder / FOLDER
    project = run.cwd or str(cwd)
    remembered = app.sources.remember()
    off = app.off(project, remembered)
    link = app.config(project, remembered).link if off is None else None
    context = HookContext(link=link, project=project, environment=remembered)
    return sync.session(path, "over" if made or ended else None, deadline=deadline, named=True, context=context)
