"""A watch on the format: what the pinned Claude Code writes is known, line by line and field by field."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import format_list
from versions import CURRENT

if TYPE_CHECKING:
    from runner import ScenarioRunner

UPDATE = "UPDATE_FORMAT"  # set: write the list anew from what is seen, instead of comparing


def test_every_line_and_field_is_known(runner: ScenarioRunner) -> None:
    """What is new in a version is looked at before it is listed; what is missing may just not have happened."""
    seen: format_list.Format = {}
    for sandbox in runner.finished():
        if sandbox.version == CURRENT:
            format_list.join(seen, format_list.from_files(sandbox.transcripts))
    known = format_list.listed()
    if UPDATE in os.environ:
        format_list.join(known, seen)
        format_list.write(known)
    assert format_list.news(known, seen) == []
