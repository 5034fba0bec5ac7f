"""The traces that arrived at the sink, put together again from parent ids alone."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from tree import AgentRun, Generation, ToolCall, Turn, Usage, plain_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Arrived:
    """Spans as they came, and the trees they form."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._below: dict[bytes, list[Span]] = {}
        for span in sorted(spans, key=lambda each: (each.start_time_unix_nano, each.end_time_unix_nano)):
            self._below.setdefault(span.parent_span_id, []).append(span)

    def twice(self) -> list[str]:
        """Return the ids that came more than once."""
        return [id_ for id_, count in Counter(span.span_id.hex() for span in self._spans).items() if count > 1]

    def lost(self) -> list[str]:
        """Return the names of spans whose parent did not come, or came in another trace."""
        traces = {span.span_id: span.trace_id for span in self._spans}
        return [
            span.name
            for span in self._spans
            if span.parent_span_id and traces.get(span.parent_span_id) != span.trace_id
        ]

    def turns(self) -> dict[str, list[Turn]]:
        """Return the turns of each session, in the order of their times."""
        found: dict[str, list[Turn]] = {}
        for span in self._below.get(b"", ()):
            found.setdefault(str(_facts(span)["session.id"]), []).append(self._turn(span))
        return found

    def tokens(self) -> dict[str, tuple[str, Counter[str]]]:
        """Return what each response cost, by its id: its model, and tokens as Claude Code counts them."""
        found = {}
        for span in self._spans:
            facts = _facts(span)
            if (usage := _usage(facts)) is not None:
                fresh = usage.input - usage.cache_read - usage.cache_write
                spent = Counter(
                    input=fresh, output=usage.output, cache_read=usage.cache_read, cache_write=usage.cache_write
                )
                found[str(facts["gen_ai.response.id"])] = (str(facts["gen_ai.response.model"]), spent)
        return found

    def costs_usd(self) -> dict[str, float]:
        """Return the price of each response, by its id."""
        priced = [facts for facts in map(_facts, self._spans) if "gen_ai.usage.cost" in facts]
        return {str(facts["gen_ai.response.id"]): facts["gen_ai.usage.cost"] for facts in priced}

    def _turn(self, span: Span) -> Turn:
        facts = _facts(span)
        return Turn(
            _asked(facts),
            _said(facts, "text"),
            _status(facts),
            tuple(each.name for each in self._of(span, None)),
            self._generations(span),
        )

    def _generations(self, span: Span) -> tuple[Generation, ...]:
        return tuple(self._generation(each, _facts(each)) for each in self._of(span, "chat"))

    def _generation(self, span: Span, facts: dict[str, Any]) -> Generation:
        messages = json.loads(facts.get("gen_ai.output.messages", "[]"))
        return Generation(
            facts.get("gen_ai.response.id", ""),
            facts.get("gen_ai.response.model", ""),
            _usage(facts),
            _said(facts, "reasoning"),
            _said(facts, "text"),
            messages[0]["finish_reason"] if messages else "",
            _status(facts),
            tuple(self._call(each, _facts(each)) for each in self._of(span, "execute_tool")),
        )

    def _call(self, span: Span, facts: dict[str, Any]) -> ToolCall:
        arguments = json.loads(facts.get("gen_ai.tool.call.arguments", "{}"))
        result = facts.get("gen_ai.tool.call.result")
        return ToolCall(
            facts["gen_ai.tool.call.id"],
            facts["gen_ai.tool.name"],
            json.dumps(arguments, sort_keys=True),
            None if result is None else plain_result(result),
            _status(facts),
            tuple(self._agent(each, _facts(each)) for each in self._of(span, "invoke_agent")),
        )

    def _agent(self, span: Span, facts: dict[str, Any]) -> AgentRun:
        name = str(facts["gen_ai.agent.name"])
        return AgentRun(name, _asked(facts), _said(facts, "text"), _status(facts), self._generations(span))

    def _of(self, parent: Span, operation: str | None) -> list[Span]:
        """Return the children that are of an operation; None: events, which have one of their own."""
        named = ("chat", "execute_tool", "invoke_agent")
        found = []
        for span in self._below.get(parent.span_id, ()):
            of = _facts(span)["gen_ai.operation.name"]
            if of == operation or (operation is None and of not in named):
                found.append(span)
        return found


def _facts(span: Span) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in span.attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind) if kind else None


def _status(facts: dict[str, Any]) -> str:
    kind = str(facts.get("error.type", "ok"))
    return kind if kind in ("ok", "interrupted", "incomplete") else "error"


def _asked(facts: dict[str, Any]) -> str:
    return _text(json.loads(facts.get("gen_ai.input.messages", "[]")), "text")


def _said(facts: dict[str, Any], kind: str) -> str:
    return _text(json.loads(facts.get("gen_ai.output.messages", "[]")), kind)


def _text(messages: list[dict[str, Any]], kind: str) -> str:
    return "\n".join(part["content"] for message in messages for part in message["parts"] if part["type"] == kind)


def _usage(facts: dict[str, Any]) -> Usage | None:
    if "gen_ai.usage.output_tokens" not in facts:
        return None
    return Usage(
        facts["gen_ai.usage.input_tokens"],
        facts["gen_ai.usage.output_tokens"],
        facts["gen_ai.usage.cache_read.input_tokens"],
        facts["gen_ai.usage.cache_write.input_tokens"],
    )
