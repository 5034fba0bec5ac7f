"""`cc-trace export`: a session as one file: a page, JSON, or a trace for Perfetto. Masked like what leaves."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from cc_trace.cli.export_html import to_html
from cc_trace.cli.export_perfetto import to_perfetto
from cc_trace.cli.json_output import session_json, span_json
from cc_trace.cli.show import no_turn
from cc_trace.cli.transcripts import find_session
from cc_trace.delivery import App
from cc_trace.errors import CcTraceError
from cc_trace.files import replace_file
from cc_trace.privacy import Privacy
from cc_trace.spans import OUTPUT_CHARS, TITLE_CHARS, Session

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from cc_trace.spans import Span
    from cc_trace.store import StoredSession

_CUT: Final = {"title": TITLE_CHARS, "goal": TITLE_CHARS, "latest_output": OUTPUT_CHARS}  # what was cut before
_FORMS = (".perfetto.json", ".json", ".html")


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Write the file."""
    out = Path(options.output)
    form = next((form for form in _FORMS if out.name.endswith(form)), None)
    if form is None:
        message = f"--output must end with .html, .json or .perfetto.json, not {out.name}"
        raise CcTraceError(message)
    app = App.open(environment)
    session = find_session(options.session, app.config_dir, app.states.folder)
    privacy = _privacy(session, app)
    spans: list[Span] = []
    for number, turn_spans in groupby(session.spans(), key=lambda span: span.turn):
        turn = list(turn_spans)
        outgoing = [privacy(span, turn) for span in turn]  # all: a later turn may repeat a secret
        if options.turn in (None, number):
            spans += outgoing
    if options.turn is not None and not spans:
        raise no_turn(session.summary, options.turn)
    summary = session_json(session.summary, content=privacy.content == "full")
    masked = _masked(summary, privacy)
    masked |= {name: privacy.beginning(summary[name], max_chars) for name, max_chars in _CUT.items() if summary[name]}
    if privacy.content != "full":
        masked |= {"files_modified": [], "pr": None}
    match form:
        case ".html":
            data = to_html(masked, spans).encode("utf-8", "replace")
        case ".perfetto.json":
            data = orjson.dumps(to_perfetto(masked, spans))
        case _:
            document = {"session": masked, "spans": [span_json(span) for span in spans]}
            data = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    try:
        replace_file(out, data)
    except OSError as error:  # which names the file that was to take its place
        message = f"cannot write {out}: {error.strerror or error}"
        raise CcTraceError(message) from None
    print(f"{out}: {len(spans):,} spans, {len(data):,} bytes, content {privacy.content}")
    return 0


def _privacy(session: Session | StoredSession, app: App) -> Privacy:
    """Return what masks a session: the settings of the project that it was started in."""
    if isinstance(session, Session):
        started = app.project_and_environment(session.path)
    else:  # its transcript is gone
        state = app.states.peek(session.summary.session_id)
        started = (session.cwd, None) if state is None else (state.cwd, state.environment)
    return Privacy(app.local_config(*started).privacy)


def _masked(value: Any, privacy: Privacy) -> Any:  # noqa: ANN401  (JSON)
    """Return a summary without secrets."""
    match value:
        case str():
            return privacy.text(value)
        case list():
            return [_masked(item, privacy) for item in value]
        case dict():
            return {key: _masked(item, privacy) for key, item in value.items()}
        case _:
            return value
