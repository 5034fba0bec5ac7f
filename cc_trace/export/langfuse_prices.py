"""What a Langfuse server has a price for. It fixes a cost when it takes a span, so this is asked before.

Rules:
- A server is asked once a day, and after a failure not for an hour: the answer is kept in a file. A sync that finds
  there what it needs asks nobody and imports nothing.
- In doubt the server prices: a cost from us turns its own off, and its project may have prices of its own.
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
_MATCH_SECONDS: Final = 0.05  # a pattern is the server's, and may take for ever


class ModelPrice(NamedTuple):
    """A price of a server: whose names match, for which usage, and whether it depends on more than that."""

    pattern: str
    usage: tuple[str, ...]
    tiered: bool
    own: bool  # the project's, which goes before those that come with the server


@dataclass(slots=True)
class _Known:
    """What is in the file."""

    time: float = 0.0
    failed: bool = False
    models: list[ModelPrice] | None = None  # None: nothing is known yet
    by_name: dict[str, ModelPrice | None] = field(default_factory=dict)  # those that were looked for


class Prices:
    """The prices of one project on one server, kept below `folder`; without one, only as long as this object."""

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

    def lacks(self, model: str, usage: Usage, at_ns: int | None, *, may_ask: bool) -> bool:
        """Tell whether the server is known to have no price, or not the whole price, for a response."""
        known = self._fresh(may_ask=may_ask)
        if known.models is None:
            return False
        if model not in known.by_name:
            known.by_name[model] = _matching(known.models, model)
            self._save(known)
        price = known.by_name[model]
        if price is None:
            return True
        if price.own:
            return False
        used = {name for name, tokens in usage_buckets(usage).items() if tokens}
        if usage.web_searches or not used.issubset(price.usage):
            return True
        return not price.tiered and is_long_context(model, usage, at_ns)

    def _fresh(self, *, may_ask: bool) -> _Known:
        """Return what is known, asked for where it is not or is old."""
        known = self._known = self._known or self._read() or _Known()
        age = self._now() - known.time
        if may_ask and not 0 <= age < (_PAUSE_SECONDS if known.failed else _FRESH_SECONDS):
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
            return  # it is asked again


def _from_json(raw: dict[str, Any]) -> _Known | None:
    if raw["version"] != _VERSION:
        return None
    names = {str(name): None if row is None else _price(row) for name, row in raw["by_name"].items()}
    models = None if raw["models"] is None else [_price(row) for row in raw["models"]]
    return _Known(float(raw["time"]), bool(raw["failed"]), models, names)


def _price(row: list[Any]) -> ModelPrice:
    pattern, usage, tiered, own = row
    return ModelPrice(str(pattern), tuple(map(str, usage)), bool(tiered), bool(own))


def _matching(models: Sequence[ModelPrice], name: str) -> ModelPrice | None:
    """Return the price that a server takes for a model: the project's own first, else the newest."""
    import regex  # noqa: PLC0415  (only for a name that was not seen before)

    for price in sorted(models, key=lambda each: not each.own):
        try:
            if regex.search(price.pattern, name, timeout=_MATCH_SECONDS):
                return price
        except (regex.error, TimeoutError, RecursionError):
            continue
    return None
