"""The Agent SDKs on the real Claude Code: with the hook, and with the recipes of docs/sdk.md as they stand there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import claude_code
import processes
import pytest
from agent_sdks import python_sdk, typescript_sdk
from arrived import Arrived
from expected import expected
from script import HttpResponse, Use
from shared import ROOT
from stage import Stage
from versions import CURRENT
from waiting import LONG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

Language: TypeAlias = Literal["python", "typescript"]
TEXT: Final = (ROOT / "docs" / "sdk.md").read_text()
RECIPES: Final = {
    "python": max(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL), key=len),
    "typescript": max(re.findall(r"```ts\n(.*?)```", TEXT, re.DOTALL), key=len),
}
# The same without us.
PLAIN: Final = {
    "python": """
import asyncio
from claude_agent_sdk import ClaudeAgentOptions, query
prompt = "Fix the build"
async def main():
    async for message in query(prompt=prompt, options=ClaudeAgentOptions()):
        print(message)
asyncio.run(main())
""",
    "typescript": """
import { query } from "@anthropic-ai/claude-agent-sdk";
const prompt = "Fix the build";
for await (const message of query({ prompt, options: {} })) console.log(message);
""",
}
SESSION: Final = """
import asyncio
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient
from cc_trace import Tracer
async def main():
    async with ClaudeSDKClient(ClaudeAgentOptions(OPTIONS)) as client:
        for prompt in ("[[t1]] one", "[[t2]] two"):
            async with Tracer(prompt) as tracer:
                await client.query(prompt)
                async for message in tracer.watch(client.receive_response()):
                    print(message)
asyncio.run(main())
"""
both = pytest.mark.parametrize("language", ["python", "typescript"])


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """A stage with a run of two responses; the hook is not installed yet."""
    processes.adopt_orphans()
    with Stage(request.node.name, tmp_path / "stage", CURRENT, claude_code.command(CURRENT)) as made:
        path = made.home.write("a.txt", "alpha\n")
        made.script(
            tools=[HttpResponse("I look.", uses=(Use("Read", {"file_path": str(path)}),)), HttpResponse("Done.")],
            t1=[HttpResponse("Answer one.")],
            t2=[HttpResponse("Answer two.")],
        )
        made.furnish(hook=False)
        yield made


def play(stage: Stage, language: Language, program: str, *, sources: str | None = None, persists: bool = True) -> str:
    """Run a program that asks `[[tools]] go`; return what it printed. `sources`: of settings, where it names some."""
    program = program.replace("Fix the build", "[[tools]] go")
    folder = stage.home.folder / "programs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "claude").write_text(f'#!/bin/sh\nexec {shlex.join(stage.command)} "$@"\n')
    (folder / "claude").chmod(0o755)
    if language == "python":
        options = [f"setting_sources={sources}"] if sources is not None else []
        options += [] if persists else ['extra_args={"no-session-persistence": None}']
        program = program.replace("ClaudeAgentOptions()", f"ClaudeAgentOptions({', '.join(options)})")
        program = program.replace("setting_sources=[]", ", ".join(options) or "setting_sources=[]")
        program = program.replace("OPTIONS", ", ".join(options))
        file = folder / "program.py"
        file.write_text(f"import sys\nsys.path.append({str(python_sdk())!r})\n{program}")
        command = [sys.executable, str(file)]
    else:
        options = [f"settingSources: {sources}"] if sources is not None else []
        options += [] if persists else ["persistSession: false"]
        options.append(f"pathToClaudeCodeExecutable: {str(folder / 'claude')!r}")
        program = program.replace("options: {}", f"options: {{ {', '.join(options)} }}")
        program = program.replace("settingSources: []", ", ".join(options))
        file = folder / "program.mjs"
        file.write_text(program)
        (folder / "node_modules").symlink_to(typescript_sdk() / "node_modules")
        command = [str(shutil.which("node")), str(file)]
    path = f"{folder}:{Path(sys.executable).parent}:{stage.home.environment['PATH']}"
    ran = subprocess.run(
        command,
        env=stage.home.environment | {"PATH": path},
        cwd=stage.home.project,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * LONG_SECONDS,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    stage.settle()
    return ran.stdout


def assert_arrived_once(stage: Stage) -> None:
    arrived = Arrived(stage.sink.spans)
    assert stage.api.unscripted == []
    assert arrived.twice() == []
    assert arrived.astray() == []
    assert arrived.turns() == expected(stage.api.exchanges, {})


@both
@pytest.mark.parametrize("persists", [True, False], ids=["transcript", "stream"])
def test_the_recipe_delivers_a_run(stage: Stage, language: Language, *, persists: bool) -> None:
    """Without any hook, from settings that the SDK does not even load; from a transcript where there is one."""
    assert "Done." in play(stage, language, RECIPES[language], sources="[]", persists=persists)
    assert_arrived_once(stage)
    made = [*(stage.home.state / "streams").glob("*.jsonl")]
    assert bool(made) is not persists


@both
@pytest.mark.parametrize("sources", [None, '["user"]'])
def test_the_hook_runs_where_the_settings_are_loaded(stage: Stage, language: Language, sources: str | None) -> None:
    """Which is so where the program names no sources, or the user's among them."""
    stage.home.cc_trace("install")
    assert "Done." in play(stage, language, PLAIN[language], sources=sources)
    assert_arrived_once(stage)


@both
def test_the_hook_does_not_run_where_no_settings_are_loaded(stage: Stage, language: Language) -> None:
    stage.home.cc_trace("install")
    assert "Done." in play(stage, language, PLAIN[language], sources="[]")
    assert stage.sink.counts == {}


@both
def test_with_both_each_span_arrives_once(stage: Stage, language: Language) -> None:
    stage.home.cc_trace("install")
    play(stage, language, RECIPES[language], sources='["user"]')
    assert_arrived_once(stage)


@pytest.mark.parametrize("persists", [True, False], ids=["transcript", "stream"])
def test_a_longer_session_of_the_python_sdk(stage: Stage, *, persists: bool) -> None:
    """A tracer for each prompt, while Claude Code goes on."""
    play(stage, "python", SESSION, sources="[]", persists=persists)
    arrived = Arrived(stage.sink.spans)
    assert arrived.twice() == []
    (turns,) = arrived.turns().values()
    said = [(turn.prompt, turn.output, turn.status) for turn in turns]
    assert said == [("[[t1]] one", "Answer one.", "ok"), ("[[t2]] two", "Answer two.", "ok")]
