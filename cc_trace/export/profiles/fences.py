"""Texts of tools in code fences: a reader of Markdown then shows them as they were."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cc_trace.transcript import JsonValue

_SHORTEST: Final = 3  # backticks of a fence
_RUN: Final = re.compile("`{3,}")
_EXTENSION: Final = re.compile(r"\.([A-Za-z0-9+]{1,10})$")
# Extensions that highlighters know as names of languages.
_LANGUAGES: Final = frozenset(
    (
        *("bash", "c", "cc", "cpp", "cs", "css", "diff", "go", "graphql", "h", "hpp", "html", "ini", "java", "js"),
        *("json", "jsx", "kt", "lua", "md", "mjs", "php", "pl", "ps1", "py", "r", "rb", "rs", "scala", "scss", "sh"),
        *("sql", "svelte", "swift", "tf", "toml", "ts", "tsx", "vue", "xml", "yaml", "yml", "zig"),
    )
)
# What these give back was written by a model, as Markdown.
_PROSE: Final = frozenset({"Agent", "Task", "WebFetch"})


def fenced(text: str, language: str = "") -> str:
    """Return a text in a fence that nothing inside it can close."""
    longest = max((len(run) for run in _RUN.findall(text)), default=0)
    fence = "`" * max(_SHORTEST, longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def is_verbatim(tool: str | None) -> bool:
    """Tell whether what a tool gives back is to be shown as it is."""
    return tool not in _PROSE


def file_language(tool: str, given: JsonValue) -> str:
    """Return the language of the file that a tool read, empty where it is not known."""
    path = given.get("file_path") if tool == "Read" and isinstance(given, dict) else None
    found = _EXTENSION.search(path) if isinstance(path, str) else None
    return found[1].lower() if found is not None and found[1].lower() in _LANGUAGES else ""
