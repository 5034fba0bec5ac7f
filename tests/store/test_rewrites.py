"""Cache misses that are seen from token counts: of one request the same as of its session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from viewer import OLD, Viewer, running, write_old

from cc_trace.store import rewrites

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def viewer(tmp_path: Path) -> Iterator[Viewer]:
    projects = tmp_path / ".claude" / "projects" / "-old"
    projects.mkdir(parents=True)
    write_old(projects)
    with running(tmp_path) as found:
        yield found


def test_a_request_is_the_rewrite_that_its_session_says(viewer: Viewer) -> None:
    known = rewrites.of_session(viewer.index, OLD)
    assert len(known) == 5
    requests = viewer.index.read("SELECT row, span_id FROM spans WHERE session_id = ? AND kind = 'generation'", [OLD])
    found = {each["span_id"]: rewrites.of_request(viewer.index, each["row"]) for each in requests}
    assert {span_id: rewrite for span_id, rewrite in found.items() if rewrite is not None} == known
