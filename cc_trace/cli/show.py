"""`cc-trace show`: a session as a tree in the terminal, or its spans as JSON lines."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from cc_trace.cli.rows import session_row, span_row
from cc_trace.errors import CcTraceError, NotFoundError
from cc_trace.sessions import Session
from cc_trace.transcript import find

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from cc_trace.spans import Span


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Show the session that the options name."""
    configured = environment.get("CLAUDE_CONFIG_DIR")
    config_dir = Path(configured) if configured else Path.home() / ".claude"
    path = find(options.session, config_dir, Path.cwd())
    try:
        session = Session(path)
        if options.json:
            _print_json(session, options)
        else:
            _print_tree(session, options)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        message = f"cannot read {error.filename or path}: {error.strerror}"
        raise CcTraceError(message) from error
    return 0


def _wanted(session: Session, turn: int | None) -> Iterator[Span]:
    found = False
    for span in session.spans():
        if turn is None or span.turn == turn:
            found = True
            yield span
    if turn is not None and not found:
        message = f"session {session.facts.session_id} has no turn {turn}; it has {session.facts.turns}"
        raise NotFoundError(message)


def _print_json(session: Session, options: argparse.Namespace) -> None:
    out, content = sys.stdout.buffer, not options.no_content
    for span in _wanted(session, options.turn):
        out.write(_line(span_row(span, content=content)))
    out.write(_line(session_row(session.facts, content=content)))
    out.flush()


def _line(row: dict[str, object]) -> bytes:
    # OPT_NON_STR_KEYS is not needed: all of it came from JSON, or is ours.
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def _print_tree(session: Session, options: argparse.Namespace) -> None:
    from cc_trace.cli.tree import Printer  # noqa: PLC0415  (rich takes 60 ms, which --json need not pay)

    printer = Printer(full=options.full, content=not options.no_content)
    for _, spans in groupby(_wanted(session, options.turn), key=lambda span: span.turn):
        printer.turn(list(spans))
    printer.session(session.facts)
