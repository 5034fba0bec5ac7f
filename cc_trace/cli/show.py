"""`cc-trace show`: a session as a tree in the terminal, or its spans as JSON lines."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import TYPE_CHECKING

import orjson

from cc_trace.cli.json_output import session_json, span_json
from cc_trace.cli.transcripts import find_session, find_transcript
from cc_trace.errors import CcTraceError, NotFoundError
from cc_trace.paths import claude_folder, home, state_folder
from cc_trace.text import plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cc_trace.spans import Session, SessionSummary, Span
    from cc_trace.store import StoredSession


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Print the session that the options name."""
    claude = claude_folder(environment, home(environment))
    state = state_folder(environment, claude)
    try:
        if options.request is not None:
            _print_request(options, claude, state)
        else:
            source = find_session(options.session, claude, state)
            (_print_json if options.json else _print_tree)(source, options)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        message = f"cannot read {error.filename or options.session or claude}: {error.strerror}"
        raise CcTraceError(message) from error
    return 0


def _print_request(options: argparse.Namespace, claude: Path, state: Path) -> None:
    """Print one request: of the named session, else of the latest session that has it."""
    from cc_trace.cli.request import find_request, search_request  # noqa: PLC0415  (few ask for a request)

    if options.turn is not None:
        message = "--request and --turn cannot be used together"
        raise CcTraceError(message)
    name, content = options.request, not options.no_content
    if options.session is not None:
        request = find_request(name, find_transcript(options.session, claude, state))
    else:
        from cc_trace.delivery import past_sessions  # noqa: PLC0415  (most name the session)

        request = search_request(name, (file.path for file in reversed(past_sessions((), claude, since=0))))
    if options.json:
        from cc_trace.cli.request_json import print_json  # noqa: PLC0415  (as above)

        print_json(request, content=content)
    else:
        from cc_trace.cli.request_text import print_text  # noqa: PLC0415  (as above)

        print_text(request, full=options.full, content=content)


def _spans(session: Session | StoredSession, turn: int | None) -> Iterator[Span]:
    found = False
    for span in session.spans():
        if turn is None or span.turn == turn:
            found = True
            yield span
    if turn is not None and not found:
        raise no_turn(session.summary, turn)


def no_turn(summary: SessionSummary, turn: int) -> NotFoundError:
    """Return the error for a turn that a session does not have."""
    turns = plural(summary.turns, "turn")
    return NotFoundError(f"session {summary.session_id} has no turn {turn}; it has {turns}")


def _print_json(session: Session | StoredSession, options: argparse.Namespace) -> None:
    out, content = sys.stdout.buffer, not options.no_content
    for span in _spans(session, options.turn):
        out.write(_line(span_json(span, content=content)))
    out.write(_line(session_json(session.summary, content=content)))
    out.flush()


def _line(row: dict[str, object]) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def _print_tree(session: Session | StoredSession, options: argparse.Namespace) -> None:
    from cc_trace.cli.tree import Printer  # noqa: PLC0415  (rich takes 60 ms, which --json need not pay)

    printer = Printer(full=options.full, content=not options.no_content)
    for _, spans in groupby(_spans(session, options.turn), key=lambda span: span.turn):
        printer.turn(list(spans))
    printer.session(session.summary)
