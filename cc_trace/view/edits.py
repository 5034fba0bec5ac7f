"""Where in its file an edit was: Claude Code records it beside the call's result, and a span has no room for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cc_trace.transcript import agent_paths

if TYPE_CHECKING:
    from pathlib import Path


def first_changed(path: Path, call_id: str) -> tuple[int, int] | None:
    """Return the numbers of the first line that a call changed, before and after it, or None if they are not known."""
    wanted = json.dumps(call_id).encode()
    for each in (path, *agent_paths(path)):
        try:
            with each.open("rb") as lines:
                for line in lines:
                    if wanted in line and b'"structuredPatch"' in line and (found := _numbers(line, call_id)):
                        return found
        except OSError:
            continue
    return None


def _numbers(line: bytes, call_id: str) -> tuple[int, int] | None:
    try:
        told: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match told:
        case {
            "message": {"content": [{"type": "tool_result", "tool_use_id": str(answered)}]},
            "toolUseResult": {
                "structuredPatch": [{"oldStart": int(old), "newStart": int(new), "lines": list(lines)}, *_]
            },
        } if answered == call_id:
            same = next((number for number, each in enumerate(lines) if str(each)[:1] in ("+", "-")), None)
            return None if same is None else (old + same, new + same)
        case _:
            return None
