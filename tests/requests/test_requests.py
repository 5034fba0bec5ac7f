"""The requests that Claude Code recorded: read, put together again, and what they tell of context and cache."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lines import MODEL, line, prompt, reply, stamp
from shared import CASES, case_transcripts

from cc_trace.cli.request import mentioning
from cc_trace.requests.cache import Cause, Sent, cache_miss
from cc_trace.requests.context import context_by_origin, divide
from cc_trace.requests.log import RequestLog, _kind
from cc_trace.requests.records import Breakpoint, attempt, response
from cc_trace.transcript.entries import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lines import Line

    from cc_trace.requests.records import Attempt, Call

E2 = CASES / "2.1.325--e2_bad_request" / "eeeeeeee-0000-4000-8000-000000000002.jsonl"
E1 = CASES / "2.1.325--e1_overloaded_then_ok" / "eeeeeeee-0000-4000-8000-000000000001.jsonl"
TOOLS = CASES / "2.1.325--b_tools" / "bbbbbbbb-0000-4000-8000-000000000001.jsonl"
OLDER = CASES / "2.1.197--b_tools" / "bbbbbbbb-0000-4000-8000-000000000001.jsonl"
SHAPE: Final[Line] = {
    "system": [{"type": "text", "text": "You help."}],
    "tools": [{"name": "Bash", "input_schema": {"type": "object"}}, {"name": "Read", "input_schema": {}}],
}
PARAMS: Final[Line] = {
    "model": MODEL,
    "max_tokens": 32000,
    "betas": ["one", "two"],
    "thinking": {"type": "enabled", "budget_tokens": 31999, "display": "omitted"},
    "output_config": {"effort": "high"},
}
READ_ALL = Usage(input=10, cache_read=1000, cache_write_5m=100)


# Lines, written as Claude Code writes them: the hashes here are made without the code under test.


def sha(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def said(*blocks: Line) -> Line:
    return {"role": "assistant", "content": list(blocks)}


def asked(*texts: str) -> Line:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def shape_line(shape: Line = SHAPE) -> Line:
    return {"type": "api-request-shape", "sessionId": "s", "shapeHash": sha(shape), "shape": shape}


def blob(message: Line) -> Line:
    return {"type": "api-request-blob", "sessionId": "s", "hash": sha(message), "message": message}


def sent(
    id_: str,
    messages: list[Line],
    *,
    base: tuple[str, int] | None = None,
    at: float = 0,
    shape: Line = SHAPE,
    **fields: Any,
) -> Line:
    """An `api-request` line with the digest of the whole; the last block has a cache breakpoint."""
    where = ["messages", len(messages) - 1, "content", len(messages[-1]["content"]) - 1]
    marked = json.loads(json.dumps(messages))
    marked[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    params = fields.pop("params", PARAMS)
    keep = base[1] if base else 0
    made = {
        "type": "api-request",
        "sessionId": "s",
        "id": id_,
        "timestamp": stamp(at),
        "querySource": "sdk",
        "shapeHash": sha(shape),
        "params": params,
        "keep": keep,
        "tail": [sha(message) for message in messages[keep:]],
        "cacheControl": [{"path": where, "value": {"type": "ephemeral"}}],
        "requestDigest": sha({**params, **shape, "messages": marked}),
    }
    return made | ({"base": base[0]} if base else {}) | fields


def written(path: Path, lines: Iterable[Line | str]) -> Path:
    texts = (each if isinstance(each, str) else json.dumps(each, separators=(",", ":")) for each in lines)
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def log_of(*paths: Path) -> RequestLog:
    log = RequestLog()
    for path in paths:
        log.read(path)
    return log


def found(log: RequestLog, name: str) -> tuple[Call, Attempt]:
    there = log.find(name)
    assert there is not None
    return there


TEXT: Final[Line] = {"type": "text", "text": "I look."}
USE: Final[Line] = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls é", "ratio": 0.5}}
FIRST, SECOND = asked("hello"), {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]}


def a_session(folder: Path) -> Path:
    """A prompt, a response of two lines with the tool's result between them, and what was sent next."""
    answer = said(TEXT, USE)
    return written(
        folder / "s.jsonl",
        [
            prompt("hello", 0),
            shape_line(),
            blob(FIRST),
            sent("r1", [FIRST], at=1),
            reply("m1", TEXT, at=2, requestRef="r1"),
            reply("m1", USE, at=3, requestRef="r1"),
            line("user", 4, message=SECOND),
            blob(SECOND),
            sent("r2", [FIRST, answer, SECOND], base=("r1", 1), at=5),
            reply("m2", "Done.", at=6, requestRef="r2"),
        ],
    )


def test_a_request_is_put_together_and_proven(tmp_path: Path) -> None:
    """From the request before, the response's own lines and the new message; the digest is Claude Code's."""
    log = log_of(a_session(tmp_path))
    call, made = found(log, "m2")
    request = log.request(made)
    marked = {"type": "tool_result", "tool_use_id": "t1", "cache_control": {"type": "ephemeral"}}
    assert (request.verified, request.missing) == (True, ())
    assert request.body == {
        **{key: value for key, value in PARAMS.items() if key != "betas"},
        **SHAPE,
        "messages": [FIRST, said(TEXT, USE), {"role": "user", "content": [marked]}],
    }
    assert (made.model, made.max_tokens, made.thinking_budget, made.effort) == (MODEL, 32000, 31999, "high")
    assert (made.betas, made.query_source, made.agent_id) == (("one", "two"), "sdk", None)
    assert made.breakpoints == (Breakpoint(("messages", 2, "content", 0), {"type": "ephemeral"}),)
    assert call.response is not None
    assert call.response.attempt_id == made.id == "r2"


def test_asking_twice_gives_the_same(tmp_path: Path) -> None:
    """A breakpoint put into one body is not found in another."""
    log = log_of(a_session(tmp_path))
    bodies = [json.dumps(log.request(found(log, name)[1]).body) for name in ("m1", "m2", "m1", "m2")]
    assert bodies[:2] == bodies[2:]
    assert bodies[1].count("cache_control") == 1


def test_one_changed_letter_is_noticed(tmp_path: Path) -> None:
    """What is not what was sent is not called exact."""
    path = a_session(tmp_path)
    path.write_text(path.read_text().replace("You help.", "You harm."))
    log = log_of(path)
    assert log.request(found(log, "m2")[1]).verified is False


def test_a_changed_response_is_found_by_its_place(tmp_path: Path) -> None:
    """It stands after all that it answered; nobody calls the request exact."""
    path = a_session(tmp_path)
    path.write_text(path.read_text().replace("I look.", "I watch."))
    log = log_of(path)
    request = log.request(found(log, "m2")[1])
    assert request.messages[1] == said({"type": "text", "text": "I watch."}, USE)
    assert (request.missing, request.verified) == ((), False)


def test_nothing_else_is_taken_for_a_changed_response(tmp_path: Path) -> None:
    """What follows only a part of the request before is not its answer: it is missing."""
    lines = [
        blob(FIRST),
        sent("r1", [FIRST, FIRST]),
        reply("m1", "Yes.", at=1, requestRef="r1"),
        sent("r2", [FIRST, SECOND], base=("r1", 1)),
    ]
    log = log_of(written(tmp_path / "s.jsonl", lines))
    assert "message 1" in log.request(found(log, "r2")[1]).missing


def test_a_line_that_was_written_twice_counts_once(tmp_path: Path) -> None:
    """A response's lines are joined: blocks in order, tokens by maximum, durations by sum; copies are left out."""
    early = reply("m1", TEXT, at=2, requestRef="r1", usage={"output_tokens": 1}, thinkingDurationMs=5)
    late = reply("m1", USE, at=3, usage={"output_tokens": 90}, thinkingDurationMs=7, toolInputStreamMs=2)
    answer = said(TEXT, USE)
    lines = [shape_line(), blob(FIRST), sent("r1", [FIRST]), early, late, early]
    lines += [blob(SECOND), sent("r2", [FIRST, answer, SECOND], base=("r1", 1))]
    log = log_of(written(tmp_path / "s.jsonl", lines))
    assert log.request(found(log, "r2")[1]).verified is True
    joined = log.response("m1")
    assert joined is not None
    assert joined.usage is not None
    assert (joined.attempt_id, joined.usage.output) == ("r1", 90)
    assert (joined.thinking_ms, joined.tool_input_ms) == (12, 2)
    assert (joined.last_ns or 0) - (joined.first_ns or 0) == 1_000_000_000


def test_an_agent_is_a_thread_of_its_own(tmp_path: Path) -> None:
    """The request before an agent's first is none of the session's."""
    main, agent = a_session(tmp_path), tmp_path / "agent-a.jsonl"
    lines = [
        sent("a1", [FIRST], agentId="a"),
        reply("n1", "x", at=7, requestRef="a1"),
        sent("a2", [FIRST], agentId="a"),
    ]
    log = log_of(main, written(agent, lines))
    before = {name: log.previous(found(log, name)[1]) for name in ("r1", "r2", "a1", "a2")}
    ids = {name: call.response.message_id for name, call in before.items() if call is not None and call.response}
    assert ids == {"r2": "m1", "a2": "n1"}


def test_plain_text_is_found_by_the_hash_of_its_block(tmp_path: Path) -> None:
    """A user line's text has no line of its own: its hash is that of one block, and with a breakpoint it is sent so."""
    feedback = asked("Stop hook feedback: go on")
    lines = [
        shape_line(),
        blob(FIRST),
        sent("r1", [FIRST]),
        reply("m1", "Done.", at=1, requestRef="r1"),
        prompt("Stop hook feedback: go on", 2),
        sent("r2", [FIRST, said({"type": "text", "text": "Done."}), feedback], base=("r1", 1)),
        reply("m2", "More.", at=3, requestRef="r2"),
        sent("r3", [FIRST, said({"type": "text", "text": "Done."}), feedback, FIRST], base=("r2", 3)),
    ]
    log = log_of(written(tmp_path / "s.jsonl", lines))
    with_point, without = (log.request(found(log, name)[1]) for name in ("r2", "r3"))
    block = {"type": "text", "text": "Stop hook feedback: go on", "cache_control": {"type": "ephemeral"}}
    assert (with_point.verified, with_point.messages[2]) == (True, {"role": "user", "content": [block]})
    assert (without.verified, without.messages[2]) == (True, {"role": "user", "content": "Stop hook feedback: go on"})


def test_lone_surrogates_are_hashed_as_javascript_writes_them(tmp_path: Path) -> None:
    """As escapes, which strict UTF-8 has no room for."""
    odd = asked("half a smile: \ud83d")
    lines: list[Line | str] = [shape_line(), json.dumps(blob(odd)), json.dumps(sent("r1", [odd]))]
    log = log_of(written(tmp_path / "s.jsonl", lines))
    assert log.request(found(log, "r1")[1]).verified is True


def test_heavy_lines_are_not_parsed_until_asked_for(tmp_path: Path) -> None:
    """A scan looks at their first bytes: damage further on is met only by who asks for the body."""
    damaged = json.dumps(blob(FIRST), separators=(",", ":"))[:-4]
    shape = json.dumps(shape_line(), separators=(",", ":"))[:-4]
    log = log_of(written(tmp_path / "s.jsonl", [shape, damaged, sent("r1", [FIRST])]))
    assert log.malformed == 0
    request = log.request(found(log, "r1")[1])
    point = "the place of the cache breakpoint ['messages', 0, 'content', 0]"
    assert request.missing == ("the system prompt and the tools", "message 0", point)
    assert (request.messages, request.system, request.verified) == ([None], None, False)


def test_kinds_are_told_by_the_first_bytes() -> None:
    """Also where the message stands first, as in responses; a quoted type is none."""
    quoted = prompt('"type":"assistant"', 0)
    for made in (reply("m", "x", at=0), quoted, shape_line(), blob(FIRST), sent("r", [FIRST])):
        assert _kind(json.dumps(made, separators=(",", ":")).encode()) == made["type"]
    behind = {key: value for key, value in reply("m", "x", at=0).items() if key != "type"} | {"type": "assistant"}
    assert _kind(json.dumps(behind, separators=(",", ":")).encode()) == "assistant"
    assert _kind(b'{"attachment":{"type":"prompt_snapshot"},"type":"attachment"}') == "attachment"
    assert _kind(b'{ "type" : "user" }') is None


# Attempts


def test_retries_belong_to_the_response_that_came_in_the_end() -> None:
    """Recorded: 529, 500, then an answer; each with its status, wait and the API's request id."""
    call, made = found(log_of(E1), "msg_8810815073f2c4aae803")
    assert [(each.status, each.wait_ms, each.request_id, each.number) for each in call.retries] == [
        (529, 556, "req_000001", 1),
        (500, 1192, "req_000002", 2),
    ]
    assert [each.id for each in call.attempts[:2]] == [each.attempt_id for each in call.retries]
    assert (len(call.attempts), made, call.failure) == (3, call.attempts[2], None)
    assert made.sent_ns is not None
    assert call.response is not None
    assert call.response.first_ns is not None
    assert made.sent_ns < call.response.first_ns


def test_every_rejected_variant_is_an_attempt_of_one_call() -> None:
    """Recorded: a request that is refused is tried in six variants, then given up."""
    log = log_of(E2)
    (call,) = log.calls
    assert [("display" in each.thinking, len(each.betas)) for each in call.attempts] == [
        (True, 5),
        (True, 4),
        (False, 4),
        (True, 4),
        (True, 3),
        (False, 3),
    ]
    assert call.failure is not None
    assert (call.failure.status, call.failure.kind) == (400, "invalid_request_error")
    assert (call.failure.request_id, call.response) == ("req_000006", None)
    assert found(log, call.failure.message_id) == (call, call.attempts[-1])


def test_a_prompt_ends_the_wait_for_an_answer(tmp_path: Path) -> None:
    """A request that was interrupted before its answer is no attempt of the next one."""
    lines = [
        sent("r1", [FIRST]),
        prompt("[Request interrupted by user]", 1),
        prompt("again", 2),
        sent("r2", [FIRST, SECOND], base=("r1", 1)),
        reply("m2", "Yes.", at=3, requestRef="r2"),
    ]
    calls = log_of(written(tmp_path / "s.jsonl", lines)).calls
    assert [([each.id for each in call.attempts], call.response is not None) for call in calls] == [
        (["r1"], False),
        (["r2"], True),
    ]


def test_a_request_that_stands_before_the_response_it_follows_is_a_call_of_its_own(tmp_path: Path) -> None:
    """Lines are not written in the order of their times."""
    lines = (a_session(tmp_path).read_text()).splitlines()
    blobs, early = lines.pop(7), lines.pop(7)
    path = written(tmp_path / "early.jsonl", [*lines[:4], blobs, early, *lines[4:]])
    log = log_of(path)
    assert [[each.id for each in call.attempts] for call in log.calls] == [["r1"], ["r2"]]
    assert [call.response.message_id for call in log.calls if call.response is not None] == ["m1", "m2"]
    call, made = found(log, "m2")
    assert (call.attempts, log.request(made).verified) == ((made,), True)
    assert log.previous(made) == log.calls[0]


def test_an_answer_that_broke_off_is_tried_again(tmp_path: Path) -> None:
    """What failed while it streamed keeps its error, and the next request is another call."""
    error = line("system", 2, subtype="api_error", error={"status": 529}, retryInMs=5, retryAttempt=1)
    lines = [
        sent("r1", [FIRST]),
        reply("m1", "I beg", at=1, requestRef="r1"),
        error,
        sent("r2", [FIRST], base=("r1", 1)),
        reply("m2", "I begin.", at=3, requestRef="r2"),
    ]
    first, second = log_of(written(tmp_path / "s.jsonl", lines)).calls
    assert [each.status for each in first.retries] == [529]
    assert (len(second.attempts), second.retries) == (1, ())


@pytest.mark.parametrize("path", case_transcripts(), ids=lambda path: f"{path.parent.name}-{path.stem[-4:]}")
def test_every_recorded_request_has_all_its_parts(path: Path) -> None:
    """In every recorded session, agents included, no message of any request is missing, and each is found by id.

    Their long texts were cut and their paths replaced when they were recorded: digests differ, and some responses are
    found by their place.
    """
    agents = sorted(path.parent.glob(f"{path.stem}/subagents/**/agent-*.jsonl"))
    log = log_of(path, *agents)
    assert log.recorded == path.parent.name.startswith("2.1.325")
    for call in log.calls:
        for each in call.attempts:
            assert log.request(each).missing == ()
            assert found(log, each.id)[1] == each
        if call.response is not None:
            usage = call.response.usage
            assert usage is not None
            assert found(log, call.response.message_id) == (call, call.answered)
            sent = usage.input + usage.cache_read + usage.cache_write_5m + usage.cache_write_1h
            shares = context_by_origin(log.request(call.attempts[-1]), usage)
            assert sum(part.tokens for part in shares.parts) == shares.total_tokens == sent
    text = "".join(each.read_text() for each in (path, *agents))
    assert sum(len(call.attempts) for call in log.calls) == text.count('"type":"api-request",')


# Hostile input


def test_circular_requests_end(tmp_path: Path) -> None:
    """Each says that it begins like the other."""
    lines = [
        blob(FIRST),
        sent("r1", [FIRST]) | {"base": "r2", "keep": 5},
        sent("r2", [FIRST]) | {"base": "r1", "keep": 5},
        sent("r3", [FIRST]) | {"base": "r3", "keep": 1},
    ]
    log = log_of(written(tmp_path / "s.jsonl", lines))
    assert log.message_names(found(log, "r1")[1]) is None
    missing = [log.request(each).missing[0] for call in log.calls for each in call.attempts]
    assert missing == [
        "request r1, from which it took 5 messages",
        "request r2, from which it took 5 messages",
        "request r3, from which it took 1 messages",
    ]


def test_more_messages_than_there_are_take_no_memory(tmp_path: Path) -> None:
    """A count nobody can have meant is said to be missing."""
    lines = [blob(FIRST), sent("r1", [FIRST]), sent("r2", [FIRST]) | {"base": "r1", "keep": 1 << 40}]
    log = log_of(written(tmp_path / "s.jsonl", lines))
    request = log.request(found(log, "r2")[1])
    assert f"{(1 << 40) - 1} of its {(1 << 40) + 1} messages" in request.missing
    assert len(request.messages) == 2


def test_a_request_can_keep_less_than_the_one_before(tmp_path: Path) -> None:
    """As after going back to an earlier prompt: from each only what those after it kept is taken."""
    a, b, c, d, e = (asked(letter) for letter in "abcde")
    lines = [
        *map(blob, (a, b, c, d, e)),
        sent("r1", [a]),
        sent("r2", [a, b, c], base=("r1", 1)),
        sent("r3", [a, b, d], base=("r2", 2)),
        sent("r4", [a, e], base=("r3", 1)),
    ]
    log = log_of(written(tmp_path / "s.jsonl", lines))
    named = [log.message_names(found(log, name)[1]) for name in ("r2", "r3", "r4")]
    assert named == [tuple(map(sha, messages)) for messages in ([a, b, c], [a, b, d], [a, e])]


def test_a_long_chain_is_followed(tmp_path: Path) -> None:
    """Far longer than Python's stack."""
    chain: list[Line] = [blob(FIRST), sent("r0", [FIRST])]
    for number in range(1, 3000):
        chain.append(sent(f"r{number}", [FIRST] * 2) | {"base": f"r{number - 1}", "keep": number})
        chain[-1]["tail"] = chain[-1]["tail"][:1]
    log = log_of(written(tmp_path / "s.jsonl", chain))
    assert log.message_names(found(log, "r2999")[1]) == (sha(FIRST),) * 3000


def test_two_objects_on_one_line_are_both_read(tmp_path: Path) -> None:
    """As public transcripts have them."""
    both = json.dumps(sent("r1", [FIRST])) + json.dumps(reply("m1", "x", at=1, requestRef="r1"))
    log = log_of(written(tmp_path / "s.jsonl", [both, "{", '["no object"]', ""]))
    assert found(log, "m1")[1].id == "r1"
    assert log.malformed == 2


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(data=st.data())
def test_values_of_any_type_raise_nothing(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Any field of any line may be anything: reading, rebuilding and dividing raise nothing."""
    folder = tmp_path_factory.mktemp("hostile")
    lines = [json.loads(text) for text in a_session(folder).read_text().splitlines()]
    for _ in range(data.draw(st.integers(1, 4))):
        target = data.draw(st.sampled_from(lines))
        while True:
            key = data.draw(st.sampled_from(sorted(target)))
            if isinstance(target[key], dict) and target[key] and data.draw(st.booleans()):
                target = target[key]
                continue
            target[key] = data.draw(ANYTHING)
            break
    random.Random(data.draw(st.integers(0, 99))).shuffle(lines)
    log = log_of(written(folder / "s.jsonl", (json.dumps(each) for each in lines)))
    for call in log.calls:
        for each in call.attempts:
            shares = context_by_origin(log.request(each), READ_ALL)
            assert sum(part.tokens for part in shares.parts) == 1110
            log.previous(each)


# Context


def test_context_by_origin(tmp_path: Path) -> None:
    """Every part of a request is counted under where it came from, reminders apart from what they stand in."""
    reminder = "<system-reminder>\n{}\n</system-reminder>"
    memory = reminder.format("Codebase and user instructions are shown below.")
    skills = reminder.format("The following skills are available for use with the Skill tool:")
    date = reminder.format("Today's date is 2026-01-01.")
    nested = reminder.format("Contents of /project/src/CLAUDE.md:\n\nrules")
    thought: Line = {"type": "thinking", "thinking": "", "signature": "s" * 70}
    image: Line = {"type": "image", "source": {"type": "base64", "data": "A" * 1_000_000, "media_type": "image/png"}}
    result: Line = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": f"out{nested}"}]}
    picture: Line = {"type": "tool_result", "tool_use_id": "t9", "content": [image]}
    messages = [
        asked(memory, skills, date, "hello"),
        said(thought, TEXT, USE),
        {"role": "user", "content": [result, picture]},
    ]
    lines = [shape_line(), *map(blob, messages), sent("r1", messages)]
    log = log_of(written(tmp_path / "s.jsonl", lines))
    shares = context_by_origin(log.request(found(log, "r1")[1]), Usage(input=3, cache_read=90_000, cache_write_1h=7))
    sizes = {(part.origin, part.name): part.size_bytes for part in shares.parts}
    assert sizes == {
        ("system prompt", None): len("You help."),
        ("tools", None): sum(len(json.dumps(tool, separators=(",", ":"))) for tool in SHAPE["tools"]),
        ("memory files", None): len(memory) + len(nested),
        ("skills", None): len(skills),
        ("reminders", None): len(date),
        ("prompts", None): len("hello"),
        ("tool results", "unknown"): 6400,
        ("tool results", "Bash"): len("out"),
        ("thinking", None): 70,
        ("answers", None): len("I look."),
        ("tool calls", "Bash"): len(json.dumps(USE["input"], separators=(",", ":"), ensure_ascii=False).encode()),
    }
    assert sum(part.tokens for part in shares.parts) == shares.total_tokens == 90_010
    assert shares.complete


@given(st.integers(0, 10**7), st.lists(st.integers(0, 10**9), min_size=1))
def test_shares_add_up_and_are_fair(total: int, weights: list[int]) -> None:
    """To the whole, exactly; and none is a token or more away from its proportion."""
    shares = divide(total, weights)
    whole = sum(weights)
    assert sum(shares) == (total if whole else 0)
    assert all(
        abs(share * whole - total * weight) < whole for share, weight in zip(shares, weights, strict=True) if whole
    )


def test_tokens_of_a_request_without_parts_are_not_lost(tmp_path: Path) -> None:
    """They are nobody's, and the context says that it is not complete."""
    log = log_of(written(tmp_path / "s.jsonl", [sent("r1", [FIRST])]))
    shares = context_by_origin(log.request(found(log, "r1")[1]), READ_ALL)
    assert [(part.origin, part.tokens) for part in shares.parts] == [("other", 1110)]
    assert not shares.complete


# Cache


def one(at: float = 0, usage: Usage = READ_ALL, messages: list[Line] | None = None, **fields: Any) -> Sent:
    """A request that was answered."""
    shape = fields.get("shape", SHAPE)
    made = attempt(sent("r", messages or [FIRST], at=at, **fields))
    answer = response(reply("m", "x", at=at, promptCacheRequested="5m"))
    assert made is not None
    assert answer is not None
    return Sent(made, answer._replace(usage=usage), shape, made.tail)


MISSED = Usage(input=10, cache_write_5m=1200)
BUDGET = {**PARAMS, "thinking": {"type": "enabled", "budget_tokens": 1024}}


@pytest.mark.parametrize(
    ("now", "causes"),
    [
        ({}, [Cause("unknown")]),
        (
            {"params": {**PARAMS, "model": "claude-opus-4-6"}},
            [Cause("model changed", f"{MODEL} to claude-opus-4-6")],
        ),
        (
            {"shape": {**SHAPE, "tools": [{"name": "Bash", "input_schema": {}}, {"name": "Edit"}]}},
            [Cause("tools changed", "Edit added, Read removed, Bash changed")],
        ),
        ({"shape": {**SHAPE, "tools": SHAPE["tools"][::-1]}}, [Cause("tools changed", "order changed")]),
        (
            {"shape": {**SHAPE, "system": [*SHAPE["system"], {"type": "text", "text": "Be terse."}]}},
            [Cause("system prompt changed", "from block 1 on")],
        ),
        ({"params": BUDGET}, [Cause("thinking changed", "enabled with 31,999 tokens to enabled with 1,024 tokens")]),
        ({"params": {**PARAMS, "thinking": {"type": "enabled", "budget_tokens": 31999}}}, [Cause("unknown")]),
        ({"messages": [asked("summary")]}, [Cause("messages rewritten", "from message 0 on")]),
        ({"messages": [FIRST, SECOND]}, [Cause("unknown")]),
        ({"at": 301}, [Cause("expired", "301 s after the request before, kept for 5m")]),
        ({"at": 300}, [Cause("unknown")]),
        (
            {"at": 4000, "messages": [SECOND]},
            [
                Cause("messages rewritten", "from message 0 on"),
                Cause("expired", "4,000 s after the request before, kept for 5m"),
            ],
        ),
    ],
)
def test_why_the_cache_was_missed(now: dict[str, Any], causes: list[Cause]) -> None:
    """Every cause that holds is named, with what changed."""
    miss = cache_miss(one(), one(usage=MISSED, **now))
    assert miss is not None
    assert list(miss.causes) == causes
    assert miss.tokens == 1100


def test_messages_that_are_not_known_are_no_cause() -> None:
    """Where the request before is not in the transcript whole, nobody can say that it was rewritten."""
    miss = cache_miss(one()._replace(message_names=None), one(usage=MISSED, messages=[SECOND]))
    assert miss is not None
    assert miss.causes == (Cause("unknown"),)


def test_the_first_request_fills_the_cache() -> None:
    """It has nothing to read; on this model a written token costs 3.75 and a read one 0.30 USD a million."""
    miss = cache_miss(None, one(usage=MISSED))
    assert miss is not None
    assert (miss.causes, miss.tokens) == ((Cause("first request"),), 1200)
    assert miss.cost_usd == pytest.approx(1200 * (3.75 - 0.30) / 1_000_000)


def test_a_hit_is_no_miss() -> None:
    """All that the request before read and wrote was read, whatever was added."""
    assert cache_miss(one(), one(usage=Usage(input=1, cache_read=1100, cache_write_5m=50_000))) is None


def test_a_part_can_be_missed() -> None:
    """The tokens are those that were in the cache and not read; what was not cached at all costs the input's price."""
    miss = cache_miss(one(), one(usage=Usage(input=500, cache_read=400, cache_write_5m=300)))
    assert miss is not None
    assert miss.tokens == 700
    assert miss.cost_usd == pytest.approx((300 * (3.75 - 0.30) + 400 * (3.00 - 0.30)) / 1_000_000)


def test_no_more_is_missed_than_was_sent() -> None:
    """After a compaction the request is smaller than what the cache held."""
    miss = cache_miss(one(), one(usage=Usage(input=5, cache_read=100, cache_write_5m=40), messages=[SECOND]))
    assert miss is not None
    assert (miss.tokens, [cause.kind for cause in miss.causes]) == (45, ["messages rewritten"])


def test_cache_miss_without_a_price_has_no_cost() -> None:
    """None, not zero."""
    made = one(usage=MISSED)
    miss = cache_miss(None, made._replace(response=made.response._replace(model="no-such-model")))
    assert miss is not None
    assert miss.cost_usd is None


# The command


def show(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run `cc-trace show` as a user runs it."""
    return subprocess.run(
        [sys.executable, "-m", "cc_trace", "show", *arguments],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", "CLAUDE_CONFIG_DIR": str(home / ".claude")},
        capture_output=True,
        text=True,
        check=False,
        cwd=home,
        timeout=60,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with two sessions in it: one by hand, one with agents."""
    project = tmp_path / ".claude" / "projects" / "-p"
    agents = CASES / "2.1.325--c6_sync_subagent"
    shutil.copytree(agents, project, ignore=shutil.ignore_patterns("*.spans"))
    (project / f"{HAND}.jsonl").write_bytes(a_session(tmp_path).read_bytes())
    return tmp_path


HAND: Final = "11111111-0000-4000-8000-000000000009"
ROW_KEYS: Final = {
    *("kind", "id", "session_id", "agent_id", "message_id", "request_id", "query_source", "sent", "first_block", "end"),
    *("model", "response_model", "max_tokens", "thinking_budget", "effort", "betas", "context_management"),
    *("cache_breakpoints",),
    *(
        "thinking_ms",
        "tool_input_ms",
        "attempts",
        "failure",
        "usage",
        "context",
        "cache",
        "verified",
        "missing",
        "body",
    ),
}


def test_show_request_as_json(home: Path) -> None:
    """One object: the body as it was sent, and what it tells of context and cache."""
    row = json.loads(show("--request", "m2", HAND, "--json", home=home).stdout)
    assert row.keys() == ROW_KEYS
    assert (row["id"], row["session_id"], row["verified"], row["missing"]) == ("r2", HAND, True, [])
    assert row["body"]["messages"][1] == said(TEXT, USE)
    assert row["sent"] == "2026-01-01T12:00:05.000Z"
    assert row["attempts"][0]["answered"] is True
    assert row["context"]["estimated"] is True
    assert sum(part["tokens"] for part in row["context"]["parts"]) == row["context"]["tokens"] == 53_012
    assert row["cache"]["causes"] == [{"kind": "unknown", "detail": ""}]
    assert row["cache"]["missed_tokens"] == 3000


def test_show_request_for_people(home: Path) -> None:
    """System prompt, tools with their sizes, messages; what is long is cut unless all of it is asked for."""
    text = show("--request", "m1", HAND, home=home).stdout
    for expected in ("exact          yes", "Context: 53,012 tokens", "  cause: first request", "    You help."):
        assert expected in text
    assert f"{len(json.dumps(SHAPE['tools'][0])):,} characters  Bash" in text
    assert "0 user\n  [text, 5 characters, cache breakpoint]\n    hello\n" in text
    assert "input_schema" not in text
    assert "input_schema" in show("--request", "m1", HAND, "--full", home=home).stdout


def test_show_request_without_content(home: Path) -> None:
    """Parameters, sizes and causes, but nothing of what was said."""
    for more in (["--json"], []):
        done = show("--request", "m2", HAND, "--no-content", *more, home=home)
        assert done.returncode == 0
        assert "r2" in done.stdout
        for secret in ("hello", "I look.", "You help.", "ls "):
            assert secret not in done.stdout


def test_show_request_finds_the_session_and_agents(home: Path) -> None:
    """Without a session all are looked through, and an agent's requests are found under its session."""
    assert json.loads(show("--request", "m2", "--json", home=home).stdout)["session_id"] == HAND
    row = json.loads(show("--request", "msg_d091551d5b0f1388cdcd", "--json", home=home).stdout)
    assert row["session_id"] == "cccccccc-0000-4000-8000-000000000006"
    assert row["agent_id"] == "a7640ebe271be0509"
    assert row["query_source"] == "agent:builtin:general-purpose"


def test_an_id_is_found_wherever_it_stands(tmp_path: Path) -> None:
    """Also across the pieces in which a file is searched."""
    path = tmp_path / "s.jsonl"
    for place in (0, (1 << 20) - 3, (1 << 20), 3 << 20):
        path.write_bytes(b"." * place + b"msg_000001" + b"." * 10)
        assert list(mentioning("msg_000001", [path])) == [path]
        assert list(mentioning("msg_000002", [path])) == []


def test_show_request_of_a_failure_lists_its_attempts(home: Path) -> None:
    """By the id of the line that tells of it, or of any attempt."""
    (call,) = log_of(E2).calls
    assert call.failure is not None
    text = show("--request", call.failure.message_id, str(E2), home=home).stdout
    assert "  6  2026-11-15T23:12:14.977Z  c134ad7a-6f57-4fda-9d41-989a9af00865\n  failed: API Error: 400" in text
    row = json.loads(show("--request", call.attempts[0].id, str(E2), "--json", home=home).stdout)
    assert (len(row["attempts"]), row["failure"]["status"], row["context"]) == (6, 400, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--request", "msg_none", HAND], "has no response or request msg_none; `cc-trace show --json "),
        (["--request", "msg_none"], "no transcript has a response or request msg_none"),
        (["--request", "msg_none", str(OLDER)], "has no request records: Claude Code 2.1.325 writes them"),
        (["--request", "m1", HAND, "--turn", "1"], "--request and --turn cannot be used together"),
        ([], "has no sessions; `cc-trace sessions` lists those of all folders"),
    ],
)
def test_a_wrong_call_is_one_clear_line(home: Path, arguments: list[str], message: str) -> None:
    """It says what is wrong and what to do."""
    done = show(*arguments, home=home)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


def test_a_copied_response_is_looked_for_where_it_was_made(home: Path) -> None:
    """A fork copies responses, not their requests: the fork says so, and a search finds the origin."""
    project = home / ".claude" / "projects" / "-p"
    lines = (project / f"{HAND}.jsonl").read_text().splitlines()
    copied = [text for text in lines if '"api-request' not in text]
    fork = written(project / "22222222-0000-4000-8000-000000000009.jsonl", [*copied, sent("f1", [FIRST])])
    assert "was copied there from another session" in show("--request", "m2", fork.stem, home=home).stderr
    assert json.loads(show("--request", "m2", "--json", home=home).stdout)["session_id"] == HAND


def test_a_search_is_not_misled_by_a_session_that_only_mentions_an_id(home: Path) -> None:
    """An older session, without request records, may quote anything."""
    project = home / ".claude" / "projects" / "-p"
    written(project / "33333333-0000-4000-8000-000000000009.jsonl", [json.dumps(prompt("what is msg_none?", 0))])
    said = show("--request", "msg_none", home=home).stderr
    assert said.startswith("cc-trace: no transcript has a response or request msg_none; ")


def test_odd_texts_and_deep_inputs_are_printed(home: Path) -> None:
    """Half of a surrogate pair, and more levels than orjson writes, as JSON and for people."""
    deep: Any = "bottom"
    for _ in range(300):
        deep = [deep]
    odd: Line = {"role": "user", "content": [{"type": "text", "text": "half \ud83d"}, {"type": "other", "x": deep}]}
    lines: list[Line | str] = [shape_line(), json.dumps(blob(odd)), json.dumps(sent("r1", [odd]))]
    path = str(written(home / "odd.jsonl", lines))
    row = json.loads(show("--request", "r1", path, "--json", home=home).stdout)
    assert row["body"]["messages"][0]["content"][0]["text"] == "half \ud83d"
    assert row["verified"] is True
    text = show("--request", "r1", path, "--full", home=home).stdout
    assert "    half \\ud83d\n" in text
    assert "bottom" in text


def test_what_tools_printed_does_not_drive_the_terminal(home: Path) -> None:
    """No control character of a message reaches the terminal."""
    odd = asked("\x1b[31mred\x07 \u202eright to left")
    path = written(home / "odd.jsonl", [shape_line(), blob(odd), sent("r1", [odd])])
    text = show("--request", "r1", str(path), home=home).stdout
    assert "\\u001b[31mred\\u0007 \\u202eright to left" in text
    assert not set(text) & {"\x1b", "\x07", "\u202e"}
