"""What was sent to the API: attempts, bodies, what fills the context, why the cache was missed.

Claude Code 2.1.3xx records its requests; the heavy lines are located while a file is scanned and parsed when asked for.
"""

from __future__ import annotations

from cc_trace.requests.cache import CacheMiss, Sent, cache_miss, miss_cost_usd
from cc_trace.requests.context import Context, context_by_origin
from cc_trace.requests.log import RequestLog
from cc_trace.requests.rebuild import Request
from cc_trace.requests.records import Attempt, Call
from cc_trace.requests.session_requests import RequestContent, SessionRequests

__all__ = [
    "Attempt",
    "CacheMiss",
    "Call",
    "Context",
    "Request",
    "RequestContent",
    "RequestLog",
    "Sent",
    "SessionRequests",
    "cache_miss",
    "context_by_origin",
    "miss_cost_usd",
]
