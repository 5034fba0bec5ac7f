"""`cc-trace report`: what a run was asked, how it ended, what it did and what it cost; and gates for CI.

Rule: a report is printed where others read it, in a job's log or summary. So every text in it passes through `privacy`,
as on its way to a destination, and none can be markup there.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace.cli.ingest import read_runs
from cc_trace.delivery import App
from cc_trace.errors import CcTraceError, ConfigError, NotFoundError
from cc_trace.export import trace_url
from cc_trace.paths import current_folder, find
from cc_trace.privacy import Privacy, PrivacySettings
from cc_trace.spans import Session
from cc_trace.transcript import JsonValue, save_stream

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from cc_trace.settings import Config
    from cc_trace.spans import SessionSummary, Span

_BEGINNING: Final = 1 << 20
_CHARS: Final = 300  # of a text
_LISTED: Final = 20  # errors, files, links
_TEXTS: Final = ("session id", "prompt", "status", "answer", "tool calls", "error", "file")  # of others
_TOKENS: Final = ("input", "output", "cache_read", "cache_write")
# What may be markup, or become a link or a mention, in the Markdown of GitHub or GitLab.
_MARKUP: Final = re.compile(r"[^\w ,;/='\"%+\-]|_")


@dataclass(frozen=True, slots=True)
class _Run:
    """One session, as it may be shown."""

    spans: list[Span]
    summary: SessionSummary
    files: list[str]


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Print the report of a session, or of a run's output. Exit 1 if a gate fails, 2 if nothing could be read."""
    for name in ("max_cost", "max_minutes"):
        limit = getattr(options, name)
        if limit is not None and not (math.isfinite(limit) and limit >= 0):
            message = f"--{name.replace('_', '-')} must be a number, 0 or more"
            raise CcTraceError(message)
    app = App.open(environment)
    try:
        path = find(options.session, app.config_dir, current_folder(), app.states.streams)
        with tempfile.TemporaryDirectory() as folder:
            config, runs = _read(path, Path(folder), app)
    except OSError as error:
        message = f"cannot read {options.session}: {error.strerror}"
        raise CcTraceError(message) from error
    runs = [session for session in runs if session.spans]
    if not runs:
        message = f"{options.session} has no turns; pass a transcript, a session id, or the output of `claude -p`"
        raise NotFoundError(message)
    report = _report(runs, config)
    failed = _failed_gates(report, options)
    _print(report, failed, options.format)
    return 1 if failed else 0


def _read(path: Path, folder: Path, app: App) -> tuple[Config | None, list[_Run]]:
    paths = [path] if _is_transcript(path) else [save_stream(stream, folder) for stream in read_runs(str(path), None)]
    config: Config | None = None
    runs = []
    for transcript in paths:
        state = app.states.peek(transcript.stem)
        session = Session(transcript, ending="over", links=state.trace_links if state is not None else None)
        turns = [trace.spans for trace in session.traces()]
        cwd = session.summary.cwd if state is None else state.cwd
        try:
            config = app.config(cwd, None if state is None else state.environment)
            privacy = Privacy(config.privacy)
        except ConfigError as error:
            print(f"cc-trace: texts are left out because the settings are wrong: {error}", file=sys.stderr)
            privacy = Privacy(PrivacySettings(content="metadata"))
        spans = [privacy(span, turn) for turn in turns for span in turn]
        summary = session.summary
        files = summary.files_modified if privacy.content == "full" else ()
        names = [name.removeprefix(f"{summary.cwd}/") for name in files]
        runs.append(_Run(spans, summary, [privacy.text(name) for name in names]))
    return config, runs


def _is_transcript(path: Path) -> bool:
    """Tell a transcript from the output of a run: their lines name the session differently."""
    with path.open("rb") as file:
        return b'"sessionId":' in file.read(_BEGINNING)


def _report(runs: list[_Run], config: Config | None) -> dict[str, JsonValue]:
    spans = [span for run in runs for span in run.spans]
    turns = [span for span in spans if span.kind == "turn"]
    generations = [span.response for span in spans if span.response is not None and span.response.usage is not None]
    tools = Counter(span.tool.name for span in spans if span.tool is not None)
    start_ns = [span.start_ns for span in turns if span.start_ns is not None]
    end_ns = [span.end_ns for span in spans if span.end_ns is not None]
    status, reason = _ended(turns[-1])
    files = dict.fromkeys(name for run in runs for name in run.files)
    tokens: Counter[str] = Counter()
    for response in generations:
        if (usage := response.usage) is not None:
            cache_write = usage.cache_write_5m + usage.cache_write_1h
            tokens.update(dict(zip(_TOKENS, (usage.input, usage.output, usage.cache_read, cache_write), strict=True)))
    failed = [span for span in spans if span.status == "error" and span.kind != "turn"]
    return {
        "session_id": runs[-1].summary.session_id,
        "asked": _cut(turns[0].input),
        "status": status,
        "why": _cut(reason),
        "answered": _cut(turns[-1].output),
        "turns": len(turns),
        "tool_calls": tools.total(),
        "tools": dict(tools.most_common()),
        "errors": len(failed),
        "error_messages": list[JsonValue](f"{span.name}: {_cut(span.error) or 'failed'}" for span in failed[:_LISTED]),
        "files_changed": sum(len(run.summary.files_modified) for run in runs),
        "files": list[JsonValue]([*files][:_LISTED]),
        "lines_added": sum(run.summary.lines_added for run in runs),
        "lines_removed": sum(run.summary.lines_removed for run in runs),
        "tokens": {name: tokens[name] for name in _TOKENS},
        "output_tokens": tokens["output"],
        "usage_complete": all(response.usage_complete for response in generations),
        "cost_usd": _cost(runs),
        "minutes": round((max(end_ns) - min(start_ns)) / 60e9, 3) if start_ns and end_ns else None,
        "time_ms": {**_time_ms(turns)},
        "links": list[JsonValue]([*_links(turns, config)][:_LISTED]),
    }


def _ended(turn: Span) -> tuple[str, str | None]:
    """Return the status and error of the last turn; a run may report an error although its turn looks fine."""
    match turn.metadata.get("run"):
        case {"is_error": True, "result": str(result)} if turn.status == "ok":
            return "error", result
    return turn.status, turn.error


def _cost(runs: list[_Run]) -> float | None:
    """Return what was spent. Claude Code's own count covers what is not traced: titles, compaction."""
    costs: list[float] = []
    for summary in (run.summary for run in runs):
        known = [cost for cost in (summary.cost_usd, summary.reported_cost_usd) if cost is not None]
        if not known or (summary.unpriced and summary.reported_cost_usd is None):
            return None
        costs.append(max(known))
    return round(sum(costs), 6)


def _time_ms(turns: list[Span]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for turn in turns:
        match turn.metadata.get("time_ms"):
            case dict(kinds):
                totals.update({kind: ms for kind, ms in kinds.items() if isinstance(ms, int)})
    return totals


def _links(turns: list[Span], config: Config | None) -> Iterable[str]:
    destinations = () if config is None else config.destinations
    links = (trace_url(settings, turn.trace_id) for turn in turns for settings in destinations)
    return dict.fromkeys(link for link in links if link is not None)


def _cut(value: object) -> str | None:
    """Return a text on one line, shortened if it is long."""
    if value is None or value == "":
        return None
    text = " ".join((value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split())
    return text if len(text) <= _CHARS else text[:_CHARS] + "…"


def _failed_gates(report: dict[str, JsonValue], options: argparse.Namespace) -> list[str]:
    """Return which gates failed; an unknown figure passes none."""
    failed = []
    for name, limit in (("cost_usd", options.max_cost), ("minutes", options.max_minutes)):
        value = report[name]
        if limit is not None and not (isinstance(value, int | float) and value <= limit):
            failed.append(f"{name} is {'unknown' if value is None else value}; the limit is {limit:g}")
    if options.fail_on == "error" and report["status"] != "ok":
        failed.append(f"the last turn ended with status {report['status']}")
    return failed


def _print(report: dict[str, JsonValue], failed: list[str], form: str) -> None:
    if form == "json":
        print(json.dumps({**report, "failed": failed}, ensure_ascii=False))
        return
    rows = [(name, text) for name, text in _rows(report) if text]
    if form == "markdown":
        print("| Claude Code | |\n|---|---|")
        for name, text in rows:
            cell = f"<{text}>" if name == "trace" else f"<code>{_literal(text)}</code>" if name in _TEXTS else text
            print(f"| {name} | {cell} |")
        for message in failed:
            print(f"\n**Failed:** {message}")
        return
    for name, text in rows:
        print(f"{name:<14} {text}")
    for message in failed:
        print(f"failed: {message}")


def _rows(report: dict[str, JsonValue]) -> Iterable[tuple[str, str | None]]:
    """Yield what is printed for people, a name and a text each."""
    get = report.get
    yield "session id", _plain(get("session_id"))
    yield "prompt", _plain(get("asked"))
    yield "status", f"{get('status')}: {get('why')}" if get("why") else _plain(get("status"))
    yield "answer", _plain(get("answered"))
    yield "turns", _plain(get("turns"))
    yield "tool calls", _with_breakdown(get("tool_calls"), get("tools"))
    yield "errors", _plain(get("errors"))
    yield from (("error", message) for message in _texts(get("error_messages")))
    yield "files changed", _plain(get("files_changed"))
    yield from (("file", name) for name in _texts(get("files")))
    yield "lines", f"+{get('lines_added')} -{get('lines_removed')}"
    less = "" if get("usage_complete") else ", output count incomplete"
    yield "tokens", _listed(get("tokens")) + less
    yield "cost", "unknown" if get("cost_usd") is None else f"{get('cost_usd')} USD"
    yield "minutes", "unknown" if get("minutes") is None else _plain(get("minutes"))
    yield "time", _listed(get("time_ms"), " ms")
    yield from (("trace", link) for link in _texts(get("links")))


def _texts(values: JsonValue) -> list[str]:
    return [str(value) for value in values] if isinstance(values, list) else []


def _plain(value: JsonValue) -> str | None:
    return None if value is None else str(value)


def _with_breakdown(total: JsonValue, counts: JsonValue) -> str:
    return f"{total} ({_listed(counts)})" if counts else str(total)


def _listed(counts: JsonValue, unit: str = "") -> str:
    items = counts.items() if isinstance(counts, dict) else ()
    return ", ".join(f"{name.replace('cache_', 'cache ')} {count}{unit}" for name, count in items if count)


def _literal(text: str) -> str:
    """Escape a text for Markdown, inside a table too."""
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", text)
