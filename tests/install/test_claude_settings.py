"""Our hooks in the text of settings.json: added and removed, and nothing else it says changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from cc_trace.errors import JsonTextError
from cc_trace.install.hooks import (
    EVENTS,
    Registration,
    has_other_stop_hooks,
    plugins,
    registered,
    with_hooks,
    without_hooks,
)
from cc_trace.install.settings_text import parse_settings

COMMAND = "if [ -x '/home/ü \"x\"/cc-trace-hook' ]; then exec '/home/ü \"x\"/cc-trace-hook'; fi"
OTHER = "exec /elsewhere/hooks/cc-trace-hook"
OURS = [Registration(event, COMMAND) for event in EVENTS]

SPACES = """{
  "model": "opus",
  "hooks": {
    "PreToolUse": [
      {
        "matcher": "Bash",
        "hooks": [
          {
            "type": "command",
            "command": "check.sh"
          }
        ]
      }
    ],
    "Stop": [
      {
        "hooks": [
          {
            "type": "command",
            "command": "say done"
          }
        ]
      }
    ]
  },
  "number": 1.5
}
"""
SPACES_WITH = """{
  "model": "opus",
  "hooks": {
    "PreToolUse": [
      {
        "matcher": "Bash",
        "hooks": [
          {
            "type": "command",
            "command": "check.sh"
          }
        ]
      }
    ],
    "Stop": [
      {
        "hooks": [
          {
            "type": "command",
            "command": "say done"
          }
        ]
      },
      {
        "hooks": [
          {
            "type": "command",
            "command": "c/cc-trace-hook"
          }
        ]
      }
    ],
    "SessionEnd": [
      {
        "hooks": [
          {
            "type": "command",
            "command": "c/cc-trace-hook",
            "timeout": 60
          }
        ]
      }
    ]
  },
  "number": 1.5
}
"""


def meaning(text: str) -> dict[str, Any]:
    """What a text says; events without hooks say nothing."""
    settings = parse_settings(text)
    if isinstance(events := settings.get("hooks"), dict):
        settings["hooks"] = {event: groups for event, groups in events.items() if groups != []}
    return {key: value for key, value in settings.items() if (key, value) != ("hooks", {})}


def test_hooks_go_where_the_others_are_in_the_layout_of_the_file() -> None:
    assert with_hooks(SPACES, "c/cc-trace-hook") == SPACES_WITH
    assert without_hooks(SPACES_WITH) == SPACES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '{\n  "hooks": {\n    "Stop": [\n      {\n'),
        ("{}", '{\n  "hooks": {\n    "Stop": [\n      {\n'),
        ("{ \n }\n", '{\n  "hooks": {\n    "Stop": [\n      {\n'),
        ('{\r\n\t"a": 1\r\n}', '{\r\n\t"a": 1,\r\n\t"hooks": {\r\n\t\t"Stop": [\r\n\t\t\t{\r\n\t\t\t\t"hooks": ['),
        ('{\n"a": 1\n}', '{\n"a": 1,\n"hooks": {\n"Stop": [\n{\n"hooks": ['),
        (
            '{"a":1}',
            '{"a":1,"hooks":{"Stop":[{"hooks":[{"type":"command","command":"c/cc-trace-hook"}]}],"SessionEnd":',
        ),
        ('{"a": 1}\n', '{"a": 1, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "c/cc-trace-hook"}]}], '),
        ('{"hooks": {}}', '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "c/cc-trace-hook"}]}], '),
        ('{\n    "hooks": {}\n}', '{\n    "hooks": {\n        "Stop": [\n            {\n                "hooks": ['),
        ('\ufeff{"a":1}', '\ufeff{"a":1,"hooks":{"Stop":[{"hooks":'),
    ],
    ids=repr,
)
def test_the_layout_is_the_files_own(text: str, expected: str) -> None:
    """Spaces, tabs, none at all; CRLF; one line; minified; with a byte order mark; nothing yet."""
    changed = with_hooks(text, "c/cc-trace-hook")
    assert changed.startswith(expected)
    assert [found.event for found in registered(changed)] == ["Stop", "SessionEnd"]
    assert meaning(without_hooks(changed)) == meaning(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n  // mine\n  "a": 1\n}', "line 2, column 3: JSON does not allow comments"),
        ('{"a": 1 /* b */}', "line 1, column 9: JSON does not allow comments"),
        ('{"a": 1}\n# b', "line 2, column 1: extra data"),
        ('{"a": "b" "c"}', "line 1, column 11: expecting ',' delimiter"),
        ("{'a': 1}", "line 1, column 2: expecting property name enclosed in double quotes"),
        ("[]", "it must be a JSON object"),
        ("\n null", "it must be a JSON object"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ('{"a": ' + "[" * 100_000, "it is nested too deeply"),
        ('{"hooks": []}', "hooks is not an object"),
        ('{"hooks": null}', "hooks is not an object"),
        ('{"hooks": {"SessionEnd": {}}}', "hooks.SessionEnd is not a list"),
        ('{"hooks": {}, "hooks": {}}', 'the key "hooks" appears twice in one object'),
        ('{"hooks": {"Stop": [], "\\u0053top": []}}', 'the key "Stop" appears twice in one object'),
        ('{"env": {"A": "1", "B": "2", "A": "3"}}', 'the key "A" appears twice in one object'),
        ('{"a": 1E400}', "it has a number that is too large"),
        ('{"a": ' + "9" * 5000 + "}", "it has a number that is too long"),
    ],
    ids=lambda text: text[:40],
)
def test_what_cannot_be_kept_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(JsonTextError) as refused:
        with_hooks(text, COMMAND)
    assert str(refused.value) == message


@pytest.mark.parametrize("text", ['{\n  "a": 1,\n}', '{\n  "a": [1,\n]}'])
def test_a_trailing_comma_is_refused_with_the_line(text: str) -> None:
    """Python 3.13 places it at the comma, older ones behind it."""
    with pytest.raises(
        JsonTextError, match=r"line [23], column \d+: JSON does not allow a comma before the closing bracket"
    ):
        with_hooks(text, COMMAND)


def hooks_of(event: str, *groups: list[dict[str, Any]]) -> dict[str, Any]:
    return {"hooks": {event: [{"hooks": group} for group in groups]}}


def test_another_path_replaces_the_command_and_nothing_else() -> None:
    text = with_hooks(SPACES, OTHER)
    assert with_hooks(text, COMMAND) == text.replace(OTHER, json.dumps(COMMAND, ensure_ascii=False)[1:-1])


def test_a_hook_of_ours_keeps_its_place_and_its_other_keys() -> None:
    ours, other = {"type": "command", "command": OTHER, "timeout": 5}, {"type": "command", "command": "say"}
    after = json.loads(with_hooks(json.dumps(hooks_of("Stop", [other, ours], [other])), COMMAND))
    assert after["hooks"]["Stop"] == hooks_of("Stop", [other, {**ours, "command": COMMAND}], [other])["hooks"]["Stop"]


def test_several_of_ours_become_one_and_those_of_other_events_go() -> None:
    ours, other = {"type": "command", "command": OTHER}, {"type": "command", "command": "say"}
    new = {**ours, "command": COMMAND}
    both = hooks_of("Stop", [ours, other, ours], [ours], [ours, ours, other], [other])
    both["hooks"]["SubagentStop"] = [{"hooks": [ours]}]
    both["hooks"]["PreToolUse"] = [{"matcher": "x", "hooks": [{"command": "python -I -m cc_trace.hook"}, other]}]
    cleaned = hooks_of("Stop", [new, other], [other], [other])
    cleaned["hooks"]["PreToolUse"] = [{"matcher": "x", "hooks": [other]}]
    cleaned["hooks"]["SessionEnd"] = [{"hooks": [{**new, "timeout": 60}]}]
    for indent in (None, 2):
        assert json.loads(with_hooks(json.dumps(both, indent=indent), COMMAND)) == cleaned


def test_only_whole_names_are_ours() -> None:
    """Neither another tool's hook nor what is no command."""
    commands = [
        "not-cc-trace-hook",
        "cc-trace-hook2",
        "my_cc_trace.hook",
        "cc-trace-hook-x",
        None,
        3,
        ["cc-trace-hook"],
    ]
    text = json.dumps(
        {"hooks": {"Stop": [{"hooks": [{"command": command} for command in commands]}, 1, {"hooks": {}}]}}
    )
    assert (registered(text), without_hooks(text)) == ([], text)
    ours = [
        "cc-trace-hook",
        "'/a b/cc-trace-hook'",
        "X=1 cc-trace-hook.sh",
        "python3 -m cc_trace.hook",
        "cc-trace-hook;",
    ]
    text = json.dumps({"hooks": {"Stop": [{"hooks": [{"command": command} for command in ours]}]}})
    assert registered(text) == [Registration("Stop", command) for command in ours]


def test_our_plugin_is_seen_when_it_is_enabled() -> None:
    enabled = {"cc-trace@market": True, "cc-trace@other": False, "cc-tracer@market": True}
    assert plugins(json.dumps({"enabledPlugins": enabled})) == ["cc-trace@market"]
    assert plugins("") == plugins('{"enabledPlugins": []}') == []


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
foreign_hooks = st.lists(
    st.dictionaries(st.sampled_from(["type", "command", "timeout"]), values, max_size=3) | values, max_size=2
)
groups = st.lists(
    st.fixed_dictionaries({}, optional={"matcher": st.text(), "hooks": foreign_hooks, "extra": values}) | values,
    max_size=3,
)
events = st.dictionaries(
    st.sampled_from(["Stop", "SessionEnd", "PreToolUse"]) | st.text(max_size=3), groups, max_size=3
)
documents = st.builds(
    lambda others, hooks, last: {**others, **({} if hooks is None else {"hooks": hooks}), **last},
    st.dictionaries(st.text().filter(lambda key: key != "hooks"), values, max_size=3),
    st.none() | events,
    st.dictionaries(st.text().filter(lambda key: key != "hooks"), values, max_size=1),
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A settings file as people and programs write it."""
    document = draw(documents)
    indent = draw(st.sampled_from([None, "", " ", "  ", "    ", "\t"]))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]))
    text = json.dumps(document, indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    frame = draw(st.sampled_from(["", " ", "\n", "\n\n"]))
    return (
        draw(st.sampled_from(["", "\ufeff"])) + frame + text.replace("\n", newline) + draw(st.sampled_from(["", "\n"]))
    )


def has_ours(text: str) -> bool:
    return "cc-trace-hook" in text or "cc_trace.hook" in text


@given(texts())
@example("{}")
@example('{"hooks":{}}')
@example('{"hooks":{"Stop":[]}}')
def test_in_and_out_again_says_the_same(text: str) -> None:
    assume(not has_ours(text))
    installed = with_hooks(text, COMMAND)
    assert sorted(registered(installed), key=lambda found: EVENTS.index(found.event)) == OURS
    assert with_hooks(installed, COMMAND) == installed
    assert with_hooks(with_hooks(text, OTHER), COMMAND) == installed
    assert meaning(without_hooks(installed)) == meaning(text)


@given(
    documents, st.sampled_from([" ", "  ", "    ", "\t"]), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\n"])
)
def test_a_file_laid_out_by_a_program_is_the_same_again(document: Any, indent: str, newline: str, end: str) -> None:
    """Also one that others have changed in between: its layout is what they gave it."""
    text = (json.dumps(document, indent=indent, ensure_ascii=False) + end).replace("\n", newline)
    hooks = document.get("hooks")
    assume(document and hooks != {} and [] not in (hooks or {}).values() and not has_ours(text))
    assert without_hooks(with_hooks(text, COMMAND)) == text


@pytest.mark.parametrize(
    "value", ["1.0", "1e+22", "-1", str(2**70), '"\\ud800"', '"é\\ud800"', '"\\u0000"', '"\\u00e9"', '"é"', "null"]
)
def test_values_are_kept_as_they_are_written(value: str) -> None:
    """Also half of a pair of surrogates, which UTF-8 cannot hold; a file that escapes what is not ASCII goes on so."""
    changed = with_hooks(f'{{"a": [{value}], "b": {value}}}', COMMAND)
    assert changed.encode().startswith(f'{{"a": [{value}], "b": {value}, "hooks": '.encode())


@pytest.mark.parametrize("text", ["{// mine\n}", "[]", "null", '{"a": 1E400}', '{"a": 1, "a": 2}', "not JSON"])
def test_what_names_no_hook_of_ours_need_not_be_json_to_be_rid_of_it(text: str) -> None:
    assert without_hooks(text) == text


def test_a_name_that_is_escaped_is_found() -> None:
    text = json.dumps(hooks_of("Stop", [{"command": "x\ncc-trace-hook"}])).replace("-", "\\u002d")
    assert without_hooks(text) == "{}"


def test_a_key_that_appears_twice_counts_as_it_does_for_claude_code() -> None:
    """What is only read is not refused: the last one holds."""
    text = '{"hooks": {}, "hooks": {"Stop": [{"hooks": [{"command": "cc-trace-hook"}]}]}, "a": 1, "a": true}'
    assert registered(text) == [Registration("Stop", "cc-trace-hook")]
    assert meaning(text)["a"] is True
    assert without_hooks('{"a": 1, "a": 2}') == '{"a": 1, "a": 2}'
    with pytest.raises(JsonTextError, match='the key "hooks" appears twice'):
        without_hooks(text)


@given(texts())
def test_our_hooks_are_the_only_difference(text: str) -> None:
    """What Claude Code reads is what it read before, and our two hooks behind the others."""
    assume(not has_ours(text))
    before, after = json.loads(text.lstrip("\ufeff")), json.loads(with_hooks(text, COMMAND).lstrip("\ufeff"))
    hooks = before.setdefault("hooks", {})
    for event in EVENTS:
        more = {"timeout": 60} if event == "SessionEnd" else {}
        hooks.setdefault(event, []).append({"hooks": [{"type": "command", "command": COMMAND, **more}]})
    assert after == before


@pytest.mark.parametrize("before", [None, 5, "long"])
def test_a_session_end_hook_without_enough_time_gets_it(before: object) -> None:
    """An installation of before has none; all its SessionEnd hooks have 1.5 s together."""
    hook = {"type": "command", "command": "c/cc-trace-hook", **({} if before is None else {"timeout": before})}
    text = json.dumps({"hooks": {event: [{"hooks": [hook]}] for event in EVENTS}}, indent=2)
    assert [each.timeout_is_short for each in registered(text)] == [False, True]
    after = with_hooks(text, "c/cc-trace-hook")
    assert [each.timeout_is_short for each in registered(after)] == [False, False]
    assert json.loads(after)["hooks"]["SessionEnd"] == [{"hooks": [hook | {"timeout": 60}]}]
    assert json.loads(after)["hooks"]["Stop"] == [{"hooks": [hook]}]
    assert with_hooks(after, "c/cc-trace-hook") == after


def test_more_time_than_needed_is_left() -> None:
    """The user has chosen it."""
    text = with_hooks("{}", "c/cc-trace-hook").replace("60", "90")
    assert with_hooks(text, "c/cc-trace-hook") == text


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, False),
        ({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "say"}]}]}}, False),
        ({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "c/cc-trace-hook"}]}]}}, False),
        ({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}, True),
        ({"hooks": {"Stop": [{"hooks": [{"type": "prompt", "prompt": "Done?"}]}]}}, True),
        ({"enabledPlugins": {"cc-trace@market": True, "lint@market": False}}, False),
        ({"enabledPlugins": {"lint@market": True}}, True),
        ({"hooks": [], "enabledPlugins": 3}, False),
    ],
)
def test_stop_hooks_of_others_are_known(said: object, expected: bool) -> None:  # noqa: FBT001
    """Ours is none of them; a plugin that is enabled may have one."""
    assert has_other_stop_hooks(json.dumps(said)) is expected
