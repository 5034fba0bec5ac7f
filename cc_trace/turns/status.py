"""How a turn, an agent or a tool call ended: ok, error, interrupted or incomplete, with the message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from cc_trace.text import plural
from cc_trace.turns.model import Event

if TYPE_CHECKING:
    from cc_trace.turns.agents import Run
    from cc_trace.turns.model import Call, Turn

Status: TypeAlias = Literal["ok", "error", "interrupted", "incomplete"]

_MAX_ERROR_CHARS: Final = 1000


def turn_status(turn: Turn) -> tuple[Status, str | None]:
    """Return how a turn ended, or that it is incomplete."""
    if turn.last_activity in ("error", "interrupt"):
        kind = "api_error" if turn.last_activity == "error" else "interruption"
        text = next((step.text for step in reversed(turn.steps) if isinstance(step, Event) and step.kind == kind), "")
        return ("error" if turn.last_activity == "error" else "interrupted"), shortened_error(text)
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
    text = shortened_error(result.output) if isinstance(result.output, str) else ""
    if result.interrupted:
        return "interrupted", text or "interrupted"
    return "error", text or result.denial or "error"


def shortened_error(text: str) -> str:
    """Return a message for a list of errors, cut between words: the redactor would not recognize half a key."""
    if len(text) <= _MAX_ERROR_CHARS:
        return text
    kept, _, torn = text[:_MAX_ERROR_CHARS].rpartition(" ")
    return f"{kept if kept and len(torn) < _MAX_ERROR_CHARS // 2 else text[:_MAX_ERROR_CHARS]}…"
