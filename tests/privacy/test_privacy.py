"""What of a span may leave, in each of the three ways; secrets never, long texts cut."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from lines import prompt, reply, result, session, tool_use
from shared import CASES

from cc_trace.privacy.content import Privacy, PrivacySettings
from cc_trace.spans.model import Tool
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from cc_trace.privacy.content import Content
    from cc_trace.spans.model import Span

KEY = "ghp_" + "a1B2" * 9
TRANSCRIPTS = sorted(path for path in CASES.rglob("*.jsonl") if path.parent.parent == CASES)


def sent(path: Path, content: Content = "full", **settings: Any) -> dict[str, list[Span]]:
    """The spans of a session as they may leave, by their kind."""
    privacy = Privacy(PrivacySettings(content, **settings))
    spans: dict[str, list[Span]] = {}
    for span in Session(path, ending="over").spans():
        spans.setdefault(span.kind, []).append(privacy(span))
    return spans


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    """A turn with a tool call, and a text of its own in each place a text can be."""
    return session(
        tmp_path,
        prompt("PROMPT", 0, slug="SLUG", cwd="/work"),
        reply(
            "m1", {"type": "thinking", "thinking": "THOUGHT"}, "ANSWER", tool_use("t1", "Bash", command="INPUT"), at=1
        ),
        result("t1", "OUTPUT", at=2, error=True, told={"filePath": "PATH"}),
        reply("m2", "LAST", at=3),
    )


TEXTS = ("PROMPT", "SLUG", "THOUGHT", "ANSWER", "INPUT", "OUTPUT", "PATH", "LAST")


@pytest.mark.parametrize(
    ("content", "leaves"),
    [
        ("full", {"PROMPT", "SLUG", "THOUGHT", "ANSWER", "INPUT", "OUTPUT", "PATH", "LAST"}),
        ("no-tool-content", {"PROMPT", "SLUG", "THOUGHT", "ANSWER", "LAST"}),
        ("metadata", set()),
    ],
)
def test_texts_that_leave_at_each_content_level(transcript: Path, content: Content, leaves: set[str]) -> None:
    """Wherever in a span they stand."""
    spans = [span for kind in sent(transcript, content).values() for span in kind]
    whole = orjson.dumps([[*span[:16], span.tool, span.about] for span in spans], default=list).decode()
    assert {text for text in TEXTS if text in whole} == leaves


def test_what_a_shell_command_printed_is_no_prompt() -> None:
    """A turn that a `!` command started: of it what was typed leaves without tool content."""
    path = next((CASES / "2.1.325--g6_commands").glob("*.jsonl"))
    kinds = sent(path, "no-tool-content")
    texts = orjson.dumps(
        [[span.input, span.output] for kind in ("turn", "generation") for span in kinds[kind]]
    ).decode()
    assert "<bash-stdout>" not in texts
    assert any(str(span.input).startswith("!") for span in kinds["turn"])


def test_structure_is_the_same_at_each_content_level(transcript: Path) -> None:
    """Names, ids, times, tokens, cost and how it ended are the same however little leaves."""

    def skeleton(span: Span) -> object:
        return (*span[:12], span.response, span.tool and span.tool.name, span.agent_name)

    full, least = sent(transcript, "full"), sent(transcript, "metadata")
    assert {kind: [skeleton(span) for span in spans] for kind, spans in least.items()} == {
        kind: [skeleton(span) for span in spans] for kind, spans in full.items()
    }
    assert [span.status for span in least["tool"]] == ["error"]


def test_calls_and_results_keep_their_names_without_tool_content(transcript: Path) -> None:
    """One still sees which tool was called and which result was answered."""
    first, second = sent(transcript, "no-tool-content")["generation"]
    assert isinstance(first.output, dict)
    assert first.output["tool_calls"] == [{"id": "t1", "name": "Bash", "input": {}}]
    assert second.input == [{"role": "tool", "tool_call_id": "t1", "name": "Bash", "content": None}]


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.parent.name)
def test_agent_texts_are_tool_content(transcript: Path) -> None:
    """What is said inside agents does not leave without tool content, nor what tools got or gave."""
    for kind, spans in sent(transcript, "no-tool-content").items():
        for span in spans:
            if kind in ("tool", "subagent") or span.agent_id is not None:
                assert (span.input, span.output, span.error) == (None, None, None)


def test_secrets_are_masked_wherever_they_stand(tmp_path: Path) -> None:
    """In prompts, answers, thoughts, tool inputs and outputs, error texts and metadata."""
    path = session(
        tmp_path,
        prompt(f"use {KEY}", 0, cwd=f"/srv/{KEY}", gitBranch=KEY),
        reply("m1", {"type": "thinking", "thinking": KEY}, KEY, tool_use("t1", "Bash", command=f"curl -H {KEY}"), at=1),
        result("t1", f"401 {KEY}", at=2, error=True, told={"filePath": f"/{KEY}"}),
        reply("m2", f"it was {KEY}", at=3),
    )
    spans = [span for kind in sent(path).values() for span in kind]
    whole = orjson.dumps([[*span[:16], span.tool, span.about] for span in spans], default=list).decode()
    assert KEY not in whole
    assert sent(path)["turn"][0].input == "use [masked: github token]"
    assert (sent(path)["tool"][0].error or "").startswith("401 [masked: github token]")


def test_secrets_are_masked_in_the_names_that_the_model_chooses(tmp_path: Path) -> None:
    """Of tools and of agents; a name is not cut."""
    (span,) = sent(session(tmp_path, prompt("hello", 0), reply("m1", "yes", at=1)))["generation"]
    named = span._replace(name=f"run {KEY}", agent_name=KEY, tool=Tool("t1", f"mcp__{KEY}", None))
    made = Privacy(PrivacySettings(max_chars=5))(named)
    masked = "[masked: github token]"
    assert (made.name, made.agent_name, made.tool) == (f"run {masked}", masked, Tool("t1", f"mcp__{masked}", None))


def test_own_patterns_are_masked(tmp_path: Path) -> None:
    path = session(tmp_path, prompt("case ACME-12345 and ACME-x", 0), reply("m1", "yes", at=1))
    (turn,) = sent(path, mask=(r"ACME-\d+",))["turn"]
    assert turn.input == "case [masked: own pattern] and ACME-x"


def test_long_texts_are_cut_with_a_marker(tmp_path: Path) -> None:
    """Each text by itself, however deep it stands; 0 is no limit."""
    path = session(
        tmp_path,
        prompt("p" * 30, 0),
        reply("m1", tool_use("t1", "Edit", edits=[{"new": "n" * 11}, {"new": "n" * 10}]), at=1),
        result("t1", "o" * 12, at=2),
        reply("m2", "fine", at=3),
    )
    spans = sent(path, max_chars=10)
    assert spans["turn"][0].input == "pppppppppp… [20 more characters]"
    assert spans["tool"][0].input == {"edits": [{"new": "nnnnnnnnnn… [1 more characters]"}, {"new": "n" * 10}]}
    assert spans["tool"][0].output == "oooooooooo… [2 more characters]"
    assert sent(path, max_chars=0)["turn"][0].input == "p" * 30


@pytest.mark.parametrize("length", [1_000, 2_048, 2_049, 10_000])
def test_a_text_just_over_the_limit_is_cut(tmp_path: Path, length: int) -> None:
    """Whether it is searched together with others, as short ones are, or by itself."""
    path = session(tmp_path, prompt("p" * length, 0), reply("m1", "yes", at=1))
    assert sent(path, max_chars=length)["turn"][0].input == "p" * length
    assert sent(path, max_chars=length - 1)["turn"][0].input == "p" * (length - 1) + "… [1 more characters]"


@pytest.mark.parametrize("repeated", [100, 1_000])
def test_a_text_that_outgrows_the_limit_by_its_markers_is_cut(tmp_path: Path, repeated: int) -> None:
    path = session(tmp_path, prompt("ACME-1 " * repeated, 0), reply("m1", "yes", at=1))
    masked = "[masked: own pattern] " * repeated
    limit = 20 * repeated
    (turn,) = sent(path, mask=(r"ACME-\d",), max_chars=limit)["turn"]
    assert turn.input == f"{masked[:limit]}… [{2 * repeated} more characters]"


def test_a_secret_is_masked_before_it_can_be_cut_in_two(tmp_path: Path) -> None:
    """Half a key would be no key any more, and leave."""
    path = session(tmp_path, prompt(f"key {KEY}", 0), reply("m1", "thanks", at=1))
    for limit in range(1, 50):
        (turn,) = sent(path, max_chars=limit)["turn"]
        assert "a1B2" not in str(turn.input)


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.parent.name)
def test_nothing_is_changed_without_a_reason(transcript: Path) -> None:
    """Recorded sessions have no endless texts and one secret, a token in what `env` printed: all else is as it was."""
    privacy = Privacy(PrivacySettings())
    for span in Session(transcript).spans():
        made = privacy(span)
        if "MESSAGING_TOKEN=" not in str(span.output) + str(span.input):
            assert made == span
    masked = {"token": 2} if transcript.parent.name == "2.1.325--b_tools" else {}  # the tool's, and what answers it
    assert privacy.redactor.counts == masked


def test_facts_of_a_trace_are_made_once(transcript: Path) -> None:
    """All its spans share them."""
    spans = [span for kind in sent(transcript).values() for span in kind]
    assert all(one.about is other.about for one, other in pairwise(spans))


COPIED = "Zq7Lw2Xk9Pv4"


def sent_with_turn(path: Path, kind: str) -> list[Span]:
    """The spans of a kind as they may leave, with all of their turns in view."""
    privacy = Privacy(PrivacySettings())
    traces = Session(path, ending="over").traces()
    return [privacy(span, trace.spans) for trace in traces for span in trace.spans if span.kind == kind]


def turn_as_sent(path: Path, privacy: Privacy) -> str:
    """All that leaves of each turn, as text."""
    traces = list(Session(path, ending="over").traces())
    return repr([privacy(span, trace.spans) for trace in traces for span in reversed(trace.spans)])


def test_every_copy_of_a_masked_value_is_masked_in_the_whole_turn(tmp_path: Path) -> None:
    """In spans before the one that tells it, and in later turns."""
    path = session(
        tmp_path,
        prompt(f"try {COPIED} there", 0),
        reply("m1", f"I use {COPIED}.", tool_use("t1", "Bash", command=f"login bob {COPIED}"), at=1),
        result("t1", f"DB_PASSWORD={COPIED}\n", at=2),
        reply("m2", f"it is `{COPIED}`", at=3),
        prompt(f"and {COPIED} again", 4),
        reply("m3", f"'{COPIED}' it was", at=5),
    )
    privacy = Privacy(PrivacySettings())
    assert COPIED not in turn_as_sent(path, privacy)
    assert set(privacy.redactor.counts) == {"password"}


def test_answers_do_not_repeat_secrets_of_tools_that_do_not_leave(tmp_path: Path) -> None:
    """What is known of a turn does not depend on how much of it leaves."""
    path = session(
        tmp_path,
        prompt("what is the password?", 0),
        reply("m1", tool_use("t1", "Bash", command="cat .env"), at=1),
        result("t1", f"DB_PASSWORD={COPIED}\n", at=2),
        reply("m2", f"It is {COPIED}.", at=3),
    )
    privacy = Privacy(PrivacySettings("no-tool-content"))
    left = turn_as_sent(path, privacy)
    assert "It is [masked: password]." in left
    assert COPIED not in left
    assert privacy.redactor.counts == {"password": 2}  # the turn's output and the response's, not the tool's


def test_no_error_ends_in_half_a_secret(tmp_path: Path) -> None:
    """An error is the beginning of what a tool printed, cut between words unless the last one is very long."""
    for kept in range(4, len(KEY)):
        printed = "refused:" + "," * (992 - kept) + KEY + ",y" * 400
        path = session(
            tmp_path, prompt("go", 0), reply("m1", tool_use("t1"), at=1), result("t1", printed, at=2, error=True)
        )
        (tool,) = sent_with_turn(path, "tool")
        assert (tool.error or "").endswith(",[masked: github token]…")


def test_copies_are_masked_before_texts_are_cut(tmp_path: Path) -> None:
    """No half of one is left at the end."""
    path = session(tmp_path, prompt(f"try {COPIED} there", 0), reply("m1", f"DB_PASSWORD={COPIED}", at=1))
    assert COPIED[:5] not in turn_as_sent(path, Privacy(PrivacySettings(max_chars=10)))


def test_a_common_word_as_a_password_is_masked_in_its_place_alone(tmp_path: Path) -> None:
    path = session(tmp_path, prompt("start postgres with test", 0), reply("m1", "DB_PASSWORD=postgres PW=test", at=1))
    left = turn_as_sent(path, Privacy(PrivacySettings()))
    assert "start postgres with test" in left
    assert "DB_PASSWORD=[masked: password]" in left
