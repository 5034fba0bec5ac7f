"""Who may import whom: data flows one way through the rooms, and slow imports stay where they are needed."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from shared import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = ROOT / "cc_trace"
# Every room may use the ground floor.
GROUND = {"errors", "escapes", "files", "log", "paths", "text", "values"}
# In the order data flows: a room may use those before it.
ROOMS = (
    "transcript",
    "pricing",
    "requests",
    "turns",
    "spans",
    "privacy",
    "store",
    "export",
    "settings",
    "install",
    "delivery",
    "doctor",
    "view",
    "cli",
    "tracer",
)
# These turn data into data. Files, clock and network are touched by the others.
PURE_ROOMS = {"turns", "pricing", "privacy"}
PURE_MODULES = {
    *("transcript/entries", "transcript/parse", "transcript/blocks", "transcript/user_lines"),
    *("requests/cache", "requests/context", "requests/rebuild", "requests/records"),
    *("spans/model", "spans/build", "spans/summary"),
    *("settings/catalogue", "settings/lookup", "settings/config"),
    *("export/otlp", "export/outcomes", "export/protobuf", "export/responses"),
}
EFFECTS = {"os", "time", "shutil", "subprocess", "tempfile", "socket", "http.client", "sqlite3"}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__main__.py")


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE).with_suffix(""))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> list[tuple[str, list[str]]]:
    """Return the modules that a file imports, each with the names taken from it; also those of type checking."""
    found: list[tuple[str, list[str]]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.append((node.module, [alias.name for alias in node.names]))
        elif isinstance(node, ast.Import):
            found += [(alias.name, []) for alias in node.names]
    return found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_room_uses_only_rooms_above_it_and_only_what_they_export(path: Path) -> None:
    """And the ground floor uses no room."""
    own = room_of(path)
    if own == "__init__":
        return  # it offers `Tracer` to the programs of users, when they ask for it
    for module, names in imported(path):
        package, _, rest = module.partition(".")
        room = rest.partition(".")[0]
        if package != "cc_trace" or room in GROUND or not room:
            continue
        if room == own:
            continue
        assert own in ROOMS, f"{own} is on the ground floor and uses {room}"
        assert ROOMS.index(room) < ROOMS.index(own), f"{room} stands below {own}"
        assert rest == room, f"{module} is imported past the exports of {room}"
        exported = importlib.import_module(f"cc_trace.{room}").__all__
        assert set(names) <= set(exported)


@pytest.mark.parametrize("room", ROOMS[:-2])  # all but those that users call
def test_what_a_room_exports_is_there_and_used(room: str) -> None:
    """An export that no other room uses is no promise to anybody."""
    module = importlib.import_module(f"cc_trace.{room}")
    assert module.__doc__
    used = {
        name
        for path in MODULES
        if room_of(path) != room
        for source, names in imported(path)
        if source == f"cc_trace.{room}"
        for name in names
    }
    assert set(module.__all__) == used
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_the_edge_has_effects(path: Path) -> None:
    """Files, clock and network are touched at the edge; the environment only by those that users start."""
    if room_of(path) in PURE_ROOMS or name_of(path) in PURE_MODULES:
        assert {module for module, _ in imported(path)}.isdisjoint(EFFECTS)
    if room_of(path) not in ("cli", "hook", "tracer"):
        assert "os.environ" not in path.read_text()
        assert name_of(path) == "export/http" or not re.search(r"\b(?:getenv|getproxies)\b", path.read_text())


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_the_transcript_room_looks_inside_the_json(path: Path) -> None:
    """No other module knows a key of Claude Code's lines."""
    if room_of(path) != "transcript":
        text = path.read_text()
        assert '"toolUseResult"' not in text
        assert '"isMeta"' not in text


def test_a_worker_imports_nothing_for_what_it_seldom_does() -> None:
    """It is started at every Stop; cleaning up, the store and the message that a package is missing are rare."""
    program = "import sys; known = set(sys.modules)\n"
    program += "import cc_trace.cli; from cc_trace.delivery import run_worker; import cc_trace.export.langfuse\n"
    program += "print(sorted({'shutil', 'lzma', 'shlex', 'cc_trace.store.layout'} & (set(sys.modules) - known)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_imports_nothing_slow() -> None:
    """`cc-trace --help` and --json need neither rich nor anything else that takes long to import."""
    program = "import sys; from cc_trace.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    program += "print(sorted({'rich', 'orjson', 'langfuse', 'opentelemetry'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_package_holds_modules_only() -> None:
    """And the transcript that `cc-trace install` tries itself on, and what the viewer's pages are made of."""
    files = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*") if path.is_file()]
    others = [path for path in files if path.suffix not in (".py", ".pyc") and path.parts[0] != "sample"]
    others = [path for path in others if path.parts[:2] not in (("view", "static"), ("view", "templates"))]
    assert [path.name for path in others] == ["py.typed"]
