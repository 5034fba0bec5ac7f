"""An independent count of what a Claude Code session contains.

Written from the facts about the transcript format alone, with the standard library only and without a line
of the package it is used to check. It reads whole files, keeps no state, clips nothing and knows nothing of
turns: only which responses were given (with their usage), which tools were called and what a human typed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

Line = dict[str, Any]

USAGE = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")

# A user text that starts with one of these was not typed as a prompt.
NOT_TYPED = (
    "<command-name>",
    "<command-message>",
    "<local-command-",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<bash-notification>",
    "<task-notification",
    "<teammate-message",
    "<ci-monitor-event",
    "Another Claude session sent a message:",
    "[Request interrupted by user",
    "This session is being continued from a previous conversation",
)

# Ids of agents that Claude Code starts for itself.
OWN_AGENTS = ("acompact-", "aprompt_suggestion-")


@dataclass(frozen=True)
class Count:
    """What a session contains, subagents included.

    responses: real ``message.id`` -> usage (keys: ``USAGE``), each number the maximum over the id's lines.
    tools: ``tool_use.id`` -> name of the tool.
    prompts: text of every human prompt of the main thread, in file order; "" for a prompt of images only.
    prompts_mid_turn: human text that stands beside a tool_result block in one user line, in file order.
    advice: for each response that asked other models, their (model, usage), of the line that lists most.
    """

    responses: dict[str, dict[str, int]]
    tools: dict[str, str]
    prompts: list[str]
    prompts_mid_turn: list[str]
    advice: dict[str, list[tuple[str, dict[str, int]]]] = field(default_factory=dict)


def recount(main: Path, agents: Iterable[Path] = ()) -> Count:
    """Count ``main`` and the ``agents``' files together.

    Prompts come from ``main`` only. Agents that are not the user's work are left out, even when given. What
    ``progress/agent_progress`` lines repeat is counted only for agents of which no file is given. A file that
    does not exist, an empty file and a damaged line count nothing.
    """
    given = [(path, list(_lines(path))) for path in agents]
    with_file = {agent for path, lines in given for agent in _agent_ids(path, lines)}
    count = Count({}, {}, [], [])
    main_lines = list(_lines(main))
    for line in main_lines:
        _count_work(line, with_file, count)
    for path, lines in given:
        if not _is_own_agent(path, lines):
            for line in lines:
                _count_work(line, with_file, count)
    _count_prompts(main_lines, count)
    return count


def agent_files(main: Path) -> list[Path]:
    """The agent files of the session ``main``, sorted, without the agents that are not the user's work.

    The session's id is the name of ``main``. Files beside it belong to it when a line of theirs says so.
    """
    below = main.parent / main.stem / "subagents"
    found = [*below.glob("agent-*.jsonl"), *below.glob("workflows/wf_*/agent-*.jsonl")]
    found += [
        path
        for path in main.parent.glob("agent-*.jsonl")
        if path != main and any(line.get("sessionId") == main.stem for line in _lines(path))
    ]
    return sorted(path for path in found if not _is_own_agent(path, list(_lines(path))))


def _lines(path: Path) -> Iterator[Line]:
    """Every JSON object of the file; several on one line are several, what does not decode ends its line."""
    decoder = json.JSONDecoder()
    if not path.is_file():
        return
    for raw in path.read_bytes().split(b"\n"):
        text = raw.decode("utf-8", "replace").strip("\ufeff\x00 \t\r")
        while text:
            try:
                value, end = decoder.raw_decode(text)
            except (ValueError, RecursionError):
                break
            text = text[end:].lstrip()
            if isinstance(value, dict):
                yield value


def _agent_ids(path: Path, lines: list[Line]) -> set[str]:
    """The ids a file's agent goes by: the one in the name, and the one on its lines."""
    ids = {line["agentId"] for line in lines if isinstance(line.get("agentId"), str)}
    return ids | {path.stem.removeprefix("agent-")}


def _is_own_agent(path: Path, lines: list[Line]) -> bool:
    """Whether the agent is Claude Code's own business: a compaction, a prompt suggestion, a warm-up."""
    if any(agent.startswith(OWN_AGENTS) for agent in _agent_ids(path, lines)):
        return True
    first = next((line for line in lines if _role(line) == "user"), None)
    return first is not None and _text(first) == "Warmup"


def _message(line: Line) -> Line:
    """The line's message object, or an empty one."""
    message = line.get("message")
    return message if isinstance(message, dict) else {}


def _role(line: Line) -> str:
    """The line's type, or its message's role where it has no type; "" if neither is a string."""
    kind = line.get("type")
    if kind is None:
        kind = _message(line).get("role")
    return kind if isinstance(kind, str) else ""


def _content(line: Line) -> Any:
    """The content of the message, or of the line itself where the message has none."""
    message = _message(line)
    return message["content"] if "content" in message else line.get("content")


def _blocks(line: Line) -> list[Line]:
    """The content blocks; none for a content that is a string."""
    content = _content(line)
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _text(line: Line) -> str:
    """The whole text of a line: its content string, or its text blocks joined by newlines."""
    content = _content(line)
    if isinstance(content, str):
        return content
    texts = (block.get("text") for block in _blocks(line) if block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def _count_work(line: Line, with_file: set[str], count: Count) -> None:
    """Add the response and the tool calls of one line, whichever thread it belongs to."""
    data = line.get("data")
    if line.get("type") == "progress" and isinstance(data, dict) and data.get("type") == "agent_progress":
        agent, inner = str(data.get("agentId")), data.get("message")
        if isinstance(inner, dict) and agent not in with_file and not agent.startswith(OWN_AGENTS):
            _count_work(inner, with_file, count)
    if line.get("type") == "tool_use" and isinstance(line.get("id"), str):
        count.tools[line["id"]] = str(line.get("name"))
    if _role(line) != "assistant" or line.get("isMeta"):
        return
    for block in _blocks(line):
        if block.get("type") == "tool_use" and isinstance(block.get("id"), str):
            count.tools[block["id"]] = str(block.get("name"))
    message = _message(line)
    name = message.get("id")
    if not isinstance(name, str) or not name:
        return
    if message.get("model") == "<synthetic>" or line.get("isApiErrorMessage"):
        return
    best = count.responses.setdefault(name, dict.fromkeys(USAGE, 0))
    for key, number in _usage(message).items():
        best[key] = max(best[key], number)
    advice = [(str(each.get("model")), _usage({"usage": each})) for each in _advisors(message)]
    if len(advice) >= len(count.advice.get(name, [])) and advice:
        count.advice[name] = advice


def _advisors(message: Line) -> list[Line]:
    """The rounds of other models that a response's usage lists beside its own."""
    usage = message.get("usage")
    rounds = usage.get("iterations") if isinstance(usage, dict) else None
    if not isinstance(rounds, list):
        return []
    return [each for each in rounds if isinstance(each, dict) and each.get("type") == "advisor_message"]


def _usage(message: Line) -> dict[str, int]:
    """The usage of one line; cache writes of no stated lifetime are of five minutes."""
    usage = message.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    written = usage.get("cache_creation")
    written = written if isinstance(written, dict) else {}
    short = _number(written, "ephemeral_5m_input_tokens")
    long = _number(written, "ephemeral_1h_input_tokens")
    return {
        "input": _number(usage, "input_tokens"),
        "output": _number(usage, "output_tokens"),
        "cache_read": _number(usage, "cache_read_input_tokens"),
        "cache_write_5m": max(short, _number(usage, "cache_creation_input_tokens") - long),
        "cache_write_1h": long,
    }


def _number(holder: Line, key: str) -> int:
    """A count of tokens; 0 for anything that is none."""
    value = holder.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _count_prompts(lines: list[Line], count: Count) -> None:
    """Add what a human typed in the main thread; a line repeated with its uuid and text counts once."""
    seen: set[tuple[str, str]] = set()
    for line in lines:
        if _role(line) != "user" or not _is_typed(line):
            continue
        text = _text(line)
        kinds = {block.get("type") for block in _blocks(line)}
        if isinstance(_content(line), str):
            kinds = {"text"}
        beside_result = "tool_result" in kinds
        if (beside_result and not text) or not (text or "image" in kinds):
            continue
        uuid = line.get("uuid")
        if isinstance(uuid, str):
            if (uuid, text) in seen:
                continue
            seen.add((uuid, text))
        (count.prompts_mid_turn if beside_result else count.prompts).append(text)


def _is_typed(line: Line) -> bool:
    """Whether a human typed this user line of the main thread, or accepted it as a plan."""
    if line.get("isMeta") or line.get("isSidechain") or line.get("isCompactSummary"):
        return False
    origin = line.get("origin")
    if isinstance(origin, dict) and origin.get("kind") == "task-notification":
        return False
    return not _text(line).lstrip().startswith(NOT_TYPED)
