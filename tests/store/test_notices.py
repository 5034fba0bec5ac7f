"""Prompts that nobody typed: who sent them, and what they say."""

from __future__ import annotations

import pytest

from cc_trace.store import notice

DONE = """<task-notification>
<task-id>b1</task-id>
<output-file>/tmp/b1.output</output-file>
<summary>Agent "Look" completed</summary>
<result>Found <b>two</b>.
<result>one</result></result>
</task-notification>
Full transcript available at: /tmp/b1"""


@pytest.mark.parametrize(
    ("text", "sender", "message"),
    [
        (DONE, "Notification", 'Agent "Look" completed\n\nFound <b>two</b>.\n<result>one</result>'),
        (
            "<bash-notification><summary>a</summary></bash-notification><bash-notification><summary>b</summary>",
            "Notification",
            "a\n\nb",
        ),
        (
            'Another Claude session sent a message:\n<agent-message from="review">VERDICT: <b></agent-message>',
            "Agent review",
            "VERDICT: <b>",
        ),
        ('<teammate-message teammate_id="r" color="blue">\nhello\n</teammate-message>', "Agent r", "hello"),
        ("<agent-message>hello", "Another session", "hello"),
    ],
)
def test_tags_are_left_out(text: str, sender: str, message: str) -> None:
    assert notice(text) == (sender, message)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "go",
        "What is <task-notification>?",
        "<task-notification><task-id>1</task-id></task-notification>",
        "<agent>",
    ],
)
def test_any_other_prompt_is_left_alone(text: str) -> None:
    assert notice(text) is None
