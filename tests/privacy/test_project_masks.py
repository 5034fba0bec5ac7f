"""A project's own patterns: what they mask, and that none of them can let a text pass or hold up a delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest
from lines import prompt, reply, session
from profiles_spans import made

from cc_trace.errors import ConfigError
from cc_trace.privacy.content import Privacy, PrivacySettings
from cc_trace.privacy.project_masks import MAX_CHARS, MAX_PATTERNS, WITHHELD, ProjectMasks, check_masks
from cc_trace.spans import Session

if TYPE_CHECKING:
    from pathlib import Path

    from cc_trace.transcript.entries import JsonValue


def test_matches_of_project_masks_are_masked() -> None:
    """Of one with a group `secret` that group alone."""
    masks = ProjectMasks(["acme-[0-9]{4}", "pin=(?P<secret>[0-9]+)"])
    assert masks.text("a acme-1234 b pin=77.") == "a [masked: project pattern] b pin=[masked: project pattern]."


def test_project_masks_apply_after_the_users(tmp_path: Path) -> None:
    (span, *_) = Session(session(tmp_path, prompt("hello", 0), reply("m1", "yes", at=1))).spans()
    privacy = Privacy(PrivacySettings(mask=("mine",), project_mask=("theirs",), max_chars=0))
    given = span._replace(metadata={"theirs": ["x theirs y", "mine"]})
    assert privacy(given).metadata == {
        "[masked: project pattern]": ["x [masked: project pattern] y", "[masked: own pattern]"]
    }
    assert privacy.text("mine theirs") == "[masked: own pattern] [masked: project pattern]"


@pytest.mark.parametrize("levels", [1, 150, 199, 200, 220, 250])
@pytest.mark.parametrize("settings", [PrivacySettings(project_mask=("theirs",)), PrivacySettings(max_chars=6)])
def test_no_depth_hides_a_text_from_them_or_from_being_cut(levels: int, settings: PrivacySettings) -> None:
    """As deep as JSON can be written, which is deeper than is walked: what is below that does not leave."""
    deep: JsonValue = "all of theirs"
    for _ in range(levels):
        deep = [deep]
    outgoing = Privacy(settings)(made("tool", "Write", input={"x": deep}))
    assert "theirs" not in orjson.dumps(outgoing.input).decode()


def test_a_pattern_that_takes_too_long_withholds_the_text() -> None:
    """And after some of those all that follows, without trying."""
    masks = ProjectMasks(["(x+x+)+y"])
    assert [masks.text("x" * 5_000) for _ in range(4)] == [WITHHELD] * 4
    assert masks.text("harmless") == WITHHELD


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (["a"] * (MAX_PATTERNS + 1), "the project has 21 masks"),
        (["a" * (MAX_CHARS + 1)], "mask 1 of the project has 201 characters"),
        (["a", "(secret"], "mask 2 of the project is not a regular expression"),
        (["a*"], "mask 1 of the project matches empty text"),
        (["(?:(?:(?:x?){999}){999}){999}y"], "mask 1 of the project repeats too much"),
        (["(?:abc){e<=9}"], "mask 1 of the project repeats too much"),
    ],
)
def test_unusable_masks_are_refused_and_not_shown(patterns: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        check_masks(patterns)
    assert "secret" not in str(caught.value)
