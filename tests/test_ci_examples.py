"""The examples of docs/ci.md: valid YAML, commands and variables that exist, and steps that do what they say."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from shared import ROOT

from cc_trace.cli.arguments import parser
from cc_trace.settings import SETTINGS

TEXT = (ROOT / "docs" / "ci.md").read_text()
SETTINGS_PAGE = (ROOT / "docs" / "settings.md").read_text()
RECORDED = ROOT / "tests" / "transcript" / "stream" / "recordings" / "2.1.325-hello-stream"
HEADINGS = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
_EXAMPLE = re.compile(r"^## ([^\n]+)\n(?:(?!^## ).)*?```yaml\n(.*?)```", re.MULTILINE | re.DOTALL)
EXAMPLES = dict(_EXAMPLE.findall(TEXT))
# Prints and writes what Claude Code would, for the options that it is given.
CLAUDE = f"""#!{sys.executable}
import os, pathlib, sys
recorded, session = pathlib.Path({str(RECORDED)!r}), "eb4e4d28-e60d-506b-af76-2518e00dee3b"
if "stream-json" in sys.argv:
    sys.stdout.write((recorded / "output").read_text())
else:
    own = sys.argv[sys.argv.index("--session-id") + 1]
    folder = pathlib.Path(os.environ["HOME"], ".claude", "projects", "-p")
    folder.mkdir(parents=True)
    text = (recorded / "transcript" / (session + ".jsonl")).read_text()
    (folder / (own + ".jsonl")).write_text(text.replace(session, own))
"""


def scripts(node: Any) -> list[str]:
    """All that is run, in order: the `run` of GitHub's steps, the lists of GitLab's."""
    if isinstance(node, list):
        return [script for each in node for script in scripts(each)]
    if not isinstance(node, dict):
        return []
    own = [node["run"]] if isinstance(node.get("run"), str) else []
    for name in ("before_script", "script", "after_script"):
        own += ["\n".join(node[name])] if name in node else []
    return own + [script for name, each in node.items() if not str(name).endswith("script") for script in scripts(each)]


def calls(script: str) -> list[list[str]]:
    """The calls of `cc-trace` in a script, as words."""
    lines = script.replace("\\\n", " ").splitlines()
    return [
        shlex.split(re.split(r" \| | >> | > ", found[0])[0])[1:]
        for line in lines
        if (found := re.search(r"cc-trace .*", line)) is not None
    ]


def test_there_are_examples_for_both_with_and_without_hooks() -> None:
    assert [heading for heading in HEADINGS if heading in EXAMPLES] == [
        "GitHub Actions, without hooks",
        "GitHub Actions, with hooks",
        "claude-code-action",
        "GitLab, without hooks",
        "GitLab, with hooks",
    ]


@pytest.mark.parametrize("heading", EXAMPLES)
def test_commands_and_options_exist(heading: str) -> None:
    found = [call for script in scripts(yaml.safe_load(EXAMPLES[heading])) for call in calls(script)]
    assert {call[0] for call in found} >= {"report"}
    for call in found:
        parser().parse_args(call)


@pytest.mark.parametrize("heading", EXAMPLES)
def test_variables_exist(heading: str) -> None:
    named = set(re.findall(r"\b(?:CC_TRACE|LANGFUSE)_[A-Z_]+\b", EXAMPLES[heading]))
    known = {name for setting in SETTINGS for name in setting.variables}
    assert named <= known | set(re.findall(r"`(CC_TRACE_WAIT\w*)`", SETTINGS_PAGE))


class Job:
    """A machine on which a job runs, with a `claude` that repeats what was recorded."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "claude").write_text(CLAUDE)
        (home / "claude").chmod(0o755)
        for name in ("summary", "env"):
            (home / name).touch()

    def run(self, script: str, **environment: str) -> int:
        known = {
            "HOME": str(self.home),
            "PATH": f"{self.home}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "CC_TRACE_DESTINATIONS": "local",
            "GITHUB_STEP_SUMMARY": str(self.home / "summary"),
            "GITHUB_ENV": str(self.home / "env"),
            "EXECUTION_FILE": str(self.home / "execution.json"),
        }
        kept = dict(line.split("=", 1) for line in (self.home / "env").read_text().splitlines())
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        return subprocess.run(shell, env=known | kept | environment, cwd=self.home, check=False).returncode


@pytest.mark.parametrize("heading", EXAMPLES)
def test_an_example_does_what_it_says(heading: str, tmp_path: Path) -> None:
    """All steps but those that fetch programs, one after the other as a runner would."""
    job = Job(tmp_path)
    messages = [json.loads(line) for line in (RECORDED / "output").read_text().splitlines()]
    (tmp_path / "execution.json").write_text(json.dumps(messages, indent=2))  # as claude-code-action writes it
    steps = [re.sub(r"(?m)^(npm|pip) .*$", "", step) for step in scripts(yaml.safe_load(EXAMPLES[heading]))]
    assert [job.run(step) for step in steps] == [0] * len(steps)
    assert (tmp_path / ".claude" / "state" / "cc-trace" / "traces.db").exists() or "with hooks" in heading
    if "GitLab" not in heading:
        assert (tmp_path / "summary").read_text().startswith("| Claude Code | |\n|---|---|\n")
