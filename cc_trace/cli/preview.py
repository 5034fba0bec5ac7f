"""`cc-trace preview`: exactly what would be sent of a session to a destination; nothing is sent."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cc_trace.cli.preview_text import readable
from cc_trace.cli.show import no_turn
from cc_trace.cli.transcripts import find_transcript
from cc_trace.delivery import WRITTEN_WHILE_OFF, App
from cc_trace.errors import ConfigError
from cc_trace.export import EncodesWithTurn
from cc_trace.privacy import Privacy
from cc_trace.spans import Session
from cc_trace.text import plural
from cc_trace.transcript import BEGINNING, MediaFinder, agent_paths

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cc_trace.export import Destination
    from cc_trace.spans import Span


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Print each span, in the order they would be sent; on stderr where to, and what was masked.

    A terminal shows names and values; a program, or a person who asks for JSON, gets a line of JSON for each span.
    """
    app = App.open(environment, only_destination=options.to)
    transcript = find_transcript(options.session, app.config_dir, app.states.folder)
    project_and_environment = app.project_and_environment(transcript)
    config, plan = app.config(*project_and_environment), app.plan(*project_and_environment)
    if plan.why_off is not None:
        print(f"cc-trace: this session is not sent: {plan.why_off}", file=sys.stderr)
        return 1
    if len(plan.destinations) > 1:
        names = ", ".join(destination.name for destination in plan.destinations)
        message = f"several destinations are configured; choose one with --to: {names}"
        raise ConfigError(message)
    privacy = Privacy(config.privacy)
    if app.states.is_suppressed(transcript.stem):
        fix = f"`cc-trace sync --session {transcript.stem}` delivers it"
        print(f"cc-trace: this session is suppressed: {WRITTEN_WHILE_OFF}; {fix}", file=sys.stderr)
    state = app.states.peek(transcript.stem)
    links = state.trace_links if state is not None else None
    session = Session(transcript, ending="over", links=links, request_content=config.request_content)
    write = _write_json if options.json or not sys.stdout.isatty() else _write_text
    encode, count = _encoder(plan.destinations[0], transcript), 0
    for span, turn in _spans(session, options.turn):
        write(span, encode(privacy(span, turn), turn))
        count += 1
    sys.stdout.flush()
    masked = ", ".join(f"{count} {name}" for name, count in sorted(privacy.redactor.counts.items()))
    clause = f"{plural(count, 'span')} to {config.destinations[0].name}, content {config.privacy.content}"
    print(f"cc-trace: {clause}, masked: {masked or 'nothing'}", file=sys.stderr)
    return 0


def _encoder(destination: Destination, transcript: Path) -> Callable[[Span, Sequence[Span]], bytes]:
    """Return a function that turns a span into the JSON that would be sent, without contacting the backend."""
    media = MediaFinder(lambda: ((path, BEGINNING) for path in (transcript, *agent_paths(transcript))))

    def encode(span: Span, turn: Sequence[Span]) -> bytes:
        if isinstance(destination, EncodesWithTurn):
            return destination.as_json(destination.encode_with_turn(span, turn, media.find, may_query=False))
        return destination.as_json(destination.encode(span))

    return encode


def _spans(session: Session, turn: int | None) -> Iterator[tuple[Span, Sequence[Span]]]:
    """Yield the spans to preview, each with all spans of its turn."""
    found = False
    for trace in session.traces():
        if turn is None or trace.turn.number == turn:
            found = True
            yield from ((span, trace.spans) for span in reversed(trace.spans))
    if turn is not None and not found:
        raise no_turn(session.summary, turn)


def _write_json(_: Span, row: bytes) -> None:
    sys.stdout.buffer.write(row + b"\n")


def _write_text(span: Span, row: bytes) -> None:
    name = "" if span.kind == "turn" else f" · {span.kind} {span.name}"
    print(f"Turn {span.turn}{name}")
    for line in readable(row):
        print(f"  {line}")
    print()
