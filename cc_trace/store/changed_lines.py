"""How many lines an edit added and removed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cc_trace.spans import Span
    from cc_trace.transcript import JsonValue

Lines: TypeAlias = tuple[int | None, int | None]
_MAX_COMPARED: Final = 1_000  # lines of one edit
_UNKNOWN: Final[Lines] = (None, None)


def changed_lines(span: Span) -> Lines:
    """Return the lines that a call added and removed; None if it is no edit, or failed.

    Results of agents do not say how many: these are counted from what the call was given. What a written file had
    before is not known.
    """
    if span.tool is None:
        return _UNKNOWN
    match span.metadata:
        case {"lines_added": int(added), "lines_removed": int(removed)}:
            return added, removed
    pairs = list(_replaced(span.input)) if span.tool.file_path is not None and span.status == "ok" else []
    if not pairs:
        return _UNKNOWN
    counts = [_compared(old.splitlines(), new.splitlines()) for old, new in pairs]
    return sum(added for added, _ in counts), sum(removed for _, removed in counts)


def _replaced(given: JsonValue) -> Iterator[tuple[str, str]]:
    """Yield the old and new texts of an edit."""
    match given:
        case {"content": str(content)}:
            yield "", content
        case {"edits": [*edits]}:
            for each in edits:
                yield from _replaced(each)
        case {"old_string": str(old), "new_string": str(new)}:
            yield old, new


def _compared(old: list[str], new: list[str]) -> tuple[int, int]:
    if not old or not new or len(old) + len(new) > _MAX_COMPARED:
        return len(new), len(old)
    from difflib import SequenceMatcher  # noqa: PLC0415  (a delivery seldom needs it)

    same = sum(block.size for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks())
    return len(new) - same, len(old) - same
