"""One target under atheris (libFuzzer): what reaches new code is kept and mutated further. Ends with the process.

    python -m fuzz.guided TARGET SECONDS CORPUS FOLDER

Whatever fails is shrunk and kept as a case, and the run goes on: one cause does not hide another.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fuzz.target import CASES, failure, keep, load, shrunk

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuzz.target import Target

_MAX_BYTES: Final = 20_000
_TIMEOUT_SECONDS: Final = 20  # of one input
_MAX_MB: Final = 2000


def main(name: str, seconds: int, corpus: Path, folder: Path) -> None:
    """Run until the time is over; atheris ends the process."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["cc_trace"]):
        target = load(name)
    for seed in target.seeds:
        (corpus / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    (CASES / name).mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={seconds}",
        f"-timeout={_TIMEOUT_SECONDS}",
        f"-rss_limit_mb={_MAX_MB}",
        f"-max_len={_MAX_BYTES}",
        f"-artifact_prefix={CASES / name}/",  # of what hangs, or takes all memory
        f"-report_slow_units={_TIMEOUT_SECONDS}",  # slow ones are no failures
        "-print_final_stats=1",
    ]
    watched = _Watched(name, target.checker(folder))
    atheris.Setup([name, *options, str(corpus)], watched, custom_mutator=_mutator(atheris, target))
    atheris.Fuzz()


class _Watched:
    """A check that keeps what fails, the first of each kind, and lets the run go on."""

    def __init__(self, name: str, check: Callable[[bytes], None]) -> None:
        self._name = name
        self._check = check
        self._known: set[str] = set()

    def __call__(self, data: bytes) -> None:
        with contextlib.redirect_stdout(sys.stderr):
            found = failure(self._check, data)
            if found is None or found.name in self._known:
                return
            self._known.add(found.name)
            path = keep(self._name, shrunk(self._check, data, found.name))
            print(f"FAILED {path.name} {found.name}\n{found.story}", flush=True)


def _mutator(atheris: Any, target: Target) -> Callable[[bytes, int, int], bytes]:
    """Ours for what has a form, libFuzzer's for what has none: it also knows what the code compares bytes with."""

    def mutated(data: bytes, max_size: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.25:
            found: bytes = atheris.Mutate(data, max_size)
            return found
        for _ in range(rng.randint(1, 3)):
            data = target.mutate(rng, data)
        return data[:max_size]

    return mutated


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
