"""`cc-trace preview`: exactly what would be sent of a session to a destination, as JSON, and nothing is sent."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cc_trace.cli.show import no_turn
from cc_trace.cli.transcripts import find_transcript
from cc_trace.delivery import WRITTEN_WHILE_OFF, App
from cc_trace.errors import ConfigError
from cc_trace.export import EncodesWithTurn
from cc_trace.privacy import Privacy
from cc_trace.spans import Session
from cc_trace.transcript import BEGINNING, MediaFinder, agent_paths

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from cc_trace.export import Destination
    from cc_trace.spans import Span


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Print a line for each span, in the order they would be sent; on stderr where to, and what was masked."""
    app = App.open(environment, only_destination=options.to)
    transcript = find_transcript(options.session, app.config_dir, app.states.folder)
    started = app.project_and_environment(transcript)
    config, plan = app.config(*started), app.plan(*started)
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
    spans = _print(session, _encoder(plan.destinations[0], transcript), privacy, options.turn)
    masked = ", ".join(f"{count} {name}" for name, count in sorted(privacy.redactor.counts.items()))
    said = f"{spans} spans to {config.destinations[0].name}, content {config.privacy.content}"
    print(f"cc-trace: {said}, masked: {masked or 'nothing'}", file=sys.stderr)
    return 0


def _encoder(destination: Destination, transcript: Path) -> Callable[[Span, Sequence[Span]], bytes]:
    """Return a function that turns a span into the JSON that would be sent, without contacting the backend."""
    media = MediaFinder(lambda: ((path, BEGINNING) for path in (transcript, *agent_paths(transcript))))

    def encode(span: Span, turn: Sequence[Span]) -> bytes:
        if isinstance(destination, EncodesWithTurn):
            return destination.as_json(destination.encode_with_turn(span, turn, media.find, may_query=False))
        return destination.as_json(destination.encode(span))

    return encode


def _print(
    session: Session, encode: Callable[[Span, Sequence[Span]], bytes], privacy: Privacy, turn: int | None
) -> int:
    out, count = sys.stdout.buffer, 0
    for trace in session.traces():
        if turn is not None and trace.turn.number != turn:
            continue
        for span in reversed(trace.spans):
            out.write(encode(privacy(span, trace.spans), trace.spans) + b"\n")
            count += 1
    out.flush()
    if turn is not None and not count:
        raise no_turn(session.summary, turn)
    return count
