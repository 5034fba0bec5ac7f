"""Turns become spans, with ids that stay the same when a session is copied.

`Session` puts it together: it reads a session's files from any turn on and yields traces.
"""

from __future__ import annotations

from cc_trace.spans.model import Origins, Response, Span, Tool, TraceLink
from cc_trace.spans.session import Ending, Placed, Resume, Session, Trace
from cc_trace.spans.summary import OUTPUT_CHARS, TITLE_CHARS, SessionSummary

__all__ = [
    "OUTPUT_CHARS",
    "TITLE_CHARS",
    "Ending",
    "Origins",
    "Placed",
    "Response",
    "Resume",
    "Session",
    "SessionSummary",
    "Span",
    "Tool",
    "Trace",
    "TraceLink",
]
