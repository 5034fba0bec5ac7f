"""One line of a transcript as an Entry."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import orjson

from cc_trace.transcript.blocks import (
    blocks,
    compact_json,
    count,
    mapping,
    plain_text,
    string,
    tool_result,
    tool_use,
    usage,
)
from cc_trace.transcript.entries import (
    CommandOutput,
    Compaction,
    Context,
    Entry,
    Goal,
    Head,
    Progress,
    Queue,
    QueuedPrompt,
    Reply,
    Results,
    Retry,
    Skipped,
    StructuredOutput,
    Totals,
    TurnEnd,
    new,
)
from cc_trace.transcript.user_lines import notification, user_entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cc_trace.transcript.entries import JsonValue
    from cc_trace.transcript.lines import Line

# Line types that are read. All others are stepped over by a look at their first bytes: in 2.1.325 one word's answer
# writes 250 KB of request bodies and prompt snapshots.
_READ: Final = frozenset(
    {b"user", b"assistant", b"system", b"progress", b"queue-operation", b"cost-state", b"attachment"}
)
_READ_SIMPLE: Final = frozenset({b"tool_use", b"tool_result"})
_READ_ATTACHMENTS: Final = frozenset({b"queued_command", b"structured_output", b"goal_status"})
_MAX_TYPE: Final = 64
_ENDS: Final = 16_384
KNOWN_IGNORED: Final = frozenset(
    {
        "agent-name",
        "agent-color",
        "agent-setting",
        "ai-title",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "attribution-snapshot",
        "content-replacement",
        "custom-title",
        "file-history-delta",
        "file-history-snapshot",
        "last-prompt",
        "marble-origami-commit",
        "marble-origami-snapshot",
        "mode",
        "permission-mode",
        "pr-link",
        "result",
        "speculation-accept",
        "summary",
        "tag",
        "task-summary",
        "tools-used",
        "worktree-state",
    }
)


def skippable(data: bytes) -> str | None:
    """Name a line that can be stepped over without parsing it; None: it must be parsed.

    What looks like two objects on one line is parsed: the second one may be a prompt.
    """
    reason = _reason(data)
    return None if reason is None or _several(data) else reason


def _several(data: bytes) -> bool:
    """Look for a second object near both ends: looking through all of a request body takes as long as parsing it."""
    return data.find(b'}{"', 0, _ENDS) >= 0 or data.find(b'}{"', max(_ENDS, len(data) - _ENDS) - 2) >= 0


def _reason(data: bytes) -> str | None:
    """Name a line of a type that is not read by its first bytes.

    The first `"type":"` is the line's own when only one brace is open before it; quotes inside strings are escaped.
    """
    at = data.find(b'"type":"', 0, 4096)
    if at < 0:
        return None
    depth = data.count(b"{", 0, at)
    inside = depth == 2 and data.endswith(b'"attachment":{', 0, at)  # noqa: PLR2004
    end = data.find(b'"', at + 8, at + 8 + _MAX_TYPE) if depth == 1 or inside else -1
    if end < 0:
        return None
    kind = data[at + 8 : end]
    if depth == 1:
        if kind in _READ:
            if kind != b"progress" or b'"type":"agent_progress"' in data:
                return None
            return "progress"
        return None if kind in _READ_SIMPLE else ignored(kind.decode("ascii", "replace"))
    return None if kind in _READ_ATTACHMENTS else f"attachment/{kind.decode('ascii', 'replace')}"


def ignored(kind: str) -> str:
    """Return what a line of a type that is not read is counted under."""
    return kind if kind in KNOWN_IGNORED else f"unknown type {kind[:_MAX_TYPE]}"


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_PER_DAY: Final = 86_400
_MAX_NS: Final = (1 << 63) - 1  # what backends and SQLite can hold: the year 2262

_NO_RESPONSE: Final = "No response requested."
_COMPACTION_FACTS: Final = ("trigger", "preTokens", "postTokens", "tokensSaved", "durationMs")
_RETRY_FACTS: Final = ("retryAttempt", "maxRetries", "retryInMs", "source")


def parse(line: Line) -> Sequence[Entry]:
    """Return what a line holds: nothing for a blank one, several entries where several objects share the line."""
    offset, number, data, torn = line
    if data is None:
        return (Skipped(None, "line too long"),)
    if (kind := skippable(data)) is not None:
        return _skipped(kind)
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        return (Skipped(None, "torn last line"),) if torn else _repaired(data, line)
    return (entry(raw, offset, number) if isinstance(raw, dict) else Skipped(None, "not an object"),)


@lru_cache(maxsize=256)
def _skipped(kind: str) -> tuple[Skipped]:
    """Share what is the same on many lines."""
    return (Skipped(None, kind),)


def _repaired(data: bytes, line: Line) -> Sequence[Entry]:
    """Return what a line holds that strict JSON refuses, and count the damage."""
    text = data.replace(b"\x00", b"").decode("utf-8", "replace").lstrip("\ufeff").strip()
    found: list[dict[str, Any]] = []
    decoder, at = json.JSONDecoder(strict=False, parse_int=_integer), 0
    try:
        while at < len(text):
            value, at = decoder.raw_decode(text, at)
            while at < len(text) and text[at].isspace():
                at += 1
            if isinstance(value, dict):
                found.append(_without_surrogates(value))
    except (ValueError, RecursionError):
        pass  # what stood whole before the damage counts
    if not found:
        return (Skipped(None, "damaged line"),) if data.strip() else ()
    reason = "several objects on one line" if len(found) > 1 else "repaired line"
    return (Skipped(None, reason), *(entry(raw, line.offset, line.number) for raw in found))


def _integer(text: str) -> int | float:
    """Read a whole number as orjson does: beyond 64 bits as a float."""
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 64 else float(text)


def _without_surrogates(value: dict[str, Any]) -> dict[str, Any]:
    """Replace lone surrogates, which no backend's UTF-8 can carry."""
    clean: dict[str, Any] = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return clean


def entry(raw: dict[str, Any], offset: int, number: int) -> Entry:
    """Return what one JSON object of a transcript is."""
    kind, message = raw.get("type"), raw.get("message")
    inner: dict[str, Any] = message if isinstance(message, dict) else {}
    if not isinstance(kind, str):
        kind = inner.get("role")
    head = _head(raw, inner, offset, number)
    content = inner.get("content") if inner else (message if isinstance(message, str) else raw.get("content"))
    match kind:
        case "assistant":
            return _reply(raw, inner, content, head)
        case "user":
            return user_entry(raw, content, head)
        case "system":
            return _system(raw, head)
        case "tool_use":
            return Reply(head, None, None, None, (tool_use(raw),), None, None)
        case "tool_result":
            return Results(head, (tool_result(raw, raw, alone=True),), None)
        case "progress":
            return _progress(raw, head)
        case "queue-operation":
            return Queue(head, string(raw, "operation") or "", string(raw, "content"))
        case "attachment":
            return _attachment(mapping(raw, "attachment"), head)
        case "cost-state":
            cost = raw.get("totalCostUSD")
            return Totals(head, float(cost) if isinstance(cost, int | float) else None)
        case str():
            return Skipped(head, ignored(kind))
        case _:
            return Skipped(head, "no type")


def _head(raw: dict[str, Any], inner: dict[str, Any], offset: int, number: int) -> Head:
    get = raw.get
    time, uuid, parent = get("timestamp") or inner.get("timestamp"), get("uuid"), get("parentUuid")
    forked, agent, prompt, origin = get("forkedFrom"), get("agentId"), get("promptId"), get("origin")
    values = (
        get("sessionId"),
        get("session_id"),
        None if forked is None else _forked_from(forked),
        get("cwd"),
        get("gitBranch"),
        get("version"),
        get("slug"),
        get("entrypoint"),
    )
    try:
        context = _context(values)
    except TypeError:  # a list or object where a string belongs cannot be looked up
        context = _context(tuple(value if isinstance(value, str) else None for value in values))
    if not isinstance(uuid, str):
        uuid = None
    if not isinstance(parent, str):
        parent = None
    if agent is not None and not isinstance(agent, str):
        agent = None
    if prompt is not None and not isinstance(prompt, str):
        prompt = None
    time_ns = parse_time(time) if isinstance(time, str) else None
    said_by = None if origin is None else string(mapping(raw, "origin"), "kind")
    sidechain = get("isSidechain") is True
    return new(Head, (offset, number, time_ns, uuid, parent, sidechain, agent, prompt, context, said_by))


def _forked_from(forked: Any) -> Any:
    return forked.get("sessionId") if isinstance(forked, dict) else None


@lru_cache(maxsize=256)
def _context(values: tuple[object, ...]) -> Context:
    """Share equal contexts: they are the same on thousands of lines."""
    return Context(*(value if isinstance(value, str) and value else None for value in values))


def parse_time(text: str) -> int | None:
    """Return unix nanoseconds; None for what is no time, or lies outside what a span can carry."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - _EPOCH
    nanoseconds = (since.days * _SECONDS_PER_DAY + since.seconds) * 1_000_000_000 + since.microseconds * 1000
    return nanoseconds if 0 <= nanoseconds <= _MAX_NS else None


def _reply(raw: dict[str, Any], inner: dict[str, Any], content: object, head: Head) -> Entry:
    get = raw.get
    if get("isMeta") is True:
        return Skipped(head, "meta response")
    model, tokens = string(inner, "model"), inner.get("usage")
    synthetic, failed = model == "<synthetic>", get("isApiErrorMessage") is True
    error: str | None = None
    if synthetic or failed:
        text = plain_text(content).strip()
        if failed or not (text == _NO_RESPONSE or text.startswith("[Request interrupted")):
            error = text or "API error"
    details: dict[str, Any] = tokens if isinstance(tokens, dict) else {}
    return new(
        Reply,
        (
            head,
            string(inner, "id"),
            string(raw, "requestId"),
            None if synthetic else model,
            blocks(content),
            usage(tokens),
            string(inner, "stop_reason"),
            get("isAbortedMidStream") is True,
            synthetic,
            error,
            string(raw, "perTurnEffort"),
            string(details, "speed"),
            string(details, "service_tier"),
        ),
    )


def _system(raw: dict[str, Any], head: Head) -> Entry:
    match raw.get("subtype"):
        case "turn_duration":
            return TurnEnd(head, count(raw, "durationMs"))
        case "stop_hook_summary":
            return TurnEnd(head, None)
        case "compact_boundary":
            return Compaction(head, None, _facts(mapping(raw, "compactMetadata"), _COMPACTION_FACTS))
        case "microcompact_boundary":
            facts = _facts(mapping(raw, "microcompactMetadata"), _COMPACTION_FACTS)
            return Compaction(head, None, {"micro": True, **facts})
        case "api_error":
            return Retry(head, _retry_message(raw), _facts(raw, _RETRY_FACTS))
        case "local_command" if "<local-command-std" in plain_text(raw.get("content")):
            return CommandOutput(head, plain_text(raw.get("content")))
        case str(subtype):
            return Skipped(head, f"system/{subtype}")
        case _:
            return Skipped(head, "system")


def _facts(raw: dict[str, Any], keys: tuple[str, ...]) -> dict[str, JsonValue]:
    return {key: value for key in keys if isinstance(value := raw.get(key), str | int | float)}


def _retry_message(raw: dict[str, Any]) -> str:
    error = raw.get("error")
    if isinstance(error, str):
        return error
    details: dict[str, Any] = error if isinstance(error, dict) else {}
    status = details.get("status")
    cause = string(details, "message") or string(mapping(details, "cause"), "code") or string(raw, "content")
    return cause or (f"HTTP {status}" if isinstance(status, int) else "request failed")


def _progress(raw: dict[str, Any], head: Head) -> Entry:
    data = mapping(raw, "data")
    line = data.get("message")
    if data.get("type") != "agent_progress" or not isinstance(line, dict):
        return Skipped(head, "progress")
    agent_id = string(data, "agentId")
    call = string(raw, "parentToolUseID")
    return Progress(head, agent_id, call, entry({**line, "isSidechain": False}, head.offset, head.number))


def _attachment(raw: dict[str, Any], head: Head) -> Entry:
    match raw:
        case {"type": "structured_output", "data": data}:
            return StructuredOutput(head, compact_json(data), string(raw, "toolUseID"))
        case {"type": "goal_status", "met": bool(met)}:
            return Goal(head, met)
        case {"type": "queued_command"}:
            return _queued(raw, head)
        case _:
            return Skipped(head, f"attachment/{raw.get('type')}")


def _queued(raw: dict[str, Any], head: Head) -> Entry:
    text = plain_text(raw.get("prompt"))
    if raw.get("commandMode") == "task-notification" or "-notification>" in text[:40]:
        return notification(text, head)
    if not text.strip():
        return Skipped(head, "attachment/queued_command")
    return QueuedPrompt(head._replace(origin=string(mapping(raw, "origin"), "kind") or head.origin), text)
