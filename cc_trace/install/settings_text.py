"""The text of a settings file: parsed, and written again with the indentation and line endings it had. Pure.

Rule: what cannot be kept as it is, such as a key that appears twice, is refused and never repaired.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from cc_trace.errors import JsonTextError

_BOM: Final = "\ufeff"
_DEFAULT_INDENT: Final = "  "
_FIRST_INDENTED_KEY: Final = re.compile(r'\n([ \t]*)"')
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")  # which JSON can escape and UTF-8 cannot hold


class Number(str):
    """A number as it was written, so that 1.0 does not become 1 and a long one keeps its digits."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a text is laid out. `indent` None: on one line."""

    indent: str | None
    newline: str
    comma: str
    colon: str


def parse(text: str, *, unique: bool = False) -> dict[str, Any]:
    """Return what a text says; an empty one is an empty object. Whatever is not a JSON object is a JsonTextError.

    `unique`: a key that appears twice is refused. Otherwise its last value counts, as it does for Claude Code.
    """
    body = text.removeprefix(_BOM)
    if not body.strip():
        return {}
    try:
        value = json.loads(
            body,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_refuse_constant,
            object_pairs_hook=_unique if unique else None,
        )
    except json.JSONDecodeError as error:
        message = f"line {error.lineno}, column {error.colno}: {_what_is_wrong(body, error)}"
        raise JsonTextError(message) from error
    except RecursionError:
        _refuse_nesting()
    if not isinstance(value, dict):
        message = "it must be a JSON object"
        raise JsonTextError(message)
    return value


def format_like(text: str, settings: dict[str, Any]) -> str:
    """Return settings as JSON, laid out as a text is: its indentation, line endings and byte order mark."""
    body = text.removeprefix(_BOM)
    layout = _layout(body)
    ending = layout.newline if not body.strip() or body.endswith("\n") else ""
    try:
        written = _format(settings, layout, "" if layout.indent is None else layout.newline)
    except RecursionError:
        _refuse_nesting()
    escaped = _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", written)
    return (_BOM if text.startswith(_BOM) else "") + escaped + ending


def _layout(body: str) -> _Layout:
    newline = "\r\n" if "\r\n" in body else "\n"
    if (indented := _FIRST_INDENTED_KEY.search(body)) is not None:
        return _Layout(indented[1], newline, ",", ": ")
    if '"' not in body or "\n" in body.strip():
        return _Layout(_DEFAULT_INDENT, newline, ",", ": ")
    return _Layout(None, newline, ", ", ": ") if '": ' in body else _Layout(None, newline, ",", ":")


def _format(value: object, layout: _Layout, line: str) -> str:
    """Return a value as JSON. `line`: the line break and indentation before whatever closes it."""
    inner = "" if layout.indent is None else line + layout.indent
    match value:
        case dict():
            keys = {key: json.dumps(key, ensure_ascii=False) for key in value}
            parts = [f"{keys[key]}{layout.colon}{_format(each, layout, inner)}" for key, each in value.items()]
            opening, closing = "{}"
        case list():
            parts = [_format(each, layout, inner) for each in value]
            opening, closing = "[]"
        case Number():
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)
    if not parts:
        return opening + closing
    return f"{opening}{inner}{f'{layout.comma}{inner}'.join(parts)}{line}{closing}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        message = f"the key {json.dumps(twice)} appears twice in one object"
        raise JsonTextError(message)
    return found


def _refuse_constant(name: str) -> NoReturn:
    message = f"{name} is not JSON"
    raise JsonTextError(message)


def _refuse_nesting() -> NoReturn:
    message = "it is nested too deeply"
    raise JsonTextError(message)


def _what_is_wrong(text: str, error: json.JSONDecodeError) -> str:
    before, here, after = text[: error.pos].rstrip()[-1:], text[error.pos : error.pos + 1], text[error.pos + 1 :]
    if here == "/":
        return "JSON does not allow comments"
    # Up to Python 3.12 the place is what follows the comma, from then on the comma.
    if (before, here) in ((",", "}"), (",", "]")) or (here, after.lstrip()[:1]) in ((",", "}"), (",", "]")):
        return "JSON does not allow a comma before the closing bracket"
    return error.msg[:1].lower() + error.msg[1:]
