"""A viewer of recorded sessions, running in this process."""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn
from shared import CASES

from cc_trace.delivery import App
from cc_trace.store import Store, store_path
from cc_trace.view.server import site
from cc_trace.view.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "t" * 43


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
