"""The plugin: its files say what Claude Code needs, and beside the hook of settings.json a turn is delivered once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from installed import AWKWARD, Home, copy_of_project
from shared import ROOT

import cc_trace
from cc_trace.settings.catalogue import SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the hook under test is the one for POSIX shells")

# Of the events that every version knows, those in use. One that is not known costs an old version the whole file.
EVENTS = {"SessionStart", "Stop", "SessionEnd"}


def manifest(name: str) -> Any:
    return json.loads((ROOT / name).read_text())


def commands() -> dict[str, str]:
    """The command of each event."""
    found = {}
    for event, [group] in manifest("hooks/hooks.json")["hooks"].items():
        [hook] = group["hooks"]
        assert hook["type"] == "command"
        found[event] = hook["command"]
    return found


def test_the_manifests_name_one_plugin_of_this_version() -> None:
    plugin, market = manifest(".claude-plugin/plugin.json"), manifest(".claude-plugin/marketplace.json")
    [listed] = market["plugins"]
    assert (plugin["name"], plugin["version"]) == ("cc-trace", cc_trace.__version__)
    assert (listed["name"], listed["source"], listed["description"]) == ("cc-trace", "./plugin", plugin["description"])
    assert "version" not in listed  # it would go before the plugin's own


@pytest.mark.skipif(not (ROOT / "plugin").exists(), reason="a source distribution has no links to folders")
def test_the_marketplace_names_a_folder_of_links_to_what_a_plugin_needs() -> None:
    """Claude Code copies that folder whole, and what its links lead to: no environment, no caches, no tests."""
    folder = ROOT / manifest(".claude-plugin/marketplace.json")["plugins"][0]["source"]
    links = {path.name: path.resolve().relative_to(ROOT).as_posix() for path in folder.iterdir() if path.is_symlink()}
    names = [".claude-plugin", "LICENSE", "README.md", "cc_trace", "hooks", "install.sh", "pyproject.toml"]
    assert links == {name: name for name in names}
    assert sorted(path.name for path in folder.iterdir()) == names


def test_hooks_are_of_known_events_and_lead_to_programs() -> None:
    root = "${CLAUDE_PLUGIN_ROOT}"
    assert set(commands()) == EVENTS
    for event, command in commands().items():
        program = "session-start" if event == "SessionStart" else "cc-trace-hook"
        assert command == f'[ ! -x "{root}/hooks/{program}" ] || exec "{root}/hooks/{program}"'
        assert os.access(ROOT / "hooks" / program, os.X_OK)


def test_every_option_is_a_setting() -> None:
    """Claude Code hands them on as variables; secrets are kept apart, and no default stands in two places."""
    options = manifest(".claude-plugin/plugin.json")["userConfig"]
    settings = {setting.name: setting for setting in SETTINGS}
    assert set(options) <= set(settings)
    for name, option in options.items():
        assert option["type"] == ("boolean" if settings[name].kind == "flag" else "string")
        assert option.get("sensitive", False) == settings[name].secret
        assert set(option) <= {"type", "title", "description", "sensitive"}
        assert f"CLAUDE_PLUGIN_OPTION_{name.upper()}" in settings[name].variables


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """The plugin as Claude Code copies it: no environment is in it."""
    return copy_of_project(tmp_path / "plug in")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    path = tmp_path / AWKWARD
    path.mkdir()
    return Home(path)


def start(home: Home, plugin: Path, **changes: str) -> str:
    """What the hook of a session's start says."""
    done = subprocess.run(
        ["/bin/sh", "-c", commands()["SessionStart"]],
        input=b"{}",
        env=home.variables(CLAUDE_PLUGIN_ROOT=str(plugin), **changes),
        cwd=home.path,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def test_a_missing_environment_is_told_to_the_user(home: Home, plugin: Path) -> None:
    said = json.loads(start(home, plugin))
    assert said == {
        "systemMessage": "cc-trace: nothing is traced yet because there is no Python environment. "
        f"Run once: sh '{plugin}/install.sh' --no-hooks"
    }
    odd = copy_of_project(plugin.parent / 'o"d\\d')
    assert json.loads(start(home, odd))["systemMessage"].endswith("sh install.sh of this plugin --no-hooks")


def test_an_environment_anywhere_the_hook_looks_is_enough(home: Home, plugin: Path) -> None:
    """Then nothing is said; nor where tracing is off."""
    places = [plugin / ".venv", home.path / ".local/share/cc-trace/venv", home.path / "data/cc-trace/venv"]
    data = str(home.path / "data")
    for place in places:
        python = place / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
        assert start(home, plugin, XDG_DATA_HOME=data if "data" in place.parts else "") == ""
        shutil.rmtree(place)
    assert start(home, plugin, CC_TRACE_PYTHON=sys.executable) == ""
    assert start(home, plugin, CC_TRACE_ENABLED="false") == ""
    assert start(home, plugin, CLAUDE_PLUGIN_OPTION_ENABLED="false") == ""
    assert start(home, plugin, CC_TRACE_ENABLED="true", CLAUDE_PLUGIN_OPTION_ENABLED="false") != ""


def test_an_environment_that_did_not_follow_an_update_is_told(home: Home, plugin: Path) -> None:
    """It is made by install.sh, which notes the version; Claude Code updates the plugin alone."""
    venv = home.path / ".local/share/cc-trace/venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    for noted in (cc_trace.__version__, ""):  # nothing was noted by the first versions
        (venv / ".complete").write_text(f"{noted}\n")
        assert start(home, plugin) == ""
    (venv / ".complete").write_text("0.0.9\n")
    assert json.loads(start(home, plugin)) == {
        "systemMessage": f"cc-trace: the plugin is version {cc_trace.__version__}, "
        "but its Python environment is still 0.0.9. "
        f"Run once: sh '{plugin}/install.sh' --no-hooks"
    }
    assert start(home, plugin, CC_TRACE_PYTHON=sys.executable) == ""


def test_a_plugin_that_is_gone_is_quiet(home: Home, tmp_path: Path) -> None:
    """As after an update, in a session that goes on."""
    for command in commands().values():
        done = home.claude_runs(command, CLAUDE_PLUGIN_ROOT=str(tmp_path / "gone"))
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_registered_twice_a_turn_is_delivered_once(home: Home, plugin: Path) -> None:
    """By settings.json and by the plugin, at the same time: every span once, and no error."""
    assert home.cc_trace("install").returncode == 0
    payload = home.sample_payload()
    registered = [home.commands()["Stop"][0], commands()["Stop"]]
    environment = home.variables(
        CC_TRACE_WAIT="1",
        CC_TRACE_WAIT_SECONDS="30",
        CLAUDE_PLUGIN_ROOT=str(plugin),
        CC_TRACE_PYTHON=sys.executable,
        CC_TRACE_DESTINATIONS="file",
    )
    pipe = subprocess.PIPE
    hooks = [
        subprocess.Popen(["/bin/sh", "-c", command], stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
        for command in registered
    ]
    for hook in hooks:
        assert hook.stdin
        hook.stdin.write(payload)
        hook.stdin.close()
        hook.stdin = None
    assert [(*hook.communicate(timeout=60), hook.returncode) for hook in hooks] == [(b"", b"", 0)] * 2
    assert len(spans_in(home.state / "traces.jsonl")) == 10


def spans_in(path: Path) -> list[str]:
    """The ids of the spans in a file of OTLP, as often as they are there."""
    return [
        span["spanId"]
        for line in path.read_text().splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
