"""A viewer of recorded sessions, running in this process."""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import uvicorn
from lines import prompt, reply, result, session, tool_use, write
from shared import CASES

from cc_trace.delivery import App
from cc_trace.store import Store, store_path
from cc_trace.view.server import site
from cc_trace.view.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lines import Line

TOKEN = "t" * 43
# A PNG of three by two pixels.
IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAEUlEQVR4nGP4z8AAQTD6PwMAPtUF+6guL00AAAAASUVORK5CYII="
_EDITS = [{"old_string": "a = 1", "new_string": "a = 2"}, {"old_string": "b = 1", "new_string": "b = 2"}]
COPIED = "88888888-0000-4000-8000-000000000008"
REPEATED = "66666666-0000-4000-8000-000000000006"
SENT = "99999999-0000-4000-8000-000000000009"
OLD = "77777777-0000-4000-8000-000000000007"
_TODOS = [{"content": "look", "status": "completed"}, {"content": "fix", "status": "in_progress"}]
HOSTILE = (
    "<script>window.ran = 1</script><img src=x onerror='window.ran = 2'> [a](javascript:window.ran=3)"
    " ![p](http://evil.example/p.png) <iframe src='http://evil.example/'></iframe> \u202egnp.exe hostile"
    " \x1b]8;;http://evil.example\x07link\x1b]8;;\x07\x1b[2J\x1b[31"
)


@dataclass(frozen=True, slots=True)
class Viewer:
    """A running viewer."""

    port: int
    index: Store
    watch: Watch
    projects: Path

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


def copy_cases(projects: Path, *names: str) -> None:
    """Put recorded sessions where Claude Code would have written them."""
    for name in names:
        for path in (CASES / name).iterdir():
            if path.suffix == ".jsonl":
                shutil.copy(path, projects / path.name)
            elif path.is_dir() and path.suffix != ".spans":
                shutil.copytree(path, projects / path.name, dirs_exist_ok=True)


def write_made(projects: Path) -> None:
    """Write a session with a diff, terminal colours, an image and Markdown, and a second turn of hostile texts."""
    source = {"type": "base64", "media_type": "image/png", "data": IMAGE}
    edit = {"file_path": "/p/a.py", "old_string": "def f():\n    return 1", "new_string": "def f():\n    return 2"}
    session(
        projects,
        prompt("Fix the test", 0, cwd="/p"),
        reply("m1", tool_use("t1", "Bash", command="pytest -q"), at=2),
        result("t1", "\x1b[31m1 failed\x1b[0m", at=4, error=True),
        reply("m2", tool_use("t2", "Edit", **edit), tool_use("t3", "Read", file_path="/p/b.png"), at=6),
        result("t2", "The file has been updated.", at=7),
        result("t3", [{"type": "image", "source": source}], at=7.5),
        reply(
            "m2b",
            tool_use("w1", "Write", file_path="/p/new.py", content="x = 1\ny = 2\n"),
            tool_use("w2", "MultiEdit", file_path="/p/a.py", edits=_EDITS),
            tool_use("w3", "Grep", pattern="rounding", path="/p"),
            tool_use("w4", "TodoWrite", todos=_TODOS),
            tool_use("w5", "mcp__tickets__search", query={"text": "rounding", "labels": ["bug"]}),
            at=7.8,
        ),
        result("w1", "File created", at=8),
        result("w2", "Edited", at=8.1),
        result("w3", "a.py:1: # rounding", at=8.2),
        result("w4", "Todos have been modified", at=8.3),
        result("w5", '{"tickets": [{"id": "T-1"}]}', at=8.4),
        reply("m3", "It is **fixed**:\n\n- one\n- two\n\n```python\nreturn 2\n```", at=9),
        prompt(HOSTILE, 20, cwd="/p"),
        reply("m4", HOSTILE, tool_use("t4", "Bash", command=HOSTILE), at=22),
        result("t4", HOSTILE + "x" * 1_000_000, at=23),
        reply("m5", tool_use("t5", HOSTILE[:60], **{HOSTILE: HOSTILE}), at=24),
        result("t5", HOSTILE, at=25, error=True),
        reply("m6", "y" * 1_000_000, at=27),
    )


def write_repeated(projects: Path) -> None:
    """Write a session with a pasted image, in which one command fails three times for one reason, and another once."""
    own: dict[str, Any] = {"sessionId": REPEATED, "cwd": "/repeated"}
    source = {"type": "base64", "media_type": "image/png", "data": IMAGE}
    lines = [
        prompt([{"type": "text", "text": "Build this"}, {"type": "image", "source": source}], 0, **own),
        reply("r0", tool_use("b0", "Bash", command="cat missing"), at=1, **own),
        result("b0", "cat: missing: No such file or directory", at=2, error=True, **own),
    ]
    for number in range(1, 4):
        lines += [
            reply(
                f"r{number}",
                tool_use(f"b{number}", "Bash", command=f"cd x && swift build -n {number}"),
                at=number * 10,
                **own,
            ),
            result(f"b{number}", "This command requires approval", at=number * 10 + number * 3, error=True, **own),
        ]
    write(projects / f"{REPEATED}.jsonl", [*lines, reply("r9", "I cannot.", at=50, **own)])


def write_sent(projects: Path) -> None:
    """Write a session that another one sent a message."""
    own: dict[str, Any] = {"sessionId": SENT, "cwd": "/repeated"}
    message = '<teammate-message teammate_id="r">{"type":"idle_notification"}</teammate-message>'
    lines = [
        prompt("go", 0, **own),
        reply("s1", "gone", at=1, **own),
        prompt(f"Another Claude session sent a message:\n{message}", 5, **own),
        reply("s2", "heard", at=6, **own),
    ]
    write(projects / f"{SENT}.jsonl", lines)


def write_old(projects: Path) -> None:
    """Write a session of before requests were recorded, whose cache was missed for several reasons, and for none."""
    own: dict[str, Any] = {"sessionId": OLD, "version": "2.0.9", "cwd": "/old"}

    def used(read: int, written: int, *, hour: int = 0) -> dict[str, object]:
        kept = {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": hour}
        counts = {"input_tokens": 3, "output_tokens": 9, "cache_read_input_tokens": read}
        return {**counts, "cache_creation_input_tokens": written + hour, "cache_creation": kept}

    def call(name: str, at: float, read: int, written: int, *, hour: int = 0, **fields: Any) -> list[Line]:
        usage = used(read, written, hour=hour)
        made = reply(name, tool_use(f"t{name}", "Bash", command=name), at=at, usage=usage, **own, **fields)
        return [made, result(f"t{name}", at=at + 1, **own)]

    lines = [
        prompt("one", 0, **own),
        *call("o1", 2, 0, 40_000),
        *call("o2", 4, 40_000, 2_000),  # all was read
        *call("o3", 6, 41_900, 1_100),  # little was not
        *call("o4", 8, 10_100, 33_900),  # nothing says why
        reply("o5", "done", at=10, usage=used(44_000, 500), **own),
        prompt("plan it", 20, **own),
        reply("p1", tool_use("tp", "ExitPlanMode", plan="# A plan"), at=22, usage=used(44_500, 100), **own),
        result("tp", "User has approved your plan.", at=52, **own),
        reply("p2", "planned", at=54, usage=used(44_600, 100), **own),
        prompt("two", 660, **own),
        *call("o6", 662, 0, 46_000),  # ten minutes later
        *call("o7", 664, 0, 47_000, message={"model": "claude-haiku-4-5-20251001"}),
        *call("o8", 666, 0, 1_000, hour=48_000, message={"model": "claude-haiku-4-5-20251001"}),  # and why is not known
        reply(
            "o9", "done", at=668, usage=used(49_000, 200, hour=1), message={"model": "claude-haiku-4-5-20251001"}, **own
        ),
        prompt("three", 1_500, **own),
        # The cache is kept for an hour, so the pause does not say why.
        reply("o10", "done", at=1_502, usage=used(0, 50_000), message={"model": "claude-haiku-4-5-20251001"}, **own),
    ]
    write(projects / f"{OLD}.jsonl", lines)
    # When it was resumed, all but the prompts got the time of that.
    own = {"sessionId": COPIED, "version": "1.0.17", "cwd": "/old"}
    lines = [
        prompt("first", 0, **own),
        *(reply(f"c{number}", "a", at=1_000, usage=used(100, 100), **own) for number in range(4)),
        prompt("second", 100, **own),
        reply("c5", "b", at=1_000, usage=used(200, 100), **own),
        prompt("third", 1_200, **own),
        reply("c6", "c", at=1_260, usage=used(300, 100), **own),
    ]
    write(projects / f"{COPIED}.jsonl", lines)


@contextlib.contextmanager
def running(home: Path) -> Iterator[Viewer]:
    """Serve what is below a home folder."""
    app = App.open({"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude")})
    projects = home / ".claude" / "projects" / "-home-dev-project"
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        contextlib.closing(Store(store_path(app.states.folder))) as index,
    ):
        port, watch = listener.getsockname()[1], Watch(app, index)
        config = uvicorn.Config(site(app, index, watch, port, TOKEN), log_level="error", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        watch.start()
        thread.start()
        try:
            assert watch.complete.wait(60)
            yield Viewer(port, index, watch, projects)
        finally:
            server.should_exit = True
            thread.join()
            watch.stop()
