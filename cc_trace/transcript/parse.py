"""One line of a transcript as an Entry.

`_READERS` and `_ATTACHMENT_READERS`, at the end, list what is read. A line of a type without a reader is counted and
skipped, mostly by its first bytes and without parsing it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import orjson

from cc_trace.transcript.blocks import (
    advisors,
    blocks,
    compact_json,
    count_field,
    object_field,
    plain_text,
    text_field,
    tool_result,
    tool_use,
    usage,
)
from cc_trace.transcript.entries import (
    CommandOutput,
    Compaction,
    Context,
    Entry,
    FileChange,
    Goal,
    Head,
    ModeChange,
    ModelTotals,
    Notification,
    Progress,
    Queue,
    QueuedPrompt,
    Reply,
    RequestSent,
    Results,
    Retry,
    RunFacts,
    SessionNote,
    Skipped,
    StructuredOutput,
    Totals,
    TurnEnd,
    TurnLimit,
    make_tuple,
)
from cc_trace.transcript.hooks import hook, stop_hooks
from cc_trace.transcript.run_facts import run_facts
from cc_trace.transcript.user_lines import notification, notifications, user_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cc_trace.transcript.entries import JsonValue
    from cc_trace.transcript.lines import Line

_MAX_TYPE: Final = 64
_ENDS: Final = 16_384  # bytes at either end of a line that are searched for a second object
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MAX_NS: Final = (1 << 63) - 1  # the most that backends and SQLite can store: the year 2262
_HOOK: Final = "hook_"  # prefix of the types of hook attachments
_NO_RESPONSE: Final = "No response requested."
_COMPACTION_KEYS: Final = ("trigger", "preTokens", "postTokens", "tokensSaved", "durationMs")
_RETRY_KEYS: Final = ("retryAttempt", "maxRetries", "retryInMs", "source")
# Types with nothing for a trace. Any other type without a reader is unknown, and doctor reports it.
KNOWN_IGNORED: Final = frozenset(
    {
        "agent-name",
        "agent-color",
        "agent-setting",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "attribution-snapshot",
        "content-replacement",
        "file-history-snapshot",
        "last-prompt",
        "marble-origami-commit",
        "marble-origami-snapshot",
        "mode",
        "result",
        "speculation-accept",
        "tag",
        "task-summary",
        "tools-used",
    }
)


def skippable(data: bytes) -> str | None:
    """Return the reason to skip a line without parsing it, or None if it must be parsed.

    A line that may hold two objects is parsed: the second one may be a prompt.
    """
    reason = _reason(data)
    return None if reason is None or _several(data) else reason


def _several(data: bytes) -> bool:
    """Return whether a line may hold two objects.

    Only its ends are searched: scanning a whole request body takes as long as parsing it.
    """
    return data.find(b'}{"', 0, _ENDS) >= 0 or data.find(b'}{"', max(_ENDS, len(data) - _ENDS) - 2) >= 0


def _reason(data: bytes) -> str | None:
    """Return the reason to skip a line, from its first bytes: 2.1.325 writes 250 KB of requests for a one-word answer.

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
    kind = data[at + 8 : end].decode("ascii", "replace")
    if inside:
        return None if kind in _ATTACHMENT_READERS or kind.startswith(_HOOK) else f"attachment/{kind}"
    if kind == "progress" and b'"type":"agent_progress"' not in data:
        return kind
    return None if kind in _READERS else ignored(kind)


def ignored(kind: str) -> str:
    """Return the name under which to count a line of a type without a reader."""
    return kind if kind in KNOWN_IGNORED else f"unknown type {kind[:_MAX_TYPE]}"


def parse(line: Line) -> Sequence[Entry]:
    """Return a line's entries: none for a blank line, several if several objects share the line."""
    offset, number, data, torn = line
    if data is None:
        return (Skipped(None, "line too long"),)
    if (kind := skippable(data)) is not None:
        return _skipped(kind)
    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        return (Skipped(None, "torn last line"),) if torn else _repaired(data, line)
    if not isinstance(raw, dict):
        return (Skipped(None, "not an object"),)
    parsed = entry(raw, offset, number)
    return notifications(parsed.text, parsed.head) if type(parsed) is Notification else (parsed,)


@lru_cache(maxsize=256)
def _skipped(kind: str) -> tuple[Skipped]:
    """Return a shared object for each reason: many lines are skipped for the same one."""
    return (Skipped(None, kind),)


def _repaired(data: bytes, line: Line) -> Sequence[Entry]:
    """Return what can be recovered from a line that is not strict JSON, and a Skipped entry that counts it."""
    objects = [value for value in read_damaged(data) if isinstance(value, dict)]
    if not objects:
        return (Skipped(None, "malformed line"),) if data.strip() else ()
    reason = "several objects on one line" if len(objects) > 1 else "repaired line"
    return (Skipped(None, reason), *(entry(raw, line.offset, line.number) for raw in objects))


def read_damaged(data: bytes) -> list[Any]:
    """Return the complete values at the beginning of a text that is not strict JSON, without lone surrogates."""
    text = data.replace(b"\x00", b"").decode("utf-8", "replace").lstrip("\ufeff").strip()
    values: list[Any] = []
    decoder, at = json.JSONDecoder(strict=False, parse_int=_integer), 0
    try:
        while at < len(text):
            value, at = decoder.raw_decode(text, at)
            while at < len(text) and text[at].isspace():
                at += 1
            values.append(_without_surrogates(value))
    except (ValueError, RecursionError):
        pass  # keep the complete values before the damage
    return values


def _integer(text: str) -> int | float:
    """Parse an integer as orjson does: beyond 64 bits as a float."""
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 64 else float(text)


def _without_surrogates(value: Any) -> Any:
    """Replace lone surrogates, which cannot be encoded as UTF-8."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def entry(raw: dict[str, Any], offset: int, number: int) -> Entry:
    """Return the entry for one JSON object of a transcript."""
    kind, message = raw.get("type"), object_field(raw, "message")
    if not isinstance(kind, str):
        kind = message.get("role")
    head = _head(raw, message, offset, number)
    if not isinstance(kind, str):
        return Skipped(head, "no type")
    read = _READERS.get(kind)
    return Skipped(head, ignored(kind)) if read is None else read(raw, head)


def _head(raw: dict[str, Any], inner: dict[str, Any], offset: int, number: int) -> Head:
    get = raw.get
    time, uuid, parent = get("timestamp") or inner.get("timestamp"), get("uuid"), get("parentUuid")
    agent, prompt = get("agentId"), get("promptId")
    values = (
        get("sessionId"),
        get("session_id"),
        text_field(object_field(raw, "forkedFrom"), "sessionId") if "forkedFrom" in raw else None,
        get("cwd"),
        get("gitBranch"),
        get("version"),
        get("slug"),
        get("entrypoint"),
        get("streamTimes"),
        get("partialUsage"),
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
    author = text_field(object_field(raw, "origin"), "kind") if "origin" in raw else None
    sidechain = get("isSidechain") is True
    return make_tuple(Head, (offset, number, time_ns, uuid, parent, sidechain, agent, prompt, context, author))


@lru_cache(maxsize=256)
def _context(values: tuple[object, ...]) -> Context:
    """Return one object for equal contexts: thousands of lines have the same one."""
    # No real value has a NUL, and no path or id with one can be used.
    return Context(*(value if isinstance(value, str) and value and "\0" not in value else None for value in values))


def parse_time(text: str) -> int | None:
    """Return unix nanoseconds, or None if the text is not a time or out of range for a span."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    nanoseconds = (moment - _EPOCH) // _MICROSECOND * 1000
    return nanoseconds if 0 <= nanoseconds <= _MAX_NS else None


def line_time(line: Line) -> int | None:
    """Return the timestamp of a line of any type, or None if it has none."""
    try:
        raw = orjson.loads(line.data or b"")
    except orjson.JSONDecodeError:
        return None
    time = raw.get("timestamp") if isinstance(raw, dict) else None
    return parse_time(time) if isinstance(time, str) else None


def _content(raw: dict[str, Any]) -> object:
    """Return a user or assistant line's content, from `message` (an object or plain text) or from the line itself."""
    message = raw.get("message")
    if message and isinstance(message, dict):
        return message.get("content")
    return message if isinstance(message, str) else raw.get("content")


def _user(raw: dict[str, Any], head: Head) -> Entry:
    return user_entry(raw, _content(raw), head)


def _reply(raw: dict[str, Any], head: Head) -> Entry:
    get = raw.get
    if get("isMeta") is True:
        return Skipped(head, "meta response")
    inner = object_field(raw, "message")
    content = inner.get("content") if inner else _content(raw)
    model, tokens = text_field(inner, "model"), inner.get("usage")
    synthetic, failed = model == "<synthetic>", get("isApiErrorMessage") is True
    error: str | None = None
    if synthetic or failed:
        text = plain_text(content).strip()
        if failed or not (text == _NO_RESPONSE or text.startswith("[Request interrupted")):
            error = text or "API error"
    details: dict[str, Any] = tokens if isinstance(tokens, dict) else {}
    return make_tuple(
        Reply,
        (
            head,
            text_field(inner, "id"),
            text_field(raw, "requestId"),
            None if synthetic else model,
            blocks(content),
            usage(tokens),
            text_field(inner, "stop_reason"),
            get("isAbortedMidStream") is True,
            synthetic,
            error,
            text_field(raw, "perTurnEffort"),
            text_field(details, "speed"),
            text_field(details, "service_tier"),
            advisors(tokens) if "iterations" in details else (),
            text_field(raw, "requestRef"),
            _milliseconds(get("thinkingDurationMs")) if "thinkingDurationMs" in raw else None,
            _milliseconds(get("toolInputStreamMs")) if "toolInputStreamMs" in raw else None,
            count_field(raw, "apiErrorStatus") or None if failed else None,
            text_field(raw, "apiErrorType") if failed else None,
        ),
    )


def _milliseconds(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None


def _request_sent(raw: dict[str, Any], head: Head) -> Entry:
    if (id_ := text_field(raw, "id")) is None:
        return Skipped(head, "api-request")
    params = object_field(raw, "params")
    thinking, betas, points = object_field(params, "thinking"), params.get("betas"), raw.get("cacheControl")
    metadata: dict[str, JsonValue] = {
        "requested_model": text_field(params, "model"),
        "max_tokens": count_field(params, "max_tokens") or None,
        "thinking": text_field(thinking, "type"),
        "thinking_budget": count_field(thinking, "budget_tokens") or None,
        "betas": [beta for beta in betas if isinstance(beta, str)] if isinstance(betas, list) else None,
        "query_source": text_field(raw, "querySource"),
        "effort": text_field(object_field(params, "output_config"), "effort"),
        "cache_breakpoints": len(points) if isinstance(points, list) else None,
    }
    tail = raw.get("tail")
    messages = count_field(raw, "keep") + (len(tail) if isinstance(tail, list) else 0)
    return RequestSent(head, id_, {name: value for name, value in metadata.items() if value is not None}, messages)


def _system(raw: dict[str, Any], head: Head) -> Entry:
    match raw.get("subtype"):
        case "turn_duration":
            return TurnEnd(head, count_field(raw, "durationMs"))
        case "run":
            return RunFacts(head, run_facts(object_field(raw, "init"), object_field(raw, "result")))
        case "stop_hook_summary":
            return TurnEnd(head, None, stop_hooks(raw))
        case "compact_boundary":
            return Compaction(head, None, _scalars(object_field(raw, "compactMetadata"), _COMPACTION_KEYS))
        case "microcompact_boundary":
            metadata = _scalars(object_field(raw, "microcompactMetadata"), _COMPACTION_KEYS)
            return Compaction(head, None, {"micro": True, **metadata})
        case "api_error":
            error = object_field(raw, "error")
            status, request_id = count_field(error, "status") or None, text_field(error, "requestId")
            return Retry(
                head=head,
                message=_retry_message(raw),
                metadata=_scalars(raw, _RETRY_KEYS),
                status=status,
                request_id=request_id,
            )
        case "local_command" if "<local-command-std" in plain_text(raw.get("content")):
            return CommandOutput(head, plain_text(raw.get("content")))
        case str(subtype):
            return Skipped(head, f"system/{subtype}")
        case _:
            return Skipped(head, "system")


def _scalars(raw: dict[str, Any], keys: tuple[str, ...]) -> dict[str, JsonValue]:
    return {key: value for key in keys if isinstance(value := raw.get(key), str | int | float)}


def _retry_message(raw: dict[str, Any]) -> str:
    error = raw.get("error")
    if isinstance(error, str):
        return error
    details: dict[str, Any] = error if isinstance(error, dict) else {}
    status = details.get("status")
    cause = (
        text_field(details, "message")
        or text_field(object_field(details, "cause"), "code")
        or text_field(raw, "content")
    )
    return cause or (f"HTTP {status}" if isinstance(status, int) else "request failed")


def _progress(raw: dict[str, Any], head: Head) -> Entry:
    data = object_field(raw, "data")
    line = data.get("message")
    if data.get("type") != "agent_progress" or not isinstance(line, dict):
        return Skipped(head, "progress")
    agent_id = text_field(data, "agentId")
    call = text_field(raw, "parentToolUseID")
    return Progress(head, agent_id, call, entry({**line, "isSidechain": False}, head.offset, head.number))


def _tool_use(raw: dict[str, Any], head: Head) -> Entry:
    """Read a tool call on its own line, as in the simplest format."""
    return Reply(
        head=head, message_id=None, request_id=None, model=None, blocks=(tool_use(raw),), usage=None, stop_reason=None
    )


def _tool_result(raw: dict[str, Any], head: Head) -> Entry:
    """Read a tool result on its own line, as in the simplest format."""
    return Results(head, (tool_result(raw, raw, alone=True),), None)


def _queue(raw: dict[str, Any], head: Head) -> Entry:
    return Queue(head, text_field(raw, "operation") or "", text_field(raw, "content"))


def _totals(raw: dict[str, Any], head: Head) -> Entry:
    cost, models = raw.get("totalCostUSD"), object_field(raw, "modelUsage")
    totals = {model: _model_totals(counts) for model, counts in models.items() if isinstance(counts, dict)}
    return Totals(head, float(cost) if isinstance(cost, int | float) else None, totals)


def _model_totals(counts: dict[str, Any]) -> ModelTotals:
    cost, cache_write_1h = counts.get("costUSD"), count_field(counts, "cacheCreationEphemeral1hInputTokens")
    return ModelTotals(
        input=count_field(counts, "inputTokens"),
        output=count_field(counts, "outputTokens"),
        cache_read=count_field(counts, "cacheReadInputTokens"),
        cache_write_5m=max(0, count_field(counts, "cacheCreationInputTokens") - cache_write_1h),
        cache_write_1h=cache_write_1h,
        cost_usd=float(cost) if isinstance(cost, int | float) else 0.0,
    )


def _mode(raw: dict[str, Any], head: Head) -> Entry:
    mode = text_field(raw, "permissionMode")
    return Skipped(head, "permission-mode") if mode is None else ModeChange(head, mode)


def _file_change(raw: dict[str, Any], head: Head) -> Entry:
    path = text_field(raw, "trackingPath")
    return Skipped(head, "file-history-delta") if path is None else FileChange(head, path, text_field(raw, "messageId"))


def _session_note(raw: dict[str, Any], head: Head) -> Entry:
    match raw:
        case {"type": "custom-title", "customTitle": str(title)}:
            return SessionNote(head, "custom-title", title)
        case {"type": "ai-title", "aiTitle": str(title)}:
            return SessionNote(head, "ai-title", title)
        case {"type": "summary", "summary": str(title)}:
            return SessionNote(head, "summary", title, text_field(raw, "leafUuid"))
        case {"type": "pr-link"}:
            link = {"number": count_field(raw, "prNumber") or None, "url": text_field(raw, "prUrl")}
            return SessionNote(head, "pr-link", {**link, "repository": text_field(raw, "prRepository")})
        case {"type": "worktree-state"}:
            tree = object_field(raw, "worktreeSession")  # null: the session left the worktree
            names = ("originalCwd", "worktreePath", "worktreeName")
            return SessionNote(head, "worktree-state", {name: text_field(tree, name) for name in names})
        case _:
            return Skipped(head, str(raw.get("type")))


def _attachment(raw: dict[str, Any], head: Head) -> Entry:
    attachment = object_field(raw, "attachment")
    kind = attachment.get("type")
    read = _ATTACHMENT_READERS.get(kind) if isinstance(kind, str) else None
    parsed = None if read is None else read(attachment, head)
    if parsed is None and isinstance(kind, str) and kind.startswith(_HOOK):
        parsed = hook(attachment, raw, head)
    return Skipped(head, f"attachment/{kind}") if parsed is None else parsed


def _turn_limit(raw: dict[str, Any], head: Head) -> Entry | None:
    return TurnLimit(head, count_field(raw, "maxTurns"))


def _structured_output(raw: dict[str, Any], head: Head) -> Entry | None:
    return StructuredOutput(head, compact_json(raw["data"]), text_field(raw, "toolUseID")) if "data" in raw else None


def _goal(raw: dict[str, Any], head: Head) -> Entry | None:
    met = raw.get("met")
    return Goal(head, met) if isinstance(met, bool) else None


def _queued(raw: dict[str, Any], head: Head) -> Entry | None:
    text = plain_text(raw.get("prompt"))
    if raw.get("commandMode") == "task-notification" or "-notification>" in text[:40]:
        return notification(text, head)
    if not text.strip():
        return None
    return QueuedPrompt(head._replace(origin=text_field(object_field(raw, "origin"), "kind") or head.origin), text)


# Every line type that is read. Each becomes a member of `Entry`, and mypy checks that turns/assembler handles it.
_READERS: Final[dict[str, Callable[[dict[str, Any], Head], Entry]]] = {
    "user": _user,
    "assistant": _reply,
    "system": _system,
    "progress": _progress,
    "queue-operation": _queue,
    "attachment": _attachment,
    "cost-state": _totals,
    "api-request": _request_sent,
    "permission-mode": _mode,
    "file-history-delta": _file_change,
    "custom-title": _session_note,
    "ai-title": _session_note,
    "summary": _session_note,
    "pr-link": _session_note,
    "worktree-state": _session_note,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
}
# Every attachment type that is read. A reader returns None if a required field is missing.
_ATTACHMENT_READERS: Final[dict[str, Callable[[dict[str, Any], Head], Entry | None]]] = {
    "queued_command": _queued,
    "structured_output": _structured_output,
    "goal_status": _goal,
    "max_turns_reached": _turn_limit,
}
