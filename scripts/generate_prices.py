"""Writes `cc_trace/pricing/price_table.py` from genai-prices, or with `--check` tells whether it is current.

The rule here: whatever genai-prices says of a Claude model is either written out or refused with an error, so
that a new kind of price in a later version is noticed and not silently dropped.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from genai_prices import __version__
from genai_prices.data import providers
from genai_prices.types import (
    ClauseContains,
    ClauseEquals,
    ClauseOr,
    ClauseRegex,
    ClauseStartsWith,
    ConditionalPrice,
    ModelPrice,
    StartDateConstraint,
    TieredPrices,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date
    from decimal import Decimal

    from genai_prices.types import ModelInfo

TARGET = Path(__file__).resolve().parent.parent / "cc_trace" / "pricing" / "price_table.py"

# Each column of the table with the price keys that set it, the first one present winning: genai-prices
# charges tokens of a kind without a price of its own at the price of the wider kind they belong to.
COLUMNS = (
    ("input", ("input_mtok",)),
    ("output", ("output_mtok",)),
    ("cache_read", ("cache_read_mtok", "input_mtok")),
    ("cache_write_5m", ("cache_write_5m_mtok", "cache_write_mtok", "input_mtok")),
    ("cache_write_1h", ("cache_write_1h_mtok", "cache_write_mtok", "input_mtok")),
    ("web_search", ("web_searches_kcount",)),
)
KNOWN_KEYS = {key for _, keys in COLUMNS for key in keys}

# Claude Code makes no batch requests, so these discounts never apply to its responses.
IGNORED_VARIANT = {"processing": "batch"}

# What genai-prices lacks: with a context of more than 200,000 tokens Sonnet 4 costs what Sonnet 4.5 does, twice as much
# and output half as much again, as Anthropic's price list says. An entry goes when genai-prices has tiers of its own.
ADDED: dict[str, tuple[str | float | None, ...]] = {
    "claude-sonnet-4-0": (None, 200_001, 6.0, 22.5, 0.6, 7.5, 12.0, 10.0),
}

HEADER = '''"""Prices of Claude models: generated, do not edit.

Written by scripts/generate_prices.py from genai-prices {version}, with the long contexts that it lacks.
A model without a row has no known price, and there is no price of fast mode for any model.
"""

from typing import Final, TypeAlias

Row: TypeAlias = tuple[str | None, int, float, float, float, float, float, float | None]
'''

MATCHES_HEADER = """
# (kind of comparison, text, model id): the first that holds for a lower-case model name decides.
MATCHES: Final[tuple[tuple[str, str, str], ...]] = (
"""

PRICES_HEADER = """
# Model id to rows of: first day in UTC (None: always), smallest context in tokens (input and cache together),
# then USD per million tokens of
#   {tokens},
# and USD per thousand web searches (None: not known). The last row whose day and context are reached holds.
PRICES: Final[dict[str, tuple[Row, ...]]] = {{
"""


def refuse(model: ModelInfo, what: object) -> NoReturn:
    """Stop: the table has no way to express this part of the data."""
    message = f"{model.id}: genai-prices {__version__} has something this script cannot express: {what!r}"
    raise SystemExit(message)


def comparisons(model: ModelInfo) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of each comparison of which one must hold for a name to mean this model."""
    clauses = model.match.or_ if isinstance(model.match, ClauseOr) else [model.match]
    for clause in clauses:
        match clause:
            case ClauseStartsWith():
                yield "starts_with", clause.starts_with.lower()
            case ClauseContains():
                yield "contains", clause.contains.lower()
            case ClauseEquals():
                yield "equals", clause.equals.lower()
            case ClauseRegex():
                yield "regex", clause.regex
            case _:
                refuse(model, clause)


def periods(model: ModelInfo) -> Iterator[tuple[date | None, ModelPrice]]:
    """Yield each set of prices with its first day, oldest first."""
    for variant in model.price_variants or ():
        if variant.when != IGNORED_VARIANT:
            refuse(model, variant)
    if isinstance(model.prices, ModelPrice):
        yield None, model.prices
        return
    previous: date | None = None
    for index, conditional in enumerate(model.prices):
        since = first_day(model, conditional)
        # genai-prices takes the last one that holds, and the first where none does. This equals "the newest
        # one begun" only if the days ascend; the first then needs no day.
        if index > 0 and (since is None or (previous is not None and since <= previous)):
            refuse(model, conditional)
        yield (since if index else None), conditional.prices
        previous = since


def first_day(model: ModelInfo, conditional: ConditionalPrice) -> date | None:
    """Give the day from which these prices hold, None if from the beginning."""
    if conditional.constraint is None:
        return None
    if not isinstance(conditional.constraint, StartDateConstraint):
        refuse(model, conditional.constraint)
    return conditional.constraint.start_date


def rates(model: ModelInfo, price: ModelPrice) -> dict[str, Decimal | TieredPrices]:
    """Give the price of each column that has one."""
    present: dict[str, Decimal | TieredPrices] = {key: value for key, value in vars(price).items() if value is not None}
    if not {"input_mtok", "output_mtok"} <= present.keys() <= KNOWN_KEYS:
        refuse(model, price)
    found = {column: next((key for key in keys if key in present), None) for column, keys in COLUMNS}
    return {column: present[key] for column, key in found.items() if key is not None}


def rate_for(rate: Decimal | TieredPrices | None, context: int) -> float | None:
    """Give the rate for all tokens of a request whose context has this size."""
    if isinstance(rate, TieredPrices):
        reached = [tier.price for tier in rate.tiers if context > tier.start]
        rate = reached[-1] if reached else rate.base
    return None if rate is None else float(rate)


def rows(model: ModelInfo) -> Iterator[tuple[str | float | None, ...]]:
    """Yield the rows of one model, by day and then by context size."""
    for since, price in periods(model):
        by_column = rates(model, price)
        tiered = [rate for rate in by_column.values() if isinstance(rate, TieredPrices)]
        # A tier begins above its start, and token counts are whole.
        for context in sorted({0, *(tier.start + 1 for rate in tiered for tier in rate.tiers)}):
            day = None if since is None else since.isoformat()
            yield day, context, *(rate_for(by_column.get(column), context) for column, _ in COLUMNS)
        if model.id in ADDED:
            if tiered or since is not None:
                refuse(model, "prices that it did not have when ADDED was written")
            yield ADDED[model.id]


def literal(value: str | int | float | None) -> str:  # noqa: PYI041  (whole numbers are written in another form)
    """Write a value as Python source in the style of the formatter."""
    if isinstance(value, str):
        return f'r"{value}"' if "\\" in value else f'"{value}"'
    return f"{value:_}" if isinstance(value, int) else repr(value)


def tuple_of(values: Sequence[str | float | None]) -> str:
    """Write one tuple as Python source."""
    return f"({', '.join(map(literal, values))})"


def render(models: Sequence[ModelInfo]) -> str:
    """Write the whole module, the models in the order of genai-prices, since the first match decides."""
    parts = [HEADER.format(version=__version__), MATCHES_HEADER]
    for model in models:
        parts += [f"    {tuple_of((kind, text, model.id))},\n" for kind, text in comparisons(model)]
    parts += [")\n", PRICES_HEADER.format(tokens=", ".join(column for column, _ in COLUMNS[:-1]))]
    for model in models:
        lines = [tuple_of(row) for row in rows(model)]
        # The code formatter would join a tuple of one row into one line.
        value = f"{lines[0]}," if len(lines) == 1 else "\n        " + ",\n        ".join(lines) + ",\n    "
        parts.append(f"    {literal(model.id)}: ({value}),\n")
    parts.append("}\n")
    return "".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table, or with `--check` compare it; 1 if it is not current."""
    parser = argparse.ArgumentParser(description="Write the prices of Claude models from genai-prices.")
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if not current")
    parser.add_argument("--output", type=Path, default=TARGET, help="the file to write or check")
    options = parser.parse_args(arguments)
    output: Path = options.output
    text = render(next(provider.models for provider in providers if provider.id == "anthropic"))
    if not options.check:
        output.write_text(text, encoding="utf-8")
        return 0
    if output.is_file() and output.read_text(encoding="utf-8") == text:
        return 0
    message = f"{output.name} is not what genai-prices {__version__} gives: run scripts/generate_prices.py\n"
    sys.stderr.write(message)
    return 1


if __name__ == "__main__":
    sys.exit(main())
