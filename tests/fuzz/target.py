"""What is fuzzed: a module of this package per target, with its seeds, its mutations and its check."""

from __future__ import annotations

import hashlib
import importlib
import random
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from fuzz.mutations import smaller

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES: Final = ("lines", "payloads", "states", "settings", "config", "redaction")
CASES: Final = Path(__file__).resolve().parent.parent / "fuzz_cases"
MAX_CHANGES: Final = 6
_SHRINK_SECONDS: Final = 8.0


class BrokenError(AssertionError):
    """Something does not hold that must; the message begins with what, up to a colon."""


@dataclass(frozen=True, slots=True)
class Target:
    """Bytes to begin with, a change to them, and the check of a folder of its own: it raises for what must not be."""

    seeds: tuple[bytes, ...]
    mutate: Callable[[random.Random, bytes], bytes]
    checker: Callable[[Path], Callable[[bytes], None]]


class Failure(NamedTuple):
    """What is wrong: a name that is the same for the same cause, and the whole story."""

    name: str
    story: str


def load(name: str) -> Target:
    """Return a target. Its module is imported only now: what is imported earlier is not watched for its coverage."""
    found = importlib.import_module(f"fuzz.{name}").TARGET
    assert isinstance(found, Target)
    return found


def mutant(target: Target, number: int) -> bytes:
    """Return mutant `number` of a target; the same number is the same bytes."""
    rng = random.Random(number)
    data = rng.choice(target.seeds)
    for _ in range(rng.randint(1, MAX_CHANGES)):
        data = target.mutate(rng, data)
    return data


def failure(check: Callable[[bytes], None], data: bytes) -> Failure | None:
    """Return what is wrong with these bytes."""
    try:
        check(data)
    except BrokenError as error:
        return Failure(str(error).split(":", 1)[0], str(error))
    except Exception as error:  # noqa: BLE001  (any exception at all is what is looked for)
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Failure(f"{type(error).__name__} in {where.name}: {str(error)[:40]}", traceback.format_exc())
    return None


def shrunk(check: Callable[[bytes], None], data: bytes, name: str) -> bytes:
    """Return as few bytes with the same failure as are found by leaving out one part after the other."""
    end = time.monotonic() + _SHRINK_SECONDS
    before = b""
    while before != data and time.monotonic() < end:
        before = data
        for tried in smaller(before):
            found = failure(check, tried)
            if found is not None and found.name == name:
                data = tried
                break
            if time.monotonic() >= end:
                break
    return data


def keep(target: str, data: bytes) -> Path:
    """Write bytes down as a case."""
    path = CASES / target / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def memory() -> Path | None:
    """A file system in memory, where there is one: checks write files, and wait until they are on the disk."""
    found = Path("/dev/shm")  # noqa: S108  (what is made in it is private)
    return found if found.is_dir() else None
