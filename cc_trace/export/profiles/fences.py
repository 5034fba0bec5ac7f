"""Puts the texts of tools into code fences, so that Markdown renders them verbatim."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cc_trace.transcript import JsonValue

_SHORTEST: Final = 3  # backticks in a fence
_RUN: Final = re.compile("`{3,}")
_EXTENSION: Final = re.compile(r"\.([A-Za-z0-9+]{1,10})$")
# File extensions that highlighters accept as names of languages.
_LANGUAGES: Final = frozenset(
    (
        *("bash", "c", "cc", "cpp", "cs", "css", "diff", "go", "graphql", "h", "hpp", "html", "ini", "java", "js"),
        *("json", "jsx", "kt", "lua", "md", "mjs", "php", "pl", "ps1", "py", "r", "rb", "rs", "scala", "scss", "sh"),
        *("sql", "svelte", "swift", "tf", "toml", "ts", "tsx", "vue", "xml", "yaml", "yml", "zig"),
    )
)
# The output of these tools is Markdown written by a model.
_PROSE: Final = frozenset({"Agent", "Task", "WebFetch"})


def fenced(text: str, language: str = "") -> str:
    """Return a text in a fence that nothing in the text can close."""
    longest = max((len(run) for run in _RUN.findall(text)), default=0)
    fence = "`" * max(_SHORTEST, longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def is_verbatim(tool: str | None) -> bool:
    """Return whether a tool's output is shown verbatim."""
    return tool not in _PROSE


def file_language(tool: str, arguments: JsonValue) -> str:
    """Return the language of the file that a tool read, empty if unknown."""
    path = arguments.get("file_path") if tool == "Read" and isinstance(arguments, dict) else None
    extension = _EXTENSION.search(path) if isinstance(path, str) else None
    return extension[1].lower() if extension is not None and extension[1].lower() in _LANGUAGES else ""
