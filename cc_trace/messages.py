"""What a response was asked and what it answered, as messages of a chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cc_trace.entries import Thinking, ToolUse

if TYPE_CHECKING:
    from cc_trace.entries import JsonValue
    from cc_trace.turns import Generation, Message


def asked(message: Message) -> JsonValue:
    """Return one piece of what a response answers."""
    call = message.call
    if call is None:
        return {"role": "user", "content": message.text}
    output = call.result.output if call.result is not None else None
    return {"role": "tool", "tool_call_id": call.id, "name": call.use.name, "content": output}


def answered(step: Generation) -> JsonValue:
    """Return a response as one message; blocks that are neither text, thinking nor calls as their description."""
    texts: list[str] = []
    thinking: list[JsonValue] = []
    for block in step.blocks:
        if isinstance(block, Thinking):
            thinking.append("[redacted]" if block.redacted else block.text)
        elif not isinstance(block, ToolUse) and block.text.strip():
            texts.append(block.text)
    answer: dict[str, JsonValue] = {"role": "assistant", "content": "\n".join(texts)}
    if thinking:
        answer["thinking"] = thinking
    if step.calls:
        answer["tool_calls"] = [{"id": call.id, "name": call.use.name, "input": call.use.input} for call in step.calls]
    return answer


def response_facts(step: Generation) -> dict[str, JsonValue]:
    """Return the small facts of a response that are neither its words nor its tokens."""
    facts: dict[str, JsonValue] = {"tool_count": len(step.calls)}
    if step.stop_reason is not None:
        facts["stop_reason"] = step.stop_reason
    if step.effort is not None:
        facts["effort"] = step.effort
    if step.speed is not None:
        facts["speed"] = step.speed
    if step.service_tier is not None:
        facts["service_tier"] = step.service_tier
    if step.usage is not None and step.usage.web_searches:
        facts["web_searches"] = step.usage.web_searches
    return facts
