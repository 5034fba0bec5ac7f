"""Mutated transcripts: none of them raises, and all of them keep what every trace must keep.

Rule: a mutant is a function of its number, so `python tests/fuzz.py --seed N --count 1` repeats case N.
The seeds are small transcripts that together hold every kind of line; the checks are in `check`.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
import traceback
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from cc_trace.cli.rows import session_row, span_row
from cc_trace.sessions import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cc_trace.facts import Facts
    from cc_trace.spans import Span

Json: TypeAlias = dict[str, Any]
Lines: TypeAlias = list[bytes]
Slot: TypeAlias = tuple[Any, Any]  # a container and one of its keys

SESSION = "11111111-2222-4333-8444-555555555555"
CHUNK = 250
MAX_CONTAINERS = 300
MAX_SHOWN = 2000
OTHER = "99999999-2222-4333-8444-555555555555"
USAGE = {
    "input_tokens": 3,
    "cache_creation_input_tokens": 8,
    "cache_read_input_tokens": 20,
    "output_tokens": 5,
    "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 3},
    "server_tool_use": {"web_search_requests": 1},
    "service_tier": "standard",
    "speed": "standard",
}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
NOTICE = (
    "<task-notification>\n<task-id>{0}</task-id>\n<tool-use-id>{1}</tool-use-id>\n<status>{2}</status>\n"
    "<summary>{0} ended</summary>\n</task-notification>"
)


# The seeds


def lines(*parts: Json, **common: Any) -> Lines:
    """Whole lines from what is particular to each, in the order of keys that Claude Code writes."""
    made = []
    for number, part in enumerate(parts):
        before = {"parentUuid": f"{common.get('agentId', '')}u{number - 1}" if number else None, "isSidechain": False}
        after = {
            "uuid": f"{common.get('agentId', '')}u{number}",
            "timestamp": f"2026-01-02T03:04:{number:02d}.500Z",
            "cwd": "/home/dev/project",
            "sessionId": SESSION,
            "version": "2.1.325",
            "gitBranch": "main",
            "slug": "calm-river",
        }
        made.append(json.dumps({**before, **part, **after, **common, **part}, separators=(",", ":")).encode())
    return made


def user(content: Any, **more: Any) -> Json:
    return {"promptId": "p1", "type": "user", "message": {"role": "user", "content": content}, **more}


def reply(name: str, *blocks: Any, **more: Any) -> Json:
    model, stop = more.pop("model", "claude-sonnet-4-5-20250929"), more.pop("stop_reason", None)
    message: Json = {"id": name, "type": "message", "role": "assistant", "model": model, "content": list(blocks)}
    message |= {"stop_reason": stop, "usage": USAGE}
    return {"message": message, "requestId": "req_1", "type": "assistant", **more}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def use(name: str, tool: str = "Bash", **given: Any) -> Json:
    return {"type": "tool_use", "id": name, "name": tool, "input": given}


def result(name: str, content: Any = "done", **more: Any) -> Json:
    return {"tool_use_id": name, "type": "tool_result", "content": content, **more}


def system(subtype: str, **more: Any) -> Json:
    return {"type": "system", "subtype": subtype, **more}


def queue(operation: str, content: str | None = None) -> Json:
    return {"type": "queue-operation", "operation": operation, **({"content": content} if content else {})}


def progress(agent: str, call: str, line: Json) -> Json:
    data = {"type": "agent_progress", "agentId": agent, "message": line, "prompt": "look"}
    return {"type": "progress", "data": data, "parentToolUseID": call, "toolUseID": f"agent_{call}"}


def whole(value: Json) -> Lines:
    return [json.dumps(value).encode()]


_ORDINARY = lines(
    user("write a file", permissionMode="default"),
    reply("m1", {"type": "thinking", "thinking": "", "signature": "c2ln"}),
    reply("m1", use("t1", "Write", file_path="/home/dev/project/a.txt", content="a"), perTurnEffort="high"),
    user([result("t1")], toolUseResult={"type": "create", "filePath": "/home/dev/project/a.txt", "durationMs": 3}),
    reply("m1", use("t2", command="ls"), stop_reason="tool_use"),
    user([result("t2"), text("and be quick")]),
    reply("m2", text("Done."), stop_reason="end_turn"),
    system("stop_hook_summary", hookCount=1),
    system("turn_duration", durationMs=900),
)
_MEDIA = lines(
    {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {"trackedFileBackups": {}}},
    user(
        [text("what is this?"), IMAGE, {"type": "document", "source": {"type": "url", "url": "https://example.org/"}}]
    ),
    {"attachment": {"type": "prompt_snapshot", "systemPrompt": ["You"]}, "type": "attachment"},
    {"type": "api-request-blob", "hash": "cb", "message": {"role": "user", "content": [text("body")]}},
    reply("m1", {"type": "redacted_thinking", "data": "x"}, {"type": "server_tool_use", "name": "web_search"}, "bare"),
    reply("m1", use("t1", "NotebookEdit", notebook_path="n.ipynb"), use("t2", "mcp__x__shot")),
    user([result("t1"), result("t2", [text("shot"), IMAGE, {"type": "tool_reference", "tool_name": "X"}])]),
    {"type": "cost-state", "totalCostUSD": 0.25, "modelUsage": {}},
)
_COMMANDS = lines(
    user("<command-message>fix</command-message>\n<command-name>/fix</command-name>\n<command-args>it</command-args>"),
    user([text("Fix it.")], isMeta=True),
    reply("m1", text("Fixed.")),
    user("<command-name>/model</command-name>"),
    user("<local-command-stdout>Set model</local-command-stdout>"),
    user("<local-command-caveat>Caveat: the messages below</local-command-caveat>", isMeta=True),
    system("local_command", content="<local-command-stdout>ok</local-command-stdout>"),
    user("<bash-input>git status</bash-input>"),
    user("<bash-stdout>clean</bash-stdout><bash-stderr></bash-stderr>"),
    reply("m2", text("Clean.")),
)
_PEOPLE = lines(
    user('<teammate-message teammate_id="lead">go on</teammate-message>'),
    reply("m1", use("t1", command="sleep 9"), isAbortedMidStream=True),
    user([result("t1", "[Request interrupted by user for tool use]", is_error=True)], toolDenialKind="user-rejected"),
    user([text("[Request interrupted by user for tool use]")]),
    user("<system-reminder>\nbe kind\n</system-reminder>"),
    user(f"Implement the following plan, see {OTHER}.jsonl", planContent="plan", origin={"kind": "auto-continuation"}),
    reply("m2", text("Planned."), use("t2", command="ls")),
)
_TROUBLE = lines(
    user("start"),
    system("api_error", error={"status": 529, "cause": {"code": "ECONNRESET"}}, retryAttempt=1, maxRetries=10),
    reply("m1", text("API Error: 529"), model="<synthetic>", isApiErrorMessage=True),
    user("unanswered"),
    user("again"),
    reply("m2", use("t1", command="false")),
    user([result("t1", "Exit code 1\nno", is_error=True)], toolUseResult="Error: Exit code 1"),
    reply("m3", text("No response requested."), model="<synthetic>"),
    {"type": "summary", "summary": "Trouble", "leafUuid": "u1"},
)
_COMPACTED = lines(
    user("a long task"),
    reply("m1", text("Working.")),
    system("compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 9}, logicalParentUuid="u0"),
    user("This session is being continued from a previous conversation.", isCompactSummary=True),
    reply("m1", text("Going on.")),
    system("microcompact_boundary", microcompactMetadata={"tokensSaved": 4}),
    user("next"),
    reply("m2", text("Next.")),
)
_BACKGROUND = lines(
    user("delegate"),
    reply("m1", use("t1", "Agent", prompt="look", subagent_type="Explore", run_in_background=True)),
    user(
        [result("t1", [text("launched")])], toolUseResult={"isAsync": True, "status": "async_launched", "agentId": "a1"}
    ),
    reply("m2", text("Started.")),
    user(NOTICE.format("a1", "t1", "completed"), origin={"kind": "task-notification"}, promptId="p2"),
    reply("m3", use("t2", "SendMessage", to="a1", message="more")),
    user([result("t2")], toolUseResult={"agentId": "a1"}),
)
_AGENT = lines(
    user("look"),
    reply("a1m1", use("a1t1", "Task", prompt="deeper", subagent_type="Plan")),
    user([result("a1t1")], toolUseResult={"agentId": "a2", "totalTokens": 4, "usage": USAGE}),
    reply("a1m2", text("Found.")),
    user("more"),
    reply("a1m3", text("No more.")),
    agentId="a1",
    isSidechain=True,
)
_NESTED = lines(user("deeper"), reply("a2m1", text("Deep.")), agentId="a2", isSidechain=True)
_QUEUED = lines(
    queue("enqueue", "go"),
    queue("dequeue"),
    user("go"),
    reply("m1", use("t1", command="sleep 9", run_in_background=True)),
    user([result("t1")], toolUseResult={"backgroundTaskId": "b1"}),
    queue("enqueue", "hurry"),
    queue("remove"),
    {"attachment": {"type": "queued_command", "prompt": "hurry"}, "type": "attachment"},
    {"attachment": {"type": "queued_command", "prompt": NOTICE.format("b1", "t1", "failed")}, "type": "attachment"},
    reply("m2", text("Failed.")),
    queue("enqueue", NOTICE.format("b2", "t1", "completed")),
    queue("popAll"),
)
_WORKFLOW = lines(
    user("run the workflow"),
    reply("m1", use("t1", "Workflow", script="s")),
    user([result("t1")], toolUseResult={"runId": "wf_1", "taskId": "w1", "isAsync": True}),
    system("turn_duration", durationMs=70),
    user(NOTICE.format("w1", "t1", "killed")),
    reply("m2", text("It was killed.")),
)
_STAGE = lines(user("stage"), reply("a3m1", use("a3t1", command="ls")), agentId="a3", isSidechain=True)
_SIDECHAIN = lines(
    user("ask an agent"),
    reply("m1", use("t1", "Task", prompt="first", subagent_type="general-purpose")),
    user("first", isSidechain=True),
    reply("s1", use("st1", command="ls"), isSidechain=True),
    user([result("st1")], isSidechain=True),
    reply("s2", text("Seen."), isSidechain=True),
    user([result("t1")]),
    reply("m2", text("Answered.")),
    version="1.0.51",
)
_PROGRESS = lines(
    user("ask an agent"),
    reply("m1", use("t1", "Task", prompt="look"), use("t2", "Task", prompt="deeper")),
    progress("g1", "t1", user("look", uuid="g1u0", timestamp="2026-01-02T03:04:05Z")),
    progress("g1", "t1", reply("g1m1", use("g1t1", command="ls"), uuid="g1u1", timestamp="2026-01-02T03:04:06Z")),
    progress("g1", "t1", user([result("g1t1")], uuid="g1u2")),
    {"type": "progress", "data": {"type": "bash_progress", "output": "x"}, "toolUseID": "t1"},
    user([result("t1")], toolUseResult={"agentId": "g1", "totalDurationMs": 5}),
    user([result("t2")], toolUseResult={"agentId": "a2"}),
    version="2.0.77",
)
_SIMPLE = [
    b'{"type":"user","content":"list the files","timestamp":"2026-01-02T03:04:05Z"}',
    b'{"message":{"role":"assistant","content":"I will.","timestamp":"2026-01-02T03:04:06Z"}}',
    b'{"type":"tool_use","name":"Bash","input":{"command":"ls"},"timestamp":"2026-01-02T03:04:07Z"}',
    b'{"type":"tool_result","content":"a.txt","timestamp":"2026-01-02T03:04:08Z"}',
    b'{"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"a.txt"}}',
    b'{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"a"}],"is_error":true}',
    b'{"type":"assistant","message":"There is one."}',
    b'{"type":"user","message":"thanks"}{"type":"assistant","message":{"content":"Welcome."}}',
    b'{"role":"user"}',
    b'["no","object"]',
    b"",
]
_COPIED = [
    *lines(
        user("first"), reply("m1", use("t1")), user([result("t1")]), sessionId=OTHER, forkedFrom={"sessionId": OTHER}
    ),
    *lines(user("first"), reply("m1", use("t1")), user([result("t1")]), reply("m1", text("One."))),
    *lines(user("second", uuid="u9"), reply("m2", text("Two."), uuid="u10"), session_id=OTHER, entrypoint="cli"),
]
_META = {"agentType": "Explore", "description": "look around", "toolUseId": "t1", "name": "scout"}
_SUBAGENTS = f"{SESSION}/subagents"

# Each seed is a folder; its first file is the main one.
_MAIN = f"{SESSION}.jsonl"
SEEDS: tuple[dict[str, Lines], ...] = (
    *({_MAIN: part} for part in (_ORDINARY, _MEDIA, _COMMANDS, _PEOPLE, _TROUBLE, _COMPACTED, _QUEUED, _COPIED)),
    {_MAIN: _SIDECHAIN},
    {_MAIN: _PROGRESS, "agent-a2.jsonl": _NESTED},
    {"renamed.jsonl": _SIMPLE},
    {"agent-a1.jsonl": _AGENT},
    {
        _MAIN: _BACKGROUND,
        f"{_SUBAGENTS}/agent-a1.jsonl": _AGENT,
        f"{_SUBAGENTS}/agent-a1.meta.json": whole(_META),
        f"{_SUBAGENTS}/agent-a2.jsonl": _NESTED,
        f"{_SUBAGENTS}/agent-a2.meta.json": whole({"toolUseId": "a1t1", "parentAgentId": "a1"}),
    },
    {
        _MAIN: _WORKFLOW,
        f"{_SUBAGENTS}/workflows/wf_1/agent-a3.jsonl": _STAGE,
        f"{_SUBAGENTS}/workflows/wf_1/journal.jsonl": whole({"agentId": "a3", "label": "build"}),
    },
)
_EVERY_LINE = tuple(line for seed in SEEDS for part in seed.values() for line in part if b'"sessionId"' in line)

# The mutations

# Texts that json.dumps cannot write: they stand for themselves as strings until the line is written.
_RAW = {
    "(deep list)": "[" * 300 + "]" * 300,
    "(deep object)": '{"a":' * 300 + "1" + "}" * 300,
    "(deepest list)": "[" * 5000 + "]" * 5000,
    "(longest number)": "7" * 5000,
}
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 1.5, -0.0, 1e308, 2**63 - 1, 2**64 - 1, 2**64, 10**30, -(10**30)),
    *(float("nan"), float("inf"), [], {}, [[]], [None], [1, "a"], {"type": None}, {"": ""}, USAGE),
    *("", " ", "\n", "\x00", "\ud800", "\udfff\ud800", "\ufeff", "\u2028", "Exit code 99999999999", "../../etc"),
    *("a", "u1", "m1", "t1", "a1", "wf_1", "user", "assistant", "tool_use", "tool_result", "text", "thinking"),
    *("system", "progress", "attachment", "queued_command", "agent_progress", "Warmup", "<synthetic>"),
    *("<task-notification>", "<bash-input>x</bash-input>", "Implement the following plan"),
    *("<command-name>/x</command-name>", "[Request interrupted by user]", "now", "2026-01-02", "20260102T030405Z"),
    *("2026-01-02T03:04:05Z", "9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+23:59", "1970-01-01T00:00:00Z"),
    *_RAW,
)
_BYTES = (b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\r\n", b"\\ud800", b'"', b"{", b"}", b"\\", b"\xc3", b" ")


def slots(value: Any) -> list[Slot]:
    """The places in a value, at any depth; not all in one that is already nested deeply, lest it grow on and on."""
    found: list[Slot] = []
    inner: list[Any] = [value]
    for container in inner:
        if len(inner) > MAX_CONTAINERS:
            break
        for key in container if isinstance(container, dict) else range(len(container)):
            found.append((container, key))
            if isinstance(container[key], dict | list):
                inner.append(container[key])
    return found


def _delete(rng: random.Random, places: list[Slot]) -> None:
    container, key = rng.choice(places)
    del container[key]


def _retype(rng: random.Random, places: list[Slot]) -> None:
    container, key = rng.choice(places)
    container[key] = rng.choice(_VALUES)


def _swap(rng: random.Random, places: list[Slot]) -> None:
    (one, first), (other, second) = rng.choice(places), rng.choice(places)
    one[first], other[second] = other[second], one[first]


def _copy(rng: random.Random, places: list[Slot]) -> None:
    """A value from another line; where it can be, one of the same name, because equal ids and times hurt most."""
    container, key = rng.choice(places)
    others = slots(orjson.loads(rng.choice(_EVERY_LINE)))
    alike = [(other, name) for other, name in others if name == key]
    source, name = rng.choice(alike or others)
    container[key] = source[name]


def _rename(rng: random.Random, places: list[Slot]) -> None:
    container, key = rng.choice(places)
    if isinstance(container, dict):
        container[str(rng.choice(places)[1])] = container.pop(key)


def _reorder(rng: random.Random, places: list[Slot]) -> None:
    """The same line with its keys in another order: what is found by a prefix must be found without it."""
    container = places[0][0]
    for key in rng.sample(list(container), len(container)):
        container[key] = container.pop(key)


# As often as it pays: other types and other lines' values find the most.
_IN_JSON: Sequence[Callable[[random.Random, list[Slot]], None]] = (
    *(_delete, _swap, _rename, _reorder),
    *(_retype, _copy) * 3,
)


def _parsed(line: bytes) -> list[Slot]:
    """The places of a line's object; none where it is not one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return []
    return slots(value) if isinstance(value, dict) else []


def _written(value: Any, *, spaced: bool = False) -> bytes:
    written = json.dumps(value, separators=(", ", ": ") if spaced else (",", ":"))
    for name, raw in _RAW.items():
        written = written.replace(f'"{name}"', raw)
    return written.encode()


def _change_json(rng: random.Random, line: bytes) -> bytes:
    if not (places := _parsed(line)):
        return line
    whole_line = places[0][0]
    rng.choice(_IN_JSON)(rng, places)
    return _written(whole_line, spaced=rng.random() < 0.1)


def _change_everywhere(rng: random.Random, part: Lines) -> None:
    """One field of all lines: no times at all, one id for everything."""
    parsed = [_parsed(line) for line in part]
    names = {name for places in parsed for _, name in places if isinstance(name, str)}
    if not names:
        return
    chosen, value = rng.choice(sorted(names)), rng.choice(_VALUES)
    for at, places in enumerate(parsed):
        for container, name in places:
            if name == chosen:
                container[name] = value
        if places:
            part[at] = _written(places[0][0])


def _change_lines(rng: random.Random, part: Lines) -> None:
    at, other = rng.randrange(len(part)), rng.randrange(len(part))
    match rng.randrange(7):
        case 0:
            del part[at]
        case 1:
            part.insert(other, part[at])
        case 2:
            part[at], part[other] = part[other], part[at]
        case 3:
            part[at] = part[at][: rng.randrange(len(part[at]) + 1)]
        case 4:
            part[at] += part.pop(other) if at < other else rng.choice(_BYTES)
        case 5:
            part.insert(at, rng.choice(_EVERY_LINE))
        case _:
            part.insert(at, part.pop(other))


def _change_bytes(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    match rng.randrange(4):
        case 0:
            return data[:at]
        case 1:
            return rng.choice(_BYTES) + data
        case 2:
            return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        case _:
            return data[:at] + rng.choice(_BYTES) + data[at:]


def mutant(number: int) -> tuple[int, dict[str, bytes]]:
    """Mutant `number`: its seed's index and the files that differ from the seed's."""
    rng = random.Random(number)
    index = rng.randrange(len(SEEDS))
    seed = SEEDS[index]
    names = list(seed)
    changed: dict[str, Lines] = {}
    for _ in range(rng.randint(1, 6)):
        name = names[0] if rng.random() < 0.6 else rng.choice(names)
        part = changed.setdefault(name, [*seed[name]])
        if not part:
            continue
        if (kind := rng.random()) < 0.7:
            at = rng.randrange(len(part))
            part[at] = _change_json(rng, part[at])
        elif kind < 0.95:
            _change_lines(rng, part)
        else:
            _change_everywhere(rng, part)
    files = {name: b"".join(line + b"\n" for line in part) for name, part in changed.items()}
    if rng.random() < 0.25:
        name = rng.choice(list(files))
        files[name] = _change_bytes(rng, files[name])
    return index, files


# The checks


class BrokenError(AssertionError):
    """An invariant does not hold; the message begins with which."""


class Folders:
    """One folder per seed, made once: a mutant writes only the files in which it differs, then puts them back."""

    def __init__(self, root: Path) -> None:
        self._paths = [[root / str(index) / name for name in seed] for index, seed in enumerate(SEEDS)]
        self._seeds = [{name: b"\n".join(part) + b"\n" for name, part in seed.items()} for seed in SEEDS]
        for paths, seed in zip(self._paths, self._seeds, strict=True):
            for path, data in zip(paths, seed.values(), strict=True):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)

    def check(self, index: int, files: dict[str, bytes]) -> None:
        """Check a seed with these files in place of its own."""
        root, seed = self._paths[index][0].parent, self._seeds[index]
        try:
            for name, data in files.items():
                (root / name).write_bytes(data)
            check(self._paths[index][0])
        finally:
            for name in files:
                (root / name).write_bytes(seed[name])


def check(transcript: Path) -> None:
    """Build a session's spans and rows, twice, and check what must hold for any transcript whatever."""
    spans, facts = _built(transcript)
    rows = _rows(spans, facts)
    again = _built(transcript)
    # Rows are made from nothing else; only a NaN differs from itself.
    if (spans, facts) != again and rows != _rows(*again):
        message = "building twice gives different rows"
        raise BrokenError(message)
    seen: dict[str, Span] = {}
    messages: set[str] = set()
    for span in spans:
        for rule, broken in _broken(span, seen, messages, facts.session_id):
            if broken:
                message = f"{rule} ({span.kind}): {span.name!r} {span.span_id}"
                raise BrokenError(message)
        seen[span.span_id] = span
        if span.response is not None and span.response.message_id is not None:
            messages.add(span.response.message_id)


def _built(transcript: Path) -> tuple[list[Span], Facts]:
    session = Session(transcript)
    return list(session.spans()), session.facts


def _rows(spans: list[Span], facts: Facts) -> bytes:
    return b"".join([*(orjson.dumps(span_row(span)) for span in spans), orjson.dumps(session_row(facts))])


def _broken(span: Span, seen: dict[str, Span], messages: set[str], session_id: str) -> Iterator[tuple[str, bool]]:
    parent = seen.get(span.parent_id or "")
    yield "span id not unique", span.span_id in seen
    yield "no parent before it", parent is None and (span.parent_id is not None or span.kind != "turn")
    yield "parent in another trace", parent is not None and parent.trace_id != span.trace_id
    yield "end before start", span.start_ns is not None and span.end_ns is not None and span.end_ns < span.start_ns
    yield "not of the session", not span.session_id or span.session_id != session_id
    yield "message id in two generations", span.response is not None and span.response.message_id in messages


# The runs


def failure(folders: Folders, index: int, files: dict[str, bytes]) -> tuple[str, str] | None:
    """What is wrong with a mutant: a short name that is the same for the same cause, and the whole story."""
    try:
        folders.check(index, files)
    except BrokenError as error:
        return str(error).split(":", 1)[0], str(error)
    except Exception as error:  # noqa: BLE001  (any exception at all is what is looked for)
        where = traceback.extract_tb(error.__traceback__)[-1]
        name = f"{type(error).__name__} in {where.name}: {str(error)[:40]}"
        return name, traceback.format_exc()
    return None


def shrunk(folders: Folders, index: int, files: dict[str, bytes], name: str) -> dict[str, bytes]:
    """The same failure with as few lines and fields as are found by leaving out one after the other."""
    kept = {path: b"\n".join(part) + b"\n" for path, part in SEEDS[index].items()} | files
    before: dict[str, bytes] = {}
    while before != kept:
        before = kept
        for tried in ({**before, path: smaller} for path, data in before.items() for smaller in _smaller(data)):
            found = failure(folders, index, tried)
            if found is not None and found[0] == name:
                kept = tried
                break
    return kept


def _smaller(data: bytes) -> Iterator[bytes]:
    part = data.splitlines(keepends=True)
    for at in range(len(part)):
        yield b"".join(part[:at] + part[at + 1 :])
    for at, line in enumerate(part):
        for place in range(len(_parsed(line))):
            places = _parsed(line)
            container, key = places[place]
            del container[key]
            yield b"".join([*part[:at], _written(places[0][0]), b"\n", *part[at + 1 :]])


@cache
def _folders(root: Path, process: int) -> Folders:
    return Folders(root / str(process))


def failures(root: Path, numbers: range) -> list[tuple[int, str]]:
    """The mutants among these that fail, each with the name of what is wrong; its folders are made below `root`."""
    folders = _folders(root, os.getpid())
    found = ((number, failure(folders, *mutant(number))) for number in numbers)
    return [(number, wrong[0]) for number, wrong in found if wrong is not None]


def main() -> int:
    """Run `--count` mutants from `--seed` on, on all cores."""
    parser = argparse.ArgumentParser(description="Check mutated transcripts.")
    parser.add_argument("--seed", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--count", type=int, default=10_000, help="how many mutants")
    options = parser.parse_args()
    gc.freeze()  # modules are no garbage: not looking through them saves a tenth of the time
    memory = Path("/dev/shm")  # noqa: S108  (a file system in memory, where there is one; the folder in it is private)
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        return _run(Path(name), options.seed, options.count)


def _run(root: Path, first: int, count: int) -> int:
    chunks = [range(at, min(at + CHUNK, first + count)) for at in range(first, first + count, CHUNK)]
    wrong: dict[str, list[int]] = {}
    done = failed = 0
    began = time.perf_counter()
    with multiprocessing.Pool(min(os.cpu_count() or 1, len(chunks))) as pool:
        for chunk, found in zip(chunks, pool.imap(partial(failures, root), chunks), strict=True):
            for number, name in found:
                wrong.setdefault(name, []).append(number)
            done, failed = done + len(chunk), failed + len(found)
            if done % (20 * CHUNK) == 0:
                print(f"{done:>9,} of {count:,} mutants, {failed} failed", flush=True)
    seconds = time.perf_counter() - began
    for name, numbers in sorted(wrong.items(), key=lambda item: -len(item[1])):
        _tell(root, name, numbers)
    print(f"{count:,} mutants in {seconds:.1f} s, {count / seconds:,.0f} per second, {failed} failed")
    return 1 if wrong else 0


def _tell(root: Path, name: str, numbers: list[int]) -> None:
    """Print one kind of failure: how to repeat it, and the files of its first mutant with as few lines as will do."""
    folders = _folders(root, os.getpid())
    index, files = mutant(numbers[0])
    small = shrunk(folders, index, files, name)
    print(f"\n== {name}: {len(numbers)} mutants; repeat with --seed {numbers[0]} --count 1")
    story = failure(folders, index, small)
    print(story[1] if story is not None else "it did not fail again")
    for path, data in small.items():
        print(f"-- {path}")
        for line in data.split(b"\n"):
            print(line.decode("utf-8", "backslashreplace")[:MAX_SHOWN])


if __name__ == "__main__":
    sys.exit(main())
