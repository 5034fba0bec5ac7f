"""The table of token facts, each row by tokens made from it, and against a public rule set where it is at hand."""

from __future__ import annotations

import re
import sys
from random import Random
from string import ascii_letters
from typing import TYPE_CHECKING

import pytest
from shared import ROOT, SHARED

from cc_trace.privacy.redactor import Redactor
from cc_trace.privacy.token_facts import ALPHABETS, GITLEAKS, TOKEN_FACTS, TokenFact

if TYPE_CHECKING:
    from types import ModuleType

MARKER = r"\[masked: [a-z0-9 ]{1,40}\]"
RULES = SHARED / "secrets" / "gitleaks-rules.toml"


def made(body: str, random: Random, only: str = "") -> str:
    """A text as the body says, of the least length; of these characters only, where the alphabet has them."""

    def run(found: re.Match[str]) -> str:
        characters = re.findall(f"[{ALPHABETS[found[1]]}]", "".join(map(chr, range(128))))
        characters = [each for each in characters if not only or each in only] or characters
        return "".join(random.choice(characters) for _ in range(int(found[2])))

    return re.sub(r"<([a-z0-9=]+) ([0-9]+)(?:\+|\.\.[0-9]+)?>", run, body)


def token(fact: TokenFact, prefix: str, random: Random) -> str:
    body = made(fact.body, random)
    while fact.digits and not re.search("[0-9]", body):
        body = made(fact.body, random)
    found = made(fact.front, random) + prefix + body
    # What ends a run may be a sign that a border stands behind.
    return f"{found[:-1]}7" if fact.body.endswith(">") and found[-1] in "-=.~/+" else found


@pytest.mark.parametrize("fact", TOKEN_FACTS, ids=lambda fact: f"{fact.name} {fact.prefixes[0]}")
@pytest.mark.parametrize(
    "around",
    [
        *("{}", "use {} now", 'x = "{}"', "a\n{}\nb", "- `{}`"),
        *("-{}\n+new", r"\\\"x\\\": \\\"{}\\\"", "https://h.example/?x={}&y=1"),
    ],
    ids=["alone", "words", "quotes", "lines", "code", "diff", "JSON within JSON", "URL"],
)
def test_a_token_as_the_table_says_is_masked_whole(fact: TokenFact, around: str) -> None:
    random = Random(1)
    for prefix in fact.prefixes:
        text = around.format(found := token(fact, prefix, random))
        expected = MARKER.join(map(re.escape, around.split("{}")))
        assert re.fullmatch(expected, Redactor().text(text)), found


@pytest.mark.parametrize("fact", TOKEN_FACTS, ids=lambda fact: f"{fact.name} {fact.prefixes[0]}")
def test_a_prefix_in_a_text_is_no_token(fact: TokenFact) -> None:
    """Nor is one behind which a name stands that has no digit, where a token has one."""
    for prefix in fact.prefixes:
        texts = [f"see {prefix} there", f"{prefix}example", f"x{prefix}"]
        texts += [f"see {prefix}{made(fact.body, Random(1), ascii_letters)} there"] if fact.digits else []
        for text in texts:
            assert Redactor().text(text) is text


@pytest.mark.parametrize(
    "token",
    ["5" * 41, "a" * 41, f"{'0123456789abcdef' * 3}", "d41d8cd98f00b204e9800998ecf8427e", "ion_" + "a" * 41],
)
def test_hashes_and_names_are_no_tokens(token: str) -> None:
    assert Redactor().text(f"see {token} there") == f"see {token} there"


@pytest.fixture(scope="module")
def recall() -> ModuleType:
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        import recall as module  # noqa: PLC0415 -- of the benchmarks, which are no package
    finally:
        sys.path.pop(0)
    return module


@pytest.mark.skipif(not RULES.is_file(), reason="the public rule set is not at hand")
def test_a_public_rule_set_finds_little_that_is_not_masked(recall: ModuleType) -> None:
    measured = recall.recalls(RULES)
    kinds = {each.kind for each in measured}
    assert kinds == {"bare", "keyed"}
    missed = {kind: [each.rule for each in measured if each.kind == kind and not each.found] for kind in kinds}
    assert {kind: recall.share(measured, kind) >= limit for kind, limit in recall.LIMITS.items()} == dict.fromkeys(
        kinds, True
    ), missed


@pytest.mark.skipif(not RULES.is_file(), reason="the public rule set is not at hand")
def test_a_prefix_said_to_be_of_a_rule_set_is_in_its_rules(recall: ModuleType) -> None:
    samples = "\n".join(recall.samples(RULES, 40)).lower()
    said = [(fact.name, prefix) for fact in TOKEN_FACTS if fact.source == GITLEAKS for prefix in fact.prefixes]
    assert [each for each in said if each[1].lower() not in samples] == []


@pytest.mark.skipif(not RULES.is_file(), reason="the public rule set is not at hand")
def test_the_samples_of_a_rule_set_are_the_same_in_every_run(recall: ModuleType) -> None:
    assert recall.recalls(RULES) == recall.recalls(RULES)
