"""A session as one page that needs nothing else: no scripts, and no requests to anywhere. Pure.

Rule: all that comes from the session passes through `_text`, which escapes it. The page allows itself one style sheet,
by its hash, and nothing besides.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from cc_trace.escapes import escaped
from cc_trace.store import label
from cc_trace.text import dollars, local_time
from cc_trace.values import json_text, readable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cc_trace.spans import Span
    from cc_trace.transcript import JsonValue

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --work: #4a7fd0; --bad: #c33; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; border-top: 1px solid var(--line); padding-top: 1rem; }
p.quiet, .quiet { opacity: .7; } .bad { color: var(--bad); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0; font-size: .85rem; }
pre.said { font: inherit; } details { border-left: 2px solid var(--line); padding-left: .6rem; }
summary { cursor: pointer; overflow-wrap: anywhere; } svg { width: 100%; height: 6px; display: block; }
svg rect { fill: var(--work); } svg.bad rect { fill: var(--bad); }
.d1 { margin-left: 1rem; } .d2 { margin-left: 2rem; } .d3 { margin-left: 3rem; } .d4 { margin-left: 4rem; }
.d5 { margin-left: 5rem; }
"""
_DEEPEST: Final = 5
_TIME: Final = "%Y-%m-%d %H:%M:%S %Z"  # whoever gets the file may live in another time zone


def to_html(session: Mapping[str, Any], spans: Sequence[Span]) -> str:
    """Return the page."""
    allowed = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    title = session.get("title") or next(
        (text for span in spans if (text := label(span))), session.get("session_id") or ""
    )
    start_ns = min((span.start_ns for span in spans if span.start_ns is not None), default=None)
    facts = [
        session.get("project"),
        session.get("git_branch"),
        local_time(start_ns, _TIME),
        _cost(session.get("cost_usd")),
    ]
    return "".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="referrer" content="no-referrer">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{_text(title)}</h1>",
            f'<p class="quiet">{" · ".join(_text(fact) for fact in facts if fact)}</p>',
            *(part for _, turn in groupby(spans, key=lambda span: span.turn) for part in _turn(list(turn))),
            '<p class="quiet">Written by cc-trace export.</p></body></html>\n',
        ]
    )


def _turn(spans: list[Span]) -> Iterator[str]:
    root = spans[0]
    times = [time for span in spans for time in (span.start_ns, span.end_ns) if time is not None]
    start, end = min(times, default=0), max(times, default=0)
    cost = sum(span.response.cost_usd or 0 for span in spans if span.response is not None)
    facts = [local_time(root.start_ns, _TIME), _took(root), _cost(cost), _status(root)]
    yield f"<section><h2>Turn {root.turn}</h2>"
    yield f'<p class="quiet">{" · ".join(_text(fact) for fact in facts if fact)}</p>'
    yield f'<pre class="said">{_text(root.input)}</pre>'
    depths = {root.span_id: 0}
    for span in spans[1:]:
        depth = depths[span.span_id] = depths.get(span.parent_id or "", 0) + 1
        yield _row(span, min(depth, _DEEPEST), start, end)
    if root.output:
        yield f'<pre class="said">{_text(root.output)}</pre>'
    yield "</section>"


def _row(span: Span, depth: int, start: int, end: int) -> str:
    facts = [_took(span), _cost(span.response.cost_usd if span.response is not None else None), _status(span)]
    bad = ' class="bad"' if span.status == "error" else ""
    head = f"<b{bad}>{_text(span.name)}</b> {_text(' · '.join(fact for fact in facts if fact))}"
    body = "".join(
        f'<div class="quiet">{name}</div><pre>{_text(value)}</pre>'
        for name, value in (("error", span.error), ("input", span.input), ("output", span.output))
        if value not in (None, "", [], {})
    )
    text_label = f' <span class="quiet">{_text(label(span))}</span>'
    return (
        f'<details class="d{depth}"><summary>{head}{text_label}{_bar(span, start, end, bad)}</summary>{body}</details>'
    )


def _bar(span: Span, start: int, end: int, bad: str) -> str:
    if span.start_ns is None or span.end_ns is None or end <= start:
        return ""
    x, width = (
        (span.start_ns - start) * 1000 / (end - start),
        max(1, (span.end_ns - span.start_ns) * 1000 / (end - start)),
    )
    bar = f'<rect x="{x:.2f}" y="0" width="{width:.2f}" height="6"></rect>'
    return f'<svg{bad} viewBox="0 0 1000 6" preserveAspectRatio="none" aria-hidden="true">{bar}</svg>'


def _text(value: JsonValue) -> str:
    """Return a value as text in which nothing is markup, and no character acts."""
    return escape(escaped(readable(_readable(value))), quote=True)


def _readable(value: JsonValue) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)


def _status(span: Span) -> str:
    return "" if span.status == "ok" else span.status


def _cost(cost: float | None) -> str:
    return dollars(cost) if cost else ""


def _took(span: Span) -> str:
    return "" if span.start_ns is None or span.end_ns is None else f"{(span.end_ns - span.start_ns) / 1e9:,.2f} s"
