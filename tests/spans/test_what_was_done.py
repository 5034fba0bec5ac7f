"""What was done and by whom: hooks, permissions, modes, changed lines, and what names a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from lines import (
    line,
    ns,
    prompt,
    reply,
    result,
    session,
    spans,
    stamp,
    tool_use,
    tree,
    turn_duration,
)

from cc_trace.cli.json_output import session_json
from cc_trace.privacy import Privacy, PrivacySettings
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from lines import Line

    from cc_trace.spans.model import Span


def attachment(kind: str, at: float, *, rendered: str | None = None, **fields: Any) -> Line:
    more = {} if rendered is None else {"rendered": [{"content": rendered}]}
    return line("attachment", at, attachment={"type": kind, **fields}, **more)


def stop_hooks(*infos: Line, at: float, errors: tuple[str, ...] = ()) -> Line:
    return line("system", at, subtype="stop_hook_summary", hookInfos=list(infos), hookErrors=list(errors))


def summary(path: Path, **options: Any) -> dict[str, Any]:
    """The session object of `show --json`."""
    read = Session(path, **options)
    list(read.spans())
    return session_json(read.summary)


def events(path: Path, name: str) -> list[Span]:
    return [span for span in spans(path) if span.kind == "event" and span.name == name]


DONE = [prompt("a", 0), reply("m1", "Done.", at=2)]


def test_a_stop_hook_is_an_event_of_its_turn(tmp_path: Path) -> None:
    """Hooks begin together when the response has ended; our own is not worth telling."""
    infos = [{"command": "lint", "durationMs": 1000}, {"command": "x/cc-trace-hook", "durationMs": 3000}]
    path = session(tmp_path, *DONE, stop_hooks(*infos, at=5))
    (found,) = events(path, "hook")
    assert (found.start_ns, found.end_ns, found.status) == (ns(2), ns(3), "ok")
    assert found.metadata == {"hook_event": "Stop", "command": "lint", "duration_ms": 1000, "blocked": False}
    assert spans(path)[0].end_ns == ns(3)


@pytest.mark.parametrize("ms", [1 << 47, "x", -1, None])
def test_unusual_hook_durations_stay_in_bounds(tmp_path: Path, ms: Any) -> None:
    """No time lies before the response or after the line that reports it."""
    path = session(tmp_path, *DONE, stop_hooks({"command": "lint", "durationMs": ms}, at=5))
    own = attachment("hook_success", 5, hookEvent="Stop", command="c", durationMs=ms)
    told = [*events(path, "hook"), *events(session(tmp_path, *DONE, own), "hook")]
    assert len(told) == 2
    for found in told:
        assert found.start_ns is not None
        assert found.end_ns is not None
        assert ns(0) <= found.start_ns <= found.end_ns <= ns(5)


def test_a_stop_hook_that_blocked_says_why(tmp_path: Path) -> None:
    """It has no duration in the summary; what it said is the next response's input, once."""
    feedback = "Stop hook feedback:\n[check]: go on"
    path = session(
        tmp_path,
        *DONE,
        prompt(feedback, 5, isMeta=True),
        stop_hooks({"command": "check"}, at=5, errors=("[check]: go on",)),
        reply("m2", "More.", at=7),
    )
    (found,) = events(path, "hook")
    assert (found.start_ns, found.end_ns, found.output) == (ns(2), ns(5), "[check]: go on")
    assert found.metadata["blocked"] is True
    assert [span.input for span in spans(path) if span.kind == "generation"][1] == [
        {"role": "user", "content": feedback}
    ]


def test_hook_with_its_own_line_is_one_event(tmp_path: Path) -> None:
    """The summary at Stop lists it again."""
    own = attachment("hook_non_blocking_error", 3, hookEvent="Stop", command="check", stderr="oops", exitCode=1)
    path = session(tmp_path, *DONE, own, stop_hooks({"command": "check", "durationMs": 9}, at=4, errors=("oops",)))
    (found,) = events(path, "hook")
    assert (found.status, found.error, found.metadata["exit_code"]) == ("error", "oops", 1)


def test_hook_context_is_input_of_the_next_response(tmp_path: Path) -> None:
    """At a session's start, with a prompt, beside a call, after a result: who said it is a hook."""
    path = session(
        tmp_path,
        attachment("hook_success", 0, hookEvent="SessionStart", command="c", content="hi", rendered="<r>start</r>"),
        prompt("a", 1),
        attachment("hook_success", 2, hookEvent="UserPromptSubmit", command="c", content="brief"),
        reply("m1", tool_use("t1"), at=3),
        attachment("hook_additional_context", 4, hookEvent="PreToolUse", content=["mind the gap"], toolUseID="t1"),
        result("t1", at=5),
        attachment("hook_blocking_error", 5, hookEvent="PostToolUse", blockingError={"blockingError": "fix it"}),
        reply("m2", "Done.", at=6),
    )
    generations = [span for span in spans(path) if span.kind == "generation"]
    texts = [[message["content"] for message in span.input if isinstance(message, dict)] for span in generations]  # type: ignore[union-attr]
    assert texts == [["<r>start</r>", "a", "brief"], ["mind the gap", "done", "fix it"]]
    speakers = [[origin.speaker for origin in span.origins.input] for span in generations]
    assert speakers == [["hook", "human", "hook"], ["hook", "tool", "hook"]]


@pytest.mark.parametrize("content", ["no-tool-content", "metadata"])
def test_a_hooks_command_and_output_are_content(tmp_path: Path, content: Any) -> None:
    path = session(tmp_path, *DONE, stop_hooks({"command": "curl secret.example", "durationMs": 9}, at=4))
    (found,) = events(path, "hook")
    sent = Privacy(PrivacySettings(content=content))(found)
    assert (sent.output, sent.metadata) == (None, {"hook_event": "Stop", "duration_ms": 9, "blocked": False})


def test_hook_that_stops_the_model_ends_the_turn(tmp_path: Path) -> None:
    stopped = attachment("hook_stopped_continuation", 4, hookEvent="PostToolUse", message="enough", toolUseID="t1")
    path = session(tmp_path, prompt("a", 0), reply("m1", tool_use("t1"), at=1), result("t1", at=3), stopped)
    found = spans(path)
    assert (found[0].status, found[-1].output) == ("ok", "enough")
    assert found[-1].metadata == {"hook_event": "PostToolUse", "blocked": True, "tool_id": "t1"}


def test_the_limit_of_rounds_ends_a_turn(tmp_path: Path) -> None:
    lines = [prompt("a", 0), reply("m1", tool_use("t1"), at=1), result("t1", at=2)]
    path = session(tmp_path, *lines, attachment("max_turns_reached", 3, maxTurns=1, turnCount=2))
    root = spans(path)[0]
    assert (root.status, root.error) == ("incomplete", "reached the limit of --max-turns 1")
    assert root.metadata["max_turns_reached"] is True
    assert summary(path)["max_turns_reached"] is True


def test_a_change_of_mode_is_an_event(tmp_path: Path) -> None:
    """The mode is written over and over; only another one is news."""
    lines = [
        prompt("a", 0, permissionMode="plan"),
        line("permission-mode", None, permissionMode="plan"),
        reply("m1", tool_use("t1"), at=1),
        line("permission-mode", None, permissionMode="acceptEdits"),
        result("t1", at=2),
        reply("m2", "Done.", at=3),
        line("permission-mode", None, permissionMode="acceptEdits"),
    ]
    path = session(tmp_path, *lines)
    (found,) = events(path, "mode")
    assert (found.start_ns, found.metadata) == (ns(1), {"mode": "acceptEdits", "time": "inherited"})
    assert summary(path)["mode"] == "acceptEdits"


def test_changed_lines_and_files_are_summed_up(tmp_path: Path) -> None:
    """A file is counted once, however its path is written; a refused edit changes nothing."""
    patch = {"structuredPatch": [{"lines": ["-a", "+b", "+c"]}], "filePath": "/p/a.py"}
    refused = {"decision": "reject", "source": "config"}
    path = session(
        tmp_path,
        prompt("a", 0, cwd="/p"),
        reply(
            "m1",
            tool_use("t1", "Edit", file_path="/p/a.py"),
            tool_use("t2", "Write", file_path="/p/b.py"),
            tool_use("t3", "Write", file_path="/p/c.py"),
            at=1,
            cwd="/p",
        ),
        line("file-history-delta", 2, trackingPath="a.py"),
        result("t1", at=2, told=patch),
        result("t2", at=3, told={"structuredPatch": [], "type": "create", "content": "x\ny\n"}),
        result("t3", "no", at=4, error=True, toolDenialKind="permission-rule", permissionDecision=refused),
    )
    root, _, edit, write, denied = spans(path)
    changes = ("lines_added", "lines_removed", "files_changed")
    assert [root.metadata[name] for name in changes] == [4, 1, 2]
    assert [[tool.metadata.get(name) for name in changes[:2]] for tool in (edit, write, denied)] == [
        [2, 1],
        [2, 0],
        [None, None],
    ]
    assert denied.metadata["permission"] == {"decision": "reject", "source": "config"}
    assert {name: summary(path)[name] for name in changes[:2]} == {"lines_added": 4, "lines_removed": 1}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), None),
        (("summary",), "summed up"),
        (("ai-title", "summary"), "by the model"),
        (("custom-title", "ai-title", "summary"), "my own"),
    ],
)
def test_title_of_the_user_takes_precedence(tmp_path: Path, names: tuple[str, ...], expected: str | None) -> None:
    titles = {
        "custom-title": line("custom-title", None, customTitle="my own"),
        "ai-title": line("ai-title", None, aiTitle="by the model"),
        "summary": line("summary", None, summary="summed up", leafUuid=DONE[1]["uuid"]),
    }
    assert summary(session(tmp_path, *DONE, *(titles[name] for name in names)))["title"] == expected


def test_a_summary_of_another_session_is_no_title(tmp_path: Path) -> None:
    """Older versions begin a file with the summaries of others; one of them may be of this one."""
    other = line("summary", None, summary="of another", leafUuid="somewhere else")
    own = line("summary", None, summary="of this one", leafUuid=DONE[1]["uuid"])
    assert summary(session(tmp_path, other, *DONE))["title"] is None
    assert summary(session(tmp_path, own, other, *DONE))["title"] == "of this one"


@pytest.mark.parametrize(
    ("cwd", "project", "worktree"),
    [
        ("/home/me/shop", "shop", None),
        ("/home/me/shop/.claude/worktrees/fix-login", "shop", "fix-login"),
        ("C:\\code\\shop\\.claude\\worktrees\\fix", "shop", "fix"),
        ("/home/me/shop/.worktrees/me/fix", "shop", "me/fix"),
        ("/home/me/shop/.git/worktrees/fix", "shop", "fix"),
    ],
)
def test_a_project_is_the_repository_not_its_worktree(
    tmp_path: Path, cwd: str, project: str, worktree: str | None
) -> None:
    found = summary(session(tmp_path, prompt("a", 0, cwd=cwd), reply("m1", "Done.", at=1, cwd=cwd)))
    assert (found["project"], found["worktree"]) == (project, worktree)
    assert found["repository"] == (project if worktree else None)


def test_a_worktree_is_told_by_its_line(tmp_path: Path) -> None:
    """Also one that lies elsewhere."""
    tree_line = {"originalCwd": "/home/me/shop", "worktreePath": "/srv/w/x1", "worktreeName": "x1"}
    path = session(tmp_path, prompt("a", 0, cwd="/srv/w/x1"), line("worktree-state", None, worktreeSession=tree_line))
    found = summary(path)
    assert (found["project"], found["repository"], found["worktree"]) == ("shop", "shop", "x1")


def test_other_facts_of_a_session(tmp_path: Path) -> None:
    """A pull request, the call that waits, tokens by the lifetime of the cache, and when any line was written."""
    path = session(
        tmp_path,
        {"type": "tag", "tag": "x", "timestamp": stamp(-5)},
        prompt("a", 0),
        reply("m1", tool_use("t1", command="ls"), at=2),
        line("pr-link", 3, prNumber=3, prUrl="https://example.org/pull/3", prRepository="a/b"),
        {"type": "tag", "tag": "y", "timestamp": stamp(60)},
    )
    found = summary(path)
    assert found["pr"] == {"number": 3, "url": "https://example.org/pull/3", "repository": "a/b"}
    assert found["pending_tool_use"] == {"id": "t1", "name": "Bash", "input": {"command": "ls"}}
    assert (found["cache_write_5m_tokens"], found["cache_write_1h_tokens"]) == (1000, 2000)
    assert (found["start"], found["end"], found["duration_ms"]) == (stamp(-5), stamp(60), 65_000)
    assert found["is_subagent"] is False


def test_abandoned_turn_is_marked(tmp_path: Path) -> None:
    """Another prompt took its place: `show` says so always, what is sent only if it was not over before."""
    first = prompt("a", 0, uuid="p1", parentUuid="before")
    again = prompt("c", 20, uuid="p3", parentUuid="before")
    lines = [
        first,
        reply("m1", "One.", at=1),
        turn_duration(1000, at=2),
        prompt("b", 10, uuid="p2", parentUuid="x"),
        reply("m2", "Two.", at=11),
        again,
        reply("m3", "Three.", at=21),
    ]
    path = session(tmp_path, *lines)
    assert rewound(Session(path)) == [None, None, None]
    assert rewound(Session(path, look_ahead=True)) == [True, True, None]
    assert rewound(Session(session(tmp_path, *lines[:2], *lines[5:]))) == [True, None]


def rewound(read: Session) -> list[object]:
    return [span.metadata.get("rewound") for span in read.spans() if span.kind == "turn"]


def test_a_prompt_that_was_edited_before_an_answer_was_not_seen(tmp_path: Path) -> None:
    """It is told as unanswered, and is not what the next response answers."""
    edited = prompt("fix teh bug", 0, uuid="p1", parentUuid="before")
    path = session(tmp_path, edited, prompt("fix the bug", 5, uuid="p2", parentUuid="before"), reply("m1", "x", at=6))
    root, generation = spans(path)
    assert generation.input == [{"role": "user", "content": "fix the bug"}]
    assert root.metadata["unanswered_prompts"] == ["fix teh bug"]


def test_queued_command_is_no_prompt(tmp_path: Path) -> None:
    """Claude Code runs it; a queued prompt that begins with a path is one all the same."""
    lines = [prompt("a", 0), reply("m1", tool_use("t1"), at=1)]
    for text in ("/model haiku", "/srv/x is wrong"):
        lines += [line("queue-operation", 2, operation=each, content=text) for each in ("enqueue", "remove")]
    path = session(tmp_path, *lines, result("t1", at=3), reply("m2", "Done.", at=4))
    assert [span.input for span in spans(path) if span.name == "prompt"] == ["/srv/x is wrong"]


def test_a_command_that_prints_and_is_answered_starts_a_turn(tmp_path: Path) -> None:
    """`/plan` with something to plan sets the mode, says so, and asks the model for it."""
    asked = "do this and that, " * 40
    command = f"<command-name>/plan</command-name>\n<command-args>{asked}</command-args>"
    output = prompt("<local-command-stdout>Enabled plan mode</local-command-stdout>", 10)
    path = session(tmp_path, *DONE, prompt(command, 10), output, reply("m2", "Here is the plan.", at=12))
    found = spans(path)
    assert tree(found) == "turn Turn 1 ok\n  generation m1 ok\nturn Turn 2 ok\n  generation m2 ok"
    assert found[2].input == f"/plan {asked.strip()}"
    local = [
        prompt("<command-name>/cost</command-name>", 10),
        prompt("<local-command-stdout>$1</local-command-stdout>"),
    ]
    path = session(tmp_path, *DONE, *local, prompt("b", 11), reply("m2", "x", at=12))
    assert [span.input for span in spans(path) if span.kind == "turn"] == ["a", "b"]


def test_tasks_that_end_together_are_all_told(tmp_path: Path) -> None:
    """Their notifications share a line, and each is an event of the turn."""
    notes = [f"<task-notification><task-id>b{n}</task-id></task-notification>" for n in (1, 2)]
    path = session(
        tmp_path,
        prompt("a", 0),
        reply("m1", tool_use("t1"), tool_use("t2"), at=1),
        result("t1", at=2, told={"backgroundTaskId": "b1"}),
        result("t2", at=2, told={"backgroundTaskId": "b2"}),
        reply("m2", "Both run.", at=3),
        prompt("\n".join(notes), 8),
        reply("m3", "Both ended.", at=9),
    )
    found = spans(path)
    assert [span.input for span in found if span.name == "notification"] == notes
    assert found[0].output == "Both ended."
    trace = next(iter(Session(path).traces()))
    assert trace.turn.running == {}
