"""What a session is doing now, from the end of its transcript.

The specification derives this from content blocks and stop_reason; but stop_reason stands on every line since 2.1.98
and on hardly any before, so here the state of the last turn decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from cc_trace.turns import Turn

Activity: TypeAlias = Literal["working", "waiting for approval", "waiting for input", "idle"]

IDLE_SECONDS: Final = 300.0
_FINISHED: Final = ("end_turn", "stop_sequence", "max_tokens", "refusal")


def activity(turn: Turn | None, *, asked: bool, summarized: bool, rest_seconds: float) -> Activity:
    """Say what a session does. `asked`: a prompt came after the turn; `summarized`: its last line is a summary.

    A call without a result waits for approval, or its tool is at work: a transcript does not tell them apart.
    """
    if summarized or rest_seconds >= IDLE_SECONDS:
        return "idle"
    if asked:
        return "working"
    if turn is None:
        return "waiting for input"
    generations = turn.generations
    if generations and any(call.result is None for call in generations[-1].calls) and turn.last != "interrupt":
        return "waiting for approval"
    if turn.closed or turn.last in ("stop", "interrupt", "error"):
        return "waiting for input"
    finished = turn.last == "reply" and generations and generations[-1].stop_reason in _FINISHED
    return "waiting for input" if finished else "working"
