"""When spans began and ended, held against the test's clock and against each other.

Rules: a span begins no earlier than its parent, and ends no later; but a tool runs on when the response that called it
has ended, and an agent in the background works on when its call has. Both lie within the turn or agent above. A
compaction between two turns belongs to the second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from received import facts_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.proto.trace.v1.trace_pb2 import Span

_MS: Final = 1_000_000  # transcripts tell time in whole milliseconds
# A turn begins with its prompt, and a generation when the request was sent that was answered.
_BEFORE_THEIR_PARENT: Final = ("compaction", "api_retry")


def untimely(spans: Sequence[Span], began_ns: int, ended_ns: int, asked_ns: Mapping[str, int]) -> list[str]:
    """Say what cannot have been then. `asked_ns`: when each response was asked for, by its id."""
    by_id = {span.span_id: span for span in spans}
    found = []
    for span in spans:
        start_ns, end_ns = span.start_time_unix_nano, span.end_time_unix_nano
        if not began_ns - _MS < start_ns <= end_ns <= ended_ns:
            found.append(f"{span.name}: {start_ns} to {end_ns}, and the test ran from {began_ns} to {ended_ns}")
        asked = asked_ns.get(str(facts_of(span).get("gen_ai.response.id")))
        if asked is not None and not start_ns <= asked < end_ns + _MS:
            found.append(f"{span.name}: {start_ns} to {end_ns}, and was asked for at {asked}")
        if span.parent_span_id in by_id:
            earlier = start_ns < by_id[span.parent_span_id].start_time_unix_nano
            if earlier and span.name not in _BEFORE_THEIR_PARENT:
                found.append(f"{span.name} began before its parent")
            if end_ns > (holder := _holder(span, by_id)).end_time_unix_nano:
                found.append(f"{span.name} ended after {holder.name}")
    return found


def _holder(span: Span, by_id: Mapping[bytes, Span]) -> Span:
    """Return the nearest above that cannot end before it."""
    over = {"chat", "execute_tool"} if "cc_trace.background" in facts_of(span) else {"chat"}
    above = by_id[span.parent_span_id]
    while facts_of(above)["gen_ai.operation.name"] in over:
        above = by_id[above.parent_span_id]
    return above
