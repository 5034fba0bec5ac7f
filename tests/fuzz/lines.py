"""Transcripts: no lines whatever raise, and all of them keep what every trace must keep.

A target's bytes are a folder: a line `@@ NAME` begins the file of that name, the first one is the main transcript.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from cc_trace.cli.json_output import session_json, span_json
from cc_trace.export.otlp import encode_span
from cc_trace.export.profiles import PROFILES, Labels
from cc_trace.privacy.content import Privacy, PrivacySettings
from cc_trace.spans.session import Session
from fuzz.mutations import VALUES, change_bytes, change_json, parsed, slots, written
from fuzz.target import BrokenError, Target
from fuzz.transcripts import EVERY_LINE, MAIN, SEEDS, USAGE

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.privacy.content import Content
    from cc_trace.spans.model import Span
    from cc_trace.spans.summary import SessionSummary
    from fuzz.transcripts import Lines

_MARK: Final = b"@@ "
_NAMES: Final = {name.encode() for seed in SEEDS for name in seed}
_CONTENTS: Final[tuple[Content, ...]] = ("full", "no-tool-content", "metadata")
_LABELS: Final = Labels(user_id="me", tags=("a",), environment="dev", release="1")
_VALUES: Final[tuple[Any, ...]] = (
    *VALUES,
    *(USAGE, "u1", "m1", "t1", "a1", "wf_1", "user", "assistant", "tool_use", "tool_result", "text", "thinking"),
    *("system", "progress", "attachment", "queued_command", "agent_progress", "Warmup", "<synthetic>"),
    *("<task-notification>", "<bash-input>x</bash-input>", "Implement the following plan", "Exit code 99999999999"),
    *("<command-name>/x</command-name>", "[Request interrupted by user]", "now", "20260102T030405Z"),
    *("0001-01-01T00:00:00+23:59", "1970-01-01T00:00:00Z"),
)


def folder_of(data: bytes) -> dict[str, Lines]:
    """The files in these bytes, by name; what stands before any name is the main transcript."""
    name, found = MAIN, dict[str, list[bytes]]()
    for line in data.split(b"\n"):
        if line.startswith(_MARK) and line.removeprefix(_MARK) in _NAMES:
            name = line.removeprefix(_MARK).decode()
            found.setdefault(name, [])
        else:
            found.setdefault(name, []).append(line)
    return found


def _bytes_of(folder: dict[str, Lines]) -> bytes:
    return b"\n".join(line for name, part in folder.items() for line in (_MARK + name.encode(), *part))


def _mutate(rng: random.Random, data: bytes) -> bytes:
    folder = folder_of(data)
    names = [name for name, part in folder.items() if part]
    if not names or (kind := rng.random()) < 0.05:
        return change_bytes(rng, data)
    part = folder[names[0] if rng.random() < 0.6 else rng.choice(names)]
    if kind < 0.7:
        at = rng.randrange(len(part))
        part[at] = _copied(rng, part[at]) if rng.random() < 0.3 else change_json(rng, part[at], _VALUES)
    elif kind < 0.95:
        _change_lines(rng, part)
    else:
        _change_everywhere(rng, part)
    return _bytes_of(folder)


def _copied(rng: random.Random, line: bytes) -> bytes:
    """A value from another line; where it can be, one of the same name, because equal ids and times hurt most."""
    if not (places := parsed(line)):
        return line
    container, key = rng.choice(places)
    others = slots(orjson.loads(rng.choice(EVERY_LINE)))
    alike = [(other, name) for other, name in others if name == key]
    source, name = rng.choice(alike or others)
    container[key] = source[name]
    return written(places[0][0])


def _change_everywhere(rng: random.Random, part: Lines) -> None:
    """One field of all lines: no times at all, one id for everything."""
    all_places = [parsed(line) for line in part]
    names = {name for places in all_places for _, name in places if isinstance(name, str)}
    if not names:
        return
    chosen, value = rng.choice(sorted(names)), rng.choice(_VALUES)
    for at, places in enumerate(all_places):
        for container, name in places:
            if name == chosen:
                container[name] = value
        if places:
            part[at] = written(places[0][0])


def _change_lines(rng: random.Random, part: Lines) -> None:
    at, other = rng.randrange(len(part)), rng.randrange(len(part))
    match rng.randrange(7):
        case 0:
            del part[at]
        case 1:
            part.insert(other, part[at])
        case 2:
            part[at], part[other] = part[other], part[at]
        case 3:
            part[at] = part[at][: rng.randrange(len(part[at]) + 1)]
        case 4:
            part[at] += part.pop(other) if at < other else b"\x00"
        case 5:
            part.insert(at, rng.choice(EVERY_LINE))
        case _:
            part.insert(at, part.pop(other))


class _Checker:
    """Keeps one folder, and writes into it only what differs from what was checked before."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._there: dict[str, Lines] = {}

    def __call__(self, data: bytes) -> None:
        folder = folder_of(data)
        for name in self._there.keys() - folder.keys():
            (self._root / name).unlink()
        for name, part in folder.items():
            if self._there.get(name) != part:
                path = self._root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"\n".join(part))
        self._there = folder
        check(self._root / next(iter(folder)))


def check(transcript: Path) -> None:
    """Build a session's spans and rows, twice, and check what must hold for any transcript whatever.

    Every span can be sent, too, whatever part of it may leave.
    """
    spans, summary = _built(transcript)
    rows = _rows(spans, summary)
    again = _built(transcript)
    # Rows are made from nothing else; only a NaN differs from itself.
    if (spans, summary) != again and rows != _rows(*again):
        message = "building twice gives different rows"
        raise BrokenError(message)
    seen: dict[str, Span] = {}
    messages: set[str] = set()
    for span in spans:
        for rule, broken in _broken(span, seen, messages, summary.session_id):
            if broken:
                message = f"{rule} ({span.kind}): {span.name!r} {span.span_id}"
                raise BrokenError(message)
        seen[span.span_id] = span
        if span.response is not None and span.response.message_id is not None:
            messages.add(span.response.message_id)
    _send(spans)


def _send(spans: list[Span]) -> None:
    for content in _CONTENTS:
        leaving = list(map(Privacy(PrivacySettings(content, max_chars=1000)), spans))
        for profile in PROFILES.values() if content == "full" else (PROFILES["otel"],):
            for span in leaving:
                encode_span(span, *profile(span, _LABELS))


def _built(transcript: Path) -> tuple[list[Span], SessionSummary]:
    session = Session(transcript, request_content="full")
    return list(session.spans()), session.summary


def _rows(spans: list[Span], summary: SessionSummary) -> bytes:
    return b"".join([*(orjson.dumps(span_json(span)) for span in spans), orjson.dumps(session_json(summary))])


def _broken(span: Span, seen: dict[str, Span], messages: set[str], session_id: str) -> Iterator[tuple[str, bool]]:
    parent = seen.get(span.parent_id or "")
    yield "span id not unique", span.span_id in seen
    yield "no parent before it", parent is None and (span.parent_id is not None or span.kind != "turn")
    yield "parent in another trace", parent is not None and parent.trace_id != span.trace_id
    yield "end before start", span.start_ns is not None and span.end_ns is not None and span.end_ns < span.start_ns
    yield "not of the session", not span.session_id or span.session_id != session_id
    yield "message id in two generations", span.response is not None and span.response.message_id in messages


TARGET: Final = Target(
    tuple(_bytes_of({name: [*part, b""] for name, part in seed.items()}) for seed in SEEDS), _mutate, _Checker
)
