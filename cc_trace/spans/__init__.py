"""Turns become spans, with ids that no copying of a session changes.

`Session` puts it together: a session's files are read from any turn on and handed out as traces.
"""

from __future__ import annotations

from cc_trace.spans.model import Anchor, Response, Span, Tool
from cc_trace.spans.session import Ending, Placed, Resume, Session, Trace
from cc_trace.spans.summary import GOAL_CHARS, OUTPUT_CHARS, Facts

__all__ = [
    "GOAL_CHARS",
    "OUTPUT_CHARS",
    "Anchor",
    "Ending",
    "Facts",
    "Placed",
    "Response",
    "Resume",
    "Session",
    "Span",
    "Tool",
    "Trace",
]
