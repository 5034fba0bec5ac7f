"""The lines of edits whose results do not say how many they changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lines import prompt, reply, result, session, tool_use
from viewer import running

from cc_trace.store import questions

if TYPE_CHECKING:
    from pathlib import Path

    from lines import Block

SESSION = "11111111-0000-4000-8000-000000000001"


def test_lines_are_counted_from_what_a_call_was_given(tmp_path: Path) -> None:
    projects = tmp_path / ".claude" / "projects" / "-home-dev-project"
    patch = [{"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 2, "lines": ["-a", "+b", "+c"]}]
    edits: list[Block] = [
        tool_use("e1", "Edit", file_path="/p/a", old_string="x\ny\nz", new_string="x\nz\nq\nr"),
        tool_use("e2", "Edit", file_path="/p/a", old_string="one", new_string="two"),
        tool_use("e3", "Write", file_path="/p/b", content="1\n2\n3\n"),
        tool_use("e4", "Edit", file_path="/p/c", old_string="a", new_string="b\nc"),
        tool_use("e5", "Edit", file_path="/p/d", old_string="a", new_string="b"),
    ]
    session(
        projects,
        prompt("go", 0, cwd="/p"),
        reply("m1", *edits, at=1),
        *(result(f"e{number}", at=2) for number in (1, 2, 3)),
        result("e4", at=2, told={"filePath": "/p/c", "structuredPatch": patch}),
        result("e5", at=2, error=True),
    )
    with running(tmp_path) as viewer:
        files = {row["path"]: (row["added"], row["removed"]) for row in questions.files(viewer.index, SESSION)}
        assert files == {"/p/a": (3, 2), "/p/b": (3, 0), "/p/c": (2, 1)}
        found = questions.session(viewer.index, SESSION)
        assert found is not None
        assert json.loads(found["summary"]).items() >= {"lines_added": 8, "lines_removed": 3}.items()
