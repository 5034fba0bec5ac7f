"""Entries become turns: what starts and ends one, and which agent's work belongs below which tool call. Pure."""

from __future__ import annotations

from cc_trace.turns.agents import Agent, Agents, Run, Runs, from_progress, sidechains
from cc_trace.turns.assembler import assemble
from cc_trace.turns.model import AGENT, MODEL, Call, Event, FailedRequest, Generation, Message, Origin, Turn
from cc_trace.turns.open_turn import Seen, latest_ns
from cc_trace.turns.status import Status, agent_status, clipped, current_activity, tool_status, turn_status

__all__ = [
    "AGENT",
    "MODEL",
    "Agent",
    "Agents",
    "Call",
    "Event",
    "FailedRequest",
    "Generation",
    "Message",
    "Origin",
    "Run",
    "Runs",
    "Seen",
    "Status",
    "Turn",
    "agent_status",
    "assemble",
    "clipped",
    "current_activity",
    "from_progress",
    "latest_ns",
    "sidechains",
    "tool_status",
    "turn_status",
]
