"""`request_content`: what of a recorded request its span carries, in every profile, and to whom it may leave."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lines import line, prompt, reply, session, tool_use
from profiles_spans import LABELS
from shared import CASES, case_transcripts, label, recordings

from cc_trace.export import Accepted, DestinationSettings, open_destination
from cc_trace.export.otlp import encode_span
from cc_trace.export.profiles import PROFILES
from cc_trace.privacy import Privacy, PrivacySettings
from cc_trace.requests import RequestLog
from cc_trace.settings import read_config
from cc_trace.settings.lookup import Layer, Settings
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from cc_trace.requests.session_requests import RequestContent
    from cc_trace.spans.model import Span

TOOLS = CASES / "2.1.325--b_tools"


def generations(path: Path, content: RequestContent) -> list[Span]:
    found = Session(path, request_content=content).spans()
    return [span for span in found if span.kind == "generation" and "advisor" not in span.metadata]


@pytest.mark.parametrize("transcript", [*case_transcripts(), *recordings()], ids=label)
def test_what_is_new_is_the_end_of_what_was_sent(transcript: Path) -> None:
    """All messages of a request are those of the request before up to where they differ, then the new ones."""
    before: dict[str | None, list[Any]] = {}
    as_today, news, fulls = (generations(transcript, content) for content in ("none", "new", "full"))
    for today, new, full in zip(as_today, news, fulls, strict=True):
        if "attempts" not in today.metadata:  # of an older version: no request is recorded
            assert today.input == new.input == full.input
            continue
        added: Any = new.input
        said: Any = full.input
        assert full.metadata["system_prompt"]
        assert full.metadata["tools"]
        assert not {"system_prompt", "tools"} & {*new.metadata}
        kept = said[: len(said) - len(added)]
        assert said == [*kept, *added]
        assert kept == before.get(full.agent_id, [])[: len(kept)]
        if full.status != "error":
            before[full.agent_id] = said


@pytest.mark.parametrize("transcript", [*case_transcripts(), *recordings()], ids=label)
def test_all_words_of_a_request_are_there(transcript: Path) -> None:
    """Compared with the request as it is put together, and proven, for `cc-trace show --request`."""
    log = RequestLog()
    log.read(transcript)
    for span in generations(transcript, "full"):
        found = log.find(str(span.response.message_id)) if span.response is not None else None
        if found is None:
            continue
        body = log.request(found[1])
        texts = Counter(_texts(body.messages)) + Counter(_texts(body.system))
        said = json.dumps([span.input, span.metadata["system_prompt"]], ensure_ascii=False)
        lost = [text for text in texts if json.dumps(text, ensure_ascii=False)[1:-1] not in said]
        assert lost == []
        shown: Any = span.metadata["tools"]
        offered: Any = body.tools
        assert [tool["name"] for tool in shown] == [tool["name"] for tool in offered]


def _texts(value: Any) -> list[str]:
    """The texts of blocks, wherever they stand."""
    match value:
        case {"type": "text", "text": str(text)} if text.strip():
            return [text]
        case dict():
            return [text for item in value.values() for text in _texts(item)]
        case list():
            return [text for item in value for text in _texts(item)]
        case _:
            return []


def two_calls() -> list[dict[str, Any]]:
    """A request with one message, and one that adds a response with a call, and its result."""
    one: Any = {"role": "user", "content": [{"type": "text", "text": "<system-reminder>be kind</system-reminder>"}]}
    one["content"].append({"type": "text", "text": "run it"})
    two = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "done"}]}
    tools: list[Any] = [{"name": "Bash", "description": "Runs.", "input_schema": {"type": "object"}}]
    tools.append({"type": "web_search_20250305", "name": "web_search"})
    shape = {"system": [{"type": "text", "text": "You help."}], "tools": tools}
    request = {"params": {"model": "claude-x"}, "shapeHash": "s", "querySource": "sdk"}
    return [
        prompt("run it", 0),
        line("api-request-shape", 0, shapeHash="s", shape=shape),
        line("api-request-blob", 0, hash="h1", message=one),
        line("api-request", 1, id="a1", base=None, keep=0, tail=["h1"], **request),
        reply("m1", {"type": "text", "text": "Yes."}, tool_use("toolu_1", command="ls"), at=2, requestRef="a1"),
        line("api-request-blob", 3, hash="h3", message={"role": "user", "content": [two]}),
        line("api-request", 4, id="a2", base="a1", keep=1, tail=["h2", "h3"], **request),
        reply("m2", "Ran.", at=5, requestRef="a2"),
    ]


def test_messages_have_the_form_of_inputs_and_outputs(tmp_path: Path) -> None:
    path = session(tmp_path, *two_calls())
    told = {"role": "user", "content": "<system-reminder>be kind</system-reminder>\nrun it"}
    called = {"id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    added = [
        {"role": "assistant", "content": "Yes.", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "toolu_1", "name": "Bash", "content": "done"},
    ]
    assert [span.input for span in generations(path, "new")] == [[told], added]
    fulls = generations(path, "full")
    assert [span.input for span in fulls] == [[told], [told, *added]]
    assert [span.metadata["system_prompt"] for span in fulls] == ["You help."] * 2


def test_system_message_keeps_its_place(tmp_path: Path) -> None:
    """In place of a reminder some versions send a message with the role `system`; it is not the system prompt."""
    lines = two_calls()
    lines[5]["message"] = {"role": "system", "content": "Be quick."}
    _, second = generations(session(tmp_path, *lines), "new")
    given: Any = second.input
    assert given[1] == {"role": "system", "content": "Be quick."}
    _, found = PROFILES["otel"](second, LABELS)
    assert "gen_ai.system_instructions" not in found
    assert json.loads(str(found["gen_ai.input.messages"]))[1]["role"] == "system"


def test_a_message_that_is_not_there_leaves_a_mark(tmp_path: Path) -> None:
    lines = [each for each in two_calls() if each.get("hash") != "h3"]
    _, second = generations(session(tmp_path, *lines), "new")
    given: Any = second.input
    assert given[1] == {"role": "user", "content": "[not in the transcript]"}


def test_a_request_whose_messages_are_not_known_is_as_without_the_setting(tmp_path: Path) -> None:
    """Its base is missing, as where the beginning of a transcript was cut off."""
    lines = [each for each in two_calls() if each.get("id") != "a1"]
    path = session(tmp_path, *lines)
    assert [span.input for span in generations(path, "full")] == [span.input for span in generations(path, "none")]


@pytest.mark.parametrize("content", ["no-tool-content", "metadata"])
def test_nothing_of_it_leaves_with_less_content(tmp_path: Path, content: Any) -> None:
    """Not even if the settings did not see to it: nobody is known to have said it."""
    for span in generations(session(tmp_path, *two_calls()), "full"):
        left = Privacy(PrivacySettings(content))(span)
        assert left.input in ([], None)
        assert not {"system_prompt", "tools"} & {*left.metadata}
        assert not any(word in str(left) for word in ("be kind", "You help", "Runs."))


@pytest.mark.parametrize("content", ["no-tool-content", "metadata"])
def test_with_less_content_the_input_is_as_without_the_setting(content: str) -> None:
    settings = Settings([Layer("environment", {"CC_TRACE_REQUEST_CONTENT": "full", "CC_TRACE_CONTENT": content})])
    assert read_config(settings, Path("/s"), Path("/h")).request_content == "none"


@pytest.mark.parametrize(
    ("users", "projects", "result"),
    [
        (None, "full", "none"),
        (None, "new", "none"),
        ("new", "full", "new"),
        ("full", "new", "new"),
        ("full", "none", "none"),
        ("full", None, "full"),
    ],
)
def test_a_project_can_only_let_less_leave(users: str | None, projects: str | None, result: str) -> None:
    layers = [
        Layer(place, {} if value is None else {"CC_TRACE_REQUEST_CONTENT": value})
        for place, value in (("shell", users), ("repository", projects))
    ]
    settings = Settings(layers[:1], restrictions=layers[1:])
    assert read_config(settings, Path("/s"), Path("/h")).request_content == result


def test_secrets_in_it_are_masked(tmp_path: Path) -> None:
    key = "ghp_" + "a1B2" * 9
    lines = two_calls()
    lines[1]["shape"]["tools"][0]["description"] = f"use {key}"
    lines[1]["shape"]["system"][0]["text"] = f"the key is {key}"
    made = [Privacy(PrivacySettings())(span) for span in generations(session(tmp_path, *lines), "full")]
    assert key not in str(made)


def test_otel_names_system_prompt_and_tools(tmp_path: Path) -> None:
    _, second = generations(session(tmp_path, *two_calls()), "full")
    _, found = PROFILES["otel"](second, LABELS)
    assert json.loads(str(found["gen_ai.system_instructions"])) == [{"type": "text", "content": "You help."}]
    function = {"type": "function", "name": "Bash", "description": "Runs.", "parameters": {"type": "object"}}
    searching = {"type": "web_search_20250305", "name": "web_search"}
    assert json.loads(str(found["gen_ai.tool.definitions"])) == [function, searching]
    messages = json.loads(str(found["gen_ai.input.messages"]))
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    call = {"type": "tool_call", "id": "toolu_1", "name": "Bash", "arguments": {"command": "ls"}}
    assert messages[1]["parts"] == [{"type": "text", "content": "Yes."}, call]
    assert not {"cc_trace.tools", "cc_trace.system_prompt"} & {*found}


def test_openinference_names_tools_and_calls(tmp_path: Path) -> None:
    _, second = generations(session(tmp_path, *two_calls()), "full")
    _, found = PROFILES["openinference"](second, LABELS)
    assert json.loads(str(found["llm.tools.0.tool.json_schema"]))["name"] == "Bash"
    assert found["llm.input_messages.0.message.role"] == "system"
    assert found["llm.input_messages.2.message.tool_calls.0.tool_call.function.name"] == "Bash"
    assert not {"system_prompt", "tools"} & {*json.loads(str(found["metadata"]))}


@pytest.mark.parametrize(
    ("profile", "name"), [("langfuse", "langfuse.observation.input"), ("mlflow", "mlflow.spanInputs")]
)
def test_chats_have_their_tools(tmp_path: Path, profile: str, name: str) -> None:
    _, second = generations(session(tmp_path, *two_calls()), "full")
    _, found = PROFILES[profile](second, LABELS)
    given = json.loads(str(found[name]))
    assert given["tools"][0]["function"] == {"name": "Bash", "description": "Runs.", "parameters": {"type": "object"}}
    assert [message["role"] for message in given["messages"]] == ["system", "user", "assistant", "tool"]
    assert given["messages"][2]["tool_calls"][0]["function"]["name"] == "Bash"
    assert not any(key.endswith(("tools", "system_prompt")) for key in found)


def _deep(levels: int) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = {"x": [value]}
    return value


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("system", 3),
        ("system", [None, {"type": "text"}, {"type": "text", "text": ["no"]}]),
        ("system", _deep(120)),
        ("tools", "none"),
        ("tools", [None, 7, {"name": 3, "input_schema": _deep(120)}, {"name": "\ud800", "input_schema": []}]),
        ("tools", {"a": 1 << 80}),
        ("message", {"role": "user", "content": _deep(120)}),
        ("message", {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": _deep(120)}]}),
        ("message", {"role": "assistant", "content": [{"type": "tool_use", "id": 3, "input": _deep(120)}, 3, None]}),
        ("message", {"role": ["user"], "content": "x"}),
        ("message", {"role": "user"}),
        ("message", {}),
    ],
)
def test_hostile_requests_reach_every_destination(tmp_path: Path, place: str, value: Any) -> None:
    """Values of the wrong type or nested too deeply: the span is built, masked, encoded and stored all the same."""
    lines = two_calls()
    if place == "message":
        lines[5]["message"] = value
    else:
        lines[1]["shape"][place] = value
    path = session(tmp_path, *[json.dumps(each).encode() for each in lines])
    store = open_destination(DestinationSettings("local", "local", path=tmp_path / "traces.db"))
    for content in ("new", "full"):
        spans = [Privacy(PrivacySettings())(span) for span in Session(path, request_content=content).spans()]
        assert [span.kind for span in spans] == ["turn", "generation", "tool", "generation"]
        for span in spans:
            for profile in PROFILES.values():
                assert encode_span(span, *profile(span, LABELS))
        assert store.send([store.encode(span) for span in spans]) == Accepted()
    store.close()
