"""Which models a Langfuse server has prices for. It computes costs when it ingests a span, so this is checked before.

Rules:
- A server is queried at most once a day, and after a failure at most once an hour; the prices are cached in a file. A
  sync that needs no others sends no request and imports nothing.
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
    """A server's price: the models and the usage it is for, and whether there are tiers."""

    pattern: str
    usage: tuple[str, ...]
    tiered: bool
    from_project: bool  # the project's, which takes precedence over the server's built-in prices


@dataclass(slots=True)
class _Cache:
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
        query: Callable[[], Sequence[ModelPrice] | Failure],
        now: Callable[[], float],
    ) -> None:
        name = hashlib.sha256(project.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._path = None if folder is None else folder / f"langfuse-prices-{name}.json"
        self._query, self._now = query, now
        self._cache: _Cache | None = None

    def is_missing(self, model: str, usage: Usage, at_ns: int | None, *, may_query: bool) -> bool:
        """Return whether the server is known to have no price, or only a partial one, for a response."""
        cache = self._load(may_query=may_query)
        if cache.models is None:
            return False
        if model not in cache.by_name:
            cache.by_name[model] = _matching(cache.models, model)
            self._save(cache)
        price = cache.by_name[model]
        if price is None:
            return True
        if price.from_project:
            return False
        used = {name for name, tokens in usage_buckets(usage).items() if tokens}
        if usage.web_searches or not used.issubset(price.usage):
            return True
        return not price.tiered and is_long_context(model, usage, at_ns)

    def _load(self, *, may_query: bool) -> _Cache:
        """Return the cache, after querying the server if its prices are missing or outdated."""
        cache = self._cache = self._cache or self._read() or _Cache()
        age = self._now() - cache.time
        if may_query and not 0 <= age < (_PAUSE_SECONDS if cache.failed else _FRESH_SECONDS):
            models = self._query()
            cache.time, cache.failed = self._now(), not isinstance(models, list)
            if isinstance(models, list):
                cache.models, cache.by_name = models, {}
            self._save(cache)
        return cache

    def _read(self) -> _Cache | None:
        if self._path is None:
            return None
        try:
            raw = orjson.loads(read_regular(self._path, _MAX_BYTES))
            return _from_json(raw)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def _save(self, cache: _Cache) -> None:
        if self._path is None:
            return
        names = list(cache.by_name.items())[-_MAX_NAMES:]
        raw = {
            "version": _VERSION,
            "time": cache.time,
            "failed": cache.failed,
            "models": None if cache.models is None else [list(price) for price in cache.models],
            "by_name": {name: None if price is None else list(price) for name, price in names},
        }
        try:
            write_private(self._path, orjson.dumps(raw))
        except OSError:
            return  # it will be queried again


def _from_json(raw: dict[str, Any]) -> _Cache | None:
    if raw["version"] != _VERSION:
        return None
    names = {str(name): None if row is None else _price(row) for name, row in raw["by_name"].items()}
    models = None if raw["models"] is None else [_price(row) for row in raw["models"]]
    return _Cache(float(raw["time"]), bool(raw["failed"]), models, names)


def _price(row: list[Any]) -> ModelPrice:
    pattern, usage, tiered, from_project = row
    return ModelPrice(str(pattern), tuple(map(str, usage)), bool(tiered), bool(from_project))


def _matching(models: Sequence[ModelPrice], name: str) -> ModelPrice | None:
    """Return the price that a server uses for a model: the project's own first, else the newest."""
    import regex  # noqa: PLC0415  (only for names not seen before)

    for price in sorted(models, key=lambda price: not price.from_project):
        try:
            if regex.search(price.pattern, name, timeout=_MATCH_SECONDS):
                return price
        except (regex.error, TimeoutError, RecursionError):
            continue
    return None
