"""Which models a Langfuse server has prices for. It computes costs when it ingests a span, so this is checked before.

Rules:
- A server is queried once a day, and after a failure not for an hour; the answer is cached in a file. A sync that finds
  what it needs there sends no request and imports nothing.
- When in doubt the server prices: a cost from us turns its own off, and its project may have its own prices.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from cc_trace.export.profiles.langfuse import usage_buckets
from cc_trace.files import read_regular, write_private
from cc_trace.pricing import is_long_context

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cc_trace.export.langfuse_api import Failure
    from cc_trace.transcript import Usage

_VERSION: Final = 1
_FRESH_SECONDS: Final = 86_400.0
_PAUSE_SECONDS: Final = 3_600.0
_MAX_BYTES: Final = 4_000_000
_MAX_NAMES: Final = 200
_MATCH_SECONDS: Final = 0.05  # patterns come from the server and may take forever


class ModelPrice(NamedTuple):
    """A server's price: which model names it matches, for which usage, and whether it depends on more."""

    pattern: str
    usage: tuple[str, ...]
    tiered: bool
    from_project: bool  # the project's, which takes precedence over the server's built-in prices


@dataclass(slots=True)
class _Known:
    """The contents of the cache file."""

    time: float = 0.0
    failed: bool = False
    models: list[ModelPrice] | None = None  # None: not queried yet
    by_name: dict[str, ModelPrice | None] = field(default_factory=dict)  # results of earlier lookups


class Prices:
    """The prices of one project on one server, cached in `folder`, or without one only in this object."""

    def __init__(
        self,
        folder: Path | None,
        project: str,
        ask: Callable[[], Sequence[ModelPrice] | Failure],
        now: Callable[[], float],
    ) -> None:
        name = hashlib.sha256(project.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._path = None if folder is None else folder / f"langfuse-prices-{name}.json"
        self._ask, self._now = ask, now
        self._known: _Known | None = None

    def is_missing(self, model: str, usage: Usage, at_ns: int | None, *, may_query: bool) -> bool:
        """Return whether the server is known to have no price, or only a partial one, for a response."""
        known = self._fresh(may_query=may_query)
        if known.models is None:
            return False
        if model not in known.by_name:
            known.by_name[model] = _matching(known.models, model)
            self._save(known)
        price = known.by_name[model]
        if price is None:
            return True
        if price.from_project:
            return False
        used = {name for name, tokens in usage_buckets(usage).items() if tokens}
        if usage.web_searches or not used.issubset(price.usage):
            return True
        return not price.tiered and is_long_context(model, usage, at_ns)

    def _fresh(self, *, may_query: bool) -> _Known:
        """Return what is known, after querying the server if it is missing or outdated."""
        known = self._known = self._known or self._read() or _Known()
        age = self._now() - known.time
        if may_query and not 0 <= age < (_PAUSE_SECONDS if known.failed else _FRESH_SECONDS):
            answer = self._ask()
            known.time, known.failed = self._now(), not isinstance(answer, list)
            if isinstance(answer, list):
                known.models, known.by_name = answer, {}
            self._save(known)
        return known

    def _read(self) -> _Known | None:
        if self._path is None:
            return None
        try:
            raw = orjson.loads(read_regular(self._path, _MAX_BYTES))
            return _from_json(raw)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def _save(self, known: _Known) -> None:
        if self._path is None:
            return
        names = list(known.by_name.items())[-_MAX_NAMES:]
        raw = {
            "version": _VERSION,
            "time": known.time,
            "failed": known.failed,
            "models": None if known.models is None else [list(price) for price in known.models],
            "by_name": {name: None if price is None else list(price) for name, price in names},
        }
        try:
            write_private(self._path, orjson.dumps(raw))
        except OSError:
            return  # it will be queried again


def _from_json(raw: dict[str, Any]) -> _Known | None:
    if raw["version"] != _VERSION:
        return None
    names = {str(name): None if row is None else _price(row) for name, row in raw["by_name"].items()}
    models = None if raw["models"] is None else [_price(row) for row in raw["models"]]
    return _Known(float(raw["time"]), bool(raw["failed"]), models, names)


def _price(row: list[Any]) -> ModelPrice:
    pattern, usage, tiered, from_project = row
    return ModelPrice(str(pattern), tuple(map(str, usage)), bool(tiered), bool(from_project))


def _matching(models: Sequence[ModelPrice], name: str) -> ModelPrice | None:
    """Return the price that a server uses for a model: the project's own first, else the newest."""
    import regex  # noqa: PLC0415  (only for names not seen before)

    for price in sorted(models, key=lambda each: not each.from_project):
        try:
            if regex.search(price.pattern, name, timeout=_MATCH_SECONDS):
                return price
        except (regex.error, TimeoutError, RecursionError):
            continue
    return None
