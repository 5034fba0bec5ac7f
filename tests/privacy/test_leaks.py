"""What agents, tools, teammates and hooks say does not leave with less than full content, wherever it turns up."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from lines import SESSION, agent, api_error, line, prompt, reply, result, session, task, tool_use, turn_duration
from shared import everything

from cc_trace.privacy.content import Privacy, PrivacySettings
from cc_trace.spans.session import Session
from cc_trace.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lines import Line

    from cc_trace.privacy.content import Content

REDUCED: tuple[Content, ...] = ("no-tool-content", "metadata")
PLANTED = "the words that must stay at home"
NOTE = (
    f"<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>\n<summary>{PLANTED}</summary>\n"
    f"<result>{PLANTED}</result>\n</task-notification>"
)
MESSAGE = f'<teammate-message teammate_id="ann">{PLANTED}</teammate-message>'
ASKED, ANSWERED = "typed by a human", "answered by the model"
SIDE = {"isSidechain": True}


def texts(value: Any) -> Iterator[str]:
    """All texts within a value, names of fields included."""
    match value:
        case str():
            yield value
        case dict():
            yield from (text for item in value.items() for text in texts(item))
        case list() | tuple():
            yield from (text for item in value for text in texts(item))


def leaving(path: Path, content: Content) -> str:
    """All that leaves of a session, as text."""
    privacy = Privacy(PrivacySettings(content, max_chars=0))
    made = (privacy(span, trace.spans) for trace in Session(path, ending="over").traces() for span in trace.spans)
    return "\n".join(text for span in made for text in texts(span))


def at_work(*between: Line) -> tuple[Line, ...]:
    """A turn in the middle of which something comes."""
    call = reply("m1", tool_use("t1", "Bash", command="make"), at=1)
    return (prompt(ASKED, 0), call, *between, result("t1", "made", at=3), reply("m2", ANSWERED, at=4))


def queued(text: str, **fields: Any) -> Line:
    attachment = {"type": "queued_command", "prompt": text, "commandMode": "prompt", **fields}
    return line("attachment", 2, attachment=attachment)


def removed_from_queue(text: str) -> tuple[Line, Line]:
    return (
        line("queue-operation", 2, operation="enqueue", content=text),
        line("queue-operation", 2.5, operation="remove"),
    )


FIRST = (prompt(ASKED, 0), reply("m1", ANSWERED, at=1, message={"stop_reason": "end_turn"}))
SHELL = prompt("<bash-input>make</bash-input>", 2)
SESSIONS: dict[str, tuple[Line, ...]] = {
    "a notification that starts a turn": (*FIRST, prompt(NOTE, 5), reply("m2", "good", at=6)),
    "a notification within a turn": at_work(prompt(NOTE, 2)),
    "a notification from the queue": at_work(*removed_from_queue(NOTE)),
    "a notification that was queued": at_work(queued(NOTE)),
    "a notification without an answer": (*FIRST, prompt(NOTE, 5), prompt("go on", 6), reply("m2", "good", at=7)),
    "a teammate that starts a turn": (*FIRST, prompt(MESSAGE, 5), reply("m2", "good", at=6)),
    "a teammate within a turn": at_work(prompt(MESSAGE, 2)),
    "a teammate in the queue": at_work(*removed_from_queue(MESSAGE)),
    "a teammate that was queued": at_work(queued(MESSAGE)),
    "a teammate without an answer": (*FIRST, prompt(MESSAGE, 5), prompt("go on", 6), reply("m2", "good", at=7)),
    "a teammate beside a result": (
        prompt(ASKED, 0),
        reply("m1", tool_use("t1"), at=1),
        prompt([{"type": "tool_result", "tool_use_id": "t1", "content": "x"}, {"type": "text", "text": MESSAGE}], 2),
        reply("m2", ANSWERED, at=3),
    ),
    "a teammate whose message Claude Code added": (
        *FIRST,
        turn_duration(10, at=2),
        prompt(MESSAGE, 5, isMeta=True),
        reply("m2", "good", at=6),
    ),
    "whoever a later version may name": (
        *FIRST,
        prompt(PLANTED, 5, origin={"kind": "brand-new"}),
        reply("m2", "good", at=6),
    ),
    "the same, queued": at_work(queued(PLANTED, origin={"kind": "brand-new"})),
    "an agent within the main file, without an id": (
        prompt(ASKED, 0),
        reply("m1", task("t1", PLANTED), at=1),
        prompt(PLANTED, 2, **SIDE),
        reply("s1", PLANTED, tool_use("u1", "Bash", command=PLANTED), at=3, **SIDE),
        result("u1", PLANTED, at=4, error=True, **SIDE),
        reply("s2", {"type": "thinking", "thinking": PLANTED}, PLANTED, at=5, **SIDE),
        result("t1", PLANTED, at=6),
        reply("m2", ANSWERED, at=7),
    ),
    "what a shell command printed": (
        *FIRST,
        SHELL,
        prompt(f"<bash-stdout>{PLANTED}</bash-stdout><bash-stderr></bash-stderr>", 3),
        reply("m2", "good", at=4),
    ),
    "what a shell command complained of": (
        *FIRST,
        SHELL,
        prompt(f"<bash-stderr>{PLANTED}</bash-stderr>", 3),
        reply("m2", "good", at=4),
    ),
    "a Stop hook that blocks": (
        *FIRST,
        prompt(f"Stop hook feedback:\n[check]: {PLANTED}", 2, isMeta=True),
        reply("m2", "good", at=3),
    ),
}


@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.parametrize("content", REDUCED)
def test_texts_that_are_neither_typed_nor_answers_do_not_leave(tmp_path: Path, name: str, content: Content) -> None:
    """In no field of any span. Typed texts and answers leave with `no-tool-content`."""
    path = session(tmp_path, *SESSIONS[name])
    assert PLANTED in leaving(path, "full")
    left = leaving(path, content)
    assert PLANTED not in left
    assert [ASKED in left, ANSWERED in left] == [content == "no-tool-content"] * 2


@pytest.mark.parametrize("content", REDUCED)
def test_forked_command_output_is_agent_content(tmp_path: Path, content: Content) -> None:
    printed = f"<local-command-stdout>{PLANTED}</local-command-stdout>"
    path = session(
        tmp_path, prompt("/forky now", 1, promptId="p1"), line("system", 9, subtype="local_command", content=printed)
    )
    skill = prompt("Base directory for this skill: /x", 2, isMeta=True, promptId="p1")
    agent(path, "a1", skill, reply("s1", PLANTED, at=4), agentType="general-purpose")
    assert PLANTED in leaving(path, "full")
    left = leaving(path, content)
    assert PLANTED not in left
    assert ("/forky now" in left) == (content == "no-tool-content")


@pytest.mark.parametrize("content", REDUCED)
def test_typed_unanswered_prompts_leave_without_tool_content(tmp_path: Path, content: Content) -> None:
    path = session(tmp_path, prompt("first", 0), prompt(MESSAGE, 1), prompt("last", 2), reply("m1", "yes", at=3))
    (turn, _) = Session(path, ending="over").spans()
    made = Privacy(PrivacySettings(content))(turn).metadata
    assert turn.metadata["unanswered_prompts"] == ["first", MESSAGE]
    assert made.get("unanswered_prompts") == (["first"] if content == "no-tool-content" else None)


@pytest.mark.parametrize("content", REDUCED)
def test_unlisted_metadata_does_not_leave(tmp_path: Path, content: Content) -> None:
    """That of spans and that of their trace."""
    for span in Session(session(tmp_path, *at_work()), ending="over").spans():
        more = span._replace(metadata={**span.metadata, "new": PLANTED}, about={**(span.about or {}), "new": PLANTED})
        assert Privacy(PrivacySettings(content))(more) == Privacy(PrivacySettings(content))(span)


@pytest.mark.parametrize("content", REDUCED)
def test_sentences_in_listed_metadata_do_not_leave(tmp_path: Path, content: Content) -> None:
    """A tool's result, a notification and a request's error say what they want in fields that usually have one word."""
    named = ("status", "type", "code", "exitCode", "resolvedModel", "returnCodeInterpretation", "backgroundTaskId")
    note = f"<task-notification><task-id>{PLANTED}</task-id><status>{PLANTED}</status></task-notification>"
    path = session(
        tmp_path,
        prompt(ASKED, 0),
        reply("m1", tool_use("t1"), at=1),
        result("t1", "x", at=2, told=dict.fromkeys(named, PLANTED)),
        prompt(note, 3),
        api_error("e1", "API Error", at=4) | {"apiErrorType": PLANTED},
    )
    assert leaving(path, "full").count(PLANTED) > len(named)
    assert PLANTED not in leaving(path, content)


def title(path: Path, content: Content, *lines: Line) -> str:
    """The title that the store gives a session."""
    with closing(Store(path / "traces.db")) as store:
        store.update(session(path, *lines), "", Privacy(PrivacySettings(content)), written=0, now=1e9)
    with closing(sqlite3.connect(path / "traces.db")) as database:
        ((found,),) = database.execute("SELECT title FROM sessions").fetchall()
    return str(found)


@pytest.mark.parametrize(
    ("content", "teammate", "human"),
    [("full", MESSAGE, ASKED), ("no-tool-content", SESSION, ASKED), ("metadata", SESSION, SESSION)],
)
def test_title_is_from_a_text_that_may_leave(tmp_path: Path, content: Content, teammate: str, human: str) -> None:
    """Without Claude Code's own title it is the first prompt."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert title(tmp_path / "a", content, prompt(MESSAGE, 0), reply("m1", "good", at=1)) == teammate
    assert title(tmp_path / "b", content, prompt(ASKED, 0), reply("m1", "good", at=1)) == human


def test_title_does_not_end_in_half_a_secret(tmp_path: Path) -> None:
    key = "ghp_" + "a1B2" * 9
    for kept in range(1, len(key)):
        folder = tmp_path / str(kept)
        folder.mkdir()
        text = f"{'Use it, ' * 30}"[: 199 - kept] + f" {key} today"
        assert "ghp_" not in title(folder, "full", prompt(text, 0), reply("m1", "good", at=1))


def test_text_of_unknown_origin_does_not_leave(tmp_path: Path) -> None:
    """As of a span that was read from the local store."""
    for span in Session(session(tmp_path, *at_work()), ending="over").spans():
        made = Privacy(PrivacySettings("no-tool-content"))(span._replace(origins=type(span.origins)()))
        assert (made.input or None, made.output) == (None, None)


# Recorded sessions: what stands in them as a tool's result or an agent's words.


def blocks(raw: Line) -> list[Any]:
    message = raw.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def of_tools_and_agents(raw: Line, *, of_agent: bool) -> Iterator[str]:
    """The texts of a line that went into tools and agents or came out of them."""
    if raw.get("type") not in ("user", "assistant"):
        return
    for block in blocks(raw):
        if not isinstance(block, dict):
            continue
        started = str(block.get("text")).lstrip()[:40]
        if of_agent or block.get("type") in ("tool_use", "tool_result") or "-notification>" in started:
            yield from texts(block)
    yield from texts(raw.get("toolUseResult"))


def of_conversation(raw: Line) -> Iterator[str]:
    """The texts of a line of the main file that may leave, and what is said of all lines."""
    yield from (value for value in raw.values() if isinstance(value, str))
    told = [block for block in blocks(raw) if isinstance(block, dict)]
    if not any("-notification>" in str(block.get("text")).lstrip()[:40] for block in told):
        yield from texts([block for block in told if block.get("type") in ("text", "thinking")])
    if raw.get("type") not in ("user", "assistant", "progress"):
        yield from texts([raw.get(key) for key in ("content", "attachment", "error")])
    yield from (str(block.get("name")) for block in told)


def objects(path: Path) -> Iterator[Line]:
    for item in path.read_bytes().splitlines():
        try:
            raw = orjson.loads(item)
        except orjson.JSONDecodeError:
            continue
        if isinstance(raw, dict):
            yield raw


def sentences(text: str) -> Iterator[str]:
    """Its parts of 20 characters and more."""
    for part in re.split(r"[\n.!?]+", text):
        if len(found := part.strip()) >= 20 and " " in found:
            yield found


@pytest.mark.parametrize("path", everything(), ids=lambda path: f"{path.parent.name}/{path.stem[-12:]}")
def test_nothing_of_tools_and_agents_leaves_recorded_sessions(path: Path) -> None:
    """But what the human or the model repeat in their own words, without tool content; and of those nothing else."""
    main = [raw for raw in objects(path) if not raw.get("isSidechain")]
    files = [*path.parent.glob("agent-*.jsonl"), *path.with_suffix("").rglob("agent-*.jsonl")]
    private = [text for raw in main for text in of_tools_and_agents(raw, of_agent=False)]
    private += [text for file in files for raw in objects(file) for text in of_tools_and_agents(raw, of_agent=True)]
    private += [
        text for raw in objects(path) if raw.get("isSidechain") for text in of_tools_and_agents(raw, of_agent=True)
    ]
    found = {sentence for text in private for sentence in sentences(text)}
    said = "\n".join(text for raw in main for text in of_conversation(raw))
    left = leaving(path, "no-tool-content")
    assert [sentence for sentence in found if sentence in left and sentence not in said] == []
    left = leaving(path, "metadata")
    everyone = found | {sentence for sentence in sentences(said) if "/" not in sentence}
    assert [sentence for sentence in everyone if sentence in left] == []
