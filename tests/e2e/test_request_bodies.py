"""The real Claude Code's requests: what is rebuilt from its transcripts is what the API received."""

from __future__ import annotations

import base64
import json
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import claude_code
import pytest
import scripted_api
from api_calls import read_request
from received import facts_of
from sandbox import Sandbox
from script import Failure, Reply, Use
from versions import CURRENT

from cc_trace.cli.request import search_request
from cc_trace.requests.log import RequestLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from api_calls import Request

# One pixel.
_IMAGE: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_NOT_RECORDED: Final = ("metadata", "stream")
_BILLING: Final = "x-anthropic-billing-header"
_BUSY: Final = Failure(529, "overloaded_error")


class _Wire:
    """What arrived at the API, as it arrived."""

    def __init__(self) -> None:
        self._bodies: list[dict[str, Any]] = []

    def read(self, body: bytes) -> Request:
        self._bodies.append(json.loads(body))
        return read_request(body)

    def bodies(self, sessions: set[str]) -> Counter[str]:
        """Those of a conversation, without what Claude Code records nowhere: other scenarios run at the same time."""
        return Counter(
            _comparable(body)
            for body in self._bodies
            if any(session in body["metadata"]["user_id"] for session in sessions)
            and read_request(json.dumps(body).encode()).internal_purpose is None
        )


def _comparable(body: dict[str, Any]) -> str:
    kept = {key: value for key, value in body.items() if key not in _NOT_RECORDED}
    kept["system"] = [block for block in kept["system"] if not block["text"].startswith(_BILLING)]
    return json.dumps(kept, sort_keys=True)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> _Wire:
    """Note every body on its way to the scripted API."""
    noted = _Wire()
    monkeypatch.setattr(scripted_api, "read_request", noted.read)
    return noted


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sandbox]:
    """A sandbox of this test's own."""
    with Sandbox(request.node.name, tmp_path / "s", CURRENT, claude_code.command(CURRENT)) as ready:
        yield ready


def _sessions(sandbox: Sandbox) -> list[Path]:
    return [path for path in sandbox.transcripts.files if path.parent.name != "subagents"]


def _rebuilt(sandbox: Sandbox) -> Counter[str]:
    """Every recorded request of every session, each of them proven."""
    bodies: Counter[str] = Counter()
    for path in _sessions(sandbox):
        log = RequestLog()
        for each in (path, *path.parent.glob(f"{path.stem}/subagents/*.jsonl")):
            log.read(each)
        for call in log.calls:
            for attempt in call.attempts:
                request = log.request(attempt)
                assert (request.verified, request.missing) == (True, ())
                bodies[_comparable(request.body)] += 1
    return bodies


def _causes(sandbox: Sandbox, message: int) -> list[str]:
    miss = search_request(f"msg_{message:06d}", _sessions(sandbox)).miss
    return [] if miss is None else [cause.kind for cause in miss.causes]


def _received(sandbox: Sandbox) -> dict[str, dict[str, Any]]:
    """The attributes of each response that arrived at the sink, by its id."""
    found = map(facts_of, sandbox.sink.spans)
    return {each["gen_ai.response.id"]: each for each in found if "gen_ai.response.id" in each}


def _assert_spans_have_what_was_served(sandbox: Sandbox) -> None:
    """With `request_content`: the messages that the API received, their texts and calls, and the tools."""
    received = _received(sandbox)
    served = [each for each in sandbox.api.calls if each.message is not None and each.request.internal_purpose is None]
    assert {each.message.id for each in served if each.message is not None} == {*received}
    for each in served:
        assert each.message is not None
        facts = received[each.message.id]
        assert [tool["name"] for tool in json.loads(facts["gen_ai.tool.definitions"])] == [*each.request.tools]
        assert facts["gen_ai.system_instructions"]
        messages = json.loads(facts["gen_ai.input.messages"])
        roles = [message["role"] for message in messages if message["role"] != "tool"]
        asked = [message["role"] for message in each.request.messages if not _only_results(message)]
        assert roles == asked
        said = json.dumps(messages)
        lost = [
            text for message in each.request.messages for text in _words(message) if json.dumps(text)[1:-1] not in said
        ]
        assert lost == []


def _only_results(message: dict[str, Any]) -> bool:
    content = message["content"]
    return isinstance(content, list) and all(block["type"] == "tool_result" for block in content)


def _words(message: dict[str, Any]) -> list[str]:
    content = message["content"]
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return [block["text"] for block in blocks if block["type"] == "text" and block["text"].strip()]


def test_requests_of_print_mode(sandbox: Sandbox, wire: _Wire) -> None:  # noqa: PLR0915
    """Tools, an image, an agent, retries, a refusal; resumed with another model, other tools, less thinking; forked."""
    home = sandbox.home
    home.settings["env"]["CC_TRACE_REQUEST_CONTENT"] = "full"
    home.write("CLAUDE.md", "Always say please. é \N{GRINNING FACE}\n")
    (home.project / "pixel.png").write_bytes(base64.b64decode(_IMAGE))
    agent = {"description": "a part", "prompt": "[[part]] do", "subagent_type": "general-purpose"}
    look = Use("Read", {"file_path": str(home.project / "pixel.png")})
    run = Use("Bash", {"command": "printf '\\033[1m%s' ok", "description": "numbers: 0.5, 1e-7"})
    sandbox.script(
        t1=[
            Reply("Looking \N{GRINNING FACE}.", "think first", (look, run), failures=(_BUSY, _BUSY)),
            Reply(uses=(Use("Agent", {**agent, "run_in_background": False}),)),
            Reply("Done."),
        ],
        part=[
            Reply("My part.", uses=(Use("Bash", {"command": "echo part", "description": "p"}),)),
            Reply("It."),
        ],
        **{f"t{number}": [Reply(f"Answer {number}.")] for number in range(2, 9)},
        refused=[Reply(always=Failure(400, "invalid_request_error"))],
    )
    resumed = ("--resume", sandbox.session())
    sandbox.ask("[[t1]] one")
    sandbox.ask("[[t2]] the same", *resumed, session=None)
    sandbox.ask("[[t3]] another model", *resumed, "--model", "claude-opus-4-6", "--effort", "high", session=None)
    sandbox.ask("[[t4]] fewer tools", *resumed, "--disallowedTools", "Bash", session=None)
    sandbox.ask("[[t5]] forked", *resumed, "--fork-session", session=None)
    sandbox.ask("[[refused]] no", session=2, code=1)
    sandbox.ask("[[t6]] in a new session", session=3)
    _set_environment(sandbox, MAX_THINKING_TOKENS="2048")
    sandbox.ask("[[t7]] less thinking", "--resume", sandbox.session(3), session=None)
    sandbox.settle()
    _assert_spans_have_what_was_served(sandbox)
    # A session that is resumed keeps its system prompt, whatever the options; but not so here, where no hook runs.
    _set_environment(sandbox, CLAUDE_CODE_SIMPLE="1")
    sandbox.ask("[[t8]] another system prompt", "--resume", sandbox.session(3), session=None)
    sandbox.settle()

    rebuilt, received = _rebuilt(sandbox), wire.bodies({path.stem for path in _sessions(sandbox)})
    assert rebuilt == received
    assert max(rebuilt.values()) == 3  # two retries of the same
    first = search_request("msg_000001", _sessions(sandbox))
    assert [retry.status for retry in first.call.retries] == [529, 529]
    (refusal,) = [path for path in _sessions(sandbox) if path.stem == sandbox.session(2)]
    log = RequestLog()
    log.read(refusal)
    (call,) = log.calls
    assert len(call.attempts) > 1
    assert call.failure is not None
    assert call.failure.status == 400
    causes = {number: _causes(sandbox, number) for number in range(1, 9)}
    assert causes[1] == ["first request"]
    assert causes[3] == ["first request"]  # the agent's
    assert causes[6] == ["unknown"]  # nothing changed: the scripted API caches nothing
    assert causes[7][:1] == ["model changed"]
    assert "tools changed" in causes[8]
    shown = search_request("msg_000008", _sessions(sandbox))
    assert shown.miss is not None
    assert "Bash removed" in {cause.kind: cause.detail for cause in shown.miss.causes}["tools changed"]
    assert _causes(sandbox, 11) == ["thinking changed"]
    assert {"tools changed", "system prompt changed"} <= {*_causes(sandbox, 12)}
    recorded = {
        number: json.loads(_received(sandbox)[f"msg_{number:06d}"]["cc_trace.cache_miss"]) for number in range(1, 12)
    }
    sent = {number: [cause["kind"] for cause in miss["causes"]] for number, miss in recorded.items()}
    assert sent == {number: _causes(sandbox, number) for number in range(1, 12)}
    assert _causes_after_a_break(sandbox, 11) == ["thinking changed", "expired"]


def _set_environment(sandbox: Sandbox, **variables: str) -> None:
    path = sandbox.home.config / "settings.json"
    settings = json.loads(path.read_text())
    settings["env"] |= variables
    path.write_text(json.dumps(settings))


def _causes_after_a_break(sandbox: Sandbox, message: int) -> list[str]:
    """The causes, had the request been sent ten minutes later."""
    shown = search_request(f"msg_{message:06d}", _sessions(sandbox))
    (path,) = [path for path in _sessions(sandbox) if path.stem == shown.session_id]
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    for line in lines:
        if line["type"] == "api-request" and line["id"] == shown.attempt.id:
            later = datetime.fromisoformat(line["timestamp"]) + timedelta(minutes=10)
            line["timestamp"] = later.isoformat()
    copy = sandbox.home.folder / path.name
    copy.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    miss = search_request(f"msg_{message:06d}", [copy]).miss
    return [] if miss is None else [cause.kind for cause in miss.causes]


def test_requests_of_a_terminal(sandbox: Sandbox, wire: _Wire) -> None:
    """Before and after /compact, and in the session that /clear begins."""
    sandbox.script(**{f"t{number}": [Reply(f"Answer {number}.")] for number in range(1, 5)})
    with sandbox.terminal() as terminal:
        terminal.say_and_wait("[[t1]] one", "t1")
        terminal.say_and_wait("[[t2]] two", "t2")
        terminal.command("/compact", lambda: sandbox.transcripts.count(subtype="compact_boundary"))
        terminal.wait_for(r"Compacted")
        terminal.say_and_wait("[[t3]] three", "t3")
        terminal.command("/clear", lambda: "Answer 3." not in terminal.screen)
        terminal.say_and_wait("[[t4]] four", "t4")
        terminal.exit()
    sandbox.settle()
    assert _rebuilt(sandbox) == wire.bodies({path.stem for path in _sessions(sandbox)})
    compacted = next(
        each.message.id for each in sandbox.api.calls if each.message is not None and each.message.text == "Answer 3."
    )
    miss = search_request(compacted, _sessions(sandbox)).miss
    assert miss is not None
    assert [cause.kind for cause in miss.causes] == ["messages rewritten"]
