"""Whether Stop hooks besides ours may make the model go on, as far as that can be known before they do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from cc_trace.install.other_hooks import others_may_block

if TYPE_CHECKING:
    from pathlib import Path

OTHERS = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}
OURS = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "/x/cc-trace-hook"}]}]}}
PLACES = [
    "claude/settings.json",
    "project/.claude/settings.json",
    "project/.claude/settings.local.json",
    "managed.json",
]


def asked(folder: Path, **environment: str) -> bool:
    return others_may_block(folder / "claude", str(folder / "project"), [folder / "managed.json"], environment)


def put(folder: Path, place: str, said: Any) -> Path:
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(said if isinstance(said, str) else json.dumps(said))
    return path


def test_nobody_else_is_registered(tmp_path: Path) -> None:
    """No file, or files in which ours is the only one."""
    assert not asked(tmp_path, CLAUDE_CODE_ENTRYPOINT="sdk-cli", CLAUDE_PID=str(os.getpid()))
    for place in PLACES:
        put(tmp_path, place, OURS)
    assert not asked(tmp_path)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("said", [OTHERS, "{", "\udcff"], ids=["a hook", "no JSON", "no UTF-8"])
def test_a_file_that_may_name_one(tmp_path: Path, place: str, said: Any) -> None:
    """Or that cannot be read, in any of the places."""
    path = put(tmp_path, place, "" if said == "\udcff" else said)
    if said == "\udcff":
        path.write_bytes(b"\xff")
    assert asked(tmp_path)


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    """A pipe would hang."""
    path = put(tmp_path, PLACES[1], "{}")
    path.unlink()
    os.mkfifo(path)
    assert asked(tmp_path)


def test_an_sdk_may_have_hooks_of_its_own(tmp_path: Path) -> None:
    """They are functions in its process."""
    assert asked(tmp_path, CLAUDE_CODE_ENTRYPOINT="sdk-py")


@pytest.mark.parametrize("option", ["--settings", "--plugin-dir=x"])
def test_the_command_line_may_bring_some_along(tmp_path: Path, option: str) -> None:
    """Where it can be seen."""
    program = "import sys; print('up', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, "-p", option, "x"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"  # while it is being started it has no command line yet
        assert asked(tmp_path, CLAUDE_PID=str(process.pid))
        process.stdin.close()
