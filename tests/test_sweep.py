"""Which sessions a worker looks after that nobody asks for, and in which order."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from lines import prompt, write

from cc_trace.progress import Progress, SessionState
from cc_trace.state import States
from cc_trace.sweep import is_behind, left_behind

if TYPE_CHECKING:
    from pathlib import Path


class Sessions:
    """Sessions that end at seconds 1, 2, 3...; all have been read, and what is said of one is how far it has got."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.states = States(folder / "state")
        self.states.prepare()
        self._count = 0

    def add(self, progress: Progress | None, cwd: str = "/p") -> str:
        self._count += 1
        path = self.folder / "projects" / "-p" / f"{self._count:08}-0000-4000-8000-000000000001.jsonl"
        write(path, [prompt("a", cwd=cwd, sessionId=path.stem)])
        os.utime(path, (self._count, self._count))
        if progress is not None:
            size = path.stat().st_size
            self.states.save(SessionState(path.stem, str(path), size, cwd=cwd, destinations={"otlp": progress}))
        return path.stem

    def found(self, *, wrong: bool = False) -> list[str]:
        names = {"/p": ["otlp"], "/off": [], "/wrong": None}
        found = left_behind(self.states, self.folder, lambda cwd: names[cwd or "/p"], 0, wrong=wrong)
        return [path.stem for path in found]


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path)


def failed(time: float) -> Progress:
    return Progress(time=time, error="down", behind=3)


def test_all_take_turns(sessions: Sessions) -> None:
    """Who was never tried is first, then who has waited longest, however many there are of a backend that is down."""
    second, third, first = sessions.add(failed(100)), sessions.add(failed(200)), sessions.add(None)
    assert sessions.found() == [first, second, third]
    sessions.states.save(SessionState(second, "", 0, cwd="/p", destinations={"otlp": failed(300)}))
    assert sessions.found() == [first, third, second]


def test_who_was_asked_to_wait_is_last(sessions: Sessions) -> None:
    waits, other = sessions.add(Progress(time=1, error="slow down", not_before=1000)), sessions.add(failed(500))
    assert sessions.found() == [other, waits]


def test_the_last_changed_goes_before_others_like_it(sessions: Sessions) -> None:
    older, newer = sessions.add(None), sessions.add(None)
    assert sessions.found() == [newer, older]


def test_who_is_off_or_has_wrong_settings_takes_nobodys_place(sessions: Sessions) -> None:
    behind, off, wrong = sessions.add(failed(100)), sessions.add(None, "/off"), sessions.add(None, "/wrong")
    assert sessions.found() == [behind, off]
    assert sessions.found(wrong=True) == [behind, wrong, off]


@pytest.mark.parametrize(
    ("progress", "behind"),
    [
        (Progress(time=1), False),
        (Progress(), True),  # it was being sent for the first time, and nobody saw the end
        (Progress(time=1, behind=1), True),
        (Progress(time=1, unfinished=1), True),
        (Progress(time=1, error="no"), True),
        (Progress(time=1, intent=["0123456789abcdef"]), True),
    ],
)
def test_when_something_may_be_left(progress: Progress, behind: bool) -> None:  # noqa: FBT001
    state = SessionState("s", "", 10, destinations={"otlp": progress})
    assert is_behind(state, 10, ["otlp"]) is behind
    assert is_behind(state, 10, ["otlp", "local"])
    assert is_behind(state, 11, ["otlp"])
    assert not is_behind(state, 10, [])
    assert is_behind(None, 10, [])
