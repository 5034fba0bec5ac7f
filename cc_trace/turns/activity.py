"""What a session is doing now, as far as its transcript shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from cc_trace.turns.model import Turn

Activity: TypeAlias = Literal["working", "waiting for approval", "waiting for input", "idle"]

_IDLE_SECONDS: Final = 300.0
_FINISHED: Final = ("end_turn", "stop_sequence", "max_tokens", "refusal")


def current_activity(turn: Turn | None, *, prompted: bool, summarized: bool, rest_seconds: float) -> Activity:
    """Return what a session is doing. `prompted`: a prompt follows the turn; `summarized`: the last line is a summary.

    A call without a result is waiting for approval, or its tool is running: a transcript does not say which.
    """
    if summarized or rest_seconds >= _IDLE_SECONDS:
        return "idle"
    if prompted:
        return "working"
    if turn is None:
        return "waiting for input"
    generations = turn.generations
    if generations and any(call.result is None for call in generations[-1].calls) and turn.last_activity != "interrupt":
        return "waiting for approval"
    if turn.closed or turn.last_activity in ("stop", "interrupt", "error", "limit"):
        return "waiting for input"
    finished = turn.last_activity == "reply" and generations and generations[-1].stop_reason in _FINISHED
    return "waiting for input" if finished else "working"
