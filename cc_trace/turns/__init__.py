"""Entries become turns: what starts and ends one, and which agent's work belongs below which tool call. Pure.

`assemble` groups a file's entries into turns: it finds where one starts and ends, and `OpenTurn` joins what belongs to
it. Then `Agents.place_below` finds the agents' runs, themselves turns of other files, that belong below a turn's calls.
"""

from __future__ import annotations

from cc_trace.turns.activity import current_activity
from cc_trace.turns.agents import Agent, Agents, Run, Runs, progress_agents, sidechain_agents
from cc_trace.turns.assembler import assemble
from cc_trace.turns.model import AGENT, MODEL, Call, Event, FailedRequest, Generation, Message, Origin, Turn
from cc_trace.turns.open_turn import Seen, latest_ns
from cc_trace.turns.status import Status, agent_status, shortened_error, tool_status, turn_status

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
    "current_activity",
    "latest_ns",
    "progress_agents",
    "shortened_error",
    "sidechain_agents",
    "tool_status",
    "turn_status",
]
