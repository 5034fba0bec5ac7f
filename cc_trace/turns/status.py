"""How a turn, an agent or a tool call ended: ok, error, interrupted or incomplete, with the message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from cc_trace.text import plural
from cc_trace.turns.model import Event

if TYPE_CHECKING:
    from cc_trace.turns.agents import Run
    from cc_trace.turns.model import Call, Turn

Activity: TypeAlias = Literal["working", "waiting for approval", "waiting for input", "idle"]

IDLE_SECONDS: Final = 300.0
_FINISHED: Final = ("end_turn", "stop_sequence", "max_tokens", "refusal")


def current_activity(turn: Turn | None, *, asked: bool, summarized: bool, rest_seconds: float) -> Activity:
    """Return what a session is doing. `asked`: a prompt follows the turn; `summarized`: the last line is a summary.

    A call without a result is waiting for approval, or its tool is running: a transcript does not say which.
    """
    if summarized or rest_seconds >= IDLE_SECONDS:
        return "idle"
    if asked:
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


Status: TypeAlias = Literal["ok", "error", "interrupted", "incomplete"]

MAX_ERROR_CHARS: Final = 1000


def turn_status(turn: Turn) -> tuple[Status, str | None]:
    """Return how a turn ended, or that it is incomplete."""
    if turn.last_activity in ("error", "interrupt"):
        kind = "api_error" if turn.last_activity == "error" else "interruption"
        text = next((step.text for step in reversed(turn.steps) if isinstance(step, Event) and step.kind == kind), "")
        return ("error" if turn.last_activity == "error" else "interrupted"), clipped(text)
    generations = turn.generations
    if generations and generations[-1].aborted:
        return "interrupted", "interrupted while answering"
    if turn.last_activity == "limit":
        return "incomplete", f"reached the limit of --max-turns {turn.limit}"
    if turn.last_activity == "stop":
        return "ok", None
    unanswered = sum(call.result is None for call in generations[-1].calls) if generations else 0
    if unanswered:
        return "incomplete", f"{plural(unanswered, 'tool call')} without a result"
    if turn.last_activity == "input" and generations:
        return "incomplete", "no response to the last input"
    return "ok", None


def agent_status(run: Run) -> tuple[Status, str | None]:
    """Return how an agent's run ended. If it was killed, only the notification says so, not its file."""
    match run.status:
        case "killed" | "stopped" | "cancelled":
            return "interrupted", f"agent was {run.status}"
        case "failed" | "error":
            return "error", f"agent {run.status}"
        case _:
            return turn_status(run.turn)


def tool_status(call: Call, turn: Turn) -> tuple[Status, str | None]:
    """Return how a tool call ended. A denied one is an error."""
    result = call.result
    if result is None:
        return ("interrupted", "interrupted") if turn.last_activity == "interrupt" else ("incomplete", "no result")
    if not (result.interrupted or result.is_error or result.denial is not None):
        return "ok", None
    text = clipped(result.output) if isinstance(result.output, str) else ""
    if result.interrupted:
        return "interrupted", text or "interrupted"
    return "error", text or result.denial or "error"


def clipped(text: str) -> str:
    """Shorten a message for a list of errors, at a word: the redactor would not recognize half a key."""
    if len(text) <= MAX_ERROR_CHARS:
        return text
    kept, _, torn = text[:MAX_ERROR_CHARS].rpartition(" ")
    return f"{kept if kept and len(torn) < MAX_ERROR_CHARS // 2 else text[:MAX_ERROR_CHARS]}…"
