"""Who may import whom: data flows one way, and slow imports stay where they are needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from shared import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = ROOT / "cc_trace"
# In the order data flows: a module may use those before it.
ORDER = [
    "errors",
    "escapes",
    "private_files",
    "transcript",
    "agent_files",
    "entries",
    "turns",
    "prompt_queue",
    "open_turn",
    "assembly",
    "agents",
    "price_table",
    "prices",
    "requests",
    "status",
    "messages",
    "spans",
    "times",
    "traces",
    "facts",
    "openings",
    "sessions",
    "activity",
    "redact",
    "project_masks",
    "privacy",
    "profiles",
    "otlp",
    "destinations",
    "payload",
    "settling",
    "progress",
    "session_index",
    "backoff",
    "sync_request",
    "state",
    "agent_listing",
    "ledger",
    "copies",
    "delivery",
    "log",
    "liveness",
    "endings",
    "orders",
    "agent_deliveries",
    "sync",
    "sweep",
    "history",
    "settings",
    "distrust",
    "sources",
    "config",
    "installation",
    "checks",
    "hook",
    "cli",
    "__main__",
]
# May touch files, clock or network; all others are pure.
EFFECTS = {
    "private_files",
    "transcript",
    "agent_files",
    "requests",
    "openings",
    "sessions",
    "destinations",
    "payload",
    "settling",
    "session_index",
    "backoff",
    "sync_request",
    "state",
    "agent_listing",
    "ledger",
    "copies",
    "log",
    "liveness",
    "endings",
    "sync",
    "sweep",
    "history",
    "distrust",
    "sources",
    "installation",
    "checks",
    "hook",
    "cli",
    "__main__",
}


def module_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def sources() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in _runtime_nodes(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return found


def _runtime_nodes(tree: ast.AST) -> list[ast.AST]:
    nodes: list[ast.AST] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        nodes += [node, *_runtime_nodes(node)]
    return nodes


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_use_only_what_comes_before_them(path: Path) -> None:
    """No module imports one that stands after it in the flow of data."""
    own = module_of(path)
    used = {name.split(".")[1] for name in imports(path) if name.startswith("cc_trace.")}
    assert {name for name in used if ORDER.index(name) > ORDER.index(own)} == set()


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_edge_has_effects(path: Path) -> None:
    """Files, clock and network are touched at the edge; the environment only by the command line and the hook."""
    if module_of(path) not in EFFECTS:
        assert imports(path).isdisjoint(
            {"os", "time", "shutil", "subprocess", "tempfile", "socket", "httpx", "sqlite3"}
        )
    if module_of(path) not in ("cli", "hook"):
        assert "os.environ" not in path.read_text()


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_entries_look_inside_the_json(path: Path) -> None:
    """No other module knows a key of Claude Code's lines."""
    if module_of(path) != "entries":
        text = path.read_text()
        assert '"toolUseResult"' not in text
        assert '"isMeta"' not in text


def test_help_imports_nothing_slow() -> None:
    """`cc-trace --help` and --json need neither rich nor anything else that takes long to import."""
    program = "import sys; from cc_trace.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    program += "print(sorted({'rich', 'orjson', 'langfuse', 'opentelemetry'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_package_holds_modules_only() -> None:
    """And the transcript that `cc-trace install` tries itself on."""
    files = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*") if path.is_file()]
    others = [path for path in files if path.suffix not in (".py", ".pyc") and path.parts[0] != "sample"]
    assert [path.name for path in others] == ["py.typed"]
