"""What an error says, in one line or a few: its cause often stands at the end of a long output. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from cc_trace.store import program
from cc_trace.view import ansi

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

_TELLING: Final = re.compile(
    r"(?i)\b(\w*error|\w*exception|fatal|failed|failure|panic|panicked|denied|refused|cannot|could not|no such"
    r"|not found|not allowed|invalid|unexpected|timed out)\b"
)
_BEGINS: Final = re.compile(
    r"(?:\*\* \()?(\w*error|[\w.]*\w(Error|Exception)|fatal|panic|assert\w*)\b.*\S", re.IGNORECASE
)
_NOISE: Final = re.compile(r"(?i)exit code \d+$|traceback \(most recent call last\)|hint: |[$>] |#+ \w+$|\W*$")
_GOES_ON: Final = (":", ": [stderr]")  # a line that ends so says nothing without the next one
_OUTPUT: Final = re.compile(r"(?i)\s*exit code \d+\n")
_REFUSED: Final = re.compile(r"The user doesn't want to .*?(?:, the user said:\s*(?P<said>\S.*))?", re.DOTALL)
_TAGS: Final = re.compile(r"</?tool_use_error>")
_TAIL_LINES: Final = 8
_FITTING: Final = 10  # lines
_MAX_CHARS: Final = 1_500
_LINE_CHARS: Final = 300
_FEW: Final = 3  # lines: a tool's own message begins with what matters, a program's output ends with it


class Failed(NamedTuple):
    """Some calls that failed alike: the first of them, what failed, why, and the ids of all."""

    first: sqlite3.Row
    what: str
    why: str
    all_of_them: list[str]


def together(rows: Sequence[sqlite3.Row]) -> list[Failed]:
    """Put failures together that are of one tool or program and for one reason, the most frequent ones first."""
    groups: dict[tuple[str, ...], list[sqlite3.Row]] = {}
    for row in rows:
        why = line(full_text(row["error"] or row["label"], row["said"]))
        what = program(row) if row["name"] == "Bash" else ""
        groups.setdefault((row["name"], what, why), []).append(row)
    made = [
        Failed(found[0], what if len(found) > 1 else found[0]["label"], why, [row["span_id"] for row in found])
        for (_, what, why), found in groups.items()
    ]
    return sorted(made, key=lambda each: -len(each.all_of_them))


def line(text: str) -> str:
    """Return the first line of an error that looks like its cause, else the last one.

    Of a few lines that no program printed it is the first one, and of a refusal what the user said.
    """
    if refused := _REFUSED.fullmatch(text.strip()):
        return " ".join(f"You said: {said}".split())[:_LINE_CHARS] if (said := refused["said"]) else "You said no."
    lines = [each for each in _lines(text) if not _NOISE.match(each.strip())] or _lines(text)
    if not lines:
        return ""
    chosen = next((place for place, each in enumerate(lines) if _BEGINS.match(each.strip())), None)
    if chosen is None:
        chosen = next((place for place, each in enumerate(lines) if _TELLING.search(each)), None)
    if chosen is None:
        chosen = 0 if len(lines) <= _FEW and not _OUTPUT.match(text) else len(lines) - 1
        chosen -= chosen > 0 and lines[chosen - 1].endswith(_GOES_ON)
    goes_on = lines[chosen].endswith(_GOES_ON)
    return " ".join(" ".join(lines[chosen : chosen + 1 + goes_on]).split())[:_LINE_CHARS]


def excerpt(text: str) -> tuple[str, bool]:
    """Return an error, or what tells its cause and its end; and whether that is all of it."""
    lines = _lines(text)
    if len(lines) <= _FITTING and len(text) <= _MAX_CHARS:
        return "\n".join(lines), True
    end = "\n".join(each if len(each) <= _LINE_CHARS else each[:_LINE_CHARS] + " …" for each in lines[-_TAIL_LINES:])
    cause = line(text)
    return (f"…\n{end}" if cause in " ".join(end.split()) else f"{cause}\n…\n{end}"), False


def full_text(error: object, output: object) -> str:
    """Return the whole text of an error; what a span calls its error may be the beginning of its output."""
    told, whole = str(error or ""), output if isinstance(output, str) else ""
    return whole if told and whole.strip().startswith(told.removesuffix("…").strip()) else told


def _lines(text: str) -> list[str]:
    return [each.rstrip() for each in ansi.plain(_TAGS.sub("", text)).split("\n") if each.strip()]
