"""A session as a tree for people: one line per span, totals per turn and for the session."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

import orjson
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from cc_trace.cli.output import bare
from cc_trace.escapes import escaped
from cc_trace.store import waits
from cc_trace.text import dollars, local_time, plural, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cc_trace.spans import Response, SessionSummary, Span
    from cc_trace.transcript import JsonValue

_STYLES: Final = {"ok": "green", "error": "red", "interrupted": "yellow", "incomplete": "yellow"}
# The colours of a tool's output, which are dropped.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ONE_LINE_CHARS: Final = 100
_PIPED_WIDTH: Final = 140
_CLOCK: Final = "%H:%M:%S"
_WAITED_FOR: Final = {"permission": "for permission", "answer": "for an answer", "retry": "to try again"}
_WAITING: Final = ("permission", "retries", "idle")  # of the kinds in a turn's `time_ms`
# Why a line was skipped or repaired, where a reader should know.
_MALFORMED: Final = {
    "malformed line": ("malformed line", "malformed lines"),
    "line too long": ("overlong line", "overlong lines"),
    "not an object": ("line without a JSON object", "lines without a JSON object"),
    "no type": ("line without a type", "lines without a type"),
}
_REPAIRED: Final = ("repaired line", "several objects on one line")


class _Console(Console):
    """Raises if the reader has gone, as all other output does; rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704  (called where the error is handled)


class Printer:
    """Prints a session turn by turn."""

    def __init__(self, *, full: bool, content: bool) -> None:
        piped = not sys.stdout.isatty()
        width = _PIPED_WIDTH if piped else None
        # Colours are escape sequences of our own; all that comes from elsewhere is made `_printable` here.
        self._console = _Console(file=bare(sys.stdout), width=width, highlight=False, markup=False, emoji=False)
        self._full = full
        self._content = content

    def turn(self, spans: list[Span]) -> None:
        """Print the spans of one turn, which come in tree order."""
        root, *others = spans
        tree = Tree(self._turn_line(root, spans), guide_style="dim")
        self._details(tree, root)
        nodes = {root.span_id: tree}
        for span in others:
            node = nodes[span.parent_id or root.span_id].add(self._line(span))
            self._details(node, span)
            nodes[span.span_id] = node
        self._console.print(tree)

    def session(self, summary: SessionSummary) -> None:
        """Print the session's totals."""
        line = Text(f"Session {_printable(summary.session_id)}", style="bold")
        labels = (summary.project, summary.git_branch, f"Claude Code {summary.version}" if summary.version else None)
        parts = [text for text in labels if text]
        first, last = summary.first_ns, summary.last_ns
        parts += [_some(summary.turns, "turn"), _some(summary.tool_calls, "tool call")]
        if first is not None and last is not None:
            parts += [local_time(first, "%Y-%m-%d %H:%M:%S"), _duration(last - first)]
        parts += [f"{summary.output_tokens:,} tokens out", f"context {summary.context_tokens:,}"]
        parts.append(_cost(summary.cost_usd, complete=not summary.unpriced))
        if line_changes := _line_changes(summary.lines_added, summary.lines_removed):
            parts.append(line_changes)
        line.append(" · " + " · ".join(_printable(part) for part in parts if part), style="not bold")
        self._console.print(line)
        if summary.title is not None and self._content:
            self._console.print(Text(_one_line(summary.title), style="italic"))
        if summary.worktree is not None:
            self._console.print(Text(f"in worktree {_printable(summary.worktree)}", style="dim"))
        if summary.predecessor is not None:
            self._console.print(Text(f"continues session {_printable(summary.predecessor)}", style="dim"))
        if note := _skipped(summary.skipped):
            self._console.print(Text(_printable(note), style="yellow"))

    def _turn_line(self, root: Span, spans: list[Span]) -> Text:
        line = Text(root.name, style="bold", no_wrap=True, overflow="ellipsis")
        if self._content:
            prompt, answer = _one_line(root.input), _one_line(root.output)
            line.append(f" {prompt}", style="cyan not bold")
            if answer:
                line.append(" → ", style="dim not bold").append(answer, style="not bold")
        responses = [span.response for span in spans if span.response is not None and span.status != "error"]
        tokens = sum(response.usage.output for response in responses if response.usage is not None)
        costs = [response.cost_usd for response in responses]
        tools = sum(span.kind == "tool" for span in spans)
        known_costs = [cost for cost in costs if cost is not None]
        cost = _cost(sum(known_costs) if known_costs else None, complete=None not in costs)
        parts = [_span_duration(root), _some(tools, "tool call"), f"{tokens:,} out", cost]
        # Totals come first: the rest is cut at the edge of the terminal.
        totals = Text(no_wrap=True, overflow="ellipsis")
        if waited_ms := _waited_ms(root):
            parts.insert(1, f"waited {_duration(waited_ms * 1_000_000)}")
        if root.metadata.get("rewound"):
            parts.append("rewound")
        parts.insert(0, local_time(root.start_ns, _CLOCK))
        totals.append(f"{root.name} ", style="bold").append(" · ".join(part for part in parts if part), style="dim")
        self._ending(totals, root)
        totals.append_text(line[len(root.name) :])
        return totals

    def _line(self, span: Span) -> Text:
        line = Text(no_wrap=True, overflow="ellipsis")
        if clock := local_time(span.start_ns, _CLOCK):
            line.append(f"{clock} ", style="dim")
        match span.kind:
            case "generation" if span.response is not None and span.status != "error":
                line.append(_printable(span.name), style="magenta")
                parts = [_usage(span.response), _cost(span.response.cost_usd, complete=True), _span_duration(span)]
            case "subagent":
                line.append(f"agent {_printable(span.name)}", style="bold blue")
                parts = [_one_line(span.metadata.get("description")) if self._content else "", _span_duration(span)]
            case "event":
                line.append(_printable(span.name), style="yellow")
                parts = [_hook(span.metadata, content=self._content), _one_line(span.metadata.get("mode"))]
                text = span.metadata.get("summary") or span.input or span.output
                parts.append(_one_line(text) if self._content and span.status == "ok" else "")
            case _:
                line.append(_printable(span.name), style="blue")
                parts = [_span_duration(span)]
        if span.metadata.get("background"):
            parts.append("in the background")
        details, waiting = Text("".join(f" · {part}" for part in parts if part), style="dim"), _waits(span)
        # The text of an event may fill the line.
        line.append_text(waiting + details if span.kind == "event" else details + waiting)
        self._ending(line, span)
        if self._content and span.kind == "tool" and not self._full:
            line.append(f"  {_one_line(span.input)}", style="dim")
        return line

    def _ending(self, line: Text, span: Span) -> None:
        if span.status != "ok":
            line.append(f" {span.status}", style=_STYLES[span.status])
            if self._content and span.error:
                line.append(f": {_one_line(span.error)}", style=_STYLES[span.status])

    def _details(self, node: Tree, span: Span) -> None:
        if not (self._full and self._content):
            return
        for name, value in (("in", span.input), ("out", span.output)):
            if text := _readable(value):
                node.add(Text(f"{name}: ", style="dim").append(text, style="default"))


def _waited_ms(root: Span) -> int:
    """Return how long a turn waited, as far as that is known."""
    times = root.metadata.get("time_ms")
    values = [times.get(kind) for kind in _WAITING] if isinstance(times, dict) else []
    return sum(ms for ms in values if isinstance(ms, int))


def _waits(span: Span) -> Text:
    """Return what a span waited for, and how long. For a hook the line itself says so."""
    intervals = [(kind, end_ns - start_ns) for kind, start_ns, end_ns in waits(span) if kind in _WAITED_FOR]
    return Text("".join(f" · waited {_duration(ns)} {_WAITED_FOR[kind]}" for kind, ns in intervals), style="yellow")


def _readable(value: JsonValue) -> str:
    """Return content as text for reading in full."""
    if value is None or value in ("", []):
        return ""
    text = value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    return _printable(text)


def _one_line(value: JsonValue) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else orjson.dumps(value).decode("utf-8", "replace")
    text = " ".join(_printable(text[: _ONE_LINE_CHARS * 4]).split())
    return shortened(text, _ONE_LINE_CHARS)


def _printable(text: str) -> str:
    return escaped(_COLOUR.sub("", text))


def _usage(response: Response) -> str:
    usage = response.usage
    if usage is None:
        return "usage unknown"
    parts = [f"{usage.input:,} in", f"{usage.output:,}{'' if response.usage_complete else '+'} out"]
    if usage.cache_read:
        parts.append(f"{usage.cache_read:,} read")
    if written := usage.cache_write_5m + usage.cache_write_1h:
        parts.append(f"{written:,} written")
    return ", ".join(parts)


def _cost(cost: float | None, *, complete: bool) -> str:
    if cost is None:
        return ""
    return dollars(cost) if complete else f"{dollars(cost)} + unpriced"


def _span_duration(span: Span) -> str:
    if span.start_ns is None or span.end_ns is None or "time" in span.metadata:
        return ""
    return _duration(span.end_ns - span.start_ns)


def _duration(nanoseconds: int) -> str:
    seconds = nanoseconds / 1e9
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def _some(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun; empty for none."""
    return plural(count, noun, nouns) if count else ""


def _line_changes(added: int, removed: int) -> str:
    return f"+{added:,} -{removed:,} lines" if added or removed else ""


def _hook(metadata: Mapping[str, JsonValue], *, content: bool) -> str:
    """Return which hook it was, and whether it blocked."""
    event, command = metadata.get("hook_event"), metadata.get("command")
    if not isinstance(event, str):
        return ""
    duration_ms = metadata.get("duration_ms")
    parts = [_one_line(event), "blocked" if metadata.get("blocked") else ""]
    parts.append(_duration(duration_ms * 1_000_000) if isinstance(duration_ms, int) else "")
    parts.append(_one_line(command) if content else "")
    return " · ".join(part for part in parts if part)


def _skipped(counts: Mapping[str, int]) -> str:
    """Return which lines were skipped or repaired, if a reader should know; most are skipped by design."""
    skipped = [_some(counts.get(reason, 0), *forms) for reason, forms in _MALFORMED.items()]
    unknown = [(reason, count) for reason, count in sorted(counts.items()) if reason.startswith("unknown type ")]
    skipped += [f"{_some(count, 'line')} of {reason}" for reason, count in unknown]
    repaired = _some(sum(counts.get(reason, 0) for reason in _REPAIRED), "line")
    notes = {"skipped": ", ".join(filter(None, skipped)), "repaired": repaired}
    return "; ".join(f"{verb} {lines}" for verb, lines in notes.items() if lines)
