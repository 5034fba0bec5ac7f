"""Syntax highlighting of source code. Colours are classes; a text too long for a lexer is shown without them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import find_lexer_class_by_name, find_lexer_class_for_filename
from pygments.util import ClassNotFound

from cc_trace.escapes import escaped

if TYPE_CHECKING:
    from pygments.lexer import Lexer

# Some lexers take more than linear time. Longer texts are not read line by line anyway.
_MAX_CHARS: Final = 40_000
_MAX_LINE_CHARS: Final = 1_000
_FORMATTER: Final = HtmlFormatter(nowrap=True)


def code_lines(text: str, file_name: str | None = None, language: str | None = None) -> list[Markup]:
    """Return the lines of a text as HTML, coloured as its file's name or its language says."""
    text = escaped(text)
    lexer = _lexer(file_name, language)
    if lexer is None or len(text) > _MAX_CHARS or any(len(line) > _MAX_LINE_CHARS for line in text.split("\n")):
        return [escape(line) for line in text.split("\n")]
    coloured = highlight(text, lexer, _FORMATTER)  # a token of several lines is closed and opened at each end of line
    lines = coloured.split("\n")[: text.count("\n") + 1]
    return [Markup(line) for line in lines]  # noqa: S704  (Pygments escapes the text; its classes are its own)


def coloured(text: str, file_name: str | None = None, language: str | None = None) -> Markup:
    """Return a text as HTML, for a `<pre>`."""
    return Markup("\n").join(code_lines(text, file_name, language))


def _lexer(file_name: str | None, language: str | None) -> Lexer | None:
    kind = _lexer_class(file_name[-200:] if file_name else None, language[:40] if language else None)
    return None if kind is None else kind(stripnl=False, ensurenl=False)


@lru_cache(maxsize=256)
def _lexer_class(file_name: str | None, language: str | None) -> type[Lexer] | None:
    try:
        if language:
            return find_lexer_class_by_name(language)
        return find_lexer_class_for_filename(file_name) if file_name else None
    except ClassNotFound:
        return None
