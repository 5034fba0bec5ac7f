"""The text of a settings file: parsed, and written again with the indentation and line endings it had. Pure.

What cannot be preserved, such as a key that appears twice, is refused and never repaired.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from cc_trace.errors import JsonTextError

_BOM: Final = "\ufeff"
_DEFAULT_INDENT: Final = "  "
_FIRST_INDENTED_KEY: Final = re.compile(r'\n([ \t]*)"')
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")  # which JSON can escape and UTF-8 cannot hold


def parse_settings(text: str, *, unique: bool = False) -> dict[str, Any]:
    """Parse a JSON object; an empty text is an empty object. Raises JsonTextError for anything else.

    `unique`: a key that appears twice is refused. Otherwise its last value counts, as it does for Claude Code.
    """
    body = text.removeprefix(_BOM)
    if not body.strip():
        return {}
    try:
        value = json.loads(body, parse_constant=_refuse_constant, object_pairs_hook=_unique if unique else None)
    except json.JSONDecodeError as error:
        message = f"line {error.lineno}, column {error.colno}: {_problem(body, error)}"
        raise JsonTextError(message) from error
    except ValueError as error:  # Python refuses to convert thousands of digits
        message = "it has a number that is too long"
        raise JsonTextError(message) from error
    except RecursionError:
        _refuse_nesting()
    if not isinstance(value, dict):
        message = "it must be a JSON object"
        raise JsonTextError(message)
    return value


def format_like(text: str, settings: dict[str, Any]) -> str:
    """Return settings as JSON in the layout of a text: its indentation, line endings, escapes and byte order mark."""
    body = text.removeprefix(_BOM)
    newline = "\r\n" if "\r\n" in body else "\n"
    indent = _indent(body)
    tight = indent is None and '": ' not in body
    try:
        formatted = json.dumps(
            settings,
            indent=indent,
            separators=(",", ":") if tight else None,
            ensure_ascii="\\u" in body and body.isascii(),
            allow_nan=False,
        )
    except ValueError as error:  # JSON has no infinity, which such a number becomes
        message = "it has a number that is too large"
        raise JsonTextError(message) from error
    except RecursionError:
        _refuse_nesting()
    ending = "\n" if not body.strip() or body.endswith("\n") else ""
    escaped = _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", formatted + ending)
    return (_BOM if text.startswith(_BOM) else "") + escaped.replace("\n", newline)


def _indent(body: str) -> str | None:
    """Return the indentation of a text; None if it is on one line."""
    if (indented := _FIRST_INDENTED_KEY.search(body)) is not None:
        return indented[1]
    return _DEFAULT_INDENT if '"' not in body or "\n" in body.strip() else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    merged = dict(pairs)
    if len(merged) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        message = f"the key {json.dumps(twice)} appears twice in one object"
        raise JsonTextError(message)
    return merged


def _refuse_constant(name: str) -> NoReturn:
    message = f"{name} is not JSON"
    raise JsonTextError(message)


def _refuse_nesting() -> NoReturn:
    message = "it is nested too deeply"
    raise JsonTextError(message)


def _problem(text: str, error: json.JSONDecodeError) -> str:
    previous, current, following = (
        text[: error.pos].rstrip()[-1:],
        text[error.pos : error.pos + 1],
        text[error.pos + 1 :],
    )
    if current == "/":
        return "JSON does not allow comments"
    # Up to Python 3.12 the position is after the comma, from then on at the comma.
    if (previous, current) in ((",", "}"), (",", "]")) or (current, following.lstrip()[:1]) in ((",", "}"), (",", "]")):
        return "JSON does not allow a comma before the closing bracket"
    return error.msg[:1].lower() + error.msg[1:]
