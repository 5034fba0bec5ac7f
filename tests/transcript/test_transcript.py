"""Lines by byte offset, and the places where Claude Code keeps its files."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cc_trace.errors import NotFoundError
from cc_trace.paths import find, is_session_id
from cc_trace.transcript.agent_files import agent_paths
from cc_trace.transcript.lines import Line, Position, read_lines

if TYPE_CHECKING:
    from pathlib import Path

SESSION = "12345678-0000-4000-8000-000000000001"


def test_lines_have_their_offsets_and_numbers(tmp_path: Path) -> None:
    """An offset is a byte's, so that reading can go on there."""
    path = tmp_path / "t.jsonl"
    path.write_bytes("é\n\nabc\n".encode())
    assert list(read_lines(path)) == [Line(0, 0, "é\n".encode()), Line(3, 1, b"\n"), Line(4, 2, b"abc\n")]
    assert list(read_lines(path, Position(4, 2))) == [Line(4, 2, b"abc\n")]


def test_torn_last_line_is_not_read(tmp_path: Path) -> None:
    """Only a caller who knows that the file is at rest gets a line without its newline, and it is marked."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"one\ntwo")
    assert list(read_lines(path)) == [Line(0, 0, b"one\n")]
    assert list(read_lines(path, torn=True)) == [Line(0, 0, b"one\n"), Line(4, 1, b"two", torn=True)]


def test_overlong_line_is_reported_without_its_text(tmp_path: Path) -> None:
    """Memory is bounded by the longest line that is worth holding; the lines after it keep their offsets."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"x" * 100 + b"\nshort\n" + b"y" * 100)
    lines = list(read_lines(path, torn=True, max_line_bytes=10))
    assert lines == [Line(0, 0, None), Line(101, 1, b"short\n"), Line(107, 2, None, torn=True)]


@given(st.lists(st.binary(max_size=20).filter(lambda data: b"\n" not in data)), st.integers(2, 30))
def test_lines_join_to_the_file(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], longest: int) -> None:
    """Offsets and numbers are those of the lines, whatever their lengths."""
    path = tmp_path_factory.mktemp("lines") / "t.jsonl"
    path.write_bytes(b"".join(piece + b"\n" for piece in pieces))
    offset = 0
    expected = []
    for number, piece in enumerate(pieces):
        data = piece + b"\n"
        expected.append(Line(offset, number, data if len(data) <= longest else None))
        offset += len(data)
    assert expected == list(read_lines(path, max_line_bytes=longest))


@pytest.mark.parametrize(
    "layout",
    [
        "projects/-home-dev-my-app/{name}",
        "projects/{encoded}/{name}",
        "projects/{name}",
        "sessions/{name}",
        "projects/-somewhere-else/{name}",
    ],
)
def test_a_session_is_found_in_every_layout(tmp_path: Path, layout: str) -> None:
    """A session id is looked up in all places that versions of Claude Code have used."""
    cwd = tmp_path / "home" / "my.app"
    encoded = base64.urlsafe_b64encode(str(cwd).encode()).decode().rstrip("=")
    path = tmp_path / layout.format(name=f"{SESSION}.jsonl", encoded=encoded)
    path.parent.mkdir(parents=True)
    path.touch()
    assert find(SESSION, tmp_path, cwd) == path


@pytest.mark.parametrize("target", ["../secret", "a/b", ".", "x.jsonl", "no-such-session", SESSION])
def test_unknown_or_unsafe_session_is_not_found(tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id is untrusted text: it never leaves the projects directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path.parent / "secret.jsonl").touch()
    with pytest.raises(NotFoundError):
        find(target, tmp_path / "config", tmp_path)


def test_session_ids() -> None:
    """Nothing with a separator, a dot or a wildcard names a session."""
    assert is_session_id(SESSION)
    assert not any(map(is_session_id, ["", "..", "a/b", "a*", "a.b", "-x", "a\n", "a" * 200]))


def test_agent_files_of_all_versions(tmp_path: Path) -> None:
    """Agents lie in the session's folder, in a workflow's, or (2.0.x) beside the transcript."""
    transcript = tmp_path / f"{SESSION}.jsonl"
    names = [
        f"{SESSION}/subagents/agent-a1.jsonl",
        f"{SESSION}/subagents/workflows/wf_1/agent-a2.jsonl",
        "agent-1234567.jsonl",
    ]
    for name in [*names, "other/subagents/agent-a3.jsonl", f"{SESSION}/subagents/workflows/wf_1/journal.jsonl"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(agent_paths(transcript)) == sorted(tmp_path / name for name in names)
