"""The wire form: what a backend's protobuf and JSON parsers read back is the span that went in."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message
from shared import case_transcripts, label

from cc_trace import __version__
from cc_trace.export.otlp import encode_span, encode_within, request
from cc_trace.export.otlp_json import request_json
from cc_trace.export.profiles import PROFILES, Labels, resource
from cc_trace.spans.model import Response, Span, Tool
from cc_trace.spans.session import Session
from cc_trace.transcript.entries import Usage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cc_trace.export.profiles import AttributeValue

TRACE, ROOT, OWN = "c2352be9ccd02cf1b0c92425333f989f", "c2352be9ccd02cf1", "4dbcde393beec4a5"
OTHER_TRACE, OTHER_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
START, END = 1_767_268_800_000_000_000, 1_767_268_801_000_000_000
LABELS = Labels(user_id="ada", tags=("ci",))
RESOURCE = resource("otel", LABELS)


def made(kind: Any = "tool", **fields: Any) -> Span:
    """A span with the fields that matter to a test."""
    usual: dict[str, Any] = {"name": "Bash", "start_ns": START, "end_ns": END, "agent_id": None, "status": "ok"}
    usual |= {"error": None, "input": None, "output": None, "metadata": {}, "parent_id": ROOT, "session_id": "s-1"}
    return Span(TRACE, OWN, kind=kind, turn=3, final=True, **(usual | fields))


def decoded(span: Span, **attributes: AttributeValue) -> Message:
    return Message.FromString(encode_span(span, span.name, attributes))


def packed(profile: str) -> Callable[[Span], bytes]:
    return lambda span: encode_span(span, *PROFILES[profile](span, LABELS))


def attributes_of(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in message.attributes:
        which = pair.value.WhichOneof("value")
        value = getattr(pair.value, which or "string_value")
        found[pair.key] = [item.string_value for item in value.values] if which == "array_value" else value
    return found


def test_a_span_is_read_back_whole() -> None:
    span = made("generation", status="error", error="overloaded")
    attributes: dict[str, AttributeValue] = {"text": "é😀", "yes": True, "count": -7, "cost": 0.5, "tags": ["a", "b"]}
    assert Message.FromString(encode_span(span, "chat x", attributes)) == Message(
        trace_id=bytes.fromhex(TRACE),
        span_id=bytes.fromhex(OWN),
        parent_span_id=bytes.fromhex(ROOT),
        name="chat x",
        kind=Message.SPAN_KIND_CLIENT,
        start_time_unix_nano=START,
        end_time_unix_nano=END,
        attributes=[
            KeyValue(key="text", value=AnyValue(string_value="é😀")),
            KeyValue(key="yes", value=AnyValue(bool_value=True)),
            KeyValue(key="count", value=AnyValue(int_value=-7)),
            KeyValue(key="cost", value=AnyValue(double_value=0.5)),
            KeyValue(
                key="tags",
                value=AnyValue(array_value=ArrayValue(values=[AnyValue(string_value="a"), AnyValue(string_value="b")])),
            ),
        ],
        status=Status(code=Status.STATUS_CODE_ERROR, message="overloaded"),
    )


def test_a_root_has_no_parent_and_is_internal() -> None:
    message = decoded(made("turn", parent_id=None))
    assert (message.parent_span_id, message.kind) == (b"", Message.SPAN_KIND_INTERNAL)


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        ("ok", None, Status()),
        ("error", "no such file", Status(code=Status.STATUS_CODE_ERROR, message="no such file")),
        ("interrupted", "by user", Status(code=Status.STATUS_CODE_ERROR, message="by user")),
        ("incomplete", None, Status(code=Status.STATUS_CODE_ERROR, message="incomplete")),
    ],
)
def test_status(status: str, error: str | None, expected: Status) -> None:
    """What went well has no status, as the specification wants it of everyone but users."""
    message = decoded(made(status=status, error=error))
    assert (message.status, message.HasField("status")) == (expected, status != "ok")


def exception(type_: str, message: str, time_ns: int) -> Message.Event:
    return Message.Event(
        time_unix_nano=time_ns,
        name="exception",
        attributes=[
            KeyValue(key="exception.type", value=AnyValue(string_value=type_)),
            KeyValue(key="exception.message", value=AnyValue(string_value=message)),
        ],
    )


@pytest.mark.parametrize(
    ("fields", "code", "message", "events"),
    [
        ({}, Status.STATUS_CODE_OK, "", []),
        (
            {"status": "error", "error": "no such file"},
            Status.STATUS_CODE_ERROR,
            "no such file",
            [exception("tool_error", "no such file", END)],
        ),
        (
            {"status": "error", "error": "no", "metadata": {"denial": "user-rejected"}},
            Status.STATUS_CODE_ERROR,
            "no",
            [exception("user-rejected", "no", END)],
        ),
        (
            {"status": "interrupted", "error": "by user", "end_ns": None},
            Status.STATUS_CODE_ERROR,
            "by user",
            [exception("interrupted", "by user", START)],
        ),
        (
            {"status": "incomplete", "start_ns": END, "end_ns": START},
            Status.STATUS_CODE_ERROR,
            "incomplete",
            [exception("incomplete", "incomplete", END)],
        ),
        (
            {"status": "error", "error": "bad \ud800"},
            Status.STATUS_CODE_ERROR,
            "bad \ufffd",
            [exception("tool_error", "bad \ufffd", END)],
        ),
    ],
    ids=["good", "failed", "denied", "without an end", "without a message", "no Unicode"],
)
def test_mlflow_gets_status_ok_and_exception_events(
    fields: dict[str, Any], code: Status.StatusCode.ValueType, message: str, events: list[Message.Event]
) -> None:
    """It counts only OK as success, and shows a failure by an exception at the span's end."""
    span = made(**fields)
    found = Message.FromString(packed("mlflow")(span))
    assert (found.status, [*found.events]) == (Status(code=code, message=message), events)
    assert all(event.time_unix_nano == found.end_time_unix_nano for event in found.events)


@pytest.mark.parametrize("profile", [profile for profile in PROFILES if profile != "mlflow"])
@pytest.mark.parametrize("status", ["ok", "error", "interrupted", "incomplete"])
def test_no_other_profile_has_events_or_a_status_of_ok(profile: str, status: str) -> None:
    message = Message.FromString(packed(profile)(made(status=status, error="no")))
    assert (message.HasField("status"), [*message.events]) == (status != "ok", [])


@pytest.mark.parametrize(
    ("start_ns", "end_ns", "first_token_ns", "expected"),
    [
        (START, END, None, (START, END, {})),
        (START, None, None, (START, START, {})),
        (None, END, None, (END, END, {})),
        (END, START, None, (END, END, {})),
        (None, None, START, (START, START, {})),
        (None, None, None, (0, 0, {"cc_trace.time": "unknown"})),
    ],
)
def test_times(start_ns: int | None, end_ns: int | None, first_token_ns: int | None, expected: object) -> None:
    """Backends need both times: one that is known stands for the other, and a span with none says so."""
    response = Response(None, None, None, first_token_ns, None, usage_complete=False, cost_usd=None)
    message = decoded(made("generation", start_ns=start_ns, end_ns=end_ns, response=response))
    assert expected == (message.start_time_unix_nano, message.end_time_unix_nano, attributes_of(message))


@pytest.mark.parametrize("kind", ["turn", "event"])
def test_launching_call_becomes_a_span_link(kind: str) -> None:
    launched_by = {"tool_use_id": "toolu_0", "span_id": OTHER_SPAN, "trace_id": OTHER_TRACE}
    message = decoded(made(kind, metadata={"launched_by": launched_by}))
    assert [*message.links] == [Message.Link(trace_id=bytes.fromhex(OTHER_TRACE), span_id=bytes.fromhex(OTHER_SPAN))]


def test_launch_in_an_unknown_trace_is_no_span_link() -> None:
    message = decoded(made(metadata={"launched_by": {"tool_use_id": "toolu_0", "span_id": OTHER_SPAN}}))
    assert not message.links


def test_any_value_can_be_encoded() -> None:
    """Invalid Unicode is repaired in names, keys, values and messages; an integer too wide becomes text."""
    span = made(status="error", error="bad \ud800")
    attributes: dict[str, AttributeValue] = {"k\ud800": "v\udfff", "wide": 1 << 64, "list": ["\ud800"], "fine": 1}
    message = Message.FromString(encode_span(span, "n\ud800", attributes))
    assert (message.name, message.status.message) == ("n\ufffd", "bad \ufffd")
    assert attributes_of(message) == {"k\ufffd": "v\ufffd", "wide": str(1 << 64), "list": ["\ufffd"], "fine": 1}


def test_request_equals_that_of_protobuf() -> None:
    """Joining encoded spans gives, byte for byte, the message built from them; so does a batch of none or of many."""
    for count, url in ((0, ""), (1, "https://example.com/schemas/1"), (300, "")):
        spans = [encode_span(made(output="x" * n), "Bash", {"n": "x" * n}) for n in range(count)]
        expected = ExportTraceServiceRequest(
            resource_spans=[
                ResourceSpans(
                    resource=Resource(
                        attributes=[KeyValue(key="service.name", value=AnyValue(string_value="claude-code"))]
                    ),
                    scope_spans=[
                        ScopeSpans(
                            scope=InstrumentationScope(name="cc-trace", version=__version__),
                            spans=map(Message.FromString, spans),
                            schema_url=url,
                        )
                    ],
                )
            ]
        )
        assert expected.SerializeToString() == request(spans, RESOURCE, url)
        as_json = json.loads(request_json(spans, RESOURCE, url))
        assert as_json["resourceSpans"][0]["scopeSpans"][0].get("schemaUrl", "") == url


def test_json_is_as_the_specification_shows_it() -> None:
    """Ids in hex, enums as numbers, 64-bit integers as strings, names in camelCase."""
    launched_by = {"span_id": OTHER_SPAN, "trace_id": OTHER_TRACE}
    span = made(status="error", error="no", metadata={"launched_by": launched_by})
    data = encode_span(span, "Bash", {"text": "é", "yes": False, "count": 7, "cost": 0.5, "tags": ["a"]})
    assert json.loads(request_json([data], RESOURCE)) == {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "claude-code"}}]},
                "scopeSpans": [
                    {
                        "scope": {"name": "cc-trace", "version": __version__},
                        "spans": [
                            {
                                "traceId": TRACE,
                                "spanId": OWN,
                                "parentSpanId": ROOT,
                                "name": "Bash",
                                "kind": 1,
                                "startTimeUnixNano": str(START),
                                "endTimeUnixNano": str(END),
                                "attributes": [
                                    {"key": "text", "value": {"stringValue": "é"}},
                                    {"key": "yes", "value": {"boolValue": False}},
                                    {"key": "count", "value": {"intValue": "7"}},
                                    {"key": "cost", "value": {"doubleValue": 0.5}},
                                    {"key": "tags", "value": {"arrayValue": {"values": [{"stringValue": "a"}]}}},
                                ],
                                "links": [{"traceId": OTHER_TRACE, "spanId": OTHER_SPAN}],
                                "status": {"code": 2, "message": "no"},
                            }
                        ],
                    }
                ],
            }
        ]
    }


def test_an_event_in_json() -> None:
    """Its time is a string, as all integers of 64 bits are."""
    span = made(status="error", error="no")
    spans = json.loads(request_json([packed("mlflow")(span)], RESOURCE))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [one["events"] for one in spans] == [
        [
            {
                "timeUnixNano": str(END),
                "name": "exception",
                "attributes": [
                    {"key": "exception.type", "value": {"stringValue": "tool_error"}},
                    {"key": "exception.message", "value": {"stringValue": "no"}},
                ],
            }
        ]
    ]


def with_base64_ids(value: Any) -> Any:
    """OTLP/JSON as protobuf's own JSON: it differs in the ids."""
    if isinstance(value, list):
        return [with_base64_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode() if key in ids else with_base64_ids(item)
        for key, item in value.items()
    }


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("transcript", case_transcripts(), ids=label)
def test_json_and_protobuf_are_the_same_request(transcript: Path, profile: str) -> None:
    """For every span of every case, and nothing is lost on the way: attributes come back as the profile gave them."""
    spans = [*Session(transcript).spans()]
    sent = [PROFILES[profile](span, LABELS) for span in spans]
    encoded = [encode_span(span, *one) for span, one in zip(spans, sent, strict=True)]
    message = ExportTraceServiceRequest.FromString(request(encoded, RESOURCE))
    parsed = ParseDict(with_base64_ids(json.loads(request_json(encoded, RESOURCE))), ExportTraceServiceRequest())
    assert message == parsed
    found = message.resource_spans[0].scope_spans[0].spans
    assert sent == [(one.name, attributes_of(one)) for one in found]


def test_spans_equal_those_of_the_sdk_encoder() -> None:
    """If it is installed. It also sets flags, which say that a parent is not remote."""
    encoder = pytest.importorskip("opentelemetry.exporter.otlp.proto.common.trace_encoder")
    sdk, api = pytest.importorskip("opentelemetry.sdk.trace"), pytest.importorskip("opentelemetry.trace")
    attributes: dict[str, AttributeValue] = {"text": "é", "yes": True, "count": 7, "cost": 0.5, "tags": ["a"]}
    one = sdk.ReadableSpan(
        name="Bash",
        context=api.SpanContext(int(TRACE, 16), int(OWN, 16), is_remote=False),
        parent=api.SpanContext(int(TRACE, 16), int(ROOT, 16), is_remote=False),
        attributes=attributes,
        status=api.Status(api.StatusCode.ERROR, "no"),
        start_time=START,
        end_time=END,
    )
    theirs = encoder.encode_spans([one]).resource_spans[0].scope_spans[0].spans[0]
    theirs.ClearField("flags")
    assert theirs == Message.FromString(encode_span(made(status="error", error="no"), "Bash", attributes))


# Cutting


def test_a_span_that_fits_is_not_touched() -> None:
    span = made(output="x" * 5_000, tool=Tool("t", "Bash", None))
    data = packed("otel")(span)
    assert data == encode_within(span, packed("otel"), len(data))


def test_a_long_result_is_cut_and_says_how_much() -> None:
    span = made(input={"command": "cat big"}, output="é" * 6_000_000, tool=Tool("t", "Bash", None))
    data = encode_within(span, packed("langfuse"), 4_000_000)
    found = attributes_of(Message.FromString(data))
    kept = 4_000_000 * 3 // 4 * 3 // 4 * 3 // 4  # characters of two bytes: the first of these that fits
    assert found["langfuse.observation.output"] == (
        "```\n" + "é" * kept + f"…[cut by cc-trace: {6_000_000 - kept:,} of 6,000,000 characters left out]\n```"
    )
    assert found["langfuse.observation.input"] == '{"command":"cat big"}'
    assert 3_000_000 < len(data) <= 4_000_000


def flattened(found: dict[str, Any], side: str) -> str:
    """OpenInference's messages, of which each field is an attribute, as one text."""
    fields = {key: value for key, value in found.items() if key.startswith(f"{side}.0.")}
    return json.dumps([{"role": fields[f"{side}.0.message.role"], "fields": fields}])


@pytest.mark.parametrize("profile", PROFILES)
def test_a_generation_is_cut_in_its_messages(profile: str) -> None:
    """Messages stay messages: what is cut are the texts in them, in prompts as in the arguments of calls."""
    usage = Response("msg_1", "req_1", "claude", START, Usage(1, 2), usage_complete=True, cost_usd=0.1)
    call = {"id": "t", "name": "Write", "input": {"content": '"' * 900_000, "file_path": "/x"}}
    span = made(
        "generation",
        input=[{"role": "user", "content": "p" * 900_000}],
        output={"role": "assistant", "content": "", "thinking": ["\n" * 900_000], "tool_calls": [call]},
        metadata={"stop_reason": "tool_use"},
        response=usage,
    )
    data = encode_within(span, packed(profile), 1_000_000)
    found = attributes_of(Message.FromString(data))
    asked, answered = ("gen_ai.input.messages", "gen_ai.output.messages")
    if profile == "langfuse":
        asked, answered = ("langfuse.observation.input", "langfuse.observation.output")
    if profile == "mlflow":
        asked, answered = ("mlflow.spanInputs", "mlflow.spanOutputs")
    if profile == "openinference":
        asked, answered = ("llm.input_messages", "llm.output_messages")
        found |= {side: flattened(found, side) for side in (asked, answered)}
    questions, answers = json.loads(found[asked]), json.loads(found[answered])
    if profile == "mlflow":
        questions, answers = questions["messages"], [choice["message"] for choice in answers["choices"]]
    assert [message["role"] for message in questions] == ["user"]
    assert [message["role"] for message in answers] == ["assistant"]
    assert found[asked].count("cut by cc-trace") == 1
    assert found[answered].count("cut by cc-trace") == 2
    assert '"/x' in found[answered].replace("\\", "")
    assert len(data) <= 1_000_000


def test_too_many_small_values_are_dropped() -> None:
    span = made(
        "generation",
        input=[{"role": "user", "content": "short"}] * 50_000,
        metadata={f"key {number}": number for number in range(50_000)},
    )
    found = attributes_of(Message.FromString(encode_within(span, packed("otel"), 10_000)))
    text = {"type": "text", "content": "[left out by cc-trace: too many values]"}
    assert json.loads(found.pop("gen_ai.input.messages")) == [{"role": "user", "parts": [text]}]
    facts = {f"cc_trace.key {number}": number for number in range(32)}
    assert found == attributes_of(Message.FromString(packed("otel")(made("generation")))) | facts


def test_cutting_adds_no_content_and_cuts_the_name() -> None:
    deep: Any = "bottom"
    for _ in range(400):
        deep = [deep]
    span = made("turn", name="n" * 20_000, metadata={"many": list(range(50_000)), "deep": deep})
    message = Message.FromString(encode_within(span, packed("langfuse"), 4_000))
    assert message.name == "n" * 64 + "…[cut by cc-trace: 19,936 of 20,000 characters left out]"
    assert not {"langfuse.observation.input", "langfuse.observation.output"} & attributes_of(message).keys()


@pytest.mark.parametrize("profile", ["otel", "mlflow"])
def test_no_text_is_too_long_to_be_cut(profile: str) -> None:
    """Whatever field it is in."""
    long = "n" * 20_000
    response = Response(long, long, long, START, None, usage_complete=True, cost_usd=None)
    span = made("generation", name=long, session_id=long, agent_id=long, status="error", error=long, response=response)
    assert len(encode_within(span, packed(profile), 4_000)) <= 4_000
    assert len(encode_within(made(tool=Tool(long, long, None)), packed(profile), 4_000)) <= 4_000


def test_deep_values_can_be_cut() -> None:
    deep: Any = "bottom"
    for _ in range(900):
        deep = [deep]
    found = attributes_of(
        Message.FromString(encode_within(made(input=deep, output="x" * 9_000), packed("otel"), 5_000))
    )
    assert found["gen_ai.tool.call.arguments"] == "[" * 200 + '"[nested too deeply]"' + "]" * 200


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(
    kind=st.sampled_from(["turn", "generation", "tool", "subagent", "event"]),
    asked=JSON,
    answered=JSON,
    metadata=st.dictionaries(st.text(max_size=8), JSON, max_size=4),
    profile=st.sampled_from([*PROFILES]),
    repeat=st.integers(1, 3_000),
)
def test_any_span_fits_into_the_limit(
    kind: Any, asked: Any, answered: Any, metadata: dict[str, Any], profile: str, repeat: int
) -> None:
    """Any content, any size: nothing raises, and what is sent is valid and within the limit."""
    if isinstance(asked, str | list):
        asked *= repeat
    span = made(kind, input=asked, output=answered, metadata=metadata)
    data = encode_within(span, packed(profile), 8_000)
    assert len(data) <= 8_000
    assert Message.FromString(data).span_id.hex() == OWN
    assert json.loads(request_json([data], RESOURCE))
