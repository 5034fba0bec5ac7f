"""What the viewer's pages cost with ten thousand sessions and twenty thousand spans, and with a few of each."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
from table import Row, ratio
from timing import cpu_seconds
from transcripts import SESSION

from cc_trace.delivery import App, StoreUpdates
from cc_trace.store import Store, store_path
from cc_trace.view.server import site
from cc_trace.view.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from table import Effort

MAX_TIME: Final = 10.0
MAX_BYTES: Final = 1.2
_FEW: Final = 200
_TOKEN: Final = "t" * 43
_PORT: Final = 80
_TURN: Final = f"/sessions/{SESSION}/turns/1"
_ROWS: Final = "/sessions/rows?offset="
_MODEL: Final = "claude-sonnet-4-5-20250929"
_USAGE: Final = {"input_tokens": 12, "output_tokens": 400, "cache_read_input_tokens": 50_000}


def rows(effort: Effort) -> list[Row]:
    """Return the CPU time and bytes of pages with many rows against those with a few."""
    made: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        many, few = Path(folder, "many"), Path(folder, "few")
        spans = 2 * effort.sessions
        with _pages(many, effort.sessions, spans) as get_many, _pages(few, _FEW, _FEW) as get_few:
            sessions = f"{effort.sessions:,} sessions"
            of_turn = f"{_TURN}/rows?limit=100&offset="
            for name, path, few_path in (
                (f"Sessions page, {sessions}", "/", "/"),
                (f"rows from its middle, {sessions}", f"{_ROWS}{effort.sessions // 2}", f"{_ROWS}{_FEW // 2}"),
                (f"Turn page, {spans:,} spans", _TURN, _TURN),
                (f"rows from its middle, {spans:,} spans", f"{of_turn}{spans // 2}", f"{of_turn}{_FEW // 2}"),
            ):
                one, other = cpu_seconds(effort.rounds, partial(get_many, path), partial(get_few, few_path))
                size, small = len(get_many(path)), len(get_few(few_path))
                made += [
                    ratio(f"{name}: server's CPU / {_FEW} of them", one / other, MAX_TIME, f"{one * 1000:.0f} ms"),
                    ratio(f"{name}: bytes / {_FEW} of them", size / small, MAX_BYTES, f"{size / 1000:.0f} kB"),
                ]
    return made


@contextlib.contextmanager
def _pages(home: Path, sessions: int, spans: int) -> Iterator[Callable[[str], bytes]]:
    """Give pages of a store with so many sessions, one of them with a turn of so many spans."""
    projects = home / ".claude" / "projects" / "-p"
    projects.mkdir(parents=True)
    _write_turn(projects / f"{SESSION}.jsonl", spans // 2)
    app = App.open({"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude")})
    path = store_path(app.states.folder)
    with closing(Store(path)) as store:
        StoreUpdates(app, store).run()
        _multiply(path, sessions)
        with closing(_Client(site(app, store, Watch(app, store), _PORT, _TOKEN))) as client:
            yield client.get


class _Client:
    """A client within this process: what is measured is what the server does."""

    def __init__(self, app: object) -> None:
        import asyncio  # noqa: PLC0415

        self._loop = asyncio.new_event_loop()
        transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
        self._client = httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{_PORT}")
        self._client.headers["host"] = f"127.0.0.1:{_PORT}"
        self.get(f"/?token={_TOKEN}")

    def get(self, path: str) -> bytes:
        """Return what is sent for a path, as it is before it is compressed."""
        response = self._loop.run_until_complete(self._client.get(path))
        response.raise_for_status()
        return response.content

    def close(self) -> None:
        """Let go of the loop and its threads."""
        self._loop.run_until_complete(self._client.aclose())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


def _write_turn(path: Path, calls: int) -> None:
    """Write one turn of so many responses, each with a call."""

    def line(kind: str, number: int, at: int, content: object, **more: object) -> str:
        seconds, milliseconds = divmod(at, 1000)
        stamp = f"2026-01-01T{9 + seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{milliseconds:03}Z"
        role = {"role": kind, "content": content, **more}
        return json.dumps(
            {
                "type": kind,
                "uuid": f"00000000-0000-4000-8000-{number:012}",
                "sessionId": SESSION,
                "cwd": "/p",
                "version": "2.1.39",
                "timestamp": stamp,
                "message": role,
            }
        )

    with path.open("w", encoding="utf-8") as file:
        print(line("user", 0, 0, "Go through all files"), file=file)
        for number in range(1, calls + 1):
            call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": f"wc {number}.txt"}}
            answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "12 34 56"}
            message = {"id": f"m{number}", "model": _MODEL, "usage": _USAGE}
            print(line("assistant", 2 * number, number * 900, [call], **message), file=file)
            print(line("user", 2 * number + 1, number * 900 + 400, [answer]), file=file)


def _multiply(path: Path, sessions: int) -> None:
    """Copy the session under other ids until there are so many; its first spans with it."""
    with closing(sqlite3.connect(path)) as database, database:
        for table, where in (("sessions", "1"), ("spans", "place < 10")):
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})") if row[1] != "row"]
            others = ", ".join(name for name in columns if name != "session_id")
            database.execute(
                f"INSERT INTO {table} (session_id, {others}) WITH RECURSIVE n(n) AS"  # noqa: S608  (ours)
                " (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)"
                f" SELECT printf('%08d-0000-4000-8000-000000000000', n), {others} FROM {table}, n"
                f" WHERE session_id = ? AND {where}",
                [sessions - 1, SESSION],
            )
