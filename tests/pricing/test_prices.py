"""Shows that `cost_usd` gives what genai-prices computes, and None for what has no price.

The rule here: the expected cost is the library's own answer to the raw usage object Anthropic sends, or is
worked out by hand; it never comes from the table under test.
"""

from __future__ import annotations

import runpy
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from cc_trace.pricing.price_table import PRICES
from cc_trace.pricing.prices import cost_usd
from cc_trace.transcript.entries import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "generate_prices.py"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FAR_FUTURE = datetime(9000, 1, 1, tzinfo=UTC)

SONNET_4, LONG = "claude-sonnet-4-0", 200_000

# Different primes, so that no two kinds of token can be exchanged without changing the sum.
MIXED = Usage(1_009, 2_003, 3_001, 4_001, 5_003, 7)


@pytest.fixture(scope="module")
def library() -> ModuleType:
    """Give genai-prices, or skip the test."""
    module: ModuleType = pytest.importorskip("genai_prices", reason="needs genai-prices to compare with")
    return module


@pytest.fixture(scope="module")
def claude_models(library: ModuleType) -> list[ModelInfo]:
    """Give what genai-prices knows of Anthropic's models."""
    provider = library.data_snapshot.get_snapshot().find_provider(None, "anthropic", None)
    return list(provider.models)


@pytest.fixture(scope="module")
def script(library: ModuleType) -> SimpleNamespace:
    """Give the functions of the generator."""
    assert library.__name__ == "genai_prices"
    return SimpleNamespace(**runpy.run_path(str(SCRIPT)))


def ns(moment: datetime) -> int:
    """Give unix nanoseconds without rounding through a float."""
    return (moment - EPOCH) // timedelta(microseconds=1) * 1_000


def library_cost(library: ModuleType, model: str, usage: Usage, moment: datetime) -> float | None:
    """Let genai-prices read the usage object that Anthropic would have sent, and price it."""
    raw = {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write_5m + usage.cache_write_1h,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write_5m,
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        },
        "server_tool_use": {"web_search_requests": usage.web_searches},
    }
    try:
        extracted = library.extract_usage({"model": model, "usage": raw}, provider_id="anthropic")
    except LookupError:
        return None
    return float(extracted.calc_price(genai_request_timestamp=moment).total_price)


def close_to(cost: float | None) -> object:
    """Allow for the rounding of floats only."""
    return cost if cost is None else pytest.approx(cost, rel=1e-12, abs=0)


def alone(count: int) -> list[Usage]:
    """Give a usage of each kind that is charged, with nothing else in it."""
    return [
        Usage(input=count),
        Usage(output=count),
        Usage(cache_read=count),
        Usage(cache_write_5m=count),
        Usage(cache_write_1h=count),
        Usage(web_searches=count),
    ]


def tier_starts_and_change_days(models: list[ModelInfo]) -> tuple[set[int], set[date]]:
    """Give each context size above which, and each day from which, some model costs something else."""
    starts, days = set(), set()
    for model in models:
        for period in model.prices if isinstance(model.prices, list) else [model]:
            for price in vars(period.prices).values():
                starts |= {tier.start for tier in getattr(price, "tiers", ())}
            if constraint := getattr(period, "constraint", None):
                days.add(constraint.start_date)
    return starts, days


def test_table_has_every_model_of_the_library(claude_models: list[ModelInfo]) -> None:
    """No Claude model of genai-prices is missing from the table, and none was invented."""
    assert set(PRICES) == {model.id for model in claude_models}


@pytest.mark.parametrize("model", PRICES)
def test_costs_are_the_librarys(library: ModuleType, claude_models: list[ModelInfo], model: str) -> None:
    """Each kind alone and all together, around each tier and each price change, cost as in the library."""
    starts, days = tier_starts_and_change_days(claude_models)
    assert starts
    assert days
    sizes = [1_237, *(start + step for start in starts for step in (0, 1))]
    usages = [MIXED, *(usage for size in sizes for usage in alone(size))]
    # Cache reads and writes count towards the context, output does not.
    usages += [Usage(size - 600, 999_983, 100, 200, 300, 2) for size in sizes]
    midnights = [datetime.combine(day, time(), UTC) for day in days]
    eves = [midnight - timedelta(microseconds=1) for midnight in midnights]
    for usage, moment in product(usages, [EPOCH, *eves, *midnights, FAR_FUTURE]):
        context = usage.input + usage.cache_read + usage.cache_write_5m + usage.cache_write_1h
        if model == SONNET_4 and context > LONG:
            continue  # which the library does not know
        expected = library_cost(library, model, usage, moment)
        assert expected is not None
        assert cost_usd(model, usage, ns(moment)) == close_to(expected), (usage, moment)


def test_names_mean_the_same_models_as_in_the_library(library: ModuleType) -> None:
    """A name is priced as in the library, by prefix, exact name or pattern, or is unknown as there."""
    bases = ["claude-2", "claude-2.1", "claude-v1", "claude-v2", "my-claude-v2", "claude-instant-1"]
    minors = ["", *(f"{separator}{minor}" for separator in "-." for minor in range(10))]
    families = ("opus", "sonnet", "haiku", "fable", "mythos")
    for family, major, minor in product(families, range(2, 7), minors):
        bases += [f"claude-{family}-{major}{minor}", f"claude-{major}{minor}-{family}"]
    ends = ("", "-latest", "-20250514", "-20260102", "-2026-01-02", "-2026010", "x", "@x")
    priced = set()
    for base, end in product(bases, ends):
        expected = library_cost(library, base + end, MIXED, FAR_FUTURE)
        assert cost_usd(base + end, MIXED, None) == close_to(expected), base + end
        priced.add(expected is not None)
    assert priced == {True, False}


@pytest.mark.parametrize(
    ("model", "usage", "day", "cost"),
    [
        ("claude-opus-4-5-20251101", Usage(1_000_000, 100_000), "2026-01-01", 5.0 + 2.5),
        ("claude-haiku-4-5", Usage(0, 0, 1_000_000, 400_000, 500_000), "2026-01-01", 0.1 + 0.5 + 1.0),
        ("claude-opus-4-6", Usage(200_000), "2026-03-12", 1.0),
        ("claude-opus-4-6", Usage(100_000, 0, 100_001), "2026-03-12", 1.0 + 0.100001),
        ("claude-opus-4-6", Usage(100_000, 0, 100_001), "2026-03-13", 0.5 + 0.0500005),
        ("claude-sonnet-4-20250514", Usage(200_000, 1_000_000), "2025-09-01", 0.6 + 15.0),
        ("claude-sonnet-4-20250514", Usage(100_000, 1_000_000, 100_001), "2025-09-01", 0.6 + 0.0600006 + 22.5),
        ("claude-sonnet-4@20250514", Usage(1, 0, 0, 100_000, 100_000), "2025-09-01", 0.000006 + 0.75 + 1.2),
        ("claude-sonnet-4-5", Usage(10, 1_000_000, web_searches=3), "2026-01-01", 0.00003 + 15.0 + 0.03),
    ],
)
def test_worked_examples(model: str, usage: Usage, day: str, cost: float) -> None:
    """Costs worked out by hand from the rates per million tokens hold, also without genai-prices."""
    moment = datetime.combine(date.fromisoformat(day), time(23, 59), UTC)
    assert cost_usd(model, usage, ns(moment)) == close_to(cost)


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-4-6"])
def test_no_time_means_the_newest_price(model: str) -> None:
    """Without a time, a model whose long contexts became cheaper costs the new price, not the old one."""
    usage = Usage(500_000)
    newest = cost_usd(model, usage, ns(FAR_FUTURE))
    assert cost_usd(model, usage, None) == newest
    assert cost_usd(model, usage, ns(EPOCH)) != newest


def test_writes_not_told_apart_cost_as_5m_writes() -> None:
    """`split` does not change the cost: writes not told apart stand in the 5m field, and cost that."""
    usage = Usage(cache_write_5m=1_000_000, split=False)
    assert cost_usd("claude-opus-4-5", usage, None) == close_to(6.25)


@pytest.mark.parametrize(
    "model",
    [
        "<synthetic>",
        "",
        "claude",
        "gpt-5",
        "claude-opus-9",
        "claude-opus-5-6",
        "claude-mythos-5-1",
        "claude-opus-4@20250805",
        "anthropic.claude-opus-9-v1:0",
        "anthropic.claude-instant-v1",
        "arn:aws:bedrock:us-east-1:1:application-inference-profile/abcdefgh1234",
        "@20250929",
    ],
)
def test_unknown_model_has_no_cost(model: str) -> None:
    """A model without a known price costs None, with and without usage, never 0."""
    assert cost_usd(model, MIXED, None) is None
    assert cost_usd(model, Usage(), None) is None


def test_known_model_without_usage_costs_nothing() -> None:
    """No tokens of a known model cost 0: that is known, unlike the cost of an unknown model."""
    assert cost_usd("claude-opus-4-5", Usage(), None) == 0


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("claude-opus-5[1m]", "claude-opus-5"),
        ("claude-fable-5-1[1m]", "claude-fable-5-1"),
        ("Claude-Haiku-5-5[1M]", "claude-haiku-5-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929"),
        ("us.anthropic.claude-opus-4-20250514-v1:0", "claude-opus-4-20250514"),
        ("anthropic.claude-fable-5-20260609-v1:0", "claude-fable-5"),
        ("anthropic.claude-fable-5-1-v1:0[1m]", "claude-fable-5-1"),
        ("global.anthropic.claude-opus-5-5", "claude-opus-5-5"),
        ("us-gov.anthropic.claude-haiku-4-5-20251001-v1:0:200k", "claude-haiku-4-5"),
        ("anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3-5-sonnet"),
        ("anthropic.claude-v2:1", "claude-2"),
        ("anthropic.claude-v1", "claude-v1"),
        ("arn:aws:bedrock:us-east-2:1:inference-profile/eu.anthropic.claude-opus-5-v1", "claude-opus-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5-20250929"),
        ("claude-opus-4@20250514", "claude-opus-4-20250514"),
        ("claude-opus-5-5@20260901", "claude-opus-5-5"),
        ("claude-fable-5-1@default", "claude-fable-5-1"),
        ("claude-3-5-sonnet-v2@20241022", "claude-3-5-sonnet"),
    ],
)
def test_suffix_bedrock_and_vertex_names(library: ModuleType, name: str, model: str) -> None:
    """A `[1m]` suffix, a Bedrock or a Vertex form of a name costs what Anthropic's own name costs."""
    expected = library_cost(library, model, MIXED, FAR_FUTURE)
    assert expected is not None
    assert cost_usd(name, MIXED, None) == close_to(expected)


@pytest.mark.parametrize("model", PRICES)
def test_fast_mode_has_no_known_cost(model: str) -> None:
    """A response in fast mode costs None, not the standard price, since no fast price is known."""
    assert cost_usd(model, Usage(1_000, 1_000, fast=True), None) is None
    assert cost_usd(f"{model}-fast", Usage(1_000, 1_000), None) is None
    assert cost_usd(model, Usage(1_000, 1_000), None) is not None


def test_searches_without_a_price_leave_the_cost_of_the_tokens() -> None:
    """Web searches of a model without a search price add nothing, those of another model 1 cent each."""
    usage = Usage(1_000_000, web_searches=2)
    assert cost_usd("claude-3-opus-20240229", usage, None) == close_to(15.0)
    assert cost_usd("claude-opus-4-1", usage, None) == close_to(15.02)


def test_table_is_what_the_script_writes(script: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    """The table in the repository is current for the installed genai-prices."""
    assert script.main(["--check"]) == 0, capsys.readouterr().err


def test_check_tells_a_stale_table(script: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check` gives 0 for what the script wrote, and 1 with a single line for a changed or missing file."""
    output = tmp_path / "price_table.py"
    assert script.main(["--check", "--output", str(output)]) == 1
    assert not output.exists()
    assert script.main(["--output", str(output)]) == 0
    capsys.readouterr()
    assert script.main(["--check", "--output", str(output)]) == 0
    assert capsys.readouterr() == ("", "")
    output.write_text(output.read_text().replace("18.75", "18.76"))
    assert script.main(["--check", "--output", str(output)]) == 1
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("price_table.py is not what genai-prices")


def test_script_refuses_what_it_cannot_write(library: ModuleType, script: SimpleNamespace) -> None:
    """A new kind of price, condition or name in genai-prices stops the script and is not left out."""
    kinds = library.types
    price = kinds.ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(2))
    name = kinds.ClauseEquals("claude-x")
    later = kinds.ConditionalPrice(kinds.StartDateConstraint(date(2026, 1, 2)), prices=price)
    night = kinds.ConditionalPrice(kinds.TimeOfDateConstraint(time(1), time(2)), prices=price)
    fast = kinds.PriceVariant({"speed": "fast"}, price)
    batch = kinds.PriceVariant({"processing": "batch"}, price)
    audio = kinds.ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(2), input_audio_mtok=Decimal(3))
    refused = [
        kinds.ModelInfo("claude-x", kinds.ClauseAnd([name]), prices=price),
        kinds.ModelInfo("claude-x", name, prices=audio),
        kinds.ModelInfo("claude-x", name, prices=kinds.ModelPrice(input_mtok=Decimal(1))),
        kinds.ModelInfo("claude-x", name, prices=[night]),
        kinds.ModelInfo("claude-x", name, prices=[later, later]),
        kinds.ModelInfo("claude-x", name, prices=price, price_variants=[batch, fast]),
    ]
    for model in refused:
        with pytest.raises(SystemExit, match=r"claude-x: genai-prices .* cannot express"):
            script.render([model])
    tiers = kinds.TieredPrices(base=Decimal(1), tiers=[kinds.Tier(start=1, price=Decimal(2))])
    tiered = kinds.ModelPrice(input_mtok=tiers, output_mtok=Decimal(2))
    with pytest.raises(SystemExit, match="did not have when ADDED was written"):
        script.render([kinds.ModelInfo(SONNET_4, name, prices=tiered)])
    accepted = kinds.ModelInfo("claude-x", name, prices=price, price_variants=[batch])
    assert '"claude-x": ((None, 0, 1.0, 2.0, 1.0, 1.0, 1.0, None),)' in script.render([accepted])
