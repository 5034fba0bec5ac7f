"""A Stop with Langfuse as a real process: images are uploaded, and the langfuse package is imported lazily."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from langfuse_server import PUBLIC, SECRET, LangfuseServer
from lines import SESSION, prompt, reply, result, tool_use
from test_worker import Home

from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(200))
# Runs cc-trace and says on stdout which of the packages were imported that asking Langfuse needs.
WATCH = """
import sys
from cc_trace.cli import main
code = main()
print(sorted({"argparse", "langfuse", "httpx", "pydantic", "regex"} & set(sys.modules)))
sys.exit(code)
"""


@pytest.fixture
def server() -> Iterator[LangfuseServer]:
    with LangfuseServer() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, server: LangfuseServer) -> Home:
    made = Home(tmp_path, server, langfuse=True)
    made.environment |= {"CC_LANGFUSE_PUBLIC_KEY": PUBLIC, "LANGFUSE_SECRET_KEY": SECRET}
    made.environment["CC_TRACE_TIMEOUT_SECONDS"] = "30"
    made.install()
    return made


def image() -> dict[str, Any]:
    data = base64.b64encode(PNG).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def write(home: Home, number: int, *, with_image: bool) -> Path:
    """A session of one turn."""
    path = home.projects / f"{SESSION[:-2]}{number:02}.jsonl"
    came: list[Any] = [{"type": "text", "text": "a.png"}, *([image()] if with_image else [])]
    lines = [
        prompt(f"Look at it, {number}", 0),
        reply(f"m{number}a", tool_use(f"t{number}"), at=1),
        result(f"t{number}", came, at=2),
        reply(f"m{number}b", "Done.", at=3),
    ]
    path.write_text("".join(json.dumps({**line, "sessionId": path.stem}) + "\n" for line in lines))
    return path


def stop(home: Home, path: Path, **environment: str) -> list[str]:
    """Be the worker of a Stop; return which packages it imported."""
    (home.state / "swept").touch()
    spooled = home.spool(home.payload(path, background_tasks=[]), path.stem)
    command = [sys.executable, "-c", WATCH, "sync", "--spooled", str(spooled)]
    done = subprocess.run(
        command, env=home.environment | environment, cwd=home.folder, capture_output=True, text=True, check=True
    )
    found: list[str] = json.loads(done.stdout.replace("'", '"'))
    return found


def test_langfuse_package_is_imported_lazily(home: Home, server: LangfuseServer) -> None:
    """For prices once a day, and for an image."""
    assert "langfuse" in stop(home, write(home, 1, with_image=False))
    assert stop(home, write(home, 2, with_image=False)) == []
    assert "langfuse" in stop(home, write(home, 3, with_image=True))
    assert stop(home, write(home, 4, with_image=False)) == []
    sent = {span.span_id for path in home.projects.iterdir() for span in Session(path, ending="over").spans()}
    assert dict(server.counts) == dict.fromkeys(sent, 1)
    assert len(server.asked("GET", "/models")) == 1


def test_cost_from_server_never_imports_langfuse(home: Home) -> None:
    assert stop(home, write(home, 1, with_image=False), CC_TRACE_LANGFUSE_COST="server") == []


@pytest.mark.parametrize(
    ("environment", "uploaded"),
    [
        ({}, True),
        ({"CC_TRACE_LANGFUSE_MEDIA": "false"}, False),
        ({"CC_TRACE_CONTENT": "no-tool-content"}, False),
        ({"CC_TRACE_CONTENT": "metadata"}, False),
    ],
)
def test_images_are_uploaded_with_full_content_only(
    home: Home,
    server: LangfuseServer,
    environment: dict[str, str],
    uploaded: bool,  # noqa: FBT001
) -> None:
    """And are in no file of ours: neither in the local store nor in the state."""
    stop(home, write(home, 1, with_image=True), CC_TRACE_DESTINATIONS="langfuse,local", **environment)
    assert [each.content for each in server.media.values()] == ([PNG] if uploaded else [])
    data = base64.b64encode(PNG)
    written = [path for path in home.state.rglob("*") if path.is_file()]
    assert any(path.name == "traces.db" for path in written)
    assert [path for path in written if data[:60] in path.read_bytes() or PNG[:40] in path.read_bytes()] == []


def test_agent_image_is_uploaded(home: Home, server: LangfuseServer) -> None:
    path = home.projects / f"{SESSION}.jsonl"
    call = tool_use("t1", "Agent", prompt="look", description="look", subagent_type="Explore")
    told = {"status": "completed", "agentId": "a1"}
    lines = [prompt("go", 0), reply("m1", call, at=1), result("t1", "seen", at=9, told=told), reply("m2", "ok", at=10)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    agent = home.projects / SESSION / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    below = [
        prompt("look", 2, isSidechain=True, agentId="a1"),
        reply("m3", tool_use("t2"), at=3, isSidechain=True, agentId="a1"),
        result("t2", [image()], at=4, isSidechain=True, agentId="a1"),
        reply("m4", "seen", at=5, isSidechain=True, agentId="a1"),
    ]
    agent.write_text("".join(json.dumps(line) + "\n" for line in below))
    stop(home, path)
    assert [(each.content, each.uploaded) for each in server.media.values()] == [(PNG, True)]


def test_preview_sends_no_requests(home: Home, server: LangfuseServer) -> None:
    path = write(home, 1, with_image=True)
    done = home.command("preview", str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("@@@langfuseMedia:type=image/png|id=") == 2  # where it came, and where it was answered
    assert server.requests == []
