"""The parts of a JSON text by their offsets, so that one can be put in or cut out and every other byte stays. Pure.

Rule: what is not plain JSON is refused, with the place, and never repaired.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from cc_trace.errors import JsonTextError

_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object or an item of a list: where it starts, where its value starts, where it ends."""

    key: str | None
    start: int
    value: int
    end: int


def refuse(text: str, offset: int, what: str) -> NoReturn:
    """Raise JsonTextError with the place."""
    line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
    message = f"line {line}, column {column}: {what}"
    raise JsonTextError(message)


def read_object(text: str) -> dict[str, Any]:
    """Return what a text says if it is an object in JSON; all else is a JsonTextError. Numbers stay as written."""
    try:
        # Python refuses numbers of more than 4300 digits, and 1.0 is not to become 1.
        value = json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        refuse(text, error.pos, _what_is_wrong(text, error))
    except RecursionError:
        refuse(text, 0, "it is nested too deeply")
    for token in _TOKEN.finditer(text):
        if token[0].lstrip("-") in ("NaN", "Infinity"):  # which Python reads
            refuse(text, token.start(), f"{token[0]} is not JSON")
    if not isinstance(value, dict):
        refuse(text, len(text) - len(text.lstrip()), "it must be an object")
    return value


def _what_is_wrong(text: str, error: json.JSONDecodeError) -> str:
    before, here, after = text[: error.pos].rstrip()[-1:], text[error.pos : error.pos + 1], text[error.pos + 1 :]
    if here == "/":
        return "a comment, which JSON does not have"
    # Up to Python 3.12 the place is what follows the comma, from then on the comma.
    if (before, here) in ((",", "}"), (",", "]")) or (here, after.lstrip()[:1]) in ((",", "}"), (",", "]")):
        return "a comma before the end, which JSON does not have"
    return error.msg[:1].lower() + error.msg[1:]


def members(text: str, opening: int) -> tuple[list[Member], int]:
    """Return what the object or list that opens here is made of, and where it closes. The text is valid."""
    found: list[Member] = []
    in_object = text[opening] == "{"
    depth, end = 0, opening
    key: str | None = None
    start = value = -1
    for token in _TOKEN.finditer(text, opening):
        mark = token[0][0]
        if depth == 1 and mark in ",]}":
            if start >= 0:
                found.append(Member(key, start, value, end))
            if mark != ",":
                return found, token.start()
            start = -1
            continue
        if depth == 1 and mark == ":":
            value = -1
            continue
        if depth == 1 and start < 0:
            start = value = token.start()
            key = json.loads(token[0]) if in_object else None
        elif depth == 1 and value < 0:
            value = token.start()
        depth += (mark in "[{") - (mark in "]}")
        end = token.end()
    refuse(text, opening, "it does not end")


def member(text: str, opening: int, key: str) -> Member | None:
    """Return a member of the object that opens here; one that is there twice is refused."""
    found = [part for part in members(text, opening)[0] if part.key == key]
    if len(found) > 1:
        refuse(text, found[1].start, f'"{key}" is there twice')
    return found[0] if found else None


def cut(text: str, opening: int, part: Member) -> str:
    """Return the text without a part of what opens here."""
    siblings, closing = members(text, opening)
    index = siblings.index(part)
    if index:
        return text[: siblings[index - 1].end] + text[part.end :]
    if len(siblings) > 1:
        return text[: part.start] + text[siblings[1].start :]
    return text[: opening + 1] + text[closing:]


def inserted(text: str, opening: int, key: str | None, value: object) -> str:
    """Return the text with something new at the end of what opens here, laid out as its neighbours are."""
    siblings, closing = members(text, opening)
    first = text[opening + 1 : siblings[0].start if siblings else closing]
    outer, unit = _indent(text, opening), _unit(text)
    if siblings:
        inner = first.rpartition("\n")[2] if "\n" in first else None
    else:
        inner = outer + unit if unit is not None else None
    if inner is not None:
        newline = "\r\n" if "\r\n" in text else "\n"
        name = "" if key is None else f"{json.dumps(key)}: "
        lines = json.dumps(value, indent="  " if unit is None else unit, ensure_ascii=False).split("\n")
        new, after = newline + inner + name + (newline + inner).join(lines), newline + outer
    else:
        spaced = _spaced(text)
        separators = (", ", ": ") if spaced else (",", ":")
        name = "" if key is None else json.dumps(key) + separators[1]
        new = name + json.dumps(value, separators=separators, ensure_ascii=False)
        new, after = (f" {new}" if siblings and spaced else new), ""
    if siblings:
        return text[: siblings[-1].end] + "," + new + text[siblings[-1].end :]
    return text[: opening + 1] + new + after + text[closing:]


def _indent(text: str, offset: int) -> str:
    """Return what the line of an offset is indented by."""
    line = text[text.rfind("\n", 0, offset) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str | None:
    """Return what one level is indented by; None where all is in one line. An empty text gets two spaces."""
    root = text.index("{")
    top, _ = members(text, root)
    if not top:
        return "  "
    lead = text[root + 1 : top[0].start]
    return lead.rpartition("\n")[2] if "\n" in lead else None


def _spaced(text: str) -> bool:
    top, _ = members(text, text.index("{"))
    return not top or text[top[0].value - 1].isspace()
