"""Masking: no text whatever raises, a masked text has nothing left to mask, and time grows no faster than the text."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from cc_trace.privacy.redactor import Redactor
from fuzz.mutations import change_bytes
from fuzz.target import BrokenError, Target

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from pathlib import Path

_LONG_CHARS: Final = 20_000  # where what grows as the square takes seconds, and what is linear a millisecond
_SHORT_CHARS: Final = 120
_MAX_SECONDS: Final = 0.5
_X: Final = "x" * 40
# Put together, because what looks like a key is taken for one, here too.
_SECRETS: Final = (
    *("sk-ant-" + "api03-" + "x" * 95, "sk-" + "proj-" + _X, "gh" + "p_" + "A1" * 18, "github_" + "pat_" + "A1" * 41),
    *("AKIA" + "IOSFODNN7EXAMPLE", "xox" + "b-1234567890-" + _X, "AIza" + "x" * 35, "glpat" + "-" + "x" * 20),
    *("eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxIn0." + _X, "sk_" + "live_" + "x" * 24, "npm" + "_" + "x" * 36),
    *("-----BEGIN RSA " + "PRIVATE KEY-----\nMIIx\n-----END RSA " + "PRIVATE KEY-----", "pk-lf-x", "sk-lf-" + _X),
    *("postgres://user:" + "pass@host:5432/db", "Authorization: Bearer " + _X, "password=hunter2", "API_KEY='a b'"),
    *(
        "https://user:" + "token@example.org/x?key=1&api_key=" + _X,
        '{"secret":"x"}',
        "export TOKEN=" + _X,
        "DB_PASSWORD: x",
    ),
    *(
        "curl -su a:b x",
        "docker login -p A_TOKEN",
        "mysql -pmonkey",
        "curl -b 'a=1; session=" + _X + "'",
        "sntryu_" + "0" * 40,
    ),
    *("host=h password=x user=y", '{"key":"DB_PASSWORD","value":"x"}', "IDENTIFIED BY 'x'", 'password = "a" -> "b"'),
    "MIIx" * 16 + "\n-----END RSA " + "PRIVATE KEY-----",
)


def _mutate(rng: random.Random, data: bytes) -> bytes:
    """Change bytes, put a secret into the text, or put two texts together."""
    at = rng.randrange(len(data) + 1)
    secret = rng.choice(_SECRETS).encode()
    match rng.randrange(5):
        case 0:
            return data[:at] + secret + data[at:]
        case 1:
            return data[:at] + secret[: rng.randrange(len(secret) + 1)] + data[at:]
        case 2:
            return (
                data[:at] + rng.choice((b"=", b": ", b'"', b"\\n", b'\\\\"', b" ", b"-", b"_", b"x" * 50)) + data[at:]
            )
        case _:
            return change_bytes(rng, data)


def _check(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    masked = Redactor().text(text)
    if Redactor().text(masked) != masked:
        message = f"masking twice is not the same as once: {masked!r}"
        raise BrokenError(message)
    value: Any = {text[:50]: [text, {"password": text}, None, 1.5]}
    once = Redactor().value(value)
    if Redactor().value(once) != once:
        message = f"masking a value twice is not the same as once: {once!r}"
        raise BrokenError(message)
    if 0 < len(text) <= _SHORT_CHARS:
        _check_time(text * (_LONG_CHARS // len(text)))


def _check_time(text: str) -> None:
    began = time.process_time()
    Redactor().text(text)
    if (took := time.process_time() - began) > _MAX_SECONDS:
        message = f"masking takes too long: {took:.1f} s for {len(text)} characters"
        raise BrokenError(message)


def _checker(_: Path) -> Callable[[bytes], None]:
    return _check


def _seeds() -> Iterator[bytes]:
    for secret in _SECRETS:
        yield secret.encode()
        yield f"say {secret}, and go on\n".encode()
    yield "\n".join(_SECRETS).encode()


TARGET: Final = Target(tuple(_seeds()), _mutate, _checker)
