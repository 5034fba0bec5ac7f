"""Which prompts were abandoned by a rewind: going back in a conversation and typing another prompt starts a branch.

The new prompt has the same parent as the one it replaces. Everything since the old prompt is abandoned; its lines stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cc_trace.transcript.entries import Injected, Notification, Prompt, QueuedPrompt
from cc_trace.transcript.lines import read_lines
from cc_trace.transcript.parse import parse, skippable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cc_trace.transcript.entries import Entry, Head


def replaces(head: Head, earlier: Head) -> bool:
    """Return whether a prompt replaced an earlier one."""
    return head.parent_uuid is not None and head.parent_uuid == earlier.parent_uuid and head.uuid != earlier.uuid


def rewound_prompts(path: Path) -> set[str]:
    """Return the uuids of the lines in a file that could start a turn and were abandoned by a rewind."""
    return _abandoned(_starts(path))


def _starts(path: Path) -> Iterator[Entry]:
    """Yield the entries that can start a turn. Results, which are most of the lines, are not parsed."""
    for line in read_lines(path):
        data = line.data
        if data is None or skippable(data) is not None or b'"user"' not in data or b'"tool_result"' in data:
            continue
        yield from parse(line)


def _abandoned(entries: Iterable[Entry]) -> set[str]:
    abandoned: set[str] = set()
    branch: list[str] = []  # the uuids of this branch, in order
    place_of: dict[str, tuple[int, Head]] = {}  # parent -> index of its prompt in `branch`
    for entry in entries:
        head = entry.head
        if head is None or head.sidechain or head.uuid is None:
            continue
        if isinstance(entry, Prompt) and entry.trigger == "prompt" and head.parent_uuid is not None:
            at, earlier = place_of.get(head.parent_uuid, (len(branch), None))
            if earlier is not None and replaces(head, earlier):
                abandoned.update(branch[at:])
                del branch[at:]
            place_of[head.parent_uuid] = (len(branch), head)
        if isinstance(entry, Prompt | Notification | Injected | QueuedPrompt):
            branch.append(head.uuid)
    return abandoned
