"""Limits what a span may carry: how much content, no secrets, no overlong texts. Pure.

Rule: every span passes through here before any destination sees it, including the local store.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, cast

from cc_trace.privacy.project_masks import ProjectMasks
from cc_trace.privacy.redactor import Redactor
from cc_trace.values import MAX_DEPTH, TOO_DEEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cc_trace.spans import Origins, Span
    from cc_trace.transcript import JsonValue, Speaker
    from cc_trace.turns import Origin

Content: TypeAlias = Literal["full", "no-tool-content", "metadata"]

# Metadata without conversation content, which may leave in every tier. A field that is not listed here is private until
# it is added.
_WITHOUT_TEXT: Final = frozenset(
    (
        # of the session and of a turn
        *("source", "session_id", "turn_number", "version", "cwd", "git_branch", "entrypoint", "permission_mode"),
        *("stream_times", "run"),
        *("trigger", "duration_ms", "launched_by", "time", "happened_at"),
        *("time_ms", "lines_added", "lines_removed", "files_changed", "max_turns_reached", "rewound"),
        # of an agent
        *("agent_type", "name", "stage", "workflow_run", "background"),
        # of a response
        *("tool_count", "stop_reason", "effort", "speed", "service_tier", "web_searches", "requested_model"),
        *("max_tokens", "thinking", "thinking_budget", "betas", "query_source", "attempts", "advisor", "error_type"),
        *("cache_breakpoints", "thinking_ms", "tool_input_ms", "context", "cache_miss"),
        # of a tool call
        *("tool_name", "tool_id", "denial", "status", "interrupted", "exitCode", "code"),
        *("userModified", "type", "durationMs", "durationSeconds", "numFiles", "numLines", "bytes", "truncated"),
        *("isAsync", "backgroundTaskId", "agentId", "agentType", "resolvedModel"),
        *("totalDurationMs", "totalTokens", "totalToolUseCount", "permission"),
        # of an event
        *("micro", "preTokens", "postTokens", "tokensSaved", "retryAttempt", "maxRetries", "retryInMs"),
        *("attempt", "wait_ms", "task_id", "message_id", "request_id", "hook_event", "exit_code", "blocked", "mode"),
    )
)
# A session's slug is made from its first prompt; a command is what a human typed behind `/` or `!`.
_TYPED: Final = frozenset(("slug", "command", "started_by"))
_WITHOUT_TOOL_CONTENT: Final = _WITHOUT_TEXT | _TYPED
# Fields that may have several words: places, names, the names in `run`, and notes of cc-trace's own. The texts of all
# others are one word each: a program that puts a sentence into one of them does not get it out.
_WITH_WORDS: Final = frozenset(
    (*_TYPED, "cwd", "git_branch", "agent_type", "agentType", "name", "stage", "run", "time", "cache_miss")
)
_WORD: Final = re.compile(r"\S{1,128}")
_LAST_WORD: Final = re.compile(r"\s*[!-~]+\Z")
# Authors whose texts are prompts and answers. A hook's output comes from a program, like a tool's.
_IN_CONVERSATION: Final[frozenset[Speaker]] = frozenset({"human", "model", "system"})
_MAX_DEPTH: Final = MAX_DEPTH + 1  # for all texts of a span


class PrivacySettings(NamedTuple):
    """The user's choice of what to withhold."""

    content: Content = "full"
    max_chars: int = 100_000  # of one text; 0: no limit
    mask: tuple[str, ...] = ()  # the user's patterns
    project_mask: tuple[str, ...] = ()  # a project's patterns, which run with a time limit


class Privacy:
    """Turns each span into the one that may leave."""

    def __init__(self, settings: PrivacySettings) -> None:
        self.settings = settings
        self.content = settings.content
        self._max_chars = settings.max_chars
        self.redactor = Redactor(settings.mask)
        self._project = ProjectMasks(settings.project_mask) if settings.project_mask else None
        self._turn: Sequence[Span] = ()
        self._outgoing: dict[str, Span] = {}  # the spans of that turn

    def __call__(self, span: Span, turn: Sequence[Span] = ()) -> Span:
        """Return the span as it may be sent.

        If its turn is given, all of it is searched before the first of its spans leaves: a secret masked anywhere in
        it, or in an earlier turn that this object has seen, is masked everywhere.
        """
        if turn and turn is not self._turn:
            self._turn, self._outgoing = turn, {outgoing.span_id: outgoing for outgoing in self._outgoing_spans(turn)}
        outgoing = self._outgoing.get(span.span_id) if turn else None
        return outgoing or self._outgoing_spans([span])[0]

    def _outgoing_spans(self, spans: Sequence[Span]) -> Sequence[Span]:
        """Return spans as they may be sent. All their texts are masked as one value, which is fastest."""
        if self.content == "no-tool-content":
            # A tool's output does not leave, but an answer may repeat a secret from it.
            self.redactor.learn([*map(_texts, spans)])
        spans = [self._in_tier(span) for span in spans]
        # The metadata of the trace is one dict that all its spans share.
        trace_metadata = {
            id(span.about): _allowed_metadata(span.about, self.content) for span in spans if span.about is not None
        }
        parts: Any = [[*map(_names, spans)], [*map(_texts, spans)], [*trace_metadata.values()]]
        masked = self.redactor.value(parts)
        if masked is parts and self.content == "full" and not self._limits_apply():
            return spans  # as nearly always
        names, texts, masked_metadata = cast("Any", masked)
        for row in texts:
            if row[0] and row[0].endswith("…"):  # an error is the beginning of another text
                row[0] = self.redactor.without_torn_secret(row[0])
        if (project := self._project) is not None:
            names = [[name and project.text(name) for name in row] for row in names]
        trace_metadata = dict(zip(trace_metadata, map(self._limit, masked_metadata), strict=True))
        return [
            _with_texts(span, uncut, self._limit(cut), trace_metadata.get(id(span.about)))
            for span, uncut, cut in zip(spans, names, texts, strict=True)
        ]

    def _in_tier(self, span: Span) -> Span:
        if self.content == "metadata":
            return _without_content(span)
        return _without_tools(span) if self.content == "no-tool-content" else span

    def text(self, text: str) -> str:
        """Return a text without secrets, cut if it is too long."""
        return self._cut(self._mask(text))

    def value(self, value: JsonValue) -> JsonValue:
        """Return a value without secrets, its texts cut if they are too long. The tier of content is not applied."""
        masked: JsonValue = self._limit(self.redactor.value(value))
        return masked

    def beginning(self, text: str, max_chars: int) -> str:
        """Return a text that was cut to `max_chars`, without secrets and without its last word, which may be torn."""
        return self.text(text if len(text) < max_chars else _LAST_WORD.sub("", text) or text)

    def _mask(self, text: str) -> str:
        masked = self.redactor.text(text)
        return masked if self._project is None else self._project.text(masked)

    def _limit(self, value: Any) -> Any:  # noqa: ANN401 -- returns the type it is given
        """Return a masked value with overlong texts cut and the project's masks applied."""
        return self._shorten(value, _MAX_DEPTH) if self._limits_apply() else value

    def _limits_apply(self) -> bool:
        """Return whether the last masked value may have an overlong text, or the project has masks."""
        return self._project is not None or 0 < self._max_chars < self.redactor.max_chars

    def _shorten(self, value: JsonValue, depth: int) -> JsonValue:
        match value:
            case list() | dict() if value and not depth:
                return TOO_DEEP
            case str():
                return self._cut(value if self._project is None else self._project.text(value))
            case list() if value:
                return [self._shorten(item, depth - 1) for item in value]
            case dict() if value:
                shortened = {key: self._shorten(item, depth - 1) for key, item in value.items()}
                return shortened if self._project is None else self._project.keys(shortened)
            case _:
                return value

    def _cut(self, text: str) -> str:
        excess = len(text) - self._max_chars
        if not self._max_chars or excess <= 0:
            return text
        return f"{text[: self._max_chars]}… [{excess} more characters]"


def _names(span: Span) -> list[str | None]:
    """Return the names chosen by the model, which are not cut."""
    return [span.name, span.agent_name, span.tool and span.tool.name]


def _texts(span: Span) -> list[JsonValue]:
    return [span.error, span.input, span.output, span.metadata, span.tool and span.tool.file_path]


def _with_texts(span: Span, names: list[Any], texts: list[Any], trace_metadata: dict[str, JsonValue] | None) -> Span:
    """Return the span with its names, its texts and the trace's metadata replaced."""
    (name, agent_name, tool_name), (error, input_, output, metadata, file_path) = names, texts
    tool = span.tool and span.tool._replace(name=tool_name, file_path=file_path)
    return span._replace(
        name=name,
        agent_name=agent_name,
        error=error,
        input=input_,
        output=output,
        metadata=metadata,
        about=trace_metadata,
        tool=tool,
    )


def without_text(metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the metadata without conversation content."""
    return _allowed_metadata(metadata, "metadata")


def _allowed_metadata(metadata: dict[str, JsonValue], content: Content) -> dict[str, JsonValue]:
    if content == "full":
        return metadata
    keys = _WITHOUT_TEXT if content == "metadata" else _WITHOUT_TOOL_CONTENT
    allowed = {
        key: value for key, value in metadata.items() if key in keys and (key in _WITH_WORDS or _is_of_words(value))
    }
    if isinstance(miss := allowed.get("cache_miss"), dict):
        allowed["cache_miss"] = _without_details(miss)
    return allowed


def _is_of_words(value: JsonValue) -> bool:
    """Return whether each text within a value is a single word."""
    match value:
        case str():
            return _WORD.fullmatch(value) is not None
        case list():
            return all(map(_is_of_words, value))
        case dict():
            return all(map(_is_of_words, value.values()))
        case _:
            return True


def _without_details(miss: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Keep only the kinds of the causes of a cache miss: their details quote requests."""
    causes = miss.get("causes")
    kinds = [cause.get("kind") for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []
    return {**miss, "causes": [{"kind": kind} for kind in kinds]}


def _without_content(span: Span) -> Span:
    """Keep only names, ids, times, counts and the status."""
    tool = span.tool and span.tool._replace(file_path=None)
    return span._replace(input=None, output=None, error=None, tool=tool, metadata=without_text(span.metadata))


def _without_tools(span: Span) -> Span:
    """Keep prompts and answers, but not the input and output of tools. An agent counts as a tool, with all its texts.

    The author of a text decides, never its appearance. A text without a known author does not leave.
    """
    if span.kind in ("tool", "subagent") or span.agent_name is not None or _is_hook(span):
        return _without_content(span)
    origins = span.origins
    answer = _without_tool_inputs(span.output) if span.kind == "generation" else span.output
    may_leave = origins.output is not None and origins.output.speaker in _IN_CONVERSATION
    return span._replace(
        input=_conversation_input(span.input, origins.input),
        output=answer if may_leave else None,
        error=span.error if may_leave else None,
        metadata=_allowed_metadata(span.metadata, "no-tool-content") | _unanswered_prompts(span, origins),
    )


def _is_hook(span: Span) -> bool:
    """Return whether a span is a hook's. Its command comes from a configuration, not from the conversation."""
    return span.kind == "event" and "hook_event" in span.metadata


def _conversation_input(input_: JsonValue, origins: Sequence[Origin]) -> JsonValue:
    """Return the part of an input that belongs to the conversation. It is a text, or one message per origin."""
    if not isinstance(input_, list):
        return _conversation_text(input_, origins[0]) if origins else None
    return [
        {**message, "content": _conversation_text(message.get("content"), origin)}
        for message, origin in zip(input_, origins, strict=False)
        if isinstance(message, dict)
    ]


def _conversation_text(text: JsonValue, origin: Origin) -> JsonValue:
    """Return a text that belongs to the conversation, or the part of it that was typed, or None."""
    if origin.speaker in _IN_CONVERSATION:
        return text
    return text[: origin.typed] if isinstance(text, str) and origin.typed else None


def _unanswered_prompts(span: Span, origins: Origins) -> dict[str, JsonValue]:
    """Return the typed prompts without a response as metadata."""
    prompts = span.metadata.get("unanswered_prompts")
    if not isinstance(prompts, list):
        return {}
    texts = [_conversation_text(text, origin) for text, origin in zip(prompts, origins.unanswered, strict=False)]
    typed_prompts: list[JsonValue] = [text for text in texts if text is not None]
    return {"unanswered_prompts": typed_prompts} if typed_prompts else {}


def _without_tool_inputs(message: JsonValue) -> JsonValue:
    """Return an output message with only the names of its tool calls."""
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(calls, list):
        return message
    calls_without_input: list[JsonValue] = [{**call, "input": {}} if isinstance(call, dict) else call for call in calls]
    return {**message, "tool_calls": calls_without_input}
