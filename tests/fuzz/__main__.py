"""`python -m fuzz [TARGET ...]`: fuzz each target for `--seconds`, guided by coverage where atheris is installed.

What reached new code is kept in `.fuzz/` and is where the next run begins.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from fuzz.target import CASES, NAMES, failure, keep, load, memory, mutant, shrunk

ROOT: Final = Path(__file__).resolve().parent.parent.parent
CACHE: Final = ROOT / ".fuzz"
_SHORT_SECONDS: Final = 60
# What libFuzzer says last of how far it came, and at the end of how many inputs it tried.
_PROGRESS: Final = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)/")
_STUCK: Final = ("crash-", "timeout-", "oom-", "leak-")  # how it names what it did not survive
_UNITS: Final = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


def main() -> int:
    """Run the targets; 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Fuzz what reads what others wrote.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"out of {', '.join(NAMES)}; default: all")
    parser.add_argument("--seconds", type=int, default=_SHORT_SECONDS, help="for each target (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at a time (default: one a core)")
    parser.add_argument("--mutant", type=int, metavar="N", help="only mutant N, as the tests make it")
    options = parser.parse_args()
    targets = options.targets or NAMES
    if unknown := set(targets) - set(NAMES):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    CACHE.mkdir(exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")
    if options.mutant is not None:
        return max([_blind(name, 0, options.mutant) for name in targets])
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed (it has wheels for Linux on x86-64): mutating without looking at coverage")
        return max([_blind(name, options.seconds) for name in targets])
    with ThreadPoolExecutor(options.jobs) as pool:
        return max(pool.map(partial(_guided, seconds=options.seconds), targets))


def _guided(name: str, seconds: int) -> int:
    """Run one target in a process of its own and tell what came of it."""
    corpus, log = CACHE / name, CACHE / f"{name}.log"
    corpus.mkdir(exist_ok=True)
    before = _cases(name)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    with tempfile.TemporaryDirectory(dir=memory()) as folder, log.open("wb") as file:
        command = [sys.executable, "-m", "fuzz.guided", name, str(seconds), str(corpus), folder]
        ended = subprocess.run(command, stdout=file, stderr=file, env=environment, check=False).returncode
    told = log.read_text("utf-8", "replace")
    units, progress = _UNITS.search(told), _PROGRESS.findall(told)
    coverage, _, kept = progress[-1] if progress else ("0", "0", "0")
    failed = [line.removeprefix("FAILED ") for line in told.splitlines() if line.startswith("FAILED ")]
    failed += [each for each in _cases(name) - before if each.startswith(_STUCK)]
    with contextlib.suppress(OSError):
        (CASES / name).rmdir()  # made for what might be found
    count = int(units[1]) if units else 0
    print(
        f"{name}: {count:,} inputs, {coverage} branches reached, {kept} inputs kept, {len(failed)} failed", flush=True
    )
    for each in failed:
        print(f"  {CASES.relative_to(ROOT)}/{name}/{each}")
    if wrong := bool(failed) or ended != 0 or not count:
        print(f"  exit {ended}, the whole story in {log.relative_to(ROOT)}", flush=True)
    return int(wrong)


def _blind(name: str, seconds: int, only: int | None = None) -> int:
    """Run the mutants that the tests run, and on from there for so long; or only one."""
    target = load(name)
    wrong: dict[str, str] = {}
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        check = target.checker(Path(folder))
        for number in itertools.count() if only is None else (only,):
            found = failure(check, data := mutant(target, number))
            if found is not None and found.name not in wrong:
                wrong[found.name] = keep(name, shrunk(check, data, found.name)).name
                print(f"{name}: mutant {number} failed, kept as {wrong[found.name]}\n{found.story}", flush=True)
            if only is None and time.monotonic() > end:
                break
    print(f"{name}: {number + 1 if only is None else 1:,} mutants, {len(wrong)} failed", flush=True)
    return 1 if wrong else 0


def _cases(name: str) -> set[str]:
    return {path.name for path in (CASES / name).glob("*")}


if __name__ == "__main__":
    sys.exit(main())
