"""`cc-trace view`: the sessions of this machine in the browser, until it is interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cc_trace.cli.transcripts import find_in_store, find_transcript
from cc_trace.errors import CcTraceError, NotFoundError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from cc_trace.delivery import App

_MAX_PORT: Final = 65_535


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Serve the pages."""
    if not 0 <= options.port <= _MAX_PORT:
        message = f"--port is {options.port}; it must be between 0 and {_MAX_PORT}"
        raise CcTraceError(message)
    from cc_trace.delivery import App  # noqa: PLC0415  (`--help` needs none of this)
    from cc_trace.view import serve  # noqa: PLC0415  (likewise)

    app = App.open(environment)
    path = "/"
    if options.session is not None:
        path = f"/sessions/{_session(options.session, app)}"
    serve(app, options.port, path, browser=not options.no_browser)
    return 0


def _session(target: str, app: App) -> str:
    """Return the id of the session that a user typed. Raises NotFoundError."""
    try:
        return find_transcript(target, app.config_dir, app.states.folder).stem
    except NotFoundError:
        if (stored := find_in_store(target, app.states.folder)) is not None:
            return stored
        raise
