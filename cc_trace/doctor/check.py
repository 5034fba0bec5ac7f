"""The result of a check, and how it is worded."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from cc_trace.doctor.subject import Subject

Verdict: TypeAlias = Literal["ok", "warning", "failed"]


class Check(NamedTuple):
    """The result of one check. Every result that is not ok says how to fix it."""

    name: str
    verdict: Verdict
    found: str
    fix: str | None = None


def ok(name: str, finding: str) -> Check:
    """Return a passed check."""
    return Check(name, "ok", finding)


def warning(name: str, finding: str, fix: str) -> Check:
    """Return a warning: something is odd, but traces arrive."""
    return Check(name, "warning", finding, fix)


def failed(name: str, finding: str, fix: str) -> Check:
    """Return a failure: traces do not arrive, or others can read them."""
    return Check(name, "failed", finding, fix)


def run_check(check: Callable[[Subject], Iterable[Check]], subject: Subject) -> Iterator[Check]:
    """Run a check and yield its results. A bug in one check is reported and does not stop the others."""
    try:
        yield from check(subject)
    except Exception as error:  # noqa: BLE001  (whatever it is, it is named)
        name = check.__name__.replace("_", " ")
        finding = f"the check failed with {type(error).__name__}: {error}"
        yield failed(name, finding, "report this as a bug in cc-trace, with the output of `cc-trace doctor --json`")


def moment(seconds: float) -> str:
    """Format a time."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # a file's time can be anything
        return f"{seconds:g} seconds after 1970"


def listed(items: Iterable[object], limit: int = 3) -> str:
    """Join the first few items, and say how many more there are."""
    texts = [str(item) for item in items]
    rest = f" and {len(texts) - limit} more" if len(texts) > limit else ""
    return ", ".join(texts[:limit]) + rest


def mtime(path: Path) -> float:
    """Return when a file was last written; 0 if there is none."""
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0
