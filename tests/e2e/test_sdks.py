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
from expected import expected
from received import ReceivedTraces
from sandbox import Sandbox
from script import Reply, Use
from shared import ROOT
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
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sandbox]:
    """A sandbox with a run of two responses; the hook is not installed yet."""
    processes.adopt_orphans()
    with Sandbox(request.node.name, tmp_path / "sandbox", CURRENT, claude_code.command(CURRENT)) as made:
        path = made.home.write("a.txt", "alpha\n")
        made.script(
            tools=[Reply("I look.", uses=(Use("Read", {"file_path": str(path)}),)), Reply("Done.")],
            t1=[Reply("Answer one.")],
            t2=[Reply("Answer two.")],
        )
        made.prepare(hook=False)
        yield made


def run_sdk(
    sandbox: Sandbox, language: Language, program: str, *, sources: str | None = None, persists: bool = True
) -> str:
    """Run a program that asks `[[tools]] go`; return what it printed. `sources`: of settings, where it names some."""
    program = program.replace("Fix the build", "[[tools]] go")
    folder = sandbox.home.folder / "programs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "claude").write_text(f'#!/bin/sh\nexec {shlex.join(sandbox.command)} "$@"\n')
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
    path = f"{folder}:{Path(sys.executable).parent}:{sandbox.home.environment['PATH']}"
    ran = subprocess.run(
        command,
        env=sandbox.home.environment | {"PATH": path},
        cwd=sandbox.home.project,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * LONG_SECONDS,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    sandbox.settle()
    return ran.stdout


def assert_received_once(sandbox: Sandbox) -> None:
    received = ReceivedTraces(sandbox.sink.spans)
    assert sandbox.api.unscripted == []
    assert received.twice() == []
    assert received.astray() == []
    assert received.turns() == expected(sandbox.api.calls, {})


@both
@pytest.mark.parametrize("persists", [True, False], ids=["transcript", "stream"])
def test_the_recipe_delivers_a_run(sandbox: Sandbox, language: Language, *, persists: bool) -> None:
    """Without any hook, from settings that the SDK does not even load; from a transcript where there is one."""
    assert "Done." in run_sdk(sandbox, language, RECIPES[language], sources="[]", persists=persists)
    assert_received_once(sandbox)
    made = [*(sandbox.home.state / "streams").glob("*.jsonl")]
    assert bool(made) is not persists


@both
@pytest.mark.parametrize("sources", [None, '["user"]'])
def test_the_hook_runs_where_the_settings_are_loaded(sandbox: Sandbox, language: Language, sources: str | None) -> None:
    """Which is so where the program names no sources, or the user's among them."""
    sandbox.home.cc_trace("install")
    assert "Done." in run_sdk(sandbox, language, PLAIN[language], sources=sources)
    assert_received_once(sandbox)


@both
def test_the_hook_does_not_run_where_no_settings_are_loaded(sandbox: Sandbox, language: Language) -> None:
    sandbox.home.cc_trace("install")
    assert "Done." in run_sdk(sandbox, language, PLAIN[language], sources="[]")
    assert sandbox.sink.counts == {}


@both
def test_with_both_each_span_arrives_once(sandbox: Sandbox, language: Language) -> None:
    sandbox.home.cc_trace("install")
    run_sdk(sandbox, language, RECIPES[language], sources='["user"]')
    assert_received_once(sandbox)


@pytest.mark.parametrize("persists", [True, False], ids=["transcript", "stream"])
def test_a_longer_session_of_the_python_sdk(sandbox: Sandbox, *, persists: bool) -> None:
    """A tracer for each prompt, while Claude Code goes on."""
    run_sdk(sandbox, "python", SESSION, sources="[]", persists=persists)
    received = ReceivedTraces(sandbox.sink.spans)
    assert received.twice() == []
    (turns,) = received.turns().values()
    said = [(turn.prompt, turn.output, turn.status) for turn in turns]
    assert said == [("[[t1]] one", "Answer one.", "ok"), ("[[t2]] two", "Answer two.", "ok")]
