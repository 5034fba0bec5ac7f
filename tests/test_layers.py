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
    "private_files",
    "transcript",
    "entries",
    "turns",
    "prompt_queue",
    "open_turn",
    "assembly",
    "agents",
    "price_table",
    "prices",
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
    "privacy",
    "profiles",
    "otlp",
    "destinations",
    "payload",
    "settling",
    "progress",
    "state",
    "ledger",
    "copies",
    "delivery",
    "log",
    "endings",
    "orders",
    "sync",
    "sweep",
    "history",
    "settings",
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
    "openings",
    "sessions",
    "destinations",
    "payload",
    "settling",
    "state",
    "ledger",
    "copies",
    "log",
    "endings",
    "sync",
    "sweep",
    "history",
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


def test_files_and_functions_stay_small() -> None:
    """A file has at most 300 lines and a function 40; more is a missing type."""
    too_long: list[str] = []
    for path in sources():
        if path.name == "price_table.py":
            continue
        text = path.read_text()
        if text.count("\n") > 300:
            too_long.append(path.name)
        too_long += [
            f"{path.name}:{node.name}"
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= 45
        ]
    assert too_long == []
