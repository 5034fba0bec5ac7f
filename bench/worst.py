"""The texts that take longest to mask: looked for by chance, and the worst found so far.

Rule: a text is one short piece again and again, made of what the patterns look for. Run as a program it looks for worse
ones, `python bench/worst.py --seconds 60`; what it finds below the limit belongs into `WORST`, which `make bench`
measures and the tests count the work of.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from typing import TYPE_CHECKING, Final

from cc_trace.privacy.patterns import PATTERNS
from cc_trace.privacy.redactor import Redactor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Megabytes per second, of any text.
LEAST_SPEED: Final = 1.0
# The slowest pieces that were found, each of its own kind.
WORST: Final = (
    *("Bearer -pwd=a;", "a -pwd=a;", "-pwd=a b;", 'Key="', "-pwd=a;", "etsy=", "token=a;", "-pwd=Tencent ", "-pwd= "),
    *(
        "curl -u a:b|",
        "curl#] -ua:",
        'curl`:;\\|" -u a:|',
        "pwd=aaa5f6 ;",
        '-pwd="a1',
        "_KEY",
        ">JFROG",
        "Key=a",
        "0:AA",
    ),
    "xxxxxx$xxxxx000000curl000xxxMIpwd=gp_",
    "ppxxxxxxxxxTRAVISxxxxDotmailerhunter_ioxxxxxrlvaluet@t7,'pass=nngyazob",
    "Eventbritemapbox-pwd=Atest_dHxxxxxxxxxxxxxxxxxxxxxxxcutest_fNstomnytimesercontribsys__comuexxxxxxxMjk@lin1 b;",
    "a Auth0Onesignal -NzAIRBRAKEtencentpwd=a;",
)
_CHARS: Final = 20_000
_MOST_PIECES: Final = 5
_SPECIMENS: Final = 40  # kept and changed further
_VALUES: Final = (
    "a",
    "a1",
    "1",
    "A",
    "a b",
    "a1b2c3d4e5f6",
    "x" * 30,
    "0" * 20,
    "password",
    "Server=a",
    "curl",
    "value",
)
_SIGNS: Final = (
    *"=:;\"'`,./\\ \n\t<>()[]{}|&@%$#!~*-_",
    "://",
    "=>",
    ":=",
    "\\n",
    '\\"',
    "</",
    "--",
    "${",
    "[masked: ",
)


def speed(piece: str, chars: int = _CHARS) -> float:
    """Return how many megabytes of that piece are masked in a second of CPU time."""
    text = (piece * (chars // len(piece) + 1))[:chars]
    began = time.process_time()
    Redactor().text(text)
    return len(text) / 1e6 / max(time.process_time() - began, 1e-9)


def search(seconds: float, seed: int, known: Iterable[str] = WORST) -> list[tuple[float, str]]:
    """Return the slowest pieces found in that time, the slowest first: pieces put together, and the worst changed."""
    chance = random.Random(seed)
    hints = sorted({hint for pattern in PATTERNS for hint in pattern.hints})
    specimens = sorted((speed(piece), piece) for piece in known)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        piece = (
            _made(chance, hints) if chance.random() < 1 / 2 else _changed(chance, hints, chance.choice(specimens)[1])
        )
        if not piece or any(piece == other for _, other in specimens):
            continue
        took = speed(piece)
        if len(specimens) < _SPECIMENS or took < specimens[-1][0]:
            # What else went on may have slowed it down: it counts if it is slow twice.
            specimens = sorted([*specimens, (max(took, speed(piece)), piece)])[:_SPECIMENS]
    return sorted((max(speed(piece, 5 * _CHARS), took), piece) for took, piece in specimens)


def _part(chance: random.Random, hints: Sequence[str]) -> str:
    vocabulary: Sequence[str] = chance.choice((hints, _VALUES, _SIGNS))
    return chance.choice(vocabulary)


def _made(chance: random.Random, hints: Sequence[str]) -> str:
    return "".join(_part(chance, hints) for _ in range(chance.randint(1, _MOST_PIECES)))


def _changed(chance: random.Random, hints: Sequence[str], piece: str) -> str:
    at, end = sorted((chance.randrange(len(piece) + 1), chance.randrange(len(piece) + 1)))
    match chance.randrange(3):
        case 0:
            return piece[:at] + _part(chance, hints) + piece[at:]
        case 1:
            return piece[:at] + piece[end:]
        case _:
            return piece[:at] + _part(chance, hints) + piece[end:]


def main() -> int:
    """Look for slow texts and print the slowest; fail if one is below the limit."""
    parser = argparse.ArgumentParser(description="Look for texts that take long to mask.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = search(options.seconds, options.seed)
    for took, piece in found:
        print(f"{took:7.2f} MB/s  {piece!r}")
    return int(found[0][0] < LEAST_SPEED)


if __name__ == "__main__":
    sys.exit(main())
