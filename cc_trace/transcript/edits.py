"""Where in its file an edit was. Claude Code records it beside the call's result; a span does not have it.

The lines of a `Hunk` are as they are in the transcript: nothing of them may be shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import orjson

from cc_trace.transcript.agent_files import agent_paths
from cc_trace.transcript.lines import read_lines

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


class Hunk(NamedTuple):
    """Lines that a call changed, and some around them: each begins with a space, a plus or a minus.

    `old` and `new`: the number of the first line before and after the call.
    """

    old: int
    new: int
    lines: list[str]


def changed_hunks(path: Path, call_ids: Collection[str]) -> dict[str, list[Hunk]]:
    """Return what calls changed in their files, by call; those of which that was not recorded are missing."""
    wanted = [orjson.dumps(call_id) for call_id in call_ids]
    found: dict[str, list[Hunk]] = {}
    for each in (path, *agent_paths(path)):
        try:
            for line in read_lines(each):
                data = line.data or b""
                if b'"structuredPatch"' in data and any(call_id in data for call_id in wanted):
                    found |= _hunks(data, call_ids)
                    if len(found) == len(call_ids):
                        return found
        except OSError:  # gone, or not a regular file
            continue
    return found


def _hunks(data: bytes, call_ids: Collection[str]) -> dict[str, list[Hunk]]:
    try:
        line = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    match line:
        case {
            "message": {"content": [{"type": "tool_result", "tool_use_id": str(call_id)}]},
            "toolUseResult": {"structuredPatch": list(patch)},
        } if call_id in call_ids:
            hunks = [hunk for each in patch if (hunk := _hunk(each)) is not None]
            return {call_id: hunks} if hunks else {}
        case _:
            return {}


def _hunk(value: object) -> Hunk | None:
    match value:
        case {"oldStart": int(old), "newStart": int(new), "lines": list(lines)}:
            return Hunk(old, new, [str(line) for line in lines])
        case _:
            return None
