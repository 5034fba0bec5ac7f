"""A bounded number of mutants in every run of the tests, and what the long run (`make fuzz`) has found so far."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fuzz import lines
from fuzz.target import CASES, NAMES, failure, load, memory, mutant
from fuzz.transcripts import SESSION

if TYPE_CHECKING:
    from collections.abc import Iterator

# As many as take some seconds.
MUTANTS = {"lines": 1500, "payloads": 1500, "states": 400, "settings": 1000, "config": 1000, "redaction": 1000}


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=memory()) as name:
        yield Path(name)


DEEP = "[" * 300 + "]" * 300  # orjson reads 1,024 levels and writes 254

# What went wrong -> the fewest lines it went wrong with.
FOUND = {
    "a response that went on after a command became two turns with one id": (
        '{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"Going on"}]}}',
        '{"type":"user","message":{"content":"<command-name>/model</command-name>"}}',
        '{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash"}]}}',
    ),
    "a response that went on after a shell command was two generations": (
        '{"type":"assistant","message":{"id":"m1","content":"One"}}',
        '{"type":"assistant","message":{"id":"m2","content":"Two"}}',
        '{"type":"user","message":{"content":"<bash-input>git status</bash-input>"}}',
        '{"type":"assistant","message":{"id":"m2","content":"and on"}}',
    ),
    "a line without a message id that stood twice in the file became two turns with one id": (
        '{"type":"assistant","uuid":"u1"}',
        '{"type":"user","message":"next"}',
        '{"type":"assistant","uuid":"u1"}',
    ),
    "a line without a message id that stood twice in the file became two generations with one id": (
        '{"type":"assistant","message":{"id":"m1"}}',
        '{"type":"assistant","uuid":"u1","message":"One"}',
        '{"type":"user","message":"next"}',
        '{"type":"assistant","message":{"id":"m2"}}',
        '{"type":"assistant","uuid":"u1","message":"One"}',
    ),
    "an agent's line without a message id that stood twice became two agents with one id": (
        '{"isSidechain":true,"type":"assistant","uuid":"u1"}',
        '{"isSidechain":true,"message":{"role":"user","content":"first"}}',
        '{"isSidechain":true,"type":"assistant","uuid":"u1"}',
        '{"type":"assistant"}',
    ),
    "the same words twice, without ids and times, became two turns with one id": (
        '{"type":"user","message":"thanks"}',
        '{"type":"assistant","message":"Welcome."}',
        '{"type":"user","message":"thanks"}',
        '{"type":"assistant","message":"Welcome."}',
    ),
    "a turn of which only an agent's line is left took the id of an earlier turn": (
        '{"type":"assistant","message":{"id":"m1"}}',
        '{"type":"user","message":"next"}',
        '{"type":"assistant","isSidechain":true,"message":{"id":"m1"}}',
    ),
    "a turn of which only an agent's line is left took the id of a later turn": (
        '{"type":"assistant","isSidechain":true,"message":{"id":"m1"}}',
        '{"type":"user","message":"next"}',
        '{"type":"assistant","message":{"id":"m1"}}',
    ),
    "an agent's response that went on in the next turn gave both turns one id": (
        '{"type":"assistant","isSidechain":true,"message":{"id":"s1"}}',
        '{"type":"user","message":"next"}',
        '{"type":"assistant","isSidechain":true,"message":{"id":"s1"}}',
    ),
    "a tool's input nested deeper than orjson writes could not be shown": (
        f'{{"type":"assistant","message":{{"content":[{{"type":"tool_use","input":{DEEP}}}]}}}}',
    ),
    "a number of more than 64 bits in a repaired line could not be shown": (
        '{"type":"assistant","message":{"content":[{"type":"tool_use","input":{"n":1'
        + "0" * 30
        + ',"s":"\\ud800"}}]}}',
    ),
    "counts whose sum has more than 64 bits could not be shown": (
        '{"type":"assistant","message":{"usage":{"input_tokens":18446744073709551615,"cache_read_input_tokens":1}}}',
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_mutants_raise_nothing_and_keep_the_invariants(name: str, folder: Path) -> None:
    """Repeat a failing number N with `PYTHONPATH=tests python -m fuzz TARGET --mutant N`."""
    target = load(name)
    check = target.checker(folder)
    found = ((number, failure(check, mutant(target, number))) for number in range(MUTANTS[name]))
    assert [(number, wrong.name) for number, wrong in found if wrong is not None] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_seeds_themselves_are_well(name: str, folder: Path) -> None:
    """What the mutants are made from breaks nothing: otherwise every mutant would say the same."""
    target = load(name)
    check = target.checker(folder)
    assert [failure(check, seed) for seed in target.seeds] == [None] * len(target.seeds)


@pytest.mark.parametrize(
    ("name", "case"),
    [pytest.param(path.parent.name, path, id=f"{path.parent.name}/{path.name}") for path in sorted(CASES.glob("*/*"))],
)
def test_what_the_long_run_kept(name: str, case: Path, folder: Path) -> None:
    """Each of these inputs once raised, broke what must hold, or took too long."""
    assert failure(load(name).checker(folder), case.read_bytes()) is None


@pytest.mark.parametrize("transcript", FOUND.values(), ids=FOUND)
def test_what_the_long_run_found_in_transcripts(transcript: tuple[str, ...], folder: Path) -> None:
    """Each case once raised or broke an invariant."""
    path = folder / f"{SESSION}.jsonl"
    path.write_text("".join(line + "\n" for line in transcript), encoding="utf-8")
    lines.check(path)
