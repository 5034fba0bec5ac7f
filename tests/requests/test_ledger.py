"""What a generation tells of its request: what filled the context, and why the cache was missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from lines import MODEL, line, prompt, reply, session
from shared import case_transcripts, label, recordings

from cc_trace.privacy import Privacy, PrivacySettings
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from lines import Line

    from cc_trace.spans.model import Span


def generations(path: Path) -> list[Span]:
    return [span for span in Session(path, requests=True).spans() if span.kind == "generation"]


@pytest.mark.parametrize("transcript", [*case_transcripts(), *recordings()], ids=label)
def test_the_context_adds_up_to_the_usage(transcript: Path) -> None:
    for span in generations(transcript):
        usage = span.response.usage if span.response is not None else None
        if "attempts" not in span.metadata or usage is None:
            assert "context" not in span.metadata
            continue
        context: Any = span.metadata["context"]
        told = usage.input + usage.cache_read + usage.cache_write_5m + usage.cache_write_1h
        assert (context["tokens"], sum(context["by_origin"].values())) == (told, told)
        assert context["complete"]


def sent(number: int, at: float, tail: list[str], **fields: Any) -> Line:
    """A request that goes on from the one before."""
    made: dict[str, Any] = {"id": f"a{number}", "params": {"model": MODEL}, "shapeHash": "s1", "querySource": "sdk"}
    made |= {"base": f"a{number - 1}" if number > 1 else None, "keep": number - 1, "tail": tail}
    made["cacheControl"] = [{"path": ["messages", number - 1, "content", 0], "value": {"type": "ephemeral"}}]
    return line("api-request", at, **made | fields)


def blob(name: str, words: str) -> Line:
    return line("api-request-blob", 0, hash=name, message={"role": "user", "content": words})


def shape(name: str, system: str, *tools: str) -> Line:
    made = {"system": [{"type": "text", "text": system}], "tools": [{"name": tool} for tool in tools]}
    return line("api-request-shape", 0, shapeHash=name, shape=made)


def usage(read: int, written: int) -> dict[str, int]:
    return {
        "input_tokens": 1,
        "output_tokens": 1,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }


def two_requests(second: Line, *more: Line) -> list[Line]:
    """A session of two requests, of which the second finds nothing in the cache."""
    return [
        prompt("one", 0),
        shape("s1", "You help.", "Bash"),
        blob("h1", "one"),
        *more,
        sent(1, 1, ["h1"]),
        reply("m1", "First.", at=2, usage=usage(0, 1000), requestRef="a1"),
        prompt("two", 3),
        blob("h2", "two"),
        second,
        reply("m2", "Second.", at=5000, usage=usage(0, 1000), requestRef="a2"),
    ]


@pytest.mark.parametrize(
    ("second", "cause"),
    [
        (sent(2, 4, ["h2"], params={"model": "claude-opus-4-5"}), ("model changed", f"{MODEL} to claude-opus-4-5")),
        (sent(2, 4, ["h2"], shapeHash="s2"), ("system prompt changed", "from block 0 on")),
        (sent(2, 4, ["h2"], shapeHash="s3"), ("tools changed", "Read added")),
        (sent(2, 4, ["h2"], base=None, keep=0), ("messages rewritten", "from message 0 on")),
        (sent(2, 401, ["h2"]), ("expired", "400 s after the request before, kept for 5m")),
        (sent(2, 4, ["h2"]), ("unknown", "")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_missed_cache_has_its_cause(tmp_path: Path, second: Line, cause: tuple[str, str]) -> None:
    """One thing differs from the request before, or nothing but the time."""
    shapes = (shape("s2", "You are terse.", "Bash"), shape("s3", "You help.", "Bash", "Read"))
    first, last = generations(session(tmp_path, *two_requests(second, *shapes)))
    missed: Any = last.metadata["cache_miss"]
    kind, detail = cause
    assert (missed["causes"], missed["tokens"]) == ([{"kind": kind, "detail": detail}], 1000)
    assert missed["cost_usd"] > 0
    begun: Any = first.metadata["cache_miss"]
    assert begun["causes"] == [{"kind": "first request", "detail": ""}]


@pytest.mark.parametrize(
    ("words", "origin"),
    [
        ("<total_tokens>15000000 tokens left</total_tokens>", "reminders"),
        ("The following skills are available: a, b", "skills"),
        ("Contents of /home/dev/CLAUDE.md (project instructions):\n\nBe kind.", "memory files"),
        ("# claudeMd\nBe kind.", "memory files"),
    ],
)
def test_a_message_of_claude_codes_own_is_no_prompt(tmp_path: Path, words: str, origin: str) -> None:
    """In place of a reminder some versions send a message with the role `system`."""
    lines = two_requests(sent(2, 4, ["h2"]))
    lines[6]["message"] = {"role": "system", "content": words}
    contexts: list[Any] = [span.metadata["context"] for span in generations(session(tmp_path, *lines))]
    first, second = ({*context["by_origin"]} for context in contexts)
    assert second - first == {origin}


def test_a_cache_that_was_read_was_not_missed(tmp_path: Path) -> None:
    lines = two_requests(sent(2, 4, ["h2"]))
    lines[-1] = reply("m2", "Second.", at=6, usage=usage(1000, 20), requestRef="a2")
    assert "cache_miss" not in generations(session(tmp_path, *lines))[1].metadata


def test_what_a_compaction_dropped(tmp_path: Path) -> None:
    """Tokens of the request before, in proportion to the size of what is gone; the rest of it stayed."""
    lines = two_requests(sent(2, 4, ["h3"], base=None, keep=0), blob("h3", "a summary"))
    first, second = generations(session(tmp_path, *lines))
    before: Any = first.metadata["context"]
    now: Any = second.metadata["context"]
    assert "dropped" not in before
    assert now["dropped"] == {"prompts": before["by_origin"]["prompts"]}


def test_a_request_that_only_adds_drops_nothing(tmp_path: Path) -> None:
    _, second = generations(session(tmp_path, *two_requests(sent(2, 4, ["h2"]))))
    context: Any = second.metadata["context"]
    assert "dropped" not in context


def test_cache_miss_details_are_content(tmp_path: Path) -> None:
    """They may name tools and say where a prompt changed; kinds and numbers may leave in every tier."""
    lines = two_requests(sent(2, 4, ["h2"], shapeHash="s3"), shape("s3", "You help.", "Bash", "mcp__secret_plan"))
    span = generations(session(tmp_path, *lines))[1]
    for content in ("no-tool-content", "metadata"):
        left = Privacy(PrivacySettings(content=content))(span)
        missed: Any = left.metadata["cache_miss"]
        assert missed["causes"] == [{"kind": "tools changed"}]
        assert left.metadata["context"] == span.metadata["context"]
        assert "secret_plan" not in str(left)


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, 200_000),
        ({"params": {"model": MODEL, "betas": ["context-1m-2025-08-07"]}}, 1_000_000),
        ({"params": {"model": "other"}}, None),
    ],
)
def test_the_limit_of_the_context(tmp_path: Path, fields: dict[str, Any], limit: int | None) -> None:
    last = generations(session(tmp_path, *two_requests(sent(2, 4, ["h2"], **fields))))[1]
    context: Any = last.metadata["context"]
    assert context["limit"] == limit


def test_hostile_requests_lose_nothing(tmp_path: Path) -> None:
    """Circles, missing bases and wrong types: the context is not complete, and still adds up."""
    hostile = sent(2, 4, ["h2", "h9"], base="a2", keep=7, shapeHash="nowhere", cacheControl=[3, {"path": ["messages"]}])
    context: Any = generations(session(tmp_path, *two_requests(hostile)))[1].metadata["context"]
    assert (context["complete"], sum(context["by_origin"].values())) == (False, 1001)
