"""What Edit and Write did to a file, as lines with their numbers. Pure."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from markupsafe import Markup

from cc_trace.view.code import code_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cc_trace.transcript import Hunk, JsonValue

_CONTEXT: Final = 3
_MAX_COMPARED: Final = 2_000  # lines of either side; comparing takes time that grows with their product
_MAX_SHOWN: Final = 4_000
_NUMBERED: Final = re.compile(r"^ *(\d{1,9})[→\t](.*)$", re.MULTILINE)


class DiffLine(NamedTuple):
    """One line; `old` and `new` are its numbers, None where it is not in that side. A gap has neither."""

    kind: Literal["same", "added", "removed", "gap"]
    old: int | None
    new: int | None
    html: Markup


def of_call(tool: str, given: JsonValue, output: JsonValue, hunks: Sequence[Hunk] = ()) -> list[DiffLine] | None:
    """Return the lines that a call changed, or None if it does not edit a file.

    `hunks`: what is recorded of where they are. A line whose number is not known has none.
    """
    if not isinstance(given, dict):
        return None
    path = given.get("file_path") or given.get("notebook_path")
    name = path if isinstance(path, str) else None
    match tool, given:
        case "Write", {"content": str(text)}:
            return list(_bounded(_changed("", text, name, (1, 1))))
        case "Edit", {"old_string": str(old), "new_string": str(new)}:
            return list(_bounded(_changed(old, new, name, _first_numbers(old, new, output, hunks))))
        case "MultiEdit", {"edits": list(edits)}:
            return list(_bounded(_edits(edits, name, output, hunks)))
        case "NotebookEdit", {"new_source": str(new)}:
            return list(_bounded(_changed("", new, "cell.py", (1, 1))))
        case _:
            return None


def _edits(edits: list[JsonValue], name: str | None, output: JsonValue, hunks: Sequence[Hunk]) -> Iterator[DiffLine]:
    for place, edit in enumerate(edits):
        match edit:
            case {"old_string": str(old), "new_string": str(new)}:
                if place:
                    yield DiffLine("gap", None, None, Markup())
                yield from _changed(old, new, name, _first_numbers(old, new, output, hunks, only_one=True))


def _bounded(lines: Iterator[DiffLine]) -> Iterator[DiffLine]:
    for number, line in enumerate(lines):
        if number == _MAX_SHOWN:
            yield DiffLine("gap", None, None, Markup("more lines are not shown"))
            return
        yield line


def _first_numbers(
    old: str, new: str, output: JsonValue, hunks: Sequence[Hunk], *, only_one: bool = False
) -> tuple[int, int] | None:
    """Return the line numbers at which an edit's texts begin, if what is recorded or the tool's numbered lines tell.

    `only_one`: the hunks are those of several edits, so that two which match tell nothing.
    """
    before, after = _lines(old), _lines(new)
    same = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
    same = min(len(before), len(after)) if same is None else same
    found = [
        (old_number - same, new_number - same)
        for old_number, new_number, removed, added in _changes(hunks)
        if _begins(before, same, removed) and _begins(after, same, added) and min(old_number, new_number) > same
    ]
    if found and (len(found) == 1 or not only_one):
        return found[0]
    wanted = new.partition("\n")[0]
    if isinstance(output, str) and wanted.strip():
        for number, text in _NUMBERED.findall(output[:100_000]):
            if text == wanted:
                return int(number), int(number)
    return None


def _changes(hunks: Sequence[Hunk]) -> Iterator[tuple[int, int, list[str], list[str]]]:
    """Yield each run of changed lines: its numbers before and after, and the lines removed and added."""
    for hunk in hunks:
        old, new = hunk.old, hunk.new
        removed, added = list[str](), list[str]()
        for line in [*hunk.lines, " "]:
            if line[:1] == "-":
                removed.append(line[1:])
            elif line[:1] == "+":
                added.append(line[1:])
            else:
                if removed or added:
                    yield old, new, removed, added
                old, new = old + len(removed) + 1, new + len(added) + 1
                removed, added = [], []


def _begins(given: list[str], place: int, changed: list[str]) -> bool:
    """Tell whether changed lines begin with the given line at a place; the first given one may be a part of a line."""
    if not changed or place >= len(given):
        return not changed
    return given[place] == changed[0] if place else bool(given[0].strip()) and given[0] in changed[0]


def _changed(old: str, new: str, name: str | None, first: tuple[int, int] | None) -> Iterator[DiffLine]:
    def numbered(old_place: int, new_place: int) -> tuple[int | None, int | None]:
        return (None, None) if first is None else (first[0] + old_place, first[1] + new_place)

    before, after = _lines(old), _lines(new)
    old_html, new_html = code_lines("\n".join(before), name), code_lines("\n".join(after), name)
    if len(before) > _MAX_COMPARED or len(after) > _MAX_COMPARED:
        groups = [[("replace", 0, len(before), 0, len(after))]]
    else:
        groups = list(SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT))
    for nth, group in enumerate(groups):
        if nth:
            yield DiffLine("gap", None, None, Markup())
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                for offset, line in enumerate(new_html[new_from:new_to]):
                    yield DiffLine("same", *numbered(old_from + offset, new_from + offset), line)
                continue
            for place, line in enumerate(old_html[old_from:old_to], old_from):
                yield DiffLine("removed", numbered(place, 0)[0], None, line)
            for place, line in enumerate(new_html[new_from:new_to], new_from):
                yield DiffLine("added", None, numbered(0, place)[1], line)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines
