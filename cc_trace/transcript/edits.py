"""Where in its file an edit was. Claude Code records it beside the call's result; a span does not have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from cc_trace.transcript.agent_files import agent_paths
from cc_trace.transcript.lines import read_lines

if TYPE_CHECKING:
    from pathlib import Path


def first_changed_line(path: Path, call_id: str) -> tuple[int, int] | None:
    """Return the number of the first line that a call changed, before and after it, or None if it was not recorded."""
    wanted = orjson.dumps(call_id)
    for each in (path, *agent_paths(path)):
        try:
            for line in read_lines(each):
                data = line.data or b""
                if wanted in data and b'"structuredPatch"' in data and (numbers := _numbers(data, call_id)):
                    return numbers
        except OSError:  # gone, or not a regular file
            continue
    return None


def _numbers(data: bytes, call_id: str) -> tuple[int, int] | None:
    try:
        line = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    match line:
        case {
            "message": {"content": [{"type": "tool_result", "tool_use_id": str(answered)}]},
            "toolUseResult": {
                "structuredPatch": [{"oldStart": int(old), "newStart": int(new), "lines": list(lines)}, *_]
            },
        } if answered == call_id:
            unchanged = next((at for at, each in enumerate(lines) if str(each)[:1] in ("+", "-")), None)
            return None if unchanged is None else (old + unchanged, new + unchanged)
        case _:
            return None
