"""The traces that arrived at the sink, put together again from parent ids alone."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.trace.v1.trace_pb2 import Status
from script import TAG
from tree import AgentRun, Generation, ToolCall, Turn, Usage, plain_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span


class ReceivedTraces:
    """Spans as they came, and the trees they form."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._placed: set[bytes] = set()
        self._below: dict[bytes, list[Span]] = {}
        for span in sorted(spans, key=lambda each: (each.start_time_unix_nano, each.end_time_unix_nano)):
            self._below.setdefault(span.parent_span_id, []).append(span)

    def twice(self) -> list[str]:
        """Return the ids of spans, responses and calls that came more than once."""
        ids = [span.span_id.hex() for span in self._spans]
        for facts in map(facts_of, self._spans):
            ids += [facts[key] for key in ("gen_ai.response.id", "gen_ai.tool.call.id") if key in facts]
        return [id_ for id_, count in Counter(ids).items() if count > 1]

    def turns(self) -> dict[str, list[Turn]]:
        """Return the turns of each session, in the order of their times."""
        found: dict[str, list[Turn]] = {}
        for span in self._below.get(b"", ()):
            self._placed.add(span.span_id)
            found.setdefault(str(facts_of(span)["session.id"]), []).append(self._turn(span))
        return found

    def astray(self) -> list[str]:
        """Return the names of spans that have no place in these turns: no parent in their trace, or a wrong one."""
        self.turns()
        return [span.name for span in self._spans if span.span_id not in self._placed]

    def tokens(self) -> dict[str, tuple[str, Counter[str]]]:
        """Return what each response cost, by its id: its model, and tokens as Claude Code counts them."""
        found = {}
        for span in self._spans:
            facts = facts_of(span)
            if (usage := _usage(facts)) is not None:
                fresh = usage.input - usage.cache_read - usage.cache_write
                spent = Counter(
                    input=fresh, output=usage.output, cache_read=usage.cache_read, cache_write=usage.cache_write
                )
                found[str(facts["gen_ai.response.id"])] = (str(facts["gen_ai.response.model"]), spent)
        return found

    def costs_usd(self) -> dict[str, float]:
        """Return the price of each response, by its id."""
        priced = [facts for facts in map(facts_of, self._spans) if "gen_ai.usage.cost" in facts]
        return {str(facts["gen_ai.response.id"]): facts["gen_ai.usage.cost"] for facts in priced}

    def _turn(self, span: Span) -> Turn:
        facts = facts_of(span)
        return Turn(
            span.name,
            _asked(facts),
            _said(facts, "text"),
            _status(span, facts),
            self._events(span),
            self._generations(span),
        )

    def _events(self, turn: Span) -> tuple[str, ...]:
        """Return what happened besides responses: in the turn, and in its calls, of which some failed for good."""
        calls = self._of(turn, "chat")
        found = [*self._of(turn, None), *(call for call in calls if not _is_response(call))]
        for call in calls:
            found += self._of(call, None)
        return tuple(map(_event, sorted(found, key=lambda each: (each.start_time_unix_nano, each.end_time_unix_nano))))

    def _generations(self, span: Span) -> tuple[Generation, ...]:
        return tuple(self._generation(each, facts_of(each)) for each in self._of(span, "chat") if _is_response(each))

    def _generation(self, span: Span, facts: dict[str, Any]) -> Generation:
        asked = [part for message in _messages(facts, "input") for part in message["parts"]]
        answered = _messages(facts, "output")
        return Generation(
            span.name,
            facts.get("gen_ai.response.id", ""),
            facts.get("gen_ai.response.model", ""),
            _usage(facts),
            tuple(part["content"] for part in asked if part["type"] == "text" and TAG.search(part["content"])),
            tuple((part["id"], _result(part["response"])) for part in asked if part["type"] == "tool_call_response"),
            _said(facts, "reasoning"),
            _said(facts, "text"),
            answered[0]["finish_reason"] if answered else "",
            _status(span, facts),
            tuple(self._call(each, facts_of(each)) for each in self._of(span, "execute_tool")),
        )

    def _call(self, span: Span, facts: dict[str, Any]) -> ToolCall:
        arguments = json.loads(facts.get("gen_ai.tool.call.arguments", "{}"))
        result = facts.get("gen_ai.tool.call.result")
        return ToolCall(
            span.name,
            facts["gen_ai.tool.call.id"],
            facts["gen_ai.tool.name"],
            json.dumps(arguments, sort_keys=True),
            None if result is None else plain_result(result),
            _status(span, facts),
            tuple(self._agent(each, facts_of(each)) for each in self._of(span, "invoke_agent")),
        )

    def _agent(self, span: Span, facts: dict[str, Any]) -> AgentRun:
        name = str(facts["gen_ai.agent.name"])
        said = _said(facts, "text")
        return AgentRun(span.name, name, _asked(facts), said, _status(span, facts), self._generations(span))

    def _of(self, parent: Span, operation: str | None) -> list[Span]:
        """Return the children that are of an operation; None: events, which have one of their own."""
        named = ("chat", "execute_tool", "invoke_agent")
        found = []
        for span in self._below.get(parent.span_id, ()):
            of = facts_of(span)["gen_ai.operation.name"]
            if span.trace_id == parent.trace_id and (of == operation or (operation is None and of not in named)):
                self._placed.add(span.span_id)
                found.append(span)
        return found


def facts_of(span: Span) -> dict[str, Any]:
    """Return a span's attributes."""
    return {pair.key: _value(pair.value) for pair in span.attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind) if kind else None


def _status(span: Span, facts: dict[str, Any]) -> str:
    """Return how it ended, which the status and an attribute tell; where they contradict each other, both."""
    kind = str(facts.get("error.type", "ok"))
    if (kind != "ok") != (span.status.code == Status.STATUS_CODE_ERROR):
        return f"{kind}, but {span.status}"
    if kind == "ok":
        return kind
    return f"{kind if kind in ('interrupted', 'incomplete') else 'error'}: {plain_result(span.status.message)}"


def _is_response(span: Span) -> bool:
    return "gen_ai.response.id" in facts_of(span)


def _event(span: Span) -> str:
    status = _status(span, facts_of(span))
    return span.name if status == "ok" else f"{span.name}: {status}"


def _messages(facts: dict[str, Any], side: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(facts.get(f"gen_ai.{side}.messages", "[]"))
    return found


def _asked(facts: dict[str, Any]) -> str:
    return _text(_messages(facts, "input"), "text")


def _said(facts: dict[str, Any], kind: str) -> str:
    return _text(_messages(facts, "output"), kind)


def _result(response: Any) -> str:
    return plain_result(response if isinstance(response, str) else json.dumps(response))


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
