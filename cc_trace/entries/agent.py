"""The small files beside an agent's transcript: who it is, and which stage of a workflow."""

from __future__ import annotations

from typing import Any

import orjson

from cc_trace.entries.content import string
from cc_trace.entries.kinds import AgentMeta


def agent_meta(data: bytes) -> AgentMeta:
    """Read agent-<id>.meta.json; whatever is missing or damaged is simply not known."""
    raw = _object(data)
    return AgentMeta(
        string(raw, "agentType") or string(raw, "subagent_type"),
        string(raw, "description"),
        string(raw, "toolUseId"),
        string(raw, "parentAgentId"),
        string(raw, "name") or string(raw, "agentName"),
    )


def journal_stages(data: bytes) -> dict[str, str]:
    """Read a workflow's journal.jsonl: agent id -> the name of its stage, as far as it can be told."""
    stages: dict[str, str] = {}
    for line in data.splitlines():
        raw = _object(line)
        agent_id = string(raw, "agentId") or string(raw, "agent_id")
        stage = string(raw, "label") or string(raw, "stage") or string(raw, "phase") or string(raw, "name")
        if agent_id is not None and stage is not None:
            stages.setdefault(agent_id, stage)
    return stages


def _object(data: bytes) -> dict[str, Any]:
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return raw if isinstance(raw, dict) else {}
