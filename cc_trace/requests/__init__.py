"""What Claude Code sent to the API: the requests that 2.1.3xx records in its transcripts, and what they cost.

No other package looks inside `api-request`, `api-request-shape` and `api-request-blob` lines. Reading is lazy: a scan
notes where the heavy lines are, and they are parsed when somebody asks for a request's body.

The rule here: nothing is guessed. A message is found by the hash that the request names, the whole is compared with the
digest that Claude Code wrote, and what the transcript does not have is listed as missing.
"""

from cc_trace.requests.cache import CacheMiss, Cause, Sent, cache_miss
from cc_trace.requests.context import Context, Part, context
from cc_trace.requests.log import RequestLog
from cc_trace.requests.rebuild import Request
from cc_trace.requests.records import Attempt, Breakpoint, Call, Failure, Response, Retry

__all__ = [
    "Attempt",
    "Breakpoint",
    "CacheMiss",
    "Call",
    "Cause",
    "Context",
    "Failure",
    "Part",
    "Request",
    "RequestLog",
    "Response",
    "Retry",
    "Sent",
    "cache_miss",
    "context",
]
